"""The box of each row as a separate column: GeoParquet's bbox covering."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.errors import SchemaError
from geolake_nb.geo.bounds import column_stats, row_boxes
from geolake_nb.model.types import Field, GeographyType, GeometryType, PrimitiveType, StructType
from geolake_nb.parquet.geoparquet import Covering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geolake_nb.model.schema import Schema

__all__ = ["CoveringColumn", "add_coverings", "with_coverings"]

_SIDES = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True)
class CoveringColumn:
    """A column with the boxes of another one.

    >>> CoveringColumn("geom").covering.xmin
    ('bbox', 'xmin')
    """

    column: str
    """The geo column, at the top level."""
    name: str = "bbox"
    narrow: bool = True
    """Whether the sides are 32 bits wide, rounded outward."""

    @property
    def covering(self) -> Covering:
        """Its entry in the `geo` property."""
        return Covering(**{side: (self.name, side) for side in _SIDES})

    @property
    def field(self) -> Field:
        """The column in the schema."""
        side = PrimitiveType("float32" if self.narrow else "float64")
        return Field(self.name, StructType(tuple([Field(name, side) for name in _SIDES])))


def with_coverings(schema: Schema, coverings: Sequence[CoveringColumn]) -> Schema:
    """The schema with the columns of boxes at its end."""
    if not coverings:
        return schema
    names = {column.name for column in schema.fields}
    for covering in coverings:
        if covering.name in names:
            raise SchemaError(f"the column {covering.name!r} already exists", remedy="choose another name")
    return replace(schema, root=StructType((*schema.fields, *[covering.field for covering in coverings])))


def add_coverings(batch: pa.RecordBatch, schema: Schema, coverings: Sequence[CoveringColumn]) -> pa.RecordBatch:
    """The rows with the boxes of their geometries.

    A null or empty geometry has none. One that wraps gets all longitudes, since readers compare minima and maxima; one
    without a valid box gets an infinite one.
    """
    for covering in coverings:
        type_ = next(field.type for field in schema.fields if field.name == covering.column)
        assert isinstance(type_, GeometryType | GeographyType)
        batch = batch.append_column(covering.name, _boxes(batch.column(covering.column), type_, narrow=covering.narrow))
    return batch


def _boxes(values: pa.Array, type_: GeometryType | GeographyType, *, narrow: bool) -> pa.Array:
    boxes = row_boxes(values, type=type_).storage
    sides = {name: np.array(boxes.field(name), np.float64) for name in _SIDES}
    missing = np.asarray(boxes.is_null())
    stats = column_stats(values, type=type_)
    if stats.bad or stats.unbounded:
        lost = missing & np.asarray(values.is_valid())
        for name in _SIDES:
            sides[name][lost] = -np.inf if name.endswith("min") else np.inf
        missing &= ~lost
    wraps = sides["xmin"] > sides["xmax"]
    sides["xmin"][wraps], sides["xmax"][wraps] = -180.0, 180.0
    kind = pa.float32() if narrow else pa.float64()
    arrays = [pa.array(_outward(sides[name], name) if narrow else sides[name], kind) for name in _SIDES]
    return pa.StructArray.from_arrays(arrays, fields=[pa.field(name, kind) for name in _SIDES], mask=pa.array(missing))


def _outward(values: NDArray[np.float64], side: str) -> NDArray[np.float32]:
    """The sides in 32 bits, rounded outward.

    >>> _outward(np.array([0.1]), "xmin")[0] <= 0.1 <= _outward(np.array([0.1]), "xmax")[0]
    np.True_
    """
    low = side.endswith("min")
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        further = np.nextafter(near, np.float32(-np.inf if low else np.inf))
    return np.where((near > values) if low else (near < values), further, near)
