"""Boxes, types and null counts of a geo column, from the footer of a Parquet file, and how far to trust them."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import from_parquet_statistics, parquet_type_codes, widened_float32
from geolake_nb.geo.box_comparison import VERTICES_ONLY, wrap_problem
from geolake_nb.geo.box_comparison import may_wrap as can_wrap
from geolake_nb.model.box import Box
from geolake_nb.model.file_table import BoundSource, GeoStatsColumns, sides_of
from geolake_nb.model.schema import type_name
from geolake_nb.model.statistics import ColumnStats, merge
from geolake_nb.model.types import GeographyType, GeometryEncoding, GeometryType
from geolake_nb.parquet.schema import PATH_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.model.crs import Crs
    from geolake_nb.model.types import Field
    from geolake_nb.parquet.footer import FileView
    from geolake_nb.parquet.geoparquet import GeoColumn

__all__ = [
    "BOX_MARK",
    "MARGIN",
    "OWN_WRITER",
    "FooterColumn",
    "GeoEvidence",
    "box_digest",
    "evidence_columns",
    "has_box_mark",
    "is_own_writer",
    "locate",
    "usable_box",
    "widened",
    "widened_sides",
    "without_column",
]

BOX_MARK = "geolake_nb.boxes"
"""The property; its value depends on the boxes and on the offsets of the columns in the file."""

_GEO = ("GEOMETRY", "GEOGRAPHY")


def box_digest(metadata: pq.FileMetaData) -> str:
    """The value of the mark for a file with these boxes.

    Writers copy the properties of files that they read. The digest is for one file: a copy with other row groups, or
    with the boxes of its own writer, has another digest.
    """
    schema = metadata.schema
    leaves = [index for index in range(len(schema)) if schema.column(index).logical_type.type in _GEO]
    content: list[object] = [metadata.created_by, metadata.num_rows]
    content += [[schema.column(index).path, schema.column(index).logical_type.to_json()] for index in leaves]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in leaves:
            chunk = group.column(index)
            boxes = chunk.geo_statistics
            chunk_facts = [chunk.data_page_offset, chunk.total_compressed_size, chunk.num_values]
            content.append([*chunk_facts, None if boxes is None else boxes.to_dict()])
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:32]


def has_box_mark(metadata: pq.FileMetaData) -> bool:
    """Whether this package wrote the boxes of the file, whoever wrote its pages."""
    mark = (metadata.metadata or {}).get(BOX_MARK.encode())
    return mark is not None and mark.decode(errors="replace") == box_digest(metadata)


OWN_WRITER = "geolake_nb"
"""How `created_by` starts in the footer of a file that this package wrote."""

MARGIN = 1e-12
"""The relative margin by which an axis is widened: boxes of other writers miss vertices by 1e-14 degrees."""

_POINT_CODES = frozenset(base + code for base in (0, 1000, 2000, 3000) for code in (1, 4))


def is_own_writer(created_by: str | None) -> bool:
    """Whether this package wrote a file: its boxes are exact and cover the edges of geographies.

    >>> is_own_writer("geolake_nb 0.1"), is_own_writer(None)
    (True, False)
    """
    return created_by is not None and created_by.startswith(OWN_WRITER)


def widened(box: Box) -> Box:
    """The box, a little larger on every axis: by `MARGIN` and by one step of a double.

    >>> widened(Box(0, 10, 0, 20)).values
    (-5e-324, 9.999999999979998, 5e-324, 20.000000000020002)
    """
    xmin, xmax = _outward(box.xmin, box.xmax)
    if box.wraps and xmin <= xmax:
        xmin, xmax = -180.0, 180.0  # the gap closed
    ymin, ymax = _outward(box.ymin, box.ymax)
    z = (None, None) if box.zmin is None or box.zmax is None else _outward(box.zmin, box.zmax)
    m = (None, None) if box.mmin is None or box.mmax is None else _outward(box.mmin, box.mmax)
    return Box(xmin, ymin, xmax, ymax, *z, *m)


def usable_box(
    box: Box, type: GeometryType | GeographyType, *, types: tuple[int, ...] | None, own: bool
) -> tuple[Box | None, str | None]:
    """The box as far as a scan may rely on it, or `None` and the reason.

    `types` are the ISO codes of the values, `own` is whether this package wrote the box.

    >>> usable_box(Box(0, 0, 1, 1), GeographyType(), types=(3,), own=False)
    (None, 'a geography box of another writer may cover only the vertices, not the edges')
    >>> usable_box(Box(0, 0, 1, 1), GeographyType(), types=(1,), own=False)[0].xmin
    -1.0000000000000002e-12
    """
    if not all(map(math.isfinite, box.values)):
        return None, "the box has an infinite side"
    if isinstance(type, GeographyType):
        return _usable_on_earth(box, types, own)
    problem = wrap_problem(box.xmin, box.xmax, type)
    if problem is not None:
        return None, problem
    return (box if own else widened(box)), None


def _usable_on_earth(box: Box, types: tuple[int, ...] | None, own: bool) -> tuple[Box | None, str | None]:
    # Parquet, Bounding Box: a geography has X in [-180, 180] and Y in [-90, 90].
    if max(abs(box.xmin), abs(box.xmax)) > 180 or max(-box.ymin, box.ymax) > 90:
        return None, "the box of a geography exceeds [-180, 180] or [-90, 90]"
    if own:
        return box, None
    # Points have no edges, so the box of the vertices is exact.
    if types is None or not _POINT_CODES.issuperset(types):
        return None, VERTICES_ONLY
    wide = widened(box)
    ymin, ymax = max(wide.ymin, -90.0), min(wide.ymax, 90.0)
    xmin, xmax = max(wide.xmin, -180.0), min(wide.xmax, 180.0)
    if ymin == -90.0 or ymax == 90.0:
        xmin, xmax = -180.0, 180.0  # a pole has every longitude
    return Box(xmin, ymin, xmax, ymax, wide.zmin, wide.zmax, wide.mmin, wide.mmax), None


def widened_sides(
    low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two sides of many boxes on one axis, widened as in `widened`; NaN stays NaN.

    >>> low, high = widened_sides(np.array([10.0, np.nan]), np.array([20.0, np.nan]))
    >>> float(low[0]) == widened(Box(0, 10, 0, 20)).ymin, float(high[0]), bool(np.isnan(low[1]))
    (True, 20.000000000020002, True)
    """
    margin = MARGIN * np.maximum(np.abs(low), np.abs(high))
    return np.nextafter(low - margin, -np.inf), np.nextafter(high + margin, np.inf)


