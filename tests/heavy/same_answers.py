"""The same answers with and without skipping: `python -m tests.heavy.same_answers --rounds 20 --questions 500`.

After every operation on tables of four formats, random windows and filters are asked. The rows that satisfy one, by a
full scan of Spark and by one of DuckDB, have to be the same, and all of them have to lie in the files and row groups
that the planner keeps.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.scan.explain import explain
from geolake_nb.scan.prune import ScanReason
from geolake_nb.spark.collations import collator_of
from tests.iceberg_spark import IcebergSpark
from tests.promises import partition_queries, query_fixtures
from tests.promises.query_fixtures import QueryTable
from tests.promises.random_questions import Question, Relation, draw_questions, filters_of
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from geolake_nb.model.operators import SpatialOp

__all__ = ["Tally", "run"]


@dataclass
class Tally:
    """The questions, what was skipped, and what was wrong."""

    questions: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    files_skipped: Counter[str] = field(default_factory=Counter)
    by_partition: Counter[str] = field(default_factory=Counter)
    """Files that were skipped for the value of a partition column."""
    groups: Counter[str] = field(default_factory=Counter)
    groups_skipped: Counter[str] = field(default_factory=Counter)
    relations: Counter[SpatialOp] = field(default_factory=Counter)
    """Rows that each relation to a shape found."""
    problems: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        for state in self.questions:
            yield (
                f"{state}: {self.questions[state]:,} questions, {self.rows[state]:,} rows found; skipped "
                f"{self.files_skipped[state]:,} of {self.files[state]:,} files, {self.by_partition[state]:,} by their "
                f"partition, {self.groups_skipped[state]:,} of {self.groups[state]:,} row groups"
            )


def ask(fixture: QueryTable, state: str, seed: int, questions: int, tally: Tally) -> None:
    """Put the questions to the table as it is now."""
    filters = fixture.questions(filters_of(seed, 20, 1000))
    scans = [fixture.by_spark(filters), fixture.by_duckdb(filters)]
    where = f"{fixture.form}, {state}"
    if not np.array_equal(scans[0].ids, scans[1].ids):
        apart = sorted(set(scans[0].ids.tolist()) ^ set(scans[1].ids.tolist()))
        tally.problems.append(f"{where}: one engine alone reads the rows {apart[:10]}")
        return
    table = gl.open(str(fixture.folder))
    groups = table.row_groups()
    ids_of = _row_ids(fixture)
    if {path for path, _ in ids_of} != {_local(fixture, path) for path in table.files.table["path"].to_pylist()}:
        tally.problems.append(f"{where}: the live files are others")
        return
    collator = collator_of(fixture.spark)
    for question in draw_questions(seed, questions, scans[0], filters, fixture.of_partitions()):
        true = [question.evaluate(scan)[0] for scan in scans]
        if not np.array_equal(*true):
            tally.problems.append(f"{where}: Spark and DuckDB differ on {question}")
            continue
        explanation = explain(table.snapshot, question.predicate(), row_groups=groups, collator=collator)
        wanted = set(scans[0].ids[true[0]].tolist())
        kept = {
            _local(fixture, path) for path in explanation.files.filter(explanation.files["kept"])["path"].to_pylist()
        }
        read = _ids(ids_of, {key for key in ids_of if key[0] in kept})
        tally.problems += _lost(f"{where}: the files", question, wanted - read)
        assert explanation.row_groups is not None
        some = explanation.row_groups.filter(explanation.row_groups["kept"]).select(["path", "row_group"]).to_pylist()
        chosen = {(_local(fixture, group["path"]), group["row_group"]) for group in some}
        tally.problems += _lost(f"{where}: the row groups", question, wanted - _ids(ids_of, chosen))
        tally.questions[where] += 1
        tally.rows[where] += len(wanted)
        if isinstance(question, Relation):
            tally.relations[question.op] += len(wanted)
        tally.files[where] += len(explanation.files)
        tally.files_skipped[where] += len(explanation.files) - len(kept)
        tally.by_partition[where] += int(explanation.pruning.among(ScanReason.PARTITION).sum())
        tally.groups[where] += len(ids_of)
        tally.groups_skipped[where] += len(ids_of) - len(chosen)


def _lost(what: str, question: Question, rows: set[int]) -> list[str]:
    return [f"{what} that are kept lack the rows {sorted(rows)[:10]} of {question.predicate()}"] if rows else []


def _row_ids(table: QueryTable) -> dict[tuple[Path, int], np.ndarray]:
    """The ids of each row group, by pyarrow."""
    ids_of = {}
    for path in table.files():
        with pq.ParquetFile(path) as file:
            for number in range(file.metadata.num_row_groups):
                ids_of[path, number] = file.read_row_group(number, columns=["id"])["id"].to_numpy()
    return ids_of


def _ids(ids_of: dict[tuple[Path, int], np.ndarray], chosen: set[tuple[Path, int]]) -> set[int]:
    return set(np.concatenate([ids_of[key] for key in chosen]).tolist()) if chosen else set()


def _local(table: QueryTable, path: str) -> Path:
    plain = Path(path.removeprefix("file://").removeprefix("file:"))
    return plain if plain.is_absolute() else table.folder / (unquote(path) if table.form == "delta" else path)


def run(
    folder: Path,
    spark: SparkSession,
    iceberg: IcebergSpark | None,
    *,
    seed: int,
    size: int,
    questions: int,
    tally: Tally,
    forms: tuple[str, ...] = ("delta", "havasu", "iceberg", "parquet"),
) -> None:
    """All operations on one table of each format, and on one that is partitioned."""
    for form in forms:
        for kind, states, rows, partitions in (
            ("queried", query_fixtures, size, {}),
            # Each partition is a file of its own.
            ("partitioned", partition_queries, size // 2, partition_queries.COLUMNS),
        ):
            path, name = folder / f"{kind}_{form}_{seed}", ""
            if form == "iceberg":
                assert iceberg is not None
                name = f"ice.{kind}.t{seed}"
                path = iceberg.warehouse / kind / f"t{seed}"
            its_own = iceberg if form == "iceberg" else None
            table = QueryTable(form, path, spark, its_own, name, partitions=partitions)
            for state in getattr(states, f"{form}_states")(table, seed, rows):
                ask(table, f"{kind}, {state}" if partitions else state, seed, questions, tally)
        if form != "parquet":
            made = QueryTable(form, folder / f"converted_{form}_{seed}", spark)
            for state in query_fixtures.converted_states(made, seed, size):
                ask(made, state, seed, questions, tally)
        if form == "delta":
            made = QueryTable(form, folder / f"enabled_{seed}", spark)
            for state in query_fixtures.enabled_states(made, seed, size):
                ask(made, state, seed, questions, tally)


def main(arguments: list[str] | None = None) -> int:
    """Run, print what was asked after each operation, and fail on any row that is lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--questions", type=int, default=500, help="after each operation")
    parser.add_argument("--size", type=int, default=1000, help="rows of a new table")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="geolake-answers-"))
    spark = delta_session("local[2]", home)
    (home / "ice").mkdir()
    iceberg = IcebergSpark(home / "ice")
    tally = Tally()
    try:
        for number in range(options.rounds):
            begun = time.perf_counter()
            seed = options.seed + number
            run(home, spark, iceberg, seed=seed, size=options.size, questions=options.questions, tally=tally)
            print(f"round {number}: {time.perf_counter() - begun:.0f} s", flush=True)
    finally:
        iceberg.stop()
        spark.stop()
        shutil.rmtree(home)
    for line in tally.lines():
        print(line)
    for problem in tally.problems[:20]:
        print("WRONG", problem[:1500])
    return int(bool(tally.problems))


if __name__ == "__main__":
    sys.exit(main())
