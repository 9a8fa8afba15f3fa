"""What makes a new file GeoParquet: its `geo` property, and a column with the box of each row."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.geo.bounds import column_stats, row_boxes
from geolake_nb.model.crs import UNKNOWN_CRS, Crs
from geolake_nb.model.types import EdgeAlgorithm, Field, GeographyType, GeometryType, PrimitiveType, StructType
from geolake_nb.parquet.geoparquet import Covering, GeoColumn, GeoEncoding, GeoMetadata, to_geo_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.model.box import Box
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import GeoType

__all__ = [
    "ARROW_SCHEMA",
    "GEO",
    "CoveringColumn",
    "add_coverings",
    "arrow_schema_with_geo",
    "geo_property",
    "geo_template",
    "with_coverings",
    "with_srids",
]

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


GEO = "geo"
"""The name of the property."""
ARROW_SCHEMA = "ARROW:schema"
"""The property in which Arrow stores its own schema, with a second copy of all properties."""

_NAMES = ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection")
_AXES = ("", " Z", " M", " ZM")


def geo_template(types: Mapping[str, GeoType], *, before: GeoMetadata | None = None) -> GeoMetadata | None:
    """The metadata of a file with these top-level columns; `before` is kept as far as it is valid.

    A column whose edges or CRS GeoParquet cannot represent is left out; `None` if none remains.

    >>> geo_template({"g": GeometryType()}).primary_column
    'g'
    >>> geo_template({}) is None
    True
    """
    columns = {} if before is None else dict(before.columns)
    version = "1.1.0" if before is None else before.version
    for name, type_ in types.items():
        known = columns.get(name)
        if known is None or known.encoding is not GeoEncoding.WKB or not _agrees(known, type_):
            known = GeoColumn(crs=type_.crs, algorithm=getattr(type_, "algorithm", None))
        if known is columns.get(name) or _is_representable(known, version):
            columns[name] = known
        else:
            columns.pop(name, None)
    if not columns:
        return None
    primary = next(iter(columns)) if before is None or before.primary_column not in columns else before.primary_column
    return GeoMetadata(primary, columns, version, {} if before is None else before.extra)


def geo_property(template: GeoMetadata, statistics: Mapping[str, ColumnStats]) -> str:
    """The JSON of the property with the types and the boxes of the values, by column name.

    >>> from geolake_nb.geo.bounds import column_stats
    >>> import pyarrow as pa
    >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> geo_property(geo_template({"g": GeometryType()}), {"g": column_stats(pa.array([point]))})[-54:]
    '"geometry_types":["Point"],"bbox":[1.0,2.0,1.0,2.0]}}}'
    """
    columns = dict(template.columns)
    for name, stats in statistics.items():
        if name in columns:
            types = _type_names(stats.types)
            columns[name] = replace(columns[name], geometry_types=types, bbox=_bbox(stats.box, types))
    return to_geo_metadata(replace(template, columns=columns), keep_version=True)


def with_srids(template: GeoMetadata, srids_by_column: Mapping[str, Collection[int]]) -> GeoMetadata:
    """The metadata with the CRS of the SRIDs of all values, 0 for a value without one.

    Values without an SRID have the CRS of the template; where values differ, the CRS is unknown.

    >>> template = geo_template({"g": GeometryType()})
    >>> [with_srids(template, {"g": srids}).columns["g"].crs.text for srids in ([], [0], [3857], [0, 3857])]
    ['OGC:CRS84', 'OGC:CRS84', 'srid:3857', 'SRID:0']
    """
    columns = dict(template.columns)
    for name, srids in srids_by_column.items():
        numbers = set(srids)
        if numbers - {0}:
            crs = Crs(f"srid:{min(numbers)}") if len(numbers) == 1 and min(numbers) > 0 else UNKNOWN_CRS
            # GeoParquet, crs: null if it is unknown; a code that EPSG lacks has no PROJJSON.
            columns[name] = replace(columns[name], crs=crs if crs.is_resolvable else UNKNOWN_CRS)
    return replace(template, columns=columns)


def arrow_schema_with_geo(text: bytes, geo: str) -> str | None:
    """Arrow's schema with this `geo` property, the only copy that Arrow reads; `None` if `text` is not a schema.

    >>> import base64, pyarrow as pa
    >>> schema = pa.schema([("a", pa.int8())], {"geo": "old", "who": "me"}).serialize().to_pybytes()
    >>> text = arrow_schema_with_geo(base64.b64encode(schema), "new")
    >>> pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).metadata
    {b'geo': b'new', b'who': b'me'}
    >>> arrow_schema_with_geo(b"?", "new") is None
    True
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (ValueError, OSError, pa.ArrowException):
        return None
    properties = {**(schema.metadata or {}), GEO.encode(): geo.encode()}
    return base64.b64encode(schema.with_metadata(properties).serialize().to_pybytes()).decode()


def _agrees(known: GeoColumn, type_: GeoType) -> bool:
    return known.algorithm == getattr(type_, "algorithm", None) and known.crs.same_as(type_.crs)


def _is_representable(column: GeoColumn, version: str) -> bool:
    if column.algorithm not in (None, EdgeAlgorithm.SPHERICAL) and not version.startswith("2."):
        return False
    try:
        return column.crs.is_unknown or bool(column.crs.to_projjson())
    except CrsError:
        return False


def _type_names(codes: tuple[int, ...] | None) -> tuple[str, ...]:
    """The names of ISO codes; none, which means unknown, if one has no name."""
    if codes is None or any(not 1 <= code % 1000 <= len(_NAMES) or code >= 4000 for code in codes):
        return ()
    return tuple([_NAMES[code % 1000 - 1] + _AXES[code // 1000] for code in codes])


def _bbox(box: Box | None, types: tuple[str, ...]) -> tuple[float, ...] | None:
    if box is None or not all(map(math.isfinite, box.values)):
        return None
    flat = (box.xmin, box.ymin, box.xmax, box.ymax)
    # A box with Z cannot cover values without Z; GeoParquet 1.1 has no M.
    if box.zmin is None or box.zmax is None or not types or not all(name.endswith((" Z", " ZM")) for name in types):
        return flat
    return (box.xmin, box.ymin, box.zmin, box.xmax, box.ymax, box.zmax)
