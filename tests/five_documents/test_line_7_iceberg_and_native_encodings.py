"""Line 7: Iceberg's rows under equality deletes, messages that say just what it is, and native GeoArrow encodings."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.scan.data_files import sample_shapes, scan_values
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.formats.iceberg_tables import EQUALITY_DELETES, POSITION_DELETES, FileEntry, column, make_iceberg_table

COLUMNS = [column(1, "id", "long")]


def opened(folder):
    return gl.open(str(folder))


def test_rows_of_a_table_with_equality_deletes_are_not_claimed(tmp_path):
    data = [FileEntry("a.parquet", rows=10, sequence_number=1), FileEntry("b.parquet", rows=7, sequence_number=3)]
    deletes = [FileEntry("e.parquet", rows=2, content=EQUALITY_DELETES, equality_ids=[1], sequence_number=2)]
    make_iceberg_table(tmp_path, COLUMNS, data, deletes, version=2)
    table = opened(tmp_path)
    # Iceberg, Scan Planning: an equality delete applies to data files of a lower sequence number.
    assert table.files.table["rows"].to_pylist() == [None, 7]
    assert table.files.table["physical_rows"].to_pylist() == [10, 7]
    assert "unknown rows" in str(table)
    assert table.explain("id = 1").to_dict()["read"]["rows"] is None


def test_rows_are_claimed_where_all_deletes_are_counted(tmp_path):
    where = str(tmp_path)
    data = [FileEntry("a.parquet", rows=10), FileEntry("b.parquet", rows=7)]
    deletes = [
        FileEntry("p.parquet", rows=2, content=POSITION_DELETES, referenced_data_file=f"{where}/a.parquet"),
    ]
    make_iceberg_table(tmp_path, COLUMNS, data, deletes, version=2)
    table = opened(tmp_path)
    assert table.files.table["rows"].to_pylist() == [8, 7]
    assert "physical_rows" not in table.files.table.column_names


def metadata_file(folder):
    (newest,) = sorted((folder / "metadata").glob("*.metadata.json"))[-1:]
    return newest


def test_a_metadata_file_compressed_with_zstd_is_named_so(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a.parquet", rows=1)])
    path = metadata_file(tmp_path)
    packed = pa.compress(path.read_bytes(), codec="zstd", asbytes=True)
    path.write_bytes(packed)
    with pytest.raises(UnsupportedTableError, match="is compressed with zstd"):
        opened(tmp_path)
    path.unlink()
    for name in ("00009-x.zstd.metadata.json", "00009-x.metadata.json.zst"):
        other = path.parent / name
        other.write_bytes(packed)
        with pytest.raises(UnsupportedTableError, match=f"{name}: the metadata file is compressed with zstd"):
            opened(tmp_path)
        other.unlink()


def test_a_view_is_named_so(tmp_path):
    # The required fields of Iceberg's view metadata, with empty lists.
    view = {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "s3://bucket/warehouse/default.db/event_agg",
        "current-version-id": 1,
        "properties": {"comment": "Daily event counts"},
        "versions": [],
        "schemas": [],
        "version-log": [],
    }
    folder = tmp_path / "metadata"
    folder.mkdir()
    (folder / "00001-x.metadata.json").write_text(json.dumps(view))
    with pytest.raises(UnsupportedTableError, match="is the metadata of an Iceberg view"):
        opened(tmp_path)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**80])
def test_a_snapshot_id_beyond_64_bits_is_named_so(tmp_path, number):
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a.parquet", rows=1)])
    path = metadata_file(tmp_path)
    metadata = json.loads(path.read_text())
    metadata["snapshots"][0]["snapshot-id"] = metadata["current-snapshot-id"] = number
    path.write_text(json.dumps(metadata))
    with pytest.raises(CorruptTableError, match=rf"'(current-)?snapshot-id' beyond 64 bits: {number}"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["AVRO", "ORC"])
def test_data_files_that_are_not_parquet_are_named_so(tmp_path, name):
    data = [FileEntry(f"a.{name.lower()}", rows=1, format=name), FileEntry("b.parquet", rows=1)]
    make_iceberg_table(tmp_path, [*COLUMNS, column(2, "geom", "geometry(OGC:CRS84)")], data, version=3)
    (tmp_path / f"a.{name.lower()}").write_bytes(b"Obj\x01" if name == "AVRO" else b"ORC")
    table = opened(tmp_path)
    assert table.explain("id = 1").read.files == 2
    table.check(footers=False)
    with pytest.raises(UnsupportedTableError, match=rf"a\.{name.lower()} is in {name}; only Parquet is read"):
        table.row_groups()


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ["AVRO", "ORC"])
def test_a_check_of_files_that_are_not_parquet_lists_what_could_not_run(tmp_path, name, deep):
    data = [
        FileEntry(f"a.{name.lower()}", rows=1, format=name),
        replace(geometry_entry("b", [shapely.Point(1, 2)]), geom_lower={}, geom_upper={}),
    ]
    make_iceberg_table(tmp_path, [*COLUMNS, column(2, "geom", "geometry(OGC:CRS84)")], data, version=3)
    (tmp_path / f"a.{name.lower()}").write_bytes(b"Obj\x01" if name == "AVRO" else b"ORC")
    findings = opened(tmp_path).check(deep=deep)
    reason = f"1 of 2 data files are in {name}; only Parquet is read"
    listed = {check.rule for check in findings.skipped_checks if check.why == reason}
    assert {"crs.no_logical_type", "bounds.smaller_than_footer"} <= listed
    assert ("bounds.smaller_than_data" in listed) is deep
    # The data file that is Parquet is read, and one that is not there is reported in any format.
    assert "bounds.missing" in {finding.rule for finding in findings}
    (tmp_path / f"a.{name.lower()}").unlink()
    (gone,) = [finding for finding in opened(tmp_path).check(deep=deep) if finding.rule == "files.missing"]
    assert [path.rpartition("/")[2] for path in gone.scope.paths] == [f"a.{name.lower()}"]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ["AVRO", "ORC"])
def test_a_havasu_table_of_other_files_alone_is_checked(tmp_path, name, deep):
    entry = replace(geometry_entry("a", [shapely.Point(1, 2)]), format=name)
    make_havasu_table(tmp_path, [entry], rasters=True)
    findings = gl.open(str(tmp_path)).check(deep=deep)
    assert "protocol.havasu_file_format" in {finding.rule for finding in findings}
    assert any(
        check.why == f"1 of 1 data files are in {name}; only Parquet is read" for check in findings.skipped_checks
    )


SHAPES = {
    "point": ["POINT (1 2)", None, "POINT (3 -4)"],
    "point z": ["POINT Z (1 2 9)", None, "POINT Z (3 -4 5)"],
    "linestring": ["LINESTRING (0 0, 1 5)", None, "LINESTRING (2 2, 9 -3, 4 4)"],
    "polygon": ["POLYGON ((0 0, 4 0, 4 4, 0 0), (1 0.5, 2 0.5, 2 1, 1 0.5))", None, "POLYGON ((7 7, 8 7, 8 9, 7 7))"],
    "multipoint": ["MULTIPOINT (1 2, 3 4)", None, "MULTIPOINT (-5 6)"],
    "multilinestring": ["MULTILINESTRING ((0 0, 1 5), (2 2, 3 3))", None, "MULTILINESTRING ((9 9, 8 8))"],
    "multipolygon": ["MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), ((5 5, 6 5, 6 6, 5 5)))", None],
    "empty": ["LINESTRING EMPTY", "LINESTRING (0 0, 1 5)"],
}


@pytest.mark.parametrize("kind", SHAPES)
def test_a_deep_check_reads_native_encodings(tmp_path, kind):
    geopandas = pytest.importorskip("geopandas")
    shapes = [None if text is None else shapely.from_wkt(text) for text in SHAPES[kind]]
    path = tmp_path / "native.parquet"
    frame = geopandas.GeoDataFrame({"id": range(len(shapes))}, geometry=shapes, crs="OGC:CRS84")
    frame.to_parquet(path, geometry_encoding="geoarrow")
    table = gl.open(str(path))
    assert [finding.rule for finding in table.check(deep=True) if finding.rule.startswith("bounds.malformed")] == []
    stats = scan_values(table._storage, table.snapshot, [0])
    ((column_stats,),) = ([*columns.values()] for columns in stats.values())
    there = np.array([shape for shape in shapes if shape is not None], object)
    # The oracle is shapely.
    box = column_stats.box
    assert [box.xmin, box.ymin, box.xmax, box.ymax] == shapely.total_bounds(there).tolist()
    assert (column_stats.rows, column_stats.null_count) == (len(shapes), len(shapes) - len(there))
    drawn = sample_shapes(table._storage, table.snapshot, 0, "geometry", 10)
    assert {shape.wkt for shape in drawn} == {shape.wkt for shape in there if not shape.is_empty}


def test_a_deep_check_reads_the_native_files_of_the_corpus(corpus):
    paths = sorted((corpus / "geoparquet/test_data_1.1.0").glob("*-encoding_native.parquet"))
    assert paths
    for path in paths:
        table = gl.open(str(path))
        assert list(table.check(deep=True)) == []
        wkb = path.with_name(path.name.replace("_native", "_wkb"))
        here, there = (scan_values(opened._storage, opened.snapshot, [0]) for opened in (table, gl.open(str(wkb))))
        boxes = [next(iter(next(iter(scanned.values())).values())).box for scanned in (here, there)]
        assert boxes[0] == boxes[1]
