from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geolake_nb.errors import CorruptTableError, NotATableError, StorageError, VersionError
from geolake_nb.formats.delta import is_delta, open_delta
from geolake_nb.formats.delta.log_segment import CheckpointHint, list_log, newest_log
from geolake_nb.storage.storage import Storage
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, remove, write_checkpoint

START = (protocol(), metadata())


@pytest.fixture
def made(tmp_path):
    return LogMaker(tmp_path / "t")


def test_commits_alone_make_every_version(made):
    made.commit(0, *START, add("a")).commit(1, add("b")).commit(2, remove("a"))
    assert [made.paths(version=version) for version in (0, 1, 2, None)] == [["a"], ["a", "b"], ["b"], ["b"]]


def test_a_checkpoint_makes_older_commits_needless(made):
    made.checkpoint(5, *START, add("a"), add("b")).commit(6, remove("b"), add("c"))
    assert made.paths() == ["a", "c"]
    assert made.paths(version=5) == ["a", "b"]


def test_a_version_before_the_oldest_that_is_left_was_cleaned_up(made):
    made.checkpoint(5, *START, add("a")).commit(5).commit(6, add("b"))
    with pytest.raises(VersionError, match="version 3 was cleaned up; open version 5 or a later one"):
        made.open(version=3)


@pytest.mark.parametrize("version", [-1, 7])
def test_a_version_that_never_was_is_named_with_those_that_are(made, version):
    made.commit(0, *START).commit(1, add("a"))
    with pytest.raises(VersionError, match=f"there is no version {version}; the versions are 0 to 1"):
        made.open(version=version)


def test_a_gap_names_the_missing_versions(made):
    made.commit(0, *START).commit(1, add("a")).commit(4, add("b"))
    with pytest.raises(CorruptTableError, match="the log has a gap: versions 2 to 3 are missing; open version 1"):
        made.open()
    assert made.paths(version=1) == ["a"]


def test_a_gap_before_the_checkpoint_does_not_matter(made):
    made.commit(0, *START).commit(2, add("x")).checkpoint(3, *START, add("a")).commit(4, add("b"))
    assert made.paths() == ["a", "b"]


def test_a_log_without_its_start_and_without_a_checkpoint_is_broken(made):
    made.commit(3, *START, add("a"))
    with pytest.raises(CorruptTableError, match="versions 0 to 2 are missing"):
        made.open()


HINTS = {
    CheckpointHint.RIGHT: '{"version":4,"size":3}',
    CheckpointHint.STALE: '{"version":2,"size":3}',
    CheckpointHint.WRONG: '{"version":9,"size":3}',
    CheckpointHint.CORRUPT: '{"version":',
    CheckpointHint.MISSING: None,
}


@pytest.mark.parametrize("hint", HINTS)
def test_the_checkpoint_is_found_whatever_the_hint_says(made, hint):
    made.checkpoint(2, *START, add("old")).checkpoint(4, *START, add("a")).commit(5, add("b"))
    if HINTS[hint] is not None:
        made.hint(HINTS[hint])
    assert made.paths() == ["a", "b"]
    assert made.open().details.checkpoint_hint is hint


@pytest.mark.parametrize("text", ["[1]", '{"version":"4"}', "{}", '{"version":true}', "[" * 100_000])
def test_an_invalid_hint_is_corrupt(made, text):
    made.checkpoint(4, *START, add("a")).hint(text)
    assert made.open().details.checkpoint_hint is CheckpointHint.CORRUPT


def test_a_multi_part_checkpoint_is_the_union_of_its_parts(made):
    for part, actions in enumerate([(*START, add("a")), (add("b"),), ()], 1):
        made.checkpoint(3, *actions, name=f"{3:020}.checkpoint.{part:010}.{3:010}.parquet")
    assert made.paths() == ["a", "b"]


def test_a_checkpoint_that_lacks_a_part_is_passed_over(made):
    made.commit(0, *START, add("a")).commit(1, add("b"))
    made.checkpoint(1, *START, name=f"{1:020}.checkpoint.{1:010}.{2:010}.parquet")
    assert made.paths() == ["a", "b"]
    assert list_log(made.storage).incomplete == {1: "part 2 of 2"}


def test_missing_parts_are_named_where_nothing_else_makes_the_version(made):
    made.checkpoint(7, *START, name=f"{7:020}.checkpoint.{2:010}.{3:010}.parquet").commit(8, add("b"))
    with pytest.raises(CorruptTableError, match="the checkpoint of version 7 lacks parts 1, 3 of 3"):
        made.open()
    (made.log / f"{8:020}.json").unlink()
    with pytest.raises(CorruptTableError, match="lacks parts 1, 3 of 3"):
        made.open()


UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_v2_checkpoint_may_hold_its_files_itself(made, kind):
    actions = [{"checkpointMetadata": {"version": 3}}, *START, add("a"), add("b")]
    name = f"{3:020}.checkpoint.{UUID}.{kind}"
    made.write(name, actions) if kind == "json" else made.checkpoint(3, *actions, name=name)
    assert made.commit(4, remove("a")).paths() == ["b"]


