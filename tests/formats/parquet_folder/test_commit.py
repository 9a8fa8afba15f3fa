"""Changes of a set of files: whole or not at all for each file, completed by the next one if interrupted, undone."""

from __future__ import annotations

import json
import os
import signal

import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import ConflictError, CorruptTableError, RefusedError
from geolake_nb.formats.parquet_folder.commit import SetChange, action, commit_set, end_pending, find_change
from geolake_nb.formats.parquet_folder.file_changes import FileState
from geolake_nb.formats.parquet_folder.journal import STAGED, read_journal
from geolake_nb.storage.storage import Storage
from tests.formats.parquet_sets import contents, make_set, points, seen

OPERATIONS = ("link", "pieces", "put_if_absent", "remove", "rename", "atomic_replace")


def killed_at(folder, change: SetChange, number: int) -> bool:
    """Make the change in a process of its own that is killed before its nth operation on files; whether it was."""
    child = os.fork()
    if child == 0:
        count = 0
        storage = Storage.at(str(folder))
        for name in OPERATIONS:

            def counted(*words, _name=name, **options):
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return getattr(Storage, _name)(storage, *words, **options)

            setattr(storage, name, counted)
        try:
            commit_set(storage, change)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def rewrite(folder) -> SetChange:
    """Two of three files become two new ones; they wait in the hidden folder."""
    storage = Storage.at(str(folder))
    waiting = folder / STAGED
    waiting.mkdir(parents=True, exist_ok=True)
    puts = []
    for name, first, count in (("x", 0, 5), ("y", 5, 15)):
        pq.write_table(points(first, count), waiting / f"{name}.parquet.new")
        size = (waiting / f"{name}.parquet.new").stat().st_size
        moved = {"path": f"{name}.parquet", "from": f"{STAGED}/{name}.parquet.new", "bytes": size, "rows": count}
        puts.append(action("put", moved))
    takes = [action("take", FileState.now(storage, f"{name}.parquet").to_dict()) for name in (0, 1)]
    return SetChange("11111111-rewrite", "rewrite", [*takes, *puts])


def repair(folder) -> SetChange:
    """New footers for all files, as a plan makes them."""
    from geolake_nb.formats.parquet_folder.repair import finish_repair
    from geolake_nb.spark.scan_bounds import _here

    table = gl.open(str(folder))
    change = table.plan_repair().change
    storage = Storage.at(str(folder))
    units = [(n, file.state.path, [each.column for each in file.columns]) for n, file in enumerate(change.job.files)]
    done = finish_repair(change, change.job, _here(storage, units, None))
    return SetChange("22222222-repair", "repair", done.actions)


@pytest.mark.parametrize("make", [rewrite, repair])
def test_a_change_that_is_killed_at_any_operation_is_ended_by_the_next(tmp_path, make):
    number, begun = 0, 0
    while True:
        number += 1
        folder = make_set(tmp_path / f"{make.__name__}{number}")
        old = contents(folder)
        change = make(folder)
        was_killed = killed_at(folder, change, number)
        ids = seen(folder)
        # For as long as files move, rows may be missing; none is ever there twice, and no file is half written.
        assert len(set(ids)) == len(ids)
        if make is repair:
            assert ids == list(range(30))
        storage = Storage.at(str(folder))
        entry = find_change(storage, change.transaction)
        begun += entry is not None and was_killed
        if entry is None:
            assert contents(folder) == old
        else:
            end_pending(storage)
            assert seen(folder) == list(range(30))
            assert contents(folder) != old
            assert find_change(storage, change.transaction).outcome is not None
            gl.open(str(folder)).plan_undo().apply()
            assert contents(folder) == old
        if not was_killed:
            break
    assert begun > 3


def test_a_file_that_another_writer_changed_is_left_alone(tmp_path):
    folder = make_set(tmp_path / "set")
    change = rewrite(folder)
    pq.write_table(points(100, 3), folder / "1.parquet")
    before = contents(folder)
    with pytest.raises(ConflictError, match=r"1\.parquet: the file was changed since the plan was made"):
        commit_set(Storage.at(str(folder)), change)
    assert contents(folder) == before
    assert read_journal(Storage.at(str(folder))) == []


