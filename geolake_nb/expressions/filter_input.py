"""What a user may pass as a filter: SQL, a predicate, JSON, or an area that the rows must intersect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from geolake_nb.errors import CrsError, NoGeoColumnError, PredicateError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.predicate import Predicate, Spatial, SpatialOp, column_path, predicate_parts
from geolake_nb.expressions.predicate_json import predicate_from_json
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.expressions.pyiceberg_filter import from_pyiceberg, is_pyiceberg
from geolake_nb.model.box import Box
from geolake_nb.model.crs import CRS84, Crs, CrsForm
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import GeographyType, GeometryType, RasterType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.expressions.binding import BoundSpatial
    from geolake_nb.expressions.predicate import ColumnPath
    from geolake_nb.model.crs import CrsLike
    from geolake_nb.model.schema import Schema

__all__ = ["FilterInput", "is_area", "looks_like_degrees", "query_crs", "read_filter", "spatial_parts"]

FilterInput: TypeAlias = Any
"""SQL text, a predicate, its JSON as text or dict, an expression of PyIceberg, or an area: a `Box`, four numbers as a
list, tuple or numpy array (`total_bounds`), a shapely geometry, WKT, WKB, a GeoDataFrame or GeoSeries, the `window`
of a map."""

_WKT = re.compile(
    r"\s*(?:SRID\s*=\s*\d{1,9}\s*;\s*)?"
    r"(?:POINT|LINESTRING|LINEARRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON|GEOMETRYCOLLECTION)"
    r"\s*(?:ZM|Z|M)?\s*(?:\(|EMPTY\b)",
    re.IGNORECASE,
)
_KINDS = "four numbers, Box, GeoDataFrame, JSON or dict, predicate, PyIceberg expression, shapely geometry, SQL, WKT"


def read_filter(
    where: FilterInput,
    schema: Schema,
    *,
    column: str | None = None,
    box_crs: str | Crs | CrsLike | None = None,
    location: str | None = None,
) -> Predicate:
    """The filter that a user gives for a table with this schema.

    An area is in its own CRS where it has one (an SRID, that of a GeoDataFrame, that of the window of a map), else in
    `box_crs`, else in the CRS of the column.

    Args:
        where: see `FilterInput`.
        schema: of the table.
        column: the geo column of an area, if there are several.
        box_crs: the CRS of an area.
        location: of the table, for messages.

    Raises:
        PredicateError: for what is not a filter, and for an area without a column or with two CRSs.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, GeometryType
    >>> schema = Schema(StructType((Field("geom", GeometryType(Crs("EPSG:32633"))),)))
    >>> print(read_filter((5, 45, 11, 52), schema))
    ST_Intersects(geom, ST_MakeEnvelope(5, 45, 11, 52))
    >>> print(read_filter([5, 45, 11, 52], schema, box_crs="EPSG:4326"))
    ST_Intersects(geom, ST_MakeEnvelope(5, 45, 11, 52, 4326))
    >>> print(read_filter("POINT (1 2)", schema))
    ST_Intersects(geom, ST_GeomFromText('POINT (1 2)'))
    >>> read_filter(7, schema)
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: expected a Box, a geometry or an SQL condition, got an int; ...
    """
    parsed = _area(where)
    if parsed is None:
        for name, given in (("a column", column), ("box_crs=", box_crs)):
            if given is not None:
                raise PredicateError(f"{name} cannot be combined with a whole filter", remedy="name it in the filter")
        return from_pyiceberg(where, schema) if is_pyiceberg(where) else _whole_filter(where)
    shape, own = parsed
    path = _column(schema, column, location)
    crs = _agreed_crs(own or _srid_crs(shape), box_crs)
    if crs is not None and crs.form is CrsForm.OTHER and crs == _column_crs(schema, path):
        crs = None  # no transformation is needed
    predicate = Spatial.of(SpatialOp.INTERSECTS, path, shape, crs=None if crs is None else crs.text)
    _check_crs(predicate, _bound(predicate, schema), shape)
    return predicate


def is_area(where: FilterInput) -> bool:
    """Whether this is an area that rows must intersect, not a whole filter.

    >>> is_area((0, 0, 1, 1)), is_area("POLYGON ((0 0, 1 0, 1 1, 0 0))"), is_area("id > 3")
    (True, True, False)
    """
    return _area(where) is not None


def spatial_parts(predicate: Predicate) -> Iterator[Spatial]:
    """The spatial predicates that a filter is made of.

    >>> [str(part.op.sql) for part in spatial_parts(parse_predicate("NOT ST_Within(g, 'POINT (1 2)') AND id > 3"))]
    ['ST_Within']
    """
    return (part for part in predicate_parts(predicate) if isinstance(part, Spatial))


def query_crs(predicate: Spatial, schema: Schema) -> Crs:
    """The CRS of a filter: its own, else that of its column.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, GeometryType
    >>> schema = Schema(StructType((Field("geom", GeometryType(Crs("EPSG:32633"))),)))
    >>> query_crs(read_filter((5, 45, 11, 52), schema), schema)
    Crs('EPSG:32633')
    """
    return _bound(predicate, schema).crs


def looks_like_degrees(predicate: Spatial, schema: Schema) -> bool:
    """Whether an area without a CRS of its own could be degrees, while its column is in a projected CRS.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, GeometryType
    >>> schema = Schema(StructType((Field("geom", GeometryType(Crs("EPSG:32633"))),)))
    >>> looks_like_degrees(read_filter((5, 45, 11, 52), schema), schema)
    True
    >>> looks_like_degrees(read_filter((500_000, 5_000_000, 500_100, 5_000_100), schema), schema)
    False
    """
    import shapely

    if predicate.crs is not None or not query_crs(predicate, schema).is_projected:
        return False
    geometry = shapely.from_wkb(predicate.geometry)
    if geometry.is_empty:
        return False
    xmin, ymin, xmax, ymax = geometry.bounds
    return bool(xmin >= -180 and xmax <= 180 and ymin >= -90 and ymax <= 90)


def _whole_filter(where: FilterInput) -> Predicate:
    if isinstance(where, Predicate):
        return where
    if isinstance(where, str):
        return predicate_from_json(where) if where.lstrip().startswith("{") else parse_predicate(where)
    if isinstance(where, Mapping):
        return predicate_from_json(where)
    kind = type(where).__name__
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    what = f"expected a Box, a geometry or an SQL condition, got {article} {kind}"
    raise PredicateError(what, remedy=f"give one of: {_KINDS}")


def _area(where: FilterInput) -> tuple[Any, Crs | None] | None:
    """The geometry of an area and its own CRS, `None` for anything else."""
    if isinstance(where, Box | bytes | bytearray | memoryview) or type(where).__module__.startswith("shapely"):
        return where, None
    if isinstance(where, str):
        return (where, None) if _WKT.match(where) else None
    if hasattr(where, "total_bounds") and hasattr(where, "crs"):
        crs = None if where.crs is None else Crs.parse(where.crs)
        return _box(where.total_bounds.tolist(), type(where).__name__), crs
    if isinstance(where, Sequence) or getattr(where, "ndim", None) == 1:
        crs = getattr(where, "crs", None)
        return _box(list(where), type(where).__name__), None if crs is None else Crs.parse(crs)
    return None


def _box(sides: list[Any], kind: str) -> Box:
    try:
        xmin, ymin, xmax, ymax = (float(side) for side in sides)
    except (OverflowError, TypeError, ValueError):
        raise PredicateError(
            f"expected four numbers, got a {kind} of {len(sides)}", remedy="give (xmin, ymin, xmax, ymax)"
        ) from None
    if not all(-float("inf") < side < float("inf") for side in (xmin, ymin, xmax, ymax)):
        raise PredicateError(f"the box of the {kind} has a side that is not a finite number")
    return Box(xmin, ymin, xmax, ymax)


def _column(schema: Schema, column: str | None, location: str | None) -> ColumnPath:
    if column is not None:
        return column_path(column)
    paths = [column_path(path) for path, _ in schema.geo_columns()]
    # Those inside lists and maps have many values in a row.
    candidates = [path for path in paths if all(_is_struct(schema, path[:end]) for end in range(1, len(path)))]
    if not candidates:
        raise NoGeoColumnError("the table has no geo column that a box could filter", where=location)
    if len(candidates) > 1:
        names = ", ".join(sorted(join_path(candidate) for candidate in candidates))
        what = "the table has several geo columns, and a box does not name one"
        raise PredicateError(what, where=location, remedy=f"give column=, one of: {names}")
    return candidates[0]


def _column_crs(schema: Schema, path: ColumnPath) -> Crs | None:
    type_ = schema.find(join_path(path)).type
    return type_.crs if isinstance(type_, GeometryType | GeographyType) else None


def _is_struct(schema: Schema, path: ColumnPath) -> bool:
    return isinstance(schema.find(join_path(path)).type, StructType)


def _agreed_crs(own: Crs | None, given: str | Crs | CrsLike | None) -> Crs | None:
    crs = None if given is None else Crs.parse(given)
    if own is None or crs is None:
        return crs or own
    if not own.same_as(crs):
        raise PredicateError(f"the geometry is in {own.name}, and box_crs= is {crs.name}", remedy="leave box_crs= out")
    return own


def _srid_crs(shape: Any) -> Crs | None:
    """The CRS of the SRID that a shapely geometry, EWKB or EWKT has."""
    own = Spatial.of(SpatialOp.INTERSECTS, ("geom",), shape).crs
    return None if own is None else Crs(own)


def _check_crs(predicate: Spatial, bound: BoundSpatial, shape: Any) -> None:
    """Raise for a CRS that cannot be transformed, and for a box that wraps where x is not a longitude."""
    if predicate.crs is not None:
        of_column = CRS84 if isinstance(bound.type, RasterType) else bound.type.crs
        if not bound.crs.same_as(of_column):
            try:
                bound.crs.to_pyproj()
            except CrsError as problem:
                raise PredicateError(problem.what, where=problem.where, remedy=problem.remedy) from None
    if not isinstance(shape, Box) or not shape.wraps:
        return
    if bound.crs.is_unknown:  # as in most Havasu tables of longitudes; the map draws it in degrees, too
        return
    if not bound.crs.is_geographic:
        raise PredicateError(
            f"the box has xmin {shape.xmin} above xmax {shape.xmax}, and {bound.crs.name} has no antimeridian",
            remedy="swap them, or pass box_crs= for degrees",
        )
    if not bound.crs.is_in_degrees:
        raise PredicateError(
            f"the box has xmin {shape.xmin} above xmax {shape.xmax}, and the longitudes of {bound.crs.name} are not"
            " degrees: where it crosses the antimeridian is not known",
            remedy="give two boxes, or one in degrees with box_crs=",
        )


def _bound(predicate: Spatial, schema: Schema) -> BoundSpatial:
    bound: BoundSpatial = bind(predicate, schema)  # type: ignore[assignment]
    return bound