@pytest.mark.parametrize("name", [f"{3:020}.checkpoint.{UUID}.json", f"{3:020}.checkpoint.parquet"])
def test_a_v2_checkpoint_may_have_its_files_in_sidecars(made, name):
    write_checkpoint(made.log / "_sidecars" / "one.parquet", [add("a")])
    write_checkpoint(made.log / "_sidecars" / "two.parquet", [add("b")])
    absolute = (made.log / "_sidecars" / "two.parquet").as_uri()
    sidecars = [{"sidecar": {"path": path, "sizeInBytes": 1}} for path in ("one.parquet", absolute)]
    actions = [{"checkpointMetadata": {"version": 3}}, *START, *sidecars]
    made.write(name, actions) if name.endswith("json") else made.checkpoint(3, *actions, name=name)
    assert made.paths() == ["a", "b"]


def test_a_missing_sidecar_is_named(made):
    made.write(f"{3:020}.checkpoint.{UUID}.json", [*START, {"sidecar": {"path": "gone.parquet"}}])
    with pytest.raises(
        CorruptTableError, match=r"_sidecars/gone\.parquet: the sidecar file of the checkpoint is missing"
    ):
        made.open()


@pytest.mark.parametrize("keep", [0, 3, 200, -9])
def test_a_truncated_checkpoint_is_named(made, keep):
    made.checkpoint(3, *START, add("a")).commit(4, add("b"))
    path = made.log / f"{3:020}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        CorruptTableError, match=r"0003\.checkpoint\.parquet: the checkpoint is truncated or not a Parquet"
    ):
        made.open()


def test_pages_that_cannot_be_read_are_the_checkpoint_s_fault(made):
    made.checkpoint(3, *START, *(add(f"{number:040}") for number in range(100)))
    path = made.log / f"{3:020}.checkpoint.parquet"
    data = bytearray(path.read_bytes())
    data[4:400] = b"\xff" * 396
    path.write_bytes(data)
    with pytest.raises(CorruptTableError, match=r"checkpoint\.parquet"):
        made.open()


WRONG_TYPES = {
    "protocol": ("protocol", pa.array([1, 2])),
    "path": ("add", pa.array([{"path": [1]}, {"path": [2]}])),
    "vectors": ("add", pa.array([{"path": "a", "deletionVector": "x"}, {"path": "b", "deletionVector": "y"}])),
    "size": ("add", pa.array([{"path": "a", "size": "big"}, {"path": "b", "size": "small"}])),
    "bytes": ("add", pa.array([{"path": b"\xff"}, {"path": b"b"}])),
    "add": ("add", pa.array(["a", "b"])),
    "metadata": ("metaData", pa.array([{"schemaString": 5}, {"schemaString": 6}])),
    "partitions": ("add", pa.array([{"path": "a", "partitionValues": [1]}, {"path": "b", "partitionValues": []}])),
}


@pytest.mark.parametrize("wrong", WRONG_TYPES)
def test_columns_of_other_types_are_refused_by_name(made, wrong):
    start = (protocol(), metadata(field("p", "string"), partitions=("p",)))
    made.checkpoint(0, *start)
    path = made.log / f"{0:020}.checkpoint.parquet"
    name, column = WRONG_TYPES[wrong]
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), path)
    if wrong == "partitions":
        assert made.open().files.table["partition.p"].to_pylist() == [None, None]
    else:
        with pytest.raises(CorruptTableError):
            made.open()


def test_compacted_logs_stand_for_the_commits_they_cover(made):
    made.commit(0, *START, add("a"))
    made.compacted(1, 3, remove("a"), add("b"), add("c")).commit(4, remove("c"))
    assert made.paths() == ["b"]
    with pytest.raises(CorruptTableError, match="the log has a gap: versions 1 to 3 are missing"):
        made.open(version=2)


def test_the_longest_compacted_log_that_ends_in_time_is_taken(made):
    made.commit(0, *START)
    for version in range(1, 6):
        made.commit(version, add(f"f{version}"))
    made.compacted(1, 2, add("f1"), add("f2")).compacted(1, 4, *(add(f"f{n}") for n in range(1, 5)))
    segment = list_log(made.storage).segment(5)
    assert [path.rpartition("/")[2] for path in segment.deltas] == [
        f"{0:020}.json",
        f"{1:020}.{4:020}.compacted.json",
        f"{5:020}.json",
    ]
    assert made.paths(version=3) == ["f1", "f2", "f3"]
    assert made.paths() == ["f1", "f2", "f3", "f4", "f5"]


def test_other_files_in_the_log_are_not_commits(made):
    made.commit(0, *START, add("a"))
    for name in [f"{1:020}.crc", "1.json", f".{1:020}.json.crc", f"{1:020}.json.tmp", f"{1:020}.checkpoint.x.parquet"]:
        (made.log / name).write_text("nonsense")
    assert made.open().version == 0


