from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from geolake_nb import __version__
from geolake_nb.errors import (
    AlreadyThereError,
    ConflictError,
    CorruptTableError,
    GeolakeError,
    NotATableError,
    OutcomeUnknownError,
    RefusedError,
    StorageError,
)
from geolake_nb.formats.delta.commit import DeltaCommit, Phase, commit, find_commit, log_path
from geolake_nb.storage.storage import Storage
from geolake_nb.storage.writing import storage_put
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, remove, vector
from tests.heavy.two_committers import race
from tests.storage.s3_endpoint import losing_answers

DOMAIN = {"domainMetadata": {"domain": "geolake", "configuration": "{}", "removed": False}}
TXN = {"txn": {"appId": "etl", "version": 7}}


@pytest.fixture
def table(tmp_path):
    made = LogMaker(tmp_path / "t")
    return made.commit(0, protocol(), metadata()).commit(1, add("a"), add("b%20c"))


def change(*actions, base=1, transaction="ours", **more):
    texts = [json.dumps(action) for action in actions or (add("a", {"numRecords": 3}, dataChange=False),)]
    return DeltaCommit(base, "GEOLAKE REPAIR", {"columns": '["g"]'}, texts, transaction, **more)


def lines(table, version):
    return [json.loads(line) for line in (table.folder / log_path(version)).read_text().splitlines()]


def names(table):
    return sorted(os.listdir(table.log))


def at(wanted, act):
    """A hook that acts once, at that phase."""
    done = []

    def hook(phase, version):
        if phase is wanted and not done:
            done.append(phase)
            act()

    return hook


def test_a_commit_is_the_next_version(table):
    seen = []
    made = commit(table.storage, change(metrics={"files": "1"}), on_phase=lambda *step: seen.append(step))
    assert (made.version, made.transaction, made.rebased_over) == (2, "ours", ())
    info, action = lines(table, 2)
    assert action == add("a", {"numRecords": 3}, dataChange=False)
    info = info["commitInfo"]
    assert abs(info.pop("timestamp") - time.time() * 1000) < 60_000
    assert info == {
        "operation": "GEOLAKE REPAIR",
        "operationParameters": {"columns": '["g"]'},
        "readVersion": 1,
        "isBlindAppend": False,
        "operationMetrics": {"files": "1"},
        "engineInfo": f"geolake_nb/{__version__}",
        "txnId": "ours",
    }
    order = [Phase.START, Phase.READ_LOG, Phase.BEFORE_PUT, Phase.TEMP_WRITTEN, Phase.LINKED, Phase.COMMITTED]
    assert seen == [(phase, 2) for phase in order]
    assert table.paths() == ["a", "b%20c"]
    assert names(table) == [f"{version:020}.json" for version in range(3)]


def test_actions_are_written_byte_for_byte(table):
    text = '{ "add" : {"size":10,"path":"\\u00fc \\ud83d\\ude00","new": 1.50E+2,"partitionValues":{} } }'
    commit(table.storage, replace(change(), actions=[text]))
    assert (table.folder / log_path(2)).read_text().splitlines()[1] == text


def test_a_table_is_created_once(tmp_path):
    storage = Storage.at(str(tmp_path / "new"))
    made = commit(storage, change(protocol(), metadata(), base=-1))
    assert made.version == 0
    assert "readVersion" not in json.loads(storage.read(log_path(0)).splitlines()[0])["commitInfo"]
    with pytest.raises(ConflictError, match="created the table meanwhile"):
        commit(storage, change(protocol(), metadata(), base=-1, transaction="theirs"))


def test_a_table_that_is_not_there_is_not_changed(tmp_path):
    with pytest.raises(NotATableError):
        commit(Storage.at(str(tmp_path)), change())


