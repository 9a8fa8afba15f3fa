"""JSON of a table or a file: read with limits on size and depth, and edited as text, byte for byte."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson

from geolake_nb.errors import GeolakeError, JsonError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "MAX_DEPTH",
    "MAX_LENGTH",
    "MAX_VALUES",
    "JsonPath",
    "check_depth",
    "edited",
    "elements",
    "expect",
    "has_too_many_values",
    "load_json",
    "member",
    "with_member",
    "without_member",
]

MAX_LENGTH = 64 * 1024 * 1024
"""Characters; the schema of a table with a hundred thousand columns has some twenty million."""

MAX_DEPTH = 200
"""Objects and arrays inside each other; a struct in a struct takes three levels in a Delta schema."""

MAX_VALUES = 4_000_000
"""Of three letters each becomes a hundred bytes; metadata as long as is read has a comma in every fifty."""

_MAX_DIGITS = 1_000


def load_json(
    text: str | bytes,
    *,
    what: str,
    where: str | None = None,
    error: type[GeolakeError] = SchemaError,
    max_length: int = MAX_LENGTH,
) -> Any:
    """The value that the text holds; `what` names it in errors.

    >>> load_json('{"a": [1, null]}', what="geo metadata")
    {'a': [1, None]}
    >>> load_json("[" * 100_000, what="geo metadata")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: geo metadata is nested too deeply
    """
    if len(text) > max_length:
        raise error(f"{what} is longer than {max_length} characters", where=where)
    if has_too_many_values(text):
        raise error(f"{what} has more than {MAX_VALUES:,} values", where=where)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer)
        if _may_escape_surrogate(text):
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded
    except RecursionError:
        raise error(f"{what} is nested too deeply", where=where) from None
    except ValueError as problem:
        raise error(f"{what} is not JSON: {problem}", where=where) from None
    check_depth(value, what=what, where=where, error=error)
    return value


def has_too_many_values(text: str | bytes) -> bool:
    """Whether the values in the text might be too many to hold; commas in strings are taken for such between values.

    >>> has_too_many_values("[1, 2]"), has_too_many_values(b"[" + b"[]," * 4_000_000 + b"[]]")
    (False, True)
    """
    if len(text) <= MAX_VALUES:
        return False
    if isinstance(text, str):
        return sum(text.count(mark) for mark in "[{,") > MAX_VALUES
    return sum(text.count(mark) for mark in (b"[", b"{", b",")) > MAX_VALUES


def check_depth(value: Any, *, what: str, where: str | None = None, error: type[GeolakeError] = SchemaError) -> None:
    """Refuse a value that is nested more deeply than code that walks it should follow.

    >>> check_depth({"a": [None]}, what="crs")
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise error(f"{what} is nested too deeply", where=where)


def expect(value: Any, key: str, kind: Any, where: str) -> Any:
    """The member of an object, which must exist and be of that type; a boolean does not count as an integer.

    >>> expect({"id": 1}, "id", int, "schema")
    1
    >>> expect({"id": True}, "id", int, "schema")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: schema: 'id' is a bool, not a int
    """
    if not isinstance(value, dict):
        raise SchemaError(f"expected a JSON object, got a {type(value).__name__}", where=where)
    if key not in value:
        raise SchemaError(f"{key!r} is missing", where=where)
    member = value[key]
    if not isinstance(member, kind) or (kind is int and isinstance(member, bool)):
        wanted = f", not a {kind.__name__}" if isinstance(kind, type) else ""
        raise SchemaError(f"{key!r} is a {type(member).__name__}{wanted}", where=where)
    return member


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:20]} is beyond the range of a double")
    return number


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits")
    return int(digits)


def _may_escape_surrogate(text: str | bytes) -> bool:
    return "\\ud" in text.lower() if isinstance(text, str) else b"\\ud" in text.lower()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected a JSON number, got {name}")


JsonPath = tuple[str, ...]
"""The keys that lead from the outer object to a member."""

# A change is the text of a value, `None` to remove the member, or the changes inside an object.
_Changes = dict[str, "str | _Changes | None"]
_Edit = tuple[int, int, str]

_after_space = re.compile(r"[ \t\n\r]*").match


def member(text: str, path: JsonPath) -> str | None:
    r"""The text of the value at the path, `None` where there is none.

    >>> member('{"a": {"b": 1.50}, "c": null}', ("a", "b")), member('{"c": null}', ("c",))
    ('1.50', 'null')
    >>> member("{}", ("a",)) is None, member('{"a": 1}', ("a", "b")) is None
    (True, True)
    """
    _require_few_values(text)
    start = _skip(text, 0)
    end = None
    for key in path:
        if text[start : start + 1] != "{":
            break
        members, stop = _members(text, start)
        if end is None:
            _require_end(text, stop)
        _refuse_twice(members, (key,))
        span = next((where for name, where in members if name == key), None)
        if span is None:
            return None
        _, start, end = span
    else:
        if end is not None:
            return text[start:end]
    if end is None:
        start, end = _value(text, start)
        _require_end(text, end)
    return None if path else text[start:end]