def _outward(low: float, high: float) -> tuple[float, float]:
    margin = MARGIN * max(abs(low), abs(high))
    return math.nextafter(low - margin, -math.inf), math.nextafter(high + margin, math.inf)


_CODES = {
    name: code
    for code, name in enumerate(
        ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"), 1
    )
}
_AXES = {"": 0, "Z": 1000, "M": 2000, "ZM": 3000}


@dataclass(frozen=True, slots=True)
class GeoEvidence:
    """The bounds of a geo column in a footer, of one row group or of the whole file."""

    rows: int
    null_count: int | None
    box: Box | None = None
    """A box that a scan can rely on."""
    types: tuple[int, ...] | None = None
    source: BoundSource | None = None
    problem: str | None = None
    """Why there is no usable box although the file has one."""


@dataclass(frozen=True, slots=True)
class _Coordinates:
    """Primitive columns whose minima and maxima form a box: a bbox covering, or the x and y of native encodings."""

    sides: Mapping[str, int]
    narrow: bool
    source: BoundSource


@dataclass(frozen=True, slots=True, eq=False)
class FooterColumn:
    """A geo column of one file."""

    view: FileView
    type: GeometryType | GeographyType
    leaf: int | None
    geo: GeoColumn | None
    coordinates: _Coordinates | None
    problem: str | None = None
    """Why no box of this file is usable, such as a CRS that is not the table's."""

    def group(self, index: int) -> GeoEvidence:
        """What is known of one row group."""
        part = self._part(index)
        if part.null_count == part.rows:
            return part
        if part.box is None and part.problem is None and self.coordinates is not None:
            part = self._from_coordinates(index, part)
        if part.box is None:
            part = self._from_file(part)
        return self.usable(part)

    def stored(self, index: int) -> GeoEvidence:
        """The geospatial statistics of one row group as far as a scan may rely on them; no other source is used."""
        return self.usable(self._part(index))

    def stated(self) -> GeoEvidence:
        """The geospatial statistics of all row groups as stored, merged; not widened, and not yet checked."""
        return self._merged([self._part(index) for index in range(self.view.metadata.num_row_groups)])

    def whole(self) -> GeoEvidence:
        """What is known of the file."""
        indices = range(self.view.metadata.num_row_groups)
        parts = [self._part(index) for index in indices]
        whole = self._merged(parts)
        # A column of only nulls has no box; another source would have none either.
        if whole.box is None and whole.null_count != whole.rows:
            whole = self._from_file(whole)
            if whole.box is None and self.coordinates is not None:
                whole = self._merged([self._from_coordinates(index, parts[index]) for index in indices])
        return self.usable(whole)

    def _part(self, index: int) -> GeoEvidence:
        """The geospatial statistics of a row group, as stored."""
        group = self.view.metadata.row_group(index)
        if self.leaf is None:
            return GeoEvidence(group.num_rows, None, types=self._declared_types)
        chunk = group.column(self.leaf)
        plain = chunk.statistics
        nulls = plain.null_count if plain is not None and plain.has_null_count else None
        stored = chunk.geo_statistics
        types = parquet_type_codes(stored) or self._declared_types
        try:
            box = from_parquet_statistics(stored)
        except BoundError as error:
            return GeoEvidence(group.num_rows, nulls, types=types, problem=error.what)
        # Here, not on the merged box: merged with others, a box that only seems to wrap covers -180 to 180.
        problem = None if box is None else wrap_problem(box.xmin, box.xmax, self.type)
        if box is None or problem is not None:
            return GeoEvidence(group.num_rows, nulls, types=types, problem=problem)
        return GeoEvidence(group.num_rows, nulls, box, types, BoundSource.FOOTER)

    def _from_file(self, part: GeoEvidence) -> GeoEvidence:
        """The bbox of the GeoParquet metadata, which is valid for the file and all its row groups."""
        if self.geo is None or self.geo.bbox is None:
            return part
        try:
            box = self.geo.box
        except BoundError as error:
            return GeoEvidence(part.rows, part.null_count, types=part.types, problem=part.problem or error.what)
        return GeoEvidence(part.rows, part.null_count, box, part.types, BoundSource.FOOTER)

    def _from_coordinates(self, index: int, part: GeoEvidence) -> GeoEvidence:
        assert self.coordinates is not None
        group = self.view.metadata.row_group(index)
        lows: dict[str, float] = {}
        highs: dict[str, float] = {}
        for side, leaf in self.coordinates.sides.items():
            plain = group.column(leaf).statistics
            if plain is None or not plain.has_null_count:
                return part
            # A row with a geometry but no covering is not in the minima and maxima.
            covering = self.coordinates.source is BoundSource.COVERING
            if covering and plain.null_count not in (0, part.null_count):
                return part
            if not plain.has_min_max:
                # A chunk of only nulls; one of only NaN, for empty geometries, counts as unknown.
                return part
            lows[side], highs[side] = float(plain.min), float(plain.max)
        try:
            box = _box_of(lows, highs, self.type, may_wrap=self._may_wrap)
            box = widened_float32(box) if self.coordinates.narrow else box
        except BoundError as error:
            return GeoEvidence(part.rows, part.null_count, types=part.types, problem=error.what)
        return GeoEvidence(part.rows, part.null_count, box, part.types, self.coordinates.source)

    def _merged(self, parts: list[GeoEvidence]) -> GeoEvidence:
        stats = merge(
            [
                ColumnStats(part.box, part.types, part.rows, part.null_count or 0, 0)
                for part in parts
                if part.rows  # a row group without rows adds nothing
            ],
            type=self.type,
        )
        box = None if stats.box is None else _with_known_axes(stats.box, parts)
        nulls = [part.null_count for part in parts if part.rows]
        known = sum(count for count in nulls if count is not None) if None not in nulls else None
        sources = [part.source for part in parts if part.source is not None]
        problems = [part.problem for part in parts if part.problem is not None]
        return GeoEvidence(
            stats.rows,
            known,
            box,
            stats.types,
            sources[0] if box is not None and sources else None,
            problems[0] if problems and box is None else None,
        )

    def usable(self, part: GeoEvidence) -> GeoEvidence:
        """The same with the box as far as a scan may rely on it, or without it but with the reason."""
        if part.box is None:
            return part
        box, problem = part.box, self.problem
        if problem is None:
            usable, problem = usable_box(box, self.type, types=part.types, own=self.view.own)
            if usable is not None:
                return GeoEvidence(part.rows, part.null_count, usable, part.types, part.source)
        return GeoEvidence(part.rows, part.null_count, types=part.types, problem=problem)

    @property
    def _may_wrap(self) -> bool:
        """Whether a row of the covering can cross the antimeridian: not in a planar CRS, and not in a narrower file."""
        if self.coordinates is None or self.coordinates.source is not BoundSource.COVERING:
            return False
        if not can_wrap(self.type) or (self.view.own and isinstance(self.type, GeometryType)):
            return False
        try:
            box = None if self.geo is None else self.geo.box
        except BoundError:
            return True
        return box is None or not -180.0 < box.xmin <= box.xmax < 180.0

    @property
    def _declared_types(self) -> tuple[int, ...] | None:
        names = () if self.geo is None else self.geo.geometry_types
        if not names:
            return None
        return tuple(sorted({_CODES[name.split(" ")[0]] + _AXES[name.partition(" ")[2]] for name in names}))


