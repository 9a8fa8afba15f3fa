"""What changed between two schemas of a table."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.model.schema import children, type_name
from geolake_nb.model.types import GeographyType, GeometryType, StringType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import DataType, Field

__all__ = ["ChangeKind", "SchemaChange", "schema_changes"]


class ChangeKind(enum.Enum):
    """What changed in a field; the value is its name in JSON."""

    ADDED = "added"
    """The field is new."""
    DROPPED = "dropped"
    """The field is gone."""
    RENAMED = "renamed"
    """The field with the same id, or the same name in data files, has another path."""
    TYPE = "type"
    """The field has another type."""
    CRS = "crs"
    """The values are in another coordinate reference system, or have another edge algorithm."""
    COLLATION = "collation"
    """The string compares by another collation."""
    NULLABILITY = "nullability"
    """The field became nullable or required."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change of one field; `old` and `new` are what changed, in words."""

    column: str
    kind: ChangeKind
    old: str | None
    new: str | None

    def to_dict(self) -> dict[str, Any]:
        """`column, kind, old, new`."""
        return {"column": self.column, "kind": self.kind.value, "old": self.old, "new": self.new}

    def __str__(self) -> str:
        if self.kind is ChangeKind.ADDED:
            return f"{self.column}: added as {self.new}"
        if self.kind is ChangeKind.DROPPED:
            return f"{self.column}: dropped, was {self.old}"
        if self.kind is ChangeKind.RENAMED:
            return f"{self.column}: renamed from {self.old}"
        return f"{self.column}: {self.kind.value} {self.old} -> {self.new}"


def schema_changes(old: Schema, new: Schema) -> tuple[SchemaChange, ...]:
    """The changes in the order of the new schema, then the fields that are gone.

    A field is the same when it has the same id, else the same name in data files, else the same path.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType, StructType
    >>> left = Schema(StructType((Field("a", PrimitiveType("int32"), id=1), Field("b", StringType(), id=2))))
    >>> right = Schema(StructType((Field("c", PrimitiveType("int64"), id=1),)))
    >>> [str(change) for change in schema_changes(left, right)]
    ['c: renamed from a', 'c: type int32 -> int64', 'b: dropped, was string']
    >>> schema_changes(left, left)
    ()
    """
    before, after = list(old.walk()), list(new.walk())
    match = _matches(before, after)
    changes: list[SchemaChange] = []
    for path, field in after:
        if path not in match:
            changes.append(SchemaChange(path, ChangeKind.ADDED, None, type_name(field.type)))
            continue
        old_path, old_field = match[path]
        if _own_name(old_path, old_field) != _own_name(path, field):
            changes.append(SchemaChange(path, ChangeKind.RENAMED, old_path, path))
        changes += _field_changes(path, old_field, field)
    kept = {old_path for old_path, _ in match.values()}
    changes += [
        SchemaChange(path, ChangeKind.DROPPED, type_name(field.type), None)
        for path, field in before
        if path not in kept
    ]
    return tuple(changes)


def _matches(before: list[tuple[str, Field]], after: list[tuple[str, Field]]) -> dict[str, tuple[str, Field]]:
    """The old field of each new one that has one, by the new path."""
    by_id = {field.id: (path, field) for path, field in before if field.id is not None}
    by_file_name = {field.physical_name: (path, field) for path, field in before if field.physical_name is not None}
    by_path = dict(before)
    match: dict[str, tuple[str, Field]] = {}
    for path, field in after:
        same_path = by_path.get(path)
        if field.id in by_id:
            match[path] = by_id[field.id]
        elif field.physical_name in by_file_name:
            match[path] = by_file_name[field.physical_name]
        elif same_path is not None and (field.id is None or same_path.id is None):
            match[path] = (path, same_path)
    return match


def _own_name(path: str, field: Field) -> str:
    """The last part of the path: under a parent with a new name a field is not renamed itself."""
    return field.name if path else ""


def _field_changes(path: str, old: Field, new: Field) -> Iterator[SchemaChange]:
    change = _type_change(old.type, new.type)
    if change is not None:
        yield SchemaChange(path, *change)
    if old.nullable != new.nullable:
        words = [("nullable" if field.nullable else "required") for field in (old, new)]
        yield SchemaChange(path, ChangeKind.NULLABILITY, *words)


def _type_change(old: DataType, new: DataType) -> tuple[ChangeKind, str, str] | None:
    if isinstance(old, StringType) and isinstance(new, StringType):
        if old.collation == new.collation:
            return None
        names = ["binary" if type_.collation is None else str(type_.collation) for type_ in (old, new)]
        return ChangeKind.COLLATION, names[0], names[1]
    if children(old) and type(old) is type(new):
        return None  # nested fields are reported one by one
    if old == new:
        return None
    same_kind = type(old) is type(new) and isinstance(old, (GeometryType, GeographyType))
    return ChangeKind.CRS if same_kind else ChangeKind.TYPE, type_name(old), type_name(new)
