"""Spatial functions for Spark SQL, as Arrow UDFs over shapely.

Spark 4.2 has types for geometries and geographies, and only functions that convert them. Relations with a constant are
tested as a scan tests them, so that Spark and `Table.scan` give the same rows; on geographies by S2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import MissingDependencyError, PredicateError
from geolake_nb.expressions.binding import BoundSpatial
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS
from geolake_nb.model.operators import SpatialOp
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.scan.spatial_filter import SpatialFilter, read_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    Shapes = NDArray[np.object_]

__all__ = ["register"]

_MIXED_SRID = b"-1"
"""How Spark marks GEOMETRY(ANY) in Arrow: the values have SRIDs of their own."""


@dataclass(frozen=True, slots=True)
class SpatialFunction:
    """A function of Spark SQL."""

    arguments: str
    returns: str
    """The type in Spark; `geometry` stands for GEOMETRY(ANY)."""
    summary: str
    call: Callable[..., pa.Array]


def register(spark: SparkSession) -> tuple[str, ...]:
    """Make spatial functions such as ST_Intersects known to a session, classic or Connect.

    Names that the session knows already keep their function, those of Apache Sedona among them. `gl.sql(...,
    engine="spark")` does this by itself.

    Args:
        spark: the session, of Spark 4.1 or later.

    Returns:
        The names of the functions that were added.

    Raises:
        MissingDependencyError: the version of Spark has no types for geometries.

    Example:
        >>> gl.spark_functions.FUNCTIONS["ST_Distance"].summary
        'the distance; metres for geographies'
    """
    try:
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.types import GeometryType as SparkGeometry
    except ImportError:
        raise MissingDependencyError(
            "spatial functions need Spark 4.1 or later", remedy="pip install 'geolake-nb[spark]'"
        ) from None
    known = {row[0].lower() for row in spark.sql("SHOW FUNCTIONS LIKE 'st_*'").collect()}
    added = tuple(name for name in FUNCTIONS if name.lower() not in known)
    for name in added:
        function = FUNCTIONS[name]
        returns: Any = SparkGeometry("ANY") if function.returns == "geometry" else function.returns
        make: Any = arrow_udf
        spark.udf.register(name, make(_udf(name), returns))
    return added


def _udf(name: str) -> Callable[..., pa.Array]:
    def call(*arguments: Any) -> Any:
        # By name: executors have this module, and need not be sent the function.
        from geolake_nb.spark.functions import FUNCTIONS, in_one_sentence

        return in_one_sentence(name, FUNCTIONS[name], arguments)

    # Spark looks at the types themselves to tell what kind of function it is.
    call.__annotations__ = {"arguments": pa.Array, "return": pa.Array}
    return call


def in_one_sentence(name: str, function: SpatialFunction, arguments: tuple[pa.Array, ...]) -> pa.Array:
    """The values of a function; wrong numbers and kinds of arguments are named."""
    allowed = function.arguments.split(", ")
    required = sum("=" not in argument for argument in allowed)
    if not required <= len(arguments) <= len(allowed):
        raise PredicateError(f"{name} takes ({function.arguments}), got {len(arguments)} arguments")
    try:
        return function.call(*arguments)
    except _ArgumentError as problem:
        raise PredicateError(f"{name}({function.arguments}): {problem}") from None


class _ArgumentError(Exception):
    """An argument is not of the kind that a function takes."""


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A column of geometries or geographies."""

    wkb: pa.Array
    srids: NDArray[np.int32]
    is_geography: bool

    @classmethod
    def of(cls, values: pa.Array) -> _Column:
        kind = values.type
        if pa.types.is_struct(kind) and [field.name for field in kind] == ["srid", "wkb"]:
            srids, wkb = values.flatten()
            is_geography = b"geography" in (kind.field("wkb").metadata or {})
            return cls(wkb, np.asarray(pc.fill_null(srids, 0), np.int32), is_geography)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind):
            return cls(values.cast(pa.binary()), np.zeros(len(values), np.int32), is_geography=False)
        raise _ArgumentError(f"expected a geometry, got a {kind}; read text with ST_GeomFromText")

    def shapes(self) -> Shapes:
        """The values as shapely geometries, `None` for null and for what cannot be read."""
        shapes, curved = read_shapes(self.wkb.to_pylist())
        if curved.any():
            raise _ArgumentError("GEOS has no curves")
        return shapes

    def planar(self) -> Shapes:
        """The same of a geometry column."""
        if self.is_geography:
            raise _ArgumentError("not defined for geographies; use ST_GeomFromWKB(ST_AsBinary(...)) for planar edges")
        return self.shapes()

    def spherical(self) -> Any:
        """The values as geographies of S2."""
        import shapely

        s2 = _spherely()
        wkb = shapely.to_wkb(shapely.force_2d(self.shapes()))
        return np.array([None if value is None else s2.from_wkb(value) for value in wkb.tolist()], object)


