"""How the new files of a Parquet set are laid out, where they wait, and the action that puts each in its place."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema import Schema, join_path
from geolake_nb.core.types import (
    GeographyType,
    GeometryType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.formats.parquet.geo_property import geo_template
from geolake_nb.formats.parquet.hive_paths import partition_folder
from geolake_nb.formats.parquet.journal import STAGED
from geolake_nb.formats.parquet.replace import action
from geolake_nb.planning.manifests.target import problem_text
from geolake_nb.planning.writing.column_types import with_types
from geolake_nb.planning.writing.job import require_writable_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.core.geoparquet import GeoMetadata
    from geolake_nb.core.types import DataType
    from geolake_nb.formats.parquet.covering import CoveringColumn
    from geolake_nb.formats.parquet.writer import Layout, WrittenFile
    from geolake_nb.planning.writing.job import WriteJob
    from geolake_nb.planning.writing.sampling import Partition

__all__ = ["ParquetTarget", "file_types"]

_WAITING = ".new"
"""How the names of files end that are not yet in their place: a pattern such as **/*.parquet must not find them."""

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
    """What a Parquet set asks of its new files."""

    schema: Schema
    """The columns of the set, those of its folders included."""
    partition_by: tuple[str, ...]
    geo: GeoMetadata | None
    """What the `geo` property says of the columns."""
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
        types = {one.name: one.type for one in schema.fields if isinstance(one.type, GeometryType | GeographyType)}
        kept = None if before is None else _without_others(before, types)
        geo = geo_template(types, before=kept)
        for one in coverings:
            if geo is not None and one.column in geo.columns:
                column = replace(geo.columns[one.column], covering=one.covering)
                geo = replace(geo, columns={**geo.columns, one.column: column})
        if geo is not None:
            geo = replace(geo, version="1.1.0")
        held = tuple(
            sorted([(key, text) for key, text in (properties or {}).items() if not key.startswith(_OF_OLD_FILES)])
        )
        return cls(schema, tuple(partition_by), geo, tuple(coverings), held, name)

    def layout(self, job: WriteJob) -> Layout:
        """The columns without those that are in the names of folders."""
        from geolake_nb.formats.parquet.writer import Layout

        inside = Schema(StructType(tuple(one for one in self.schema.fields if one.name not in self.partition_by)))
        return Layout(
            inside,
            row_group_rows=job.row_group_rows,
            geoparquet=self.geo,
            coverings=self.coverings,
            properties=self.properties,
            suffix=f".parquet{_WAITING}",
        )

    def folder(self, partition: Partition) -> str:
        """The hidden folder in which files wait, and below it folders by partition values, as Hive has them."""
        names = zip(self.partition_by, partition, strict=True)
        return "/".join([STAGED, *[partition_folder(name, text) for name, text in names]])

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The action that puts a file in its place."""
        path = self.name or file.path.removeprefix(f"{STAGED}/").removesuffix(_WAITING)
        held: dict[str, Any] = {"path": path, "from": file.path, "bytes": file.bytes, "rows": file.rows}
        problems = {
            join_path(parts): problem_text(stats)
            for parts, stats in file.geo.items()
            if stats.box is None and not stats.only_null_or_empty
        }
        return action("put", {**held, "problems": problems} if problems else held)

    def to_dict(self) -> dict[str, Any]:
        """`format, coverings, properties, name`."""
        return {
            "format": "parquet",
            "coverings": [[one.column, one.name, one.narrow] for one in self.coverings],
            "properties": dict(self.properties),
            "name": self.name,
        }


def file_types(schema: Schema, *, where: str | None = None) -> tuple[Schema, list[str]]:
    """The columns with types that can be written, and a sentence for each that changes; one that has none is refused.

    >>> from geolake_nb.core.types import Field
    >>> told = file_types(Schema(StructType((Field("doc", PrimitiveType("json")),))))[1]
    >>> told
    ["'doc' is json and becomes string"]
    """
    require_writable_types(schema, where=where)
    types: dict[tuple[str, ...], DataType] = {}
    told: list[str] = []
    for parts, one in schema.walk_parts():
        new = _WRITTEN.get(one.type.name) if isinstance(one.type, PrimitiveType) else None
        if new is not None and isinstance(one.type, PrimitiveType):
            types[parts] = new
            name = new.name if isinstance(new, PrimitiveType) else "string"
            if name != one.type.name.replace("tz", ""):
                told.append(f"{join_path(parts)!r} is {one.type.name} and becomes {name}")
    return with_types(schema, types), told


def _without_others(before: GeoMetadata, names: Mapping[str, Any]) -> GeoMetadata | None:
    """The metadata without columns that the files do not have, and without what held for the old files alone."""
    columns = {
        name: replace(column, bbox=None, geometry_types=()) for name, column in before.columns.items() if name in names
    }
    if not columns:
        return None
    primary = before.primary_column if before.primary_column in columns else next(iter(columns))
    return replace(before, columns=columns, primary_column=primary, extra=json.loads(json.dumps(dict(before.extra))))
