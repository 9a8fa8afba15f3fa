"""The `geo` metadata of GeoParquet files, versions 0.1 to 2.0, and their native encodings."""

from __future__ import annotations

import contextlib
import enum
import json
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.model.box import Box
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, Crs, CrsForm
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType
from geolake_nb.text.json_text import check_depth, expect, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Covering",
    "GeoColumn",
    "GeoEncoding",
    "GeoMetadata",
    "from_geo_metadata",
    "to_geo_metadata",
    "wkb_of_coordinates",
]

_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9]{1,3})?(?:[-+][0-9A-Za-z.+-]{1,40})?")
_TYPE = re.compile(r"(GeometryCollection|(Multi)?(Point|LineString|Polygon))( Z)?")
_TYPE_2 = re.compile(r"(GeometryCollection|(Multi)?(Point|LineString|Polygon))( Z| M| ZM)?")
_METADATA_KEYS = ("version", "primary_column", "columns")
_SIDES = ("xmin", "ymin", "zmin", "xmax", "ymax", "zmax")


class GeoEncoding(enum.Enum):
    """How a column stores its geometries."""

    WKB = "WKB"
    """Well-known binary."""
    WKT = "WKT"
    """Well-known text (drafts before 1.0)."""
    POINT = "point"
    """A struct of x and y."""
    LINESTRING = "linestring"
    """A list of such structs."""
    POLYGON = "polygon"
    """A list of lists of such structs."""
    MULTIPOINT = "multipoint"
    """A list of such structs."""
    MULTILINESTRING = "multilinestring"
    """A list of lists of such structs."""
    MULTIPOLYGON = "multipolygon"
    """A list of lists of lists of such structs."""


@dataclass(frozen=True, slots=True)
class Covering:
    """Where each row's own bounding box is: the paths of its sides, from the top-level column down."""

    xmin: tuple[str, ...]
    ymin: tuple[str, ...]
    xmax: tuple[str, ...]
    ymax: tuple[str, ...]
    zmin: tuple[str, ...] | None = None
    zmax: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class GeoColumn:
    """The metadata of one geometry column.

    >>> GeoColumn(bbox=(0, 0, 1, 1)).box
    Box(xmin=0.0, ymin=0.0, xmax=1.0, ymax=1.0, zmin=None, zmax=None, mmin=None, mmax=None)
    >>> GeoColumn().box is None
    True
    """

    encoding: GeoEncoding = GeoEncoding.WKB
    geometry_types: tuple[str, ...] = ()
    """Names such as `MultiPolygon Z`; none when they are not known."""
    crs: Crs = CRS84
    algorithm: EdgeAlgorithm | None = None
    """How edges run over the Earth, `None` when they are straight in the coordinates (planar)."""
    orientation: str | None = None
    bbox: tuple[float, ...] | None = None
    """4 numbers, 6 with Z, 8 with Z and M: all the lower ones, then all the upper ones; x may wrap."""
    epoch: float | None = None
    covering: Covering | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Every other key, as read."""

    @property
    def box(self) -> Box | None:
        """The bounding box, `None` when there is none; numbers that do not form a box are a `BoundError`."""
        if self.bbox is None:
            return None
        axes = len(self.bbox) // 2
        low, high = self.bbox[:axes], self.bbox[axes:]
        z: tuple[float | None, float | None] = (None, None)
        m: tuple[float | None, float | None] = (None, None)
        with_m = [name.endswith("M") for name in self.geometry_types]
        if axes == 4:
            z, m = (low[2], high[2]), (low[3], high[3])
        elif axes == 3 and not any(with_m):
            z = low[2], high[2]
        elif axes == 3 and all(name.endswith(" M") for name in self.geometry_types):
            m = low[2], high[2]
        return Box(low[0], low[1], high[0], high[1], z[0], z[1], m[0], m[1])

    @property
    def type(self) -> GeometryType | GeographyType:
        """The type of the column in a schema."""
        native = self.encoding not in (GeoEncoding.WKB, GeoEncoding.WKT)
        encoding = GeometryEncoding.GEOARROW if native else GeometryEncoding(self.encoding.value.lower())
        if self.algorithm is None:
            return GeometryType(self.crs, encoding)
        return GeographyType(self.crs, self.algorithm, encoding)


@dataclass(frozen=True, slots=True)
class GeoMetadata:
    """The `geo` value of a file."""

    primary_column: str
    columns: Mapping[str, GeoColumn] = field(hash=False)
    version: str = "1.1.0"
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Every other key, as read."""

    @property
    def primary(self) -> GeoColumn:
        """The column that tools show when they show one."""
        return self.columns[self.primary_column]


