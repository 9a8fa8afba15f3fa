"""The columns of a schema in a Parquet file, and the conversion of batches of other Arrow types."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import join_path, type_name
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.parquet.column_ranges import arrow_type_of
from geolake_nb.raster_data.arrow import RASTER_V1, as_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geolake_nb.model.schema import Schema

__all__ = ["FileColumns", "FileLeaf", "descend", "leaf_values"]

_Path = tuple[str, ...]
_FIXED = re.compile(r"fixed\(([0-9]+)\)")
# Havasu, Parquet data type mappings; other formats have only WKB.
_STORED = {
    GeometryEncoding.EWKB: pa.binary(),
    GeometryEncoding.GEOJSON: pa.string(),
    GeometryEncoding.WKB: pa.binary(),
    GeometryEncoding.WKT: pa.string(),
}
# Types whose values may be cast to each other if each of them fits.
_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_decimal,
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    lambda kind: (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    ),
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    pa.types.is_date,
    pa.types.is_time,
)


# Above the ids of columns, and below the reserved ids of Iceberg.
_FIRST_GROUP_ID, _GROUP_IDS = 1_000_000_000, 100


@dataclass(frozen=True, slots=True)
class FileLeaf:
    """A column of values in a file."""

    parts: tuple[str, ...]
    """Its path in the schema: logical names, with `element`, `key` and `value`."""
    path: tuple[str, ...]
    """Its path in the file."""
    type: DataType


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """The columns of a file: its Arrow schema and its leaves, in order.

    >>> from geolake_nb.model.schema import Schema
    >>> tags = Field("tags", ListType(Field("element", StringType())), physical_name="c1", id=7)
    >>> schema = Schema(StructType((tags,)))
    >>> FileColumns.of(schema).leaves[0].path, FileColumns.of(schema, physical_names=True).leaves[0].path
    (('tags', 'list', 'element'), ('c1', 'list', 'element'))
    """

    schema: Schema
    arrow: pa.Schema
    """Geo columns are binary."""
    leaves: tuple[FileLeaf, ...]

    @classmethod
    def of(cls, schema: Schema, *, physical_names: bool = False) -> FileColumns:
        """The columns of a file with that schema; a type that cannot be written is refused."""
        if not schema.fields:
            raise SchemaError("the schema has no columns; a file needs at least one")
        arrow = pa.schema([_arrow_field(field, (field.name,), physical_names) for field in schema.fields])
        leaves = [leaf for field in schema.fields for leaf in _leaves(field, (), (), physical_names)]
        paths = [leaf.path for leaf in leaves]
        if len(set(paths)) < len(paths):
            twice = sorted({join_path(path) for path in paths if paths.count(path) > 1})
            raise SchemaError(f"the file would have two columns {', '.join(twice)}")
        return cls(schema, arrow, tuple(leaves))

    @property
    def geo(self) -> tuple[tuple[FileLeaf, GeometryType | GeographyType], ...]:
        """The leaves that hold geometries or geographies, with their types."""
        return tuple(
            [(leaf, leaf.type) for leaf in self.leaves if isinstance(leaf.type, (GeometryType, GeographyType))]
        )

    @property
    def rasters(self) -> tuple[_Path, ...]:
        """The paths in the schema of the columns that hold rasters."""
        return tuple(dict.fromkeys(leaf.parts for leaf in self.leaves if isinstance(leaf.type, RasterType)))

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, whose columns go by logical names, with the types of the file; what does not fit is refused."""
        names = batch.schema.names
        _expect_names(names, [field_.name for field_ in self.schema.fields], "the batch")
        arrays = [
            _fit(batch.column(names.index(column.name)), column, field, (column.name,))
            for column, field in zip(self.schema.fields, self.arrow, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def leaf_values(column: pa.Array | pa.ChunkedArray, schema: Schema, parts: _Path) -> pa.ChunkedArray:
    """The values at a path of a top-level column, as in the file: null below a null parent, none for an empty list."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if len(parts) == 1:
        return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    top = next(field for field in schema.fields if field.name == parts[0])
    arrays = [descend(chunk, top.type, parts[1:]) for chunk in chunks]
    return pa.chunked_array(arrays) if arrays else pa.chunked_array([], pa.null())


def descend(array: pa.Array, type_: DataType, parts: _Path) -> pa.Array:
    """The values at a path inside values of a type: null where a parent is null, none for an empty or null list."""
    for part in parts:
        if isinstance(type_, StructType):
            index = next(index for index, field in enumerate(type_.fields) if field.name == part)
            array, type_ = array.flatten()[index], type_.fields[index].type
        elif isinstance(type_, ListType):
            array, type_ = array.flatten(), type_.element.type
        elif isinstance(type_, MapType):
            is_value = part == "value"
            inner = array.items if is_value else array.keys
            array = _relisted(array, pa.list_(inner.type), inner).flatten()
            type_ = (type_.value if is_value else type_.key).type
    return array


def _arrow_field(
    field: Field, parts: _Path, physical: bool, *, name: str | None = None, nested: bool = False
) -> pa.Field:
    """The field of a file; values in lists and maps are nullable whatever the schema declares: others do not check."""
    metadata = _id_metadata(field.id)
    shown = name or ((field.physical_name or field.name) if physical else field.name)
    nullable = field.nullable or nested
    kind = _arrow_type(field.type, parts, physical, nested=nested)
    if isinstance(field.type, RasterType) and field.id is not None:
        kind = _with_ids(kind, itertools.count(_FIRST_GROUP_ID + _GROUP_IDS * field.id))
    return pa.field(shown, kind, nullable=nullable, metadata=metadata)


def _id_metadata(id_: int | None) -> dict[str, str] | None:
    return None if id_ is None else {"PARQUET:field_id": str(id_)}


def _with_ids(kind: pa.DataType, ids: Iterator[int]) -> pa.DataType:
    """The struct of a raster with an id for every field in it.

    The schema of the table has none, and some readers require ids on all columns of a file or on none.
    """

    def marked(field: pa.Field) -> pa.Field:
        return field.with_metadata(_id_metadata(next(ids))).with_type(_with_ids(field.type, ids))

    if pa.types.is_struct(kind):
        return pa.struct([marked(field) for field in kind])
    return pa.list_(marked(kind.value_field)) if pa.types.is_list(kind) else kind


def _arrow_type(type_: DataType, parts: _Path, physical: bool, *, nested: bool = False) -> pa.DataType:
    def inner(field: Field, *, name: str | None = None, nested: bool = True) -> pa.Field:
        return _arrow_field(field, (*parts, field.name), physical, name=name, nested=nested)

    where = join_path(parts)
    if isinstance(type_, StructType):
        if not type_.fields:
            raise SchemaError("Parquet cannot store a struct without fields", where=where)
        return pa.struct([inner(field, nested=nested) for field in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(inner(type_.element, name="element"))
    if isinstance(type_, MapType):
        key = inner(type_.key, name="key").with_nullable(False)
        return pa.map_(key, inner(type_.value, name="value"))
    if isinstance(type_, StringType):
        return pa.string()
    if isinstance(type_, (GeometryType, GeographyType)) and type_.encoding in _STORED:
        return _STORED[type_.encoding]
    if isinstance(type_, RasterType):
        return RASTER_V1
    result = arrow_type_of(type_)
    if result is None and isinstance(type_, PrimitiveType):
        if match := _FIXED.fullmatch(type_.name):
            result = pa.binary(int(match[1]))
        elif type_.name == "float16":
            result = pa.float16()
        elif type_.name == "uuid":
            result = pa.uuid()
    if result is None:
        raise SchemaError(
            f"a column of type {type_name(type_)} cannot be written", where=where, remedy="cast it or leave it out"
        )
    return result


def _leaves(field: Field, above: _Path, path: _Path, physical: bool) -> Iterator[FileLeaf]:
    parts = (*above, field.name)
    here = (*path, (field.physical_name or field.name) if physical else field.name)
    yield from _leaves_below(field.type, parts, here, physical)


def _leaves_below(type_: DataType, parts: _Path, path: _Path, physical: bool) -> Iterator[FileLeaf]:
    if isinstance(type_, StructType):
        for field in type_.fields:
            yield from _leaves(field, parts, path, physical)
    elif isinstance(type_, ListType):
        yield from _leaves_below(type_.element.type, (*parts, "element"), (*path, "list", "element"), physical)
    elif isinstance(type_, MapType):
        for field in (type_.key, type_.value):
            yield from _leaves_below(field.type, (*parts, field.name), (*path, "key_value", field.name), physical)
    elif isinstance(type_, RasterType):
        for inner in _group_paths(RASTER_V1):
            yield FileLeaf(parts, (*path, *inner), type_)
    else:
        yield FileLeaf(parts, path, type_)


def _group_paths(kind: pa.DataType) -> Iterator[_Path]:
    """The paths of the leaves inside the group of a raster."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from ((field.name, *inner) for inner in _group_paths(field.type))
    elif pa.types.is_list(kind):
        yield from (("list", "element", *inner) for inner in _group_paths(kind.value_type))
    else:
        yield ()


def _fit(array: pa.Array, column: Field, field: pa.Field, parts: _Path, mask: pa.Array | None = None) -> pa.Array:
    fitted = _fit_values(array, column, field.type, parts)
    if not field.nullable and fitted.null_count:
        # Where the parent is null, its children are not checked.
        missing = fitted.is_null() if mask is None else pc.and_not(fitted.is_null(), mask)
        count = pc.sum(missing).as_py()
        if count:
            raise SchemaError(f"the column is not nullable and has {count} nulls", where=join_path(parts))
        return _without_nulls(fitted)
    return fitted


def _without_nulls(array: pa.Array) -> pa.Array:
    """The values with placeholders for nulls: nobody reads them below a null parent, and pyarrow allows no nulls there.

    >>> _without_nulls(pa.array([1, None])).null_count
    0
    """
    if isinstance(array.type, pa.BaseExtensionType):
        return array.type.wrap_array(_without_nulls(array.storage))
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    children = []
    if pa.types.is_struct(array.type):
        children = [array.field(index) for index in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    elif pa.types.is_list(array.type):
        children = [array.values]
    own = array.buffers()[1 : 1 if pa.types.is_struct(array.type) else 2 if children else None]
    return pa.Array.from_buffers(array.type, len(array), [None, *own], null_count=0, children=children)


def _fit_values(array: pa.Array, column: Field, kind: pa.DataType, parts: _Path) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType) and not isinstance(kind, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(column.type, (GeometryType, GeographyType)) and pa.types.is_struct(array.type):
        array = _wkb_of_spark(array)
    # An identical type needs no conversion, except a check for nulls where they are not allowed.
    if array.type == kind and not pa.types.is_nested(kind):
        return array
    type_ = column.type
    if isinstance(type_, RasterType) and pa.types.is_struct(array.type):
        return as_group(array, kind)
    if isinstance(type_, StructType) and pa.types.is_struct(array.type):
        return _fit_struct(array, type_, kind, parts)
    if isinstance(type_, ListType) and not pa.types.is_map(array.type) and hasattr(array.type, "value_field"):
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        values = _fit(array.values, type_.element, kind.value_field, (*parts, "element"))
        return _relisted(array, kind, values)
    if isinstance(type_, MapType) and pa.types.is_map(array.type):
        keys = _fit(array.keys, type_.key, kind.key_field, (*parts, "key"))
        values = _fit(array.items, type_.value, kind.item_field, (*parts, "value"))
        entries = pa.StructArray.from_arrays([keys, values], fields=[kind.key_field, kind.item_field])
        return _relisted(array, kind, entries)
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(_fit_values(array, column, kind.storage_type, parts))
    if _same_bits(array.type, kind):
        return array.view(kind)
    if not pa.types.is_null(array.type) and not _same_family(array.type, kind):
        raise SchemaError(f"values of type {array.type} do not fit {type_name(type_)}", where=join_path(parts))
    try:
        return array.cast(kind)
    except pa.ArrowException as problem:
        reason = (str(problem).splitlines() or ["they do not fit"])[0][:200]
        raise SchemaError(f"values cannot be {type_name(type_)}: {reason}", where=join_path(parts)) from None


def _wkb_of_spark(array: pa.StructArray) -> pa.Array:
    """The WKB of geometries as Spark passes them to Python: structs of an SRID, the same in all rows, and WKB."""
    names = [array.type.field(index).name for index in range(array.type.num_fields)]
    return array.flatten()[1] if names == ["srid", "wkb"] else array


def _fit_struct(array: pa.StructArray, type_: StructType, kind: pa.StructType, parts: _Path) -> pa.Array:
    names = [array.type.field(index).name for index in range(array.type.num_fields)]
    _expect_names(names, [field_.name for field_ in type_.fields], join_path(parts))
    mask = array.is_null() if array.null_count else None
    children = [
        _fit(array.field(names.index(child.name)), child, kind.field(index), (*parts, child.name), mask)
        for index, child in enumerate(type_.fields)
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _relisted(array: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """The lists or maps with other values at the same offsets."""
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], null_count=-1, offset=array.offset, children=[values]
    )


def _same_bits(left: pa.DataType, other: pa.DataType) -> bool:
    """Whether one type can carry the values of the other: Spark has no times, nanoseconds or unsigned integers.

    A duration is an integer for Parquet and for everything but Arrow.
    """
    for number, carried in ((left, other), (other, left)):
        known = pa.types.is_time(carried) or pa.types.is_duration(carried) or carried == pa.uint64()
        known |= pa.types.is_timestamp(carried) and carried.unit == "ns"
        if known and pa.types.is_signed_integer(number):
            return bool(number.bit_width == carried.bit_width)
    return False


def _same_family(source: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_float32(source) and pa.types.is_float16(other):
        return True  # half floats pass through Spark as floats
    if pa.types.is_floating(source) and pa.types.is_floating(other):
        return bool(source.bit_width <= other.bit_width)
    return any(family(source) and family(other) for family in _FAMILIES)


def _expect_names(names: list[str], wanted: list[str], where: str) -> None:
    if names == wanted:
        return
    if len(set(names)) < len(names):
        raise SchemaError("two columns have the same name", where=where)
    missing, more = sorted(set(wanted) - set(names)), sorted(set(names) - set(wanted))
    if missing:
        raise SchemaError(f"the column {', '.join(missing)} is missing", where=where)
    if more:
        raise SchemaError(f"the column {', '.join(more)} is not in the schema", where=where)