def test_a_step_that_cannot_be_made_takes_the_others_back(tmp_path):
    folder = make_set(tmp_path / "set")
    old = contents(folder)
    change = rewrite(folder)

    def meddle(step: str) -> None:
        if step == "begun":
            pq.write_table(points(200, 1), folder / "y.parquet")

    with pytest.raises(ConflictError, match="another writer created a file of this name"):
        commit_set(Storage.at(str(folder)), change, on_step=meddle)
    assert {name: data for name, data in contents(folder).items() if name != "y.parquet"} == old
    (entry,) = read_journal(Storage.at(str(folder)))
    assert entry.outcome.abandoned
    with pytest.raises(RefusedError, match="there is no change by geolake_nb to undo"):
        gl.open(str(folder)).plan_undo()


def test_a_repair_goes_on_without_the_file_that_changed_meanwhile(tmp_path):
    folder = make_set(tmp_path / "set")
    change = repair(folder)

    def meddle(step: str) -> None:
        if step == "begun":
            pq.write_table(points(200, 1), folder / "1.parquet")

    theirs = None
    with pytest.raises(ConflictError, match=r"1\.parquet"):
        commit_set(Storage.at(str(folder)), change, on_step=meddle)
    theirs = (folder / "1.parquet").read_bytes()
    (entry,) = read_journal(Storage.at(str(folder)))
    assert entry.outcome.skipped == ("1.parquet",)
    assert gl.open(str(folder / "0.parquet")).plan_repair().is_empty
    gl.open(str(folder)).plan_undo().apply()
    assert (folder / "1.parquet").read_bytes() == theirs


def test_two_changes_at_once_both_land(tmp_path):
    folder = make_set(tmp_path / "set")
    change = rewrite(folder)
    storage = Storage.at(str(folder))
    waiting = folder / STAGED
    pq.write_table(points(500, 2), waiting / "z.parquet.new")
    moved = {
        "path": "z.parquet",
        "from": f"{STAGED}/z.parquet.new",
        "bytes": (waiting / "z.parquet.new").stat().st_size,
    }
    other = SetChange("33333333-append", "write", [action("put", moved)])

    def race(step: str) -> None:
        if step == "ready" and not find_change(storage, other.transaction):
            assert commit_set(storage, other) == 1

    assert commit_set(storage, change, on_step=race) == 2
    assert seen(folder) == [*range(30), 500, 501]


def test_an_interrupted_change_is_completed_before_the_next_is_planned(tmp_path):
    folder = make_set(tmp_path / "set")
    change = repair(folder)
    with pytest.raises(InterruptedError):
        commit_set(Storage.at(str(folder)), change, on_step=interrupted)
    plan = gl.open(str(folder)).plan_repair()
    assert "Change 1 (repair) was interrupted" in str(plan)
    assert json.loads(plan.change.actions[0]) == {"finish": {"version": 1, "transaction": change.transaction}}
    with pytest.raises(RefusedError, match="a change of the files was interrupted"):
        plan_write(points(90, 1), str(folder), format="parquet", mode="append")
    assert "it is finished first" in str(gl.open(str(folder)).plan_undo())
    assert plan.apply().version == 1
    assert gl.open(str(folder)).plan_repair().is_empty


def interrupted(step: str) -> None:
    if step == "begun":
        raise InterruptedError(step)


@pytest.mark.parametrize(
    "step",
    [
        {"take": {"path": "a.parquet", "to": "b.parquet", "bytes": 1, "footer": "", "stays": False}},
        {"put": {"path": "_geolake/changes/00000001.json", "from": "_geolake/x", "bytes": 1, "over": True}},
        {"put": {"path": "./_geolake/y", "from": "_geolake/x", "bytes": 1, "over": True}},
        {"erase": {"path": "a.parquet", "bytes": 1}},
        {"take": {"path": 7, "to": "_geolake/x", "bytes": 1, "footer": "", "stays": False}},
        {"footer": {"path": "0.parquet", "bytes": 1}},
        [],
    ],
)
def test_a_journal_of_someone_else_cannot_lead_out_of_its_places(tmp_path, step):
    folder = make_set(tmp_path / "set", files=1)
    changes = folder / "_geolake/changes"
    changes.mkdir(parents=True)
    entry = {"version": 1, "transaction": "t", "verb": "write", "timestamp": 0, "parameters": {}, "metrics": {}}
    (changes / "00000001.json").write_text(json.dumps({**entry, "steps": [step]}))
    with pytest.raises(CorruptTableError, match="a step of a change"):
        read_journal(Storage.at(str(folder)))
