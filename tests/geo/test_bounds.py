from __future__ import annotations

import json
import random
import struct
import warnings

import geoarrow.pyarrow as ga
import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.geo.bounds import BadValueWarning, _pieces, row_boxes
from geolake_nb.model.types import GeometryEncoding, GeometryType
from tests.oracle import wkb_walk
from tests.oracle.wkb_write import NAMES, collection, linestring, multi, point, polygon, write
from tests.strategies import geometry_columns, make_geometries

NAN, INF = float("nan"), float("inf")
SQUARE = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0), (0.0, 0.0))


def sides(box):
    if box is None:
        return None
    return box.xmin, box.ymin, box.xmax, box.ymax, box.zmin, box.zmax, box.mmin, box.mmax


def counts(stats):
    return stats.rows, stats.null_count, stats.empty_count, stats.bad


def walked(values: list[bytes | None]):
    """Box, types and counts of a column without bad values, from the independent walk."""
    return total([None if value is None else wkb_walk.walk(value) for value in values])


def total(rows: list[wkb_walk.Walk | None]):
    walks = [walk for walk in rows if walk is not None]
    ranges = []
    for axis in range(4):
        known = [walk.ranges[axis] for walk in walks if walk.ranges[axis] is not None]
        ranges.append((min(k[0] for k in known), max(k[1] for k in known)) if known else None)
    x, y, z, m = ranges
    box = None
    if x is not None and y is not None:
        box = (x[0], y[0], x[1], y[1], *(z or (None, None)), *(m or (None, None)))
    types = tuple(sorted({walk.code for walk in walks}))
    return box, types, (len(rows), len(rows) - len(walks), sum(walk.empty for walk in walks), 0)


def agrees(column, values: list[bytes | None]) -> None:
    stats = gl.bounds(column)
    assert (sides(stats.box), stats.types, counts(stats)) == walked(values)
    assert stats.first_bad is None


# ---- every layout gives the same answer

VALUES = [
    write(point(1, 2)),
    None,
    write(linestring((-5, 7, 1), (3, 9, 2), dims="XYZ", big=True)),
    write(polygon()),
    write(point(100, 200, 300, 400, dims="XYZM", srid=4326)),
    None,
    write(collection(point(), multi(4, point(8, -80)))),
    write(point(1, 2)),
]


def with_hidden_values(values, type_) -> pa.Array:
    """Nulls with bytes behind them that must not be looked at."""
    full = pa.array([b"garbage" if value is None else value for value in values], type_)
    present = np.array([value is not None for value in values])
    bits = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(values), [bits, *full.buffers()[1:]])


def dictionary(values, index=None, value_type=None) -> pa.Array:
    """A dictionary with repeated and unused values, one of them broken, and nulls in both places."""
    known = [b"unused and broken", None, *dict.fromkeys(value for value in values if value is not None)]
    known.append(known[-1])  # the same value under two indices
    places = []
    for row, value in enumerate(values):
        if value is None:
            places.append(None if row % 2 else 1)
        elif value == known[-1] and row:
            places.append(len(known) - 1)
        else:
            places.append(known.index(value))
    return pa.DictionaryArray.from_arrays(
        pa.array(places, index or pa.int32()), pa.array(known, value_type or pa.binary())
    )


LAYOUTS = {
    "binary": lambda v: pa.array(v, pa.binary()),
    "large_binary": lambda v: pa.array(v, pa.large_binary()),
    "binary_view": lambda v: pa.array(v, pa.binary_view()),
    "hidden": lambda v: with_hidden_values(v, pa.binary()),
    "hidden large": lambda v: with_hidden_values(v, pa.large_binary()),
    "dictionary int8": lambda v: dictionary(v, pa.int8()),
    "dictionary int32": dictionary,
    "dictionary uint16 large": lambda v: dictionary(v, pa.uint16(), pa.large_binary()),
    "dictionary int64 view": lambda v: dictionary(v, pa.int64(), pa.binary_view()),
    "geoarrow.wkb": lambda v: ga.wkb().wrap_array(pa.array(v, pa.binary())),
    "geoarrow.wkb large": lambda v: ga.large_wkb().wrap_array(pa.array(v, pa.large_binary())),
}


