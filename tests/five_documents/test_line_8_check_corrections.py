"""Line 8: `check` reports what is wrong and no more, and what it says to do can be done."""

from __future__ import annotations

import json

import geopandas as gpd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.checks.finding import Severity
from geolake_nb.cli import main
from geolake_nb.errors import StorageError
from geolake_nb.parquet.schema import to_arrow_type
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table

POINTS = [shapely.Point(1, 2).wkb, shapely.Point(3, 4).wkb]


def geo_of(**column):
    return {
        "version": "1.1.0",
        "primary_column": "geom",
        "columns": {"geom": {"encoding": "WKB", "geometry_types": [], **column}},
    }


def write_geometry(path, crs, geo):
    values = to_arrow_type(gl.geometry(crs)).wrap_array(pa.array(POINTS, pa.binary()))
    pq.write_table(pa.table({"geom": values}).replace_schema_metadata({"geo": json.dumps(geo)}), path)


def geopandas_folder(folder, **options):
    folder.mkdir()
    for number in range(3):
        shapes = [shapely.Point(number, number), shapely.Point(number + 1, number)]
        frame = gpd.GeoDataFrame({"id": [0, 1]}, geometry=shapes, crs=4326)
        frame.to_parquet(folder / f"{number}.parquet", **options)
    return folder


def test_a_geometry_without_crs_beside_a_null_crs_of_geoparquet_is_at_most_a_warning(tmp_path):
    write_geometry(tmp_path / "a.parquet", "OGC:CRS84", geo_of(crs=None))
    severities = {finding.rule: finding.severity for finding in gl.open(tmp_path).check()}
    assert severities.get("crs.differs_in_geoparquet", Severity.WARNING) is Severity.WARNING
    assert Severity.ERROR not in severities.values()


def test_two_crss_that_differ_are_an_error_still(tmp_path):
    write_geometry(tmp_path / "a.parquet", "EPSG:32633", geo_of())
    severities = {finding.rule: finding.severity for finding in gl.open(tmp_path).check()}
    assert severities["crs.differs_in_geoparquet"] is Severity.ERROR


def delta_without_geo(folder):
    """A table of numbers whose log names a file that is there and one that is not."""
    log = LogMaker(folder)
    pq.write_table(pa.table({"id": [1, 2]}), folder / "there.parquet")
    size = (folder / "there.parquet").stat().st_size
    adds = [add(name, {"numRecords": 2}, size=size) for name in ("there.parquet", "gone.parquet")]
    log.commit(0, protocol(), metadata(field("id", "long")), *adds)
    return folder


def test_files_that_are_missing_are_reported_for_delta_tables_without_geo_columns(tmp_path):
    (finding,) = [result for result in gl.open(delta_without_geo(tmp_path)).check() if result.rule == "files.missing"]
    assert "gone.parquet" in str(finding)
    assert "there.parquet" not in str(finding)


def test_files_that_are_missing_are_reported_for_iceberg_tables_without_geo_columns(tmp_path):
    rows = pa.table({"id": pa.array([1], pa.int64())})
    entries = [FileEntry(name, rows=1, table=rows) for name in ("data/a.parquet", "data/b.parquet")]
    make_iceberg_table(tmp_path, [column(1, "id", "long")], entries)
    assert "files.missing" not in {entry.rule for entry in gl.open(tmp_path).check()}
    (tmp_path / "data" / "b.parquet").unlink()
    (finding,) = [result for result in gl.open(tmp_path).check() if result.rule == "files.missing"]
    assert "b.parquet" in str(finding)


def test_a_check_of_the_metadata_alone_does_not_open_files(tmp_path):
    assert "files.missing" not in {
        finding.rule for finding in gl.open(delta_without_geo(tmp_path)).check(footers=False)
    }


@pytest.mark.parametrize("options", [{}, {"write_covering_bbox": True}, {"schema_version": "1.0.0"}], ids=str)
def test_a_geopandas_folder_without_findings_gets_no_repair_plan(tmp_path, options):
    table = gl.open(geopandas_folder(tmp_path / "set", **options))
    before = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    assert not table.check()
    plan = table.plan_repair()
    assert plan.is_empty
    assert "--column geometry" in str(plan)
    plan.apply()
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == before


def test_a_named_column_gets_the_optional_footer_metadata(tmp_path):
    folder = geopandas_folder(tmp_path / "set")
    gl.open(folder).plan_repair(columns=["geometry"]).apply()
    kinds = {
        json.loads(pq.read_metadata(path).schema.column(1).logical_type.to_json())["Type"]
        for path in folder.glob("*.parquet")
    }
    assert kinds == {"Geometry"}


def test_a_folder_with_one_file_without_a_box_is_repaired_as_a_whole(tmp_path):
    folder = geopandas_folder(tmp_path / "set")
    geo = json.loads(pq.read_metadata(folder / "1.parquet").metadata[b"geo"])
    del geo["columns"]["geometry"]["bbox"]
    # As plain bytes: a type of geoarrow, once another test has registered it, would be written with a box.
    wkb = pa.array(gpd.read_parquet(folder / "1.parquet").geometry.to_wkb(), pa.binary())
    rows = pa.table({"id": range(len(wkb)), "geometry": wkb})
    pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo)}), folder / "1.parquet")
    assert "bounds.missing" in {finding.rule for finding in gl.open(folder).check()}
    gl.open(folder).plan_repair().apply()
    assert not gl.open(folder).check()
    assert gl.open(folder).plan_repair().is_empty


def test_a_path_outside_of_the_table_names_an_option_that_exists(tmp_path, capsys):
    source = tmp_path / "source"
    source.mkdir()
    values = to_arrow_type(gl.geometry()).wrap_array(pa.array(POINTS, pa.binary()))
    pq.write_table(pa.table({"geom": values}), source / "a.parquet")
    size = (source / "a.parquet").stat().st_size
    clone = LogMaker(tmp_path / "clone")
    clone.commit(
        0,
        protocol("geospatial"),
        metadata(field("geom", "geometry(OGC:CRS84)")),
        add((source / "a.parquet").as_uri(), {"numRecords": 2}, size=size),
    )
    with pytest.raises(StorageError, match=r"--allow-root ROOT.*allowed_roots=\[ROOT\]"):
        gl.open(tmp_path / "clone").row_groups()
    assert gl.open(tmp_path / "clone", allowed_roots=[source]).row_groups()["rows"].to_pylist() == [2]
    assert main(["row-groups", str(tmp_path / "clone"), "--allow-root", str(source)]) == 0
    assert "1 row groups" in capsys.readouterr().out
