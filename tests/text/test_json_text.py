from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import JsonError
from geolake_nb.text import json_text
from geolake_nb.text.json_text import edited, member, with_member, without_member
from tests.strategies import JSON_KEYS, json_objects, json_values

PATHS = st.lists(JSON_KEYS, min_size=1, max_size=3).map(tuple)


def value_at(value, path):
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def put(value: dict, path: tuple[str, ...], new) -> dict:
    """The plain meaning of `with_member`."""
    inner = value.get(path[0])
    child = new if len(path) == 1 else put(inner if isinstance(inner, dict) else {}, path[1:], new)
    return value | {path[0]: child}


def dropped(value, path: tuple[str, ...]):
    if not isinstance(value, dict) or path[0] not in value:
        return value
    if len(path) == 1:
        return {key: member for key, member in value.items() if key != path[0]}
    return value | {path[0]: dropped(value[path[0]], path[1:])}


@settings(max_examples=150)
@given(json_objects(), PATHS)
def test_a_member_is_a_slice_of_the_text(text, path):
    result = member(text, path)
    if result is None:
        assert value_at(json.loads(text), path) is None
    else:
        assert result in text
        assert json.loads(result) == value_at(json.loads(text), path)


@settings(max_examples=150)
@given(json_objects(), PATHS, json_values())
def test_a_value_is_put_in_and_nothing_else_changes(text, path, value):
    try:
        new = with_member(text, path, value)
    except JsonError:
        parents = [value_at(json.loads(text), path[:depth]) for depth in range(1, len(path))]
        assert any(parent is not None and not isinstance(parent, dict) for parent in parents)
        return
    assert json.loads(new) == put(json.loads(text), path, json.loads(value))
    assert member(new, path) == value
    # Taking the change back gives the text as it was, byte for byte.
    for depth in range(1, len(path) + 1):
        before = member(text, path[:depth])
        if before is None:
            assert without_member(new, path[:depth]) == text
            break
        if depth == len(path) or before == "null":
            assert with_member(new, path[:depth], before) == text
            break


@settings(max_examples=150)
@given(json_objects(), PATHS)
def test_a_member_is_taken_out_and_nothing_else_changes(text, path):
    new = without_member(text, path)
    assert json.loads(new) == dropped(json.loads(text), path)
    if member(text, path) is None:
        assert new == text
    else:
        assert len(new) < len(text)
        assert list(keys_in(new)) == list(keys_in(without_key(text, path)))


def keys_in(text: str):
    return json.loads(text, object_pairs_hook=lambda pairs: [(key, value) for key, value in pairs])


def without_key(text: str, path: tuple[str, ...]) -> str:
    return json.dumps(dropped(json.loads(text), path))


@settings(max_examples=150)
@given(json_objects(depth=1), st.dictionaries(PATHS, st.one_of(st.none(), json_values(1)), max_size=4))
def test_many_changes_are_the_changes_one_by_one(text, changes):
    try:
        at_once = edited(text, changes)
    except JsonError:
        return
    one_by_one = text
    for path, value in changes.items():
        one_by_one = edited(one_by_one, {path: value})
    assert json.loads(at_once) == json.loads(one_by_one)


@settings(max_examples=150)
@given(json_objects(depth=2), st.dictionaries(PATHS, json_values(1), min_size=1, max_size=3))
def test_the_fast_path_finds_the_same_spans_as_the_slow_one(text, changes):
    quick = json_text._plain_edits(text, changes)
    if quick is not None:
        done = edited(text, changes)
        edits = json_text._edits(text, changes)
        slow = text
        for first, last, new in reversed(edits):
            slow = slow[:first] + new + slow[last:]
        assert done == slow


def test_the_statistics_of_a_usual_file_go_the_quick_way():
    stats = '{"numRecords":3,"minValues":{"id":1.10},"maxValues":{"id":2},"nullCount":{"id":0,"geom":0}}'
    changes = {("minValues", "geom"): '"POINT(1 2)"', ("maxValues", "geom"): '"POINT(3 4)"', ("nullCount", "geom"): "1"}
    assert json_text._plain_edits(stats, changes) is not None
    assert edited(stats, changes) == (
        '{"numRecords":3,"minValues":{"id":1.10,"geom":"POINT(1 2)"},'
        '"maxValues":{"id":2,"geom":"POINT(3 4)"},"nullCount":{"id":0,"geom":1}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1,}',
        '{"a":1}}',
        '{"a":1} x',
        '{"a":NaN}',
        '{"a":-Infinity}',
        "{'a':1}",
        "{a:1}",
        '{"a" 1}',
        '{"a":1 "b":2}',
        '{"a":"\n"}',
        '{"a":01}',
        '{"a":"\\x"}',
        "[1]",
        "null",
        '{"a":' + "9" * 10_000 + "}",
        '{"b":' + "[" * 100_000,
        '{"b":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
    ],
    ids=lambda text: text[:20],
)
def test_what_cannot_be_edited_is_a_typed_error(text):
    with pytest.raises(JsonError):
        edited(text, {("a",): "1"})
    with pytest.raises(JsonError):
        edited(text, {("a",): None})
    if text not in ("[1]", "null"):
        with pytest.raises(JsonError):
            member(text, ("a",))


@pytest.mark.parametrize("value", ["", "x", "1,", '"a":1', "NaN", "1}"])
def test_a_new_value_has_to_be_json_itself(value):
    with pytest.raises(JsonError):
        with_member('{"a":1}', ("a",), value)


def test_changes_that_contradict_each_other_are_refused():
    with pytest.raises(JsonError, match="of its members"):
        edited("{}", {("a",): "1", ("a", "b"): "2"})
    with pytest.raises(JsonError, match="at least one key"):
        edited("{}", {(): "1"})


def test_a_key_inside_a_string_is_no_key():
    text = '{"x":"\\"minValues\\":{}", "s":"minValues", "minValues":{"a":1}}'
    assert with_member(text, ("minValues", "b"), "2") == text[:-2] + ',"b":2}}'
    text = '{"x":"\\\\\\"minValues","y":{"minValues":5},"minValues":{"a":1}}'
    assert json.loads(with_member(text, ("minValues", "b"), "2"))["minValues"] == {"a": 1, "b": 2}
