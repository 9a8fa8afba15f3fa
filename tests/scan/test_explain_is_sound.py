from __future__ import annotations

import random

import numpy as np
import pyarrow.compute as pc
import pytest

from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.projection import project
from geolake_nb.scan.explain import explain
from geolake_nb.scan.file_statistics import known_files
from geolake_nb.scan.prune import ScanReason
from tests.scan.full_scan import SCHEMA, anchors, matching_rows, random_predicate, random_table

SEEDS = range(17)
TABLES = 6
WINDOWS = 20


@pytest.mark.parametrize("seed", SEEDS)
def test_no_file_or_row_group_with_a_matching_row_is_skipped(seed):
    rng = random.Random(f"explain {seed}")
    skipped = matched = 0
    for _ in range(TABLES):
        table = random_table(rng)
        groups, places = table.row_groups, anchors(table)
        for _ in range(WINDOWS):
            predicate = random_predicate(rng, places)
            explanation = explain(table.snapshot, predicate, row_groups=groups if rng.random() < 0.5 else None)
            kept = explanation.pruning.kept
            group_kept = _kept_groups(explanation)
            for number, rows in enumerate(table.files):
                hits = matching_rows(predicate, rows)
                assert kept[number] or not hits, (predicate, rows.values, hits)
                if hits and group_kept is not None:
                    _check_groups(group_kept, groups, number, hits, predicate)
                matched += bool(hits)
            skipped += int((~kept).sum())
            _check_agreement(table, predicate, explanation)
    # A test that skips nothing, or matches nothing, shows nothing.
    assert skipped > 40
    assert matched > 40


def _kept_groups(explanation):
    if explanation.row_groups is None:
        return None
    rows = explanation.row_groups.select(["path", "row_group", "kept"]).to_pylist()
    return {(row["path"], row["row_group"]): row["kept"] for row in rows}


def _check_groups(kept, groups, number, hits, predicate):
    path = f"part-{number}.parquet"
    mine = groups.filter(pc.equal(groups["path"], path))
    start = 0
    for group, count in zip(mine["row_group"].to_pylist(), mine["rows"].to_pylist(), strict=True):
        if any(start <= hit < start + count for hit in hits):
            assert kept[path, group], (predicate, path, group)
        start += count


def _check_agreement(table, predicate, explanation):
    bound = bind(predicate, SCHEMA)
    statistics = known_files(table.snapshot, bound).statistics
    assert np.array_equal(explanation.pruning.verdicts, project(bound, statistics).verdicts)
    reasons = explanation.files["reason"].to_pylist()
    assert [ScanReason(reason).kept for reason in reasons] == explanation.pruning.kept.tolist()
    total = explanation.total
    assert total.files == len(reasons)
    assert sum(amount.bytes for amount in explanation.by_reason().values()) == total.bytes
