"""Which columns the SQL expressions of a table use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import RefusedError
from geolake_nb.formats.delta.writability import constraints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.model.snapshot import Snapshot

__all__ = ["names_in", "require_unused"]

_LONGEST = 100_000
_IN_FIELDS = {"delta.generationExpression": "generated column", "delta.invariants": "invariant of the column"}


def require_unused(snapshot: Snapshot, name: str, *, where: str) -> None:
    """Raise if a constraint, a generated column or an invariant of the table uses a column or field of that name."""
    for what, sql in _expressions(snapshot):
        named = names_in(sql)
        if named is None or name.casefold() in named:
            raise RefusedError(f"{what} uses it: {sql[:80]}", where=where, remedy="drop it first")


def _expressions(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for name, sql in sorted(constraints(snapshot.properties).items()):
        yield f"the constraint {name!r}", sql
    for path, field in snapshot.schema.walk():
        for key, what in _IN_FIELDS.items():
            if key in field.metadata:
                yield f"the {what} {path!r}", str(field.metadata[key])


def names_in(sql: str) -> frozenset[str] | None:
    """The names of columns and fields in an expression, case folded; `None` where it cannot be read.

    >>> sorted(names_in("length(`Geom`) > 0 AND a.b IS NOT NULL"))
    ['a', 'b', 'geom']
    >>> names_in("((") is None
    True
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if len(sql) > _LONGEST:
        return None
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except (RecursionError, SqlglotError):
        return None
    return frozenset(str(identifier.this).casefold() for identifier in tree.find_all(exp.Identifier))
