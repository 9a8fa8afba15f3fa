"""Notebook 07: the ways in and out, read back by geopandas, pyarrow and fastavro, against the airports themselves."""

from __future__ import annotations

import json
import re
import struct
from io import BytesIO
from typing import TYPE_CHECKING

import fastavro
import geopandas
import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb import demo
from tests.notebooks.html_tables import rows_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

WINDOW = shapely.box(5.9, 45.8, 10.5, 47.9)
POINT = re.compile(r"POINT ?\(([-\d.eE+]+) ([-\d.eE+]+)\)")


@pytest.fixture(scope="module")
def own(ran) -> Path:
    return ran.path.parent / "tables" / "own"


@pytest.fixture(scope="module")
def airports() -> dict[str, tuple[float, float]]:
    """The airports of Europe: the place of each by its code."""
    rows = demo.airports()
    places = shapely.get_coordinates(shapely.from_wkb(rows["location"].to_pylist()))
    inside = np.all((places >= (-25, 34)) & (places <= (45, 72)), axis=1)
    codes = np.array(rows["code"].to_pylist())
    return dict(zip(codes[inside].tolist(), map(tuple, places[inside].tolist()), strict=True))


@pytest.fixture(scope="module")
def boxes(own) -> dict[str, tuple[float, ...]]:
    """The boxes of the files of the Delta table, as its log has them."""
    lines = (own / "delta" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    collected = {}
    for add in (action["add"] for action in map(json.loads, lines) if "add" in action):
        stats = json.loads(add["stats"])
        corners = [POINT.fullmatch(stats[side]["geometry"]) for side in ("minValues", "maxValues")]
        collected[add["path"]] = tuple(float(number) for corner in corners for number in corner.groups())
    return collected


def places(table, column: str) -> np.ndarray:
    return shapely.get_coordinates(shapely.from_wkb(table[column].to_pylist()))


def test_the_cell_to_change_is_one_line(ran):
    (cell,) = [cell for cell in ran.notebook.cells if cell.id == "my-table"]
    assert cell.source == 'my_table = "tables/own/airports"'


def test_the_card_counts_what_geopandas_wrote(ran, own, airports):
    files = list((own / "airports").iterdir())
    assert f"{len(files)} files, {len(airports):,} rows" in ran.text("open")
    assert f"bounds of geometry: {len(files)} of {len(files)} files" in ran.text("open")
    assert "layout.small_files" in ran.text("check")
    models = ran.notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    assert any(model["state"].get("title") == "airports: geometry" for model in models)


def test_the_delta_table_has_the_airports_and_their_boxes(own, airports, boxes):
    collected = {}
    for path, box in boxes.items():
        rows = pq.read_table(own / "delta" / path, arrow_extensions_enabled=False)
        here = places(rows, "geometry")
        true = np.array([*here.min(axis=0), *here.max(axis=0)])
        np.testing.assert_allclose(box, true, atol=1e-9)
        assert np.all(np.array(box[:2]) <= true[:2])
        assert np.all(np.array(box[2:]) >= true[2:])
        collected |= dict(zip(rows["code"].to_pylist(), map(tuple, here.tolist()), strict=True))
    assert collected == airports
    assert len(boxes) > 10


def test_the_iceberg_tables_have_bounds_in_their_manifests(own, airports):
    rows = demo.earthquakes()
    wanted = {"iceberg": places(rows, "location"), "converted": np.array(list(airports.values()))}
    for name, true in wanted.items():
        entries = [
            entry["data_file"]
            for manifest in (own / name / "metadata").glob("*.avro")
            if not manifest.name.startswith("snap-")
            for entry in fastavro.reader(BytesIO(manifest.read_bytes()))
        ]
        assert sum(entry["record_count"] for entry in entries) == len(true)
        low, high = (np.array([_corner(entry[side]) for entry in entries]) for side in ("lower_bounds", "upper_bounds"))
        np.testing.assert_allclose([*low.min(axis=0), *high.max(axis=0)], [*true.min(axis=0), *true.max(axis=0)])


def _corner(bounds: list[dict]) -> tuple[float, float]:
    """The corner among the bounds of a file: two doubles, of column 5 or 6, the last of each table."""
    last = max(bounds, key=lambda bound: bound["key"])
    return struct.unpack("<dd", last["value"])


def test_the_tables_are_described(ran, airports, boxes):
    output = {
        row[0]: [int(cell) for cell in row[1:]] for row in rows_of(ran.html("written")) if row[0].startswith("tables/")
    }
    assert output["tables/own/delta"] == [len(boxes), len(airports), len(boxes)]
    assert output["tables/own/converted"] == [1, len(airports), 1]
    files, rows, bounds = output["tables/own/iceberg"]
    assert (rows, bounds) == (demo.earthquakes().num_rows, files)


def test_the_footer_is_repaired_and_the_pages_stay(ran, own):
    plain = BytesIO()
    pq.write_table(demo.airports(), plain, row_group_size=2000)
    old, new = plain.getvalue(), (own / "plain.parquet").read_bytes()
    pages = len(old) - 8 - int.from_bytes(old[-8:-4], "little")
    assert old[:pages] == new[:pages]
    assert old != new
    rows = demo.airports()
    assert ran.text("repaired").splitlines() == [
        f"{len(rows):,} airports, WGS 84 (CRS84)",
        f"{pages:,} bytes of pages, unchanged: True",
    ]
    assert "Missing geo metadata" in ran.text("plain")
    footer = pq.read_metadata(own / "plain.parquet")
    every = places(rows, "location")
    for group in range(footer.num_row_groups):
        here = every[group * 2000 : (group + 1) * 2000]
        stats = footer.row_group(group).column(5).geo_statistics
        assert (stats.xmin, stats.ymin) == tuple(here.min(axis=0))
        assert (stats.xmax, stats.ymax) == tuple(here.max(axis=0))
    assert geopandas.read_parquet(own / "plain.parquet").total_bounds.tolist() == [
        *every.min(axis=0),
        *every.max(axis=0),
    ]


def test_the_way_out_is_exact(ran, own, airports):
    assert ran.text("to-geoparquet") == "the same points: True"
    back = geopandas.read_parquet(own / "geoparquet")
    result = zip(back["code"], map(tuple, shapely.get_coordinates(back.geometry).tolist()), strict=True)
    assert dict(result) == airports
    assert back.crs == "OGC:CRS84"


def test_what_is_shared_has_the_same_boxes(own, boxes):
    features = json.loads((own / "boxes.geojson").read_text())["features"]
    shapes = {
        feature["properties"]["path"]: shapely.from_geojson(json.dumps(feature["geometry"])).bounds
        for feature in features
    }
    assert shapes == boxes
    read = sum(shapely.intersects(WINDOW, shapely.box(*box)) for box in boxes.values())
    report = (own / "report.html").read_text()
    assert f"reads {read} of {len(boxes)} files" in report
    assert not re.search(r"(src|href)=[\"']?https?:", report)


def test_folium_asks_for_nothing(ran, boxes):
    page = ran.html("folium")
    assert all(path in page for path in boxes)


def test_it_looks_good(ran, looks_good):
    looks_good(ran)
