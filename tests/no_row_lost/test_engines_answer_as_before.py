"""Spark, DuckDB and deltalake answer filters after a change as before; `tests.heavy.random_tables` tries many."""

from __future__ import annotations

import pytest

from tests.heavy.random_tables import Answers, check_random_table

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("kind", "change"),
    [("delta", "rewrite"), ("iceberg", "append"), ("parquet", "rewrite")],
)
def test_random_tables_answer_as_before(spark, tmp_path, kind, change):
    answers = Answers()
    check_random_table(spark, kind, change, tmp_path / "t", seed=1, answers=answers)
    assert not answers.wrong
    assert all(count > 5 for count in answers.filters.values())
    assert sum(answers.rows.values()) > 40