def _spherely() -> Any:
    try:
        import spherely
    except ImportError:
        raise MissingDependencyError(
            "functions of geographies need spherely", remedy="pip install 'geolake-nb[geography]' on the executors"
        ) from None
    return spherely


def _pair(left: pa.Array, right: pa.Array) -> tuple[_Column, _Column]:
    a, b = _Column.of(left), _Column.of(right)
    nulls = pa.types.is_null(left.type) or pa.types.is_null(right.type)
    if a.is_geography != b.is_geography and not nulls:
        raise _ArgumentError("expected two geometries or two geographies, got one of each")
    _one_srid(a, b)
    return a, b


def _one_srid(a: _Column, b: _Column) -> NDArray[np.int32]:
    """The SRID of each row of two columns; 0 goes with every other."""
    different = (a.srids != b.srids) & (a.srids != 0) & (b.srids != 0)
    different &= np.asarray(a.wkb.is_valid()) & np.asarray(b.wkb.is_valid())
    if different.any():
        row = int(np.flatnonzero(different)[0])
        raise _ArgumentError(f"the SRIDs differ: {a.srids[row]} and {b.srids[row]}")
    return np.where(a.srids != 0, a.srids, b.srids)


def _relation(op: SpatialOp) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def relation(left: pa.Array, right: pa.Array) -> pa.Array:
        a, b = _pair(left, right)
        if not len(left):
            return pa.array([], pa.bool_())
        if _is_constant(b.wkb):
            return _tested(op, a, b.wkb[0].as_py())
        if _is_constant(a.wkb):
            return _tested(op.converse, b, a.wkb[0].as_py())
        if a.is_geography:
            # S2 answers for one query at a time.
            parts = [
                _tested(op, _Column(a.wkb.slice(row, 1), a.srids[row : row + 1], is_geography=True), value)
                for row, value in enumerate(b.wkb.to_pylist())
            ]
            return pa.concat_arrays(parts)
        return _of_pairs(op.name.lower(), a, b)

    return relation


