"""Notebook 01: what it says is read, against the rows of the files themselves."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb import demo

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

pytestmark = pytest.mark.spark

WINDOW = (6, 46, 10.5, 48)
READS = re.compile(r"reads ([\d,]+) of ([\d,]+) files, ([\d,]+) of ([\d,]+) rows")


@pytest.fixture(scope="module")
def table(ran) -> Path:
    return ran.path.parent / "tables" / "airports"


@pytest.fixture(scope="module")
def inside() -> int:
    """How many airports lie in the window."""
    points = shapely.from_wkb(demo.airports()["location"].to_numpy(zero_copy_only=False))
    return int(shapely.intersects(shapely.box(*WINDOW), points).sum())


def commit(table: Path, version: int) -> list[dict]:
    lines = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


@cache
def points(file: Path) -> np.ndarray:
    """The coordinates in a data file; pyarrow gives the WKB as bytes where the type of shapes is not registered."""
    column = pq.read_table(file, columns=["location"])["location"].combine_chunks()
    bytes_ = column.storage if isinstance(column, pa.ExtensionArray) else column
    return shapely.get_coordinates(shapely.from_wkb(bytes_.to_numpy(zero_copy_only=False)))


def expected(table: Path, version: int) -> tuple[int, int, int, int]:
    """Files and rows that have to be read by the true boxes of the files that a commit adds, and all of them."""
    result = [points(table / entry["add"]["path"]) for entry in commit(table, version) if "add" in entry]
    xmin, ymin, xmax, ymax = WINDOW
    meets = [
        (low[0] <= xmax and low[1] <= ymax and high[0] >= xmin and high[1] >= ymin)
        for low, high in ((points_.min(axis=0), points_.max(axis=0)) for points_ in result)
    ]
    read = [len(points_) for points_, kept in zip(result, meets, strict=True) if kept]
    return len(read), len(result), sum(read), sum(map(len, result))


def message(ran, cell: str) -> tuple[int, ...]:
    match = READS.search(ran.text(cell))
    assert match, ran.text(cell)
    return tuple(int(number.replace(",", "")) for number in match.groups())


def test_no_progress_is_left_and_the_error_stream_is_empty(ran):
    assert "IntProgress" not in ran.text("rewrite")
    assert ran.stderr() == {}


def test_spark_writes_boxes_into_footers_and_not_into_the_log(ran, table):
    first = [entry["add"] for entry in commit(table, 0) if "add" in entry]
    assert len(first) == 96
    for add in first:
        assert "location" not in json.loads(add["stats"])["minValues"]
        assert pq.read_metadata(table / add["path"]).row_group(0).column(5).geo_statistics is not None
    assert "bounds of location: 0 of 96 files" in ran.text("open")
    assert "bounds.missing" in ran.text("check")
    assert "96 repaired from Parquet footers" in ran.text("plan-repair")


def test_without_bounds_all_is_read(ran):
    rows = demo.airports().num_rows
    assert message(ran, "explain-before") == (96, 96, rows, rows)
    assert "no_bounds" in ran.text("explain-before")


def test_with_bounds_the_boxes_decide(ran, table):
    assert message(ran, "explain-repaired") == expected(table, 1)
    files, all_files, _, _ = expected(table, 1)
    assert files == all_files == 96, "the story needs files that all overlap the window"
    assert "overlaps" in ran.text("explain-repaired")


def test_after_the_rewrite_about_two_in_a_hundred_files_are_read(ran, table):
    assert message(ran, "explain-after") == expected(table, 2)
    files, all_files, rows, all_rows = expected(table, 2)
    assert files == 2
    assert files / all_files < 0.025
    assert rows / all_rows < 0.03
    assert all_rows == demo.airports().num_rows


def test_the_preview_estimates_it(ran, table):
    _, files, _, _ = expected(table, 2)
    assert re.search(rf"^after +{files} ", ran.text("preview"), re.MULTILINE)


def test_the_maps_say_the_same(ran, table):
    models = ran.notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    states = [model["state"] for model in models if model["state"].get("window") == list(map(float, WINDOW))]
    verdicts = {state["title"]: (state["verdict"]["files_read"], state["verdict"]["files"]) for state in states}
    assert verdicts["before"] == expected(table, 1)[:2]
    assert verdicts["after"] == expected(table, 2)[:2]


READ = re.compile(r"([\d,]+) rows from ([\d,]+) of ([\d,]+) files, .* ([\d,]+) bytes, ([\d,]+) rows read in ([\d.]+) s")


def test_the_same_query_finds_the_same_airports_in_two_in_a_hundred_bytes(ran, table, inside):
    read = {}
    for cell, version in (("scan-before", 0), ("scan-after", 2)):
        match = READ.search(ran.text(cell))
        assert match, ran.text(cell)
        rows, files, all_files, size, scanned, _ = (float(number.replace(",", "")) for number in match.groups())
        kept, total, kept_rows, _ = expected(table, version)
        assert (rows, files, all_files, scanned) == (inside, kept, total, kept_rows)
        read[cell] = size
    assert read["scan-after"] < 0.05 * read["scan-before"]
    assert ran.text("same-answer").startswith("the same airports: True")


def test_the_undo_is_a_commit_that_brings_the_old_files_back(ran, table):
    operations = [
        next(entry["commitInfo"]["operation"] for entry in commit(table, version) if "commitInfo" in entry)
        for version in range(4)
    ]
    output = [line for line in ran.text("history").splitlines()[1:] if line.strip()]
    assert [line.split(maxsplit=3)[3] for line in reversed(output)] == operations
    back = {entry["add"]["path"] for entry in commit(table, 3) if "add" in entry}
    assert back == {entry["add"]["path"] for entry in commit(table, 0) if "add" in entry}


def test_it_looks_good(ran, looks_good):
    looks_good(ran)
