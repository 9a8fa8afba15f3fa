"""How far boxes exceed other boxes, and which of them a scan may rely on, many at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.file_table import AXES, has_column
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryType

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from geolake_nb.model.file_table import GeoStatsColumns
    from geolake_nb.model.types import RasterType

__all__ = [
    "EDGE_SLACK",
    "ROUNDING_ULPS",
    "VERTICES_ONLY",
    "BoxSides",
    "Misses",
    "bad_wraps",
    "excess",
    "may_wrap",
    "misses",
    "union_by",
    "usable_bounds",
    "wrap_problem",
]


EDGE_SLACK = {
    EdgeAlgorithm.SPHERICAL: 1e-9,
    EdgeAlgorithm.KARNEY: 2e-6,
    EdgeAlgorithm.VINCENTY: 5e-6,
    EdgeAlgorithm.THOMAS: 5e-3,
    EdgeAlgorithm.ANDOYER: 0.2,
}
"""Bounds of geographies are rounded outward by this many degrees at most (see `geo.bounds`): a box that is smaller by
less may still be right."""


def may_wrap(type_: GeometryType | GeographyType | RasterType) -> bool:
    """Whether xmin > xmax means the antimeridian: x must be known to be a longitude in degrees.

    >>> from geolake_nb.model.crs import Crs
    >>> [may_wrap(GeometryType(Crs(text))) for text in ("OGC:CRS84", "EPSG:3857", "SRID:0", "NOBODY:1")]
    [True, False, False, False]
    """
    if isinstance(type_, GeometryType):
        return type_.crs.is_geographic
    # Havasu, Raster bounds: those of rasters are in WGS 84.
    return not (isinstance(type_, GeographyType) and type_.crs.is_projected)


def wrap_problem(xmin: float, xmax: float, type_: GeometryType | GeographyType | RasterType) -> str | None:
    """Why a box with these sides bounds nothing, `None` where it is not wrapped or may be.

    >>> from geolake_nb.model.crs import Crs
    >>> wrap_problem(10, 5, GeometryType(Crs("SRID:0")))
    'the box runs from x = 10 back to 5, and only longitudes wrap; SRID:0 has none'
    >>> wrap_problem(170, -170, GeometryType()) is None, wrap_problem(5, 10, GeometryType(Crs("SRID:0"))) is None
    (True, True)
    """
    if not xmin > xmax:
        return None
    if not may_wrap(type_):
        crs = type_.crs.name if type_.crs.is_projected else str(type_.crs)  # type: ignore[union-attr]
        return f"the box runs from x = {xmin} back to {xmax}, and only longitudes wrap; {crs} has none"
    if max(abs(xmin), abs(xmax)) > 180.0:
        return f"the box runs from x = {xmin} back to {xmax}, beyond the longitudes from -180 to 180"
    return None


def bad_wraps(
    xmin: NDArray[np.float64], xmax: NDArray[np.float64], type_: GeometryType | GeographyType | RasterType
) -> NDArray[np.bool_]:
    """The boxes with a `wrap_problem`; NaN means no box.

    >>> from geolake_nb.model.crs import Crs
    >>> bad_wraps(np.array([10.0, 5.0, np.nan]), np.array([5.0, 10.0, np.nan]), GeometryType(Crs("SRID:0"))).tolist()
    [True, False, False]
    """
    with np.errstate(invalid="ignore"):
        wraps = xmin > xmax
        # PROJ resolves the CRS only where a box wraps.
        if wraps.any() and may_wrap(type_):
            wraps &= (np.abs(xmin) > 180.0) | (np.abs(xmax) > 180.0)
    return np.asarray(wraps, np.bool_)


VERTICES_ONLY = "a geography box of another writer may cover only the vertices, not the edges"
"""Why a box of a geography is not used: it is not known to cover the edges."""


def usable_bounds(
    stats: GeoStatsColumns,
    type_: GeometryType | GeographyType | RasterType,
    *,
    covers_edges: NDArray[np.bool_] | None = None,
) -> GeoStatsColumns:
    """The same without the boxes that a scan cannot rely on, each with its reason.

    `covers_edges` marks the files whose boxes of a geography are known to cover the edges: our own.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.types import geometry
    >>> from geolake_nb.model.file_table import GeoStatsColumns, sides_of
    >>> stats = GeoStatsColumns(sides_of([Box(0, 0, 1, 1), Box(10, 2, 5, 9)]))
    >>> usable_bounds(stats, geometry("EPSG:3857")).problem.to_pylist()[1][:36]
    'the box runs from x = 10.0 back to 5'
    """
    xmin, xmax = (stats.sides[side].to_numpy(zero_copy_only=False) for side in ("xmin", "xmax"))
    wraps = bad_wraps(xmin, xmax, type_)
    if wraps.any():
        stats = _without(stats, wraps, _reasons(xmin, xmax, wraps, type_))
    if isinstance(type_, GeographyType):
        known = ~np.isnan(xmin) & ~wraps
        doubtful = known if covers_edges is None else known & ~covers_edges
        if doubtful.any():
            stats = _without(stats, doubtful, VERTICES_ONLY)
    return stats


def _reasons(
    xmin: NDArray[np.float64],
    xmax: NDArray[np.float64],
    wraps: NDArray[np.bool_],
    type_: GeometryType | GeographyType | RasterType,
) -> pa.Array:
    rows = np.flatnonzero(wraps)
    texts = np.full(len(wraps), None, object)
    texts[rows] = [wrap_problem(float(xmin[row]), float(xmax[row]), type_) for row in rows.tolist()]
    return pa.array(texts, pa.string())


def _without(stats: GeoStatsColumns, rows: NDArray[np.bool_], reason: pa.Array | str) -> GeoStatsColumns:
    """The statistics with a reason instead of a box in these rows."""
    unusable = pa.array(rows)
    sides = {
        axis: pc.if_else(unusable, pa.scalar(None, pa.float64()), values.cast(pa.float64()))
        for axis, values in stats.sides.items()
    }
    problem = pc.if_else(unusable, reason, pa.scalar(None, pa.string()))
    return replace(
        stats, sides=sides, problem=problem if stats.problem is None else pc.coalesce(stats.problem, problem)
    )


ROUNDING_ULPS = 4
"""A box may miss a coordinate by this many ULPs, of 180 at least, and count as rounded.

