"""The rows that a table must have after each change: what the histories of real tables are held against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import strategies as st

from tests.spark.geo_rows import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Value: TypeAlias = int | str | None
"""Of a row; bytes as hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, whose key stays when its name does not."""

    key: int
    name: str
    type: str
    """As SQL writes it."""

    @property
    def is_geo(self) -> bool:
        return self.type.startswith("GEO")

    @property
    def is_bytes(self) -> bool:
        return self.is_geo or self.type == "BINARY"


@dataclass(frozen=True, slots=True)
class State:
    """Columns and rows at one time; a row keeps the values of columns that are gone, and has none of later ones."""

    columns: tuple[Column, ...]
    rows: Mapping[int, Mapping[int, Value]]
    """By a key that no engine sees: rows may be alike."""

    def column(self, name: str) -> Column:
        return next(candidate for candidate in self.columns if candidate.name == name)

    def visible(self) -> Counter[tuple[Value, ...]]:
        """What an engine has to read."""
        keys = [column.key for column in self.columns]
        return Counter(tuple(row.get(key) for key in keys) for row in self.rows.values())

    def with_rows(self, rows: Mapping[int, Mapping[int, Value]]) -> State:
        return replace(self, rows={**self.rows, **rows})

    def put(self, rows: Mapping[int, Mapping[int, Value]], *, over: Mapping[int, Any] | None) -> State | None:
        """More rows, or rows in the place of those that were known: never in that of others."""
        if over is None:
            return self.with_rows(rows)
        return replace(self, rows=rows) if self.rows == over else None

    def unchanged(self) -> State:
        return self

    def chosen(self, ids: Iterable[int]) -> list[int]:
        """The keys of the rows with one of these ids."""
        wanted, key = set(ids), self.columns[0].key
        return [number for number, row in self.rows.items() if row[key] in wanted]

    def without(self, ids: Iterable[int]) -> State:
        gone = set(self.chosen(ids))
        return replace(self, rows={number: row for number, row in self.rows.items() if number not in gone})

    def updated(self, ids: Iterable[int], column: Column, value: Value) -> State:
        return self.with_rows({number: {**self.rows[number], column.key: value} for number in self.chosen(ids)})

    def with_column(self, old: Column | None, new: Column | None) -> State:
        """With a column in the place of another, at the end, or without one."""
        kept = [new if column == old else column for column in self.columns]
        if old is None:
            kept.append(new)
        return replace(self, columns=tuple(column for column in kept if column is not None))

    def undone(self, before: State, after: State) -> State | None:
        """Without what was done between two states; `None` where something of it has been changed again."""
        columns = self.columns
        if before.columns != after.columns:
            if self.columns != after.columns:
                return None
            columns = before.columns
        rows = dict(self.rows)
        for number in before.rows.keys() | after.rows.keys():
            old, new = before.rows.get(number), after.rows.get(number)
            if old == new:
                continue
            if rows.get(number) != new:
                return None
            if old is None:
                del rows[number]
            else:
                rows[number] = old
        return State(columns, rows)


@dataclass(frozen=True, slots=True)
class NewRow:
    id: int
    name: str | None
    part: str | None
    shape: str | None
    """WKB as hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Append:
    rows: tuple[NewRow, ...]
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Overwrite:
    rows: tuple[NewRow, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    ids: frozenset[int]
    by_equality: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    ids: frozenset[int]
    name: str | None


@dataclass(frozen=True, slots=True)
class Move:
    """Rows with these ids get another shape."""

    ids: frozenset[int]
    shape: str | None


@dataclass(frozen=True, slots=True)
class AddColumn:
    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str


@dataclass(frozen=True, slots=True)
class Maintain:
    """What another engine does to a table without changing its rows."""

    how: str


@dataclass(frozen=True, slots=True)
class Repair:
    verify: bool


@dataclass(frozen=True, slots=True)
class Rewrite:
    cluster_by: str | None


@dataclass(frozen=True, slots=True)
class Collate:
    """The names compare by another collation."""

    collation: str | None


@dataclass(frozen=True, slots=True)
class Enable:
    """The column of bytes becomes one of geometries."""


@dataclass(frozen=True, slots=True)
class Undo:
    back: int
    """How many versions before the newest."""


MOMENTS = ("planned", "written", "committing")
"""When the other writer acts: after our plan, after our job, and when nothing is left but to commit."""


@dataclass(frozen=True, slots=True)
class Race:
    """Another writer acts while we are at it."""

    ours: Operation
    theirs: Operation
    moment: str


Operation: TypeAlias = (
    Append | Overwrite | Delete | Update | Move | AddColumn | RenameColumn | DropColumn | Maintain
    | Repair | Rewrite | Collate | Enable | Undo
)  # fmt: skip
UNVERSIONED = (AddColumn, RenameColumn, DropColumn, Maintain)
"""What may be done to a table without making a version."""
Effect: TypeAlias = "Callable[[State], State | None]"
"""What an operation makes of the rows that it meets; `None` where it must not land."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operation on the table as it was when it was decided on."""

    operation: Operation
    effect: Effect
    column: Column | None = None
    rows: Mapping[int, Mapping[int, Value]] | None = None
    version: int | None = None


def is_ours(operation: Operation) -> bool:
    """Whether this toolkit does it."""
    ours = (Overwrite, Repair, Rewrite, Collate, Enable, Undo)
    return operation.ours if isinstance(operation, Append) else isinstance(operation, ours)


def operation_name(operation: Operation) -> str:
    """What it is called where the changes of a history are counted."""
    return operation.how if isinstance(operation, Maintain) else type(operation).__name__


@dataclass(frozen=True, slots=True)
class Opening:
    """How a history begins that has to hold certain things; what comes after it is drawn."""

    start: Any
    """How its table is made, as its format says it."""
    changes: tuple[Operation | Race, ...]


IDS = range(8)  # few, so that rows are deleted and come again
EXTRA = ("note", "Größe")
"""Names of columns that come and go."""
SHAPES = [None if text is None else (iso(text) or b"").hex() for text in (
    "POINT (10 20)", "POINT (-170 5)", "LINESTRING (0 0, 5 7)", "POLYGON ((0 0, 4 0, 4 3, 0 0))", None,
)]  # fmt: skip


def listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def literal(column: Column, value: Value) -> str:
    """As SQL writes it."""
    if value is None:
        return "NULL"
    if column.is_geo:
        return f"st_setsrid(st_geomfromwkb(X'{value}'), 4326)"
    if column.is_bytes:
        return f"X'{value}'"
    return str(value) if column.type == "INT" else f"'{value}'"


def statement(step: Step) -> str:
    """The change of rows or columns in SQL that Delta and Iceberg share; `{t}` is the table."""
    match step.operation:
        case Delete(ids):
            return f"DELETE FROM {{t}} WHERE id IN ({listed(ids)})"
        case Update(ids, value) | Move(ids, value):
            assert step.column is not None
            return f"UPDATE {{t}} SET `{step.column.name}` = {literal(step.column, value)} WHERE id IN ({listed(ids)})"
        case AddColumn():
            assert step.column is not None
            return f"ALTER TABLE {{t}} ADD COLUMN `{step.column.name}` {step.column.type}"
        case RenameColumn(old, name):
            return f"ALTER TABLE {{t}} RENAME COLUMN `{old}` TO `{name}`"
        case DropColumn(name):
            return f"ALTER TABLE {{t}} DROP COLUMN `{name}`"
    raise AssertionError(step.operation)


names = st.sampled_from(["a", "B", "é", "", None])
shapes = st.sampled_from(SHAPES)
some_ids = st.frozensets(st.sampled_from(IDS), min_size=1, max_size=3)
new_rows = st.lists(
    st.builds(NewRow, st.sampled_from(IDS), names, st.sampled_from(["x", "y z%2F", None]), shapes),
    min_size=1,
    max_size=4,
).map(tuple)
appends = st.builds(Append, new_rows)
our_appends = st.builds(Append, new_rows, st.just(True))
deletes = st.builds(Delete, some_ids)
updates = st.one_of(st.builds(Update, some_ids, names), st.builds(Move, some_ids, shapes))
schema_changes = st.one_of(
    st.builds(AddColumn, st.sampled_from(EXTRA)),
    st.builds(DropColumn, st.sampled_from(EXTRA)),
    st.sampled_from([("name", "label"), ("label", "name"), ("g", "geom"), ("geom", "g"), EXTRA]).map(
        lambda pair: RenameColumn(*pair)
    ),
)
repairs = st.builds(Repair, st.booleans())
rewrites = st.builds(Rewrite, st.sampled_from(["g", "id", None]))
undos = st.builds(Undo, st.sampled_from([0, 0, 0, 1, 2]))


def changes(theirs: st.SearchStrategy[Operation], ours: st.SearchStrategy[Operation]) -> st.SearchStrategy[Any]:
    """What happens next: one of the two writers acts, or both do."""
    races = st.builds(Race, ours, st.one_of(our_appends, theirs, ours), st.sampled_from(MOMENTS))
    # Not `one_of`, which would choose among all that they are made of.
    return st.sampled_from([theirs, ours, races, races]).flatmap(lambda chosen: chosen)
