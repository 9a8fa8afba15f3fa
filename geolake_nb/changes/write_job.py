"""The job that writes rows to new files of a table: their source, partitions, order and sizes."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from geolake_nb.changes.clustering import Ordering
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.model.schema import Schema, join_path, type_name
from geolake_nb.model.types import Field, PrimitiveType, RasterType, StringType, StructType
from geolake_nb.scan.layout import TARGET_BYTES
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Self

    from geolake_nb.changes.cell_columns import CellColumn
    from geolake_nb.changes.sampling import Partition
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType, GeographyType, GeometryEncoding, GeometryType
    from geolake_nb.parquet.writer import Layout, WrittenFile
    from geolake_nb.storage.storage import Storage

__all__ = [
    "ROW_GROUP_ROWS",
    "TARGET_BYTES",
    "DeltaRows",
    "GeoInput",
    "IcebergRows",
    "InputRows",
    "KeyColumn",
    "Packing",
    "ParquetFileRows",
    "ParquetRows",
    "RowPartitions",
    "Target",
    "WriteJob",
    "require_partition_columns",
    "require_writable_types",
    "size_of",
]

ROW_GROUP_ROWS = 65_536
"""The default number of rows in a row group."""
_MAX_GROUP_ROWS = 1 << 20
_FILTER_LENGTH = 1000
"""What the history of a table gets of a filter: a geometry may have a million points."""

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB|TB|KIB|MIB|GIB|TIB)?\s*", re.IGNORECASE)
_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


@dataclass(frozen=True, slots=True)
class Packing:
    """The options of a user for new files."""

    cluster_by: tuple[str, ...] = ()
    curve: str = "hilbert"
    target_bytes: int = TARGET_BYTES
    row_group_rows: int = ROW_GROUP_ROWS

    @classmethod
    def of(
        cls,
        *,
        cluster_by: str | Sequence[str] = (),
        curve: str = "hilbert",
        target_file_size: int | str = TARGET_BYTES,
        row_group_rows: int | None = None,
        where: str | None = None,
    ) -> Self:
        """The packing from a user's options; `where` names the table in errors.

        >>> Packing.of(cluster_by="geom", target_file_size="1MB")
        Packing(cluster_by=('geom',), curve='hilbert', target_bytes=1000000, row_group_rows=65536)
        >>> Packing.of(row_group_rows=0)
        Traceback (most recent call last):
        geolake_nb.errors.RefusedError: a row group has 1 to 1,048,576 rows, not 0
        """
        rows = ROW_GROUP_ROWS if row_group_rows is None else row_group_rows
        if not 1 <= rows <= _MAX_GROUP_ROWS:
            raise RefusedError(f"a row group has 1 to {_MAX_GROUP_ROWS:,} rows, not {rows:,}", where=where)
        columns = (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by)
        return cls(columns, curve, size_of(target_file_size), rows)

    def ordering(self, schema: Schema, partition_by: Collection[str] = ()) -> Ordering | None:
        """The order of the rows of a table with these columns; `None` keeps their order."""
        return Ordering.of(self.cluster_by, self.curve, schema, partition_by=tuple(partition_by))

    def job(
        self,
        rows: DeltaRows | InputRows | IcebergRows | ParquetRows,
        schema: Schema,
        target: Target,
        *,
        partition_by: tuple[str, ...],
        geo_input: Mapping[str, GeoInput],
        keys: Mapping[str, KeyColumn] | None = None,
        cells: Mapping[str, CellColumn] | None = None,
        expected_rows: int | None = None,
    ) -> WriteJob:
        """The job that writes rows in this packing to a table with these columns; `keys` are computed beside them,
        and of its columns the `cells`.
        """
        keys = keys or {}
        fields = (*schema.fields, *(Field(name, StringType()) for name in keys))
        return WriteJob(
            rows=rows,
            schema=replace(schema, root=StructType(fields)) if keys else schema,
            target=target,
            partition_by=partition_by,
            target_bytes=self.target_bytes,
            geo_input=geo_input,
            keys=keys,
            cells=cells or {},
            ordering=self.ordering(schema, partition_by),
            row_group_rows=self.row_group_rows,
            expected_rows=expected_rows,
        )

    def parameters(self, ordering: Ordering | None, where: Predicate | None) -> dict[str, str]:
        """The parameters of a rewrite for the history of the table."""
        return {
            "clusterBy": json.dumps([] if ordering is None else list(ordering.columns)),
            "curve": json.dumps(None if ordering is None else ordering.curve.value),
            "targetFileSize": str(self.target_bytes),
            "rowGroupRows": str(self.row_group_rows),
            "predicate": json.dumps(None if where is None else printable(str(where), _FILTER_LENGTH)),
        }


def size_of(size: int | str) -> int:
    """A size in bytes, from a number or a text such as `128MB`.

    >>> size_of("128MB"), size_of("1 MiB"), size_of(7)
    (128000000, 1048576, 7)
    >>> size_of("big")
    Traceback (most recent call last):
    geolake_nb.errors.RefusedError: 'big' is not a valid file size; write one such as 128MB
    """
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    count = size if isinstance(size, int) else 0
    if match:
        count = int(float(match[1]) * _UNITS[(match[2] or "B").upper()])
    if count < 1:
        raise RefusedError(f"{size!r} is not a valid file size", remedy="write one such as 128MB")
    return count


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that is computed to partition files and is not stored in them: see `partitions.partition_keys`."""

    source: str
    transform: str
    type: DataType
    """Of the source."""