def from_geo_metadata(value: str | bytes | Mapping[str, Any], *, any_crs: bool = False) -> GeoMetadata:
    """The metadata of a file under the key `geo`; what violates its version is refused.

    With `any_crs`, an invalid CRS is kept unchanged: files in use have names such as `"EPSG:4326"` there.

    >>> geo = from_geo_metadata('{"version": "1.1.0", "primary_column": "g",'
    ...     ' "columns": {"g": {"encoding": "WKB", "geometry_types": [], "crs": null}}}')
    >>> geo.primary.crs.is_unknown
    True
    >>> from_geo_metadata("{}")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: geo: 'version' is missing
    """
    if isinstance(value, (str, bytes)):
        value = load_json(value, what="the value", where="geo")
    else:
        check_depth(value, what="the value", where="geo")
    if not isinstance(value, dict):
        raise SchemaError(f"expected a JSON object, got a {type(value).__name__}", where="geo")
    version_key = "version"
    if "version" not in value and str(value.get("schema_version", "")).startswith("0.1"):
        version_key = "schema_version"  # so the first writers named it
    version = expect(value, version_key, str, "geo")
    match = _VERSION.fullmatch(version)
    release = (int(match.group(1)), int(match.group(2))) if match else None
    if release is None or release[0] > 2:
        raise SchemaError(f"unknown GeoParquet version {version[:40]!r}", where="geo", remedy="0.1 to 2.0 are known")
    primary = expect(value, "primary_column", str, "geo")
    columns = expect(value, "columns", dict, "geo")
    if not columns:
        raise SchemaError("'columns' is empty", where="geo")
    read = {name: _read_column(name, column, release, any_crs=any_crs) for name, column in columns.items()}
    if primary not in read:
        options = ", ".join(sorted(read))
        raise SchemaError(
            f"the primary column {primary!r} is not among the columns",
            where="geo",
            remedy=f"these are: {options}",
        )
    extra = {key: member for key, member in value.items() if key not in (*_METADATA_KEYS, version_key)}
    return GeoMetadata(primary, read, version, extra)


def to_geo_metadata(geo: GeoMetadata, *, keep_version: bool = False) -> str:
    """The metadata as GeoParquet 1.1, whatever version it was read from; with `keep_version` 2.0 stays what it is.

    >>> to_geo_metadata(GeoMetadata("g", {"g": GeoColumn(geometry_types=("Point",))}))
    '{"version":"1.1.0","primary_column":"g","columns":{"g":{"encoding":"WKB","geometry_types":["Point"]}}}'
    """
    version = geo.version if keep_version and geo.version.startswith("2.") else "1.1.0"
    columns = {name: _write_column(name, column, version) for name, column in geo.columns.items()}
    value = {"version": version, "primary_column": geo.primary_column, "columns": columns, **geo.extra}
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()  # a lone surrogate cannot be encoded
    except (RecursionError, TypeError, ValueError) as problem:
        raise SchemaError(f"the metadata cannot be written as JSON: {problem}", where="geo") from None
    return text


def _read_column(name: str, value: Any, release: tuple[int, int], *, any_crs: bool) -> GeoColumn:
    if not name:
        raise SchemaError("a column has an empty name", where="geo")
    where = f"geo, column {name}"
    if not isinstance(value, dict):
        raise SchemaError(f"expected a JSON object, got a {type(value).__name__}", where=where)
    rest = dict(value)
    encoding = _read_encoding(expect(value, "encoding", str, where), release, where)
    types = _read_types(rest, release, where)
    column = GeoColumn(
        encoding,
        types,
        _read_crs(rest, release, where, any_crs=any_crs),
        _read_edges(rest, release, where),
        _read_orientation(rest, release, where),
        _read_bbox(rest, release, where, types),
        _read_epoch(rest, where),
        # GeoParquet 1.1, covering: older versions have none, and 2.0 has boxes in the Parquet footer.
        _read_covering(rest, where) if (1, 1) <= release < (2, 0) else None,
        rest,
    )
    del rest["encoding"]
    return column


def _read_encoding(text: str, release: tuple[int, int], where: str) -> GeoEncoding:
    allowed = {GeoEncoding.WKB.value: GeoEncoding.WKB}
    if release < (1, 0):
        allowed["WKT"] = GeoEncoding.WKT
    elif (1, 1) <= release < (2, 0):
        allowed = {encoding.value: encoding for encoding in GeoEncoding if encoding is not GeoEncoding.WKT}
    if text not in allowed:
        options = ", ".join(sorted(allowed))
        raise SchemaError(f"unknown encoding {text[:40]!r}", where=where, remedy=f"use one of: {options}")
    return allowed[text]


