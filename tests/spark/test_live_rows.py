"""Parquet rows as tasks read them: types that Delta lacks, folders, missing columns; no session is needed."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.changes.write_job import Packing
from geolake_nb.errors import SchemaError
from geolake_nb.formats.delta.write import plan_create
from geolake_nb.formats.parquet_folder.write import new_table_of
from geolake_nb.spark.live_rows import Part, _read, sample_parquet, size_parquet
from geolake_nb.storage.storage import Storage

MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 123000)


def job(source, target, **options):
    arguments = {
        "columns": {},
        "partition_by": [],
        "properties": {},
        "packing": Packing(target_bytes=1_000_000),
    } | options
    new = new_table_of(gl.open(str(source)).snapshot, Storage.at(str(target)), **arguments)
    return plan_create(new).job


def rows(made) -> list[dict]:
    collected = []
    for file in made.rows.files:
        for batch in _read(made.rows.storage, Part(file, 0, len(file.groups)), made.schema, made.geo_input):
            collected += batch.to_pylist()
    return collected


def test_types_that_delta_lacks_keep_their_values(tmp_path):
    zoned = MOMENT.replace(tzinfo=dt.UTC)
    table = pa.table(
        {
            "u8": pa.array([255], pa.uint8()),
            "u32": pa.array([2**32 - 1], pa.uint32()),
            "f16": pa.array([1.5], pa.float16()),
            "ms": pa.array([MOMENT], pa.timestamp("ms")),
            "ns": pa.array([zoned], pa.timestamp("ns", "Europe/Berlin")),
            "fixed": pa.array([b"abc"], pa.binary(3)),
            "uuid": pa.array([uuid.UUID(int=5).bytes], pa.uuid()),
            "money": pa.array([Decimal("1.23")], pa.decimal128(7, 2)),
            "large": pa.array(["x"], pa.large_string()),
            "words": pa.array(["a"]).dictionary_encode(),
            "deep": pa.array([[{"u": 7, "f": b"xy"}]], pa.list_(pa.struct([("u", pa.uint16()), ("f", pa.binary(2))]))),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.uint8())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", version="2.6")
    (result,) = rows(job(tmp_path / "a.parquet", tmp_path / "t"))
    assert result == {
        "u8": 255, "u32": 2**32 - 1, "f16": 1.5, "ms": MOMENT, "ns": zoned, "fixed": b"abc",
        "uuid": uuid.UUID(int=5).bytes, "money": Decimal("1.23"), "large": "x", "words": "a",
        "deep": [{"u": 7, "f": b"xy"}], "map": [("k", 1)],
    }  # fmt: skip


def test_int96_are_instants(tmp_path):
    table = pa.table({"t": pa.array([MOMENT], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    assert rows(job(tmp_path / "a.parquet", tmp_path / "t")) == [{"t": MOMENT.replace(tzinfo=dt.UTC)}]


def test_digits_below_a_microsecond_are_not_cut_off_in_silence(tmp_path):
    pq.write_table(pa.table({"t": pa.array([1_000_000_001], pa.timestamp("ns"))}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=r"a\.parquet, column t: values cannot be timestamp"):
        rows(job(tmp_path / "a.parquet", tmp_path / "t"))


def test_folders_fill_in_what_files_lack_and_files_say_what_they_have(tmp_path):
    for key, names in {"a": {"x": [1]}, "b": {"x": [2], "k": ["file"]}}.items():
        folder = tmp_path / "s" / f"k={key}" / "n=__HIVE_DEFAULT_PARTITION__"
        folder.mkdir(parents=True)
        pq.write_table(pa.table(names), folder / "f.parquet")
    made = job(tmp_path / "s", tmp_path / "t")
    assert made.partition_by == ("k", "n")
    assert rows(made) == [{"x": 1, "k": "a", "n": None}, {"x": 2, "k": "file", "n": None}]
    sizes = size_parquet(made, made.rows)
    assert sizes.keys() == {("a", None), ("file", None)}


def test_a_sample_has_the_columns_that_are_asked_for(tmp_path):
    table = pa.table({"id": range(300_000), "s": pa.array([{"a": 1.0, "b": "x"}] * 300_000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10_000)
    made = job(tmp_path / "a.parquet", tmp_path / "t")
    sample = sample_parquet(made, made.rows, ["id", "s.a"])
    assert 90_000 < len(sample) < 110_000
    assert sample.partitions == ((),)
    assert set(sample.columns["s.a"].to_pylist()) == {1.0}
    values = sample.columns["id"].to_pylist()
    assert len(set(values)) == len(values)
    assert 130_000 < sum(values) / len(values) < 170_000
