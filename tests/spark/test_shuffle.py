"""Rows that are cut by task, packed into messages and put in order again: all of them, once, in the order of numpy."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pyarrow as pa
import pytest

from geolake_nb.changes.clustering import Ordering, keying, place_rows
from geolake_nb.changes.sampling import Sample
from geolake_nb.model.types import geometry
from geolake_nb.spark import shuffle
from geolake_nb.spark.shuffle import CutTask, SortedRows
from tests.oracle.wkb_write import point, write

pytest.importorskip("pyspark", reason="pyspark is not installed")

ROWS = 3000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Points in three partitions, with texts of any length, lists, nulls and a dictionary of a name like ours."""
    draw = np.random.default_rng(11)
    shapes = [write(point(float(x), float(y))) for x, y in draw.uniform(-90, 90, (ROWS, 2))]
    return pa.table(
        {
            "id": np.arange(ROWS),
            "g": pa.array([None if number % 17 == 0 else shape for number, shape in enumerate(shapes)]),
            "p": pa.array(draw.choice(["a", "b", None], ROWS)),
            "text": ["x" * int(length) for length in draw.integers(0, 40, ROWS)],
            "many": [None if number % 5 == 0 else [number] * (number % 4) for number in range(ROWS)],
            "__geolake_key": draw.random(ROWS),
        }
    )


@pytest.fixture(scope="module")
def cut(table) -> CutTask:
    column = table["g"].combine_chunks()
    row_keying = keying(Ordering(("g",)), [geometry()], [column])
    names = (("a",), ("b",), (None,))
    codes = np.array([names.index((value,)) for value in table["p"].to_pylist()])
    placed = place_rows(dict.fromkeys(names, 250), 100, keying=row_keying, sample=Sample({"g": column}, names, codes))
    assert placed.tasks > 6
    return CutTask(placed, ("p",), "__geolake_key_")


def messages(cut: CutTask, table: pa.Table, *, batch: int = 100) -> dict[int, list[bytes]]:
    collected: dict[int, list[bytes]] = {}
    for made in cut(iter(table.to_batches(batch))):
        for row in made.to_pylist():
            collected.setdefault(row["task"], []).append(row["rows"])
    return collected


@pytest.mark.parametrize("run_bytes", [1, 5_000, 40_000, 1 << 30])
@pytest.mark.parametrize("cut_bytes", [1, 30_000, 1 << 25])
def test_every_row_arrives_once_and_in_order(table, cut, monkeypatch, run_bytes, cut_bytes):
    monkeypatch.setattr(shuffle, "_CUT_BYTES", cut_bytes)
    monkeypatch.setattr(shuffle, "_MESSAGE_BYTES", 2_000)
    seen: list[dict] = []
    for task, some in messages(cut, table).items():
        with SortedRows(run_bytes=run_bytes, slice_bytes=3_000) as rows:
            for message in some:
                rows.add(message)
            batches = list(rows.batches())
        arrived = pa.Table.from_batches(batches)
        assert arrived.column_names == [*table.column_names, "__geolake_key_", ""]
        key, group = (arrived.column(index).to_numpy() for index in (-2, -1))
        assert (np.lexsort((key, group)) == np.arange(len(arrived))).all(), task
        partitions = arrived["p"].to_pylist()
        assert len(set(partitions)) == 1 + sum(left != two for left, two in itertools.pairwise(partitions))
        seen += arrived.drop_columns(["__geolake_key_", ""]).to_pylist()
    assert sorted(seen, key=lambda row: row["id"]) == table.to_pylist()


def test_rows_of_one_key_keep_the_order_in_which_they_came():
    batch = pa.record_batch({"id": np.arange(50), "k": np.arange(50) % 3, "": np.zeros(50, np.int64)})
    for run_bytes in (1, 1 << 30):
        with SortedRows(run_bytes=run_bytes, slice_bytes=100) as rows:
            for start in range(0, 50, 7):
                rows.add(shuffle._packed(batch.slice(start, 7)))
            arrived = [value for result in rows.batches() for value in result.column("id").to_pylist()]
        assert arrived == sorted(range(50), key=lambda number: number % 3)


def test_what_waits_on_disk_is_gone_afterwards(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    batch = pa.record_batch({"id": [2, 1], "k": [2, 1], "": [0, 0]})
    with SortedRows(run_bytes=1) as rows:
        for _ in range(3):
            rows.add(shuffle._packed(batch))
        assert len(list(tmp_path.rglob("*.arrow"))) == 3
        assert [value for result in rows.batches() for value in result.column("id").to_pylist()] == [1, 1, 1, 2, 2, 2]
    assert os.listdir(tmp_path) == []


def test_no_rows_are_no_batches():
    with SortedRows() as rows:
        assert list(rows.batches()) == []