def test_a_folder_without_a_log_is_not_a_table(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(NotATableError, match="there is no Delta log"):
        list_log(Storage.at(str(tmp_path)))
    assert not is_delta(Storage.at(str(tmp_path)))
    assert not is_delta(Storage.at(str(tmp_path / "none")))
    (tmp_path / "file").write_text("x")
    assert not is_delta(Storage.at(str(tmp_path / "file")))


class Unlisted(Storage):
    """A web server: it gives files and lists nothing."""

    location = "https://host.org/t"

    def list(self, prefix="", *, recursive=False, after=""):
        raise StorageError("the web server does not list folders", where=self.location)


@pytest.mark.parametrize("hint", [None, {"version": 2, "size": 3}, {"version": 2, "parts": 2}])
def test_without_a_listing_the_log_is_found_by_its_names(made, hint):
    made.commit(0, *START, add("a")).commit(1, add("b")).commit(2, add("c")).commit(3, add("d"))
    if hint is not None:
        made.hint(json.dumps(hint)).commit(2, add("c"))
        names = (
            [f"{2:020}.checkpoint.{part:010}.{2:010}.parquet" for part in (1, 2)] if "parts" in hint else [None, None]
        )
        made.checkpoint(2, *START, add("a"), add("b"), add("c"), name=names[0])
        if names[1]:
            made.checkpoint(2, name=names[1])
    storage = made.storage
    listing = list_log(Unlisted(storage._location, storage._backend))
    assert listing.latest == 3
    assert len(listing.checkpoints) == (hint is not None)


def test_a_server_that_has_an_answer_for_every_path_has_no_log(made):
    paths = []

    class Willing(Unlisted):
        def exists(self, path):
            paths.append(path)
            return True

        def size(self, path):
            return 9

        def read(self, path):
            return b"<!DOCTYPE html>"

        def read_range(self, path, start, length):
            return b"<!DOCTYPE html>"[start : start + length]

    storage = made.storage
    with pytest.raises(NotATableError):
        list_log(Willing(storage._location, storage._backend))
    assert len(paths) < 10


class Paged(Storage):
    """A store that lists four files per page, in the order of their names."""

    def __init__(self, made: LogMaker) -> None:
        super().__init__(made.storage._location, made.storage._backend)
        self.listed: list[str] = []

    def list(self, prefix="", *, recursive=False, after=""):
        self.listed.append(after)
        return super().list(prefix, recursive=recursive, after=after)

    def list_first(self, prefix="", *, recursive=False):
        entries = super().list(prefix, recursive=recursive)
        return entries[:4], len(entries) <= 4


LONG_LOG_HINTS = {
    # The content of the hint, its state, and after which name the log is then listed ("": the whole).
    "right": ('{"version":8,"size":3}', CheckpointHint.RIGHT, f"{8:020}"),
    "stale": ('{"version":6,"size":3}', CheckpointHint.STALE, f"{6:020}"),
    "not there": ('{"version":7,"size":3}', CheckpointHint.WRONG, f"{7:020}"),
    "beyond the end": ('{"version":99,"size":3}', CheckpointHint.WRONG, f"{99:020}"),
    "in the first answer": ('{"version":1,"size":3}', CheckpointHint.WRONG, ""),
    "negative": ('{"version":-8,"size":3}', CheckpointHint.WRONG, ""),
    "with sidecar files": ('{"version":8,"v2Checkpoint":{}}', CheckpointHint.RIGHT, ""),
    "corrupt": ('{"version":', CheckpointHint.CORRUPT, ""),
    "missing": (None, CheckpointHint.MISSING, ""),
}


@pytest.mark.parametrize("name", LONG_LOG_HINTS)
def test_of_a_long_log_only_what_comes_after_the_hint_is_listed(made, name):
    hint, state, listed_after = LONG_LOG_HINTS[name]
    made.commit(0, *START, add("v0"))
    for version in range(1, 11):
        made.commit(version, add(f"v{version}"))
    for version in (6, 8):
        made.checkpoint(version, *START, *(add(f"v{number}") for number in range(version + 1)))
    if hint is not None:
        made.hint(hint)
    storage = Paged(made)
    listing = newest_log(storage)
    assert listing.segment() == list_log(made.storage).segment()
    assert listing.hint is state
    assert storage.listed[0] == listed_after
    assert (listing.since > 0) == (name in ("right", "stale"))
    # What was not looked at is there all the same.
    for version, newest in ((0, 0), (3, 3), (7, 7), (10, 10), (None, 10)):
        opened = open_delta(storage, version=version, log=listing)
        assert opened.files.table["path"].to_pylist() == [f"v{number}" for number in range(newest + 1)]
    with pytest.raises(VersionError, match="the versions are 0 to 10"):
        open_delta(storage, version=11, log=listing)


def test_a_gap_in_a_long_log_is_reported_as_in_a_short_one(made):
    made.commit(0, *START, add("v0"))
    for version in (1, 2, 3, 4, 5, 8):
        made.commit(version, add(f"v{version}"))
    made.checkpoint(5, *START, add("v0")).hint('{"version":5}')
    with pytest.raises(CorruptTableError, match="the log has a gap: versions 6 to 7 are missing; open version 5"):
        open_delta(Paged(made))
