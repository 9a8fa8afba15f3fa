"""Details specific to Delta tables, for checks and plans."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, SchemaError, UnsupportedTableError
from geolake_nb.model.schema import Schema, join_path, split_path
from geolake_nb.model.types import Field, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from geolake_nb.formats.delta.file_stats import FileStats
    from geolake_nb.formats.delta.log_segment import CheckpointHint, LogSegment

__all__ = ["ColumnMapping", "DeltaDetails", "DeltaMetadata", "indexed_columns"]


class ColumnMapping(enum.Enum):
    """How data files and statistics identify a column."""

    NONE = "none"
    """By the name in the schema."""
    NAME = "name"
    """By a physical name in the metadata of the field."""
    ID = "id"
    """Data files by a field id; statistics and partition values by the physical name."""

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> ColumnMapping:
        """The mode in the table's properties.

        >>> ColumnMapping.of({}), ColumnMapping.of({"delta.columnMapping.mode": "name"})
        (<ColumnMapping.NONE: 'none'>, <ColumnMapping.NAME: 'name'>)
        """
        mode = configuration.get("delta.columnMapping.mode", "none")
        try:
            return cls(mode.lower())
        except ValueError:
            known = ", ".join(sorted(member.value for member in cls))
            raise UnsupportedTableError(f"unknown column mapping {mode[:40]!r}", remedy=f"known: {known}") from None

    def physical(self, schema: Schema, path: tuple[str, ...]) -> tuple[str, ...]:
        """The names of a column and its parents in statistics and partition values."""
        return path if self is ColumnMapping.NONE else schema.physical_path(join_path(path))


@dataclass(frozen=True, slots=True)
class DeltaMetadata:
    """The `metaData` action.

    >>> DeltaMetadata.of({"schemaString": "{}", "partitionColumns": ["day"], "configuration": {}}).partition_columns
    ('day',)
    """

    id: str | None
    name: str | None
    description: str | None
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str] = dataclasses.field(hash=False)
    raw: Mapping[str, Any] = dataclasses.field(hash=False)
    """The action as read."""

    @classmethod
    def of(cls, action: Mapping[str, Any], *, where: str | None = None) -> DeltaMetadata:
        """The metadata of an action."""
        schema = action.get("schemaString")
        partitions = action.get("partitionColumns") or []
        configuration = action.get("configuration") or {}
        if not isinstance(schema, str):
            raise CorruptTableError("the metaData action has no schemaString", where=where)
        if not isinstance(partitions, list) or not all(isinstance(name, str) for name in partitions):
            raise CorruptTableError("the metaData action has partitionColumns that are not a list", where=where)
        if len(set(partitions)) < len(partitions):
            raise CorruptTableError("the metaData action lists a partition column twice", where=where)
        if not isinstance(configuration, dict):
            raise CorruptTableError("the metaData action has a configuration that is not a JSON object", where=where)
        properties = {key: str(value) for key, value in configuration.items() if value is not None}
        named = {key: _text(action.get(key)) for key in ("id", "name", "description")}
        return cls(
            named["id"],
            named["name"],
            named["description"],
            schema,
            tuple(partitions),
            configuration=properties,
            raw=action,
        )


@dataclass(frozen=True, slots=True, eq=False)
class DeltaDetails:
    """Details specific to Delta tables; columns have one value per file, in the order of the snapshot's files."""

    metadata: DeltaMetadata
    protocol: Mapping[str, Any]
    """The `protocol` action as read."""
    column_mapping: ColumnMapping
    domains: Mapping[str, str]
    """The configuration of each metadata domain."""
    transactions: Mapping[str, Mapping[str, Any]]
    """The newest `txn` action of each application."""
    commit_info: Mapping[str, Any] | None
    """The `commitInfo` of the version, `None` if its commit was cleaned up or has none."""
    segment: LogSegment
    """The log files of the version."""
    checkpoint_hint: CheckpointHint
    """Whether `_last_checkpoint` is usable."""
    stats: FileStats
    """Statistics as stored: raw strings, single ones as JSON objects, collated ranges."""
    deletion_vectors: pa.ChunkedArray
    """The descriptors, null for a file without one."""
    indexed: frozenset[tuple[str, ...]]
    """The columns with statistics, by logical path; others have none on purpose."""
    unreconciled: tuple[str, ...] = ()
    """Compacted logs that list a file more than once; their commits were read instead."""
    unread_partitions: tuple[str, ...] = ()
    """Partition columns with a value that does not parse as their type; they stay strings."""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


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
