"""How names, values and times are written in SQL."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from geolake_nb.errors import PredicateError
from geolake_nb.model.collation import Collation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from geolake_nb.model.operators import Literal

__all__ = [
    "collation_of_name",
    "read_time",
    "read_timestamp",
    "require_micros",
    "sql_collation",
    "sql_literal",
    "sql_name",
]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# What a parser of filters takes for a keyword where a column could stand; a test compares the list with the
# words of the parser that is installed.
# fmt: off
_RESERVED = frozenset({
    "ALL", "ALTER", "AND", "ANY", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "CALL", "CASE", "CAST",
    "COLLATE", "CONNECT_BY_ROOT", "CREATE", "CROSS", "CURRENT_CATALOG", "CURRENT_DATE",
    "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "DELETE", "DESC", "DESCRIBE",
    "DISTINCT", "DROP", "ELSE", "END", "ESCAPE", "EXCEPT", "EXECUTE", "EXISTS", "EXPLAIN", "FALSE",
    "FETCH", "FOR", "FROM", "FULL", "GLOB", "GRANT", "GROUP", "HAVING", "IF", "ILIKE", "IN",
    "INNER", "INSERT", "INTERSECT", "INTERVAL", "INTO", "IS", "ISNULL", "JOIN", "LATERAL", "LEFT",
    "LIKE", "LIMIT", "LOCALTIME", "LOCALTIMESTAMP", "MERGE", "NATURAL", "NOT", "NOTNULL",
    "NULL", "OFFSET", "ON", "OPTIMIZE", "OR", "ORDER", "OUTER", "OVERLAPS", "PARTITION",
    "PARTITIONED_BY", "PREPARE", "PRIMARY", "QUALIFY", "REGEXP", "RENAME", "RETURNING", "REVOKE",
    "RIGHT", "RLIKE", "ROLLBACK", "SELECT", "SESSION_USER", "SET", "SHOW", "SOME",
    "STRAIGHT_JOIN", "STRUCT", "TABLE", "TABLESAMPLE", "THEN", "TO", "TRUE",
    "UNCACHE", "UNION", "UNIQUE", "UNNEST", "UPDATE", "USER", "USING", "VACUUM", "VALUES", "WHEN",
    "WHERE", "WINDOW", "WITH", "XOR"
})
# fmt: on


def sql_name(column: Iterable[str]) -> str:
    """The column as SQL names it, in backticks where a name needs it, as Spark wants them.

    >>> sql_name(("a", "b c", "select"))
    'a.`b c`.`select`'
    """
    return ".".join(
        name if _PLAIN_NAME.fullmatch(name) and name.upper() not in _RESERVED else _backticks(name) for name in column
    )


def sql_literal(value: Literal) -> str:
    """The value as SQL writes it.

    >>> print(sql_literal(True), sql_literal(-1.5), sql_literal("it's"), sql_literal(dt.date(2024, 2, 29)))
    TRUE -1.5 'it''s' DATE '2024-02-29'
    >>> print(sql_literal(b""), sql_literal(Decimal("1.50")), sql_literal(dt.datetime(2024, 1, 2, 3, 4)))
    X'' DECIMAL '1.50' TIMESTAMP '2024-01-02 03:04:00'
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    text = value.isoformat(" ") if isinstance(value, dt.datetime) else str(value)
    quoted = "'" + text.replace("'", "''") + "'"
    if isinstance(value, str):
        return quoted
    kinds = {Decimal: "DECIMAL", dt.datetime: "TIMESTAMP", dt.date: "DATE", dt.time: "TIME"}
    return f"{next(name for kind, name in kinds.items() if isinstance(value, kind))} {quoted}"


def sql_collation(collation: Collation) -> str:
    """The collation as it follows COLLATE: Spark's own name of it, or the identifier in backticks.

    >>> sql_collation(Collation.parse("icu.UNICODE_CI")), sql_collation(Collation.parse("icu.de.76.1"))
    ('UNICODE_CI', '`icu.de.76.1`')
    """
    plain = collation.version is None and _PLAIN_NAME.fullmatch(collation.name)
    if plain and collation == collation_of_name(collation.name):
        return collation.name
    return _backticks(str(collation))


def collation_of_name(text: str) -> Collation:
    """The collation of an identifier, or of a name as Spark uses it in SQL.

    >>> print(collation_of_name("UTF8_LCASE"), collation_of_name("UNICODE_CI"), collation_of_name("a.b.1"))
    spark.UTF8_LCASE icu.UNICODE_CI a.b.1
    """
    if "." in text:
        return Collation.parse(text)
    # Spark: the collations that it makes itself are called UTF8_..., all others are ICU's.
    return Collation("spark" if text.upper().startswith("UTF8_") else "icu", text)


def _backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_FINER = re.compile(r"[.,]\d{6}0*[1-9]")


def read_timestamp(text: str) -> dt.datetime:
    """The time of a text; `ValueError` for an invalid one.

    >>> read_timestamp("2024-01-31 12:30:00.250")
    datetime.datetime(2024, 1, 31, 12, 30, 0, 250000)
    >>> read_timestamp("2024-01-31 12:30:00.123456789")
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: '2024-01-31 12:30:00.123456789': times are compared to the microsecond; give ...
    """
    _require_six_digits(text)
    return dt.datetime.fromisoformat(text.strip())


def read_time(text: str) -> dt.time:
    """The time of day of a text; `ValueError` for an invalid one.

    >>> read_time("12:30:00.000001000")
    datetime.time(12, 30, 0, 1)
    """
    _require_six_digits(text)
    return dt.time.fromisoformat(text.strip())


def require_micros(value: dt.datetime) -> dt.datetime:
    """The time, unless it is one of pandas with nanoseconds, which Python's times leave out."""
    if getattr(value, "nanosecond", 0):
        raise _too_fine(str(value))
    return value


def _require_six_digits(text: str) -> None:
    # Python cuts off further digits, engines do that or round: a file with the very value could be left out.
    if _FINER.search(text):
        raise _too_fine(text)


def _too_fine(text: str) -> PredicateError:
    remedy = "give six digits at most after the point, and a range of times for finer ones"
    return PredicateError("times are compared to the microsecond", where=repr(text), remedy=remedy)
