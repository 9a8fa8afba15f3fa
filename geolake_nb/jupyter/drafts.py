"""Drafts of changes that an editor holds: collations of strings, and the settings of a rewrite."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.clustering import Ordering
from geolake_nb.errors import CollationError, GeolakeError
from geolake_nb.formats.delta.collate import schema_collation
from geolake_nb.formats.delta.collations import statistics_text, table_collations, with_collations
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.model.schema import join_path, type_name
from geolake_nb.model.types import GeographyType, GeometryType, StringType
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot

__all__ = [
    "ClusterColumn",
    "CollationDraft",
    "DiffLine",
    "DraftRow",
    "RewriteDraft",
    "cluster_columns",
    "draft_for",
    "draft_of",
    "matching_names",
    "schema_diff",
]


def matching_names(names: Iterable[str], text: str) -> list[str]:
    """The names that have all words of a text, those first in which a part begins with the first word.

    >>> from geolake_nb.model.collation import collation_names
    >>> matching_names(collation_names(), "de ci")[:2], matching_names(["icu.de"], "fr")
    (['icu.de_CI', 'icu.de_CI_AI'], [])
    >>> matching_names(collation_names(), "de_ci")[-1]
    'icu.UNICODE_CI_AI'
    """
    words = text.casefold().split()
    matches = [name for name in names if all(word in name.casefold() for word in words)]
    if not words:
        return matches
    return sorted(matches, key=lambda name: f"_{words[0]}" not in f"_{name.casefold().replace('.', '_')}")


_WIDTH = 120
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DraftRow:
    """One line of the tree: a string, or a struct, list or map with strings below it."""

    path: _Path
    kind: str
    """The type in a word."""
    is_string: bool
    collation: Collation | None = None
    """The one that it has now."""
    statistics: str = ""
    """A summary of its statistics."""

    @property
    def name(self) -> str:
        """The path as a user writes it."""
        return join_path(self.path)


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of the schema diff: `-` removed, `+` added, a blank for context."""

    sign: str
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}"


