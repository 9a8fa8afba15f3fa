"""A storage call of a change fails, whether it took effect or not: no row is there twice, and the journal is right."""

from __future__ import annotations

import os
import re
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.errors import ConflictError, GeolakeError, OutcomeUnknownError, StorageError
from geolake_nb.formats.parquet_folder.commit import SetChange, action, commit_set, end_pending, find_change
from geolake_nb.formats.parquet_folder.file_changes import FileState
from geolake_nb.formats.parquet_folder.journal import STAGED, kept_path
from geolake_nb.storage.storage import Storage
from tests.formats.parquet_folder.test_commit import repair, rewrite
from tests.formats.parquet_sets import contents, make_set, points, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """How a call fails."""

    kind: type[GeolakeError]
    took_effect: bool
    lasting: bool
    """Whether all calls after it fail as well, those that take the change back included."""

    def __str__(self) -> str:
        return f"{self.kind.__name__} {'after' if self.took_effect else 'before'}{' lasting' if self.lasting else ''}"


# After what is unknown nothing more is tried, so that it cannot fail either.
FAULTS = [
    Fault(kind, took_effect, lasting)
    for kind, lasting in ((StorageError, False), (StorageError, True), (OutcomeUnknownError, False))
    for took_effect in (False, True)
]


class Faulty:
    """A storage of which the nth call that changes something fails, the first being 1."""

    def __init__(self, folder: Path, number: int, fault: Fault) -> None:
        self.storage = Storage.at(str(folder))
        self.failed: str | None = None
        """The call that failed first."""
        self._left, self._fault, self._lock = number, fault, threading.Lock()
        for name in ("link", "put_if_absent", "remove", "rename"):
            setattr(self.storage, name, self._failing(name))
        self.storage.atomic_replace = self._atomic_replace

    def _failing(self, name: str) -> Callable[..., None]:
        real = getattr(self.storage, name)

        def call(*words: Any, **options: Any) -> None:
            with self._failure(f"{name} {words[0]}"):
                real(*words, **options)

        return call

    @contextmanager
    def _atomic_replace(self, path: str) -> Iterator[str]:
        failure = self._failure(f"atomic_replace {path}", at_once=False)
        with failure as stop, Storage.atomic_replace(self.storage, path) as temporary:
            yield temporary
            stop()

    @contextmanager
    def _failure(self, name: str, *, at_once: bool = True) -> Iterator[Callable[[], None]]:
        with self._lock:
            self._left -= 1
            fails = self._left == 0 or (self._left < 0 and self._fault.lasting)
            if fails and self.failed is None:
                self.failed = name

        def stop() -> None:
            if fails and not self._fault.took_effect:
                raise self._fault.kind(f"{name} is made to fail")

        if at_once:
            stop()
        yield stop
        if fails:
            raise self._fault.kind(f"{name} is made to fail after it was done")


@dataclass(frozen=True)
class Case:
    """A set and a change of it."""

    make: Callable[[Path], object]
    change: Callable[[Path], SetChange]
    old: list[int]
    new: list[int]
    calls: int
    """How many calls change something when none fails."""


def one_file(folder: Path) -> None:
    make_set(folder, files=1)


def over(folder: Path) -> SetChange:
    """The only file is replaced by one of its name."""
    waiting = folder / STAGED / "0.parquet.new"
    waiting.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(points(0, 10), waiting)
    taken = FileState.now(Storage.at(str(folder)), "0.parquet").to_dict()
    put = {"path": "0.parquet", "from": f"{STAGED}/0.parquet.new", "bytes": waiting.stat().st_size, "rows": 10}
    return SetChange("44444444-over", "rewrite", [action("take", taken), action("put", put)])


def append(folder: Path) -> SetChange:
    """Two new files, which wait in the hidden folder."""
    (folder / STAGED).mkdir(parents=True, exist_ok=True)
    puts = []
    for name, first, count in (("x", 30, 5), ("y", 35, 10)):
        waiting = folder / STAGED / f"{name}.parquet.new"
        pq.write_table(points(first, count), waiting)
        moved = {"path": f"{name}.parquet", "from": f"{STAGED}/{waiting.name}", "rows": count}
        puts.append(action("put", {**moved, "bytes": waiting.stat().st_size}))
    return SetChange("55555555-append", "write", puts)


def after(change: Callable[[Path], SetChange], make: Callable[[Path], object] = make_set) -> Callable[[Path], None]:
    """A set to which a change was made."""

    def made(folder: Path) -> None:
        make(folder)
        commit_set(Storage.at(str(folder)), change(folder))

    return made


def undo(folder: Path) -> SetChange:
    plan = gl.open(str(folder)).plan_undo()
    return SetChange("66666666-undo", "undo", plan.change.actions, plan.change.parameters)


