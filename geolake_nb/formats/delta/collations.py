"""The collations of a table: which strings have which, which files are outdated, and edits of the schema."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CollationError, SchemaError
from geolake_nb.formats.delta.details import ColumnMapping, DeltaDetails
from geolake_nb.formats.delta.format import collation_hints
from geolake_nb.formats.delta.rules import newest_version
from geolake_nb.model.collation import COLLATIONS_KEY, Collation
from geolake_nb.model.display import LiveDisplayable
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import ListType, MapType, StringType
from geolake_nb.scan.next_step import NextStep
from geolake_nb.scan.value_scan import CollatedString
from geolake_nb.text.json_text import edited, member, with_member
from geolake_nb.text.messages import part_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.text.json_text import JsonPath

__all__ = [
    "ColumnCollation",
    "TableCollations",
    "collations_of",
    "measured_strings",
    "statistics_text",
    "table_collations",
    "with_collations",
    "without_values",
]

_Path = tuple[str, ...]


def collations_of(schema: Schema) -> dict[_Path, Collation]:
    """The collation of every string that has one, those in lists and maps included.

    >>> from geolake_nb.model.schema import Schema
    >>> collations_of(Schema())
    {}
    """
    return {
        parts: field.type.collation
        for parts, field in schema.walk_parts()
        if isinstance(field.type, StringType) and field.type.collation is not None
    }


def measured_strings(
    schema: Schema, *, mapping: ColumnMapping, indexed: Collection[_Path], partitions: Collection[str]
) -> tuple[CollatedString, ...]:
    """The collated strings with statistics: indexed, not in a list or map, not a partition column.

    >>> from geolake_nb.model.collation import Collation
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, StringType, StructType
    >>> from geolake_nb.formats.delta.details import ColumnMapping
    >>> schema = Schema(StructType((Field("a", StringType(Collation("icu", "de"))), Field("b", StringType()))))
    >>> strings = measured_strings(schema, mapping=ColumnMapping.NONE, indexed={("a",), ("b",)}, partitions=[])
    >>> [(string.physical, str(string.collation)) for string in strings]
    [(('a',), 'icu.de')]
    """
    strings: list[CollatedString] = []
    repeated: set[_Path] = set()
    for parts, field in schema.walk_parts():
        if parts[:-1] in repeated or isinstance(field.type, ListType | MapType):
            repeated.add(parts)
        collation = field.type.collation if isinstance(field.type, StringType) else None
        # Delta, Per-file statistics: they mirror the schema, and lists and maps have no minimum in it.
        if collation is None or parts in repeated or parts not in indexed or parts[0] in partitions:
            continue
        id_ = field.id if mapping is ColumnMapping.ID else None
        strings.append(CollatedString(parts, mapping.physical(schema, parts), id_, collation))
    return tuple(strings)


@dataclass(frozen=True, slots=True)
class ColumnCollation:
    """The collation of one string, and what is known of its statistics."""

    path: str
    collation: Collation
    """Without a version, as in the schema."""
    has_statistics: bool
    """Whether files have statistics for it: not in a list or a map, not a partition column, and indexed."""
    hinted: tuple[str, ...] = ()
    """The versions that the table requests."""
    wanted: str | None = None
    """The newest of them, else the newest that a file has."""
    files: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    """How many files have statistics of each version."""
    stale: tuple[str, ...] = ()
    """The files with values in the column and no statistics of the wanted version, as the log stores them."""

    def to_dict(self) -> dict[str, Any]:
        """`path, collation, has_statistics, hinted, wanted, files, stale_files, stale`."""
        return {
            "path": self.path,
            "collation": str(self.collation),
            "has_statistics": self.has_statistics,
            "hinted": list(self.hinted),
            "wanted": self.wanted,
            "files": dict(self.files),
            "stale_files": len(self.stale),
            "stale": list(self.stale),
        }


@dataclass(frozen=True, slots=True)
class TableCollations(LiveDisplayable):
    """The strings of a table that compare by a collation.

    >>> print(TableCollations("/t", 0, ()))
    /t: no string has a collation
    """

    location: str
    file_count: int
    columns: tuple[ColumnCollation, ...]
    origin: object | None = dataclasses.field(default=None, repr=False, compare=False)
    """The table that was asked, where it was an open one."""

    @property
    def next_step(self) -> NextStep | None:
        """The plan of the statistics that are missing; `None` where none are."""
        if not self.is_stale:
            return None
        # As the check does: Spark's version replaces others, and `--refresh` is refused where they differ.
        return NextStep.of("collations", self.location, "--upgrade")

    @property
    def is_stale(self) -> bool:
        """Whether any file lacks wanted statistics."""
        return any(column.stale for column in self.columns)

    def __str__(self) -> str:
        if not self.columns:
            return printable(f"{self.location}: no string has a collation")
        rows = [_row(column, self.file_count) for column in self.columns]
        widths = [max(len(row[index]) for row in rows) for index in range(2)]
        lines = [f"  {path:{widths[0]}}  {name:{widths[1]}}  {what}" for path, name, what in rows]
        return "\n".join([printable(f"{self.location}: collations"), *lines])

    def to_dict(self) -> dict[str, Any]:
        """`location, file_count, columns`."""
        return {
            "location": self.location,
            "file_count": self.file_count,
            "columns": [column.to_dict() for column in self.columns],
        }


def statistics_text(column: ColumnCollation, count: int) -> str:
    """What is known of the statistics in so many files, in words.

    >>> from geolake_nb.model.collation import Collation
    >>> statistics_text(ColumnCollation("a", Collation("icu", "de"), True, (), "78", {"78": 2}, ("f",)), 3)
    'wants 78: 2 of 3 files have 78; 1 stale'
    """
    if not column.has_statistics:
        return "no statistics are kept of it"
    if column.wanted is None:
        return f"no statistics in {plural(count, 'file')}"
    have = ", ".join(f"{part_of(files, count, 'file')} have {version}" for version, files in column.files.items())
    stale = f"{len(column.stale):,} stale" if column.stale else "none stale"
    return f"wants {column.wanted}: {have or 'no file has it'}; {stale}"


def _row(column: ColumnCollation, count: int) -> tuple[str, str, str]:
    return printable(column.path), printable(str(column.collation)), printable(statistics_text(column, count))


def table_collations(snapshot: Snapshot) -> TableCollations:
    """The collations of a snapshot; other formats than Delta have none."""
    details = snapshot.details
    if not isinstance(details, DeltaDetails):
        return TableCollations(snapshot.location, len(snapshot.files), ())
    measured = measured_strings(
        snapshot.schema,
        mapping=details.column_mapping,
        indexed=details.indexed,
        partitions=snapshot.partition_columns,
    )
    have = {string.path for string in measured}
    hints = collation_hints(snapshot)
    files_with = _files_by_version(snapshot)
    columns = []
    for path, collation in collations_of(snapshot.schema).items():
        if path not in have:
            columns.append(ColumnCollation(join_path(path), collation, has_statistics=False))
            continue
        versions = {version: has for (column, version), has in files_with.items() if column == path}
        hinted = hints.versions_of(collation)
        wanted = newest_version(hinted or tuple(versions))
        nothing = np.zeros(len(snapshot.files), np.bool_)
        stale = ~(versions.get(wanted, nothing) if wanted else nothing) & ~without_values(snapshot, path)
        columns.append(
            ColumnCollation(
                join_path(path),
                collation,
                has_statistics=True,
                hinted=hinted,
                wanted=wanted,
                files={version: int(has.sum()) for version, has in versions.items()},
                stale=tuple(snapshot.files.table["path"].filter(pa.array(stale)).to_pylist()),
            )
        )
    return TableCollations(snapshot.location, len(snapshot.files), tuple(columns))


def _files_by_version(snapshot: Snapshot) -> dict[tuple[tuple[str, ...], str], NDArray[np.bool_]]:
    """Which files have statistics of each column under its collation, by the version."""
    wanted = collations_of(snapshot.schema)
    return {
        (files.column, files.collation.version): files.has
        for files in snapshot.format.collated_files(snapshot)
        if files.collation.version is not None and files.collation.unversioned() == wanted[files.column]
    }


def without_values(snapshot: Snapshot, path: tuple[str, ...]) -> NDArray[np.bool_]:
    """The files that certainly have no value in the column: only nulls, or no rows."""
    scalars = snapshot.scalars(path)
    if scalars is None:
        return np.zeros(len(snapshot.files), np.bool_)
    return scalars.only_nulls


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
