"""Notebook 05: what it says of boxes and files, against GEOS, numpy and pyarrow on the demo data."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb import demo
from tests.notebooks.html_tables import rows_of

geopandas = pytest.importorskip("geopandas", reason="geopandas is not installed")
pytestmark = pytest.mark.spark

READS = re.compile(r"reads ([\d,]+) of ([\d,]+) files, ([\d,]+) of ([\d,]+) rows")
BASINS = ("EP", "NA", "NI", "SA", "SI", "SP", "WP")
FIJI, EUROPE = (175, -25, -175, -10), (10, 45, 30, 55)


@pytest.fixture(scope="module")
def tracks() -> dict[str, np.ndarray]:
    """The tracks of each basin."""
    table = demo.storms()
    shapes = shapely.force_2d(shapely.from_wkb(table["track"].to_numpy(zero_copy_only=False)))
    basins = np.array(table["basin"].to_pylist())
    return {basin: shapes[basins == basin] for basin in BASINS}


def on_the_globe(shapes: np.ndarray) -> tuple[float, float, float, float]:
    """The box of lines whose steps take the short way: it leaves out the widest gap in longitude.

    Steps are so short here that the bulge of a great circle is below the digits that are shown.
    """
    spans = []
    for shape in shapes:
        for west, east in pairwise(shapely.get_coordinates(shape)[:, 0]):
            step = (east - west + 180) % 360 - 180
            spans.append((min(west, west + step) % 360, abs(step)))
    starts, lengths = np.array(sorted(spans)).T
    ends = np.maximum.accumulate(starts + lengths)
    gaps = np.append(starts[1:], starts[0] + 360) - ends
    widest = int(gaps.argmax())
    west, east = starts[(widest + 1) % len(starts)], ends[widest]
    _, south, _, north = shapely.total_bounds(shapes)
    return (west + 180) % 360 - 180, south, (east + 180) % 360 - 180, north


def iter_chunks(west: float, south: float, east: float, north: float) -> shapely.Geometry:
    """A box on a plane; in two pieces where it crosses 180."""
    if west <= east:
        return shapely.box(west, south, east, north)
    return shapely.union(shapely.box(west, south, 180, north), shapely.box(-180, south, east, north))


def expected(boxes: dict[str, tuple], window: tuple, tracks: dict[str, np.ndarray]) -> tuple[int, ...]:
    read = [len(tracks[basin]) for basin, box in boxes.items() if iter_chunks(*box).intersects(iter_chunks(*window))]
    return len(read), len(tracks), sum(read), sum(map(len, tracks.values()))


def message(ran, cell: str) -> tuple[int, ...]:
    match = READS.search(ran.text(cell))
    assert match, ran.text(cell)
    return tuple(int(number.replace(",", "")) for number in match.groups())


@pytest.fixture(scope="module")
def plane(tracks):
    return {basin: tuple(shapely.total_bounds(shapes)) for basin, shapes in tracks.items()}


@pytest.fixture(scope="module")
def globe(tracks):
    return {basin: on_the_globe(shapes) for basin, shapes in tracks.items()}


def test_it_looks_good(ran, looks_good):
    looks_good(ran)


def test_fiji_is_as_wide_as_the_earth_on_a_plane_alone(ran):
    (shape,) = [row["shape"] for row in demo.countries().to_pylist() if row["name"] == "Fiji"]
    fiji = shapely.from_wkb(shape)
    west, _, east, _ = fiji.bounds
    assert ran.text("fiji") == str(fiji.bounds)
    assert east - west == 360
    longitudes = shapely.get_coordinates(fiji)[:, 0]
    ends = longitudes[longitudes > 0].min(), longitudes[longitudes < 0].max()
    collected = [
        f"geometry: from {west:.1f} to {east:.1f} degrees",
        f"geography: from {ends[0]:.1f} to {ends[1]:.1f} degrees",
    ]
    assert ran.text("types").splitlines() == collected
    assert [round(end, 1) for end in ends] == [177.3, -179.8], "as the text says"
    assert round(ends[1] + 360 - ends[0], 1) == 2.9


def test_no_storm_of_the_pacific_comes_to_namibia(ran, tracks):
    namibia = shapely.box(12, -25, 20, -15)
    pacific = tracks["SP"]
    assert f"tracks over Namibia:  {shapely.intersects(pacific, namibia).sum()}" in ran.text("namibia")
    # With longitudes from 0 to 360 no track jumps, as none of them comes near 0.
    around = shapely.transform(pacific, lambda points: np.column_stack([points[:, 0] % 360, points[:, 1]]))
    assert not shapely.intersects(around, namibia).any()
    assert len(pacific) == 139, "as the text says"


def test_the_oceans_are_as_wide_as_geos_and_numpy_say(ran, plane, globe):
    _, *rows = rows_of(ran.html("oceans"))
    for row, basin in zip(rows, BASINS, strict=True):
        for output, box in zip(row[2:], (plane[basin], globe[basin]), strict=True):
            assert [float(side) for side in output.split(" to ")] == pytest.approx([box[0], box[2]], abs=0.051), basin


def test_iceberg_holds_the_same_bounds(ran, plane, globe):
    rows = {row[0]: [float(side) for side in row[1:]] for row in rows_of(ran.html("stored"))[3:]}
    for basin in BASINS:
        wanted = [box[side] for box in (plane[basin], globe[basin]) for side in (0, 2)]
        assert rows[basin] == pytest.approx(wanted, abs=0.051), basin
    assert [basin for basin, (west, east, *_) in rows.items() if east - west > 359] == ["EP", "SP", "WP"]


def test_a_window_reads_what_the_boxes_say(ran, tracks, plane, globe):
    assert message(ran, "explain-plane") == expected(plane, EUROPE, tracks) == (2, 7, 734, 1543)
    assert message(ran, "explain-globe") == expected(globe, EUROPE, tracks) == (0, 7, 0, 1543)
    assert message(ran, "explain-fiji") == expected(globe, FIJI, tracks) == (1, 7, 139, 1543)
    assert "wrapped" in ran.text("explain-fiji")


def test_the_map_says_the_same_and_draws_the_tracks(ran, tracks):
    models = ran.notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    (shown,) = [model["state"] for model in models if model["state"].get("window") == list(map(float, FIJI))]
    assert (shown["verdict"]["files_read"], shown["verdict"]["files"]) == (1, 7)
    assert [overlay["name"].partition(" of ")[0] for overlay in shown["overlays"]] == [
        f"{len(tracks['SP'])} geometries"
    ]


def test_each_format_stores_what_its_readers_can_use(ran, plane, globe):
    _, *rows = rows_of(ran.html("formats"))
    output = {row[0]: [float(side) for side in row[1:]] for row in rows}
    crossing, flat = ([box["SP"][0], box["SP"][2]] for box in (globe, plane))
    assert output["Iceberg geography"] == pytest.approx(crossing, abs=0.051)
    assert output["Parquet geography"] == pytest.approx(crossing, abs=0.051)
    assert output["Havasu geometry"] == pytest.approx(flat, abs=0.051)
    assert output["Delta geography"] == [-180, 180]
    log = ran.path.parent / "tables" / "storms-delta" / "_delta_log" / f"{0:020}.json"
    adds = [json.loads(line)["add"] for line in log.read_text().splitlines() if '"add"' in line]
    (stats,) = [json.loads(add["stats"]) for add in adds if add["partitionValues"]["basin"] == "SP"]
    assert stats["minValues"]["track"].startswith("POINT")
    assert "-180" in stats["minValues"]["track"]
    assert "180" in stats["maxValues"]["track"]


def test_the_footer_says_so_itself(ran, globe):
    (file,) = (ran.path.parent / "tables" / "storms-parquet").rglob("basin=SP/*.parquet")
    footer = pq.read_metadata(file)
    stored = footer.row_group(0).column(footer.schema.names.index("track")).geo_statistics
    assert (stored.xmin, stored.xmax) == pytest.approx((globe["SP"][0], globe["SP"][2]), abs=1e-9)
    assert f"xmin: {stored.xmin}, xmax: {stored.xmax}" in ran.text("footer")
    assert "Geography" in ran.text("footer")