Boxes in other writers' footers miss vertices by some 1e-14 degrees; 4 units of 180 are 1.1e-13.
"""


@dataclass(frozen=True, slots=True, eq=False)
class BoxSides:
    """The sides of many boxes by axis, NaN where a side is missing."""

    sides: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, table: pa.Table, column: str) -> BoxSides:
        """The sides in the columns `c.xmin` … `c.mmax` of a table; axes that it does not have are absent.

        >>> import pyarrow as pa
        >>> table = pa.table({"g.xmin": [0.0], "g.ymin": [0.0], "g.xmax": [1.0], "g.ymax": [1.0]})
        >>> BoxSides.of(table, "g").known.tolist(), BoxSides.of(table, "h").known.tolist()
        ([True], [False])
        """
        missing = np.full(table.num_rows, np.nan)
        names = {axis: f"{column}.{axis}" for axis in AXES}
        return cls(
            {axis: _doubles(table[name]) if has_column(table, name) else missing for axis, name in names.items()}
        )

    def __getitem__(self, axis: str) -> NDArray[np.float64]:
        return self.sides[axis]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which of them have x and y."""
        west, south, east, north = (np.isnan(self.sides[axis]) for axis in AXES[:4])
        return np.asarray(~(west | south | east | north), np.bool_)

    @property
    def wraps(self) -> NDArray[np.bool_]:
        """Which of them cross the antimeridian."""
        with np.errstate(invalid="ignore"):
            crosses: NDArray[np.bool_] = self.sides["xmin"] > self.sides["xmax"]
        return crosses

    def take(self, index: NDArray[np.intp]) -> BoxSides:
        """The boxes at these positions."""
        return BoxSides({axis: side[index] for axis, side in self.sides.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """Which boxes do not contain the box that they should hold: by more than a rounding error, or by less."""

    smaller: NDArray[np.bool_]
    rounded: NDArray[np.bool_]


def misses(outer: BoxSides, inner: BoxSides, *, margin: ArrayLike = 0.0, slack: ArrayLike = 0.0) -> Misses:
    """Which outer boxes miss a part of their inner box; none does where one of the two is not known.

    `margin` is the part of its coordinates by which an inner box may be too large, which is not missed at all; what
    is missed up to `slack` counts as rounding, and always what `ROUNDING_ULPS` allows.

    >>> def box(*sides): return BoxSides({axis: np.array([side]) for axis, side in zip(AXES, (*sides, *[np.nan] * 4))})
    >>> misses(box(0.0, 0.0, 1.0, 1.0), box(0.0, 0.0, 3.0, 1.0)).smaller.tolist()
    [True]
    >>> misses(box(0.0, 0.0, 1.0, 1.0), box(0.0, 0.0, 1.0 + 1e-15, 1.0)).rounded.tolist()
    [True]
    >>> misses(box(170.0, 0.0, -170.0, 1.0), box(175.0, 0.0, 180.0, 1.0)).smaller.tolist()
    [False]
    """
    known = outer.known & inner.known
    smaller, missed = np.zeros(len(known), np.bool_), np.zeros(len(known), np.bool_)
    with np.errstate(invalid="ignore"):
        for axis in "xyzm":
            beyond = _x_beyond(outer, inner) if axis == "x" else _beyond(outer, inner, axis)
            largest = np.fmax(np.abs(inner[f"{axis}min"]), np.abs(inner[f"{axis}max"]))
            step = np.spacing(np.fmax(np.where(np.isfinite(largest), largest, 180.0), 180.0))
            # Adding and subtracting a margin is exact to two steps.
            allowed = np.where(np.asarray(margin) > 0.0, np.asarray(margin) * largest + 2.0 * step, 0.0)
            # A comparison with NaN is false: a box without Z or M is not compared on them.
            missed |= beyond > allowed
            smaller |= beyond > allowed + ROUNDING_ULPS * step + slack
    return Misses(smaller & known, missed & ~smaller & known)


def _beyond(outer: BoxSides, inner: BoxSides, axis: str) -> NDArray[np.float64]:
    low, high = f"{axis}min", f"{axis}max"
    beyond: NDArray[np.float64] = np.fmax(outer[low] - inner[low], inner[high] - outer[high])
    return beyond


def _x_beyond(outer: BoxSides, inner: BoxSides) -> NDArray[np.float64]:
    west, east = outer["xmin"] - inner["xmin"], inner["xmax"] - outer["xmax"]
    alike = np.fmax(west, east)
    # A range that does not wrap lies in one that does when it is on one side of the gap.
    only_outer = np.fmin(west, east)
    only_inner = np.fmax(outer["xmin"] + 180.0, 180.0 - outer["xmax"])
    result: NDArray[np.float64] = np.where(
        outer.wraps == inner.wraps, alike, np.where(outer.wraps, only_outer, only_inner)
    )
    return result


def excess(outer: BoxSides, inner: BoxSides) -> NDArray[np.bool_]:
    """Which outer boxes are larger than they must be: by more than 1 % of the inner box on some side of x or y.

    A side may always differ by the rounding of a 32-bit float; longitudes of boxes that wrap are not compared.

    >>> def box(*sides): return BoxSides({axis: np.array([side]) for axis, side in zip(AXES, (*sides, *[np.nan] * 4))})
    >>> excess(box(0.0, 0.0, 1.2, 1.0), box(0.0, 0.0, 1.0, 1.0)).tolist()
    [True]
    >>> excess(box(0.0, 0.0, 1.005, 1.0), box(0.0, 0.0, 1.0, 1.0)).tolist()
    [False]
    """
    planar = ~(outer.wraps | inner.wraps)
    loose = np.zeros(len(planar), np.bool_)
    with np.errstate(invalid="ignore"):
        for axis, compared in (("x", planar), ("y", np.ones_like(planar))):
            low, high = inner[f"{axis}min"], inner[f"{axis}max"]
            allowed = np.fmax(0.01 * (high - low), 2.0**-20 * np.fmax(np.abs(low), np.abs(high)))
            beyond = np.fmax(low - outer[f"{axis}min"], outer[f"{axis}max"] - high)
            loose |= compared & (beyond > allowed)
    return loose & outer.known & inner.known


def union_by(index: NDArray[np.intp], boxes: BoxSides, count: int) -> BoxSides:
    """The union of boxes by file `index`, on a plane: a file with a wrapped part spans the whole circle in x.

    >>> two = {axis: np.array([0.0, 5.0]) for axis in AXES}
    >>> union_by(np.array([0, 0]), BoxSides(two), 2)["xmax"].tolist()
    [5.0, nan]
    """
    joined: dict[str, NDArray[np.float64]] = {}
    crosses = boxes.wraps
    for axis in AXES:
        low = axis.endswith("min")
        values = boxes[axis]
        if axis in ("xmin", "xmax"):
            values = np.where(crosses, -180.0 if low else 180.0, values)
        whole = np.full(count, np.nan)
        (np.fmin if low else np.fmax).at(whole, index, values)
        joined[axis] = whole
    return BoxSides(joined)


def _doubles(column: pa.ChunkedArray) -> NDArray[np.float64]:
    import pyarrow as pa

    numbers: Any = (column if column.type == pa.float64() else column.cast(pa.float64())).to_numpy()
    return np.asarray(numbers, np.float64)
