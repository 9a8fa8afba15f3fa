"""The same answers with and without skipping, after every operation, against full scans of Spark and DuckDB.

The stress run is `python -m tests.heavy.same_answers --rounds 20 --questions 500`.
"""

from __future__ import annotations

import json

import pytest

from geolake_nb.model.operators import SpatialOp
from tests.heavy.same_answers import Tally, ask, run
from tests.promises import partition_queries, query_fixtures
from tests.promises.query_fixtures import QueryTable

pytestmark = pytest.mark.spark

SIZE, QUESTIONS = 480, 40


@pytest.mark.parametrize("form", ["delta", "havasu", "parquet"])
def test_every_row_that_a_full_scan_finds_is_in_what_is_kept(spark, tmp_path, form):
    assert_same(run_one(form, tmp_path, spark, None))


def test_every_row_of_iceberg_that_its_own_spark_finds_is_in_what_is_kept(spark, tmp_path, iceberg_spark):
    assert_same(run_one("iceberg", tmp_path, spark, iceberg_spark))


def run_one(form, folder, spark, iceberg) -> Tally:
    tally = Tally()
    run(folder, spark, iceberg, seed=3, size=SIZE, questions=QUESTIONS, tally=tally, forms=(form,))
    return tally


def assert_same(tally: Tally) -> None:
    assert not tally.problems, "\n".join(tally.problems[:5])
    assert tally.questions
    assert all(tally.relations[op] for op in SpatialOp), tally.relations
    for state, count in tally.questions.items():
        assert count > QUESTIONS, state
        assert tally.rows[state] > count, state
        # Or there would be nothing to lose.
        assert tally.files_skipped[state] > 0.1 * tally.files[state], state
    partitioned = [state for state in tally.questions if "partitioned" in state]
    assert partitioned
    for state in partitioned:
        assert tally.by_partition[state] > QUESTIONS, state


def test_a_bound_that_loses_rows_is_seen(spark, tmp_path):
    fixture = QueryTable("delta", tmp_path / "t", spark)
    next(query_fixtures.delta_states(fixture, 3, SIZE))
    log = fixture.folder / "_delta_log" / f"{0:020}.json"
    sound = log.read_text()
    for column, broken in (("geom", cut_to_a_point), ("place", cut_to_vertices)):
        lines = [json.loads(line) for line in sound.splitlines()]
        for line in lines:
            if "add" in line:
                stats = json.loads(line["add"]["stats"])
                before = stats["maxValues"][column]
                stats["maxValues"][column] = broken(stats["minValues"][column], before)
                line["add"]["stats"] = json.dumps(stats)
                # A geography's bound counts only where the tag repeats it: else the fault would do no harm.
                tags = line["add"].get("tags") or {}
                line["add"]["tags"] = {
                    key: tag.replace(before, stats["maxValues"][column]) for key, tag in tags.items()
                }
        log.write_text("\n".join(map(json.dumps, lines)))
        tally = Tally()
        ask(fixture, "broken", 3, QUESTIONS, tally)
        lost = [problem for problem in tally.problems if "the files that are kept lack the rows" in problem]
        assert any(f"({column}," in problem for problem in lost), column


def test_a_partition_that_loses_rows_is_seen(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("geolake_nb.storage.hive_paths.unquote", lambda text, *_: text)
    fixture = QueryTable("parquet", tmp_path / "t", spark, partitions=partition_queries.COLUMNS)
    next(partition_queries.parquet_states(fixture, 3, SIZE // 2))
    tally = Tally()
    ask(fixture, "broken", 3, QUESTIONS, tally)
    lost = [problem for problem in tally.problems if "the files that are kept lack the rows" in problem]
    assert any("of part = 'a/b: 1%' AND ST_" in problem for problem in lost), tally.problems


def cut_to_a_point(low, high):
    return low


def cut_to_vertices(low, high):
    """The box of a plane: an arc that rises above its ends is not in it."""
    x, y = high.removeprefix("POINT(").removesuffix(")").split()
    return f"POINT({x} {min(float(y), 87.2)})"
