"""The `add` action of a file with other statistics or tags, everything else byte for byte, and its `remove`.

A log does not specify how its writer bounds a geography, and many use the box of the vertices. The tag repeats the
bounds that this package wrote: if a writer copies the tag and states other bounds, the two differ and it is ignored.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import JsonError
from geolake_nb.formats.delta.stats_json import Leaf, load_stats, read_leaves
from geolake_nb.model.collation_stats import StringRange, collated_range, collations_in_stats, with_collated_range
from geolake_nb.model.schema import type_name
from geolake_nb.text.json_text import edited, member

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from geolake_nb.changes.repair.bound_sources import NewStats
    from geolake_nb.model.collation import Collation
    from geolake_nb.model.types import GeographyType
    from geolake_nb.scan.value_scan import CollatedString
    from geolake_nb.text.json_text import JsonPath

__all__ = [
    "BOUNDS_TAG",
    "TAGS",
    "Ranges",
    "StatsEdit",
    "collated_add",
    "lacks",
    "marked_bounds",
    "remove_action",
    "retagged",
    "stats_tag",
    "with_deletion_time",
    "with_updated_stats",
    "without_deletion_time",
]

BOUNDS_TAG = "geolake_nb.bounds"
"""The tag; its value is a JSON object, nested as the columns are in the statistics."""

TAGS = pa.struct([(BOUNDS_TAG, pa.string())])
"""The tag that is read from an `add`."""

_Path = tuple[str, ...]


def stats_tag(stats: str, geographies: Mapping[_Path, GeographyType]) -> str | None:
    """The value of the tag for statistics in which this package wrote all bounds of these columns; `None` if empty.

    >>> from geolake_nb.model.types import GeographyType
    >>> text = '{"minValues":{"g":"POINT(0 60)"},"maxValues":{"g":"POINT(90 68)"}}'
    >>> stats_tag(text, {("g",): GeographyType()})
    '{"g":"geography(OGC:CRS84, spherical) POINT(0 60) POINT(90 68)"}'
    """
    return retagged(None, stats, geographies)


def retagged(tag: str | None, stats: str, geographies: Mapping[_Path, GeographyType]) -> str | None:
    """The value of the tag after this package wrote or removed the bounds of these columns; `None` if empty.

    >>> from geolake_nb.model.types import GeographyType
    >>> retagged('{"a":"x","g":"y"}', "{}", {("g",): GeographyType()})
    '{"a":"x"}'
    """
    tree = dict(load_stats(tag) or {})
    stated = load_stats(stats) or {}
    for path, type_ in geographies.items():
        low, high = (_at(stated.get(end), path) for end in ("minValues", "maxValues"))
        both = isinstance(low, str) and isinstance(high, str)
        _put(tree, path, f"{type_name(type_)} {low} {high}" if both else None)
    return orjson.dumps(tree).decode() if tree else None


def marked_bounds(
    tags: pa.Array, path: _Path, type_: GeographyType, lows: pa.Array, highs: pa.Array
) -> NDArray[np.bool_]:
    """For which files the tag declares that these bounds cover the edges; `tags` are the values of the tag.

    >>> from geolake_nb.model.types import GeographyType
    >>> ends = pa.array(["POINT(0 60)"] * 2), pa.array(["POINT(90 68)", "POINT(90 60)"])
    >>> tag = '{"g":"geography(OGC:CRS84, spherical) POINT(0 60) POINT(90 68)"}'
    >>> marked_bounds(pa.array([tag, tag]), ("g",), GeographyType(), *ends).tolist()
    [True, False]
    """
    if tags.null_count == len(tags):
        return np.zeros(len(tags), np.bool_)
    leaf: Leaf = (path, pa.string())
    (marks,) = read_leaves(tags, [leaf])
    stated = pc.binary_join_element_wise(pa.scalar(type_name(type_)), lows, highs, " ")
    return np.asarray(pc.fill_null(pc.equal(marks, stated), False).to_numpy(zero_copy_only=False), np.bool_)


def _at(tree: Any, path: _Path) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _put(tree: dict[str, Any], path: _Path, mark: str | None) -> None:
    if len(path) == 1:
        if mark is None:
            tree.pop(path[0], None)
        else:
            tree[path[0]] = mark
        return
    child = tree.get(path[0])
    inner = dict(child) if isinstance(child, dict) else {}
    _put(inner, path[1:], mark)
    if inner:
        tree[path[0]] = inner
    else:
        tree.pop(path[0], None)


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
    >>> from geolake_nb.changes.repair.bound_sources import NewStats
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


Ranges = dict[tuple[str, ...], tuple[str | None, str | None]]
"""Of a file: the minimum and maximum string of columns, by their logical path."""

_COLLATED = "statsWithCollation"
_Physical = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatsEdit:
    """The changes to the collated statistics of every file."""

    columns: tuple[CollatedString, ...] = ()
    """Those to compute statistics for."""
    versions: tuple[tuple[Collation, str], ...] = ()
    """The version that they are computed by, for each collation of the columns."""
    unused: frozenset[Collation] = frozenset()
    """Collations that no column has any more: their statistics are removed, of every version."""
    dropped: frozenset[tuple[Collation, _Physical]] = frozenset()
    """Columns that no longer have a collation which others have: its statistics of the column are removed."""
    only_newest: bool = False
    """Whether statistics of other versions of the columns' collations are removed."""

    def version_of(self, collation: Collation) -> Collation:
        """The collation with the version that statistics are computed by."""
        version = next(version for known, version in self.versions if known == collation)
        return type(collation)(collation.provider, collation.name, version)