# What others do, and whether our change (re-adding the file a) can stand on it.
APPEND = [add("new"), add("new2")]
WINNERS = {
    "append": (APPEND, None),
    "nothing but information": ([{"commitInfo": {"operation": "x"}}], None),
    "delete of another file": ([remove("b%20c")], None),
    "delete of our file": ([remove("a")], "removed or replaced the file 'a'"),
    "our file in another spelling": ([remove("%61")], "removed or replaced the file 'a'"),
    "our file with a deletion vector": ([add("a", deletionVector=vector(1))], "the file 'a'"),
    "statistics of our file": ([add("a", {"numRecords": 9}, dataChange=False)], "the file 'a'"),
    "schema": ([metadata(field("other", "long"))], "changed the schema or the properties"),
    "protocol": ([protocol("columnMapping")], "changed the protocol"),
    "another domain": ([{"domainMetadata": DOMAIN["domainMetadata"] | {"domain": "other"}}], None),
    "our domain": ([DOMAIN], "metadata domain 'geolake'"),
    "another application": ([{"txn": {"appId": "other", "version": 1}}], None),
    "our application": ([TXN], "the application 'etl'"),
    "changed rows": ([{"cdc": {"path": "_change_data/a", "partitionValues": {}, "size": 1}}], None),
    "an unknown action": ([{"fromTheFuture": {}}], "unknown action: fromTheFuture"),
}


@pytest.mark.parametrize("phase", [Phase.START, Phase.READ_LOG, Phase.BEFORE_PUT, Phase.TEMP_WRITTEN])
@pytest.mark.parametrize("name", sorted(WINNERS))
def test_a_lost_race_is_rebased_or_fails_without_a_trace(table, phase, name):
    theirs, problem = WINNERS[name]
    ours = change(add("a", {"numRecords": 3}, dataChange=False), DOMAIN, TXN)
    hook = at(phase, lambda: table.commit(2, *theirs))
    if problem is None:
        made = commit(table.storage, ours, on_phase=hook)
        assert (made.version, made.rebased_over) == (3, (2,))
        assert lines(table, 3)[0]["commitInfo"]["readVersion"] == 1
        assert names(table) == [f"{version:020}.json" for version in range(4)]
        return
    with pytest.raises(ConflictError, match=problem) as caught:
        commit(table.storage, ours, on_phase=hook)
    assert "version 2" in str(caught.value)
    assert "plan the change again" in str(caught.value)
    assert names(table) == [f"{version:020}.json" for version in range(3)]
    assert lines(table, 2) == theirs


def test_an_absolute_path_is_the_same_file(table):
    table.commit(2, remove(f"file://{table.folder}/a"))
    with pytest.raises(ConflictError, match="the file 'a'"):
        commit(table.storage, change())


def test_a_type_change_does_not_stand_on_appends(table):
    table.commit(2, *APPEND)
    with pytest.raises(ConflictError, match="added files"):
        commit(table.storage, change(tolerates_appends=False))
    assert commit(table.storage, change(base=2, tolerates_appends=False)).version == 3


def test_many_races_can_be_lost(table):
    def act():
        for version in range(2, 6):
            table.commit(version, add(f"new{version}"))

    made = commit(table.storage, change(), on_phase=at(Phase.BEFORE_PUT, act))
    assert (made.version, made.rebased_over) == (6, (2, 3, 4, 5))


def test_a_commit_that_is_in_is_not_written_again(table):
    first = commit(table.storage, change())
    table.commit(3, remove("a"))
    again = commit(table.storage, change())
    assert (again.version, again.timestamp) == (first.version, first.timestamp)
    assert len(names(table)) == 4


def test_an_unknown_outcome_is_reported_and_resolved_later(table):
    for lands in (True, False):
        ours = change(transaction=f"ours-{lands}", base=2 if not lands else 1)

        def put(path, data, lands=lands):
            if lands:
                table.storage.put_if_absent(path, data)
            raise OutcomeUnknownError("the store does not say")

        before = names(table)
        with pytest.raises(OutcomeUnknownError, match=f"txnId ours-{lands}") as caught:
            commit(table.storage, ours, put=put)
        assert "version" in str(caught.value)
        assert len(names(table)) == len(before) + lands
        assert find_commit(table.storage, ours.transaction, since=ours.base_version) == (2 if lands else None)
        if lands:
            assert commit(table.storage, ours).version == 2


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), RuntimeError("lost"), OSError(5, "io")])
def test_whatever_else_a_write_raises_leaves_the_outcome_open(table, problem):
    def put(path, data):
        raise problem

    with pytest.raises(OutcomeUnknownError, match="version 2 may or may not be in the table"):
        commit(table.storage, change(), put=put)


