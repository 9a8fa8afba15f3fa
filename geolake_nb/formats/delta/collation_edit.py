"""Collations set and dropped in the text of a Delta schema, where nothing else changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CollationError, SchemaError
from geolake_nb.model.collation import COLLATIONS_KEY, Collation
from geolake_nb.model.schema import join_path
from geolake_nb.text.json_splice import edited, member, with_member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.text.json_splice import JsonPath

__all__ = ["with_collations"]

_Path = tuple[str, ...]
_Wanted = dict[_Path, "tuple[_Path, Collation | None]"]
"""By what is left of the path: the whole path and the collation."""

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_INSIDE = {"array": {"element": "elementType"}, "map": {"key": "keyType", "value": "valueType"}}


def with_collations(schema: str, changes: Mapping[_Path, Collation | None]) -> str:
    """The `schemaString` with these collations; `None`, or the default one, drops the current one.

    Paths have `element`, `key` and `value` for what is inside lists and maps. An identifier of the
    same collation keeps its spelling.

    >>> tags = '{"type":"array","elementType":"string","containsNull":true}'
    >>> text = '{"type":"struct","fields":[{"name":"tags","type":%s,"nullable":true,"metadata":{"x":1.50}}]}' % tags
    >>> after = with_collations(text, {("tags", "element"): Collation("icu", "de_CI")})
    >>> after == text.replace("1.50", '1.50,"__COLLATIONS":{"tags.element":"icu.de_CI"}')
    True
    >>> with_collations(after, {("tags", "element"): None}) == text, with_collations(text, {}) == text
    (True, True)
    """
    wanted: _Wanted = {
        path: (path, None if collation is None or collation.is_default else collation.unversioned())
        for path, collation in changes.items()
    }
    return _in_struct(schema, wanted) if wanted else schema


def _in_struct(text: str, wanted: _Wanted) -> str:
    """The struct with the changes whose paths start at its fields."""
    fields = member(text, ("fields",)) or "[]"
    left = dict(wanted)
    parts: list[str] = []
    done = 0
    for start, end in _elements(fields):
        field = fields[start:end]
        name = _load(member(field, ("name",)))
        own = {path: left.pop(path) for path in list(left) if path[:1] == (name,)}
        if own:
            changed = _in_field(field, name, {path[1:]: change for path, change in own.items()})
            parts += (fields[done:start], changed)
            done = end
    for whole, _ in left.values():
        raise SchemaError(f"no string {join_path(whole)!r}")
    return with_member(text, ("fields",), "".join([*parts, fields[done:]]))


def _in_field(text: str, name: str, wanted: _Wanted) -> str:
    strings: dict[str, Collation | None] = {}
    type_ = member(text, ("type",)) or "null"
    after = _in_type(type_, wanted, "", strings)
    if after != type_:
        text = with_member(text, ("type",), after)
    return _in_metadata(text, name, strings) if strings else text


def _in_type(text: str, wanted: _Wanted, suffix: str, strings: dict[str, Collation | None]) -> str:
    """The type with the changes inside its structs; those of strings that have this field as their nearest one go
    to `strings`, by what follows its name in their key."""
    kind = _load(member(text, ("type",))) if text.startswith("{") else _load(text)
    if kind == "struct":
        return _in_struct(text, wanted)
    for whole, collation in [change for path, change in wanted.items() if not path]:
        if kind != "string":
            raise SchemaError("expected a string column: only strings have a collation", where=join_path(whole))
        strings[suffix] = collation
    for inside, key in _INSIDE.get(kind, {}).items():
        own = {path[1:]: change for path, change in wanted.items() if path[:1] == (inside,)}
        before = member(text, (key,)) or "null"
        after = _in_type(before, own, f"{suffix}.{inside}", strings) if own else before
        if after != before:
            text = with_member(text, (key,), after)
    known = {"", *_INSIDE.get(kind, {})}
    for whole, _ in [change for path, change in wanted.items() if (path[0] if path else "") not in known]:
        raise SchemaError(f"no string {join_path(whole)!r}")
    return text


def _in_metadata(text: str, name: str, strings: Mapping[str, Collation | None]) -> str:
    stored = _load(member(text, ("metadata", COLLATIONS_KEY)))
    physical = _load(member(text, ("metadata", _PHYSICAL_NAME)))
    known: dict[str, Any] = stored if isinstance(stored, dict) else {}
    left = dict(known)
    changes: dict[JsonPath, str | None] = {}
    for suffix, collation in strings.items():
        key = name + suffix
        # A key may have been written with the physical name, and would take effect again.
        other = physical + suffix if isinstance(physical, str) and physical != name else None
        if other in left:
            changes["metadata", COLLATIONS_KEY, other] = None
            del left[other]
        if collation is None:
            changes["metadata", COLLATIONS_KEY, key] = None
            left.pop(key, None)
        elif _read(known.get(key)) != collation:
            changes["metadata", COLLATIONS_KEY, key] = json.dumps(str(collation), ensure_ascii=False)
            left[key] = str(collation)
    if not left:
        return edited(text, {("metadata", COLLATIONS_KEY): None}) if stored is not None else text
    if not isinstance(stored, dict):
        # Anything but an object holds nothing.
        whole = json.dumps(left, ensure_ascii=False, separators=(",", ":"))
        return with_member(text, ("metadata", COLLATIONS_KEY), whole)
    return edited(text, changes)


def _read(identifier: Any) -> Collation | None:
    try:
        return Collation.parse(identifier) if isinstance(identifier, str) else None
    except CollationError:
        return None


def _load(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _elements(text: str) -> list[tuple[int, int]]:
    """Where each element of an array that is JSON starts and ends."""
    decoder = json.JSONDecoder()
    spans: list[tuple[int, int]] = []
    at = 1
    while True:
        while text[at] in " \t\n\r,":
            at += 1
        if text[at] == "]":
            return spans
        _, end = decoder.raw_decode(text, at)
        spans.append((at, end))
        at = end
