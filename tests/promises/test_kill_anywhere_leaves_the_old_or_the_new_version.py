"""kill -9 at every write, link, rename and removal of a commit: version N or N + 1, every row, and the way on is open.

A set of Parquet files has no commit: what a kill leaves of it can be a part, of no row two, until the next one ends it.
Random moments of whole jobs are swept by tests/heavy/kill_sweep.py, with a short run in tests/spark/test_kill.py.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import geolake_nb as gl
from tests.formats.parquet_sets import contents, seen
from tests.promises import iceberg_changes
from tests.promises.dying import die_at, points_of
from tests.promises.dying_java import stopping_at_points
from tests.promises.killed_tables import (
    CASES,
    IDS,
    SETS,
    VERSIONS,
    iceberg_ids,
    iceberg_version,
    iceberg_without_boxes,
)
from tests.promises.table_bytes import table_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.promises.killed_tables import Case

    Ids = Callable[[Path], list[int]]

pytestmark = pytest.mark.spark

# It may be behind, or be missing: readers continue from the version that it names.
HINT = "metadata/version-hint.text"
# The parts of names that are drawn at every run: ids of transactions and of snapshots.
DRAWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9a-f]{8})?|snap-[0-9]+")


def kills(case: Case, folder: Path) -> Iterator[str]:
    """The name of each point, with the table as it is after a kill there; first "whole", without a kill.

    The table is killed where it lies, since it may hold absolute paths.
    """
    kept = folder.with_name(f"{folder.name}-kept")
    shutil.copytree(folder, kept)
    points = points_of(case.change, folder)
    yield "whole"
    for number, name in enumerate(points, 1):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        die_at(case.change, folder, number)
        yield name


def shape(folder: Path) -> frozenset[tuple[str, int]]:
    """What identifies a state for a reader: names of files, except what differs at every run, and sizes of data."""
    return frozenset(
        (
            DRAWN.sub("#", str(path.relative_to(folder))),
            path.stat().st_size if path.suffix == ".parquet" else 0,
        )
        for path in folder.rglob("*")
        if path.is_file()
    )


def hold(name: str, folder: Path, engine: Ids) -> int:
    """Kill the change of a case at all its points, and give how many of them left states that differ."""
    case, form = CASES[name], name.split(maxsplit=1)[0]
    case.make(folder)
    old, untouched = (VERSIONS[form](folder), IDS[form](folder)), table_bytes(folder)
    untouched.pop(HINT, None)
    outcomes, read = [], set()
    for point in kills(case, folder):
        now = VERSIONS[form](folder), IDS[form](folder)
        if point == "whole":
            new = now
            assert new[0] == old[0] + 1
        assert now in (old, new), point
        assert table_bytes(folder).items() >= untouched.items(), point
        if shape(folder) not in read:
            read.add(shape(folder))
            assert engine(folder) == now[1], point
        if point != "whole":
            outcomes.append(now == new)
        # No lock and no stray file stops what comes next.
        (case.after if now == new else case.change)(folder)
        assert VERSIONS[form](folder) == now[0] + 1, point
        assert now == new or IDS[form](folder) == new[1], point
    assert outcomes == sorted(outcomes), "once it is in, it stays in"
    assert set(outcomes) == {False, True}
    return len(read)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("delta")])
def test_delta(spark, tmp_path, name):
    def by_spark(folder: Path) -> list[int]:
        # Delta keeps what it knows of a path: each state gets its own.
        copy = shutil.copytree(folder, tmp_path / f"read{len(list(tmp_path.iterdir()))}")
        jvm: Any = spark._jvm
        if not jvm.io.delta.tables.DeltaTable.isDeltaTable(spark._jsparkSession, str(copy)):
            return []
        return sorted(row[0] for row in spark.read.format("delta").load(str(copy)).select("id").collect())

    # Nothing, a hidden file, the entry with the hidden file and without it.
    assert hold(name, tmp_path / "t", by_spark) == 4


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("havasu")])
def test_havasu(iceberg_spark, name):
    table = name.replace(" ", "_")

    def by_spark(_: Path) -> list[int]:
        if table not in {row["tableName"] for row in iceberg_spark.sql("SHOW TABLES IN ice.killed")}:
            return []
        return [row["id"] for row in iceberg_spark.sql(f"SELECT id FROM ice.killed.{table} ORDER BY id")]

    # Nothing, manifests and their list, metadata under a hidden name, both its names, its own, and those of the hint.
    assert hold(name, iceberg_spark.warehouse / "killed" / table, by_spark) >= 4


# Apart from this process, whose JVM serves other tests: it runs the change, and the whole group is killed at a point.
VICTIM = """
import sys
from pathlib import Path
import geolake_nb as gl
from tests.promises.dying_java import stopping_at_points
from tests.spark_session import delta_session
table, folder, point = sys.argv[1:]
spark = delta_session("local[1]", Path(folder))
with stopping_at_points(spark, Path(table), f"if [ $0 = {point} ]; then kill -9 0; fi"):
    gl.open(table).plan_repair().apply(spark=spark)
