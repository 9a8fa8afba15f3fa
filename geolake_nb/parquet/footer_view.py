"""A parsed Parquet footer: schema, GeoParquet metadata, and the leaf columns."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from geolake_nb.errors import CorruptTableError, GeolakeError, SchemaError
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, CrsForm
from geolake_nb.parquet.box_mark import BOX_MARK, has_box_mark
from geolake_nb.parquet.foreign_boxes import is_own_writer
from geolake_nb.parquet.geoparquet import from_geo_metadata
from geolake_nb.parquet.schema import from_parquet_schema, with_geo_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.crs import Crs
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.parquet.geoparquet import GeoColumn, GeoMetadata

__all__ = ["FileView", "FooterReader", "SchemaIndex"]

# Properties that differ from file to file and do not affect the schema.
_NOT_SHARED = (b"ARROW:schema", b"geo", BOX_MARK.encode())


@dataclass(frozen=True, slots=True, eq=False)
class SchemaIndex:
    """The fields of a schema by path and by id."""

    by_parts: Mapping[tuple[str, ...], Field]
    by_id: Mapping[int, Field]
    parts_by_id: Mapping[int, tuple[str, ...]]
    folded_names: frozenset[str]
    """The case-folded names of the top-level fields."""

    @classmethod
    def of(cls, schema: Schema) -> SchemaIndex:
        """The index of a schema."""
        parts = dict(schema.walk_parts())
        ids = {field.id: path for path, field in parts.items() if field.id is not None}
        folded = frozenset(field.name.casefold() for field in schema.fields)
        return cls(parts, {id_: parts[path] for id_, path in ids.items()}, ids, folded)


@dataclass(frozen=True, slots=True, eq=False)
class FileView:
    """The parsed footer of one file."""

    metadata: pq.FileMetaData
    parquet_schema: Schema
    """With the types of Parquet only; equal schemas of many files are one object."""
    parquet_fields: Mapping[tuple[str, ...], Field]
    """Its fields by their names from the top down."""
    schema: Schema
    """The same with the geometry columns of GeoParquet metadata."""
    leaves: Mapping[str, int]
    """The index of each leaf column by its path in the file."""
    sorted_leaves: Sequence[str]
    geo: GeoMetadata | None
    geo_problem: str | None
    """Which rule the GeoParquet metadata violates; `geo` is still set if only a CRS violates one."""
    own: bool
    """Whether this package wrote the file, or its boxes."""

    index: SchemaIndex

    def find(self, parts: tuple[str, ...], *, field_id: int | None = None) -> Field | None:
        """The field of the file for a table's column: by its id where both have ids, else by its names."""
        if field_id is not None and self.index.by_id:
            return self.index.by_id.get(field_id)
        return self.index.by_parts.get(parts)

    def parts(self, parts: tuple[str, ...], *, field_id: int | None = None) -> tuple[str, ...] | None:
        """The names that the column of `find` and its parents have in the file."""
        if field_id is not None and self.index.by_id:
            return self.index.parts_by_id.get(field_id)
        return parts if parts in self.index.by_parts else None

    def lacks(self, parts: tuple[str, ...], *, field_id: int | None = None) -> bool:
        """Whether the file certainly lacks the column, so that every row reads as null.

        A table with ids may know the columns of a file without ids by other names.
        """
        if field_id is not None:
            return bool(self.index.by_id) and field_id not in self.index.by_id
        return parts[0].casefold() not in self.index.folded_names

    def geo_of(self, field: Field) -> GeoColumn | None:
        """The GeoParquet metadata of a field of the file; only top-level ones have any."""
        top = self.index.by_parts.get((field.name,)) is field
        return self.geo.columns.get(field.name) if self.geo is not None and top else None

    def leaves_below(self, name: str) -> list[str]:
        """The paths of the leaves inside a top-level field, in the order of the file."""
        start = bisect_left(self.sorted_leaves, f"{name}.")
        inside = takewhile(lambda path: path.startswith(f"{name}."), islice(self.sorted_leaves, start, None))
        return sorted(inside, key=lambda path: self.leaves[path])


class FooterReader:
    """Reads footers into views; what many files share is computed once."""

    def __init__(self) -> None:
        self._plain: list[tuple[pq.ParquetSchema, dict[bytes, bytes], Schema, dict[str, int], list[str]]] = []
        self._indexed: dict[tuple[int, tuple[tuple[str, DataType], ...]], tuple[Schema, SchemaIndex]] = {}
        self._kept: list[Schema] = []

    def view(self, metadata: pq.FileMetaData, *, where: str) -> FileView:
        """The view of one footer; `where` names the file in errors."""
        plain, leaves, in_order = self._read_plain(metadata, where)
        geo, problem = None, None
        schema, unnamed = self._with_index(plain, None)
        index = unnamed
        fields = index.by_parts
        text = (metadata.metadata or {}).get(b"geo")
        if text is not None:
            try:
                geo = from_geo_metadata(text, any_crs=True)
                schema, index = self._with_index(plain, geo)
                if any(_breaks_rules(column.crs) for column in geo.columns.values()):
                    from_geo_metadata(text)
            except SchemaError as error:
                problem = str(error)
                geo = geo if index is not unnamed else None
        own = is_own_writer(metadata.created_by) or has_box_mark(metadata)
        return FileView(metadata, plain, fields, schema, leaves, in_order, geo, problem, own, index)

    def _read_plain(self, metadata: pq.FileMetaData, where: str) -> tuple[Schema, dict[str, int], list[str]]:
        # A CRS may be in a property of the file, so properties are compared too.
        shared = {key: text for key, text in (metadata.metadata or {}).items() if key not in _NOT_SHARED}
        parquet = metadata.schema
        for known, properties, schema, leaves, in_order in self._plain:
            if known.equals(parquet) and properties == shared:
                return schema, leaves, in_order
        try:
            schema = from_parquet_schema(metadata)
        except GeolakeError as error:
            raise CorruptTableError(str(error), where=where) from error
        leaves = {parquet.column(index).path: index for index in range(len(parquet))}
        in_order = sorted(leaves)
        self._plain = [(parquet, shared, schema, leaves, in_order), *self._plain[:50]]
        self._kept.append(schema)  # a freed schema would leave its id() to another one
        return schema, leaves, in_order

    def _with_index(self, plain: Schema, geo: GeoMetadata | None) -> tuple[Schema, SchemaIndex]:
        columns = () if geo is None else tuple([(name, column.type) for name, column in geo.columns.items()])
        key = (id(plain), columns)
        if key not in self._indexed:
            schema = plain if geo is None else with_geo_metadata(plain, geo)
            self._indexed[key] = schema, SchemaIndex.of(schema)
        return self._indexed[key]


def _breaks_rules(crs: Crs) -> bool:
    """Whether a CRS may be one that GeoParquet does not allow: not the default, null or PROJJSON."""
    return crs is not CRS84 and crs is not UNKNOWN_CRS and crs.form is not CrsForm.PROJJSON