@pytest.fixture(params=LAYOUTS.values(), ids=LAYOUTS.keys())
def layout(request):
    return request.param


def test_every_layout_gives_the_same_answer(layout):
    agrees(layout(VALUES), VALUES)


def test_every_slice_of_every_layout_is_its_own_column(layout):
    whole = layout(VALUES)
    for start in range(len(VALUES) + 1):
        for size in range(len(VALUES) - start + 1):
            agrees(whole.slice(start, size), VALUES[start : start + size])


def test_a_slice_of_a_slice_counts_from_its_own_start(layout):
    agrees(layout(VALUES).slice(1).slice(2, 4), VALUES[3:7])


def test_chunks_are_one_column(layout):
    whole = layout(VALUES)
    chunks = [whole.slice(5), whole.slice(0, 0), whole.slice(0, 2), whole.slice(2, 3)]
    values = VALUES[5:] + VALUES[0:2] + VALUES[2:5]
    agrees(pa.chunked_array(chunks), values)
    agrees(pa.chunked_array(chunks).slice(2, 4), values[2:6])


def test_no_rows_and_only_nulls_have_no_box_and_no_types(layout):
    for column, rows in ((layout(VALUES).slice(0, 0), 0), (layout([None, None]), 2)):
        stats = gl.bounds(column)
        assert (stats.box, stats.types, counts(stats)) == (None, (), (rows, rows, 0, 0))


def test_a_column_without_chunks_has_no_rows():
    stats = gl.bounds(pa.chunked_array([], pa.binary()))
    assert (stats.box, stats.types, counts(stats)) == (None, (), (0, 0, 0, 0))


def test_fixed_size_binary_is_read():
    values = [write(point(1, 2)), None, write(point(-3, 4)), write(point())]
    column = pa.array(values, pa.binary(21))
    agrees(column, values)
    agrees(column.slice(1, 2), values[1:3])
    agrees(pa.chunked_array([column, column.slice(2)]), values + values[2:])


def test_dictionaries_that_differ_between_chunks_are_one_column():
    left, two = dictionary(VALUES[:4]), dictionary(VALUES[4:])
    agrees(pa.chunked_array([left, two]), VALUES)


def test_short_and_long_values_of_a_view_are_read():
    # Twelve bytes and less are stored in the view itself; a geometry of nine is an empty one.
    values = [write(linestring()), write(collection()), write(polygon(SQUARE)), None, write(linestring())]
    agrees(pa.array(values, pa.binary_view()), values)


def test_a_sliced_column_of_a_larger_buffer_reads_its_own_bytes():
    values = [write(point(i, -i)) for i in range(1000)]
    whole = pa.array(values)
    stats = gl.bounds(whole.slice(300, 5))
    assert sides(stats.box)[:4] == (300, -304, 304, -300)


def test_a_column_that_is_not_geometry_is_an_error():
    with pytest.raises((GeolakeError, TypeError)):
        gl.bounds(pa.array([1, 2, 3]))


# ---- the rules of Parquet


def test_nan_is_skipped_per_axis_and_over_rows():
    # Parquet, Bounding Box: POINT (1 NaN) contributes a value to X but none to Y.
    stats = gl.bounds(pa.array([write(point(1, NAN)), write(point(5, 3))]))
    assert sides(stats.box)[:4] == (1, 3, 5, 3)
    stats = gl.bounds(pa.array([write(point(1, NAN)), write(point(NAN, 3))]))
    assert sides(stats.box)[:4] == (1, 3, 1, 3)
    assert stats.empty_count == 0


