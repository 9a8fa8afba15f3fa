"""Boxes on the map: as they are in degrees, bent and never cut in a projection, flagged and never lost."""

from __future__ import annotations

import json

import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.export import box_shapes
from geolake_nb.jupyter.map_files import color_columns, overlap_depths
from geolake_nb.jupyter.map_layers import FLAGS, NO_BOX, NO_PLACE, OUT_OF_RANGE, float32_outward, place_boxes
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.model.types import GeographyType, RasterType
from geolake_nb.scan.coverage import mapped_column, overlap_depth
from tests.jupyter.mapped_tables import mapped_snapshot, random_boxes, touching


def column(*boxes):
    return BoxColumn.from_sides(*np.array(boxes, np.float64).reshape(-1, 4).T)


@pytest.mark.parametrize("where", [CRS84, Crs("EPSG:4326"), Crs("EPSG:4269"), GeographyType(), RasterType()])
def test_degrees_stay_as_they_are(where):
    boxes = random_boxes(200)
    placed = place_boxes(column(*boxes), where)
    np.testing.assert_array_equal(placed.boxes, boxes)
    assert len(placed.outlines.items) == 0
    assert placed.problems() == {}
    assert placed.drawn.all()


def test_what_cannot_be_drawn_is_flagged_and_what_is_missing_is_counted():
    nan, inf = np.nan, np.inf
    placed = place_boxes(
        column(
            (0, 0, 1, 1),
            (nan, nan, nan, nan),
            (170, 0, 190, 1),
            (0, 80, 1, 95),
            (-inf, 0, inf, 1),
            (0, 5, 1, 4),
            (190, 0, -170, 1),
            (nan, 0, 1, 1),
        ),
        CRS84,
    )
    assert placed.no_bounds.tolist() == [False, True, False, False, False, False, False, True]
    message = [placed.flag_of(item) for item in range(8)]
    assert message == [None, None, OUT_OF_RANGE, OUT_OF_RANGE, NO_BOX, NO_BOX, NO_BOX, None]
    assert placed.drawn.tolist() == [True, False, True, True, False, False, False, False]
    assert placed.problems() == {OUT_OF_RANGE: 2, NO_BOX: 3}


def test_a_box_that_ends_at_a_pole_or_the_antimeridian_may_be_rounded_outward():
    boxes = column((-180.0000000002, -90.0000000001, 180.0000000002, 90.0000000001))
    assert place_boxes(boxes, CRS84).problems() == {}


# Areas in their own unit: a zone, a cone, both poles, the Pacific over 180, a world in metres, grads from Paris.
AREAS = {
    "EPSG:32633": (2e5, 1e5, 8e5, 8e6),
    "EPSG:5070": (-2.3e6, 3e5, 2.2e6, 3e6),
    "EPSG:3031": (-3e6, -3e6, 3e6, 3e6),
    "EPSG:3995": (-3e6, -3e6, 3e6, 3e6),
    "EPSG:3832": (-9e6, -8e6, 9e6, 8e6),
    "EPSG:6933": (-1.6e7, -7e6, 1.6e7, 7e6),
    "EPSG:4807": (-5, 47, 7, 57),
}


@pytest.mark.parametrize("code", AREAS)
@pytest.mark.parametrize("share", [0.001, 0.05, 0.4])
def test_a_hull_holds_every_point_of_a_projected_box(code, share):
    draw = np.random.default_rng(2)
    west, south, east, north = AREAS[code]
    count = 400
    x, y = draw.uniform(west, east, count), draw.uniform(south, north, count)
    wide, high = draw.uniform(0, share * (east - west), count), draw.uniform(0, share * (north - south), count)
    boxes = np.column_stack([x, y, np.minimum(x + wide, east), np.minimum(y + high, north)])
    placed = place_boxes(column(*boxes), Crs(code))
    assert placed.problems() == {}
    way = pyproj.Transformer.from_crs(code, "OGC:CRS84", always_xy=True)
    for _ in range(60):
        u, v = draw.random(count), draw.random(count)
        side = draw.integers(0, 6, count)
        u, v = np.select([side == 0, side == 1], [0, 1], u), np.select([side == 2, side == 3], [0, 1], v)
        lon, lat = way.transform(
            boxes[:, 0] + u * (boxes[:, 2] - boxes[:, 0]), boxes[:, 1] + v * (boxes[:, 3] - boxes[:, 1])
        )
        low, bottom, high_, top = placed.boxes.T
        slack = 2e-9
        in_x = np.where(
            low > high_, (lon >= low - slack) | (lon <= high_ + slack), (lon >= low - slack) & (lon <= high_ + slack)
        )
        assert (in_x & (lat >= bottom - slack) & (lat <= top + slack)).all()