def collated_add(add: str, edit: StatsEdit, ranges: Ranges, *, data_change: bool = False) -> str | None:
    """The updated `add` action of a file, `None` if nothing changes or its statistics cannot be edited.

    `add` is the JSON of the object inside the action, `ranges` what was found in the file: a range that it has
    already under the same version is left as it is.

    >>> from geolake_nb.model.collation import Collation
    >>> from geolake_nb.scan.value_scan import CollatedString
    >>> de = Collation("icu", "de")
    >>> edit = StatsEdit((CollatedString(("n",), ("n",), None, de),), ((de, "78.3"),))
    >>> made = collated_add('{"path":"a","dataChange":true,"stats":"{}"}', edit, {("n",): ("ä", "Z")})
    >>> json.loads(json.loads(made)["add"]["stats"])
    {'statsWithCollation': {'icu.de.78.3': {'minValues': {'n': 'ä'}, 'maxValues': {'n': 'Z'}}}}
    >>> collated_add('{"path":"a","dataChange":true}', edit, {}) is None
    True
    """
    before = _stats_text(add)
    try:
        stored = _stored(before)
        after = _edited(before, stored, _sections(stored, edit, ranges), wide=_has_vector(add) and bool(ranges))
    except JsonError:
        # What is not a JSON object, or has a duplicate key, is ambiguous: it is left alone.
        return None
    if after == before:
        return None
    new = edited(add, {("stats",): _text(after), ("dataChange",): json.dumps(data_change)})
    return f'{{"add":{new}}}'


def lacks(add: str, edit: StatsEdit) -> bool:
    """Whether the file lacks the range of one of the columns under the wanted version.

    >>> lacks('{"path":"a"}', StatsEdit())
    False
    """
    try:
        stats = {_COLLATED: _stored(_stats_text(add))}
    except JsonError:
        return False
    return any(
        collated_range(stats, column.physical, edit.version_of(column.collation)) is None for column in edit.columns
    )


def _stats_text(add: str) -> str:
    text = member(add, ("stats",))
    stored = None if text is None else json.loads(text)
    return stored if isinstance(stored, str) and stored.strip() else "{}"


def _stored(stats: str) -> Mapping[str, Any]:
    text = member(stats, (_COLLATED,)) if _COLLATED in stats else None
    value = None if text is None else json.loads(text)
    return value if isinstance(value, dict) else {}


