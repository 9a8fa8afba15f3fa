"""Notebook 08: a table that PyIceberg makes without a JVM, against the airports themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import nbformat
import numpy as np
import pytest
import shapely

from geolake_nb import demo
from tests.notebooks.running import NOTEBOOKS, execute

if TYPE_CHECKING:
    from pathlib import Path

    from tests.notebooks.running import Ran

WINDOW = shapely.box(5.9, 45.8, 10.5, 47.9)


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Ran:
    """The notebook after a run in which pyspark cannot be imported, and Java cannot be found."""
    folder: Path = tmp_path_factory.mktemp("notebook-08")
    hidden = folder / "hidden" / "pyspark"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('pyspark is hidden')\n")
    path = NOTEBOOKS / "08-iceberg-without-java.ipynb"
    surroundings = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "PYTHONPATH": f"{hidden.parent}:{NOTEBOOKS.parent}"}
    ran, seen = execute(nbformat.read(path, as_version=4), folder / path.name, **surroundings)
    assert seen == []
    return ran


@pytest.fixture(scope="module")
def airports():
    rows = demo.airports()
    return rows["code"].to_numpy(), rows["country"].to_numpy(), shapely.from_wkb(rows["location"].to_pylist())


def test_every_airport_is_in_the_table(ran, airports):
    codes, _, points = airports
    assert ran.text("append") == str(len(codes))
    assert f"the next row has the id {len(codes)}" in ran.text("stored")
    x, y = shapely.get_x(points), shapely.get_y(points)
    for west in range(-180, 180, 60):
        part = (x >= west) & (x < west + 60)
        assert f"(x={x[part].min()}, y={y[part].min()}, z=None, m=None) {part.sum()} rows" in ran.text("stored")


def test_the_types_are_spelled_as_java_does(ran):
    lines = ran.text("stored").splitlines()
    assert "location: geometry(OGC:CRS84)" in lines
    assert "on_earth: geography(OGC:CRS84, spherical)" in lines


def test_one_file_of_six_is_read(ran, airports):
    _, _, points = airports
    x = shapely.get_x(points)
    here = int(((x >= 0) & (x < 60)).sum())
    assert ran.text("plan") == "1"
    assert f"reads 1 of 6 files, {here:,} of {len(x):,} rows" in ran.text("explain")


def test_the_rows_are_those_inside(ran, airports):
    codes, countries, points = airports
    inside = shapely.intersects(WINDOW, points)
    wanted = sorted(codes[inside & (countries == "CH")])[:5]
    assert re.findall(r"^\d+ +(\w+) +POINT", ran.text("scan"), re.MULTILINE) == wanted
    assert ran.text("evolve") == str(int(shapely.within(points, WINDOW).sum()))


def test_clustered_rows_are_skipped(ran, airports):
    files, rows = map(int, re.search(r"files=(\d+), rows=(\d+)", ran.text("clustered")).groups())
    written = int(re.search(r"(\d+) files added", ran.text("write")).group(1))
    assert written > 5
    assert files < written / 2
    inside = np.count_nonzero(shapely.intersects(WINDOW, airports[2]))
    assert inside <= rows < len(airports[0]) / 2


def test_no_java_was_started(ran):
    assert ran.text("back").splitlines() == ["enabled: False", "Java was started: False"]


def test_every_output_looks_good(ran, looks_good):
    looks_good(ran)