@pytest.mark.parametrize("shape", [point(1, NAN), point(NAN, 1), point(1, NAN, 5, dims="XYZ")])
def test_without_x_or_without_y_there_is_no_box(shape):
    stats = gl.bounds(pa.array([write(shape), None]))
    assert stats.box is None
    assert counts(stats) == (2, 1, 0, 0)
    assert stats.types == (1 if shape.dims == "XY" else 1001,)


def test_an_axis_with_only_nan_is_left_out():
    stats = gl.bounds(pa.array([write(point(1, 2, NAN, 4, dims="XYZM")), write(point(3, 4))]))
    assert sides(stats.box) == (1, 2, 3, 4, None, None, 4, 4)


def test_types_are_unique_sorted_and_count_empties():
    shapes = [
        point(1, 2, 3, dims="XYZ"),
        polygon(SQUARE),
        point(1, 2),
        polygon(),
        collection(dims="XYZM"),
        point(4, 5, 6, dims="XYZ", srid=4326),
        linestring(dims="XYM"),
    ]
    stats = gl.bounds(pa.array([write(shape) for shape in shapes]))
    assert stats.types == (1, 3, 1001, 2002, 3007)
    assert stats.empty_count == 3


def test_types_are_those_of_the_top_level_only():
    assert gl.bounds(pa.array([write(collection(point(1, 2), polygon(SQUARE)))])).types == (7,)


def test_a_geometry_column_never_wraps():
    stats = gl.bounds(pa.array([write(point(179, 0)), write(point(-179, 0))]), type=gl.geometry("OGC:CRS84"))
    assert (stats.box.xmin, stats.box.xmax) == (-179, 179)


def test_geometry_numbers_may_lie_beyond_any_range():
    stats = gl.bounds(pa.array([write(point(-1e9, 1e300)), write(point(INF, -INF))]))
    assert sides(stats.box)[:4] == (-1e9, -INF, INF, 1e300)


# ---- bad values

BROKEN = write(polygon(SQUARE))[:-3]


def bounds_of_bad(column, **options):
    with pytest.warns(BadValueWarning) as caught:
        stats = gl.bounds(column, **options)
    assert issubclass(BadValueWarning, UserWarning)
    assert len(caught) == 1
    return stats, str(caught[0].message)


def test_a_bad_value_leaves_no_box_and_no_types_and_warns_with_row_and_reason():
    values = [write(point(1, 2)), None, write(point()), BROKEN, b"", write(point(3, 4))]
    stats, text = bounds_of_bad(pa.array(values))
    assert stats.box is None
    assert stats.types is None
    assert counts(stats) == (6, 1, 1, 2)
    assert stats.first_bad.row == 3
    assert stats.first_bad.reason
    assert 0 <= stats.first_bad.offset <= len(BROKEN)
    assert "3" in text
    assert stats.first_bad.reason in text


def test_the_row_of_a_bad_value_counts_over_chunks_and_from_the_slice():
    good, bad = pa.array([write(point(1, 2)), None]), pa.array([None, BROKEN, BROKEN])
    stats, _ = bounds_of_bad(pa.chunked_array([good, good.slice(0, 0), good, bad]))
    assert (stats.first_bad.row, stats.bad) == (5, 2)
    stats, _ = bounds_of_bad(pa.chunked_array([good, bad]).slice(2))
    assert stats.first_bad.row == 1
    stats, _ = bounds_of_bad(bad.slice(2))
    assert (stats.first_bad.row, stats.bad) == (0, 1)


def test_a_bad_value_of_a_dictionary_counts_once_per_row():
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, None, 1]), pa.array([write(point(1, 2)), BROKEN]))
    stats, _ = bounds_of_bad(column)
    assert (stats.bad, stats.null_count, stats.first_bad.row) == (3, 1, 0)