@dataclass(frozen=True, slots=True)
class CollationDraft:
    """The strings of a table with the edits that are not planned yet.

    >>> from geolake_nb.model.collation import Collation
    >>> rows = (DraftRow(("a",), "struct", False), DraftRow(("a", "b"), "string", True, Collation("icu", "de")))
    >>> draft = CollationDraft(rows)
    >>> draft.setting([("a",)], "icu.de_CI").changes
    {'a.b': 'icu.de_CI'}
    >>> draft.setting([("a",)], "icu.de").changes, draft.dropping([("a", "b")]).changes
    ({}, {'a.b': None})
    """

    rows: tuple[DraftRow, ...]
    """Parents before their children."""
    edits: Mapping[_Path, Collation | None] = dataclasses.field(default_factory=dict)
    """The collations that strings would get, `None` for one that would lose its own."""

    def strings(self, paths: Iterable[_Path]) -> list[DraftRow]:
        """The strings at the paths, and all strings below them."""
        wanted = set(paths)
        return [
            row
            for row in self.rows
            if row.is_string and any(row.path[: depth + 1] in wanted for depth in range(len(row.path)))
        ]

    def setting(self, paths: Iterable[_Path], identifier: str) -> CollationDraft:
        """The draft in which the strings have this collation."""
        edits = {row.path: schema_collation(identifier, row.name) for row in self.strings(paths)}
        if not edits:
            raise CollationError("no string is selected", remedy="select some in the list of strings")
        return self._edited(edits)

    def dropping(self, paths: Iterable[_Path]) -> CollationDraft:
        """The draft in which the strings have no collation."""
        return self._edited(dict.fromkeys((row.path for row in self.strings(paths)), None))

    def keeping(self, paths: Iterable[_Path]) -> CollationDraft:
        """The draft in which the strings stay as they are."""
        left = {row.path for row in self.strings(paths)}
        return replace(self, edits={path: collation for path, collation in self.edits.items() if path not in left})

    def moved_to(self, now: CollationDraft) -> CollationDraft:
        """The same edits on the strings of another version; a missing string is an error."""
        there = {row.path for row in now.rows if row.is_string}
        for path in self.edits:
            if path not in there:
                name = printable(join_path(path), _WIDTH)
                raise CollationError(f"the table has no string {name!r} any more", remedy="keep it as it is")
        return now._edited(self.edits)

    def collation_of(self, row: DraftRow) -> Collation | None:
        """The collation that a string would have."""
        return self.edits.get(row.path, row.collation)

    @property
    def changes(self) -> dict[str, str | None]:
        """What `plan_collations` takes: the edits by the names of the strings."""
        return {
            join_path(path): None if collation is None else str(collation) for path, collation in self.edits.items()
        }

    def matching(self, text: str) -> tuple[DraftRow, ...]:
        """The rows whose path or collation has all words of the text, with their parents.

        >>> rows = (DraftRow(("a",), "struct", False), DraftRow(("a", "b"), "string", True))
        >>> [row.name for row in CollationDraft(rows).matching("B")], CollationDraft(rows).matching("x")
        (['a', 'a.b'], ())
        """
        words = text.casefold().split()
        kept: set[_Path] = set()
        for row in self.rows:
            about = f"{row.name} {self.collation_of(row) or ''}".casefold()
            if row.is_string and all(word in about for word in words):
                kept |= {row.path[: depth + 1] for depth in range(len(row.path))}
        return tuple(row for row in self.rows if row.path in kept)

    def label(self, row: DraftRow) -> str:
        """The row in a line: indented, with its collation, what becomes of it, and its statistics.

        >>> draft = CollationDraft((DraftRow(("b",), "string", True),))
        >>> draft.setting([("b",)], "icu.de").label(draft.rows[0])
        'b  binary -> icu.de'
        """
        # Blanks at the start of an option are left out by some browsers: these are not.
        name = "\N{NO-BREAK SPACE}" * 3 * (len(row.path) - 1) + printable(row.path[-1], _WIDTH)
        if not row.is_string:
            count = len(self.strings([row.path]))
            return f"{name}  ({row.kind}, {count} string{'' if count == 1 else 's'})"
        now = _named(row.collation)
        becomes = f"{now} -> {_named(self.edits[row.path])}" if row.path in self.edits else now
        return "  ".join([name, becomes, *([printable(row.statistics, _WIDTH)] if row.statistics else [])])

    def _edited(self, edits: Mapping[_Path, Collation | None]) -> CollationDraft:
        now = {row.path: row.collation for row in self.rows if row.is_string}
        every = {**self.edits, **edits}
        return replace(self, edits={path: new for path, new in every.items() if new != now[path]})


def draft_of(snapshot: Snapshot) -> CollationDraft:
    """The strings of a Delta table with their collations and statistics, and no edits."""
    known = table_collations(snapshot)
    statistics = {column.path: statistics_text(column, known.file_count) for column in known.columns}
    every = list(snapshot.schema.walk_parts())
    around = {
        path[: depth + 1] for path, field in every if isinstance(field.type, StringType) for depth in range(len(path))
    }
    rows = []
    for path, field in every:
        if isinstance(field.type, StringType):
            rows.append(DraftRow(path, "string", True, field.type.collation, statistics.get(join_path(path), "")))
        elif path in around:
            rows.append(DraftRow(path, type_name(field.type), False))
    return CollationDraft(tuple(rows))


