"""No filter loses a row, whoever wrote the statistics: `python -m tests.heavy.random_filters --count 10000`.

Tables of many writers hold extreme values of every plain type. Random filters are evaluated by Spark and by DuckDB in
their list of columns, where no file can be skipped: every row that satisfies one has to lie in a file that is kept.
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
from urllib.parse import unquote

import geolake_nb as gl
from tests.no_row_lost.extreme_values import duckdb_sql, random_files, random_filter, spark_sql
from tests.no_row_lost.foreign_tables import WRITERS, WrittenTable
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

__all__ = ["Tally", "check_table", "data_files"]

_AT_ONCE = 100
"""Filters that one query evaluates."""


@dataclass
class Tally:
    """What was asked, and which rows were lost."""

    filters: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    matches: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A line for each writer, and one for each row that was lost."""
        for writer in self.filters:
            share = self.skipped[writer] / max(1, self.files[writer])
            counts = f"{self.filters[writer]:>6,} filters {self.matches[writer]:>8,} rows matched"
            yield f"{writer:32} {counts}, {share:.0%} of the files skipped"
        yield from self.lost


def check_table(spark: SparkSession, writer: str, folder: Path, *, seed: int, filters: int, tally: Tally) -> None:
    """Write a table, ask random filters, and put down what was found."""
    draw = random.Random(f"{writer} {seed}")
    table = WRITERS[writer](spark, folder, random_files(draw))
    queries = [random_filter(draw, list(table.names)) for _ in range(filters)]
    opened = gl.open(table.location)
    stored = opened.files.table["path"].to_pylist()
    for start in range(0, len(queries), _AT_ONCE):
        some = queries[start : start + _AT_ONCE]
        answers = [_spark_answers(spark, table, opened, some)]
        if table.duckdb:
            answers.append(_duckdb_answers(opened, some))
        for number, node in enumerate(some):
            kept = opened.explain(spark_sql(node)).files.to_pylist()
            read = {_name(path) for path, entry in zip(stored, kept, strict=True) if entry["kept"]}
            tally.filters[writer] += 1
            tally.files[writer] += len(stored)
            tally.skipped[writer] += len(stored) - len(read)
            for engine in answers:
                matched = engine[number]
                tally.matches[writer] += len(matched)
                tally.lost += [
                    f"LOST {writer}, seed {seed}: {spark_sql(node)}: row {row} in {file}"
                    for row, file in matched
                    if file not in read
                ][:1]


def _name(path: str) -> str:
    return unquote(unquote(path)).rpartition("/")[2]


def data_files(opened: Any) -> list[str]:
    """The full paths of the live data files."""
    from geolake_nb.scan.data_files import data_keys

    storage = opened._storage
    return [f"{storage.location}/{key}" for key in data_keys(opened.snapshot)]


def _spark_answers(
    spark: SparkSession, table: WrittenTable, opened: Any, filters: Sequence[Any]
) -> list[list[tuple[int, str]]]:
    if table.format == "delta":
        frame = spark.read.format("delta").load(table.location)
    else:
        frame = spark.read.parquet(*data_files(opened))
    flags = [f"({spark_sql(node)}) AS f{number}" for number, node in enumerate(filters)]
    rows = frame.selectExpr("id", "_metadata.file_name AS file", *flags).toArrow()
    return _matches(rows["id"].to_pylist(), rows["file"].to_pylist(), rows.columns[2:])


def _duckdb_answers(opened: Any, filters: Sequence[Any]) -> list[list[tuple[int, str]]]:
    import duckdb

    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        flags = ", ".join(f"({duckdb_sql(node)}) AS f{number}" for number, node in enumerate(filters))
        source = f"read_parquet({data_files(opened)}, filename = true, hive_partitioning = false)"
        rows = connection.sql(f"SELECT id, filename, {flags} FROM {source}").to_arrow_table()
    return _matches(rows["id"].to_pylist(), rows["filename"].to_pylist(), rows.columns[2:])


def _matches(ids: Sequence[int], files: Sequence[str], flags: Iterable[Any]) -> list[list[tuple[int, str]]]:
    named = [(row, _name(file)) for row, file in zip(ids, files, strict=True)]
    return [[name for name, flag in zip(named, column.to_pylist(), strict=True) if flag] for column in flags]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="filters in all")
    parser.add_argument("--per-table", type=int, default=100, help="filters a table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--writer", action="append", choices=sorted(WRITERS), help="all by default")
    options = parser.parse_args()
    tally, seed = Tally(), options.seed
    with tempfile.TemporaryDirectory() as temporary:
        spark = delta_session("local[2]", Path(temporary))
        while sum(tally.filters.values()) < options.count:
            for writer in options.writer or WRITERS:
                folder = Path(temporary) / f"{seed}-{writer.replace(' ', '-').replace(',', '')}"
                check_table(spark, writer, folder, seed=seed, filters=options.per_table, tally=tally)
                print(f"{sum(tally.filters.values()):,} filters, seed {seed}, {writer}", file=sys.stderr, flush=True)
            seed += 1
        spark.stop()
    print(*tally.lines(), sep="\n")
    print(f"{sum(tally.filters.values()):,} filters, {len(tally.lost)} with a lost row")
    return 1 if tally.lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
