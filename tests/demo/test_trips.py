"""Trips that are made on the spot: what stands in the files, and what happens where they cannot be made."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb import demo
from geolake_nb.errors import GeolakeError, MissingDependencyError

SCALE = 0.001


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    try:
        return demo.trips(folder, scale=SCALE)
    except MissingDependencyError as missing:
        pytest.skip(str(missing))


def test_four_files_of_points_and_no_word_about_it(made):
    files = sorted(Path(made).iterdir())
    assert len(files) == 4
    assert sum(pq.read_metadata(file).num_rows for file in files) == 6_000_000 * SCALE
    for file in files:
        footer = pq.read_metadata(file)
        assert b"geo" not in (footer.metadata or {})
        assert "Geometry" not in str(footer.schema)
    rows = pq.read_table(made)
    for column in ("t_pickuploc", "t_dropoffloc"):
        assert rows.schema.field(column).type == pa.binary()
        points = shapely.from_wkb(rows[column].to_pylist())
        assert set(shapely.get_type_id(points)) == {shapely.GeometryType.POINT}
        assert (np.abs(shapely.get_coordinates(points)) <= (180, 90)).all()


def test_they_are_made_once(made, monkeypatch):
    before = {file: file.stat().st_mtime_ns for file in Path(made).iterdir()}
    nothing_installed(monkeypatch, Path(made))
    assert demo.trips(Path(made).parent, scale=SCALE) == made
    assert {file: file.stat().st_mtime_ns for file in Path(made).iterdir()} == before
    assert [entry.name for entry in Path(made).parent.iterdir()] == [Path(made).name], "nothing is left over"


def test_without_the_tool_the_command_is_shown(tmp_path, monkeypatch):
    nothing_installed(monkeypatch, tmp_path)
    with pytest.raises(MissingDependencyError, match=r"run pip install spatialbench-cli$"):
        demo.trips(tmp_path / "trips")
    assert list((tmp_path / "trips").iterdir()) == []


def test_the_error_of_the_tool_is_shown(made, tmp_path):
    with pytest.raises(GeolakeError, match=r"scale is -1"):
        demo.trips(tmp_path, scale=-1)
    with pytest.raises(GeolakeError, match=r"scale is nan"):
        demo.trips(tmp_path, scale=float("nan"))


def nothing_installed(monkeypatch, folder):
    """No program is found, on the path or beside Python."""
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    assert shutil.which("spatialbench-cli") is None
