"""One model of a table at one version, whatever its format, and how its data files name its columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.model.display import Displayable
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from geolake_nb.model.file_table import FileTable
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.statistics import ScalarColumn
    from geolake_nb.model.table_format import FileField, TableFormat
    from geolake_nb.model.types import Field

__all__ = ["Feature", "History", "Protocol", "Snapshot", "VersionInfo", "file_field", "file_fields", "geo_file_fields"]


@dataclass(frozen=True, slots=True)
class Feature:
    """A capability that a table requires of its readers, its writers or both."""

    name: str
    meaning: str
    """In one sentence, also for an unknown feature."""
    needed_to_read: bool = False
    needed_to_write: bool = True
    known: bool = True


@dataclass(frozen=True, slots=True)
class Protocol(Displayable):
    """The features that an engine must support to read and to write the table.

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
        lines = [f"  {printable(feature.name, 100)}: {feature.meaning}" for feature in self.features]
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
    """Other details of the format: operation parameters and metrics, summary, refs."""


class History(Displayable, list[VersionInfo]):
    """The versions of a table, newest first.

    >>> print(History([VersionInfo(1, None, "WRITE")]))
                 version  time (UTC)          operation
                       1                      WRITE
    >>> History() == []
    True
    """

    def __str__(self) -> str:
        lines = [f"{'version':>20}  {'time (UTC)':20}operation"]
        for entry in self:
            when = "" if entry.timestamp is None else f"{entry.timestamp:%Y-%m-%d %H:%M:%S}"
            lines.append(f"{entry.version:>20}  {when:20}{printable(entry.operation or '', 200)}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # IPython's own formatter for lists takes precedence over that of a `Displayable`.
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
    """Details of this format, a frozen object of its package, for checks and plans."""
    scalars: Callable[[tuple[str, ...]], ScalarColumn | None] = field(default=lambda _: None)
    """Min, max and null count of a primitive column in every file, by logical path, in the order of `files`."""


def file_field(snapshot: Snapshot, path: str) -> FileField:
    """How the data files of a table name the column of this path."""
    wanted = snapshot.schema.find(path)
    spelled = next((parts for parts, field in snapshot.schema.walk_parts() if field is wanted), split_path(path))
    return snapshot.format.field_naming(snapshot)(spelled, wanted)


def geo_file_fields(snapshot: Snapshot) -> dict[str, FileField]:
    """The same for every geo column, by path."""
    geo = {id(column) for _, column in snapshot.schema.geo_columns()}
    return file_fields(snapshot, lambda column: id(column) in geo)


def file_fields(snapshot: Snapshot, is_wanted: Callable[[Field], bool]) -> dict[str, FileField]:
    """The same of the columns that are wanted, by path."""
    naming = snapshot.format.field_naming(snapshot)
    columns = [(parts, column) for parts, column in snapshot.schema.walk_parts() if is_wanted(column)]
    return {join_path(parts): naming(parts, column) for parts, column in columns}