def test_an_empty_value_of_a_dictionary_counts_once_per_row():
    column = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, 1, None, 1]), pa.array([write(point(1, 2)), write(point())])
    )
    stats = gl.bounds(column)
    assert (stats.empty_count, stats.null_count, stats.rows) == (3, 1, 5)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x02" + write(point(1, 2))[1:],
        write(point(1, 2)) + b"\x00",
        write(multi(4, polygon(SQUARE))),
    ],
)
def test_every_kind_of_bad_value_is_bad_in_a_column_too(value):
    for type_ in (pa.binary(), pa.large_binary(), pa.binary_view()):
        stats, _ = bounds_of_bad(pa.array([write(point(1, 2)), value], type_))
        assert (stats.box, stats.types, stats.bad, stats.first_bad.row) == (None, None, 1, 1)


def test_many_bad_values_warn_once():
    stats, _ = bounds_of_bad(pa.array([BROKEN] * 10_000))
    assert stats.bad == 10_000


# ---- curves in a column


def test_a_curve_in_a_column_is_held_or_leaves_no_box():
    arc = write(linestring((0, 0), (1 + 0.5**0.5, 0.5**0.5), (2, 0), kind=8))
    stats = gl.bounds(pa.array([write(point(5, 0)), arc]))
    assert stats.types == (1, 8)
    assert stats.bad == 0
    if stats.box is not None:
        assert stats.box.ymax >= 1
        assert (stats.box.xmin, stats.box.xmax) == (pytest.approx(0, abs=1e-9), 5)


def test_surfaces_of_flat_faces_have_a_box():
    faces = multi(15, polygon(SQUARE), polygon(((9, 9), (10, 9), (9, 10), (9, 9))))
    tin = multi(16, polygon(((-1, 0), (1, 0), (0, 1), (-1, 0)), kind=17))
    stats = gl.bounds(pa.array([write(faces), write(tin)]))
    assert stats.types == (15, 16)
    assert sides(stats.box)[:4] == (-1, 0, 10, 10)


# ---- many columns against the independent walk


@settings(max_examples=250, deadline=None)
@given(geometry_columns())
def test_any_column_is_like_the_independent_walk(values):
    agrees(pa.array(values, pa.binary()), values)


def test_columns_of_a_hundred_thousand_trees_are_like_the_independent_walk():
    rng = random.Random(5)
    values = [None if rng.random() < 0.05 else write(shape) for shape in make_geometries(6, 100_000)]
    walks = [None if value is None else wkb_walk.walk(value) for value in values]
    whole = pa.array(values, pa.binary())
    boxes = box_rows(row_boxes(whole))
    start, size = 0, len(values)
    while start < len(values):
        stats = gl.bounds(whole.slice(start, size))
        assert (sides(stats.box), stats.types, counts(stats)) == total(walks[start : start + size])
        start = start + size if size < len(values) else 0
        size = rng.choice((1, 2, 3, 10, 1000, 2000))
    for row, walk in enumerate(walks):
        assert boxes[row] == (None if walk is None or walk.sides is None else walk.sides[:4]), values[row]


def test_mixed_good_and_bad_rows_count_like_the_independent_walk():
    rng = random.Random(8)
    values = []
    for shape in make_geometries(9, 3000):
        value = write(shape)
        values.append(value[: rng.randrange(len(value))] if rng.random() < 0.3 else value)
    bad = []
    for row, value in enumerate(values):
        try:
            wkb_walk.walk(value)
        except wkb_walk.BadError:
            bad.append(row)
    stats, _ = bounds_of_bad(pa.array(values))
    assert (stats.bad, stats.first_bad.row) == (len(bad), bad[0])


# ---- shapely as a second opinion


def shapely_column(count: int, seed: int):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        spots = rng.uniform(-180, 180, (rng.integers(3, 12), 2))
        made.append(
            rng.choice(
                [
                    shapely.Point(spots[0]),
                    shapely.LineString(spots),
                    shapely.MultiPoint(spots).convex_hull,
                    shapely.MultiPoint(spots),
                    shapely.MultiPoint(spots).buffer(3),
                    shapely.GeometryCollection([shapely.Point(spots[0]), shapely.LineString(spots[1:])]),
                    shapely.Polygon(),
                ]
            )
        )
    return np.array(made, dtype=object)


