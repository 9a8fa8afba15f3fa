"""The rows of a filter on plain columns are those that DuckDB and Spark find when they test every row."""

from __future__ import annotations

import random
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from tests.heavy.random_filters import data_files
from tests.no_row_lost.extreme_values import COLUMNS, random_files, random_filter, spark_sql
from tests.no_row_lost.foreign_tables import WRITERS, spark_frame
from tests.scan.row_oracle import FullRead


def folder_of(folder, table, rows=2):
    folder.mkdir()
    pq.write_table(table, folder / "a.parquet", row_group_size=rows)
    return gl.open(str(folder))


def ids(table, where, **options):
    return sorted(table.scan(where, columns=["id"], **options).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("seed", range(4))
def test_random_filters_find_the_rows_of_duckdb(tmp_path, seed):
    draw = random.Random(seed)
    rows = pa.concat_tables(random_files(draw))
    table = folder_of(tmp_path / "t", rows, rows=5)
    filters = [random_filter(draw, list(COLUMNS)) for _ in range(60)]
    for node, (expected, _) in zip(filters, FullRead(rows, {}).answers(filters), strict=True):
        assert set(ids(table, spark_sql(node))) == expected, spark_sql(node)


@pytest.mark.parametrize("writer", ["deltalake", "pyiceberg", "duckdb", "pyarrow"])
def test_tables_of_other_writers_give_the_rows_that_were_written(tmp_path, writer):
    draw = random.Random(writer)
    files = random_files(draw, files=4)
    written = WRITERS[writer](None, tmp_path / "t", files)
    table = gl.open(written.location)
    filters = [random_filter(draw, list(written.names)) for _ in range(40)]
    for node, (expected, _) in zip(filters, FullRead(pa.concat_tables(files), {}).answers(filters), strict=True):
        assert set(ids(table, spark_sql(node))) == expected, spark_sql(node)
    assert table.scan().count() == 20


@pytest.mark.parametrize("writer", [name for name in WRITERS if name.startswith(("spark", "geolake"))])
def test_tables_of_spark_give_the_rows_that_spark_reads(spark, tmp_path, writer):
    draw = random.Random(writer)
    written = WRITERS[writer](spark, tmp_path / "t", random_files(draw, files=4))
    table = gl.open(written.location)
    if written.format == "delta":
        frame = spark.read.format("delta").load(written.location)
    else:
        frame = spark.read.parquet(*data_files(table))
    # Dates of the legacy calendar inside of a struct are refused, and times before 1900.
    refused = ("n.", "ts", "tn") if "legacy" in writer else ()
    names = [name for name in written.names if not name.startswith(refused)]
    filters = [random_filter(draw, names) for _ in range(30)]
    flags = [f"({spark_sql(node)}) AS f{number}" for number, node in enumerate(filters)]
    answer = frame.selectExpr("id", *flags).toArrow()
    for number, node in enumerate(filters):
        expected = {
            row for row, flag in zip(answer["id"].to_pylist(), answer[f"f{number}"].to_pylist(), strict=True) if flag
        }
        assert set(ids(table, spark_sql(node))) == expected, spark_sql(node)


def test_a_column_of_nulls_has_no_row_for_any_comparison(tmp_path):
    kinds = {name: kind for name, (kind, _) in COLUMNS.items() if "." not in name}
    columns = {name: pa.nulls(3, kind) for name, kind in kinds.items()}
    table = folder_of(tmp_path / "t", pa.table({"id": [0, 1, 2], **columns}))
    draw = random.Random(1)
    for name in kinds:
        nodes = [random_filter(draw, [name], depth=2) for _ in range(12)]
        for node in (node for node in nodes if not node[1].startswith("IS")):
            assert ids(table, spark_sql(node)) == [], spark_sql(node)
        assert ids(table, f"{name} IS NULL") == [0, 1, 2]


def test_a_list_with_null_is_true_of_what_it_names_alone(tmp_path):
    table = folder_of(tmp_path / "t", pa.table({"id": [0, 1, 2], "n": [1, 2, None]}))
    assert ids(table, "n IN (1, NULL)") == [0]


def test_signed_zeros_are_equal_and_nan_is_above_all_numbers(tmp_path):
    values = [0.0, -0.0, float("nan"), float("inf"), None, 1.0]
    for kind in (pa.float32(), pa.float64()):
        table = folder_of(tmp_path / str(kind), pa.table({"id": range(6), "x": pa.array(values, kind)}), rows=1)
        assert ids(table, "x = 0.0") == ids(table, "x = -0.0") == ids(table, "x IN (-0.0, 7)") == [0, 1]
        assert ids(table, "x > 1e300") == [2, 3]
        assert ids(table, "NOT (x <= 1e300)") == [2, 3]
        assert ids(table, "x <> 0.0") == [2, 3, 5]
        assert ids(table, "x < 1.0") == [0, 1]


def test_uuids_are_compared_by_their_text(tmp_path):
    values = [uuid.UUID(int=number) for number in (0, 7, 2**127, 2**128 - 1)]
    column = pa.array([*(value.bytes for value in values), None], pa.binary(16))
    storage = pa.ExtensionArray.from_storage(pa.uuid(), column)
    table = folder_of(tmp_path / "t", pa.table({"id": range(5), "u": storage}))
    assert ids(table, f"u = '{values[2]}'") == [2]
    assert ids(table, f"u IN ('{values[0]}', '{values[3]}')") == [0, 3]
    assert ids(table, f"u <> '{values[0]}'") == [1, 2, 3]
    assert ids(table, "u IS NULL") == [4]


def test_times_of_day_and_timestamps_of_every_unit(tmp_path):
    import datetime as dt

    moments = [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 2, 29, 12),
        None,
    ]
    for unit in ("ms", "us", "ns"):
        rows = pa.table(
            {
                "id": range(4),
                "t": pa.array(moments, pa.timestamp(unit)),
                "z": pa.array(moments, pa.timestamp(unit, "UTC")),
            }
        )
        table = folder_of(tmp_path / unit, rows, rows=1)
        assert ids(table, "t < TIMESTAMP_NTZ '1970-01-01 00:00:00'") == [0]
        assert ids(table, "z >= TIMESTAMP '1970-01-01 00:00:00Z'") == [1, 2]
        assert ids(table, "z = TIMESTAMP '2024-02-29 14:00:00+02:00'") == [2]
    clock = pa.table({"id": range(3), "c": pa.array([dt.time(0), dt.time(23, 59, 59, 999999), None], pa.time64("us"))})
    table = folder_of(tmp_path / "clock", clock)
    assert ids(table, "c > TIME '12:00:00'") == [1]


