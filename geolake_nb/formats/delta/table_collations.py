"""The collations of a table for users: requested versions, versions that files have, stale files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.formats.delta.collated_strings import collations_of, measured_strings
from geolake_nb.formats.delta.collation_rules import newest_version
from geolake_nb.formats.delta.details import DeltaDetails
from geolake_nb.formats.delta.format import collation_hints
from geolake_nb.model.display import Displayable
from geolake_nb.model.schema import join_path
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["ColumnCollation", "TableCollations", "statistics_text", "table_collations", "without_values"]


@dataclass(frozen=True, slots=True)
class ColumnCollation:
    """The collation of one string, and what is known of its statistics."""

    path: str
    collation: Collation
    """Without a version, as in the schema."""
    has_statistics: bool
    """Whether files have statistics for it: not in a list or a map, not a partition column, and indexed."""
    hinted: tuple[str, ...] = ()
    """The versions that the table requests."""
    wanted: str | None = None
    """The newest of them, else the newest that a file has."""
    files: Mapping[str, int] = field(default_factory=dict, hash=False)
    """How many files have statistics of each version."""
    stale: tuple[str, ...] = ()
    """The files with values in the column and no statistics of the wanted version, as the log stores them."""

    def to_dict(self) -> dict[str, Any]:
        """`path, collation, has_statistics, hinted, wanted, files, stale_files, stale`."""
        return {
            "path": self.path,
            "collation": str(self.collation),
            "has_statistics": self.has_statistics,
            "hinted": list(self.hinted),
            "wanted": self.wanted,
            "files": dict(self.files),
            "stale_files": len(self.stale),
            "stale": list(self.stale),
        }


@dataclass(frozen=True, slots=True)
class TableCollations(Displayable):
    """The strings of a table that compare by a collation.

    >>> print(TableCollations("/t", 0, ()))
    /t: no string has a collation
    """

    location: str
    file_count: int
    columns: tuple[ColumnCollation, ...]

    @property
    def is_stale(self) -> bool:
        """Whether any file lacks wanted statistics."""
        return any(column.stale for column in self.columns)

    def __str__(self) -> str:
        if not self.columns:
            return printable(f"{self.location}: no string has a collation")
        rows = [_row(column, self.file_count) for column in self.columns]
        widths = [max(len(row[index]) for row in rows) for index in range(2)]
        lines = [f"  {path:{widths[0]}}  {name:{widths[1]}}  {what}" for path, name, what in rows]
        return "\n".join([printable(f"{self.location}: collations"), *lines])

    def to_dict(self) -> dict[str, Any]:
        """`location, file_count, columns`."""
        return {
            "location": self.location,
            "file_count": self.file_count,
            "columns": [column.to_dict() for column in self.columns],
        }


def statistics_text(column: ColumnCollation, count: int) -> str:
    """What is known of the statistics in so many files, in words.

    >>> from geolake_nb.model.collation import Collation
    >>> statistics_text(ColumnCollation("a", Collation("icu", "de"), True, (), "78", {"78": 2}, ("f",)), 3)
    'wants 78: 2 of 3 files have 78; 1 stale'
    """
    if not column.has_statistics:
        return "no statistics are kept of it"
    if column.wanted is None:
        return f"no statistics in {count:,} files"
    have = ", ".join(f"{files:,} of {count:,} files have {version}" for version, files in column.files.items())
    stale = f"{len(column.stale):,} stale" if column.stale else "none stale"
    return f"wants {column.wanted}: {have or 'no file has it'}; {stale}"


def _row(column: ColumnCollation, count: int) -> tuple[str, str, str]:
    return printable(column.path), printable(str(column.collation)), printable(statistics_text(column, count))


def table_collations(snapshot: Snapshot) -> TableCollations:
    """The collations of a snapshot; other formats than Delta have none."""
    details = snapshot.details
    if not isinstance(details, DeltaDetails):
        return TableCollations(snapshot.location, len(snapshot.files), ())
    measured = measured_strings(
        snapshot.schema,
        mapping=details.column_mapping,
        indexed=details.indexed,
        partitions=snapshot.partition_columns,
    )
    have = {string.path for string in measured}
    hints = collation_hints(snapshot)
    files_with = _files_by_version(snapshot)
    columns = []
    for path, collation in collations_of(snapshot.schema).items():
        if path not in have:
            columns.append(ColumnCollation(join_path(path), collation, has_statistics=False))
            continue
        versions = {version: has for (column, version), has in files_with.items() if column == path}
        hinted = hints.versions_of(collation)
        wanted = newest_version(hinted or tuple(versions))
        nothing = np.zeros(len(snapshot.files), np.bool_)
        stale = ~(versions.get(wanted, nothing) if wanted else nothing) & ~without_values(snapshot, path)
        columns.append(
            ColumnCollation(
                join_path(path),
                collation,
                has_statistics=True,
                hinted=hinted,
                wanted=wanted,
                files={version: int(has.sum()) for version, has in versions.items()},
                stale=tuple(snapshot.files.table["path"].filter(pa.array(stale)).to_pylist()),
            )
        )
    return TableCollations(snapshot.location, len(snapshot.files), tuple(columns))


def _files_by_version(snapshot: Snapshot) -> dict[tuple[tuple[str, ...], str], NDArray[np.bool_]]:
    """Which files have statistics of each column under its collation, by the version."""
    wanted = collations_of(snapshot.schema)
    return {
        (files.column, files.collation.version): files.has
        for files in snapshot.format.collated_files(snapshot)
        if files.collation.version is not None and files.collation.unversioned() == wanted[files.column]
    }


def without_values(snapshot: Snapshot, path: tuple[str, ...]) -> NDArray[np.bool_]:
    """The files that certainly have no value in the column: only nulls, or no rows."""
    scalars = snapshot.scalars(path)
    if scalars is None:
        return np.zeros(len(snapshot.files), np.bool_)
    return scalars.only_nulls
