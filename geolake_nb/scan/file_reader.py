"""Reads columns of a data file as the table has them: renamed, added, widened, nested, geometries as ISO WKB."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import SchemaError
from geolake_nb.geo.bounds import wkb_of_texts
from geolake_nb.geo.encodings import to_iso_wkb
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import (
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    RasterType,
    StructType,
)
from geolake_nb.parquet.column_ranges import LegacyCalendar
from geolake_nb.parquet.geoparquet import wkb_of_coordinates
from geolake_nb.parquet.opening import column_leaves, value_batches
from geolake_nb.raster_data.arrow import as_group, metadata_columns
from geolake_nb.scan.data_file import FIELD_ID
from geolake_nb.scan.data_files import native_encodings
from geolake_nb.scan.result_schema import VARIANT, ResultTypes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.types import Field
    from geolake_nb.parquet.geoparquet import GeoEncoding
    from geolake_nb.scan.data_file import DataFile, RowSource

__all__ = ["FileReader"]

_BATCH_ROWS = 131_072


@dataclass(eq=False)
class FileReader:
    """The columns of one open data file, and how its batches become those of the table."""

    opened: pq.ParquetFile
    source: RowSource
    file: DataFile
    where: str
    types: ResultTypes = field(default_factory=ResultTypes)

    def __post_init__(self) -> None:
        self._schema = self.source.arrow_schema(self.opened.schema_arrow, self.file, where=self.where)
        self._fields = list(self._schema)
        self._calendar = LegacyCalendar.of(self.opened.metadata)
        self._native: Mapping[str, GeoEncoding] | None = None

    def rows(self, group: int) -> int:
        """How many rows a row group has, deleted ones included."""
        count: int = self.opened.metadata.row_group(group).num_rows
        return count

    def bytes(self, fields: Sequence[Field], group: int) -> int:
        """The compressed size of these columns in a row group."""
        metadata = self.opened.metadata.row_group(group)
        leaves = column_leaves(self.opened, self._names(fields))
        return sum(metadata.column(leaf).total_compressed_size for leaf in leaves)

    def batches(self, fields: Sequence[Field], group: int, *, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The columns of a row group, with all of its rows, in batches of at most `rows`."""
        names = self._names(fields)
        schema = self.types.schema(fields)
        if not names:
            for start in range(0, self.rows(group), rows):
                count = min(rows, self.rows(group) - start)
                arrays = [self._missing(wanted, kind, count) for wanted, kind in zip(fields, schema.types, strict=True)]
                yield _record_batch(arrays, schema, count)
            return
        for batch in value_batches(self.opened, names, rows=rows, groups=[group]):
            yield self._shaped(self._in_calendar(batch), fields, schema)

    def leaves(self, fields: Sequence[Field], group: int, *, rows: int = _BATCH_ROWS) -> Iterator[list[pa.Array]]:
        """Columns by their ids, nested ones included, with one value for each row of a row group."""
        paths = dict(_paths_by_id(self._schema))
        here = [paths.get(column.id) if column.id is not None else None for column in fields]
        kinds = [self.types.kind(column.type, (column.name,)) for column in fields]
        names = list(dict.fromkeys(".".join(path) for path in here if path is not None))
        if names:
            for batch in value_batches(self.opened, names, rows=rows, groups=[group]):
                yield [
                    self._missing(wanted, kind, len(batch)) if path is None else _inside(batch, path)
                    for wanted, path, kind in zip(fields, here, kinds, strict=True)
                ]
            return
        for start in range(0, self.rows(group), rows):
            count = min(rows, self.rows(group) - start)
            yield [self._missing(wanted, kind, count) for wanted, kind in zip(fields, kinds, strict=True)]

    def _names(self, fields: Sequence[Field]) -> list[str]:
        """The columns of the file to read, as Arrow names them."""
        names: list[str] = []
        for wanted in fields:
            index = self._index(wanted)
            if index is None:
                continue
            name = self._fields[index].name
            bare = isinstance(wanted.type, RasterType) and not self.types.bands
            names += metadata_columns(name) if bare else [name]
        return list(dict.fromkeys(names))

    def _index(self, wanted: Field) -> int | None:
        if wanted.name in self.file.constants:
            return None
        return self.source.child(self._fields, wanted)

    def _in_calendar(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._calendar is None:
            return batch
        return self._calendar.rebased(batch, self.opened.metadata.schema)

    def _shaped(self, batch: pa.RecordBatch, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        for wanted, kind in zip(fields, schema.types, strict=True):
            index = self._index(wanted)
            if index is None:
                arrays.append(self._missing(wanted, kind, len(batch)))
                continue
            here = self._fields[index]
            array = batch.column(batch.schema.get_field_index(here.name))
            arrays.append(self._values(array, here, wanted, kind, (wanted.name,)))
        return _record_batch(arrays, schema, len(batch))

    def _missing(self, wanted: Field, kind: pa.DataType, rows: int) -> pa.Array:
        """The values of a column that the file lacks."""
        value = self.file.constants.get(wanted.name)
        if value is None:
            value = self.source.absent(wanted, self.file)
        if value is None or not value.is_valid:
            return pa.nulls(rows, kind)
        return _cast(pa.repeat(value, rows), kind, self.where, (wanted.name,))

    def _values(
        self, array: pa.Array, here: pa.Field, wanted: Field, kind: pa.DataType, parts: tuple[str, ...]
    ) -> pa.Array:
        """The values with the fields of the table, in its order and of its types."""
        type_ = wanted.type
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        if isinstance(type_, GeometryType | GeographyType):
            return self._wkb(array, type_, parts)
        if isinstance(type_, RasterType):
            return as_group(array, kind)
        if kind == VARIANT:
            return self._variant(array, parts)
        if isinstance(type_, StructType):
            return self._struct(array, here, type_, kind, parts)
        if isinstance(type_, ListType):
            array = _as_list(array)
            inner = (*parts, "element")
            values = self._values(array.values, here.type.value_field, type_.element, kind.value_field.type, inner)
            return _with_offsets(array, kind, values)
        if isinstance(type_, MapType):
            keys = self._values(array.keys, here.type.key_field, type_.key, kind.key_type, (*parts, "key"))
            items = self._values(array.items, here.type.item_field, type_.value, kind.item_type, (*parts, "value"))
            entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
            return _with_offsets(array, kind, entries)
        return _cast(array, kind, self.where, parts)

    def _struct(
        self, array: pa.Array, here: pa.Field, type_: StructType, kind: pa.DataType, parts: tuple[str, ...]
    ) -> pa.Array:
        inside = [here.type.field(index) for index in range(here.type.num_fields)]
        children: list[pa.Array] = []
        for index, child in enumerate(type_.fields):
            wanted = kind.field(index).type
            position = self.source.child(inside, child)
            if position is None:
                value = self.source.absent(child, self.file)
                missing = pa.nulls(len(array), wanted) if value is None else pa.repeat(value, len(array))
                children.append(_cast(missing, wanted, self.where, (*parts, child.name)))
            else:
                # A field keeps its values where the struct is null: they are masked below.
                children.append(
                    self._values(array.field(position), inside[position], child, wanted, (*parts, child.name))
                )
        if not children:
            return array
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())

    def _wkb(self, array: pa.Array, type_: GeometryType | GeographyType, parts: tuple[str, ...]) -> pa.Array:
        where = f"{self.where}, column {join_path(parts)}"
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        encoding = type_.encoding
        if encoding is GeometryEncoding.GEOARROW:
            if self._native is None:
                self._native = native_encodings(self.opened.metadata)
            return wkb_of_coordinates(array, self._native.get(parts[0]), where=where).cast(pa.binary())
        if encoding in (GeometryEncoding.WKT, GeometryEncoding.GEOJSON):
            return wkb_of_texts(array, encoding)
        array = _cast(array, pa.binary(), self.where, parts)
        return _iso(array) if encoding is GeometryEncoding.EWKB else array

    def _variant(self, array: pa.Array, parts: tuple[str, ...]) -> pa.Array:
        names = [array.type.field(index).name for index in range(array.type.num_fields)]
        if not {"value", "metadata"} <= set(names) or "typed_value" in names:
            raise SchemaError(
                "shredded variants are not read",
                where=f"{self.where}, column {join_path(parts)}",
                remedy="leave the column out with columns=",
            )
        children = [array.field(names.index(name)).cast(pa.binary()) for name in ("value", "metadata")]
        return pa.StructArray.from_arrays(children, fields=list(VARIANT), mask=array.is_null())


def _record_batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    # A batch without columns knows its rows as a struct only.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _iso(array: pa.Array) -> pa.Array:
    """ISO WKB of readable values; the others stay as they are."""
    from geolake_nb.geo.wkb_scan import Scan

    scan = Scan()
    boxes, known = scan.add_with_boxes(array)
    del boxes
    if not scan.bad_count:
        return to_iso_wkb(array).values
    readable = pa.array(known)
    turned = to_iso_wkb(pc.if_else(readable, array, pa.scalar(None, array.type))).values
    return pc.coalesce(turned, array)


def _as_list(array: pa.Array) -> pa.Array:
    if pa.types.is_list(array.type):
        return array
    return array.cast(pa.list_(array.type.value_field))


def _with_offsets(array: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], -1, array.offset, [values])


