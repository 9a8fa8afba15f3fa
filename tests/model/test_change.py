"""A change that is decided and not made: its hash, its text, its JSON, and the irreversible_steps that need consent."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest

from geolake_nb.api.plan import change_dict, change_text
from geolake_nb.errors import RefusedError
from geolake_nb.formats.delta.add_action import remove_action
from geolake_nb.formats.registry import DELTA
from geolake_nb.model.change import Change, IrreversibleStep, Reads, Verb
from geolake_nb.scan.engines import ENGINE_FACTS


@dataclass(frozen=True)
class Work:
    files: tuple[str, ...]

    def to_dict(self):
        return {"files": list(self.files)}


CHANGE = Change(
    Verb.REPAIR,
    DELTA,
    "/lake/roads",
    7,
    actions=tuple(json.dumps({"add": {"path": f"{number}.parquet", "stats": "x" * 500}}) for number in range(9)),
    job=Work(("a",)),
    notes=("Nine files are updated, for a reason that takes more than a hundred columns to explain in full, " * 2,),
    reads=Reads(1200, 3_000_000),
    engines=ENGINE_FACTS[:2],
    parameters={"columns": '["geom"]'},
)


def test_the_hash_is_of_all_that_is_done():
    others = [
        replace(CHANGE, verb=Verb.UNDO),
        replace(CHANGE, base_version=8),
        replace(CHANGE, actions=CHANGE.actions[:-1]),
        replace(CHANGE, actions=(*CHANGE.actions[:-2], CHANGE.actions[-1], CHANGE.actions[-2])),
        replace(CHANGE, job=Work(("b",))),
        replace(CHANGE, job=None),
        replace(CHANGE, parameters={}),
    ]
    hashes = {change.hash for change in (CHANGE, *others)}
    assert len(hashes) == len(others) + 1
    assert all(len(digest) == 12 and int(digest, 16) >= 0 for digest in hashes)


def test_the_hash_is_not_of_the_words_nor_of_the_time():
    assert replace(CHANGE, notes=(), reads=Reads(), engines=(), metrics={"files": 1}).hash == CHANGE.hash
    removes = [remove_action('{"path":"a\\"b"}', data_change=True, deletion_timestamp=time) for time in (1, 22)]
    first, other = (replace(CHANGE, actions=(action,)) for action in removes)
    assert first.hash == other.hash
    # A time that stands in the path is a part of it.
    paths = [f'{{"path":"x\\",\\"deletionTimestamp\\":{time}"}}' for time in (1, 22)]
    first, other = (
        replace(CHANGE, actions=(remove_action(path, data_change=True, deletion_timestamp=5),)) for path in paths
    )
    assert first.hash != other.hash


def test_a_door_needs_consent_by_its_name():
    kernel = IrreversibleStep("collations", "Only Delta Kernel can write the table afterwards.")
    change = replace(CHANGE, irreversible_steps=(kernel, IrreversibleStep("b", "So it is.")))
    change.require_consent(["b", "collations"])
    with pytest.raises(RefusedError, match=r"Only Delta Kernel.*--consent collations"):
        change.require_consent(["b"])
    with pytest.raises(RefusedError, match="--consent b"):
        change.require_consent({"collations"})


def test_the_text_fits_a_terminal_and_shows_the_first_actions():
    text = change_text(replace(CHANGE, irreversible_steps=(IrreversibleStep("c", "It stays. " * 20),)))
    lines = text.splitlines()
    assert lines[0] == f"repair /lake/roads: plan {CHANGE.hash} on version 7"
    assert all(len(line) <= 100 for line in lines if "{" not in line)
    assert "1,200 files" in text
    assert "actions    9, the first 5:" in text
    assert sum('"path"' in line for line in lines) == 5
    assert "Confirm with --consent c." in " ".join(text.split())
    assert "Delta Kernel (Java) 4.4" in text


def test_nothing_to_do_is_said():
    nothing = Change(Verb.REPAIR, DELTA, "/t", None)
    assert nothing.is_empty
    assert change_text(nothing).splitlines()[1:] == ["There is nothing to do."]
    assert "on a new table" in change_text(nothing)


def test_text_of_a_table_cannot_steer_the_terminal():
    nasty = replace(CHANGE, notes=("a\x1b[2Jb",), actions=('{"add":{"path":"\x1b[2J"}}',), location="/t\x1b[2J")
    assert "\x1b" not in change_text(nasty)


def test_the_dict_is_plain_json_with_every_action():
    plain = change_dict(CHANGE)
    assert json.loads(json.dumps(plain)) == plain
    assert len(plain["actions"]) == 9
    assert plain["job"] == {"files": ["a"]}
    assert change_dict(replace(CHANGE, job=None))["job"] is None
