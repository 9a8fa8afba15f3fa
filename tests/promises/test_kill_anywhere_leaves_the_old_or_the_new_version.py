"""kill -9 at every write, link, rename and removal of a commit: version N or N + 1, every row, and the way on is open.

Random moments of whole jobs are swept by tests/heavy/kill_sweep.py, with a small dose in tests/spark/test_kill.py.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from tests import small_tables
from tests.formats.havasu_rows import EWKB, append, create, ids, points
from tests.promises.dying import dies_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEAST_POINTS = 8


@dataclass(frozen=True)
class Case:
    """A change, and how the rows are read by something else than our own code."""

    make: Callable[[Path], object]
    work: Callable[[Path], object]
    again: Callable[[Path], object]
    done: Callable[[Path], bool]


def repair(folder: Path) -> None:
    plan = gl.open(str(folder)).plan_repair()
    if not plan.is_empty:
        plan.apply()


def undo(folder: Path) -> None:
    gl.open(str(folder)).plan_undo().apply()


def has_boxes(folder: Path) -> bool:
    return gl.open(str(folder)).plan_repair().is_empty


def bare_parquet(folder: Path) -> None:
    folder.mkdir()
    for number, place in enumerate(small_tables.PLACES):
        rows = small_tables.data(place)
        values = [one.cast("binary") if str(one.type) != "int64" else one for one in rows.columns]
        pq.write_table(rows.from_arrays(values, names=rows.column_names), folder / f"{number}.parquet")


def has_types(folder: Path) -> bool:
    """Whether every file of a set says what its shapes are; a set changes file by file."""
    schemas = [pq.ParquetFile(file).schema for file in folder.glob("*.parquet")]
    return all(one.column(1).logical_type.type == "GEOMETRY" for one in schemas)


def repair_parquet(folder: Path) -> None:
    plan = gl.open(str(folder)).plan_repair(columns={"geom": gl.geometry()})
    if not plan.is_empty:
        plan.apply()


def mended(make: Callable[[Path], object], mend: Callable[[Path], object]) -> Callable[[Path], None]:
    def both(folder: Path) -> None:
        make(folder)
        mend(folder)

    return both


def bare_delta(folder: Path) -> None:
    small_tables.make_delta(folder, bounds=False)


CASES = {
    "delta repair": Case(bare_delta, repair, repair, has_boxes),
    "delta undo": Case(mended(bare_delta, repair), undo, lambda folder: None, lambda folder: not has_boxes(folder)),
    "parquet repair": Case(bare_parquet, repair_parquet, repair_parquet, has_types),
    "havasu append": Case(
        lambda folder: create(folder, points(3), columns=EWKB),
        lambda folder: append(folder, points(2, first=50)),
        lambda folder: None,
        lambda folder: 50 in ids(folder),
    ),
}


@pytest.fixture
def rows(request, spark) -> Callable[[Path], list[object]]:
    """The rows of a table as Spark reads them, or pyarrow where Spark cannot."""

    def by_spark(folder: Path) -> list[object]:
        return sorted(row[0] for row in spark.read.format("delta").load(str(folder)).select("id").collect())

    def by_arrow(folder: Path) -> list[object]:
        return sorted(one for file in folder.glob("*.parquet") for one in pq.read_table(file)["id"].to_pylist())

    return {"delta": by_spark, "parquet": by_arrow, "havasu": ids}[request.node.callspec.params["name"].split()[0]]


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_a_kill_at_every_point_leaves_the_old_or_the_new_version(tmp_path, name, rows):
    case = CASES[name]
    source = tmp_path / "source"
    case.make(source)
    after = tmp_path / "after"
    shutil.copytree(source, after)
    case.work(after)
    assert case.done(after)
    old, new = rows(source), rows(after)
    found, point = [], 1
    while True:
        table = tmp_path / f"killed-{point}"
        shutil.copytree(source, table)
        killed = dies_at(lambda table=table: case.work(table), point)
        landed = case.done(table)
        assert rows(table) == (new if landed else old), point
        case.again(table)
        assert rows(table) in (old, new), point
        if not killed:
            assert landed
            break
        found.append(landed)
        shutil.rmtree(table)
        point += 1
    assert len(found) >= LEAST_POINTS, found
    assert set(found) == {False, True}
    assert found == sorted(found), "once it is in, it stays in"