def _paths_by_id(schema: pa.Schema) -> Iterator[tuple[int, tuple[str, ...]]]:
    stack: list[tuple[tuple[str, ...], pa.Field]] = [((column.name,), column) for column in schema]
    while stack:
        path, column = stack.pop()
        text = (column.metadata or {}).get(FIELD_ID)
        if text is not None:
            yield int(text), path
        if pa.types.is_struct(column.type):
            stack += [((*path, child.name), child) for child in column.type]


def _inside(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    array = batch.column(batch.schema.get_field_index(path[0]))
    for name in path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def _cast(array: pa.Array, kind: pa.DataType, where: str, parts: tuple[str, ...]) -> pa.Array:
    """The values as the type of the table; a type that the table has not widened is an error."""
    source = array.type
    if source == kind:
        return array
    if pa.types.is_dictionary(source):
        return _cast(array.dictionary_decode(), kind, where, parts)
    try:
        if pa.types.is_timestamp(source) and pa.types.is_timestamp(kind) and (source.tz is None) != (kind.tz is None):
            # The same numbers: an instant without a zone is in UTC.
            array = array.cast(pa.timestamp(source.unit, kind.tz))
        elif _narrows(source, kind):
            raise pa.ArrowInvalid(f"{source} is not widened to {kind}")
        return array.cast(kind)
    except pa.ArrowException as problem:
        reason = (str(problem).splitlines() or ["they do not fit"])[0][:200]
        raise SchemaError(
            f"values of type {source} cannot be read as {kind}: {reason}",
            where=f"{where}, column {join_path(parts)}",
            remedy="leave the column out with columns=",
        ) from None


def _narrows(source: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a cast would give values of another kind, which Arrow allows: a number as text, a text as a number."""
    families = (
        lambda each: pa.types.is_integer(each) or pa.types.is_floating(each) or pa.types.is_decimal(each),
        lambda each: (
            pa.types.is_string(each)
            or pa.types.is_large_string(each)
            or pa.types.is_string_view(each)
            or pa.types.is_binary(each)
            or pa.types.is_large_binary(each)
            or pa.types.is_binary_view(each)
            or pa.types.is_fixed_size_binary(each)
        ),
        lambda each: pa.types.is_date(each) or pa.types.is_timestamp(each),
        pa.types.is_time,
        pa.types.is_boolean,
        pa.types.is_null,
        lambda each: pa.types.is_duration(each) or each == pa.int64(),
    )
    return not pa.types.is_null(source) and not any(family(source) and family(kind) for family in families)