def test_a_write_that_fails_for_good_says_so(table):
    def put(path, data):
        raise StorageError("access is denied")

    with pytest.raises(StorageError, match="denied"):
        commit(table.storage, change(), put=put)


def test_a_write_that_is_refused_for_our_own_earlier_try_counts(table):
    def put(path, data):
        table.storage.put_if_absent(path, data)
        raise AlreadyThereError("the file already exists")

    made = commit(table.storage, change(), put=put)
    assert (made.version, made.rebased_over) == (2, ())


def test_a_refused_write_without_a_file_does_not_loop_forever(table):
    def put(path, data):
        raise AlreadyThereError("the file already exists")

    with pytest.raises(StorageError):
        commit(table.storage, change(), put=put)


def test_a_base_that_is_gone_is_a_conflict(table):
    with pytest.raises(ConflictError, match="version 9, the base of the planned change, no longer exists"):
        commit(table.storage, change(base=9))


def test_another_table_at_the_same_location_is_a_conflict(table):
    assert commit(table.storage, change(table_id="made-by-hand")).version == 2
    with pytest.raises(ConflictError, match="the table was replaced by another one"):
        commit(table.storage, change(base=2, transaction="b", table_id="other"))


def test_a_version_that_only_a_checkpoint_shows_cannot_be_checked(table):
    table.commit(2, add("new")).commit(3, add("new2"))
    table.checkpoint(3, protocol(), metadata(), add("a"), add("b%20c"), add("new"), add("new2"))
    (table.folder / log_path(2)).unlink()
    with pytest.raises(ConflictError, match="version 2 was cleaned up"):
        commit(table.storage, change())
    with pytest.raises(OutcomeUnknownError, match="cleaned up"):
        find_commit(table.storage, "ours", since=1)
    # What lies before the base needs no commits.
    assert commit(table.storage, change(base=3)).version == 4


def test_a_gap_is_never_filled(table):
    table.commit(3, add("new"))
    with pytest.raises(CorruptTableError, match="gap"):
        commit(table.storage, change())
    assert not (table.folder / log_path(2)).exists()


def test_a_broken_winner_is_a_typed_error(table):
    (table.folder / log_path(2)).write_text('{"add":')
    with pytest.raises(CorruptTableError):
        commit(table.storage, change())
    assert len(names(table)) == 3


@pytest.mark.parametrize(
    "text", ['{"add":{"path":"a"}}\n{"remove":{"path":"b"}}', "no json", "[]", '{"commitInfo":{"x":1}}', '{"odd":{}}']
)
def test_an_invalid_action_is_not_written(table, text):
    with pytest.raises(GeolakeError):
        commit(table.storage, replace(change(), actions=[text]))
    assert len(names(table)) == 2


TIMED = {"delta.enableInCommitTimestamps": "true"}


class TestInCommitTimes:
    AHEAD = 4_000_000_000_000

    @pytest.fixture
    def table(self, tmp_path):
        def info(moment):
            return {"commitInfo": {"inCommitTimestamp": moment, "timestamp": moment, "operation": "x"}}

        self.info = info
        made = LogMaker(tmp_path / "t")
        made.commit(0, info(5), protocol("inCommitTimestamp", reader=()), metadata(**TIMED))
        return made.commit(1, info(self.AHEAD), add("a"))

    def times(self, table):
        return [lines(table, version)[0]["commitInfo"]["inCommitTimestamp"] for version in range(len(names(table)))]

    def test_times_rise_even_where_the_clock_is_behind(self, table):
        made = commit(table.storage, change())
        assert self.times(table) == [5, self.AHEAD, self.AHEAD + 1]
        assert made.timestamp.timestamp() * 1000 == self.AHEAD + 1
        assert next(iter(lines(table, 2)[0]["commitInfo"])) == "inCommitTimestamp"

    def test_times_are_drawn_again_after_a_lost_race(self, table):
        hook = at(Phase.TEMP_WRITTEN, lambda: table.commit(2, self.info(self.AHEAD + 50), add("new")))
        commit(table.storage, change(), on_phase=hook)
        assert self.times(table)[2:] == [self.AHEAD + 50, self.AHEAD + 51]

    def test_the_time_of_the_version_before_has_to_be_known(self, table):
        table.checkpoint(1, protocol("inCommitTimestamp", reader=()), metadata(**TIMED), add("a"))
        (table.folder / log_path(1)).unlink()
        with pytest.raises(CorruptTableError, match="inCommitTimestamp"):
            commit(table.storage, change())

    def test_a_table_can_have_them_from_its_creation(self, tmp_path):
        new = LogMaker(tmp_path / "new")
        actions = (protocol("inCommitTimestamp", reader=()), metadata(**TIMED))
        commit(new.storage, change(*actions, base=-1))
        assert self.times(new)[0] > 1_700_000_000_000

    def test_they_can_be_switched_off_and_not_on(self, table, tmp_path):
        commit(table.storage, change(metadata()))
        assert "inCommitTimestamp" not in lines(table, 2)[0]["commitInfo"]
        with pytest.raises(RefusedError, match="enableInCommitTimestamps"):
            commit(table.storage, change(metadata(**TIMED), base=2, transaction="b"))