def elements(text: str) -> list[str]:
    """The texts of the values in an array.

    >>> elements('[1.50, {"a": [2, 3]} ,null]'), elements("[ ]")
    (['1.50', '{"a": [2, 3]}', 'null'], [])
    """
    start = _skip(text, 0)
    if text[start : start + 1] != "[":
        _value(text, start)  # invalid JSON raises its own error
        raise JsonError("expected a JSON array")
    items: list[str] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        _require_end(text, at + 1)
        return items
    while True:
        first, end = _value(text, at)
        items.append(text[first:end])
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark == "]":
            _require_end(text, at + 1)
            return items
        if mark != ",":
            raise _broken(at, "a comma is missing")
        at += 1


def with_member(text: str, path: JsonPath, value: str) -> str:
    """The object with that value, itself JSON text, at the path; objects on the way are made where there are none.

    >>> with_member('{"a": {"x": 1.0}}', ("a", "x"), "2"), with_member('{ "a":1 }', ("b", "c"), '"d"')
    ('{"a": {"x": 2}}', '{ "a":1,"b":{"c":"d"} }')
    >>> with_member("{}", ("a",), "null")
    '{"a":null}'
    """
    return edited(text, {path: value})


def without_member(text: str, path: JsonPath) -> str:
    """The object without the member at the path, the same text where there is none.

    >>> without_member('{"a":1, "b":2}', ("a",)), without_member('{"a":1, "b":2}', ("b",))
    ('{"b":2}', '{"a":1}')
    >>> without_member("{}", ("a", "b"))
    '{}'
    """
    return edited(text, {path: None})


def edited(text: str, changes: Mapping[JsonPath, str | None]) -> str:
    """The object after several changes, in one pass: a value by its text, or `None` to remove the member.

    A duplicate key on a path is an error: which of the two counts is ambiguous.

    >>> edited('{"min":{"g":1},"max":{}}', {("min", "g"): None, ("max", "g"): "[2]", ("n",): "3"})
    '{"min":{},"max":{"g":[2]},"n":3}'
    >>> edited('{"a":1,"a":2}', {("a",): "3"})
    Traceback (most recent call last):
    geolake_nb.errors.JsonError: duplicate key 'a' in a JSON object
    """
    _require_few_values(text)
    edits = _plain_edits(text, changes)
    if edits is None:
        edits = _edits(text, changes)
    parts: list[str] = []
    done = 0
    for first, last, new in edits:
        parts += (text[done:first], new)
        done = last
    return "".join([*parts, text[done:]])


def _edits(text: str, changes: Mapping[JsonPath, str | None]) -> list[_Edit]:
    """What has to be replaced where, in order."""
    wanted: _Changes = {}
    for path, value in changes.items():
        _note(wanted, path, value)
    start = _skip(text, 0)
    if text[start : start + 1] != "{":
        _value(text, start)  # invalid JSON raises its own error
        raise JsonError("expected a JSON object")
    edits: list[_Edit] = []
    end = _edit_object(text, start, wanted, edits)
    _require_end(text, end)
    return edits


def _plain_edits(text: str, changes: Mapping[JsonPath, str | None]) -> list[_Edit] | None:
    """The same for the statistics of a usual file, several times faster; `None` where the full parser is needed.

    Each key must be spelled in one way and stand once in its surroundings, so that finding its text finds it.
    """
    if "\\u" in text:
        return None
    try:
        root = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(root, dict) or not root:
        return None
    outer = (0, len(text), root)
    inside: dict[str, _Span | None] = {}
    made: dict[str, list[str]] = {}
    edits: list[_Edit] = []
    for path, value in changes.items():
        if value is None or not 1 <= len(path) <= 2 or not _PLAIN_KEY(path[-1]):
            return None
        try:
            orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        span: _Span | None = outer
        if len(path) == 2:
            if path[0] not in root and _PLAIN_KEY(path[0]):
                made.setdefault(path[0], []).append(f'"{path[1]}":{value}')
                continue
            if path[0] not in inside:
                inside[path[0]] = _plain_member(text, path[0], outer)
            span = inside[path[0]]
        if span is None or not isinstance(span[2], dict) or not span[2]:
            return None
        if path[-1] in span[2]:
            old = _plain_member(text, path[-1], span)
            if old is None:
                return None
            edits.append((old[0], old[1], value))
        else:
            end = len(text[: text.rindex("}", span[0], span[1])].rstrip())
            edits.append((end, end, f',"{path[-1]}":{value}'))
    if made:
        new = "".join(f',"{key}":{{{",".join(members)}}}' for key, members in made.items())
        end = len(text[: text.rindex("}")].rstrip())
        edits.append((end, end, new))
    edits.sort()
    apart = all(edit[1] < next_[0] for edit, next_ in pairwise(edits))
    return edits if apart else None


_Span = tuple[int, int, Any]