def _with_known_axes(whole: Box, parts: list[GeoEvidence]) -> Box:
    """The merged box with Z and M only where no part has unknown Z or M.

    A box without M means values without M, but also values that no range covers, such as an infinite M:
    the types of the values distinguish them.
    """

    def has_axis(low: str, kinds: tuple[int, int]) -> bool:
        without = [part.types for part in parts if part.box is not None and getattr(part.box, low) is None]
        return not any(types is None or any(code // 1000 in kinds for code in types) for types in without)

    z = (whole.zmin, whole.zmax) if has_axis("zmin", (1, 3)) else (None, None)
    m = (whole.mmin, whole.mmax) if has_axis("mmin", (2, 3)) else (None, None)
    return Box(whole.xmin, whole.ymin, whole.xmax, whole.ymax, *z, *m)


def without_column(rows: int, *, lacks: bool) -> GeoEvidence:
    """The bounds where the column is not found: only nulls if the file certainly lacks it, else unknown.

    >>> without_column(5, lacks=True).null_count, without_column(5, lacks=False).null_count
    (5, None)
    """
    return GeoEvidence(rows, rows if lacks else None)


def locate(view: FileView, field: Field | None, table_type: GeometryType | GeographyType) -> FooterColumn | None:
    """The geo column of a file, `None` if the file does not have it; `table_type` is its type in the table."""
    if field is None:
        return None
    stored = field.type
    is_geo = isinstance(stored, (GeometryType, GeographyType))
    geo = view.geo_of(field)
    leaf = view.leaves.get(field.metadata.get(PATH_KEY, ""))
    type_ = table_type
    problem = None
    if isinstance(stored, (GeometryType, GeographyType)):
        if not _same(stored.crs, table_type.crs):
            problem = f"the file's type is {type_name(stored)}, the table's {type_name(table_type)}"
        # Geodesic edges on either side: the box must cover them.
        type_ = stored if isinstance(stored, GeographyType) else table_type
    coordinates = _coordinates(view, field, geo) if is_geo else None
    return FooterColumn(view, type_, leaf, geo, coordinates, problem)


def _coordinates(view: FileView, field: Field, geo: GeoColumn | None) -> _Coordinates | None:
    if geo is None:
        return None
    if geo.type.encoding is GeometryEncoding.GEOARROW:
        sides: dict[str, int] = {}
        for path in view.leaves_below(field.name):
            axis = path.rpartition(".")[2]
            if axis in ("x", "y", "z", "m"):
                sides |= {f"{axis}min": view.leaves[path], f"{axis}max": view.leaves[path]}
        source, required = BoundSource.FOOTER, {"xmin", "ymin"}
    elif geo.covering is not None:
        covering = geo.covering
        names = {side: getattr(covering, side) for side in ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax")}
        merged_sides = {side: view.leaves.get(".".join(path)) for side, path in names.items() if path is not None}
        sides = {side: index for side, index in merged_sides.items() if index is not None}
        source, required = BoundSource.COVERING, {"xmin", "ymin", "xmax", "ymax"}
    else:
        return None
    kinds = {view.metadata.schema.column(index).physical_type for index in sides.values()}
    if not sides.keys() >= required or not kinds <= {"DOUBLE", "FLOAT"}:
        return None
    return _Coordinates(sides, "FLOAT" in kinds, source)


def _box_of(
    lows: Mapping[str, float], highs: Mapping[str, float], type: GeometryType | GeographyType, *, may_wrap: bool
) -> Box:
    sides = {side: lows[side] if side.endswith("min") else highs[side] for side in lows}
    # GeoParquet, bbox, after RFC 7946: a row across the antimeridian has xmin > xmax, and then the least xmin is not a
    # bound. Minima and maxima of all rows rule that out only where every xmin is at most every xmax.
    if highs["xmin"] > sides["xmax"] or lows["xmax"] < sides["xmin"]:
        if not can_wrap(type):
            raise BoundError("a row of the bbox covering has xmin > xmax, but only longitudes wrap")
        may_wrap = True
    if may_wrap and highs["xmin"] > lows["xmax"]:
        sides |= {"xmin": -180.0, "xmax": 180.0}
    return Box(**sides)


@functools.lru_cache(1000)
def _same(left: Crs, other: Crs) -> bool:
    return left.same_as(other)


def evidence_columns(evidence: Sequence[GeoEvidence]) -> GeoStatsColumns:
    """The evidence of many files or row groups as columns.

    >>> evidence_columns([]).sides["xmin"].to_pylist()
    []
    """
    return GeoStatsColumns(
        sides=sides_of([item.box for item in evidence]),
        null_count=pa.array([item.null_count for item in evidence], pa.int64()),
        types=pa.array([item.types for item in evidence], pa.list_(pa.int32())),
        source=pa.array([None if item.source is None else item.source.value for item in evidence], pa.string()),
        problem=pa.array([item.problem for item in evidence], pa.string()),
    )
