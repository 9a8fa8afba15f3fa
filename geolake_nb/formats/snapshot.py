"""One model of a table at one version, whatever its format."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.core.message_text import printable
from geolake_nb.core.showing import Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from geolake_nb.core.predicate import ColumnPath
    from geolake_nb.core.scalar_column import ScalarColumn
    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.file_table import FileTable

__all__ = ["Feature", "History", "Protocol", "Snapshot", "TableFormat", "VersionInfo"]


class TableFormat(enum.Enum):
    """The format of a table."""

    DELTA = "delta"
    """Delta Lake: a log of JSON commits and Parquet checkpoints."""
    ICEBERG = "iceberg"
    """Apache Iceberg: metadata files, manifest lists and manifests."""
    HAVASU = "havasu"
    """Iceberg v1 or v2 with geometry and raster columns and spatial bounds in its manifests."""
    PARQUET = "parquet"
    """One Parquet file, or a folder of them, with or without GeoParquet metadata."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A capability that a table asks of its readers, its writers or both."""

    name: str
    meaning: str
    """In one sentence; says so when the feature is not known."""
    needed_to_read: bool = False
    needed_to_write: bool = True
    known: bool = True


@dataclass(frozen=True, slots=True)
class Protocol(Shown):
    """What an engine must speak to read and to write the table.

    >>> print(Protocol("reader 3, writer 7", (Feature("geospatial", "geometry and geography columns"),)))
    reader 3, writer 7
      geospatial: geometry and geography columns
    """

    summary: str
    """Such as `reader 3, writer 7`, `format version 3`, `Havasu 0.1.0 on Iceberg 2`, `GeoParquet 1.1.0`."""
    features: tuple[Feature, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Such as `{"minReaderVersion": 3, "minWriterVersion": 7}` or `{"format-version": 2}`."""

    def __str__(self) -> str:
        lines = [f"  {printable(one.name, 100)}: {one.meaning}" for one in self.features]
        return "\n".join([self.summary, *lines])


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One entry of a table's history."""

    version: int
    """The Delta version or the Iceberg snapshot id."""
    timestamp: datetime | None
    operation: str | None
    parent: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    """What the format stores beside it: operation parameters and metrics, summary, refs."""


class History(Shown, list[VersionInfo]):
    """The versions of a table, newest first.

    >>> print(History([VersionInfo(1, None, "WRITE")]))
                 version  time (UTC)          operation
                       1                      WRITE
    >>> History() == []
    True
    """

    def __str__(self) -> str:
        lines = [f"{'version':>20}  {'time (UTC)':20}operation"]
        for one in self:
            when = "" if one.timestamp is None else f"{one.timestamp:%Y-%m-%d %H:%M:%S}"
            lines.append(f"{one.version:>20}  {when:20}{printable(one.operation or '', 200)}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # IPython has its own way with lists, which comes before that of a `Shown`.
        printer.text(repr(self) if cycle else str(self))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A table at one version: everything that inspection needs, from metadata alone."""

    format: TableFormat
    location: str
    """The root of the table, an absolute path or a URL without secrets."""
    version: int | None
    """The Delta version or the Iceberg snapshot id; `None` for a Parquet set or a table without snapshots."""
    timestamp: datetime | None
    schema: Schema
    protocol: Protocol
    files: FileTable
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    """Names of partition columns (Delta, Parquet) or partition fields such as `day(ts)` (Iceberg)."""
    details: Any = None
    """What only this format has, as a frozen object of the format's own package: for checks and plans."""
    scalars: Callable[[ColumnPath], ScalarColumn | None] = field(default=lambda _: None)
    """Min, max and null count of a plain column in every file, by logical path, in the order of `files`."""
