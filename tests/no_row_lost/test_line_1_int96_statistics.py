"""Line 1: statistics that only a checkpoint's `stats_parsed` holds, with instants in Parquet's INT96."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.parquet.opening import open_parquet_file
from tests.formats.delta.log_maker import METADATA, PROTOCOL, LogMaker, add, field, metadata, protocol

if TYPE_CHECKING:
    from pathlib import Path

SENTINEL = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
LONG_AGO = dt.datetime(1066, 10, 14, 9, tzinfo=dt.UTC)
SPARK_4 = {b"org.apache.spark.version": b"4.0.0"}


def checkpoint(
    table: LogMaker,
    type_: str,
    kind: pa.DataType,
    low: Any,
    high: Any,
    *,
    int96: bool = True,
    keys: dict[bytes, bytes] = SPARK_4,
    partitions: str = "partitionValues",
) -> LogMaker:
    """A checkpoint of one file with rows from `low` to `high`, whose statistics are structs only."""
    range_ = pa.struct([("ts", kind)])
    parsed = pa.struct([("numRecords", pa.int64()), ("minValues", range_), ("maxValues", range_)])
    map_ = pa.map_(pa.string(), pa.string())
    add_type = pa.struct([("path", pa.string()), (partitions, map_), ("size", pa.int64()), ("stats_parsed", parsed)])
    stats = {"numRecords": 2, "minValues": {"ts": low}, "maxValues": {"ts": high}}
    start = [protocol(), metadata(field("ts", type_))]
    table.commit(0, *start, add("a"))
    info = start[1]["metaData"]
    info |= {"configuration": [], "format": {"provider": "parquet", "options": []}}
    columns = {
        "protocol": pa.array([start[0]["protocol"], None, None], PROTOCOL),
        "metaData": pa.array([None, info, None], METADATA),
        "add": pa.array([None, None, {"path": "a", partitions: [], "size": 10, "stats_parsed": stats}], add_type),
    }
    table_ = pa.table(columns)
    path = table.log / f"{0:020}.checkpoint.parquet"
    options = {"use_deprecated_int96_timestamps": int96, "store_schema": False}
    with pq.ParquetWriter(path, table_.schema, **options) as writer:
        writer.write_table(table_)
        writer.add_key_value_metadata(keys)
    return table


def files_read(table: LogMaker, where: str) -> int:
    return gl.open(str(table.folder)).explain(where).kept.num_rows


def written_again(table: LogMaker) -> dict[str, Any]:
    """The statistics that a repair, a collation edit or a rewrite states again."""
    adds = raw_adds(table.storage, list_log(table.storage).segment())
    return json.loads(json.loads(adds["add"][0].as_py()).get("stats", "{}"))


@pytest.fixture
def table(tmp_path: Path) -> LogMaker:
    return LogMaker(tmp_path / "t")


@pytest.mark.parametrize("moment", [SENTINEL, LONG_AGO, dt.datetime(1, 1, 1, tzinfo=dt.UTC)])
def test_a_file_whose_instants_lie_outside_of_1677_to_2262_is_kept(table, moment):
    checkpoint(table, "timestamp", pa.timestamp("us", "UTC"), moment, moment)
    assert files_read(table, f"ts = TIMESTAMP '{moment.isoformat()}'") == 1
    assert files_read(table, "ts < TIMESTAMP '2000-01-01 00:00:00Z'") == (moment.year < 2000)
    assert files_read(table, "ts > TIMESTAMP '2000-01-01 00:00:00Z'") == (moment.year > 2000)


def test_what_is_written_again_is_the_instant_that_was_stored(table):
    checkpoint(table, "timestamp", pa.timestamp("us", "UTC"), LONG_AGO, SENTINEL)
    assert written_again(table) == {
        "numRecords": 2,
        "minValues": {"ts": "1066-10-14T09:00:00.000Z"},
        "maxValues": {"ts": "9999-12-31T23:59:59.999Z"},
    }


def test_an_instant_beyond_the_years_of_json_statistics_is_left_out(table):
    # Spark's microseconds end in the year 294247, the years of ISO 8601 that every reader takes in 9999.
    last = pa.scalar(2**63 - 1 - 86_400_000_000, pa.int64()).cast(pa.timestamp("us", "UTC"))
    checkpoint(table, "timestamp", pa.timestamp("us", "UTC"), LONG_AGO, last)
    assert files_read(table, "ts > TIMESTAMP '9999-12-31 00:00:00Z'") == 1
    assert written_again(table) == {"numRecords": 2, "minValues": {"ts": "1066-10-14T09:00:00.000Z"}}
    assert gl.open(str(table.folder)).snapshot.details.stats.object(0)["numRecords"] == 2


def test_an_instant_without_a_zone_in_parquet_is_written_again_as_an_instant(table):
    # Spark reads a text without a zone in the zone of its session.
    naive = dt.datetime(2024, 2, 29, 12)
    checkpoint(table, "timestamp", pa.timestamp("us"), naive, naive, int96=False)
    assert written_again(table)["minValues"] == {"ts": "2024-02-29T12:00:00.000Z"}


def test_a_timestamp_without_a_zone_is_written_again_without_one(table):
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    checkpoint(table, "timestamp_ntz", pa.timestamp("us", "UTC"), moment, moment, int96=False)
    assert written_again(table)["minValues"] == {"ts": "2024-02-29T12:00:00.000"}


def test_nanoseconds_before_1970_are_cut_down_and_not_towards_1970(table):
    checkpoint(table, "timestamp", pa.timestamp("ns", "UTC"), -1, -1, int96=False)
    assert files_read(table, "ts < TIMESTAMP '1970-01-01 00:00:00Z'") == 1
    assert written_again(table)["minValues"] == {"ts": "1969-12-31T23:59:59.999Z"}


# Spark, DataSourceUtils.datetimeRebaseSpec and int96RebaseSpec: files of Spark before 3.0 (INT96: 3.1), or with these
# keys, count in the calendar that changed from Julian to Gregorian in 1582 and in the local mean times before 1900.
LEGACY = [
    ("timestamp", pa.timestamp("us", "UTC"), True, {b"org.apache.spark.version": b"3.0.1"}),
    ("timestamp", pa.timestamp("us", "UTC"), True, {**SPARK_4, b"org.apache.spark.legacyINT96": b""}),
    ("timestamp", pa.timestamp("us", "UTC"), False, {b"org.apache.spark.version": b"2.4.8"}),
    ("timestamp", pa.timestamp("us", "UTC"), False, {**SPARK_4, b"org.apache.spark.legacyDateTime": b""}),
    ("date", pa.date32(), False, {b"org.apache.spark.version": b"2.4.8"}),
    ("date", pa.date32(), False, {**SPARK_4, b"org.apache.spark.legacyDateTime": b""}),
]


@pytest.mark.parametrize(("type_", "kind", "int96", "keys"), LEGACY)
def test_a_value_of_the_old_calendar_skips_no_file_and_is_not_written_again(table, type_, kind, int96, keys):
    low, high = LONG_AGO, SENTINEL
    if type_ == "date":
        low, high = low.date(), high.date()
    checkpoint(table, type_, kind, low, high, int96=int96, keys=keys)
    literal = "DATE '1066-10-01'" if type_ == "date" else "TIMESTAMP '1066-10-01 00:00:00Z'"
    assert files_read(table, f"ts < {literal}") == 1
    again = written_again(table)
    assert "minValues" not in again
    assert again["maxValues"]["ts"].startswith("9999-12-31")


@pytest.mark.parametrize(("type_", "kind", "int96", "keys"), LEGACY)
def test_a_value_that_both_calendars_share_is_used(table, type_, kind, int96, keys):
    low = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    value = low.date() if type_ == "date" else low
    checkpoint(table, type_, kind, value, value, int96=int96, keys=keys)
    literal = "DATE '1999-01-01'" if type_ == "date" else "TIMESTAMP '1999-01-01 00:00:00Z'"
    assert files_read(table, f"ts < {literal}") == 0
    assert written_again(table)["minValues"]["ts"].startswith("2000-01-01")


def test_a_checkpoint_without_partition_values_is_not_written_again(table):
    checkpoint(table, "timestamp", pa.timestamp("us", "UTC"), LONG_AGO, SENTINEL, partitions="partitionValues_parsed")
    with pytest.raises(CorruptTableError, match="partitionValues"):
        written_again(table)


def test_every_parquet_file_is_read_with_instants_in_microseconds(table):
    column = pa.array([SENTINEL, LONG_AGO], pa.timestamp("us", "UTC"))
    path = table.folder / "a.parquet"
    pq.write_table(pa.table({"ts": column}), path, use_deprecated_int96_timestamps=True, store_schema=False)
    with open_parquet_file(table.storage, "a.parquet") as file:
        assert file.read()["ts"].cast(pa.timestamp("us", "UTC")).to_pylist() == [SENTINEL, LONG_AGO]