@pytest.mark.parametrize("flavor", ["extended", "iso"])
@pytest.mark.parametrize("byte_order", [0, 1])
def test_columns_have_the_total_bounds_of_shapely(flavor, byte_order):
    shapes = shapely_column(500, seed=byte_order)
    column = pa.array(shapely.to_wkb(shapes, flavor=flavor, byte_order=byte_order), pa.binary())
    stats = gl.bounds(column)
    assert sides(stats.box)[:4] == tuple(shapely.total_bounds(shapes))
    assert stats.empty_count == int(shapely.is_empty(shapes).sum())
    for boxes in (row_boxes(column), row_boxes(column, type=gl.geometry("OGC:CRS84"))):
        hits = np.array([(NAN,) * 4 if b is None else b for b in box_rows(boxes)])
        assert np.array_equal(hits, shapely.bounds(shapes), equal_nan=True)


# ---- boxes of rows


def box_rows(boxes: pa.Array):
    storage = boxes.storage if isinstance(boxes, pa.ExtensionArray) else boxes
    return [
        None if row is None else (row["xmin"], row["ymin"], row["xmax"], row["ymax"]) for row in storage.to_pylist()
    ]


def walk_boxes(values):
    collected = []
    for value in values:
        side = None if value is None else wkb_walk.walk(value).sides
        collected.append(None if side is None else side[:4])
    return collected


def test_row_boxes_are_geoarrow_boxes_with_null_where_there_is_none(layout):
    boxes = row_boxes(layout(VALUES))
    assert boxes.type.extension_name == "geoarrow.box"
    assert len(boxes) == len(VALUES)
    assert box_rows(boxes) == walk_boxes(VALUES)
    assert boxes.null_count == 3
    assert [field.name for field in boxes.type.storage_type] == ["xmin", "ymin", "xmax", "ymax"]


def test_row_boxes_of_slices_and_chunks(layout):
    whole = layout(VALUES)
    assert box_rows(row_boxes(whole.slice(2, 5))) == walk_boxes(VALUES[2:7])
    chunked = row_boxes(pa.chunked_array([whole.slice(4), whole.slice(0, 3)]))
    if isinstance(chunked, pa.ChunkedArray):
        chunked = chunked.combine_chunks()
    assert box_rows(chunked) == walk_boxes(VALUES[4:] + VALUES[:3])
    assert len(row_boxes(whole.slice(0, 0))) == 0


def test_a_row_with_x_only_or_a_bad_value_has_no_box():
    values = [write(point(1, NAN)), BROKEN, write(point(1, 2))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BadValueWarning)
        boxes = row_boxes(pa.array(values))
    assert box_rows(boxes) == [None, None, (1, 2, 1, 2)]


# ---- text (Havasu)

WKT = GeometryType(encoding=GeometryEncoding.WKT)
GEOJSON = GeometryType(encoding=GeometryEncoding.GEOJSON)
TEXTS = ["POINT (1 2)", None, "LINESTRING Z (-5 7 1, 3 9 2)", "POLYGON EMPTY", "MULTIPOINT ((8 -80), (9 1))"]
TEXT_ANSWER = ((-5, -80, 9, 9, 1, 2, None, None), (1, 3, 4, 1002), (5, 1, 1, 0))


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_wkt_columns_have_bounds(type_):
    column = pa.array(TEXTS, type_)
    stats = gl.bounds(column, type=WKT)
    assert (sides(stats.box), stats.types, counts(stats)) == TEXT_ANSWER
    stats = gl.bounds(pa.chunked_array([column.slice(1), column.slice(0, 1)]), type=WKT)
    assert (sides(stats.box), stats.types, counts(stats)) == TEXT_ANSWER
    stats = gl.bounds(column.slice(0, 2), type=WKT)
    assert (sides(stats.box)[:4], stats.types, counts(stats)) == ((1, 2, 1, 2), (1,), (2, 1, 0, 0))


