"""A small share of `python -m tests.heavy.scan_answers`."""

from __future__ import annotations

import pytest

from tests.heavy.scan_answers import Tally, check_table
from tests.scan.scan_tables import WRITERS


@pytest.mark.parametrize("form", WRITERS)
def test_random_filters_return_what_shapely_and_duckdb_find(tmp_path, form):
    tally = Tally()
    for seed in range(2):
        check_table(form, tmp_path / str(seed), seed=seed, filters=15, tally=tally)
    assert tally.wrong == []
    assert tally.rows[form] > 30
    assert tally.files_read[form] < tally.files[form]
