from __future__ import annotations

import random

import pytest

from geolake_nb.errors import CorruptTableError
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, remove, vector

START = (protocol(), metadata())


@pytest.fixture
def made(tmp_path):
    return LogMaker(tmp_path / "t")


def test_a_file_that_is_removed_and_added_again_is_live_once(made):
    made.commit(0, *START, add("a")).commit(1, remove("a")).commit(2, add("a", size=99))
    files = made.open().files.table
    assert files["path"].to_pylist() == ["a"]
    assert files["bytes"].to_pylist() == [99]


def test_an_add_after_a_checkpoint_replaces_the_older_one(made):
    made.checkpoint(0, *START, add("a"), add("b")).commit(1, add("a", size=99))
    files = made.open().files.table
    assert dict(zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True)) == {"a": 99, "b": 10}


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_deletion_vector_makes_another_file_of_the_same_path(made, checkpoint):
    stats = {"numRecords": 10}
    first = (*START, add("a", stats), add("b", stats))
    made.checkpoint(0, *first) if checkpoint else made.commit(0, *first)
    made.commit(1, remove("a"), add("a", stats, deletionVector=vector(3)))
    made.commit(2, remove("a", deletionVector=vector(3)), add("a", stats, deletionVector=vector(4, offset=77)))
    files = made.open().files.table.sort_by("path")
    assert files.select(["path", "rows", "deleted_rows"]).to_pylist() == [
        {"path": "a", "rows": 6, "deleted_rows": 4},
        {"path": "b", "rows": 10, "deleted_rows": 0},
    ]
    assert made.open().details.deletion_vectors.to_pylist().count(None) == 1


def test_a_remove_of_another_deletion_vector_leaves_the_file(made):
    made.commit(0, *START, add("a", deletionVector=vector(3)))
    made.commit(1, remove("a", deletionVector=vector(3, offset=None)), remove("a"))
    assert made.paths() == ["a"]


def test_the_newest_of_every_small_action_wins(made):
    txn = {"txn": {"appId": "app", "version": 1}}
    domain = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
    gone = {"domainMetadata": {"domain": "e", "configuration": "1", "removed": False}}
    made.checkpoint(0, *START, txn, domain, gone)
    made.commit(1, {"txn": {"appId": "app", "version": 2}}, {"txn": {"appId": "other", "version": 7}})
    made.commit(2, {"domainMetadata": {"domain": "e", "configuration": "", "removed": True}})
    made.commit(3, metadata(field("id", "long"), field("name", "string"), comment="new"))
    details = made.open().details
    assert {name: txn["version"] for name, txn in details.transactions.items()} == {"app": 2, "other": 7}
    assert details.domains == {"d": "{}"}
    assert details.metadata.configuration == {"comment": "new"}
    assert [column.name for column in made.open().schema.fields] == ["id", "name"]
    assert [column.name for column in made.open(version=2).schema.fields] == ["id"]


def _vector(offset):
    return {} if offset is None else {"deletionVector": vector(1, offset=offset)}


def test_replay_agrees_with_a_replay_of_one_action_after_the_other(made):
    rng = random.Random(4)
    live: dict[tuple[str, int | None], int] = {}
    for version in range(40):
        actions = list(START) if version == 0 else []
        # One commit has at most one action for each file, and a version no path twice, whatever its vectors.
        for path in rng.sample([f"p{number}" for number in range(15)], rng.randrange(12)):
            here = next((key for key in live if key[0] == path), None)
            new = path, rng.choice([None, 1, 2])
            gone = here is not None and (here != new or rng.random() < 0.5)
            if gone and here is not None:
                del live[here]
                actions.append(remove(path, **_vector(here[1])))
            if here is None or (rng.random() < 0.6 and (here != new or not gone)):
                live[new] = rng.randrange(10**6)
                actions.append(add(path, size=live[new], **_vector(new[1])))
            rng.shuffle(actions)
        made.commit(version, *actions)
    files = made.open()
    offsets = [None if dv is None else dv["offset"] for dv in files.details.deletion_vectors.to_pylist()]
    keys = zip(files.files.table["path"].to_pylist(), offsets, strict=True)
    assert dict(zip(keys, files.files.table["bytes"].to_pylist(), strict=True)) == live


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_log_without_protocol_or_metadata_says_so(made, missing):
    made.commit(0, *(action for action in START if missing not in action), add("a"))
    with pytest.raises(CorruptTableError, match=f"the log has no {missing} action up to version 0"):
        made.open()


BROKEN_LINES = {
    '{"add":{"path":"b",': r"0001\.json, line 2: the action is not JSON",
    '{"add":{"size":5}}': r"0001\.json, line 2: a file action has no path",
    '{"add":{"path":"b","size":"big"}}': "line 2: size is not an integer",
    '{"add":{"path":"b","size":1.5}}': "line 2: size is not an integer",
    '{"add":{"path":"b","stats":{}}}': "line 2: stats is not a string",
    '{"add":{"path":"b","deletionVector":"x"}}': "line 2: deletionVector is not a JSON object",
    "[1]": "line 2: the action is not a JSON object",
    "nonsense": "line 2: the action is not JSON",
    '{"x":' + "[" * 100_000: "line 2: the action is not JSON",
}


@pytest.mark.parametrize("line", BROKEN_LINES, ids=lambda line: line[:40])
def test_a_broken_line_is_named(made, line):
    made.commit(0, *START, add("a")).commit(1)
    (made.log / f"{1:020}.json").write_text(f'{{"commitInfo":{{}}}}\n{line}\n')
    with pytest.raises(CorruptTableError, match=BROKEN_LINES[line]):
        made.open()


def test_invalid_utf8_is_named(made):
    made.commit(0, *START)
    (made.log / f"{1:020}.json").write_bytes(b'{"add":{"path":"\xff","size":1}}\n')
    with pytest.raises(CorruptTableError, match="the byte 16 is not valid UTF-8"):
        made.open()


def test_spaces_blank_lines_and_unknown_actions_do_no_harm(made):
    made.commit(0, *START)
    lines = [
        '{ "add" : { "path" : "ü b" , "size" : 7 } }',
        "",
        '{"newAction":{"a":[1]}}',
        '  {"remove": {"path": "zz"}}\r',
    ]
    (made.log / f"{1:020}.json").write_text("\n".join(lines))
    assert made.commit(2, add("c"), {"cdc": {"path": "d"}}).paths() == ["c", "ü b"]


def test_an_empty_commit_changes_nothing(made):
    made.commit(0, *START, add("a"))
    (made.log / f"{1:020}.json").write_bytes(b"")
    assert made.paths() == ["a"]
    assert made.open().version == 1


def test_a_line_longer_than_a_block_is_read(made):
    path = "x" * (5 * 2**20)
    made.commit(0, *START, add(path), add("b"))
    assert made.paths() == ["b", path]