def _plain_member(text: str, key: str, span: _Span) -> _Span | None:
    """Where the value of the only member of that name starts and ends, and what it holds."""
    start, end, parsed = span
    quoted = f'"{key}"'
    at = text.find(quoted, start, end)
    if key not in parsed or not _PLAIN_KEY(key) or at < 0 or text[at - 1] == "\\":
        return None
    colon = _skip(text, at + len(quoted))
    if text[colon] != ":" or text.find(quoted, colon, end) >= 0:
        return None
    return *_value(text, colon + 1), parsed[key]


def _note(wanted: _Changes, path: JsonPath, value: str | None) -> None:
    if not path:
        raise JsonError("a path into a JSON object has at least one key")
    if value is not None:
        _require_end(value, _value(value, 0)[1])
    for key in path[:-1]:
        inner = wanted.setdefault(key, {})
        if not isinstance(inner, dict):
            raise JsonError(f"conflicting edits of the key {key!r} and of its members")
        wanted = inner
    if path[-1] in wanted:
        raise JsonError(f"conflicting edits of the key {path[-1]!r}")
    wanted[path[-1]] = value


def _edit_object(text: str, start: int, wanted: _Changes, edits: list[_Edit]) -> int:
    """Note what has to be replaced in the object that starts there; its end."""
    members, end = _members(text, start)
    _refuse_twice(members, wanted)
    missing = dict(wanted)
    left = len(members)
    removed_to = -1
    last_kept: int | None = None
    for index, (key, (begin, value, stop)) in enumerate(members):
        change = missing.pop(key, _ABSENT)
        if change is None:
            left -= 1
            if last_kept is not None:
                edits.append((max(last_kept, removed_to), stop, ""))
            elif index + 1 < len(members):
                edits.append((begin, members[index + 1][1][0], ""))
            else:
                edits.append((begin, stop, ""))
            removed_to = stop
            continue
        last_kept = stop
        if isinstance(change, str):
            edits.append((value, stop, change))
        elif isinstance(change, dict):
            _edit_value(text, (key, value, stop), change, edits)
    new = ",".join(made for made in (_made(key, change) for key, change in missing.items()) if made)
    if new:
        at = members[-1][1][2] if members else _skip(text, start + 1)
        edits.append((at, at, f",{new}" if left else new))
    return end


def _edit_value(text: str, member: tuple[str, int, int], change: _Changes, edits: list[_Edit]) -> None:
    key, start, stop = member
    if text[start] == "{":
        _edit_object(text, start, change, edits)
        return
    made = _object(change)
    if made is None:
        return  # there is nothing to remove from a null
    if text[start:stop] != "null":
        raise JsonError(f"expected the value of {key!r} to be a JSON object")
    edits.append((start, stop, made))


def _made(key: str, change: str | _Changes | None) -> str | None:
    value = _object(change) if isinstance(change, dict) else change
    return None if value is None else f"{json.dumps(key, ensure_ascii=False)}:{value}"


def _object(changes: _Changes) -> str | None:
    """A new object with the values among the changes, `None` if all of them only remove."""
    made = [member for member in (_made(key, change) for key, change in changes.items()) if member]
    return f"{{{','.join(made)}}}" if made else None


_Member = tuple[str, tuple[int, int, int]]


def _members(text: str, start: int) -> tuple[list[_Member], int]:
    """Keys with where each member starts, its value starts and it ends; and where the object ends."""
    members: list[_Member] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        return members, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise _broken(at, "a key is missing")
        key, stop = _decode(text, at)
        colon = _skip(text, stop)
        if text[colon : colon + 1] != ":":
            raise _broken(colon, "a colon is missing")
        value, end = _value(text, colon + 1)
        members.append((key, (at, value, end)))
        at = _skip(text, end)
        mark = text[at : at + 1]
        if mark == "}":
            return members, at + 1
        if mark != ",":
            raise _broken(at, "a comma is missing")
        at = _skip(text, at + 1)


def _refuse_twice(members: list[_Member], wanted: Collection[str]) -> None:
    keys = [key for key, _ in members if key in wanted]
    if len(set(keys)) < len(keys):
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise JsonError(f"duplicate key {twice[:60]!r} in a JSON object")


def _value(text: str, at: int) -> tuple[int, int]:
    """Where the value after the white space starts and ends."""
    start = _skip(text, at)
    return start, _decode(text, start)[1]


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise JsonError("the JSON text is nested too deeply") from None
    except ValueError as problem:
        raise JsonError(f"the text is not JSON: {problem}") from None


def _skip(text: str, at: int) -> int:
    match = _after_space(text, at)
    return at if match is None else match.end()


def _require_few_values(text: str) -> None:
    if has_too_many_values(text):
        raise JsonError(f"the JSON text has more than {MAX_VALUES:,} values")


def _require_end(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise _broken(at, "unexpected text after the end")


def _broken(at: int, what: str) -> JsonError:
    return JsonError(f"the text is not JSON: {what} at character {at}")


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_ABSENT: Any = object()
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