def test_long_decimals_are_compared_digit_by_digit(tmp_path):
    values = [
        Decimal("12345678901234567890123456789.123456789"),
        Decimal("12345678901234567890123456789.123456788"),
        None,
    ]
    table = folder_of(tmp_path / "t", pa.table({"id": range(3), "d": pa.array(values, pa.decimal128(38, 9))}), rows=1)
    assert ids(table, f"d = DECIMAL '{values[0]}'") == [0]
    assert ids(table, f"d < DECIMAL '{values[0]}'") == [1]
    assert ids(table, f"d IN (DECIMAL '{values[1]}', 0)") == [1]
    # A row group of nulls alone, and a literal of more digits than Python's decimals keep by default.
    assert ids(table, f"NOT (d IN (DECIMAL '{values[1]}', 0))") == [0]


def test_columns_in_structs_are_null_where_the_struct_is(tmp_path):
    rows = pa.table(
        {
            "id": [0, 1, 2],
            "s": pa.array([{"a": {"b": 1}}, {"a": None}, None], pa.struct({"a": pa.struct({"b": pa.int32()})})),
        }
    )
    table = folder_of(tmp_path / "t", rows)
    assert ids(table, "s.a.b = 1") == [0]
    assert ids(table, "s.a.b IS NULL") == [1, 2]
    assert ids(table, "NOT (s.a.b = 1)") == []
    assert table.scan("s.a.b = 1").to_arrow()["s"].to_pylist() == [{"a": {"b": 1}}]


def test_names_with_dots_spaces_and_quotes_are_columns(tmp_path):
    rows = pa.table({"id": [0, 1], "a.b": [1, 2], "c d": [3, 4], "e`f": [5, 6], "Größe": [7, 8]})
    table = folder_of(tmp_path / "t", rows)
    assert ids(table, "`a.b` = 1") == [0]
    assert ids(table, '"c d" = 4') == [1]
    assert ids(table, "`Größe` > 7") == [1]
    assert table.scan(columns=["a.b", "e`f"]).to_arrow().to_pylist() == [{"a.b": 1, "e`f": 5}, {"a.b": 2, "e`f": 6}]


def test_spark_says_the_same_of_a_tree_with_three_values(spark, tmp_path):
    draw = random.Random(9)
    rows = pa.concat_tables(random_files(draw, files=3))
    table = folder_of(tmp_path / "t", rows, rows=4)
    filters = [
        ("NOT", [("AND", [random_filter(draw, list(COLUMNS)), random_filter(draw, list(COLUMNS))])]) for _ in range(30)
    ]
    flags = [f"({spark_sql(node)}) AS f{number}" for number, node in enumerate(filters)]
    answer = spark_frame(spark, rows).selectExpr("id", *flags).toArrow()
    for number, node in enumerate(filters):
        expected = [
            row for row, flag in zip(answer["id"].to_pylist(), answer[f"f{number}"].to_pylist(), strict=True) if flag
        ]
        assert ids(table, spark_sql(node)) == sorted(expected), spark_sql(node)
