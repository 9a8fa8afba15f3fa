"""Line 2: xmin > xmax means the antimeridian only where x is a longitude; elsewhere such a box bounds nothing."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import geoarrow.pyarrow as ga
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.expressions.predicate import st_intersects
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import GeometryType
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.parquet.footer_boxes import locate
from tests.changes.repair_tables import GeoTable, wkb
from tests.formats.delta.log_maker import field
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.formats.havasu_tables import point as havasu_point
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table, xy

if TYPE_CHECKING:
    from pathlib import Path

# Minimum and maximum in the order of their texts: "POINT(10 2)" < "POINT(5 9)".
ROWS = ["POINT (10.75 2)", "POINT (5.25 9)", "POINT (7 3)"]
WINDOW = "POLYGON ((6 2, 9 2, 9 4, 6 4, 6 2))"
LOCAL_GRID = json.dumps(
    {
        "$schema": "https://proj.org/schemas/v0.7/projjson.schema.json",
        "type": "EngineeringCRS",
        "name": "my local grid",
        "datum": {"type": "EngineeringDatum", "name": "the yard"},
        "coordinate_system": {
            "subtype": "Cartesian",
            "axis": [
                {"name": "x", "abbreviation": "x", "direction": "unspecified", "unit": "metre"},
                {"name": "y", "abbreviation": "y", "direction": "unspecified", "unit": "metre"},
            ],
        },
    }
)
CRSS = ["EPSG:3857", "SRID:0", "NOBODY:1", "projjson:grid"]


def kept(table: gl.Table, column: str = "geom") -> tuple[int, list[str]]:
    """How many files a window reads, and the reasons."""
    explanation = table.explain(st_intersects(column, WINDOW))
    return explanation.kept.num_rows, list(explanation.details())


def assert_kept_and_reported(table: gl.Table) -> None:
    count, reasons = kept(table)
    assert count == 1
    assert len(reasons) == 1
    assert "only longitudes wrap" in reasons[0]
    (finding,) = [candidate for candidate in table.check() if candidate.rule == "bounds.malformed"]
    assert "only longitudes wrap" in finding.what
    assert finding.scope.count == 1


def delta_table(folder: Path, crs: str) -> GeoTable:
    table = GeoTable(folder, field("geom", f"geometry({crs})"), grid=LOCAL_GRID)
    stats = {
        "numRecords": 3,
        "minValues": {"geom": "POINT(10.75 2)"},
        "maxValues": {"geom": "POINT(5.25 9)"},
        "nullCount": {"geom": 0},
    }
    return table.file("a.parquet", {"geom": wkb(*ROWS)}, stats)


@pytest.mark.parametrize("crs", CRSS)
def test_a_delta_log_with_points_in_the_order_of_texts_keeps_its_file(tmp_path, crs):
    assert_kept_and_reported(gl.open(str(delta_table(tmp_path / "t", crs).folder)))


@pytest.mark.parametrize("crs", CRSS)
def test_a_repair_gives_the_file_the_box_of_its_rows(tmp_path, crs):
    table = delta_table(tmp_path / "t", crs)
    table.repair()
    assert table.stats("a.parquet")["minValues"] == {"geom": "POINT(5.25 2)"}
    assert table.stats("a.parquet")["maxValues"] == {"geom": "POINT(10.75 9)"}
    assert kept(gl.open(str(table.folder))) == (1, [])


def test_longitudes_still_wrap(tmp_path):
    table = GeoTable(tmp_path / "t", field("geom", "geometry(OGC:CRS84)"))
    stats = {"numRecords": 2, "minValues": {"geom": "POINT(170 2)"}, "maxValues": {"geom": "POINT(-170 9)"}}
    table.file("a.parquet", {"geom": wkb("POINT (175 3)", "POINT (-175 3)")}, stats)
    opened = gl.open(str(table.folder))
    assert opened.explain(st_intersects("geom", "POINT (175 3)")).kept.num_rows == 1
    assert opened.explain(st_intersects("geom", "POINT (0 3)")).kept.num_rows == 0


@pytest.mark.parametrize("crs", CRSS)
def test_iceberg_manifests_are_read_alike(tmp_path, crs):
    columns = [column(1, "id", "long"), column(2, "geom", f"geometry({crs})")]
    entry = FileEntry("a.parquet", rows=3, lower={2: xy(10.75, 2)}, upper={2: xy(5.25, 9)}, nulls={2: 0})
    make_iceberg_table(tmp_path, columns, [entry], version=3, properties={"grid": LOCAL_GRID})
    assert_kept_and_reported(gl.open(str(tmp_path)))


def test_iceberg_longitudes_beyond_180_degrees_do_not_wrap(tmp_path):
    columns = [column(2, "geom", "geometry(OGC:CRS84)")]
    make_iceberg_table(tmp_path, columns, [FileEntry("a", lower={2: xy(500, 0)}, upper={2: xy(-500, 9)})], version=3)
    explanation = gl.open(str(tmp_path)).explain(st_intersects("geom", "POINT (0 3)"))
    assert explanation.kept.num_rows == 1
    assert "beyond the longitudes" in next(iter(explanation.details()))


def test_havasu_manifests_are_read_alike(tmp_path):
    # A Havasu geometry has the CRS of its values, so that of the column is not known.
    shapes = [shapely.from_wkt(text) for text in ROWS]
    good = geometry_entry("a", shapes)
    entry = FileEntry(
        **{
            **{name: getattr(good, name) for name in ("path", "rows", "nulls", "table")},
            "geom_lower": {2: havasu_point(10.75, 2)},
            "geom_upper": {2: havasu_point(5.25, 9)},
        }
    )
    make_havasu_table(tmp_path, [entry])
    assert_kept_and_reported(gl.open(str(tmp_path)))


def parquet_file(path: Path, crs: str, *groups: list[str], geo: dict | None = None, **more: pa.Array) -> None:
    """A file of another writer whose footer has the least and the greatest x of its first group exchanged."""
    values = pa.array([shapely.to_wkb(shapely.from_wkt(text)) for texts in groups for text in texts])
    typed = ga.wkb().with_crs(crs).wrap_array(values) if geo is None else values
    table = pa.table({"geom": typed, **more})
    if geo is not None:
        table = table.replace_schema_metadata({b"geo": json.dumps(geo).encode()})
    pq.write_table(table, path, row_group_size=len(groups[0]))
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    low, high = struct.pack("<d", 5.25), struct.pack("<d", 10.75)
    footer = data[start:].replace(low, b"\0" * 8, 1).replace(high, low, 1).replace(b"\0" * 8, high, 1)
    if geo is None:
        assert footer != data[start:]
    path.write_bytes(data[:start] + footer)


def test_parquet_footers_are_read_alike(tmp_path):
    parquet_file(tmp_path / "a.parquet", "EPSG:3857", ROWS)
    assert_kept_and_reported(gl.open(str(tmp_path / "a.parquet")))


@pytest.mark.parametrize("crs", ["EPSG:3857", "SRID:0", "NOBODY:1"])
def test_a_row_group_with_such_a_box_leaves_the_file_without_one(tmp_path, crs):
    # Joined as longitudes, (10.75 .. 5.25) and (20 .. 30) would be (-180 .. 180).
    parquet_file(tmp_path / "a.parquet", "EPSG:3857", ROWS, ["POINT (20 2)", "POINT (30 2)", "POINT (400 2)"])
    view = FooterReader().view(pq.read_metadata(tmp_path / "a.parquet"), where="a")
    here = locate(view, view.find(("geom",)), GeometryType(Crs("EPSG:3857")))
    other = type(here)(here.view, GeometryType(Crs(crs)), here.leaf, here.geo, here.coordinates)
    assert other.whole().box is None
    assert "only longitudes wrap" in other.whole().problem
    assert [other.group(index).box is None for index in range(2)] == [True, False]
    assert other.stated().box is None


def geo_metadata(crs: str, **more: object) -> dict:
    definition = json.loads(LOCAL_GRID) if crs == "local" else None if crs == "none" else Crs(crs).to_projjson()
    column = {"encoding": "WKB", "geometry_types": ["Point"], "crs": definition, **more}
    return {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": column}}


@pytest.mark.parametrize("crs", ["EPSG:3857", "local", "none"])
def test_the_bbox_of_geoparquet_is_read_alike(tmp_path, crs):
    parquet_file(tmp_path / "a.parquet", crs, ROWS, geo=geo_metadata(crs, bbox=[10.75, 2, 5.25, 9]))
    assert_kept_and_reported(gl.open(str(tmp_path / "a.parquet")))


@pytest.mark.parametrize("crs", ["EPSG:3857", "local", "none"])
def test_a_covering_with_a_reversed_row_is_read_alike(tmp_path, crs):
    sides = {"xmin": [10.75, 5.25, 7.0], "ymin": [2.0, 9.0, 3.0], "xmax": [5.25, 5.25, 7.0], "ymax": [2.0, 9.0, 3.0]}
    boxes = pa.StructArray.from_arrays([pa.array(values) for values in sides.values()], list(sides))
    covering = {"bbox": {side: ["bbox", side] for side in sides}}
    parquet_file(tmp_path / "a.parquet", crs, ROWS, geo=geo_metadata(crs, covering=covering), bbox=boxes)
    assert_kept_and_reported(gl.open(str(tmp_path / "a.parquet")))
