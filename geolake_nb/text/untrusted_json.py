"""Reading JSON of a table or a file: size and depth are checked, failures are typed errors."""

from __future__ import annotations

import json
import math
from typing import Any

from geolake_nb.errors import GeolakeError, SchemaError

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "MAX_VALUES", "check_depth", "expect", "has_too_many_values", "load_json"]

MAX_LENGTH = 64 * 1024 * 1024
"""Characters; the schema of a table with a hundred thousand columns has some twenty million."""

MAX_DEPTH = 200
"""Objects and arrays inside each other; a struct in a struct takes three levels in a Delta schema."""

MAX_VALUES = 4_000_000
"""Of three letters each becomes a hundred bytes; metadata as long as is read has a comma in every fifty."""

_MAX_DIGITS = 1_000


def load_json(
    text: str | bytes,
    *,
    what: str,
    where: str | None = None,
    error: type[GeolakeError] = SchemaError,
    max_length: int = MAX_LENGTH,
) -> Any:
    """The value that the text holds; `what` names it in errors.

    >>> load_json('{"a": [1, null]}', what="geo metadata")
    {'a': [1, None]}
    >>> load_json("[" * 100_000, what="geo metadata")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: geo metadata is nested too deeply
    """
    if len(text) > max_length:
        raise error(f"{what} is longer than {max_length} characters", where=where)
    if has_too_many_values(text):
        raise error(f"{what} has more than {MAX_VALUES:,} values", where=where)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer)
        if _may_escape_surrogate(text):
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded
    except RecursionError:
        raise error(f"{what} is nested too deeply", where=where) from None
    except ValueError as problem:
        raise error(f"{what} is not JSON: {problem}", where=where) from None
    check_depth(value, what=what, where=where, error=error)
    return value


def has_too_many_values(text: str | bytes) -> bool:
    """Whether the values in the text might be too many to hold; commas in strings are taken for such between values.

    >>> has_too_many_values("[1, 2]"), has_too_many_values(b"[" + b"[]," * 4_000_000 + b"[]]")
    (False, True)
    """
    if len(text) <= MAX_VALUES:
        return False
    if isinstance(text, str):
        return sum(text.count(mark) for mark in "[{,") > MAX_VALUES
    return sum(text.count(mark) for mark in (b"[", b"{", b",")) > MAX_VALUES


def check_depth(value: Any, *, what: str, where: str | None = None, error: type[GeolakeError] = SchemaError) -> None:
    """Refuse a value that is nested more deeply than code that walks it should follow.

    >>> check_depth({"a": [None]}, what="crs")
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise error(f"{what} is nested too deeply", where=where)


def expect(value: Any, key: str, kind: Any, where: str) -> Any:
    """The member of an object, which must exist and be of that type; a boolean does not count as an integer.

    >>> expect({"id": 1}, "id", int, "schema")
    1
    >>> expect({"id": True}, "id", int, "schema")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: schema: 'id' is a bool, not a int
    """
    if not isinstance(value, dict):
        raise SchemaError(f"expected a JSON object, got a {type(value).__name__}", where=where)
    if key not in value:
        raise SchemaError(f"{key!r} is missing", where=where)
    member = value[key]
    if not isinstance(member, kind) or (kind is int and isinstance(member, bool)):
        wanted = f", not a {kind.__name__}" if isinstance(kind, type) else ""
        raise SchemaError(f"{key!r} is a {type(member).__name__}{wanted}", where=where)
    return member


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:20]} is beyond the range of a double")
    return number


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits")
    return int(digits)


def _may_escape_surrogate(text: str | bytes) -> bool:
    return "\\ud" in text.lower() if isinstance(text, str) else b"\\ud" in text.lower()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected a JSON number, got {name}")
