"""Load: many files are opened, mapped, explained, checked and repaired in little memory; many read while one writes.

A million files and a hundred readers: `python -m tests.heavy.load`.
"""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.scan import data_files
from tests.heavy.load import Crowd, Figures, crowd, crowd_faults, faults, make_delta, measure


@pytest.mark.spark
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_every_step_on_many_files_gives_the_answers_that_numpy_has(format_, tmp_path):
    figures = measure(format_, 3_000, tmp_path)
    assert max(figures.megabytes.values()) < 1_500


def test_readers_see_whole_versions_while_a_writer_commits(tmp_path):
    seen = crowd(tmp_path, readers=4, commits=20, files=500)
    assert list(crowd_faults(seen)) == []


# Seconds of one step on 10,000, 100,000 and 1,000,000 files; and whether the cost of a file grows.
GROWTHS = {
    "as many times the files": ((1.0, 10.0, 100.0), 0),
    "nothing but a start": ((0.09, 0.09, 0.09), 0),
    "a start, then files": ((0.1, 0.2, 1.2), 0),
    "hardly a start": ((0.0, 0.02, 0.9), 0),
    "more at the end": ((0.02, 0.09, 900.0), 1),
    "more in the middle": ((0.02, 2.0, 20.0), 1),
    "the square": ((1.0, 100.0, 10_000.0), 2),
    "a third more a file": ((1.0, 13.5, 135.0), 1),
}


@pytest.mark.parametrize("growth", GROWTHS)
def test_a_cost_that_grows_faster_than_the_table_is_a_fault(growth):
    seconds, count = GROWTHS[growth]
    figures = [Figures(10**power, {"open": value}) for power, value in zip((4, 5, 6), seconds, strict=True)]
    assert len(list(faults("delta", figures))) == count


def test_too_much_memory_is_a_fault():
    figures = [Figures(10_000, {"open": 1.0}, {"open": megabytes}) for megabytes in (4096.0, 4097.0)]
    assert [list(faults("delta", [figure])) for figure in figures] == [[], ["delta, 10,000 files, open: 4097 MB"]]


def test_readers_that_saw_too_little_are_a_fault():
    assert list(crowd_faults(Crowd(4, commits=20, opens=8, versions=2))) == []
    assert len(list(crowd_faults(Crowd(4, commits=20, opens=8, versions=1)))) == 1
    assert len(list(crowd_faults(Crowd(4, commits=20, opens=7, versions=2)))) == 1
    assert list(crowd_faults(Crowd(4, commits=20, opens=8, versions=2, wrong=["version 3"]))) == ["version 3"]


def test_footers_that_are_read_in_parts_are_reported_as_one(tmp_path, monkeypatch):
    make_delta(tmp_path / "t", 25)
    table = gl.open(tmp_path / "t")
    whole, facts = data_files.footer_tables(table._storage, table.snapshot)
    monkeypatch.setattr(data_files, "_AT_ONCE", 7)
    progress = []
    groups, types = data_files.footer_tables(
        table._storage, table.snapshot, on_progress=lambda done, total: progress.append((done, total))
    )
    assert groups.equals(whole)
    assert types.equals(facts)
    assert progress == [(done, 25) for done in range(1, 26)]
    some = table.row_groups(files=[24, 3])
    assert some["path"].to_pylist() == [whole["path"][24].as_py(), whole["path"][3].as_py()]
