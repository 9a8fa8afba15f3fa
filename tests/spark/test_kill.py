"""A small dose of tests/heavy/kill_sweep.py."""

from __future__ import annotations

import pytest

from tests.heavy.kill_sweep import VERBS, sweep

pytestmark = pytest.mark.spark


def test_a_killed_repair_or_rewrite_leaves_the_old_or_the_new_version(spark, tmp_path):
    told = sweep(spark, tmp_path, count=3, seed=11)
    assert {verb: sum(counts.values()) for verb, counts in told.items()} == dict.fromkeys(VERBS, 3)