def test_the_hull_of_small_boxes_is_tight():
    boxes = np.array([[4e5 + 1e3 * n, 5e6, 4.01e5 + 1e3 * n, 5.001e6] for n in range(50)])
    placed = place_boxes(column(*boxes), Crs("EPSG:32633"))
    way = pyproj.Transformer.from_crs("EPSG:32633", "OGC:CRS84", always_xy=True)
    for box, hull in zip(boxes, placed.boxes, strict=True):
        truth = np.array(way.transform_bounds(*box, densify_pts=201))
        assert np.abs(hull - truth).max() < 0.02 * (truth[2] - truth[0])


def test_mercator_boxes_are_rectangles_and_need_no_outline():
    boxes = np.array([[-1e6, -2e6, 3e6, 9e6], [0, 0, 0, 0], [1e6, 0, 1e6, 5e5]])
    placed = place_boxes(column(*boxes), Crs("EPSG:3857"))
    assert len(placed.outlines.items) == 0
    way = pyproj.Transformer.from_crs(3857, 4326, always_xy=True)
    for corner in (slice(0, 2), slice(2, 4)):
        np.testing.assert_allclose(
            placed.boxes[:, corner], np.column_stack(way.transform(*boxes[:, corner].T)), atol=1e-9
        )


@pytest.mark.parametrize("box", [(2e5, 1e6, 8e5, 6e6), (4e5, 5e6, 4.1e5, 5.01e6)])
def test_an_outline_is_the_true_shape(box):
    placed = place_boxes(column(box), Crs("EPSG:32633"))
    [shape] = box_shapes(placed)
    way = pyproj.Transformer.from_crs(32633, "OGC:CRS84", always_xy=True)
    dense = shapely.segmentize(shapely.box(*box), max(box[2] - box[0], box[3] - box[1]) / 500)
    truth = shapely.transform(dense, lambda xy: np.column_stack(way.transform(*xy.T)))
    assert shape.symmetric_difference(truth).area < 0.01 * truth.area


@pytest.mark.parametrize(("code", "pole"), [("EPSG:3031", -90.0), ("EPSG:3995", 90.0)])
def test_a_box_around_a_pole_has_every_longitude_and_the_pole(code, pole):
    placed = place_boxes(column((-1e6, -1.2e6, 2e6, 1e6)), Crs(code))
    west, south, east, north = placed.boxes[0].tolist()
    assert (west, east) == (-180.0, 180.0)
    assert pole in (south, north)
    [(_, ring)] = list(placed.outlines)
    shape = shapely.Polygon(ring)
    assert shape.is_valid
    assert shape.bounds[0] == -180
    assert shape.bounds[2] == 180
    way = pyproj.Transformer.from_crs(code, "OGC:CRS84", always_xy=True)
    inside = [way.transform(x, y) for x, y in [(1.9e6, 0.9e6), (-0.9e6, -1.1e6), (1e3, 1e3)]]
    outside = [way.transform(x, y) for x, y in [(2.2e6, 0), (0, -1.4e6), (-1.2e6, 5e5)]]
    assert all(shape.covers(shapely.Point(point)) for point in inside)
    assert not any(shape.covers(shapely.Point(point)) for point in outside)


def test_an_outline_over_the_antimeridian_is_cut_into_two_parts_there():
    way = pyproj.Transformer.from_crs("OGC:CRS84", "EPSG:32601", always_xy=True)
    x, y = way.transform(-180.0, 60.0)
    placed = place_boxes(column((x - 2e5, y - 1e5, x + 2e5, y + 1e5)), Crs("EPSG:32601"))
    assert placed.boxes[0, 0] > 170
    assert placed.boxes[0, 2] < -170
    [shape] = box_shapes(placed)
    assert shape.geom_type == "MultiPolygon"
    assert shape.is_valid
    assert (shape.bounds[0], shape.bounds[2]) == (-180.0, 180.0)
    assert max(part.bounds[2] - part.bounds[0] for part in shape.geoms) < 5


