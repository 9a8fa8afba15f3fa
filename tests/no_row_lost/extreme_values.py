"""Random rows of every plain type with the values at which statistics go wrong, and filters about them.

A file holds a few neighbours of each column's list of values, so that minima and maxima can rule files out.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import random

__all__ = ["COLUMNS", "deltalake_sql", "duckdb_sql", "random_files", "random_filter", "spark_sql"]

NAN = float("nan")
_UTC = dt.UTC
_LONG = "prefix of more than thirty-two characters: "

_DATES = [dt.date(*day) for day in (
    (1, 1, 1), (1000, 2, 28), (1500, 1, 1), (1582, 10, 4), (1582, 10, 15), (1899, 12, 31), (1969, 12, 31), (1970, 1, 1),
    (2000, 2, 29), (2262, 4, 12), (9999, 12, 31),
)]  # fmt: skip
_TIMES = [
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 4, 12),
    dt.datetime(1677, 9, 21, 0, 12, 43, 145224),
    dt.datetime(1899, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 3, 31, 1, 30, 0, 123456),
    dt.datetime(2024, 3, 31, 1, 30, 0, 123999),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854776),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
]
_STRINGS = [
    "", " ", "A", "Z", "a", "a'b", "z" * 40, _LONG + "a", _LONG + "z", "e\u0301", "\u00e9", "\u00ff", "\ud7ff" * 33,
    "\uffee" * 40, "\uffff" * 33, "\U0001f600", "\U0001f600" * 40, "\U0010ffff" * 33,
]  # fmt: skip
_BYTES = [b"", b"\x00", b"\x00\x01", b"a" * 40, b"a" * 41, b"\x7f", b"\x80", b"\xfe", b"\xff" * 40, b"\xff" * 41]
_DOUBLES = [-math.inf, -1.7e308, -1.5, -5e-324, -0.0, 0.0, 0.1, 1.5, 2.0**53, 1e16, 1.7e308, math.inf]

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [False, True]),
    "i1": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i2": (pa.int16(), [-32768, -1, 0, 1, 32767]),
    "i4": (pa.int32(), [-(2**31), -1, 0, 1, 7, 2**31 - 1]),
    "i8": (pa.int64(), [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "f4": (pa.float32(), [-math.inf, -3.4e38, -1.5, -0.0, 0.0, float(np.float32(0.1)), 1.5, 3.4e38, math.inf]),
    "f8": (pa.float64(), _DOUBLES),
    "d5": (pa.decimal128(5, 2), [Decimal(text) for text in ("-999.99", "-0.01", "0.00", "1.25", "999.99")]),
    "d18": (pa.decimal128(18, 3), [Decimal(text) for text in ("-999999999999999.999", "0.000", "0.001", "1.500")]),
    "d38": (pa.decimal128(38, 10), [Decimal(text) for text in (
        "-9999999999999999999999999999.9999999999", "-0.0000000001", "0.0000000000", "12345678901234567.0000000001",
        "12345678901234567.0000000002", "9999999999999999999999999999.9999999999")]),
    "s": (pa.string(), _STRINGS),
    "x": (pa.binary(), _BYTES),
    "d": (pa.date32(), _DATES),
    "ts": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=_UTC) for moment in _TIMES]),
    "tn": (pa.timestamp("us"), _TIMES),
    "n.i": (pa.int32(), [-5, 0, 5, 2**31 - 1]),
    "n.s": (pa.string(), _STRINGS),
    "n.f": (pa.float64(), _DOUBLES),
    "n.d": (pa.date32(), _DATES),
}  # fmt: skip
"""The columns by their paths, each with its values in the order in which engines compare them."""


def random_files(draw: random.Random, *, files: int = 6, rows: int = 5) -> list[pa.Table]:
    """Tables for one data file each: `id` and all columns, those of `n` in a struct."""
    made = []
    for number in range(files):
        columns: dict[str, pa.Array] = {"id": pa.array(range(number * rows, (number + 1) * rows), pa.int64())}
        for name, (kind, values) in COLUMNS.items():
            start = draw.randrange(len(values))
            near = values[start : start + draw.choice((1, 2, 3))]
            if pa.types.is_floating(kind) and draw.random() < 0.4:
                near = [*near, NAN]
            nulls = draw.choice((0.0, 0.0, 0.3, 1.0 if draw.random() < 0.2 else 0.1))
            columns[name] = pa.array([None if draw.random() < nulls else draw.choice(near) for _ in range(rows)], kind)
        inner = {name.removeprefix("n."): columns.pop(name) for name in COLUMNS if name.startswith("n.")}
        mask = pa.array([draw.random() < 0.1 for _ in range(rows)])
        columns["n"] = pa.StructArray.from_arrays(list(inner.values()), list(inner), mask=mask)
        made.append(pa.table(columns))
    return made


def random_filter(draw: random.Random, names: list[str], depth: int = 0) -> Any:
    """A filter as a tree: `(column, op, values)`, or `("AND" | "OR" | "NOT", filters)`."""
    if depth < 2 and draw.random() < 0.25:
        word = draw.choice(("AND", "OR", "NOT"))
        return word, [random_filter(draw, names, depth + 1) for _ in range(1 if word == "NOT" else 2)]
    name = draw.choice(names)
    op = draw.choice(("=", "=", "<>", "<", "<=", ">", ">=", "IN", "NOT IN", "IS NULL", "IS NOT NULL"))
    if op.startswith("IS"):
        return name, op, []
    return name, op, [_value(draw, name) for _ in range(draw.choice((1, 2, 3)) if op.endswith("IN") else 1)]


def _value(draw: random.Random, name: str) -> Any:
    """A value of the column, one beside it, or one of another type that engines compare with it."""
    kind, values = COLUMNS[name]
    value = draw.choice(
        [candidate for candidate in values if not isinstance(candidate, float) or math.isfinite(candidate)]
    )
    if pa.types.is_integer(kind) and draw.random() < 0.2:
        return Decimal(value) + Decimal("0.5") if abs(value) < 2**31 else value
    if pa.types.is_floating(kind) and draw.random() < 0.3:
        return draw.choice((value / 2, 0.1, 1.5, Decimal("0.1"), 3))
    if pa.types.is_string(kind) and draw.random() < 0.3:
        return value[: draw.randrange(len(value) + 1)] + draw.choice(("", "a", "\U0010ffff"))
    if pa.types.is_date(kind) and draw.random() < 0.3 and value < dt.date(9999, 1, 1):
        return value + dt.timedelta(days=draw.choice((1, 9)))
    if pa.types.is_date(kind) and draw.random() < 0.2:
        return dt.datetime(value.year, value.month, value.day, 12)
    return value


def spark_sql(node: Any) -> str:
    """The filter in the SQL of Spark, which `explain` takes as well."""
    return _sql(node, _spark_literal)


def duckdb_sql(node: Any) -> str:
    """The filter in the SQL of DuckDB."""
    return _sql(node, _duckdb_literal)


def deltalake_sql(node: Any) -> str:
    """The filter in the SQL of deltalake.

    DataFusion compares the values of a list by their bits, and a single value by SQL, where 0.0 = -0.0: without both
    zeros in a list its own files of zeros are skipped for rows that a full scan returns.

    >>> deltalake_sql(("f8", "NOT IN", [0.0, 1.5]))
    'f8 NOT IN (0.0e0, 1.5e0, -0.0e0)'
    """
    return _sql(_with_both_zeros(node), _spark_literal).replace("TIMESTAMP_NTZ", "TIMESTAMP")


def _with_both_zeros(node: Any) -> Any:
    if len(node) == 2:
        word, parts = node
        return word, [_with_both_zeros(part) for part in parts]
    name, op, values = node
    zeros = [-value for value in values if isinstance(value, float) and value == 0] if op.endswith("IN") else []
    return name, op, [*values, *zeros]


def _sql(node: Any, literal: Any) -> str:
    if len(node) == 2:
        word, parts = node
        texts = [f"({_sql(part, literal)})" for part in parts]
        return f"NOT {texts[0]}" if word == "NOT" else f" {word} ".join(texts)
    name, op, values = node
    if op.startswith("IS"):
        return f"{name} {op}"
    texts = [literal(value) for value in values]
    return f"{name} {op} ({', '.join(texts)})" if op.endswith("IN") else f"{name} {op} {texts[0]}"


def _spark_literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        zone = "Z" if value.tzinfo else ""
        kind = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ"
        return f"{kind} '{value.replace(tzinfo=None).isoformat(sep=' ')}{zone}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        text = repr(value)
        return text if "e" in text else f"{text}e0"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _duckdb_literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP"
        return f"{kind} '{value.replace(tzinfo=None).isoformat(sep=' ')}{'+00' if value.tzinfo else ''}'"
    return _spark_literal(value)