def _sections(stored: Mapping[str, Any], edit: StatsEdit, ranges: Ranges) -> Mapping[str, Any]:
    """The updated collated statistics."""
    stats: dict[str, Any] = {_COLLATED: stored}
    wanted = {edit.version_of(string.collation) for string in edit.columns}
    for present in collations_in_stats(stats):
        plain = present.unversioned()
        old = edit.only_newest and present not in wanted and plain in {version.unversioned() for version in wanted}
        if plain in edit.unused or old:
            stats[_COLLATED] = _without(stats[_COLLATED], {present})
        for collation, column in edit.dropped:
            if plain == collation:
                stats = with_collated_range(stats, column, present, StringRange())
                stats.setdefault(_COLLATED, {})
    for string in edit.columns:
        collation = edit.version_of(string.collation)
        range_ = ranges.get(string.path)
        if range_ is not None and range_ != (None, None) and collated_range(stats, string.physical, collation) is None:
            stats = with_collated_range(stats, string.physical, collation, StringRange(*range_))
    sections: Mapping[str, Any] = stats.get(_COLLATED, {})
    return sections


def _without(sections: Mapping[str, Any], gone: Collection[Collation]) -> dict[str, Any]:
    return {
        name: section
        for name, section in sections.items()
        if not set(collations_in_stats({_COLLATED: {name: section}})) & set(gone)
    }


def _edited(before: str, stored: Mapping[str, Any], wanted: Mapping[str, Any], *, wide: bool) -> str:
    """The statistics with those sections; the ones that are as before keep their text."""
    if wanted == stored:
        return before
    changes: dict[JsonPath, str | None] = {}
    if wanted:
        changes = {(_COLLATED, name): None for name in stored if name not in wanted}
        changes |= {
            (_COLLATED, name): json.dumps(section, ensure_ascii=False, separators=(",", ":"))
            for name, section in wanted.items()
            if stored.get(name) != section
        }
    else:
        changes[_COLLATED,] = None
    if wide:
        # Delta, Per-file statistics: a range that counts deleted rows too is not tight.
        changes["tightBounds",] = "false"
    return edited(before, changes)


def _has_vector(add: str) -> bool:
    return member(add, ("deletionVector",)) not in (None, "null")


def _text(stats: str) -> str:
    try:
        stats.encode()
    except UnicodeEncodeError:  # half of a surrogate pair can be in a log as an escape only
        return json.dumps(stats)
    return json.dumps(stats, ensure_ascii=False)


# Delta, Remove file: the fields that extendedFileMetadata requires, then those that identify the file.
_KEPT = ("partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_TIME = re.compile(r'^(\{"remove":\{"path":"(?:[^"\\]|\\.)*","deletionTimestamp":)\d+')


def remove_action(add: str, *, data_change: bool, deletion_timestamp: int) -> str:
    """The action that removes a file; `add` is the JSON of the object inside its `add` action, as in the log.

    `deletion_timestamp` is in milliseconds; VACUUM counts its retention from there.

    >>> remove_action('{"path":"a","size":3,"partitionValues":{"p":"1"}}', data_change=False, deletion_timestamp=5)
    '{"remove":{"path":"a","deletionTimestamp":5,"dataChange":false,"extendedFileMetadata":true,...,"size":3}}'
    """
    fields = [
        f'"path":{member(add, ("path",))}',
        f'"deletionTimestamp":{deletion_timestamp}',
        f'"dataChange":{"true" if data_change else "false"}',
        '"extendedFileMetadata":true',
    ]
    for name in _KEPT:
        value = member(add, (name,))
        if value is not None and value != "null":
            fields.append(f'"{name}":{value}')
    return f'{{"remove":{{{",".join(fields)}}}}}'


def without_deletion_time(action: str) -> str:
    """The action without anything that depends on when it was built; an action of another kind is unchanged.

    >>> action = remove_action('{"path":"a"}', data_change=True, deletion_timestamp=5)
    >>> without_deletion_time(action) == without_deletion_time(action.replace(":5", ":6"))
    True
    >>> without_deletion_time('{"add":{}}')
    '{"add":{}}'
    """
    return with_deletion_time(action, 0)


def with_deletion_time(action: str, deletion_timestamp: int) -> str:
    """The action with that deletion time; an action of another kind is unchanged.

    >>> with_deletion_time(remove_action('{"path":"a"}', data_change=True, deletion_timestamp=5), 77)[:45]
    '{"remove":{"path":"a","deletionTimestamp":77,'
    """
    return _TIME.sub(rf"\g<1>{deletion_timestamp}", action) if action.startswith('{"remove"') else action
