"""What changed between two versions of a table: files, schema, and how much of it has bounds."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.display import Displayable
from geolake_nb.model.file_table import has_column
from geolake_nb.model.schema import children, type_name
from geolake_nb.model.types import GeographyType, GeometryType, StringType
from geolake_nb.scan.coverage import Coverage, coverage
from geolake_nb.scan.explanation import Amount, amount_text, file_sizes, wrapped
from geolake_nb.text.messages import part_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.model.box import Box
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType, Field

__all__ = ["ChangeKind", "CoverageChange", "Diff", "SchemaChange", "coverage_text", "diff", "schema_changes"]


LABELS = {"added": "added", "removed": "removed", "rewritten": "other statistics"}
"""What happened to files, for people: `rewritten` are the same files with other statistics, deletes or partitions."""


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


_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CoverageChange:
    """How the bounds of a geo column changed; `None` where a version does not have the column."""

    column: str
    old: Coverage | None
    new: Coverage | None

    @property
    def changed(self) -> bool:
        """Whether there is more, less or another box."""
        return self.old != self.new

    def to_dict(self) -> dict[str, Any]:
        """`column`, `old` and `new` (see `Coverage.to_dict`, or null)."""
        sides = {"old": self.old, "new": self.new}
        return {"column": self.column, **{key: None if side is None else side.to_dict() for key, side in sides.items()}}


@dataclass(frozen=True, slots=True, eq=False)
class Diff(Displayable):
    """What a table has in a new version and had in an old one."""

    location: str
    old_version: int | None
    new_version: int | None
    added: pa.Table
    """The files that are new, as the file table has them."""
    removed: pa.Table
    """The files that are gone, as the file table had them."""
    rewritten: pa.Table
    """The files that stayed and have other statistics or deleted rows: those of the new version, and `changed`."""
    unchanged: int
    schema_changes: tuple[SchemaChange, ...]
    coverage: tuple[CoverageChange, ...]

    @property
    def is_empty(self) -> bool:
        """Whether neither files nor schema changed."""
        files = self.added.num_rows + self.removed.num_rows + self.rewritten.num_rows
        return not files and not self.schema_changes

    def to_dict(self, *, files: bool = False) -> dict[str, Any]:
        """The change with plain values, for JSON.

        | key | value |
        |---|---|
        | `table`, `old_version`, `new_version` | where, and which versions |
        | `added`, `removed`, `rewritten` | `files`, `rows`, `bytes`; with `files=True` also `paths` |
        | `unchanged` | a number of files |
        | `schema` | a list of `column`, `kind`, `old`, `new` |
        | `coverage` | a list of `column`, `old`, `new`, see `Coverage.to_dict` |
        """
        answer: dict[str, Any] = {
            "table": self.location,
            "old_version": self.old_version,
            "new_version": self.new_version,
        }
        for name, table in self._tables():
            answer[name] = {**_amount(table).to_dict(), **({"paths": table["path"].to_pylist()} if files else {})}
        answer["unchanged"] = self.unchanged
        answer["schema"] = [change.to_dict() for change in self.schema_changes]
        answer["coverage"] = [change.to_dict() for change in self.coverage]
        return answer

    def _tables(self) -> tuple[tuple[str, pa.Table], ...]:
        return ("added", self.added), ("removed", self.removed), ("rewritten", self.rewritten)

    @property
    def rewrite_sentence(self) -> str | None:
        """That the same number of rows moved to other files, as a rewrite does it; `None` where it did not."""
        added, removed = _amount(self.added), _amount(self.removed)
        if not added.files or not removed.files or added.rows is None or added.rows != removed.rows:
            return None
        files = plural(removed.files, "file"), plural(added.files, "new file")
        return f"{plural(added.rows, 'row')} of {files[0]} are in {files[1]} now"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from wrapped(f"{self.location}: version {_shown(self.old_version)} to {_shown(self.new_version)}")
        for name, table in self._tables():
            yield f"  {LABELS[name]:<18}{amount_text(_amount(table))}"
        yield f"  {'unchanged':<18}{self.unchanged:,} file{'' if self.unchanged == 1 else 's'}"
        if (sentence := self.rewrite_sentence) is not None:
            yield f"  {sentence}"
        if self.rewritten.num_rows:
            for count in pc.value_counts(self.rewritten["changed"]).to_pylist()[:_SHOWN]:
                yield from wrapped(f"    {count['counts']:,} with other {count['values']}", after="      ")
        if self.schema_changes:
            yield "schema:"
        for change in self.schema_changes[:_SHOWN]:
            yield from wrapped(f"  {change}", after="    ")
        if len(self.schema_changes) > _SHOWN:
            yield f"  and {len(self.schema_changes) - _SHOWN} more"
        if self.coverage:
            yield "bounds:"
        for bounds in self.coverage:
            yield from wrapped(f"  {bounds.column}: {coverage_text(bounds.old, bounds.new)}", after="    ")


def diff(old: Snapshot, new: Snapshot) -> Diff:
    """What changed from one version of a table to another; either may be the later one.

    Files are matched by their path, columns by their field id, or by their name where they have none.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.file_table import FileTable
    >>> from geolake_nb.formats.registry import DELTA
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> def version(number, paths, rows):
    ...     files = FileTable.of(path=pa.array(paths), bytes=pa.array([9] * len(paths)), rows=pa.array(rows))
    ...     return Snapshot(DELTA, "/t", number, None, Schema(), Protocol(""), files)
    >>> change = diff(version(0, ["a", "b"], [1, 2]), version(1, ["b", "c"], [1, 3]))
    >>> change.added["path"].to_pylist(), change.removed["path"].to_pylist()
    (['c'], ['a'])
    >>> change.rewritten.select(["path", "changed"]).to_pylist()
    [{'path': 'b', 'changed': 'rows'}]
    >>> diff(version(0, ["a"], [1]), version(0, ["a"], [1])).is_empty
    True
    """
    before, after = old.files.table, new.files.table
    indices = _indices(after, before)
    stayed = indices >= 0
    gone = _indices(before, after) < 0
    common, common_before = after.filter(pa.array(stayed)), before.take(pa.array(indices[stayed]))
    changed = _changes(common_before, common)
    differs = pa.array(pc.is_valid(changed))
    rewritten = common.append_column("changed", changed).filter(differs)
    return Diff(
        location=new.location,
        old_version=old.version,
        new_version=new.version,
        added=after.filter(pa.array(~stayed)),
        removed=before.filter(pa.array(gone)),
        rewritten=rewritten,
        unchanged=common.num_rows - rewritten.num_rows,
        schema_changes=schema_changes(old.schema, new.schema),
        coverage=_coverage_changes(old, new),
    )


def _indices(wanted: pa.Table, table: pa.Table) -> NDArray[np.int64]:
    """The index of each file of one table in the other, -1 for a missing one."""
    matched = pc.index_in(wanted["path"].combine_chunks(), value_set=table["path"].combine_chunks())
    indices: NDArray[np.int64] = pc.fill_null(matched, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _changes(before: pa.Table, after: pa.Table) -> pa.Array:
    """In words what changed in each file, null where nothing did."""
    groups: dict[str, NDArray[np.bool_]] = {}
    for name in after.column_names:
        kind = _kind(name)
        if kind is None:
            continue
        missing = pa.nulls(after.num_rows, after.schema.field(name).type)
        other = before[name] if has_column(before, name) else missing
        differs = _differs(other, after[name])
        groups[kind] = groups.get(kind, np.zeros(after.num_rows, np.bool_)) | differs
    # Each set of kinds is a number, so that texts are made once for each set that occurs.
    codes = np.zeros(after.num_rows, np.int64)
    kinds = sorted(groups)[:62]
    for bit, kind in enumerate(kinds):
        codes |= groups[kind].astype(np.int64) << bit
    distinct, indices = np.unique(codes, return_inverse=True)
    texts = [", ".join(kind for bit, kind in enumerate(kinds) if code >> bit & 1) or None for code in distinct.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(indices.astype(np.int64)))


_GEO_PARTS = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax", "null_count", "types", "problem")
_PLAIN = {"bytes": "bytes", "rows": "rows", "deleted_rows": "deleted rows"}


def _kind(name: str) -> str | None:
    """What a column of the file table describes; `None` for what is not about the file itself."""
    if name in _PLAIN:
        return _PLAIN[name]
    if name.startswith("partition."):
        return "partition values"
    column, _, part = name.rpartition(".")
    if not column or part not in _GEO_PARTS:
        return None
    words = {"null_count": "null count", "types": "types", "problem": "bounds"}
    return f"{words.get(part, 'bounds')} of {column}"


def _differs(old: Any, other: Any) -> NDArray[np.bool_]:
    left, right = _plain(old), _plain(other)
    if left.type != right.type:
        left, right = left.cast(pa.string()), right.cast(pa.string())
    same = pc.fill_null(pc.equal(left, right), False)
    same = pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_floating(left.type):
        # NaN equals NaN here.
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return ~np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)


def _plain(column: Any) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_nested(array.type):
        # Arrow cannot compare lists; those of types are short, and few differ.
        codes = pc.list_value_length(array)
        joined = pc.binary_join(array.cast(pa.list_(pa.string())), " ")
        return pc.if_else(pc.is_valid(codes), joined, pa.scalar(None, pa.string()))
    return array


def _coverage_changes(old: Snapshot, new: Snapshot) -> tuple[CoverageChange, ...]:
    before = {entry.column: entry for entry in coverage(old)}
    after = {entry.column: entry for entry in coverage(new)}
    return tuple(CoverageChange(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after]))


def _amount(table: pa.Table) -> Amount:
    return Amount.of(np.ones(table.num_rows, np.bool_), *file_sizes(table))


def _shown(version: int | None) -> str:
    return "?" if version is None else str(version)


def coverage_text(old: Coverage | None, new: Coverage | None) -> str:
    """How much has bounds and what they span, before and after.

    >>> coverage_text(None, None)
    'new column, absent'
    """
    if old is None or new is None:
        side = new or old
        text = "absent" if side is None else f"{_share(side)}, {_box_text(side.box)}"
        return f"new column, {text}" if old is None else f"column is gone, had {text}"
    shares, boxes = (_share(old), _share(new)), (_box_text(old.box), _box_text(new.box))
    text = shares[0] if shares[0] == shares[1] else f"{shares[0]} -> {shares[1]}"
    return f"{text}, {boxes[0] if boxes[0] == boxes[1] else f'{boxes[0]} -> {boxes[1]}'}"


def _share(coverage: Coverage) -> str:
    counts = part_of(coverage.covered.files, coverage.total.files, "file")
    return counts if coverage.share is None else f"{counts} ({coverage.share:.0%} of the bytes)"


def _box_text(box: Box | None) -> str:
    return "no box" if box is None else f"[{box.xmin:.6g} {box.ymin:.6g} {box.xmax:.6g} {box.ymax:.6g}]"
