"""Load: many files are opened, mapped, explained, checked and repaired in little memory; many read while one writes.

A million files and a hundred readers: `python -m tests.heavy.load`.
"""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.formats import data_files
from tests.heavy.load import crowd, make_delta, measure


@pytest.mark.spark
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_every_step_on_many_files_gives_the_answers_that_numpy_has(format_, tmp_path):
    figures = measure(format_, 3_000, tmp_path)
    assert max(figures.megabytes.values()) < 1_500


def test_readers_see_whole_versions_while_a_writer_commits(tmp_path):
    seen = crowd(tmp_path, readers=4, commits=20, files=500)
    assert seen.wrong == []
    assert seen.opens >= 8
    assert seen.versions > 1


def test_footers_that_are_read_in_parts_are_told_as_one(tmp_path, monkeypatch):
    make_delta(tmp_path / "t", 25)
    table = gl.open(tmp_path / "t")
    whole, facts = data_files.footer_tables(table._storage, table.snapshot)
    monkeypatch.setattr(data_files, "_AT_ONCE", 7)
    told = []
    groups, types = data_files.footer_tables(
        table._storage, table.snapshot, on_progress=lambda done, total: told.append((done, total))
    )
    assert groups.equals(whole)
    assert types.equals(facts)
    assert told == [(done, 25) for done in range(1, 26)]
    some = table.row_groups(files=[24, 3])
    assert some["path"].to_pylist() == [whole["path"][24].as_py(), whole["path"][3].as_py()]
