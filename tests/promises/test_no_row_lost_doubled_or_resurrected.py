"""No row is lost, doubled or comes back, whatever two writers do to a table in turn and at the same time.

Each history begins with changes that have to be in the suite, and goes on with drawn ones.
`python -m tests.heavy.row_histories` draws other and longer histories.
"""

from __future__ import annotations

from collections import Counter

import pytest

from geolake_nb.formats.delta import commit as delta_commit
from geolake_nb.formats.havasu import commit as havasu_commit
from tests.promises import row_openings
from tests.promises.delta_history import DeltaHistory
from tests.promises.row_history import run_histories
from tests.promises.row_model import Append, Overwrite, Race, Rewrite
from tests.promises.snapshot_history import HavasuHistory, IcebergHistory

pytestmark = pytest.mark.spark


@pytest.fixture
def happened():
    """What the histories were made of, shown where one fails."""
    counts: Counter[str] = Counter()
    yield counts
    print(dict(sorted(counts.items())))


def run_openings(make, openings, happened, *, steps, wanted):
    """A history for each opening with so many drawn steps more; all that is wanted has to be in them."""
    for number, opening in enumerate(openings):
        run_histories(lambda opening=opening: make(opening), examples=1, steps=steps, number=number)
    assert happened["histories"] == len(openings)
    assert not {kind for kind in wanted if not happened[kind]}
    assert happened["former versions"]


def test_delta_tables_of_spark(spark, tmp_path, happened):
    run_openings(
        lambda opening: DeltaHistory(spark, tmp_path, happened, opening),
        row_openings.DELTA,
        happened,
        steps=4,
        wanted=row_openings.IN_DELTA,
    )


def test_iceberg_tables_of_spark(spark, iceberg_spark, tmp_path, monkeypatch, happened):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__REST__URI", iceberg_spark.rest)
    run_openings(
        lambda opening: IcebergHistory(spark, iceberg_spark, happened, opening),
        row_openings.ICEBERG,
        happened,
        steps=4,
        wanted=row_openings.IN_ICEBERG,
    )


def test_havasu_tables(spark, iceberg_spark, happened):
    run_openings(
        lambda opening: HavasuHistory(spark, iceberg_spark, happened, opening),
        row_openings.HAVASU,
        happened,
        steps=3,
        wanted=row_openings.IN_HAVASU,
    )


# ---- a history that could not fail would show nothing


def test_without_the_check_of_conflicts_a_row_of_delta_is_doubled(spark, tmp_path, happened, monkeypatch):
    monkeypatch.setattr(delta_commit, "conflict", lambda *_, **__: None)
    history = DeltaHistory(spark, tmp_path, happened)
    history.begin(row_openings.DELTA[0].start)
    with pytest.raises(AssertionError, match=r"lost \{\}, too many \{\("):
        history.happen(Race(Rewrite("g"), Rewrite("id"), "committing"))
    assert happened["rebased with this toolkit"] == 1


def test_without_the_check_of_conflicts_havasu_overwrites_rows_unseen(spark, iceberg_spark, happened, monkeypatch):
    monkeypatch.setattr(havasu_commit._Committer, "_meet", lambda *_: [])
    start = row_openings.HAVASU[0].start
    history = HavasuHistory(spark, iceberg_spark, happened)
    history.begin(start)
    with pytest.raises(AssertionError, match="landed on what was changed since"):
        history.happen(Race(Overwrite(start.rows), Append(start.rows, ours=True), "committing"))
    history.clean_up()
