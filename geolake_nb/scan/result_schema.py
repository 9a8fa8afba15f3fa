"""The Arrow schema of the rows of a table: one type for each column, whatever its files store."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.model.crs import CRS84, CrsForm
from geolake_nb.model.schema import join_path, type_name
from geolake_nb.model.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.parquet.column_ranges import arrow_type_of
from geolake_nb.raster_data.arrow import METADATA_FIELDS, RASTER_V1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.model.crs import Crs
    from geolake_nb.model.types import DataType, Field

__all__ = ["RASTER_METADATA", "VARIANT", "ResultTypes", "geoarrow_metadata"]

_FIXED = re.compile(r"fixed\(([0-9]+)\)")
_DECIMAL = re.compile(r"decimal\(([0-9]+), (-?[0-9]+)\)")
VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary())])
"""A variant as its two binary parts (Parquet, Variant Binary Encoding)."""
RASTER_METADATA = pa.struct([field for field in RASTER_V1 if field.name in METADATA_FIELDS])
"""A raster without its bands."""
_PLAIN = {
    "bson": pa.binary(),
    "enum": pa.string(),
    "float16": pa.float16(),
    "interval": pa.binary(12),
    "json": pa.string(),
    "timetz": pa.time64("us"),
    "timetz_ms": pa.time32("ms"),
    "timetz_ns": pa.time64("ns"),
    "timestamp_int96": pa.timestamp("us", "UTC"),
    "unknown": pa.null(),
    "uuid": pa.binary(16),
    "variant": VARIANT,
}


@dataclass(frozen=True, slots=True)
class ResultTypes:
    """The Arrow types of columns in a result.

    Geometries and geographies are ISO WKB, marked as `geoarrow.wkb` with their CRS and edges.
    """

    bands: bool = False
    """Whether rasters have their bands."""

    def schema(self, fields: Sequence[Field]) -> pa.Schema:
        """The schema of these columns.

        >>> from geolake_nb.model.types import Field
        >>> field = ResultTypes().schema([Field("geom", GeometryType())]).field("geom")
        >>> field.type, field.metadata[b"ARROW:extension:name"]
        (DataType(binary), b'geoarrow.wkb')
        """
        return pa.schema([self.field(field, (field.name,)) for field in fields])

    def field(self, field: Field, parts: tuple[str, ...]) -> pa.Field:
        """One column; every column may have nulls, whatever a table promises."""
        kind, type_ = self.kind(field.type, parts), field.type
        metadata = geoarrow_metadata(type_) if isinstance(type_, GeometryType | GeographyType) else None
        return pa.field(field.name, kind, metadata=metadata)

    def kind(self, type_: DataType, parts: tuple[str, ...]) -> pa.DataType:
        """The type of a column or of a part of it."""
        if isinstance(type_, StructType):
            return pa.struct([self.field(child, (*parts, child.name)) for child in type_.fields])
        if isinstance(type_, ListType):
            return pa.list_(self.field(type_.element, (*parts, "element")))
        if isinstance(type_, MapType):
            key = self.field(type_.key, (*parts, "key")).with_nullable(False)
            return pa.map_(key, self.field(type_.value, (*parts, "value")))
        if isinstance(type_, GeometryType | GeographyType):
            return pa.binary()
        if isinstance(type_, RasterType):
            return RASTER_V1 if self.bands else RASTER_METADATA
        if isinstance(type_, StringType):
            return pa.string()
        kind = arrow_type_of(type_) or _plain_kind(type_.name)
        if kind is None:
            raise SchemaError(
                f"a column of type {type_name(type_)} cannot be read", where=join_path(parts), remedy="leave it out"
            )
        return kind


def _plain_kind(name: str) -> pa.DataType | None:
    if match := _FIXED.fullmatch(name):
        return pa.binary(int(match[1]))
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        return pa.decimal256(precision, scale) if precision <= 76 else None
    return _PLAIN.get(name)


@functools.lru_cache(maxsize=256)
def geoarrow_metadata(type_: GeometryType | GeographyType) -> dict[str, str]:
    """What marks a binary field as `geoarrow.wkb`.

    >>> geoarrow_metadata(GeographyType())["ARROW:extension:metadata"][-21:]
    '"edges": "spherical"}'
    """
    described: dict[str, Any] = _crs_metadata(type_.crs)
    if isinstance(type_, GeographyType):
        described["edges"] = type_.algorithm.value
    return {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": json.dumps(described)}


def _crs_metadata(crs: Crs) -> dict[str, Any]:
    # GeoArrow, Extension metadata: PROJJSON is preferred; without a CRS the coordinates are in an unknown one.
    if crs.is_unknown:
        return {}
    try:
        return {"crs": (CRS84 if crs == CRS84 else crs).to_projjson(), "crs_type": "projjson"}
    except CrsError:
        return {"crs": crs.text, "crs_type": "authority_code" if crs.form is CrsForm.AUTHORITY else None}
