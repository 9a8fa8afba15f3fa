"""Which names a SQL expression of a table uses."""

from __future__ import annotations

__all__ = ["names_in"]

_LONGEST = 100_000


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
    return frozenset(str(one.this).casefold() for one in tree.find_all(exp.Identifier))