def _read_types(rest: dict[str, Any], release: tuple[int, int], where: str) -> tuple[str, ...]:
    if release < (1, 0):
        # GeoParquet 0.x, geometry_type: a name, a list of names, or Unknown; 0.1 has none.
        key = "geometry_types" if "geometry_types" in rest else "geometry_type"
        names = rest.pop(key, [])
        names = [names] if isinstance(names, str) else names
        if isinstance(names, list) and "Unknown" in names:
            return ()
    else:
        names = expect(rest, "geometry_types", list, where)
        del rest["geometry_types"]
    pattern = _TYPE_2 if release >= (2, 0) else _TYPE
    if not isinstance(names, list):
        raise SchemaError("expected a list of geometry types", where=where)
    for name in names:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            raise SchemaError(f"unknown geometry type {str(name)[:40]!r}", where=where)
    if len(set(names)) < len(names):
        raise SchemaError("duplicate geometry type", where=where)
    return tuple(names)


def _read_crs(rest: dict[str, Any], release: tuple[int, int], where: str, *, any_crs: bool) -> Crs:
    if "crs" not in rest:
        return CRS84
    value = rest.pop("crs")
    if value is None:
        return UNKNOWN_CRS
    # GeoParquet 0.1 to 0.3 hold well-known text, later versions PROJJSON.
    allowed = (str, dict) if release < (1, 0) or any_crs else dict
    if not isinstance(value, allowed):
        raise SchemaError(f"the CRS is a {type(value).__name__}", where=where, remedy="it must be PROJJSON or null")
    try:
        crs = Crs.parse(value)
    except CrsError as problem:
        raise SchemaError(f"the CRS: {problem.what}", where=where, remedy=problem.remedy) from problem
    if isinstance(value, dict) and crs.form is not CrsForm.PROJJSON and not any_crs:
        raise SchemaError("the CRS is an object that is not PROJJSON", where=where)
    return crs


def _read_edges(rest: dict[str, Any], release: tuple[int, int], where: str) -> EdgeAlgorithm | None:
    edges = rest.pop("edges", "planar")
    if edges not in ("planar", "spherical"):
        raise SchemaError(f"unknown edges {str(edges)[:40]!r}", where=where, remedy="use one of: planar, spherical")
    algorithm = EdgeAlgorithm.SPHERICAL
    if release >= (2, 0) and "algorithm" in rest:
        text = expect(rest, "algorithm", str, where)
        known = sorted(member.value for member in EdgeAlgorithm)
        if text not in known:
            raise SchemaError(f"unknown algorithm {text[:40]!r}", where=where, remedy=f"use one of: {', '.join(known)}")
        del rest["algorithm"]
        algorithm = EdgeAlgorithm(text)
    return None if edges == "planar" else algorithm


def _read_orientation(rest: dict[str, Any], release: tuple[int, int], where: str) -> str | None:
    if "orientation" not in rest:
        return None
    value = rest.pop("orientation")
    if value == "counterclockwise":
        return "counterclockwise"
    if value is None and release < (1, 0):
        return None
    raise SchemaError(f"unknown orientation {str(value)[:40]!r}", where=where, remedy="use counterclockwise")


def _read_bbox(
    rest: dict[str, Any], release: tuple[int, int], where: str, types: tuple[str, ...]
) -> tuple[float, ...] | None:
    if "bbox" not in rest:
        return None
    numbers = rest.pop("bbox")
    lengths = (4, 6, 8) if release >= (2, 0) else (4, 6)
    if not isinstance(numbers, list) or not all(_is_number(number) for number in numbers):
        raise SchemaError("expected the bbox to be a list of numbers", where=where)
    if len(numbers) not in lengths:
        options = ", ".join(map(str, lengths))
        raise SchemaError(f"the bbox has {len(numbers)} numbers", where=where, remedy=f"use one of: {options}")
    if len(numbers) == 6 and release >= (2, 0) and not types:
        # GeoParquet 2.0, bbox: the third axis is Z or M, and only the types show which.
        numbers = [*numbers[:2], *numbers[3:5]]
    return tuple(float(number) for number in numbers)


def _read_epoch(rest: dict[str, Any], where: str) -> float | None:
    if "epoch" not in rest:
        return None
    epoch = rest.pop("epoch")
    if not _is_number(epoch):
        raise SchemaError("expected the epoch to be a number", where=where)
    return float(epoch)


