"""Line A: NaN is in no minimum and maximum of a footer, so a chunk that holds one has neither, in every format."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, ListType, MapType, PrimitiveType, StringType, StructType
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.storage.storage import Storage

NAN = float("nan")
POINT = shapely.to_wkb(shapely.Point(1, 2))
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "d": pa.array([1.0, NAN, None]),
        "s": pa.array([{"f": 1.0}, {"f": NAN}, None], pa.struct([("f", pa.float32())])),
        "geom": pa.array([POINT, POINT, None], pa.binary()),
    }
)
# Spark: NaN is greater than any number and equals itself (its documentation, "NaN Semantics").
FILTERS = {
    "d > 5": [2],
    "d <> 1.0": [2],
    "d = CAST('NaN' AS DOUBLE)": [2],
    "d >= 1.0": [1, 2],
    "s.f > 5": [2],
    "d <= 1.0": [1],
    "NOT d > 5": [1],
}
FORMATS = ["delta", "havasu", "iceberg", "parquet"]


def number(name):
    return Field(name, PrimitiveType("float64"))


def written(folder: Path, table: pa.Table, schema: Schema, **options) -> pq.FileMetaData:
    with ParquetWriter(Storage.at(str(folder)), "a.parquet", Layout(schema, **options)) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return pq.read_metadata(folder / "a.parquet")


def data_files(path) -> list[str]:
    folder = Path(path)
    files = (file for file in folder.rglob("*.parquet") if not file.name.startswith((".", "_")))
    return sorted(str(file) for file in files if "_delta_log" not in str(file))


def ids(spark, files, where):
    frame = spark.read.parquet(*files).where(where)
    return sorted(row.id for row in frame.select("id").collect())


def assert_every_filter_finds_its_rows(spark, path):
    files = data_files(path)
    assert files
    assert {where: ids(spark, files, where) for where in FILTERS} == FILTERS
    # DuckDB orders NaN as Spark does.
    rows_by_filter = {
        where: duckdb.sql(f"SELECT id FROM read_parquet({files}) WHERE {where}").fetchall() for where in FILTERS
    }
    assert {where: sorted(row[0] for row in rows) for where, rows in rows_by_filter.items()} == FILTERS


def test_chunks_with_nan_have_no_minimum_and_maximum_in_footer_and_page_index(tmp_path):
    schema = Schema(
        StructType(
            (
                number("d"),
                Field("s", StructType((number("x"),))),
                Field("l", ListType(Field("element", PrimitiveType("float32")))),
                Field("m", MapType(Field("key", StringType()), Field("value", PrimitiveType("float64")))),
                Field("h", PrimitiveType("float16")),
            )
        )
    )
    table = pa.table(
        {
            "d": pa.array([1.0, NAN, 2.0, 3.0]),
            "s": pa.array([{"x": 1.0}, {"x": NAN}, {"x": 1.0}, None]),
            "l": pa.array([[1.0, NAN], [], None, [2.0]], pa.list_(pa.float32())),
            "m": pa.array([[("a", NAN)], None, [("b", 1.0)], None], pa.map_(pa.string(), pa.float64())),
            "h": pa.array([np.float16(1), np.float16(NAN), None, np.float16(2)], pa.float16()),
        }
    )
    footer = written(tmp_path, table, schema, row_group_rows=2)
    leaves = ["d", "s.x", "l.list.element", "m.key_value.value", "h"]
    for group, has_nan in ((0, True), (1, False)):
        chunks = {chunk.path_in_schema: chunk for chunk in map(footer.row_group(group).column, range(6))}
        for leaf in leaves:
            chunk = chunks[leaf]
            assert chunk.statistics.has_min_max is not has_nan, leaf
            assert chunk.has_column_index is not has_nan, leaf
            assert chunk.statistics.has_null_count
        assert chunks["m.key_value.key"].statistics.has_min_max
    assert pq.read_table(tmp_path / "a.parquet")["d"].to_pylist()[2:] == [2.0, 3.0]


def test_infinities_and_zeros_keep_their_range(tmp_path):
    table = pa.table({"d": pa.array([-0.0, math.inf, -math.inf, 0.0])})
    footer = written(tmp_path, table, Schema(StructType((number("d"),))))
    statistics = footer.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (-math.inf, math.inf)


@pytest.mark.spark
@pytest.mark.parametrize("kind", FORMATS)
def test_rows_with_nan_are_found_after_write_append_and_rewrite(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    gl.write(ROWS.slice(0, 2), path, format=kind, columns={"geom": gl.geometry()}, spark=spark)
    gl.write(ROWS.slice(2), path, format=kind, mode="append", spark=spark)
    assert_every_filter_finds_its_rows(spark, path)
    before = set(data_files(path))
    gl.open(path).plan_rewrite(cluster_by="geom").apply(spark=spark)
    new = set(data_files(path)) - before
    assert new
    assert {where: ids(spark, sorted(new), where) for where in FILTERS} == FILTERS


@pytest.mark.spark
def test_rows_with_nan_are_found_after_enable(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.createDataFrame(ROWS.to_pylist(), "id long, d double, s struct<f: float>, geom binary").coalesce(
        1
    ).write.format("delta").save(path)
    gl.open(path).plan_enable({"geom": gl.geometry()}).apply(spark=spark, consent="geospatial")
    frame = spark.read.format("delta").load(path)
    ids = {where: sorted(row.id for row in frame.where(where).select("id").collect()) for where in FILTERS}
    assert ids == FILTERS


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["delta", "iceberg", "havasu"])
def test_rows_with_nan_are_found_after_convert(spark, tmp_path, kind):
    (tmp_path / "source").mkdir()
    pq.write_table(ROWS, tmp_path / "source" / "a.parquet")
    source = gl.open(str(tmp_path / "source"))
    source.plan_convert(str(tmp_path / "t"), format=kind, columns={"geom": gl.geometry()}).apply(spark=spark)
    assert_every_filter_finds_its_rows(spark, tmp_path / "t")


def test_a_deep_check_finds_files_of_other_writers_that_hide_nan(tmp_path):
    geo = b'{"version":"1.1.0","primary_column":"geom","columns":{"geom":{"encoding":"WKB","geometry_types":[]}}}'
    table = ROWS.replace_schema_metadata({b"geo": geo})
    pq.write_table(table, tmp_path / "bad.parquet")
    pq.write_table(table, tmp_path / "good.parquet", write_statistics=False)
    pq.write_table(table.slice(0, 1), tmp_path / "plain.parquet")
    assert pq.read_metadata(tmp_path / "bad.parquet").row_group(0).column(1).statistics.has_min_max
    findings = [
        finding for finding in gl.open(str(tmp_path)).check(deep=True) if finding.rule == "files.nan_outside_range"
    ]
    assert [(finding.scope.column, finding.scope.paths) for finding in findings] == [
        ("d", ("bad.parquet",)),
        ("s.f", ("bad.parquet",)),
    ]
    assert findings[0].fix == f"geolake rewrite {tmp_path} --cluster geom"
    shallow = gl.open(str(tmp_path)).check()
    assert not [finding for finding in shallow if finding.rule == "files.nan_outside_range"]
    assert "files.nan_outside_range" in {finding.rule for finding in shallow.skipped_checks}


@pytest.mark.spark
def test_the_command_of_the_finding_fixes_it(spark, tmp_path):
    geo = b'{"version":"1.1.0","primary_column":"geom","columns":{"geom":{"encoding":"WKB","geometry_types":[]}}}'
    pq.write_table(ROWS.replace_schema_metadata({b"geo": geo}), tmp_path / "bad.parquet")
    assert ids(spark, data_files(tmp_path), "d > 5") == []  # the fault: Spark loses the row
    gl.open(str(tmp_path)).plan_rewrite(cluster_by="geom").apply(spark=spark)
    assert not [
        finding for finding in gl.open(str(tmp_path)).check(deep=True) if finding.rule == "files.nan_outside_range"
    ]
    assert ids(spark, data_files(tmp_path), "d > 5") == [2]