"""


@pytest.mark.parametrize("verb", ["repair", "append", "rewrite", "undo"])
def test_iceberg(spark, iceberg_spark, tmp_path, verb):
    """Its Java API commits: the folder is copied at each point, and two of a repair's points are proved by a kill."""

    def by_spark() -> list[int]:
        return [row["id"] for row in iceberg_spark.sql(f"SELECT id FROM ice.killed.iceberg_{verb} ORDER BY id")]

    def put(state: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(state, folder)

    change = getattr(iceberg_changes, verb)
    folder, states = iceberg_spark.warehouse / "killed" / f"iceberg_{verb}", tmp_path / "states"
    iceberg_without_boxes(folder)
    old = iceberg_version(folder), iceberg_ids(folder)
    kept = shutil.copytree(folder, tmp_path / "kept")
    states.mkdir()
    with stopping_at_points(spark, folder, f"cp -a '{folder}' '{states}'/$0"):
        change(folder, spark)
    new = iceberg_version(folder), iceberg_ids(folder)
    # Two files of four rows: an undo takes away the second, an append adds a third.
    files = {"append": 3, "undo": 1}.get(verb, 2)
    assert new == (old[0] + 1, sorted([*range(4)] * files))
    outcomes, read = [], set()
    points = range(1, len(list(states.iterdir())) + 1)
    for point in points:
        put(states / str(point))
        now = iceberg_version(folder), iceberg_ids(folder)
        assert now in (old, new), point
        if shape(folder) not in read:
            read.add(shape(folder))
            assert by_spark() == now[1], point
            (iceberg_changes.append if now == new else change)(folder, spark)
            assert iceberg_version(folder) == now[0] + 1, point
            assert by_spark() == (sorted([*new[1], *range(4)]) if now == new else new[1]), point
        outcomes.append(now == new)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
    first = outcomes.index(True) + 1
    for point in (first - 1, first) if verb == "repair" else ():
        put(kept)
        work = tmp_path / f"spark{point}"
        work.mkdir()
        command = [sys.executable, "-c", VICTIM, str(folder), str(work), str(point)]
        done = subprocess.run(command, start_new_session=True, capture_output=True, timeout=300, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
        assert shape(folder) == shape(states / str(point))
        assert by_spark() == old[1]
        assert (iceberg_version(folder) == new[0]) is (point == first)


@pytest.mark.parametrize("name", SETS)
def test_parquet(spark, tmp_path, name):
    def by_spark(folder: Path) -> list[int]:
        return sorted(row[0] for row in spark.read.parquet(str(folder)).select("id").collect())

    case, folder = SETS[name], tmp_path / "t"
    case.make(folder)
    old, old_ids = contents(folder), seen(folder)
    journal = folder / "_geolake" / "changes"
    before = len(list(journal.glob("*.json"))) // 2 if journal.exists() else 0
    outcomes, read, parts = [], set(), set()
    for point in kills(case, folder):
        if point == "whole":
            new, new_ids = contents(folder), seen(folder)
            assert set(new_ids) > set(old_ids) if name == "append" else new_ids == old_ids
        begun = len(list(journal.glob("[0-9]*[0-9].json"))) > before
        ended = len(list(journal.glob("*.end.json"))) > before
        now = seen(folder)
        # A set has no log: while files move, rows may be missing until the change is ended, and none is there twice.
        assert len(set(now)) == len(now), point
        assert set(now) <= set(new_ids), point
        assert set(now) >= set(old_ids) or name in ("rewrite", "undo"), point
        if now not in (old_ids, new_ids):
            parts.add(tuple(now))
            assert begun, point
            assert not ended, point
        assert begun or contents(folder) == old, point
        assert not ended or contents(folder) == new, point
        if shape(folder) not in read:
            read.add(shape(folder))
            assert by_spark(folder) == now, point
        if point != "whole":
            outcomes.append(begun + ended)
        if begun and not ended:
            assert "(incomplete)" in str(gl.open(folder).history()), point
            gl.open(folder).plan_repair().apply()
        elif not begun:
            case.change(folder)
        assert contents(folder) == new, point
        assert seen(folder) == new_ids, point
        case.after(folder)
        assert seen(folder) == old_ids, point
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {0, 1, 2}
    # One of two files is out or in, or both are out: what the promise says of sets is no more than what happens.
    assert len(parts) == {"repair": 0, "append": 1}.get(name, 3)