def _read_covering(rest: dict[str, Any], where: str) -> Covering | None:
    if "covering" not in rest:
        return None
    sides = expect(expect(rest, "covering", dict, where), "bbox", dict, f"{where}, covering")
    here = f"{where}, covering bbox"
    paths: dict[str, tuple[str, ...]] = {}
    for side in _SIDES:
        if side in sides or not side.startswith("z"):
            path = expect(sides, side, list, here)
            # GeoParquet 1.1, bbox covering: a column, and in it a field of the side's name.
            if len(path) != 2 or not isinstance(path[0], str) or not path[0] or path[1] != side:
                raise SchemaError(f"{side!r} is not the path of a field named {side}", where=here)
            paths[side] = tuple(path)
    if ("zmin" in paths) != ("zmax" in paths):
        raise SchemaError("'zmin' or 'zmax' is missing", where=here)
    del rest["covering"]
    return Covering(**paths)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def _write_crs(crs: Crs) -> Any:
    """The PROJJSON of a CRS, or the unresolved value of the metadata."""
    if crs.form is not CrsForm.OTHER:
        return crs.to_projjson()
    with contextlib.suppress(SchemaError):
        projjson = load_json(crs.text, what="the CRS", where="geo")
        return projjson if isinstance(projjson, dict) else crs.text
    return crs.text


def _write_column(name: str, column: GeoColumn, version: str) -> dict[str, Any]:
    where = f"geo, column {name}"
    two = version.startswith("2.")
    if column.encoding is GeoEncoding.WKT:
        raise SchemaError(f"GeoParquet {version[:3]} has no WKT", where=where, remedy="convert the values to WKB")
    if column.algorithm not in (None, EdgeAlgorithm.SPHERICAL) and not two:
        raise SchemaError("GeoParquet 1.1 has planar and spherical edges only", where=where)
    # GeoParquet 1.1 has no names for types with M, and an empty list means unknown types.
    known = _TYPE_2 if two else _TYPE
    types = column.geometry_types if all(map(known.fullmatch, column.geometry_types)) else ()
    value: dict[str, Any] = {"encoding": column.encoding.value, "geometry_types": list(types)}
    if column.crs.is_unknown:
        value["crs"] = None
    elif column.crs.text != CRS84.text:
        value["crs"] = _write_crs(column.crs)
    if column.algorithm is not None:
        value["edges"] = "spherical"
    if two and column.algorithm not in (None, EdgeAlgorithm.SPHERICAL):
        value["algorithm"] = column.algorithm.value
    if column.orientation is not None:
        value["orientation"] = column.orientation
    box = column.box
    if box is not None:
        low, high = [box.xmin, box.ymin], [box.xmax, box.ymax]
        if box.zmin is not None and box.zmax is not None:
            low, high = [*low, box.zmin], [*high, box.zmax]
        value["bbox"] = low + high
    if column.epoch is not None:
        value["epoch"] = column.epoch
    if column.covering is not None:
        paths = {side: getattr(column.covering, side) for side in _SIDES}
        value["covering"] = {"bbox": {side: list(path) for side, path in paths.items() if path is not None}}
    return {**value, **column.extra}


def wkb_of_coordinates(array: pa.Array, encoding: GeoEncoding | None, *, where: str) -> pa.Array:
    """The geometries of an array of coordinates as ISO WKB; `encoding` names the geometry type of the coordinates.

    >>> from geolake_nb.parquet.geoparquet import GeoEncoding
    >>> points = pa.array([{"x": 1.0, "y": 2.0}, None])
    >>> wkb_of_coordinates(points, GeoEncoding.POINT, where="geom").to_pylist()[0].hex()
    '0101000000000000000000f03f0000000000000040'
    """
    import geoarrow.pyarrow as ga
    import geoarrow.types as gt

    if encoding is None:
        raise SchemaError("the geometry type of the coordinates is unknown", where=where)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    inner = array.type
    while hasattr(inner, "value_type"):
        inner = inner.value_type
    axes = "".join(field.name for field in inner).upper() if pa.types.is_struct(inner) else ""
    if axes not in ("XY", "XYZ", "XYM", "XYZM"):
        raise SchemaError(f"expected coordinates, got values of type {array.type}", where=where)
    make = getattr(gt, encoding.value)
    kind = make(dimensions=gt.Dimensions.create(axes), coord_type=gt.CoordType.SEPARATED).to_pyarrow()
    return ga.as_wkb(kind.wrap_array(array.cast(kind.storage_type))).storage