@dataclass(frozen=True, slots=True, eq=False)
class RowPartitions:
    """The columns that partition new rows, in the order of the partition spec."""

    fields: Mapping[str, int]
    """With the ids of their partition fields."""
    keys: Mapping[str, KeyColumn]
    """Those that are computed."""
    described: tuple[str, ...]
    """As in SQL."""


def require_partition_columns(schema: Schema, partition_by: Iterable[str], where: str) -> None:
    """Raise where a table would be partitioned by a column that it does not have."""
    known = {field.name for field in schema.fields}
    for name in partition_by:
        if name not in known:
            remedy = f"use one of: {', '.join(sorted(known))}"
            raise SchemaError(f"no column {name!r} to partition by", where=where, remedy=remedy)


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
    storage: Storage | None = None
    """Reads the files, where they are not those of the table that is written."""
    expected: int | None = None
    """How many live rows of another table there are; `None` where only its delete files determine it."""

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


_NOT_WRITTEN = ("interval", "unknown", "variant")


@dataclass(frozen=True, slots=True)
class GeoInput:
    """A column that arrives as bytes or text and becomes a geometry or geography of this type, in its encoding."""

    type: GeometryType | GeographyType
    encoding: GeometryEncoding
    """How the values arrive; the SRIDs in EWKB have to be that of the type's CRS."""
    keeps_own: bool = False
    """Whether bytes that cannot be read, or have an SRID of their own, are written as they are."""
    keeps_bad: bool = False
    """Whether bytes that cannot be read are written as they are."""

    def to_dict(self) -> dict[str, Any]:
        """`type, encoding`."""
        return {"type": type_name(self.type), "encoding": self.encoding.value}


class Target(Protocol):
    """The requirements of a format for new files; it is sent to the processes that write them."""

    def layout(self, job: WriteJob) -> Layout:
        """Which columns a file has, and how they are stored."""
        ...

    def folder(self, partition: Partition) -> str:
        """The folder of a partition below the root of the table; empty for the root itself."""
        ...

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The action that adds a file, as JSON."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The requirements in plain values, the same whenever the same change is planned."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class WriteJob:
    """New files with the rows of a source; the job gives the action that adds each file."""

    rows: DeltaRows | InputRows | IcebergRows | ParquetRows
    """What `geolake_nb.spark.row_sources` can read."""
    schema: Schema
    """The columns of the table that is written to, partition columns included."""
    target: Target
    partition_by: tuple[str, ...]
    """The columns that partition files; whether a file holds them is up to the target."""
    target_bytes: int
    geo_input: Mapping[str, GeoInput] = field(default_factory=dict)
    """By the paths of columns, which lead through structs."""
    keys: Mapping[str, KeyColumn] = field(default_factory=dict)
    """Columns of the schema that are computed from others."""
    cells: Mapping[str, CellColumn] = field(default_factory=dict)
    """Columns of the schema that are computed from geometries, and stored."""
    ordering: Ordering | None = None
    """`None` keeps the order of the rows."""
    row_group_rows: int = ROW_GROUP_ROWS
    expected_rows: int | None = None
    """The number of rows that have to be written: another one fails before the commit."""

    @property
    def given_schema(self) -> Schema:
        """The columns of the input rows."""
        fields = tuple(
            field for field in self.schema.fields if field.name not in self.keys and field.name not in self.cells
        )
        return replace(self.schema, root=StructType(fields)) if self.keys or self.cells else self.schema

    def to_dict(self) -> dict[str, Any]:
        """`rows, ordering, partition_by, geo_input, target_bytes, row_group_rows, expected_rows, target`."""
        return {
            "rows": self.rows.to_dict(),
            "ordering": None if self.ordering is None else self.ordering.to_dict(),
            "partition_by": [self._described(name) for name in self.partition_by],
            "geo_input": {name: geo_input.to_dict() for name, geo_input in sorted(self.geo_input.items())},
            "target_bytes": self.target_bytes,
            "row_group_rows": self.row_group_rows,
            "expected_rows": self.expected_rows,
            "target": self.target.to_dict(),
        }

    def _described(self, name: str) -> str:
        if name in self.cells:
            return f"{name}: {self.cells[name].cell}"
        key = self.keys.get(name)
        return name if key is None else f"{key.transform} of {key.source}"


def require_writable_types(schema: Schema, *, where: str | None = None) -> None:
    """Raise if a column is of a type that cannot be written without loss.

    >>> from geolake_nb.model.types import Field, StructType
    >>> require_writable_types(Schema(StructType((Field("v", PrimitiveType("variant")),))), where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t: the column 'v' is of type variant, which cannot be written
    >>> require_writable_types(Schema())
    """
    for parts, column in schema.walk_parts():
        plain = isinstance(column.type, PrimitiveType) and column.type.name.startswith(_NOT_WRITTEN)
        if plain or isinstance(column.type, RasterType):
            what = f"the column {join_path(parts)!r} is of type {type_name(column.type)}, which cannot be written"
            raise SchemaError(what, where=where)
