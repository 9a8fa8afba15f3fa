"""Notebook 06: the shares that windows read and the trips in them, by numpy from the log and from the Parquet files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.notebooks.html_tables import rows_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

PICKUP = "t_pickuploc"
TRIPS = 600_000
POINT = re.compile(r"POINT ?\(([-\d.eE+]+) ([-\d.eE+]+)\)")
READS = re.compile(r"reads ([\d,]+) of ([\d,]+) files, ([\d,]+) of ([\d,]+) rows")


@pytest.fixture(scope="module")
def tables(ran) -> Path:
    return ran.path.parent / "tables"


@pytest.fixture(scope="module")
def pickups(tables) -> np.ndarray:
    return points(pq.read_table(tables / "trips-0.1", columns=[PICKUP])[PICKUP])


@pytest.fixture(scope="module")
def windows(pickups) -> np.ndarray:
    """The windows of the notebook: the same draw of rows, and half a degree to each side."""
    chosen = np.random.default_rng(1).choice(len(pickups), 50, replace=False)
    middles = pickups[chosen].round(1)
    return np.hstack([middles - 0.5, middles + 0.5])


def points(column: pa.ChunkedArray) -> np.ndarray:
    """X and y from the bytes: little-endian WKB of a point has a byte, a number and two doubles."""
    values = b"".join(column.to_pylist())
    record = np.dtype([("order", "u1"), ("kind", "<u4"), ("xy", "<f8", 2)])
    read = np.frombuffer(values, record)
    assert set(read["order"]) == {1}
    assert set(read["kind"]) == {1}
    return read["xy"]


def stored(tables: Path, version: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The paths, the bytes and the boxes of the files that a commit adds, as the log has them."""
    lines = (tables / "trips" / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    adds = [action["add"] for action in map(json.loads, lines) if "add" in action]
    boxes = []
    for add in adds:
        stats = json.loads(add["stats"])
        corners = [POINT.fullmatch(stats[side][PICKUP]) for side in ("minValues", "maxValues")]
        boxes.append([float(number) for corner in corners for number in corner.groups()])
    return [add["path"] for add in adds], np.array([add["size"] for add in adds]), np.array(boxes)


def meets(boxes: np.ndarray, window: np.ndarray) -> np.ndarray:
    return np.all((boxes[:, :2] <= window[2:]) & (boxes[:, 2:] >= window[:2]), axis=1)


def shares(tables: Path, version: int, windows: np.ndarray) -> np.ndarray:
    _, sizes, boxes = stored(tables, version)
    return np.array([sizes[meets(boxes, window)].sum() / sizes.sum() for window in windows])


def message(ran, cell: str) -> tuple[int, ...]:
    match = READS.search(ran.text(cell))
    assert match, ran.text(cell)
    return tuple(int(number.replace(",", "")) for number in match.groups())


def test_the_boxes_are_those_of_the_rows(tables, pickups):
    for version in (0, 1):
        paths, _, boxes = stored(tables, version)
        columns = [pq.read_table(tables / "trips" / path, arrow_extensions_enabled=False)[PICKUP] for path in paths]
        files = [points(column) for column in columns]
        true = np.array([[*file.min(axis=0), *file.max(axis=0)] for file in files])
        np.testing.assert_allclose(boxes, true, atol=1e-9)
        assert np.all(boxes[:, :2] <= true[:, :2])
        assert np.all(boxes[:, 2:] >= true[:, 2:])
        every = np.concatenate(files)
        assert np.array_equal(every[np.lexsort(every.T)], pickups[np.lexsort(pickups.T)])


def test_before_all_is_read_and_afterwards_next_to_nothing(ran, tables, windows):
    files = len(stored(tables, 0)[0])
    assert message(ran, "explain-before") == (files, files, TRIPS, TRIPS)
    paths, _, boxes = stored(tables, 1)
    kept = [path for path, meet in zip(paths, meets(boxes, windows[0]), strict=True) if meet]
    rows = sum(pq.read_metadata(tables / "trips" / path).num_rows for path in kept)
    assert message(ran, "explain-after") == (len(kept), len(paths), rows, TRIPS)
    assert len(paths) > 100


def test_the_shares_of_fifty_windows(ran, tables, windows):
    before, after = (shares(tables, version, windows) for version in (0, 1))
    assert before.min() == 1
    assert np.median(after) < 0.03
    result = [(np.min(read_shares), np.median(read_shares), np.max(read_shares)) for read_shares in (before, after)]
    wanted = [[f"{share:.1%}" for share in row] for row in zip(*result, strict=True)]
    assert [row[1:] for row in rows_of(ran.html("shares"))[1:]] == wanted


def test_the_chart_counts_them(ran, tables, windows):
    cuts = [0, 0.01, 0.02, 0.05, 0.1, 0.5, 1]
    counts = [np.histogram(shares(tables, version, windows), cuts)[0] for version in (0, 1)]
    rows = [row[1:] for row in rows_of(ran.html("chart")) if row[0].startswith("up to")]
    assert [[int(cell or 0) for cell in row] for row in rows] == np.column_stack(counts).tolist()


def test_no_trip_is_lost(ran, pickups, windows):
    inside = [int(np.all((pickups >= window[:2]) & (pickups <= window[2:]), axis=1).sum()) for window in windows]
    assert ran.text("same").splitlines() == [
        f"{sum(inside):,} trips by a scan, {sum(inside):,} by the files that are left",
        "the same in each window: True",
    ]


def test_the_map_says_the_same(ran, tables):
    models = ran.notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    (verdict,) = [model["state"]["verdict"] for model in models if model["state"].get("window") == [-10, 36, 25, 55]]
    _, sizes, boxes = stored(tables, 1)
    meet = meets(boxes, np.array([-10, 36, 25, 55]))
    assert (verdict["files_read"], verdict["files"]) == (meet.sum(), len(boxes))
    assert verdict["bytes_read"] == sizes[meet].sum()


def test_each_step_is_timed(ran):
    steps = {row[0]: float(row[1]) for row in rows_of(ran.html("timings"))[1:]}
    assert list(steps) == ["make the trips", "convert", "rewrite", "explain, 100 times"]
    assert all(0 < seconds < ran.seconds for seconds in steps.values())


def test_it_looks_good(ran, looks_good):
    looks_good(ran)
