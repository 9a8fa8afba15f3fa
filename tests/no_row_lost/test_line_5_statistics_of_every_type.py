"""Line 5: no filter loses a row by statistics of other writers; `tests.heavy.random_filters` asks many more."""

from __future__ import annotations

import pytest

from tests.heavy.random_filters import Tally, check_table
from tests.no_row_lost.foreign_tables import WRITERS

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("writer", WRITERS)
def test_every_row_that_a_filter_finds_lies_in_a_file_that_is_kept(spark, tmp_path, writer):
    tally = Tally()
    check_table(spark, writer, tmp_path / "t", seed=1, filters=100, tally=tally)
    assert not tally.lost
    assert tally.matches[writer] > 100
    assert tally.skipped[writer] > 0.05 * tally.files[writer]  # else nothing was tried
