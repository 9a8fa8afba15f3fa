"""Random tables of random rows with their statistics, and a scan of every row with shapely.

A leaf of a filter is, for a row, a set of the truths it may have: of a geography only what is certain is claimed,
by points on its edges that lie well inside the query. A row matches for sure where only true is left.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyproj
import shapely

from geolake_nb.expressions.predicate import And, Comparison, In, IsNull, Not, Or, Spatial, SpatialOp
from geolake_nb.formats.registry import FORMATS
from geolake_nb.geo.bounds import BadValueWarning, bounds
from geolake_nb.model.box import Box, union_all
from geolake_nb.model.crs import Crs
from geolake_nb.model.file_table import BoundSource, FileTable, GeoStatsColumns, sides_of
from geolake_nb.model.schema import Schema
from geolake_nb.model.snapshot import Protocol, Snapshot
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import (
    Field,
    GeographyType,
    GeometryType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.parquet.footer_boxes import usable_box
from tests.oracle.great_circle import arc_points

if TYPE_CHECKING:
    import random

TYPES = {
    "geom": GeometryType(),
    "geog": GeographyType(),
    "tile": RasterType(),
    "mercator": GeometryType(Crs("EPSG:3857")),
    "plane": GeometryType(Crs("SRID:0")),
}
SCHEMA = Schema(
    StructType((
        *(Field(name, type_) for name, type_ in TYPES.items()),
        Field("n", PrimitiveType("int64")),
        Field("name", StringType()),
        Field("region", StringType()),
    ))
)  # fmt: skip
TO_MERCATOR = pyproj.Transformer.from_crs("OGC:CRS84", "EPSG:3857", always_xy=True)


@dataclass
class Rows:
    """One file: a list of values per column, and which rows a deletion vector took away."""

    values: dict[str, list]
    deleted: list[bool]
    region: str | None

    def __len__(self):
        return len(self.deleted)


@dataclass
class RandomTable:
    files: list[Rows]
    snapshot: Snapshot
    row_groups: pa.Table


def random_table(rng: random.Random) -> RandomTable:
    files = [_rows(rng) for _ in range(rng.randint(3, 12))]
    parts = [_split(rng, rows) for rows in files]
    footer = rng.random() < 0.3
    source = BoundSource.FOOTER if footer else BoundSource.LOG
    geo = {name: _stats(rng, [rows.values[name] for rows in files], name, source) for name in TYPES}
    paths = [f"part-{number}.parquet" for number in range(len(files))]
    live = [sum(not gone for gone in rows.deleted) for rows in files]
    table = FileTable.of(
        path=pa.array(paths),
        bytes=pa.array([rng.randint(100, 10_000) for _ in files]),
        rows=pa.array([None if rng.random() < 0.05 else count for count in live], pa.int64()),
        deleted_rows=pa.array([len(rows) - count for rows, count in zip(files, live, strict=True)], pa.int64()),
        partitions={"region": pa.array([rows.region for rows in files], pa.string())},
        geo=geo,
    )
    scalars = _scalars(rng, files)
    snapshot = Snapshot(
        rng.choice(list(FORMATS.values())), "/random", 3, None, SCHEMA, Protocol("test"), table,
        partition_columns=("region",), scalars=scalars.get,
    )  # fmt: skip
    return RandomTable(files, snapshot, _row_groups(rng, paths, parts))


def _split(rng, rows):
    """The rows as two row groups, as lists of row numbers."""
    cut = rng.randint(0, len(rows))
    return [(rows, numbers) for numbers in (range(cut), range(cut, len(rows))) if len(numbers)]


def _row_groups(rng, paths, parts):
    listed = [(path, number, rows, rns) for path, groups in zip(paths, parts, strict=True)
              for number, (rows, rns) in enumerate(groups)]  # fmt: skip
    columns = {
        "path": pa.array([group[0] for group in listed], pa.string()),
        "row_group": pa.array([group[1] for group in listed], pa.int64()),
        "rows": pa.array([len(group[3]) for group in listed], pa.int64()),
        "bytes": pa.array([10 * len(group[3]) for group in listed], pa.int64()),
    }
    for name in ("geom", "geog", "mercator", "plane"):
        values = [[rows.values[name][number] for number in rns] for _, _, rows, rns in listed]
        stats = _stats(rng, values, name, BoundSource.FOOTER)
        columns |= {f"{name}.{axis}": side for axis, side in stats.sides.items()}
        columns[f"{name}.null_count"] = stats.null_count
        columns[f"{name}.types"] = stats.types
        columns[f"{name}.problem"] = stats.problem
    return pa.table(columns)


def _rows(rng):
    count = rng.randint(1, 5)
    lon, lat = _point(rng)
    spread = rng.choice([0.5, 5, 5, 40])
    blank = rng.random() < 0.08
    values = {
        name: [None if blank or rng.random() < 0.15 else _value(rng, name, lon, lat, spread) for _ in range(count)]
        for name in TYPES
    }
    values["n"] = [None if rng.random() < 0.2 else rng.randint(-5, 5) for _ in range(count)]
    values["name"] = [None if rng.random() < 0.2 else rng.choice("abcdef") for _ in range(count)]
    region = rng.choice(["north", "south", None])
    values["region"] = [region] * count
    return Rows(values, [rng.random() < 0.25 for _ in range(count)], region)


def _point(rng):
    draw = rng.random()
    if draw < 0.4:
        return rng.choice([-180, 180]) * rng.uniform(0.96, 1), rng.uniform(-70, 70)
    return rng.uniform(-170, 170), rng.uniform(-80, 80)


def _near(rng, lon, lat, spread):
    x = lon + rng.uniform(-spread, spread)
    x = (x + 180) % 360 - 180
    return x, max(-85.0, min(85.0, lat + rng.uniform(-spread, spread)))


def _value(rng, name, lon, lat, spread):
    if name == "tile":
        x, y = _near(rng, lon, lat, spread)
        east = x + rng.uniform(0.01, 3)
        return Box(x, y, east - 360 if east > 180 else east, min(90, y + rng.uniform(0.01, 3)))
    if rng.random() < 0.08:
        return rng.choice([shapely.Point(), shapely.LineString(), shapely.MultiPolygon()])
    points = [_near(rng, lon, lat, spread) for _ in range(rng.randint(2, 4))]
    if name == "mercator":
        # Points only: an edge runs otherwise in another CRS.
        moved = [TO_MERCATOR.transform(*point) for point in points]
        return shapely.Point(moved[0]) if rng.random() < 0.7 else shapely.MultiPoint(moved)
    if name == "plane":
        points = [(rng.uniform(-1000, 1000), rng.uniform(-1000, 1000)) for _ in points]
    draw = rng.random()
    if draw < 0.35:
        return shapely.Point(points[0])
    if draw < 0.45:
        return shapely.MultiPoint(points)
    if draw < 0.7 or name == "geog":
        return shapely.LineString(points)
    if draw < 0.78:
        return _with_nan(points)
    x, y = points[0]
    return shapely.Point(x, y).buffer(rng.uniform(0.1, 3), quad_segs=2)


def _with_nan(points):
    """A value as broken writers make it, with a non-finite vertex."""
    (x, y), (right, top) = points[0], points[1]
    with np.errstate(invalid="ignore"):
        return shapely.from_wkt(f"LINESTRING ({x!r} {y!r}, NaN {top!r}, {right!r} {top!r})")


# Statistics


def _stats(rng, files, name, source):
    boxes, nulls, types, problems = [], [], [], []
    for values in files:
        box, codes, problem = _box(rng, values, name, source)
        if rng.random() < 0.15:
            box, problem = None, None
        elif rng.random() < 0.05:
            box, problem = None, "the lower bound has 7 bytes"
        boxes.append(box)
        nulls.append(None if rng.random() < 0.1 else sum(value is None for value in values))
        types.append(codes)
        problems.append(problem)
    sides = sides_of(boxes)
    if rng.random() < 0.2:
        sides = _spoil(rng, sides)
    return GeoStatsColumns(
        sides,
        null_count=pa.array(nulls, pa.int64()),
        types=pa.array(types, pa.list_(pa.int32())),
        source=source,
        problem=pa.array(problems, pa.string()),
    )


def _spoil(rng, sides):
    """One box that a reader let through and that cannot be: NaN, or upside down."""
    index, axis = rng.randrange(len(sides["xmin"])), rng.choice(["xmin", "ymax"])
    values = sides[axis].to_pylist()
    values[index] = math.nan if axis == "xmin" else -1e300
    return {**sides, axis: pa.array(values, pa.float64())}


def _box(rng, values, name, source):
    placed = [value for value in values if value is not None]
    if name == "tile":
        return union_all(placed, circular=True), None, None
    wkb = pa.array([None if value is None else shapely.to_wkb(value, flavor="iso") for value in values], pa.binary())
    vertices_only = name == "geog" and source is BoundSource.FOOTER
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BadValueWarning)
        stats = bounds(wkb, type=GeometryType() if vertices_only else TYPES[name])
    box = stats.box
    if box is not None and name in ("geom", "geog") and rng.random() < 0.3:
        # Specs, Wraparound when reading: any x may be wrapped.
        longitudes = [tuple(shapely.bounds(shape)[[0, 2]]) for shape in placed if not shape.is_empty]
        if name == "geom" and not any(math.isnan(x) for pair in longitudes for x in pair):
            rows = [Box(west, box.ymin, east, box.ymax) for west, east in longitudes]
            box = union_all(rows, circular=True)
    if box is not None and vertices_only:
        # As a reader of footers hands them on: what another writer made of vertices is left out.
        box, problem = usable_box(box, TYPES[name], types=stats.types, own=False)
        return box, stats.types, problem
    return box, stats.types, None


def _scalars(rng, files):
    columns = {}
    for name, kind in (("n", pa.int64()), ("name", pa.string())):
        present = [[value for value in rows.values[name] if value is not None] for rows in files]
        known = [rng.random() < 0.8 for _ in files]
        pairs = list(zip(present, known, strict=True))
        columns[name,] = ScalarColumn(
            pa.array([min(values) if values and stored else None for values, stored in pairs], kind),
            pa.array([max(values) if values and stored else None for values, stored in pairs], kind),
            pa.array([sum(value is None for value in rows.values[name]) for rows in files], pa.int64()),
            pa.array([len(rows) for rows in files], pa.int64()),
        )
    if rng.random() < 0.5:
        regions = pa.array([rows.region for rows in files], pa.string())
        nulls = pa.array([len(rows) if rows.region is None else 0 for rows in files], pa.int64())
        columns["region",] = ScalarColumn(regions, regions, nulls, pa.array([len(rows) for rows in files], pa.int64()))
    return columns


# Filters


def anchors(table: RandomTable) -> dict[str, list[tuple[float, float]]]:
    """Places on the rows, in the middle of their edges too, beside which a window is worth a try."""
    intervals: dict[str, list[tuple[float, float]]] = {name: [] for name in TYPES}
    for name, places in intervals.items():
        for value in (value for rows in table.files for value in rows.values[name] if value is not None):
            if name == "tile":
                places += [(value.xmin, value.ymin), (value.xmax, value.ymax)]
                continue
            points = shapely.get_coordinates(value)
            points = points[~np.isnan(points).any(axis=1)]
            if name == "mercator" and len(points):
                points = np.column_stack(TO_MERCATOR.transform(*points.T, direction="INVERSE"))
            if name == "geog" and value.geom_type == "LineString" and len(points) > 1:
                lon, lat = arc_points(points[:-1], points[1:], 3)
                points = np.column_stack([lon[:, 1], lat[:, 1]]).astype(float)
            places += [tuple(point) for point in points.tolist()]
    return intervals


def random_predicate(rng: random.Random, places, *, depth: int = 2):
    if depth == 2 and rng.random() < 0.4:
        return _spatial(rng, places, SpatialOp.INTERSECTS)
    draw = rng.random()
    if depth and draw < 0.35:
        operands = tuple(random_predicate(rng, places, depth=depth - 1) for _ in range(rng.randint(2, 3)))
        return And(operands) if rng.random() < 0.5 else Or(operands)
    if depth and draw < 0.45:
        return Not(random_predicate(rng, places, depth=depth - 1))
    if draw < 0.55:
        return _plain(rng)
    return _spatial(rng, places, SpatialOp.INTERSECTS if rng.random() < 0.5 else rng.choice(list(SpatialOp)))


def _spatial(rng, places, op):
    name = rng.choice([*TYPES, "geom", "geog", "geog", "tile"])
    near = rng.choice(places[name]) if places[name] and rng.random() < 0.6 else None
    shape, crs = random_window(rng, name, near)
    return Spatial.of(op, name, shape, crs=crs)


def _plain(rng):
    draw = rng.random()
    if draw < 0.2:
        return IsNull(rng.choice([*TYPES, "n", "name", "region"]))
    if draw < 0.4:
        return In("name", tuple(rng.sample("abcdefg", 2)))
    if draw < 0.6:
        return Comparison.of("region", rng.choice(["=", "!="]), rng.choice(["north", "south", "west"]))
    return Comparison.of("n", rng.choice(["=", "!=", "<", "<=", ">", ">="]), rng.randint(-6, 6))


def random_window(rng: random.Random, name: str, near: tuple[float, float] | None = None):
    """A shape and its CRS, `None` for that of the column."""
    if rng.random() < 0.03:
        return "POLYGON EMPTY", None
    if name == "plane":
        x, y = near or (rng.uniform(-1000, 900), rng.uniform(-1000, 900))
        shape = Box(x, y, x + rng.uniform(0, 300), y + rng.uniform(0, 300))
        return shape, "OGC:CRS84" if rng.random() < 0.1 else None
    sizes = [0.05, 0.05, 0.5, 5] if name == "geog" and near else [0.5, 5, 30]
    width, height = rng.choice(sizes) * rng.random(), rng.choice(sizes) * rng.random()
    lon, lat = near or _point(rng)
    if near is not None:
        lon, lat = (lon - width * rng.random() + 180) % 360 - 180, lat - height * rng.random()
    west, east = lon, lon + width
    south = min(85.0, max(-85.0, lat))
    box = Box(west, south, east - 360 if east > 180 else east, min(85.0, south + height))
    if name == "mercator":
        if rng.random() < 0.5:
            return box, "OGC:CRS84"
        corners = TO_MERCATOR.transform([box.xmin, max(box.xmin, box.xmax)], [box.ymin, box.ymax])
        return Box(corners[0][0], corners[1][0], corners[0][1], corners[1][1]), None
    if rng.random() < 0.15:
        return shapely.Point(box.xmin, box.ymin), None
    if rng.random() < 0.15 and not box.wraps and name != "geog":
        return shapely.Point(box.xmin, box.ymin).buffer(width, quad_segs=2), None
    return box, "EPSG:4326" if rng.random() < 0.2 else None


# The scan


def matching_rows(predicate, rows: Rows) -> list[int]:
    """The rows that match for sure."""
    return [
        number for number in range(len(rows)) if not rows.deleted[number] and _truths(predicate, rows, number) == {True}
    ]


def _truths(predicate, rows, number):
    if isinstance(predicate, Not):
        return {None if truth is None else not truth for truth in _truths(predicate.operand, rows, number)}
    if isinstance(predicate, (And, Or)):
        join = _and if isinstance(predicate, And) else _or
        truths = _truths(predicate.operands[0], rows, number)
        for operand in predicate.operands[1:]:
            truths = {join(truth, other) for truth in truths for other in _truths(operand, rows, number)}
        return truths
    value = rows.values[predicate.column[0]][number]
    if isinstance(predicate, IsNull):
        return {value is None}
    if value is None:
        return {None}
    if isinstance(predicate, Comparison):
        return {_COMPARE[predicate.op.value](value, predicate.value)}
    if isinstance(predicate, In):
        return {value in predicate.values}
    return _spatial_truths(predicate, value)


def _and(left, other):
    return False if left is False or other is False else None if left is None or other is None else True


def _or(left, other):
    return True if left is True or other is True else None if left is None or other is None else False


_COMPARE = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _spatial_truths(predicate, value):
    name = predicate.column[0]
    query = shapely.from_wkb(predicate.geometry)
    if name == "tile":
        value = shapely.from_wkb(Spatial.of(SpatialOp.INTERSECTS, "tile", value).geometry)
    if name == "geog":
        return _geography_truths(predicate.op, value, query)
    if name == "mercator" and predicate.crs is not None:
        # Rows are points, which lie in the same place in both systems.
        value = shapely.transform(value, lambda xy: np.column_stack(TO_MERCATOR.transform(*xy.T, direction="INVERSE")))
    if name == "plane" and predicate.crs is not None:
        return {True, False}
    relation = getattr(shapely, predicate.op.name.lower())
    try:
        with np.errstate(invalid="ignore"):
            return {bool(relation(value, query))}
    except shapely.errors.GEOSException:
        return {True, False}  # GEOS does not say where a NaN lies


def _geography_truths(op, value, query):
    if value.is_empty or query.is_empty:
        return {False} if op is SpatialOp.INTERSECTS else {True, False}
    if op is not SpatialOp.INTERSECTS:
        return {True, False}
    lines = shapely.get_parts(value) if value.geom_type == "LineString" else []
    points = shapely.get_coordinates(value)
    for line in lines:
        ends = shapely.get_coordinates(line)
        lon, lat = arc_points(ends[:-1], ends[1:], 61)  # an odd number has the middle
        points = np.vstack([points, np.column_stack([lon.ravel(), lat.ravel()]).astype(float)])
    if query.geom_type == "Point":
        hit = np.any(np.all(shapely.get_coordinates(value) == shapely.get_coordinates(query), axis=1))
        return {True} if hit else {True, False}
    parts = shapely.get_parts(query)
    return {True} if any(_holds(part, points) for part in parts) else {True, False}


def _holds(polygon, points):
    """Whether a point lies well inside the polygon of great circles: those are straight lines here."""
    ring = shapely.get_coordinates(polygon.exterior)
    centre = ring[:-1].mean(axis=0)
    flat, ahead = _gnomonic(ring, centre)
    if not ahead.all():
        return False
    shape = shapely.Polygon(flat).buffer(-1e-9)
    moved, ahead = _gnomonic(points, centre)
    return bool(shapely.contains_xy(shape, *moved[ahead].T).any()) if ahead.any() else False


def _gnomonic(points, centre):
    lon, lat = np.radians(points[:, 0] - centre[0]), np.radians(points[:, 1])
    sin0, cos0 = math.sin(math.radians(centre[1])), math.cos(math.radians(centre[1]))
    up = sin0 * np.sin(lat) + cos0 * np.cos(lat) * np.cos(lon)
    x = np.cos(lat) * np.sin(lon) / up
    y = (cos0 * np.sin(lat) - sin0 * np.cos(lat) * np.cos(lon)) / up
    return np.column_stack([x, y]), up > 0.1