class TestS3:
    @pytest.fixture
    def storage(self, s3, tmp_path, table):
        url = s3.upload(table.folder, "lake", f"commits/{tmp_path.name}")
        return Storage.at(url, options=s3.options)

    def test_a_lost_race_is_rebased(self, storage):
        theirs = json.dumps(add("new")).encode()
        hook = at(Phase.BEFORE_PUT, lambda: storage.put_if_absent(log_path(2), theirs))
        made = commit(storage, change(), put=storage_put(storage), on_phase=hook)
        assert (made.version, made.rebased_over) == (3, (2,))
        assert storage.read(log_path(2)) == theirs
        assert len(storage.list("_delta_log")) == 4

    def test_a_conflict_leaves_nothing(self, storage):
        hook = at(Phase.BEFORE_PUT, lambda: storage.put_if_absent(log_path(2), json.dumps(remove("a")).encode()))
        with pytest.raises(ConflictError):
            commit(storage, change(), on_phase=hook)
        assert len(storage.list("_delta_log")) == 3

    def test_an_answer_that_never_comes_is_an_unknown_outcome(self, storage, s3):
        with losing_answers(s3.url) as proxy:
            through = Storage.at(storage.location, options=s3.options | {"aws_endpoint": proxy})
            with pytest.raises(OutcomeUnknownError, match="version 2 may or may not be in the table"):
                commit(through, change())
        assert find_commit(storage, "ours", since=1) == 2
        assert commit(storage, change()).version == 2


# Forked from one process, which has imported everything and started nothing.
KILL = """
import os, signal, sys
from geolake_nb.formats.delta.commit import DeltaCommit, Phase, commit
from geolake_nb.storage.storage import Storage

action = '{"add":{"path":"a","partitionValues":{},"size":10,"modificationTime":1,"dataChange":false}}'
for folder in sys.argv[1:]:
    def hook(phase, version):
        if phase.name == os.path.basename(folder):
            os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if not child:
        commit(Storage.at(folder), DeltaCommit(1, "X", {}, [action], "ours"), on_phase=hook)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, folder
"""


def test_a_killed_commit_leaves_the_version_before_or_after(tmp_path):
    phases = [Phase.START, Phase.READ_LOG, Phase.BEFORE_PUT, Phase.TEMP_WRITTEN, Phase.LINKED, Phase.COMMITTED]
    tables = {phase: LogMaker(tmp_path / phase.name) for phase in phases}
    for table in tables.values():
        table.commit(0, protocol(), metadata()).commit(1, add("a"), add("b"))
    folders = [str(table.folder) for table in tables.values()]
    subprocess.run([sys.executable, "-c", KILL, *folders], timeout=100, check=True)
    for phase, table in tables.items():
        landed = phase in (Phase.LINKED, Phase.COMMITTED)
        assert find_commit(table.storage, "ours", since=1) == (2 if landed else None)
        assert table.open().version == (2 if landed else 1)
        assert table.paths() == ["a", "b"]
        # The next one gets through, whatever hidden file was left.
        assert commit(table.storage, change()).version == 2


def test_two_processes_lose_none_of_their_commits(tmp_path):
    assert race(tmp_path / "t", commits=15).lost == 0
