"""No row is lost, doubled or comes back, whatever two writers do to a table in turn and at the same time.

`python -m tests.heavy.row_histories` draws other and longer histories.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.promises.delta_history import DeltaHistory
from tests.promises.row_history import run_histories
from tests.promises.snapshot_history import HavasuHistory, IcebergHistory

pytestmark = pytest.mark.spark


@pytest.fixture
def happened():
    """What the histories were made of, shown where one fails; races have to be among it."""
    counts: Counter[str] = Counter()
    yield counts
    print(dict(sorted(counts.items())))
    assert counts["conflict"] + counts["rebased"]
    assert counts["former versions"]


def test_delta_tables_of_spark(spark, tmp_path, happened):
    run_histories(lambda: DeltaHistory(spark, tmp_path, happened), examples=3, steps=10, number=0)


def test_iceberg_tables_of_spark(spark, iceberg_spark, tmp_path, monkeypatch, happened):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__REST__URI", iceberg_spark.rest)
    run_histories(lambda: IcebergHistory(spark, iceberg_spark, happened), examples=2, steps=10, number=0)


def test_havasu_tables(spark, iceberg_spark, happened):
    run_histories(lambda: HavasuHistory(spark, iceberg_spark, happened), examples=2, steps=8, number=0)
