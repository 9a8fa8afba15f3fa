"""A small share of tests/heavy/kill_sweep.py; tests/promises has a kill at every point of a commit."""

from __future__ import annotations

import pytest

from tests.heavy.kill_sweep import sweep

pytestmark = pytest.mark.spark


def test_a_killed_rewrite_leaves_the_old_or_the_new_version(spark, tmp_path):
    output = sweep(spark, tmp_path, count=1, seed=11, verbs=("rewrite",))
    assert sum(output["rewrite"].values()) == 1
