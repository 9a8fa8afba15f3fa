"""Engines answer as before after our changes: `python -m tests.heavy.random_tables --count 500`.

Random tables with NaN, infinities, nulls and extreme values of every plain type are rewritten, converted and appended
to in each format. Spark, DuckDB and deltalake answer random filters in WHERE, where they skip by the statistics that we
wrote. What they answer has to be what they said of the rows before, in a list of columns, where nothing is skipped.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
from tests.heavy.random_filters import data_files
from tests.no_row_lost.extreme_values import COLUMNS, deltalake_sql, duckdb_sql, random_files, random_filter, spark_sql
from tests.no_row_lost.foreign_tables import spark_frame, without_small_integers
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CASES", "Answers", "check_random_table"]

CASES = tuple((kind, change) for change in ("rewrite", "convert", "append") for kind in
              ("delta", "iceberg", "havasu", "parquet"))  # fmt: skip
FILTERS = 20


@dataclass
class Answers:
    """How many filters were answered, and which of them otherwise than before."""

    tables: Counter[str] = field(default_factory=Counter)
    filters: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A line for each change, one for each engine, and one for each wrong answer."""
        yield ", ".join(f"{case} {count}" for case, count in self.tables.items())
        for engine, count in self.filters.items():
            yield f"{engine:10} {count:,} filters, {self.rows[engine]:,} rows"
        yield from self.wrong


def check_random_table(
    spark: SparkSession, kind: str, change: str, folder: Path, *, seed: int, answers: Answers, filters: int = FILTERS
) -> None:
    """Make a table, change it, and compare what the engines answer."""
    draw = random.Random(f"{kind} {change} {seed}")
    files = random_files(draw, files=3, rows=8)
    files = [without_small_integers(file) for file in files] if kind in ("iceberg", "havasu") else files
    rows = pa.concat_tables(files)
    # The order of bytes does not cluster rows: a rewrite by a binary column is refused.
    names = [name for name, (kind, _) in COLUMNS.items() if "." not in name and not pa.types.is_binary(kind)]
    folder.mkdir(parents=True)
    path = _changed(spark, kind, change, folder, files, cluster_by=draw.choice(names))
    queries = [random_filter(draw, list(COLUMNS)) for _ in range(filters)]
    opened = gl.open(path)
    live = data_files(opened)
    frame = spark.read.format("delta").load(path) if kind == "delta" else spark.read.parquet(*live)
    answers.tables[f"{kind} {change}"] += 1
    case = f"{kind} {change}, seed {seed}"
    _compare("spark", case, queries, (_spark_before(spark, rows, queries), _spark_after(frame, queries)), answers)
    _compare("duckdb", case, queries, (_duckdb_before(rows, queries), _duckdb_after(live, queries)), answers)
    if kind == "delta":
        _compare("deltalake", case, queries, _deltalake(folder / "before", rows, path, queries), answers)


def _changed(
    spark: SparkSession, kind: str, change: str, folder: Path, files: Sequence[pa.Table], *, cluster_by: str
) -> str:
    path = str(folder / "t")
    if change == "convert" or (kind, change) == ("parquet", "rewrite"):
        source = folder / ("source" if change == "convert" else "t")
        source.mkdir()
        for number, table in enumerate(files):
            pq.write_table(table, source / f"{number}.parquet", row_group_size=3)
        if change == "convert":
            gl.open(str(source)).plan_convert(path, format=kind).apply(spark=spark)
            return path
    elif (kind, change) == ("delta", "rewrite"):
        for table in files:
            spark_frame(spark, table).write.format("delta").mode("append").save(path)
    else:
        for number, table in enumerate(files):
            gl.write(table, path, format=kind, mode="append" if number else "create", spark=spark)
    if change == "rewrite":
        gl.open(path).plan_rewrite(cluster_by=cluster_by, row_group_rows=5).apply(spark=spark)
    return path


_RowsByQuery = dict[int, list[int]]
"""The ids of the rows that satisfy each filter, by its number; without those that an engine cannot answer."""


def _compare(
    engine: str, case: str, queries: Sequence[Any], answers_of: tuple[_RowsByQuery, _RowsByQuery], answers: Answers
) -> None:
    before, after = answers_of
    for number, expected in before.items():
        answers.filters[engine] += 1
        answers.rows[engine] += len(expected)
        if after.get(number) != expected:
            where = spark_sql(queries[number])
            answers.wrong.append(f"WRONG {engine}, {case}: {where}: {expected} before, {after.get(number)} after")