BEGIN = re.compile(r"put_if_absent _geolake/changes/[0-9]+\.json")
ALL, MORE = list(range(30)), list(range(45))
CASES = {
    # The journal's begin and end, and for each file a link and a removal.
    "rewrite": Case(make_set, rewrite, ALL, ALL, 2 + 4 * 2),
    "append": Case(make_set, append, ALL, MORE, 2 + 2 * 2),
    # A link, then the checksum of Hadoop and a rename.
    "rewrite of one file": Case(one_file, over, ALL[:10], ALL[:10], 2 + 3),
    # The removal and the write of what is kept, and for each file that of the checksum and the replacement.
    "repair": Case(make_set, repair, ALL, ALL, 2 + 2 + 3 * 2),
    "undo of a rewrite": Case(after(rewrite), undo, ALL, ALL, 2 + 4 * 2),
    "undo of an append": Case(after(append), undo, MORE, ALL, 2 + 2 * 2),
    "undo of a rewrite of one file": Case(after(over, one_file), undo, ALL[:10], ALL[:10], 2 + 3),
    "undo of a repair": Case(after(repair), undo, ALL, ALL, 2 + 2 + 3 * 2),
}


def listed(folder: Path) -> list[int]:
    """The ids in the files that the package lists."""
    paths = gl.open(str(folder)).files.table["path"].to_pylist()
    return sorted(id_ for path in paths for id_ in pq.read_table(folder / path, columns=["id"])["id"].to_pylist())


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_call_that_fails_leaves_a_whole_version_or_a_change_to_end(tmp_path, monkeypatch, name, fault):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # many small files, and no power failure
    case, kept = CASES[name], tmp_path / "kept"
    case.make(kept)
    old, change = contents(kept), case.change(kept)
    for number in range(1, case.calls + 2):
        folder = tmp_path / str(number)
        shutil.copytree(kept, folder)
        faulty = Faulty(folder, number, fault)
        problem = None
        try:
            commit_set(faulty.storage, change)
        except GeolakeError as raised:
            problem = raised
        if number > case.calls:
            assert faulty.failed is None
            assert seen(folder) == case.new
            break
        assert faulty.failed is not None

        # What is there is what the journal and the error say.
        entry = find_change(Storage.at(str(folder)), change.transaction)
        ids = seen(folder)
        assert len(set(ids)) == len(ids), faulty.failed
        if entry is None or (entry.outcome is not None and entry.outcome.abandoned):
            assert contents(folder) == old, faulty.failed
            assert problem is not None
        elif entry.outcome is not None:
            assert ids == case.new, faulty.failed
        else:
            assert set(ids) <= {*case.old, *case.new}
            assert set(ids) >= set(case.old) & set(case.new) or "append" not in name
            assert ids == case.old or "repair" not in name
            assert "(incomplete)" in str(gl.open(str(folder)).history())
            # A store that calls the write of a new file failed has to be right; all else is not taken at its word.
            if not (fault.kind is StorageError and BEGIN.fullmatch(faulty.failed)):
                assert isinstance(problem, OutcomeUnknownError), faulty.failed
                assert change.transaction in str(problem)
        if fault.kind is OutcomeUnknownError and entry is not None and "changes/" not in faulty.failed:
            assert entry.outcome is None, "nothing is cleaned up before the outcome is known"
        if fault.kind is StorageError and not fault.lasting and "changes/" not in faulty.failed:
            assert entry is None or entry.outcome is not None, "a reported failure locks nobody out"

        # The next one completes it, or repeats it where it was reverted.
        storage = Storage.at(str(folder))
        end_pending(storage)
        entry = find_change(storage, change.transaction)
        if entry is None or entry.outcome.abandoned:
            assert contents(folder) == old, faulty.failed
            commit_set(storage, change)
        assert (seen(folder), listed(folder)) == (case.new, case.new), faulty.failed
        if "undo" not in name:
            gl.open(str(folder)).plan_undo().apply()
            assert contents(folder) == old, faulty.failed
    else:
        pytest.fail("there are more calls than expected")


def test_an_interrupted_change_is_reverted_as_a_whole(tmp_path):
    """Also the moves after the one that cannot be made, which were made before."""
    folder = make_set(tmp_path / "set")
    old, change, storage = contents(folder), rewrite(folder), Storage.at(str(folder))

    def stop(step: str) -> None:
        if step == "put y.parquet":
            raise InterruptedError(step)

    with pytest.raises(InterruptedError):
        commit_set(storage, change, on_step=stop)
    (folder / "x.parquet").unlink()
    with pytest.raises(ConflictError, match="the new file is missing"):
        end_pending(storage)
    assert contents(folder) == old
    assert find_change(storage, change.transaction).outcome.abandoned


def test_a_file_that_another_writer_created_under_the_same_name_is_not_lost(tmp_path):
    folder = make_set(tmp_path / "set")
    old, change, storage = contents(folder), rewrite(folder), Storage.at(str(folder))

    def meddle(step: str) -> None:
        if step == "take 0.parquet":
            pq.write_table(points(100, 1), folder / "0.parquet")
            pq.write_table(points(200, 1), folder / "y.parquet")

    with pytest.raises(OutcomeUnknownError, match="the original one is kept as '_geolake/11111111-rewrite/old/0"):
        commit_set(storage, change, on_step=meddle)
    assert (folder / kept_path(change.transaction, "0.parquet")).read_bytes() == old["0.parquet"]
    assert find_change(storage, change.transaction).outcome is None
    (folder / "y.parquet").unlink()
    assert end_pending(storage) == [1]
    assert seen(folder) == [*ALL, 100]
