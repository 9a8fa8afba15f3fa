"""Files of the one writer and their statistics, as Spark reads them and beside those that it writes itself."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from geolake_nb.formats.delta import open_delta
from geolake_nb.formats.delta.write_target import add_action, stats_text
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.storage.storage import Storage
from tests.oracle.wkb_write import linestring, point, write

pytestmark = pytest.mark.spark

POINT = write(point(1.0, 2.0))
LINE = write(linestring((170.0, 60.0), (-170.0, 60.0)))


def test_spark_reads_geometry_and_geography_of_a_written_file(spark, tmp_path):
    schema = Schema(
        StructType(
            (
                Field("id", PrimitiveType("int32")),
                Field("g", GeometryType()),
                Field("web", GeometryType(Crs("EPSG:3857"))),
                Field("unknown", GeometryType(Crs("SRID:0"))),
                Field("h", GeographyType()),
                Field("k", GeographyType(algorithm=EdgeAlgorithm.KARNEY)),
                Field("s", StructType((Field("l", ListType(Field("element", GeometryType()))),))),
                Field("m", MapType(Field("key", StringType(), nullable=False), Field("value", GeographyType()))),
            )
        )
    )
    rows = {
        "id": [1, 2],
        "g": [POINT, None],
        "web": [POINT, None],
        "unknown": [LINE, None],
        "h": [LINE, None],
        "k": [LINE, None],
        "s": pa.array([{"l": [POINT, None]}, None], pa.struct({"l": pa.list_(pa.binary())})),
        "m": pa.array([[("a", POINT)], None], pa.map_(pa.string(), pa.binary())),
    }
    with ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema)) as writer:
        writer.write(pa.record_batch(rows))
    frame = spark.read.parquet(str(tmp_path))
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        "id": "int",
        "g": "geometry(4326)",
        "web": "geometry(3857)",
        "unknown": "geometry(0)",
        "h": "geography(4326)",
        "k": "geography(4326)",
        "s": "struct<l:array<geometry(4326)>>",
        "m": "map<string,geography(4326)>",
    }
    plain = [f"st_asbinary({name}) AS {name}" for name in ("g", "web", "unknown", "h", "k")]
    first, second = (
        frame.selectExpr("id", *plain, "st_asbinary(s.l[0]) AS l", "st_srid(s.l[1]) AS n", "st_asbinary(m['a']) AS m")
        .orderBy("id")
        .collect()
    )
    assert tuple(map(_bytes, first)) == (1, POINT, POINT, LINE, LINE, LINE, POINT, None, POINT)
    assert tuple(second) == (2, *[None] * 8)


def _bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


COLUMNS = """
 bo BOOLEAN, by TINYINT, sh SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, zero DOUBLE, dec DECIMAL(38,18),
 small DECIMAL(5,2), dt DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, s STRING, slong STRING, sb STRING, bin BINARY,
 a ARRAY<INT>, m MAP<STRING,INT>, st STRUCT<x: INT, y: STRUCT<z: STRING, w: ARRAY<INT>, v: INT>>, nul INT, nuls STRING,
 old DATE, tsold TIMESTAMP
"""
ROWS = r"""
 (true, 1Y, -5S, 7, 9007199254740993L, CAST(0.1 AS FLOAT), 0.1D, 0.0D,
  CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18)), CAST(1.5 AS DECIMAL(5,2)), DATE'2024-02-29',
  TIMESTAMP'2024-01-01 00:00:00.123456Z', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', 'abc', repeat('x', 40),
  repeat('\U0001F600', 40), X'00FF', array(1, null), map('a', 1),
  named_struct('x', 1, 'y', named_struct('z', 'q', 'w', array(1), 'v', CAST(NULL AS INT))),
  CAST(NULL AS INT), CAST(NULL AS STRING), DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00Z'),
 (false, 2Y, 5S, 8, 9007199254740995L, CAST(16777217.5 AS FLOAT), -1e300D, -0.0D,
  CAST('-0.000000000000000001' AS DECIMAL(38,18)), CAST(-1 AS DECIMAL(5,2)), DATE'9999-12-31',
  TIMESTAMP'1950-01-01 00:00:00.9999Z', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 'ab',
  concat(repeat('y', 31), '\U0010FFFF\U0010FFFFz'), 'é', NULL, NULL, NULL, NULL, NULL, NULL, DATE'1582-10-04',
  TIMESTAMP'9999-12-31 23:59:59.9999Z')