def _disjoint(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.invert(_relation(SpatialOp.INTERSECTS)(left, right))


def _is_constant(wkb: pa.Array) -> bool:
    return bool(wkb[0] == wkb[-1]) and len(wkb.unique()) == 1


def _tested(op: SpatialOp, column: _Column, query: bytes | None) -> pa.Array:
    if query is None:
        return pa.nulls(len(column.wkb), pa.bool_())
    true, false = _filter(op, query, column.is_geography).test(column.wkb)
    return pa.array(true, mask=~true & ~false)


@lru_cache(maxsize=64)
def _filter(op: SpatialOp, query: bytes, is_geography: bool) -> SpatialFilter:
    # SRIDs were compared before: both sides are in one CRS.
    kind = GeographyType(CRS84) if is_geography else GeometryType(UNKNOWN_CRS)
    return SpatialFilter(BoundSpatial(op, ("geometry",), kind, query, kind.crs))


def _of_pairs(function: str, a: _Column, b: _Column, *more: Any) -> pa.Array:
    """The answer of a function of shapely with a bool or a number for two geometries."""
    import shapely

    first, second = a.planar(), b.planar()
    missing = shapely.is_missing(first) | shapely.is_missing(second)
    with np.errstate(invalid="ignore"):  # of a vertex that is not a number
        answer = getattr(shapely, function)(first, second, *more)
    return pa.array(answer, mask=missing | (np.isnan(answer) if answer.dtype == np.float64 else False))


def _distance(left: pa.Array, right: pa.Array) -> pa.Array:
    a, b = _pair(left, right)
    if not a.is_geography:
        return _of_pairs("distance", a, b)
    first, second = a.spherical(), b.spherical()
    both = np.array([x is not None and y is not None for x, y in zip(first, second, strict=True)], np.bool_)
    meters = np.zeros(len(first))
    if both.any():
        meters[both] = _spherely().distance(first[both], second[both])
    return pa.array(meters, mask=~both)


def _d_within(left: pa.Array, right: pa.Array, distance: pa.Array) -> pa.Array:
    a, b = _pair(left, right)
    if a.is_geography:
        return pc.less_equal(_distance(left, right), distance.cast(pa.float64()))
    limits = distance.cast(pa.float64())
    known = np.asarray(limits.is_valid())
    answer = _of_pairs("dwithin", a, b, np.asarray(pc.fill_null(limits, 0.0)))
    return answer if known.all() else pc.if_else(pa.array(known), answer, None)


def _measure(planar: str, spherical: str) -> Callable[[pa.Array], pa.Array]:
    def measure(geom: pa.Array) -> pa.Array:
        import shapely

        column = _Column.of(geom)
        if column.is_geography:
            shapes = column.spherical()
            there = np.array([shape is not None for shape in shapes], np.bool_)
            values = np.zeros(len(shapes))
            if there.any():
                values[there] = getattr(_spherely(), spherical)(shapes[there])
            return pa.array(values, mask=~there)
        shapes = column.shapes()
        if planar == "length":  # of lines: a polygon has a perimeter
            areas = np.isin(shapely.get_type_id(shapes), (3, 6))
            return pa.array(np.where(areas, 0.0, shapely.length(shapes)), mask=shapely.is_missing(shapes))
        return pa.array(getattr(shapely, planar)(shapes), mask=shapely.is_missing(shapes))

    return measure


def _number(of: Callable[[Any], Any]) -> Callable[[pa.Array], pa.Array]:
    """A value for each geometry or geography; NaN, which shapely has for those without one, becomes null."""

    def number(geom: pa.Array) -> pa.Array:
        import shapely

        shapes = _Column.of(geom).shapes()
        values = np.asarray(of(shapes))
        missing = shapely.is_missing(shapes)
        return pa.array(values, mask=missing | np.isnan(values) if values.dtype.kind == "f" else missing)

    return number


def _side(index: int) -> Callable[[Any], Any]:
    def side(shapes: Any) -> Any:
        import shapely

        return shapely.bounds(shapes)[:, index]

    return side


def _of_shapely(name: str) -> Callable[[Any], Any]:
    def function(shapes: Any) -> Any:
        import shapely

        return getattr(shapely, name)(shapes)

    return function


_KINDS = np.array(
    [
        "ST_Point", "ST_LineString", "ST_LinearRing", "ST_Polygon", "ST_MultiPoint", "ST_MultiLineString",
        "ST_MultiPolygon", "ST_GeometryCollection", "",
    ],
    object,
)  # fmt: skip


def _text(of: Callable[[Any], Any]) -> Callable[[pa.Array], pa.Array]:
    def text(geom: pa.Array) -> pa.Array:
        shapes = _Column.of(geom).shapes()
        return pa.array([None if shape is None else value for shape, value in zip(shapes, of(shapes), strict=True)])

    return text


def _geometry_type(shapes: Any) -> Any:
    import shapely

    return _KINDS[shapely.get_type_id(shapes)]


def _geometries(shapes: Any, srids: NDArray[np.int32]) -> pa.Array:
    """Shapely geometries as values of GEOMETRY(ANY)."""
    import shapely

    missing = shapely.is_missing(shapes)
    wkb = [b"" if value is None else value for value in shapely.to_wkb(shapes, flavor="iso").tolist()]
    fields = [
        pa.field("srid", pa.int32(), nullable=False),
        pa.field("wkb", pa.binary(), nullable=False, metadata={b"geometry": b"true", b"srid": _MIXED_SRID}),
    ]
    children = [pa.array(srids.astype(np.int32)), pa.array(wkb, pa.binary())]
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(missing))