def schema_diff(snapshot: Snapshot, draft: CollationDraft) -> tuple[DiffLine, ...]:
    """The lines of the schema that the edits change, with what they lie in; nothing else of it changes."""
    metadata = snapshot.details.metadata
    text = with_collations(metadata.schema_string, draft.edits)
    after = dict(from_delta_schema(text, properties=metadata.configuration).walk_parts())
    before = dict(snapshot.schema.walk_parts())
    lines: list[DiffLine] = []
    shown: set[_Path] = set()
    for path, field in before.items():
        now = type_name(after[path].type)
        if now == type_name(field.type):
            continue
        around = [path[: depth + 1] for depth in range(len(path) - 1)]
        lines += [
            DiffLine(" ", _line(parent, type_name(before[parent].type))) for parent in around if parent not in shown
        ]
        shown.update(around)
        lines += [DiffLine("-", _line(path, type_name(field.type))), DiffLine("+", _line(path, now))]
    return tuple(lines)


def _line(path: _Path, kind: str) -> str:
    return f"{'  ' * (len(path) - 1)}{printable(path[-1], _WIDTH)}: {printable(kind, _WIDTH)}"


def _named(collation: Collation | None) -> str:
    return "binary" if collation is None else printable(str(collation), _WIDTH)


@dataclass(frozen=True, slots=True)
class ClusterColumn:
    """A column that rows can be put in order by."""

    path: str
    kind: str
    """Its type in a few words."""
    is_geo: bool


@dataclass(frozen=True, slots=True)
class RewriteDraft:
    """The settings of a rewrite, as arguments of `t.plan_rewrite`.

    >>> draft = RewriteDraft().adding("geom").adding("day").adding("geom")
    >>> draft.cluster_by, draft.moved("day", -1).cluster_by, draft.without("geom").cluster_by
    (('geom', 'day'), ('day', 'geom'), ('day',))
    >>> draft.moved("geom", -1) == draft
    True
    """

    cluster_by: tuple[str, ...] = ()
    curve: str = "hilbert"
    target_file_size: str = "128MB"
    row_group_rows: int | None = None
    where: str | None = None

    def adding(self, column: str) -> RewriteDraft:
        """With one column more, at the end."""
        return self if column in self.cluster_by else replace(self, cluster_by=(*self.cluster_by, column))

    def without(self, column: str) -> RewriteDraft:
        """With one column less."""
        return replace(self, cluster_by=tuple(path for path in self.cluster_by if path != column))

    def moved(self, column: str, by: int) -> RewriteDraft:
        """With a column moved by some positions, within the list."""
        if column not in self.cluster_by:
            return self
        others = [path for path in self.cluster_by if path != column]
        others.insert(max(0, self.cluster_by.index(column) + by), column)
        return replace(self, cluster_by=tuple(others))

    @property
    def options(self) -> dict[str, Any]:
        """What `t.plan_rewrite` is called with."""
        return {
            "cluster_by": list(self.cluster_by),
            "curve": self.curve,
            "target_file_size": self.target_file_size,
            "row_group_rows": self.row_group_rows,
            "where": self.where,
        }


def cluster_columns(schema: Schema, partition_by: Sequence[str] = ()) -> tuple[ClusterColumn, ...]:
    """The columns that a rewrite takes to put rows in order, geo columns first.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType, StructType
    >>> fields = (Field("day", PrimitiveType("date")), Field("s", StructType()), Field("g", GeometryType()))
    >>> [column.path for column in cluster_columns(Schema(StructType(fields)))]
    ['g', 'day']
    """
    columns = []
    for path, field in schema.walk():
        try:
            Ordering.of([path], "hilbert", schema, partition_by=partition_by)
        except GeolakeError:
            continue
        is_geo = isinstance(field.type, GeometryType | GeographyType)
        columns.append(ClusterColumn(path, type_name(field.type), is_geo))
    return tuple(sorted(columns, key=lambda column: not column.is_geo))


def draft_for(columns: Sequence[ClusterColumn]) -> RewriteDraft:
    """The default: rows clustered by the first geo column.

    >>> draft_for([]).cluster_by
    ()
    """
    return RewriteDraft(tuple(column.path for column in columns if column.is_geo)[:1])
