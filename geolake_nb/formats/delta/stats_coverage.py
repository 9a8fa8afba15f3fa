"""Which columns a writer collects statistics for: the first N, or those that a property names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.types import Field, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["indexed_columns"]

_COUNT = "delta.dataSkippingNumIndexedCols"
_NAMED = "delta.dataSkippingStatsColumns"
_DEFAULT_COUNT = 32

_Path = tuple[str, ...]


def indexed_columns(schema: Schema, properties: Mapping[str, str], partitions: Sequence[str]) -> frozenset[_Path]:
    """The paths of the columns with statistics; others have none on purpose.

    >>> from geolake_nb.model.types import PrimitiveType
    >>> schema = Schema(StructType(tuple(Field(name, PrimitiveType("int32")) for name in "abc")))
    >>> sorted(indexed_columns(schema, {"delta.dataSkippingNumIndexedCols": "2"}, []))
    [('a',), ('b',)]
    >>> sorted(indexed_columns(schema, {"delta.dataSkippingStatsColumns": "c"}, []))
    [('c',)]
    """
    leaves = [path for path in _leaves(schema.fields) if path[0] not in partitions]
    named = properties.get(_NAMED)
    if named is not None:
        chosen = _named(named)
        return frozenset(path for path in leaves if any(_folded(path)[: len(prefix)] == prefix for prefix in chosen))
    try:
        count = int(properties.get(_COUNT, _DEFAULT_COUNT))
    except ValueError:
        count = _DEFAULT_COUNT
    return frozenset(leaves if count < 0 else leaves[:count])


def _leaves(fields: Sequence[Field], above: _Path = ()) -> list[_Path]:
    """Every column that is not a struct, in order; lists and maps count as one."""
    paths: list[_Path] = []
    for field in fields:
        path = (*above, field.name)
        paths += _leaves(field.type.fields, path) if isinstance(field.type, StructType) else [path]
    return paths


def _named(text: str) -> list[_Path]:
    chosen = []
    for name in _split_commas(text):
        try:
            chosen.append(_folded(split_path(name.strip())))
        except SchemaError:
            continue  # an invalid path matches no column
    return chosen


def _split_commas(text: str) -> list[str]:
    """The parts between commas that are not inside backticks."""
    parts, quoted = [""], False
    for letter in text:
        quoted ^= letter == "`"
        if letter == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _folded(path: _Path) -> _Path:
    return tuple(name.casefold() for name in path)