def _flagged(rows: pa.Table, count: int) -> _RowsByQuery:
    ids = rows["id"].to_pylist()
    flags = [rows[f"f{number}"].to_pylist() for number in range(count)]
    return {
        number: sorted(row for row, flag in zip(ids, flags[number], strict=True) if flag) for number in range(count)
    }


def _keyed(rows: pa.Table, count: int) -> _RowsByQuery:
    answers: _RowsByQuery = {number: [] for number in range(count)}
    for number, row in zip(rows["k"].to_pylist(), rows["id"].to_pylist(), strict=True):
        answers[number].append(row)
    return {number: sorted(ids) for number, ids in answers.items()}


def _spark_before(spark: SparkSession, rows: pa.Table, queries: Sequence[Any]) -> _RowsByQuery:
    flags = [f"({spark_sql(node)}) AS f{number}" for number, node in enumerate(queries)]
    return _flagged(spark_frame(spark, rows).selectExpr("id", *flags).toArrow(), len(queries))


def _spark_after(frame: DataFrame, queries: Sequence[Any]) -> _RowsByQuery:
    parts = [frame.where(spark_sql(node)).selectExpr(f"{number} AS k", "id") for number, node in enumerate(queries)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return _keyed(whole.toArrow(), len(queries))


def _duckdb(ask: Callable[[Any], pa.Table]) -> pa.Table:
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        return ask(connection)


def _duckdb_before(rows: pa.Table, queries: Sequence[Any]) -> _RowsByQuery:
    flags = ", ".join(f"({duckdb_sql(node)}) AS f{number}" for number, node in enumerate(queries))

    def ask(connection: Any) -> pa.Table:
        connection.register("held", rows)
        # A table of its own: over Arrow's data DuckDB would leave the comparisons to Arrow.
        connection.sql("CREATE TABLE r AS SELECT * FROM held")
        return connection.sql(f"SELECT id, {flags} FROM r").to_arrow_table()

    return _flagged(_duckdb(ask), len(queries))


def _duckdb_after(files: Sequence[str], queries: Sequence[Any]) -> _RowsByQuery:
    source = f"read_parquet({list(files)}, hive_partitioning = false)"
    parts = [f"SELECT {number} AS k, id FROM {source} WHERE {duckdb_sql(node)}" for number, node in enumerate(queries)]
    return _keyed(_duckdb(lambda connection: connection.sql(" UNION ALL ".join(parts)).to_arrow_table()), len(queries))


def _deltalake(before: Path, rows: pa.Table, path: str, queries: Sequence[Any]) -> tuple[_RowsByQuery, _RowsByQuery]:
    """What deltalake says of the same rows in a table of its own, and of ours; SQL that it cannot parse is left out."""
    from deltalake import DeltaTable, QueryBuilder, write_deltalake

    write_deltalake(str(before), rows)
    builder = QueryBuilder().register("a", DeltaTable(str(before))).register("b", DeltaTable(path))

    def ask(sql: str) -> pa.Table:
        return pa.table(builder.execute(sql))

    first: _RowsByQuery = {}
    second: _RowsByQuery = {}
    for number, node in enumerate(queries):
        where = deltalake_sql(node)
        try:
            flagged = ask(f"SELECT id, ({where}) AS f0 FROM a")
        except Exception:  # noqa: BLE001 - DataFusion raises what it likes for SQL that is not its own
            continue
        first[number] = _flagged(flagged, 1)[0]
        second[number] = sorted(ask(f"SELECT id FROM b WHERE {where}")["id"].to_pylist())
    return first, second


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="tables")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    options = parser.parse_args()
    answers = Answers()
    with tempfile.TemporaryDirectory() as temporary:
        spark = delta_session("local[2]", Path(temporary))
        for number in range(options.count):
            kind, change = CASES[number % len(CASES)]
            seed = options.seed + number // len(CASES)
            folder = Path(temporary) / str(number)
            known = len(answers.wrong)
            check_random_table(spark, kind, change, folder, seed=seed, answers=answers)
            print(*answers.wrong[known:], sep="\n", end="\n" if answers.wrong[known:] else "", file=sys.stderr)
            print(f"{number + 1:,} tables, {len(answers.wrong)} wrong answers", file=sys.stderr, flush=True)
        spark.stop()
    print(*answers.lines(), sep="\n")
    print(f"{options.count:,} tables, {sum(answers.filters.values()):,} answers, {len(answers.wrong)} wrong")
    return 1 if answers.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