@pytest.mark.parametrize("code", ["EPSG:32633", "EPSG:5070"])
def test_a_box_that_its_projection_does_not_know_is_flagged_and_not_drawn(code):
    placed = place_boxes(column((4e5, 4e6, 4.1e5, 4.1e6), (1e12, 1e12, 2e12, 2e12), (5e5, 0, 4e5, 1)), Crs(code))
    assert [placed.flag_of(item) for item in range(3)] == [None, NO_PLACE, NO_BOX]
    assert placed.drawn.tolist() == [True, False, False]
    assert not placed.no_bounds.any()


def test_an_unknown_crs_is_reported():
    placed = place_boxes(column((0, 0, 1, 1), (np.nan,) * 4), Crs("NOBODY:1"))
    [(text, count)] = placed.problems().items()
    assert "unknown authority" in text
    assert count == 1
    assert placed.no_bounds.tolist() == [False, True]


def test_without_a_crs_degrees_are_drawn_with_a_caution_and_metres_are_not():
    placed = place_boxes(column((0, 0, 1, 1), (4e5, 4e6, 5e5, 5e6)), Crs("SRID:0"))
    assert placed.drawn.tolist() == [True, False]
    assert "unknown" in placed.caution
    assert "not degrees" in placed.flag_of(1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-180, 180)] * 4), min_size=1, max_size=20))
def test_rounding_to_32_bits_never_takes_anything_away(rows):
    boxes = np.array([(w, min(s, n) / 2, e, max(s, n) / 2) for w, s, e, n in rows])
    rounded = float32_outward(boxes)
    assert (rounded == rounded.astype(np.float32)).all()
    assert (np.abs(rounded) <= [180, 90, 180, 90]).all()
    for window in random_boxes(40, seed=len(rows)):
        assert (touching(rounded, window) >= touching(boxes, window)).all()


def test_depths_are_those_of_the_table_check():
    boxes = random_boxes(600)
    depths = overlap_depths(place_boxes(column(*boxes), CRS84))
    known = overlap_depth(column(*boxes))
    assert depths.mean() == pytest.approx(known.mean)
    assert depths.max() == known.deepest


def test_colours_are_those_that_the_files_have():
    snapshot = mapped_snapshot(random_boxes(30))
    placed = place_boxes(snapshot.files.boxes("geom"), CRS84)
    columns = {color_column.key: color_column for color_column in color_columns(snapshot.files, placed)}
    assert list(columns) == ["rows", "bytes", "age", "partition", "overlap"]
    np.testing.assert_array_equal(columns["rows"].values, snapshot.files.table["rows"].to_numpy())
    modified = snapshot.files.table["modified"].to_numpy().astype("datetime64[ms]").astype(np.int64) / 1000
    np.testing.assert_allclose(columns["age"].values + columns["age"].origin, modified)
    days = [f"day={value}" for value in snapshot.files.table["partition.day"].to_pylist()]
    assert columns["partition"].cells(np.arange(30)) == days
    assert [days[index] for index in np.argsort(columns["partition"].sort_values(), kind="stable")] == sorted(days)
    json.dumps([column.to_dict() for column in columns.values()])


def test_many_partitions_share_a_colour():
    snapshot = mapped_snapshot(random_boxes(20))
    import pyarrow as pa

    from geolake_nb.model.file_table import FileTable

    names = pa.array([f"n{index}" for index in range(2000)])
    files = FileTable.of(path=names, bytes=pa.array([1] * 2000), rows=pa.array([1] * 2000), partitions={"n": names})
    placed = place_boxes(BoxColumn.from_boxes([None] * 2000), CRS84)
    [partition] = [color_column for color_column in color_columns(files, placed) if color_column.key == "partition"]
    assert len(partition.labels) == 501
    assert partition.labels[-1] == "1,500 others"
    assert not np.isnan(partition.values).any()
    assert len(snapshot.files) == 20


def test_a_table_with_several_geo_columns_names_them():
    snapshot = mapped_snapshot(random_boxes(3), columns=("centre", "area"))
    assert mapped_column(snapshot, "area") == "area"
    with pytest.raises(GeolakeError, match="give column=, one of: area, centre"):
        mapped_column(snapshot)
    with pytest.raises(GeolakeError, match="no geo column 'shape'; use one of: area, centre"):
        mapped_column(snapshot, "shape")
    with pytest.raises(GeolakeError, match="no geo column to draw"):
        mapped_column(mapped_snapshot(np.empty((0, 4)), columns=()))
    assert len(FLAGS) == 3
