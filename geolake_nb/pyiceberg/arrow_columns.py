"""Geo columns in Arrow: the types that PyIceberg writes to Parquet, and values that are given in other types."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io import pyarrow as pia
from pyiceberg.table import Transaction
from pyiceberg.table.inspect import InspectTable
from pyiceberg.types import BinaryType, GeographyType, GeometryType, ListType, StructType

from geolake_nb.errors import SchemaError
from geolake_nb.model.crs import Crs
from geolake_nb.pyiceberg.bridge import Patch
from geolake_nb.pyiceberg.type_text import core_type, is_geo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

__all__ = ["arrow_type", "patches", "with_geo_columns"]

_WKB = "geoarrow.wkb"
_PLANAR = ("planar", "unspecified")


def arrow_type(type_: GeometryType | GeographyType) -> pa.DataType:
    """The Arrow type of a geo column, with its CRS and edges.

    >>> arrow_type(GeographyType()).edge_type.name
    'SPHERICAL'
    """
    import geoarrow.pyarrow as ga

    wkb = ga.wkb().with_crs(type_.crs)
    if isinstance(type_, GeometryType):
        return wkb
    edges = ga.EdgeType.__members__.get(type_.algorithm.upper())
    return wkb if edges is None else wkb.with_edge_type(edges)


def with_geo_columns(rows: pa.Table | pa.RecordBatchReader, schema: Schema) -> pa.Table | pa.RecordBatchReader:
    """The rows with the geo columns of a table in its own types, also inside structs and lists.

    They may be given as WKB or EWKB in binary columns, or as GeoArrow in the CRS of the column or in none.
    """
    types = {field.name: field.field_type for field in schema.fields if _holds_geo(field.field_type)}
    fields = [
        field.with_type(_target(field.type, types[field.name], field.name)) if field.name in types else field
        for field in rows.schema
    ]
    if not types.keys() & set(rows.schema.names):
        return rows
    target = pa.schema(fields, metadata=rows.schema.metadata)
    if isinstance(rows, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(target, _converted_batches(rows, target))
    columns = [
        pa.chunked_array([_converted(chunk, field) for chunk in column.chunks], field.type)
        for column, field in zip(rows.columns, target, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=target)


def _holds_geo(type_: IcebergType) -> bool:
    if isinstance(type_, StructType):
        return any(_holds_geo(field.field_type) for field in type_.fields)
    if isinstance(type_, ListType):
        return _holds_geo(type_.element_type)
    return is_geo(type_)


def _target(given: pa.DataType, type_: IcebergType, where: str) -> pa.DataType:
    """The Arrow type of a column of the table, if its values can be given in that."""
    if isinstance(type_, StructType) and pa.types.is_struct(given):
        inside = {field.name: field.field_type for field in type_.fields}
        parts = [given.field(index) for index in range(given.num_fields)]
        return pa.struct([
            part.with_type(_target(part.type, inside[part.name], f"{where}.{part.name}"))
            if part.name in inside
            else part
            for part in parts
        ])  # fmt: skip
    if isinstance(type_, ListType) and (pa.types.is_list(given) or pa.types.is_large_list(given)):
        element = given.value_field.with_type(_target(given.value_type, type_.element_type, where))
        return pa.list_(element) if pa.types.is_list(given) else pa.large_list(element)
    if not isinstance(type_, GeometryType | GeographyType):
        return given
    if isinstance(type_, GeographyType) and type_.algorithm != "spherical":
        raise SchemaError(
            f"pyarrow cannot write GEOGRAPHY with {type_.algorithm} edges",
            where=f"column {where}",
            remedy="write the rows with Spark",
        )
    crs, _ = _crs_and_edges(given)
    wanted = core_type(type_)
    if crs is not None and wanted is not None and not crs.same_as(wanted.crs):
        raise SchemaError(
            f"the column is in {wanted.crs.name}, and the rows are in {crs.name}",
            where=f"column {where}",
            remedy="transform them first, such as with to_crs of geopandas",
        )
    return arrow_type(type_)


def _converted_batches(rows: pa.RecordBatchReader, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        columns = [_converted(column, field) for column, field in zip(batch.columns, target, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _converted(array: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _WKB:
        return _shapes(array, field)
    if kind == array.type:
        return array
    if pa.types.is_struct(kind):
        parts = [kind.field(index) for index in range(kind.num_fields)]
        children = [_converted(child, part) for child, part in zip(array.flatten(), parts, strict=True)]
        return pa.StructArray.from_arrays(children, fields=parts, mask=array.is_null() if array.null_count else None)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _converted(array.values, kind.value_field)
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
        )
    return array


def _shapes(array: pa.Array, field: pa.Field) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        if array.type.extension_name != _WKB:
            import geoarrow.pyarrow as ga

            array = ga.as_wkb(array)
        array = array.storage
    try:
        stored = array.cast(field.type.storage_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SchemaError(
            f"expected WKB, got values of type {array.type}",
            where=f"column {field.name}",
            remedy="give binary values, such as with shapely.to_wkb, or a GeoDataFrame",
        ) from None
    return field.type.wrap_array(_iso(stored))


def _iso(values: pa.Array) -> pa.Array:
    """EWKB as ISO WKB, which Iceberg stores; a column with values that cannot be read stays as it is."""
    try:
        from geolake_nb.geo.encodings import may_be_ewkb, to_iso_wkb
        from geolake_nb.geo.wkb_scan import Scan
    except ImportError:  # numba is absent
        return values
    if not may_be_ewkb(values):
        return values
    scan = Scan()
    scan.add(values)
    return values if scan.bad_count else to_iso_wkb(values).values


def _crs_and_edges(type_: pa.DataType) -> tuple[Crs | None, str]:
    """The CRS of a GeoArrow type, `None` where it has none, and how its edges run."""
    if not isinstance(type_, pa.BaseExtensionType) or not type_.extension_name.startswith("geoarrow."):
        return None, "planar"
    described = json.loads(type_.__arrow_ext_serialize__() or b"{}")
    crs = described.get("crs")
    return None if crs is None else Crs.parse(crs), str(described.get("edges", "planar"))


_primitive = pia._ConvertToIceberg.primitive
_cast_if_needed = pia.ArrowProjectionVisitor._cast_if_needed


def _geo_or_primitive(self: Any, primitive: pa.DataType) -> Any:
    """The Iceberg type of an Arrow type; WKB without a CRS is plain binary."""
    if isinstance(primitive, pa.BaseExtensionType) and primitive.extension_name == _WKB:
        return _iceberg_type(primitive)
    return _primitive(self, primitive)


def _iceberg_type(type_: Any) -> IcebergType:
    crs, edges = _crs_and_edges(type_)
    if crs is None:
        return BinaryType()
    name = _name(crs)
    return GeometryType(name) if edges in _PLANAR else GeographyType(name, edges)


def _name(crs: Crs) -> str:
    """A text that a type string can hold: a definition is replaced by its code."""
    if not crs.text.lstrip().startswith(("{", "GEOG", "PROJ", "BOUND", "COMPOUND")):
        return crs.text
    authority = crs.to_pyproj().to_authority()
    if authority is None:
        raise SchemaError(
            f"the CRS {crs.name} has no code that an Iceberg type could name",
            remedy="create the table with a schema of PyIceberg, with GeometryType('projjson:<property>')",
        )
    return ":".join(authority)


_bounds_alone: ContextVar[bool] = ContextVar("bounds_alone", default=False)
"""Whether types are asked for that hold the bounds of columns, not their values."""


def _visit_geo(self: Any, type_: GeometryType | GeographyType) -> pa.DataType:
    del self
    # Arrow cannot make a column of an extension type from Python values, as the tables of `inspect` are made.
    return pa.large_binary() if _bounds_alone.get() else arrow_type(type_)


def _with_bounds_alone(name: str) -> Patch:
    method = getattr(InspectTable, name)

    def call(self: InspectTable, *args: Any, **kwargs: Any) -> Any:
        token = _bounds_alone.set(True)
        try:
            return method(self, *args, **kwargs)
        finally:
            _bounds_alone.reset(token)

    call.__name__, call.__doc__ = name, method.__doc__
    return Patch(InspectTable, name, call)


def _cast(self: Any, field: Any, values: pa.Array) -> pa.Array:
    """Geo columns in the types of the table: a file may store plain binary, or name its CRS otherwise."""
    if not is_geo(field.field_type):
        return _cast_if_needed(self, field, values)
    target = arrow_type(field.field_type)
    if values.type == target:
        return values
    storage = values.storage if isinstance(values, pa.ExtensionArray) else values
    return target.wrap_array(storage.cast(target.storage_type))


def _with_geo_rows(name: str) -> Patch:
    method = getattr(Transaction, name)

    def call(self: Transaction, df: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(df, pa.Table | pa.RecordBatchReader) and self.table_metadata.format_version >= 3:
            df = with_geo_columns(df, self.table_metadata.schema())
        return method(self, df, *args, **kwargs)

    call.__name__, call.__doc__ = name, method.__doc__
    return Patch(Transaction, name, call)


def patches() -> Iterator[Patch | Callable[[], Callable[[], None]]]:
    """Types both ways, and the rows that are given."""
    yield Patch(pia._ConvertToIceberg, "primitive", _geo_or_primitive)
    for name in ("visit_geometry", "visit_geography"):
        yield Patch(pia._ConvertToArrowSchema, name, _visit_geo)
    for name in ("entries", "_get_files_schema"):
        yield _with_bounds_alone(name)
    yield Patch(pia.ArrowProjectionVisitor, "_cast_if_needed", _cast)
    for name in ("append", "overwrite", "dynamic_partition_overwrite"):
        yield _with_geo_rows(name)
