"""Details specific to Delta tables, for checks and plans."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.model.schema import Schema, join_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from geolake_nb.formats.delta.file_stats import FileStats
    from geolake_nb.formats.delta.log_segment import CheckpointHint, LogSegment

__all__ = ["ColumnMapping", "DeltaDetails", "DeltaMetadata"]


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
    configuration: Mapping[str, str] = field(hash=False)
    raw: Mapping[str, Any] = field(hash=False)
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
