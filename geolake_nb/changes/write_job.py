"""The job that writes rows to new files of a table, for every verb."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from geolake_nb.changes.packing import ROW_GROUP_ROWS
from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import Schema, join_path, type_name
from geolake_nb.model.types import PrimitiveType, RasterType, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.changes.clustering import Ordering
    from geolake_nb.changes.partition_keys import KeyColumn
    from geolake_nb.changes.row_sources import DeltaRows, IcebergRows, InputRows, ParquetRows
    from geolake_nb.changes.sampling import Partition
    from geolake_nb.model.types import GeographyType, GeometryEncoding, GeometryType
    from geolake_nb.parquet.writer import Layout, WrittenFile

__all__ = ["GeoInput", "Target", "WriteJob", "require_writable_types"]

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
    ordering: Ordering | None = None
    """`None` keeps the order of the rows."""
    row_group_rows: int = ROW_GROUP_ROWS
    expected_rows: int | None = None
    """The number of rows that have to be written: another one fails before the commit."""

    @property
    def given_schema(self) -> Schema:
        """The columns of the input rows."""
        fields = tuple(field for field in self.schema.fields if field.name not in self.keys)
        return replace(self.schema, root=StructType(fields)) if self.keys else self.schema

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
