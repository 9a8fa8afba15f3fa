"""The sources of the rows that a job writes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.model.schema import join_path, type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["DeltaRows", "IcebergRows", "InputRows", "ParquetFileRows", "ParquetRows"]


@dataclass(frozen=True, slots=True, eq=False)
class DeltaRows:
    """The live rows of a Delta table at one version, or of some of its files."""

    snapshot: Snapshot
    files: tuple[int, ...] | None = None
    """The indices of the files in the snapshot's file table, sorted; `None` for all of them."""

    @property
    def paths(self) -> list[str]:
        """The paths of the files as the log stores them."""
        column = self.snapshot.files.table["path"]
        paths: list[str] = (column if self.files is None else column.take(list(self.files))).to_pylist()
        return paths

    def to_dict(self) -> dict[str, Any]:
        """`source, version, files, paths` (a digest of the paths)."""
        paths = self.paths
        digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()
        return {"source": "delta", "version": self.snapshot.version, "files": len(paths), "paths": digest[:12]}


@dataclass(frozen=True, slots=True, eq=False)
class IcebergRows:
    """The live rows of an Iceberg or Havasu table at one snapshot, or of some of its data files."""

    snapshot: Snapshot
    files: tuple[int, ...] | None = None
    """The indices of the files in the snapshot's file table, sorted; `None` for all of them."""
    partitions: tuple[int, ...] | None = None
    """For each of these files a number, the value of the column `live_rows.PARTITION` in its rows."""

    @property
    def paths(self) -> list[str]:
        """The paths of the files as the manifests store them."""
        column = self.snapshot.files.table["path"]
        paths: list[str] = (column if self.files is None else column.take(list(self.files))).to_pylist()
        return paths

    def to_dict(self) -> dict[str, Any]:
        """`source, version, files, paths` (a digest of the paths)."""
        paths = self.paths
        digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()
        source = self.snapshot.format.name
        return {"source": source, "version": self.snapshot.version, "files": len(paths), "paths": digest[:12]}


@dataclass(frozen=True, slots=True)
class ParquetFileRows:
    """The rows of one file of a Parquet set."""

    path: str
    bytes: int
    groups: tuple[int, ...]
    """The rows of each row group."""
    partition: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The values of partition columns from its folders, the same in all of its rows."""


@dataclass(frozen=True, slots=True, eq=False)
class ParquetRows:
    """The rows of a set of Parquet files; a column that a file lacks is null there."""

    storage: Storage
    """Reads the paths of the files."""
    location: str
    """The location as the user gave it."""
    files: tuple[ParquetFileRows, ...]
    snapshot: Snapshot | None = None
    """The set that the files are of."""

    @property
    def rows(self) -> int:
        """How many there are, by the footers."""
        return sum(sum(file.groups) for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """`source, location, files, rows, paths` (a digest of the paths and sizes)."""
        listed = "\n".join(f"{file.path} {file.bytes}" for file in self.files)
        digest = hashlib.sha256(listed.encode()).hexdigest()
        return {
            "source": "parquet",
            "location": self.location,
            "files": len(self.files),
            "rows": self.rows,
            "paths": digest[:12],
        }


@dataclass(frozen=True, slots=True, eq=False)
class InputRows:
    """The rows of a user: a Spark DataFrame or an Arrow table."""

    frame: Any
    schema: Schema
    """Its columns as they are."""

    def to_dict(self) -> dict[str, Any]:
        """`source, columns`: the rows themselves are not read yet."""
        columns = {join_path(path): type_name(field.type) for path, field in self.schema.walk_parts()}
        return {"source": "given", "columns": columns}