"""


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """A Delta table with one file of all types that Spark wrote, with statistics in UTC."""
    folder = tmp_path_factory.mktemp("delta") / "types"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    features = "'delta.dataSkippingNumIndexedCols' = '-1', 'delta.enableDeletionVectors' = 'true'"
    spark.sql(f"CREATE TABLE delta.`{folder}` ({COLUMNS}) USING delta TBLPROPERTIES ({features})")
    spark.sql(f"INSERT INTO delta.`{folder}` SELECT /*+ COALESCE(1) */ * FROM VALUES {ROWS} AS v")
    yield folder
    spark.conf.set("spark.sql.session.timeZone", zone)


def _leaves(value: Any, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The leaves of a JSON object by their names; an object without any is nothing."""
    if not isinstance(value, dict):
        return {above: value}
    return {path: leaf for name, stored in value.items() for path, leaf in _leaves(stored, (*above, name)).items()}


def test_statistics_are_those_that_spark_writes_for_the_same_rows(spark, table):
    snapshot = open_delta(Storage.at(str(table)))
    indexed = snapshot.details.indexed
    rows = spark.read.format("delta").load(str(table)).toArrow()
    with ParquetWriter(Storage.at(str(table)), "ours.parquet", Layout(snapshot.schema, measured=indexed)) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
    mapping = snapshot.details.column_mapping
    text = stats_text(writer.close(), snapshot.schema, mapping, indexed, deletion_vectors=True)
    theirs = _leaves(json.loads(snapshot.details.stats.raw[0].as_py(), parse_float=Decimal))
    ours = _leaves(json.loads(text, parse_float=Decimal))
    for side in ("minValues", "maxValues"):  # Spark has the shortest text of a float, and we the number itself
        assert pa.scalar(float(ours.pop((side, "f"))), pa.float32()) == pa.scalar(
            float(theirs.pop((side, "f"))), pa.float32()
        )
    assert ours == theirs
    assert re.search(r'"dec":12345678901234567890\.123456789012345678\b', text)


def test_spark_reads_the_rows_of_a_written_file_by_its_statistics(spark, table):
    snapshot = open_delta(Storage.at(str(table)))
    indexed, schema = snapshot.details.indexed, snapshot.schema
    rows = spark.read.format("delta").load(str(table)).toArrow()
    storage = Storage.at(str(table))
    with ParquetWriter(storage, "p=a b%3A/ours 1.parquet", Layout(schema, measured=indexed)) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
    stats = stats_text(writer.close(), schema, snapshot.details.column_mapping, indexed, deletion_vectors=True)
    add = add_action(writer.close(), stats=stats, partition_values={}, modification_time=0, data_change=True)
    (table / "_delta_log" / "00000000000000000002.json").write_text(add + "\n")
    frame = spark.read.format("delta").load(str(table))
    plain = "bo, by, sh, i, l, f, d, dec, small, dt, ts, tn, s, slong, sb, bin, a, st, nul, old, tsold"
    counts = frame.selectExpr(f"struct({plain}) AS r").groupBy("r").count().select("count").collect()
    assert [row["count"] for row in counts] == [2, 2]  # each row from their file and from ours
    for condition in (
        "ts = TIMESTAMP'2024-01-01 00:00:00.123456Z'",
        "tn = TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        "slong > repeat('y', 31)",
        "sb = repeat('\\U0001F600', 40)",
        "dec = CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18))",
        "f = CAST(0.1 AS FLOAT)",
        "d = 0.1D",
        "zero = 0.0D AND i = 8",
        "st.y.z = 'q'",
        "nul IS NULL AND i = 7",
        "old = DATE'0001-01-01'",
    ):
        assert frame.where(condition).count() == 2, condition