def test_wkt_of_a_dictionary_has_bounds():
    stats = gl.bounds(pa.array(TEXTS).dictionary_encode(), type=WKT)
    assert (sides(stats.box), stats.types, counts(stats)) == TEXT_ANSWER


def test_wkt_with_m_keeps_it_apart_from_z():
    stats = gl.bounds(pa.array(["POINT M (1 2 3)", "POINT ZM (1 2 4 5)"]), type=WKT)
    assert sides(stats.box) == (1, 2, 1, 2, 4, 4, 3, 5)
    assert stats.types == (2001, 3001)


@pytest.mark.parametrize("text", ["", "POINT", "POINT (1", "CIRCLE (1 2)", "POINT (1 2) x", "{}", "\x00"])
def test_bad_wkt_is_a_bad_value(text):
    stats, message = bounds_of_bad(pa.array(["POINT (1 2)", text]), type=WKT)
    assert (stats.box, stats.types, counts(stats), stats.first_bad.row) == (None, None, (2, 0, 0, 1), 1)
    assert stats.first_bad.reason in message


def test_the_sedona_texts_have_the_bounds_of_their_bytes(corpus):
    folder = corpus / "wkb" / "sedona-testing"
    texts = [line.split("\t")[2] or None for line in (folder / "example-wkt.tsv").read_text().splitlines()[1:]]
    values = [line.split("\t")[2] for line in (folder / "example-wkb-le.tsv").read_text().splitlines()[1:]]
    values = [bytes.fromhex(value) if value else None for value in values]
    box, _, tally = walked(values)
    stats = gl.bounds(pa.array(texts), type=WKT)
    assert (sides(stats.box), counts(stats)) == (box, tally)
    # Empties without dimensions of their own may lose them on the way through text.
    assert {code % 1000 for code in stats.types} == {1, 2, 3, 4, 5, 6, 7}


def geojson(kind, coordinates, **more):
    return json.dumps({"type": kind, "coordinates": coordinates, **more})


GEOJSON_TEXTS = [
    geojson("Point", [1, 2]),
    None,
    geojson("LineString", [[-5, 7, 1], [3, 9, 2]]),
    geojson("Polygon", []),
    geojson("MultiPoint", [[8, -80], [9, 1]]),
]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_geojson_columns_have_bounds(type_):
    stats = gl.bounds(pa.array(GEOJSON_TEXTS, type_), type=GEOJSON)
    assert (sides(stats.box), stats.types, counts(stats)) == TEXT_ANSWER


def test_every_type_of_geojson_is_read():
    ring = [[0, 0], [4, 0], [4, 5], [0, 0]]
    parts = [
        {"type": "Point", "coordinates": [50, 60]},
        {"type": "LineString", "coordinates": [[1, 1], [2, 2]]},
    ]
    texts = [
        geojson("Polygon", [ring]),
        geojson("MultiLineString", [[[10, 10], [11, 12]]]),
        geojson("MultiPolygon", [[ring], [[[-7, -8], [1, 0], [0, 1], [-7, -8]]]]),
        json.dumps({"type": "GeometryCollection", "geometries": parts}),
    ]
    stats = gl.bounds(pa.array(texts), type=GEOJSON)
    assert sides(stats.box)[:4] == (-7, -8, 50, 60)
    assert stats.types == (3, 5, 6, 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"type": "Point"}',
        '{"type": "Circle", "coordinates": [1, 2]}',
        '{"type": "Point", "coordinates": ["a", 2]}',
        '{"type": "Point", "coordinates": [1]}',
        '{"type": "LineString", "coordinates": [1, 2]}',
        "POINT (1 2)",
        "[" * 100_000,
        '{"type": "GeometryCollection", "geometries": [' * 20_000,
        '{"type": "GeometryCollection", "geometries": [' * 2000 + "]}" * 2000,
    ],
    ids=lambda text: text[:30],
)
def test_bad_geojson_is_a_bad_value(text):
    stats, _ = bounds_of_bad(pa.array([geojson("Point", [1, 2]), text]), type=GEOJSON)
    assert (stats.box, stats.types, counts(stats), stats.first_bad.row) == (None, None, (2, 0, 0, 1), 1)


