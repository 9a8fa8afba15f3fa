"""A file's `add` action with other statistics of its geo columns, everything else byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from geolake_nb.errors import JsonError
from geolake_nb.formats.delta.bounds_tag import BOUNDS_TAG, retagged
from geolake_nb.text.json_splice import edited, member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.changes.repair.scan_job import NewStats
    from geolake_nb.model.types import GeographyType
    from geolake_nb.text.json_splice import JsonPath

__all__ = ["with_updated_stats"]


def with_updated_stats(
    add: str,
    columns: Mapping[tuple[str, ...], NewStats],
    *,
    rows: int | None,
    has_vector: bool,
    counted: bool = False,
    geographies: Mapping[tuple[str, ...], GeographyType] | None = None,
) -> str | None:
    """The updated `add` action of a file, `None` if its statistics are already up to date.

    `add` is the JSON of the object inside the action, `columns` go by the names in the statistics; `rows` are those
    of the file, for statistics without a count; `counted` means that they have one. `geographies` are those of the
    columns whose bounds get a tag that they include the edges.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.changes.repair.scan_job import NewStats
    >>> add = '{"path":"a","dataChange":true,"stats":"{\\\\"numRecords\\\\":2}","tags":{"x":"1.50"}}'
    >>> with_updated_stats(add, {("g",): NewStats(Box(0, 1, 2, 3), 0)}, rows=2, has_vector=False)
    '{"add":{"path":"a","dataChange":false,"stats":"{...\\\\"g\\\\":\\\\"POINT(0 1)\\\\"}...,"tags":{"x":"1.50"}}}'
    >>> with_updated_stats(add, {("g",): NewStats(None, None)}, rows=2, has_vector=False) is None
    True
    """
    stored = _stats(add)
    before = stored if isinstance(stored, str) and stored.strip() else "{}"
    try:
        after = edited(before, _changes(before, columns, None if counted else rows, has_vector=has_vector))
    except JsonError:
        # Statistics that are not a JSON object, or have a duplicate key, are ambiguous: they are replaced.
        after = edited("{}", _changes("{}", columns, rows, has_vector=has_vector))
    changes: dict[JsonPath, str | None] = {}
    if after != before:
        changes["stats",] = json.dumps(after, ensure_ascii=False)
    stated = {path: type_ for path, type_ in (geographies or {}).items() if path in columns}
    tag = _tag(add) if stated else None
    mark = retagged(tag, after, stated)
    if mark != tag:
        changes["tags", BOUNDS_TAG] = None if mark is None else json.dumps(mark, ensure_ascii=False)
    if not changes:
        return None
    changes["dataChange",] = "false"
    return f'{{"add":{edited(add, changes)}}}'


def _tag(add: str) -> str | None:
    text = member(add, ("tags", BOUNDS_TAG))
    value = None if text is None else json.loads(text)
    return value if isinstance(value, str) else None


def _stats(add: str) -> Any:
    try:
        return orjson.loads(add).get("stats")
    except orjson.JSONDecodeError:  # a number beyond 64 bits, for one
        text = member(add, ("stats",))
        return None if text is None else json.loads(text)


def _changes(
    stats: str, columns: Mapping[tuple[str, ...], NewStats], rows: int | None, *, has_vector: bool
) -> dict[JsonPath, str | None]:
    changes: dict[JsonPath, str | None] = {}
    if rows is not None and member(stats, ("numRecords",)) in (None, "null"):
        changes["numRecords",] = str(rows)
    if has_vector and any(new.box is not None or new.null_count is not None for new in columns.values()):
        # Delta, Per-file statistics: a range that counts deleted rows too is not tight.
        changes["tightBounds",] = "false"
    for path, new in columns.items():
        ends = new.ends
        changes["minValues", *path] = None if ends is None else json.dumps(ends[0])
        changes["maxValues", *path] = None if ends is None else json.dumps(ends[1])
        if new.null_count is not None:
            changes["nullCount", *path] = str(new.null_count)
    return changes
