"""The `geo` property of a Parquet file: what is known of its columns beforehand, and then of their values."""

from __future__ import annotations

import base64
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.core.geoparquet import GeoColumn, GeoEncoding, GeoMetadata, to_geo_metadata
from geolake_nb.core.types import EdgeAlgorithm, GeographyType, GeometryType
from geolake_nb.errors import CrsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.core.box import Box
    from geolake_nb.core.statistics import ColumnStats

    GeoType = GeometryType | GeographyType

__all__ = ["ARROW_SCHEMA", "GEO", "arrow_schema_with_geo", "geo_property", "geo_template"]

GEO = "geo"
"""The name of the property."""
ARROW_SCHEMA = "ARROW:schema"
"""The property in which Arrow keeps its own schema, with a second copy of all properties."""

_NAMES = ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection")
_AXES = ("", " Z", " M", " ZM")


def geo_template(types: Mapping[str, GeoType], *, before: GeoMetadata | None = None) -> GeoMetadata | None:
    """The metadata of a file with these top-level columns; `before` is kept as far as it is right.

    A column that GeoParquet cannot tell of, for its edges or its CRS, is left out; `None` if none remains.

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
        if _can_be_told(known, version):
            columns[name] = known
        else:
            columns.pop(name, None)
    if not columns:
        return None
    primary = next(iter(columns)) if before is None or before.primary_column not in columns else before.primary_column
    return GeoMetadata(primary, columns, version, {} if before is None else before.extra)


def geo_property(template: GeoMetadata, found: Mapping[str, ColumnStats]) -> str:
    """The text of the property with the types and the boxes of the values, by the names of columns.

    >>> from geolake_nb.core.bounds import column_stats
    >>> import pyarrow as pa
    >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> geo_property(geo_template({"g": GeometryType()}), {"g": column_stats(pa.array([point]))})[-54:]
    '"geometry_types":["Point"],"bbox":[1.0,2.0,1.0,2.0]}}}'
    """
    columns = dict(template.columns)
    for name, stats in found.items():
        if name in columns:
            types = _type_names(stats.types)
            columns[name] = replace(columns[name], geometry_types=types, bbox=_bbox(stats.box, types))
    return to_geo_metadata(replace(template, columns=columns), keep_version=True)


def arrow_schema_with_geo(text: bytes, geo: str) -> str | None:
    """Arrow's schema with this `geo` property, of which its readers look at no other copy; `None` if it is none.

    >>> import base64, pyarrow as pa
    >>> held = pa.schema([("a", pa.int8())], {"geo": "old", "who": "me"}).serialize().to_pybytes()
    >>> text = arrow_schema_with_geo(base64.b64encode(held), "new")
    >>> pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).metadata
    {b'geo': b'new', b'who': b'me'}
    >>> arrow_schema_with_geo(b"?", "new") is None
    True
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (ValueError, OSError, pa.ArrowException):
        return None
    held = {**(schema.metadata or {}), GEO.encode(): geo.encode()}
    return base64.b64encode(schema.with_metadata(held).serialize().to_pybytes()).decode()


def _agrees(known: GeoColumn, type_: GeoType) -> bool:
    return known.algorithm == getattr(type_, "algorithm", None) and known.crs.same_as(type_.crs)


def _can_be_told(column: GeoColumn, version: str) -> bool:
    if column.algorithm not in (None, EdgeAlgorithm.SPHERICAL) and not version.startswith("2."):
        return False
    try:
        return column.crs.is_unknown or bool(column.crs.to_projjson())
    except CrsError:
        return False


def _type_names(codes: tuple[int, ...] | None) -> tuple[str, ...]:
    """The names of ISO codes; none, which stands for not known, where one has no name."""
    if codes is None or any(not 1 <= code % 1000 <= len(_NAMES) or code >= 4000 for code in codes):
        return ()
    return tuple([_NAMES[code % 1000 - 1] + _AXES[code // 1000] for code in codes])


def _bbox(box: Box | None, types: tuple[str, ...]) -> tuple[float, ...] | None:
    if box is None or not all(map(math.isfinite, box.values)):
        return None
    flat = (box.xmin, box.ymin, box.xmax, box.ymax)
    # Values without Z beside others have no place in a box with Z; M has no place in GeoParquet 1.1.
    if box.zmin is None or box.zmax is None or not types or not all(name.endswith((" Z", " ZM")) for name in types):
        return flat
    return (box.xmin, box.ymin, box.zmin, box.xmax, box.ymax, box.zmax)
