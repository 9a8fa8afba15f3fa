"""Footers of Parquet files that are repaired: what other readers then see, with pages that did not move by a byte."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import duckdb
import geopandas
import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import referencing
import shapely
from referencing.jsonschema import DRAFT7

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import ConflictError, CorruptTableError, RefusedError, StorageError, UnsupportedTableError
from geolake_nb.model.box import Box
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.storage.storage import Storage
from tests.formats.parquet_sets import GEO, contents, make_set, make_wide, points
from tests.growth import growth
from tests.oracle.wkb_write import point, polygon, write
from tests.storage.test_storage import as_nobody, public_copy

PROJJSON = json.loads((Path(pyproj.datadir.get_data_dir()) / "projjson.schema.json").read_text())
CORPUS = (
    "geoparquet/examples/0.4.0/example.parquet",
    "geoparquet/examples/1.0.0/example.parquet",
    "geoparquet/examples/1.1.0/example.parquet",
    "geoparquet/sedona-testing/overture-bbox.parquet",
    "geoparquet/test_data_1.1.0/data-multipolygon-encoding_wkb.parquet",
    "parquet_geo/geoarrow-data/example-crs_vermont-custom.parquet",
    "parquet_geo/geoarrow-data/example-crs_vermont-utm.parquet",
    "parquet_geo/parquet-testing/crs-geography.parquet",
    "parquet_geo/parquet-testing/crs-projjson.parquet",
    "parquet_geo/parquet-testing/crs-srid.parquet",
    "parquet_geo/parquet-testing/geospatial.parquet",
)


def valid_geo(corpus: Path, path: Path) -> dict | None:
    """The `geo` property of a file, checked with the JSON schema of its version."""
    text = pq.read_metadata(path).metadata.get(b"geo")
    if text is None:
        return None
    geo = json.loads(text)
    name = "2.0" if geo["version"].startswith("2") else geo["version"]
    schema = json.loads((corpus / f"geoparquet/schema/{name}/schema.json").read_text())
    if name == "2.0":
        schema["properties"]["version"]["const"] = geo["version"]  # the schema is of a draft
    resource = DRAFT7.create_resource(PROJJSON)
    addresses = [f"https://proj.org/schemas/v0.{minor}/projjson.schema.json" for minor in (5, 7)]
    registry = referencing.Registry().with_resources([(address, resource) for address in addresses])
    jsonschema.Draft7Validator(schema, registry=registry).validate(geo)
    return geo


def pages(path: Path) -> bytes:
    data = path.read_bytes()
    return data[: -8 - int.from_bytes(data[-8:-4], "little")]


def rows(path: Path) -> pa.Table:
    return pq.read_table(path, arrow_extensions_enabled=False).replace_schema_metadata(None)


def boxes(path: Path, column: str = "geom") -> list[dict]:
    metadata = pq.read_metadata(path)
    position = metadata.schema.names.index(column)
    groups = [metadata.row_group(number).column(position) for number in range(metadata.num_row_groups)]
    return [None if chunk.geo_statistics is None else chunk.geo_statistics.to_dict() for chunk in groups]


def replaced_footer(path: Path, leaves, **options) -> None:
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = edit_footer(data[-8 - length : -8], leaves, **options)
    path.write_bytes(data[: -8 - length] + footer_with_tail(footer))


@pytest.mark.parametrize("name", CORPUS)
def test_files_of_other_writers_are_repaired_and_given_back(corpus, tmp_path, name):
    path = tmp_path / "a.parquet"
    shutil.copy(corpus / name, path)
    before, old_pages, old_rows = path.read_bytes(), pages(path), rows(path)
    table = gl.open(str(path))
    report = table.plan_repair(columns=[column for column, _ in table.schema.geo_columns()]).apply()
    assert pages(path) == old_pages
    assert rows(path).equals(old_rows)
    valid_geo(corpus, path)
    metadata = pq.read_metadata(path)
    kinds = [metadata.schema.column(index).logical_type.type for index in range(len(metadata.schema))]
    assert {"GEOMETRY", "GEOGRAPHY"} & set(kinds)
    again = gl.open(str(path))
    assert again.plan_repair().is_empty
    assert again.plan_repair(verify=True).apply().version is None
    report.undo()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["geoparquet/examples/2.0/example.parquet", "parquet_geo/geoparquet-io/fields_gpq2_crs84_zstd.parquet"]
)
def test_files_that_lack_nothing_are_left_alone(corpus, tmp_path, name):
    path = tmp_path / "a.parquet"
    shutil.copy(corpus / name, path)
    assert gl.open(str(path)).plan_repair().is_empty


def test_files_in_a_bucket_are_repaired_and_given_back(s3, tmp_path):
    folder = make_set(tmp_path / "set")
    old = contents(folder)
    there = Storage.at("s3://lake/repaired", options=s3.options)
    for name, data in old.items():
        there.put_if_absent(name, data)
    report = gl.open("s3://lake/repaired", storage_options=s3.options).plan_repair().apply()
    table = gl.open("s3://lake/repaired", storage_options=s3.options)
    assert table.plan_repair().is_empty
    assert table.files.table["geom.xmax"].to_pylist() == [9.0, 19.0, 29.0]
    report.undo()
    assert {name: there.read(name) for name in old} == old


def test_boxes_of_row_groups_are_those_of_shapely_and_readers_agree_on_the_rows(corpus, tmp_path):
    folder = make_set(tmp_path / "set")
    old = contents(folder)
    report = gl.open(str(folder)).plan_repair().apply()
    assert report.metrics["files_repaired"] == 3
    for number, path in enumerate(sorted(folder.glob("*.parquet"))):
        shapes = shapely.from_wkb(pq.read_table(path, arrow_extensions_enabled=False)["geom"].to_pylist())
        for group, box in enumerate(boxes(path)):
            expected = shapely.total_bounds(shapes[group * 4 : group * 4 + 4])
            assert [box[side] for side in ("xmin", "ymin", "xmax", "ymax")] == expected.tolist()
            assert box["geospatial_types"] == [1]
        geo = valid_geo(corpus, path)
        assert geo["columns"]["geom"]["bbox"] == shapely.total_bounds(shapes).tolist()
        assert geo["columns"]["geom"]["geometry_types"] == ["Point"]
        assert pq.read_metadata(path).created_by.startswith("parquet-cpp-arrow")
        assert shapely.get_x(shapes[0]) == 10 * number
    frame = geopandas.read_parquet(folder).sort_values("id")
    assert frame.crs == "OGC:CRS84"
    assert frame.geometry.x.tolist() == list(range(30))
    query = f"SELECT count(*), sum(id), any_value(typeof(geom)) FROM read_parquet('{folder}/**/*.parquet')"
    assert duckdb.sql(query).fetchall() == [(30, 435, "GEOMETRY")]
    assert len(gl.open(str(folder)).explain(Box(0.5, -1.5, 1.5, -0.5), row_groups=True).row_groups) > 0
    report.undo()
    assert contents(folder) == old


def test_a_geography_gets_boxes_that_hold_its_edges(tmp_path):
    path = tmp_path / "a.parquet"
    ring = [(0.0, 60.0), (90.0, 60.0), (45.0, 50.0), (0.0, 60.0)]
    across = [(170.0, 10.0), (-170.0, 10.0), (-170.0, 20.0), (170.0, 20.0), (170.0, 10.0)]
    values = [write(polygon(ring)), write(polygon(across))]
    pq.write_table(pa.table({"geom": pa.array(values, pa.binary())}), path, row_group_size=1)
    types = {"geom": gl.geography("OGC:CRS84")}
    gl.open(str(path)).plan_repair(columns=types).apply()
    first, second = boxes(path)
    # The great circle between (0, 60) and (90, 60) is highest at 45 degrees: tan(lat) = tan(60) / cos(45).
    top = np.degrees(np.arctan(np.tan(np.radians(60)) / np.cos(np.radians(45))))
    assert first["ymax"] == pytest.approx(top, abs=1e-6)
    assert first["ymax"] >= top
    assert (second["xmin"], second["xmax"]) == (170.0, -170.0)
    table = gl.open(str(path))
    assert table.files.table["geom.source"].to_pylist() == ["footer"]
    # Who copies the file with its properties copies the mark, too: it is bound to the boxes of this file.
    copy = tmp_path / "copy.parquet"
    pq.write_table(pq.read_table(path), copy, row_group_size=2)
    replaced_footer(copy, {("geom",): LeafEdit(gl.geography(), [ChunkStats(Box(0, 50, 90, 60), (3,), 2)])})
    assert not gl.open(str(copy)).plan_repair().is_empty


def test_columns_without_a_type_need_one(tmp_path, capsys):
    folder = make_set(tmp_path / "set", geo=None)
    assert gl.open(str(folder)).plan_repair().is_empty
    old = contents(folder)
    assert main(["repair", str(folder), "--column", "geom=geometry(EPSG:3857)", "--apply"]) == 0
    assert "3 files repaired" in capsys.readouterr().out
    assert geopandas.read_parquet(folder).crs == "EPSG:3857"
    assert gl.open(str(folder)).schema.find("geom").type.crs.text == "EPSG:3857"
    assert main(["undo", str(folder), "--apply"]) == 0
    assert contents(folder) == old


def test_what_is_right_in_the_metadata_stays(tmp_path):
    column = {**GEO["columns"]["geom"], "epoch": 2024.5, "note": [1]}
    geo = {"version": "1.0.0", "primary_column": "geom", "columns": {"geom": column}, "mine": {"a": 1}}
    folder = make_set(tmp_path / "set", files=1, geo=geo)
    gl.open(str(folder)).plan_repair().apply()
    made = json.loads(pq.read_metadata(folder / "0.parquet").metadata[b"geo"])
    assert (made["version"], made["mine"]) == ("1.1.0", {"a": 1})
    assert made["columns"]["geom"]["epoch"] == 2024.5
    assert made["columns"]["geom"]["note"] == [1]
    assert json.loads(pq.read_schema(folder / "0.parquet").metadata[b"geo"]) == made


def test_boxes_that_only_the_values_show_to_be_wrong_are_repaired_by_verify(tmp_path):
    folder = make_set(tmp_path / "set", files=1)
    gl.open(str(folder)).plan_repair().apply()
    path = folder / "0.parquet"
    wrong = [ChunkStats(Box(0, -1, 1, 0), (1,), 4)] * 2 + [ChunkStats(Box(0, -9, 9, 0), (1,), 2)]
    replaced_footer(path, {("geom",): LeafEdit(gl.geometry(), wrong)})
    table = gl.open(str(folder))
    assert table.plan_repair().is_empty
    report = table.plan_repair(verify=True).apply()
    assert report.metrics["files_repaired"] == 1
    assert [(box["xmin"], box["xmax"]) for box in boxes(path)] == [(0, 3), (4, 7), (8, 9)]


def test_a_value_that_cannot_be_read_leaves_its_row_group_without_a_box(tmp_path):
    path = tmp_path / "a.parquet"
    values = [write(point(1.0, 2.0)), b"no WKB", None, write(point(3.0, 4.0))]
    pq.write_table(pa.table({"geom": pa.array(values, pa.binary())}), path, row_group_size=2, store_schema=False)
    replaced_footer(path, {("geom",): LeafEdit(gl.geometry())})
    report = gl.open(str(path)).plan_repair().apply()
    assert report.metrics["values_without_bound"] == 1
    first, second = boxes(path)
    assert first is None or first["xmin"] is None
    assert (second["xmin"], second["xmax"]) == (3.0, 3.0)
    assert "bbox" not in json.loads(pq.read_metadata(path).metadata[b"geo"])["columns"]["geom"]


@pytest.mark.parametrize("dialect", ["srid", "z flag"])
def test_ewkb_is_for_a_rewrite(tmp_path, dialect):
    path = tmp_path / "a.parquet"
    value = shapely.to_wkb(
        shapely.set_srid(shapely.Point(1, 2), 4326) if dialect == "srid" else shapely.Point(1, 2, 3),
        include_srid=dialect == "srid",
        flavor="extended",
    )
    pq.write_table(pa.table({"geom": pa.array([value], pa.binary())}), path)
    before = path.read_bytes()
    plan = gl.open(str(path)).plan_repair(columns={"geom": gl.geometry()})
    with pytest.raises(RefusedError, match=r"values are EWKB, .* run geolake rewrite"):
        plan.apply()
    assert path.read_bytes() == before


def test_a_file_that_changed_since_the_plan_is_a_conflict(tmp_path):
    folder = make_set(tmp_path / "set")
    plan = gl.open(str(folder)).plan_repair()
    pq.write_table(points(0, 10), folder / "2.parquet")
    before = contents(folder)
    with pytest.raises(ConflictError, match=r"2\.parquet: the file was changed since the plan was made"):
        plan.apply()
    assert contents(folder) == before


def test_a_plan_is_applied_once(tmp_path):
    folder = make_set(tmp_path / "set")
    plan = gl.open(str(folder)).plan_repair()
    assert plan.hash == gl.open(str(folder)).plan_repair().hash
    assert plan.apply().version == 1
    after = contents(folder)
    assert plan.apply().version == 1
    assert contents(folder) == after


@pytest.mark.parametrize(
    ("harm", "error", "message"),
    [
        (lambda data: data[:-20], CorruptTableError, "not Parquet, or it is truncated"),
        (lambda data: data[:-4] + b"PARE", UnsupportedTableError, "encrypted"),
        (lambda _: b"CREATE TABLE t (a INT)", CorruptTableError, "not Parquet"),
        (lambda _: b"", CorruptTableError, "the file is empty"),
    ],
)
def test_a_broken_file_is_reported_in_a_sentence(tmp_path, harm, error, message):
    folder = make_set(tmp_path / "set")
    path = folder / "1.parquet"
    path.write_bytes(harm(path.read_bytes()))
    before = contents(folder)
    with pytest.raises(error, match=message) as caught:
        gl.open(str(folder)).plan_repair()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


def test_a_signed_footer_is_not_touched(tmp_path):
    from geolake_nb.parquet.thrift_compact import Struct, Wire, read_struct, write_struct

    folder = make_set(tmp_path / "set", files=1)
    path = folder / "0.parquet"
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    # Parquet, Modular encryption: FileMetaData.encryption_algorithm of files with plain footers.
    algorithm = Struct().with_field(1, Wire.STRUCT, Struct())
    footer = write_struct(read_struct(data[-8 - length : -8]).with_field(8, Wire.STRUCT, algorithm))
    with pytest.raises(UnsupportedTableError, match="its footer is signed"):
        edit_footer(footer, {})


def test_a_folder_that_may_not_be_written_is_left_as_it_is(tmp_path):
    # Python may not find its own modules as another user: this imports what a repair needs.
    gl.open(str(make_set(tmp_path / "other"))).plan_repair().apply()
    with public_copy(make_set(tmp_path / "set")) as folder:
        folder.chmod(0o555)
        before = contents(folder)
        plan = gl.open(str(folder)).plan_repair()
        with as_nobody(), pytest.raises(StorageError, match="writing is not permitted; check its permissions"):
            plan.apply()
        folder.chmod(0o755)
        assert contents(folder) == before
        assert not (folder / "_geolake").exists()
        assert os.listdir(folder) == [name for name in os.listdir(folder) if name.endswith(".parquet")]


def test_a_single_file_has_its_own_history_beside_others(tmp_path):
    folder = make_set(tmp_path / "set")
    gl.open(str(folder / "0.parquet")).plan_repair().apply()
    gl.open(str(folder / "1.parquet")).plan_repair().apply()
    plan = gl.open(str(folder / "0.parquet")).plan_undo()
    assert plan.change.parameters["version"] == "1"
    with pytest.raises(RefusedError, match="there is no change by geolake_nb to undo"):
        gl.open(str(folder / "2.parquet")).plan_undo()
    assert Storage.at(str(folder)).is_folder("_geolake")


def test_many_geo_columns_take_as_long_as_they_are_many(tmp_path):
    def planning(count):
        table = gl.open(str(make_wide(tmp_path / f"{count}.parquet", count)))
        return table.plan_repair

    assert growth(planning, 100, 800) < 20