def test_ewkb_encoding_reads_iso_and_extended_values():
    ewkb = GeometryType(encoding=GeometryEncoding.EWKB)
    column = pa.array([write(point(1, 2, 3, dims="XYZ")), write(point(4, 5, 6, dims="XYZ", srid=4326))])
    assert sides(gl.bounds(column, type=ewkb).box) == (1, 2, 4, 5, 3, 6, None, None)


def test_stats_of_every_kind_of_shape_together():
    shapes = list(make_geometries(12, 2000, kinds=tuple(NAMES)))
    stats = gl.bounds(pa.array([write(shape) for shape in shapes]))
    assert stats.bad == 0
    assert {code % 1000 for code in stats.types} == set(NAMES)


WKT = GeometryType(encoding=GeometryEncoding.WKT)
GEOJSON = GeometryType(encoding=GeometryEncoding.GEOJSON)


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ("GEOMETRYCOLLECTION(" * 100_000 + "POINT(1 2)" + ")" * 100_000, WKT, "nested more than 300 deep"),
        ('{"type":"GeometryCollection","geometries":[' * 50_000 + "]}" * 50_000, GEOJSON, "nested more than 300 deep"),
        ("POINT(1 2)\0POINT(9 9)", WKT, "NUL"),
        ("CIRCULARSTRING(0 0, 1 1, 2 0)", WKT, "not WKT"),
    ],
)
def test_a_text_that_would_break_the_reader_is_a_bad_value_among_good_ones(text, type_, reason):
    good = "POINT(1 2)" if type_ is WKT else '{"type":"Point","coordinates":[1,2]}'
    with pytest.warns(BadValueWarning, match="row 1"):
        stats = gl.bounds(pa.array([good, text, good, None]), type=type_)
    assert (stats.box, stats.bad, stats.null_count, stats.first_bad.row) == (None, 1, 1, 1)
    assert reason in stats.first_bad.reason


def test_text_that_is_no_utf8_is_a_bad_value():
    buffers = [None, pa.py_buffer(struct.pack("<ii", 0, 3)), pa.py_buffer(b"\xff\xfe\xfd")]
    with pytest.warns(BadValueWarning, match="not valid UTF-8"):
        assert gl.bounds(pa.Array.from_buffers(pa.string(), 1, buffers), type=WKT).bad == 1


def test_repeated_long_values_of_a_dictionary_are_not_all_held_at_once():
    line = write(linestring(*[(i, i) for i in range(100_000)]))
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), pa.array([line], pa.binary()))
    assert max(piece.nbytes for piece in _pieces(column)) <= 64 << 20  # all 200 would take 320 MB
    assert gl.bounds(column).rows == 200


def test_a_column_of_boxes_is_refused():
    with pytest.raises(SchemaError, match="boxes"):
        gl.bounds(row_boxes(pa.array([write(point(1, 2))])))


def test_what_is_no_arrow_column_is_refused():
    with pytest.raises(SchemaError, match="expected an Arrow array, got a list"):
        gl.bounds([b"x"])


@pytest.mark.parametrize("points", [[(0, 0), (1e-170, 0), (0, 1)], [(-1e-170, 0), (1e-170, 0), (-1e-170, 0)]])
def test_arcs_too_small_to_compute_have_no_bound(points):
    arc = struct.pack("<BII", 1, 8, 3) + b"".join(struct.pack("<dd", *point) for point in points)
    stats = gl.bounds(pa.array([arc]))
    assert str(stats.first_unbounded) == "row 0: the circle of an arc cannot be computed in doubles"
    assert (stats.box, stats.unbounded, stats.bad, stats.types) == (None, 1, 0, (8,))