def _srids_of(values: pa.Array | None, count: int) -> NDArray[np.int32]:
    if values is None:
        return np.zeros(count, np.int32)
    if not pa.types.is_integer(values.type):
        raise _ArgumentError(f"expected a number as SRID, got a {values.type}")
    return np.asarray(pc.fill_null(values.cast(pa.int32()), 0), np.int32)


def _from_text(wkt: pa.Array, srid: pa.Array | None = None) -> pa.Array:
    import shapely

    if not pa.types.is_string(wkt.type) and not pa.types.is_large_string(wkt.type):
        raise _ArgumentError(f"expected WKT, got a {wkt.type}")
    distinct = wkt.dictionary_encode()
    try:
        shapes = np.asarray(shapely.from_wkt(distinct.dictionary.to_pylist()), object)
    except shapely.GEOSException as problem:
        raise _ArgumentError(f"the WKT cannot be read: {str(problem).splitlines()[0]}") from None
    shapes = np.concatenate([shapes, np.array([None], object)])  # for null
    rows = np.asarray(pc.fill_null(distinct.indices, len(shapes) - 1), np.int64)
    return _geometries(shapes[rows], _srids_of(srid, len(wkt)))


def _floats(values: pa.Array) -> NDArray[np.float64]:
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type) or pa.types.is_decimal(values.type)):
        raise _ArgumentError(f"expected a number, got a {values.type}")
    return np.asarray(pc.fill_null(values.cast(pa.float64(), safe=False), np.nan), np.float64)


def _point(x: pa.Array, y: pa.Array, srid: pa.Array | None = None) -> pa.Array:
    import shapely

    given = np.asarray(x.is_valid()) & np.asarray(y.is_valid())
    shapes = np.where(given, shapely.points(_floats(x), _floats(y)), None)
    return _geometries(shapes, _srids_of(srid, len(x)))


def _envelope(xmin: pa.Array, ymin: pa.Array, xmax: pa.Array, ymax: pa.Array, srid: pa.Array | None = None) -> pa.Array:
    import shapely

    given = np.logical_and.reduce([np.asarray(side.is_valid()) for side in (xmin, ymin, xmax, ymax)])
    boxes = shapely.box(_floats(xmin), _floats(ymin), _floats(xmax), _floats(ymax))
    return _geometries(np.where(given, boxes, None), _srids_of(srid, len(xmin)))


def _shape(of: Callable[[Any], Any]) -> Callable[[pa.Array], pa.Array]:
    def shape(geom: pa.Array) -> pa.Array:
        column = _Column.of(geom)
        return _geometries(of(column.planar()), column.srids)

    return shape


def _shape_of_two(name: str) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def shape(left: pa.Array, right: pa.Array) -> pa.Array:
        import shapely

        a, b = _pair(left, right)
        return _geometries(getattr(shapely, name)(a.planar(), b.planar()), _one_srid(a, b))

    return shape


def _buffer(geom: pa.Array, distance: pa.Array) -> pa.Array:
    import shapely

    column = _Column.of(geom)
    return _geometries(shapely.buffer(column.planar(), _floats(distance), quad_segs=8), column.srids)


