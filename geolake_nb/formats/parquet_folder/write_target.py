"""How the new files of a Parquet set are laid out and staged, and the action that publishes each."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.column_types import with_types
from geolake_nb.changes.write_job import require_writable_types
from geolake_nb.formats.iceberg.write_target import problem_text
from geolake_nb.formats.parquet_folder.commit import action
from geolake_nb.formats.parquet_folder.journal import STAGED
from geolake_nb.model.schema import Schema, join_path
from geolake_nb.model.types import (
    GeographyType,
    GeometryType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.parquet.geo_property import geo_template
from geolake_nb.storage.hive_paths import partition_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.types import DataType
    from geolake_nb.parquet.geo_property import CoveringColumn
    from geolake_nb.parquet.geoparquet import GeoMetadata
    from geolake_nb.parquet.writer import Layout, WrittenFile

__all__ = ["ParquetTarget", "file_types"]

_STAGED_SUFFIX = ".new"
"""The suffix of staged files: a pattern such as **/*.parquet must not match them."""

# What Arrow writes in place of types that it only reads.
_WRITTEN: dict[str, DataType] = {
    "bson": PrimitiveType("binary"),
    "enum": StringType(),
    "json": StringType(),
    "timestamp_int96": PrimitiveType("timestamptz"),
    "timetz": PrimitiveType("time"),
    "timetz_ms": PrimitiveType("time_ms"),
    "timetz_ns": PrimitiveType("time_ns"),
}
# Properties in which other writers describe the columns and the calendar of their own files: not those of new ones.
_OF_OLD_FILES = ("org.apache.spark.", "parquet.avro.schema", "writer.model.name")


@dataclass(frozen=True, slots=True, eq=False)
class ParquetTarget:
    """The requirements of a Parquet set for its new files."""

    schema: Schema
    """The columns of the set, those of its folders included."""
    partition_by: tuple[str, ...]
    geo: GeoMetadata | None
    """The `geo` property of the columns."""
    coverings: tuple[CoveringColumn, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    name: str | None = None
    """Of the file, where the table is a single one."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        partition_by: Sequence[str],
        *,
        before: GeoMetadata | None = None,
        coverings: Sequence[CoveringColumn] = (),
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> ParquetTarget:
        """The target of files with these columns; `before` is the `geo` property that the rows had.

        Of `properties`, those that describe the files of another writer are left out.
        """
        types = {
            field.name: field.type for field in schema.fields if isinstance(field.type, GeometryType | GeographyType)
        }
        kept = None if before is None else _without_others(before, types)
        geo = geo_template(types, before=kept)
        for covering in coverings:
            if geo is not None and covering.column in geo.columns:
                column = replace(geo.columns[covering.column], covering=covering.covering)
                geo = replace(geo, columns={**geo.columns, covering.column: column})
        if geo is not None:
            geo = replace(geo, version="1.1.0")
        kept_properties = tuple(
            sorted([(key, text) for key, text in (properties or {}).items() if not key.startswith(_OF_OLD_FILES)])
        )
        return cls(schema, tuple(partition_by), geo, tuple(coverings), kept_properties, name)

    def layout(self, job: WriteJob) -> Layout:
        """The columns without those that are in the names of folders."""
        from geolake_nb.parquet.writer import Layout

        inside = Schema(StructType(tuple(field for field in self.schema.fields if field.name not in self.partition_by)))
        return Layout(
            inside,
            row_group_rows=job.row_group_rows,
            geoparquet=self.geo,
            coverings=self.coverings,
            properties=self.properties,
            suffix=f".parquet{_STAGED_SUFFIX}",
        )

    def folder(self, partition: Partition) -> str:
        """The hidden folder of staged files, and below it folders by partition values, like Hive's."""
        names = zip(self.partition_by, partition, strict=True)
        return "/".join([STAGED, *[partition_folder(name, text) for name, text in names]])

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The action that publishes a file."""
        path = self.name or file.path.removeprefix(f"{STAGED}/").removesuffix(_STAGED_SUFFIX)
        put: dict[str, Any] = {"path": path, "from": file.path, "bytes": file.bytes, "rows": file.rows}
        problems = {
            join_path(parts): problem_text(stats)
            for parts, stats in file.geo.items()
            if stats.box is None and not stats.only_null_or_empty
        }
        return action("put", {**put, "problems": problems} if problems else put)

    def to_dict(self) -> dict[str, Any]:
        """`format, coverings, properties, name`."""
        return {
            "format": "parquet",
            "coverings": [[covering.column, covering.name, covering.narrow] for covering in self.coverings],
            "properties": dict(self.properties),
            "name": self.name,
        }


def file_types(schema: Schema, *, where: str | None = None) -> tuple[Schema, list[str]]:
    """The columns with types that can be written, and a sentence for each that changes; unsupported types are refused.

    >>> from geolake_nb.model.types import Field
    >>> notes = file_types(Schema(StructType((Field("doc", PrimitiveType("json")),))))[1]
    >>> notes
    ["'doc' is json and becomes string"]
    """
    require_writable_types(schema, where=where)
    types: dict[tuple[str, ...], DataType] = {}
    sentences: list[str] = []
    for parts, field in schema.walk_parts():
        new = _WRITTEN.get(field.type.name) if isinstance(field.type, PrimitiveType) else None
        if new is not None and isinstance(field.type, PrimitiveType):
            types[parts] = new
            name = new.name if isinstance(new, PrimitiveType) else "string"
            if name != field.type.name.replace("tz", ""):
                sentences.append(f"{join_path(parts)!r} is {field.type.name} and becomes {name}")
    return with_types(schema, types), sentences


def _without_others(before: GeoMetadata, names: Mapping[str, Any]) -> GeoMetadata | None:
    """The metadata without columns that the files do not have, and without what describes the old files only."""
    columns = {
        name: replace(column, bbox=None, geometry_types=()) for name, column in before.columns.items() if name in names
    }
    if not columns:
        return None
    primary = before.primary_column if before.primary_column in columns else next(iter(columns))
    return replace(before, columns=columns, primary_column=primary, extra=json.loads(json.dumps(dict(before.extra))))