_Described = tuple[str, str, str, str, "Callable[..., pa.Array]"]
_RELATIONS: list[_Described] = [
    (op.sql, "a, b", "boolean", summary, _relation(op))
    for op, summary in (
        (SpatialOp.CONTAINS, "whether a holds b, and their interiors meet"),
        (SpatialOp.COVERED_BY, "whether no point of a is outside b"),
        (SpatialOp.COVERS, "whether no point of b is outside a"),
        (SpatialOp.CROSSES, "whether they share interior points of a lower dimension"),
        (SpatialOp.EQUALS, "whether they are the same set of points"),
        (SpatialOp.INTERSECTS, "whether they share a point"),
        (SpatialOp.OVERLAPS, "whether they share some points of their dimension, and not all"),
        (SpatialOp.TOUCHES, "whether they share boundary points only"),
        (SpatialOp.WITHIN, "whether b holds a, and their interiors meet"),
    )
]
_SIDES = (("ST_XMin", "least x"), ("ST_YMin", "least y"), ("ST_XMax", "greatest x"), ("ST_YMax", "greatest y"))
_OTHERS: list[_Described] = [
    ("ST_Area", "geom", "double", "the area; square metres for geographies", _measure("area", "area")),
    ("ST_AsText", "geom", "string", "its WKT", _text(_of_shapely("to_wkt"))),
    ("ST_Buffer", "geom, distance", "geometry", "the points within a distance", _buffer),
    ("ST_Centroid", "geom", "geometry", "its centre of mass", _shape(_of_shapely("centroid"))),
    ("ST_DWithin", "a, b, distance", "boolean", "whether they are that near", _d_within),
    ("ST_Difference", "a, b", "geometry", "what a has and b has not", _shape_of_two("difference")),
    ("ST_Disjoint", "a, b", "boolean", "whether they share no point", _disjoint),
    ("ST_Distance", "a, b", "double", "the distance; metres for geographies", _distance),
    ("ST_Envelope", "geom", "geometry", "the rectangle around it", _shape(_of_shapely("envelope"))),
    ("ST_GeomFromText", "wkt, srid=0", "geometry", "the geometry of a WKT", _from_text),
    ("ST_GeometryType", "geom", "string", "its type, such as ST_Point", _text(_geometry_type)),
    ("ST_Intersection", "a, b", "geometry", "what both share", _shape_of_two("intersection")),
    ("ST_IsEmpty", "geom", "boolean", "whether it has no point", _number(_of_shapely("is_empty"))),
    ("ST_IsValid", "geom", "boolean", "whether it is valid", _number(_of_shapely("is_valid"))),
    ("ST_Length", "geom", "double", "the length of lines; metres for geographies", _measure("length", "length")),
    ("ST_MakeEnvelope", "xmin, ymin, xmax, ymax, srid=0", "geometry", "a rectangle", _envelope),
    ("ST_NPoints", "geom", "int", "the number of vertices", _number(_of_shapely("get_num_coordinates"))),
    ("ST_Point", "x, y, srid=0", "geometry", "a point", _point),
    ("ST_Union", "a, b", "geometry", "what one of them has", _shape_of_two("union")),
    ("ST_X", "geom", "double", "x of a point", _number(_of_shapely("get_x"))),
    ("ST_Y", "geom", "double", "y of a point", _number(_of_shapely("get_y"))),
    *(
        (name, "geom", "double", f"the {what} of its vertices", _number(_side(index)))
        for index, (name, what) in enumerate(_SIDES)
    ),
]


FUNCTIONS: Mapping[str, SpatialFunction] = {
    described[0]: SpatialFunction(*described[1:]) for described in sorted([*_RELATIONS, *_OTHERS], key=itemgetter(0))
}
"""The functions by name, for Spark SQL; Spark itself has ST_AsBinary, ST_GeomFromWKB, ST_GeogFromWKB, ST_SetSRID and
ST_SRID."""
