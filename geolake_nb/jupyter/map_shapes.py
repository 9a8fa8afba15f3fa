"""Geometries of rows as the browser draws them: in degrees, up to a number of rows, flat arrays of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.jupyter.map_overlays import to_degrees, unrolled
from geolake_nb.jupyter.map_widget import pack_float64, pack_uint32
from geolake_nb.model.crs import CRS84
from geolake_nb.model.types import GeographyType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geolake_nb.model.types import GeometryType

    _Floats = NDArray[np.float64]
    _Ids = NDArray[np.int64]

__all__ = ["MAX_DRAWN", "MAX_POINTS", "RowShapes"]

MAX_DRAWN = 5_000
"""Up to so many rows are drawn at once; of more, a sample."""
MAX_POINTS = 400_000
"""Up to so many points of their geometries are sent; of more, fewer rows."""
POINT, LINE, RING, HOLE = range(4)
"""The kinds of parts."""
_PIXELS = 2000
"""About how many pixels a view is wide: finer detail is not visible."""
_LONG_EDGE = 1.0
"""Degrees beyond which an edge of a geography is drawn bent."""


class RowShapes:
    """The geometries of all loaded rows in degrees, and the sample of them that a view shows.

    >>> import shapely
    >>> from geolake_nb.model.types import GeometryType
    >>> shapes = RowShapes(shapely.points([[0, 0], [50, 50]]), GeometryType())
    >>> drawn = shapes.drawn((-10, -10, 10, 10))
    >>> drawn["rows"], drawn["in_view"], len(drawn["points"])
    (1, 1, 16)
    """

    def __init__(
        self,
        shapes: NDArray[np.object_],
        type_: GeometryType | GeographyType,
        *,
        limit: int = MAX_DRAWN,
        points: int = MAX_POINTS,
    ) -> None:
        import shapely

        self._limit, self._points = limit, points
        self._shapes = to_degrees(shapes, type_.crs)
        self._is_geography = isinstance(type_, GeographyType)
        # In a CRS of degrees an edge of a planar geometry from 179 to -179 does run around the world.
        self._jumps = self._is_geography or not (type_.crs.is_unknown or type_.crs.same_as(CRS84))
        self.bounds: _Floats = shapely.bounds(self._shapes)
        # One order for all views: what is drawn stays when the map moves or zooms in.
        self._rank = np.random.default_rng(0).permutation(len(self._shapes))

    def __len__(self) -> int:
        return len(self._shapes)

    def drawn(self, view: Sequence[float] | None = None) -> dict[str, Any]:
        """A sample of the rows in a view, west, south, east and north, as the trait `row_shapes` has it."""
        import shapely

        ids = np.flatnonzero(np.isfinite(self.bounds[:, 0]) if view is None else self._touches(view))
        chosen = ids
        if len(ids) > self._limit:
            chosen = ids[np.argsort(self._rank[ids])[: self._limit]]
        shapes = self._shapes[chosen]
        counts = shapely.get_num_coordinates(shapes)
        if counts.sum() > self._points:
            shapes = shapely.simplify(shapes, self._width(view) / _PIXELS, preserve_topology=False)
            counts = shapely.get_num_coordinates(shapes)
            order = np.argsort(self._rank[chosen])
            fits = max(1, int(np.searchsorted(np.cumsum(counts[order]), self._points, side="right")))
            kept = np.sort(order[:fits])
            chosen, shapes = chosen[kept], shapes[kept]
        sample = np.argsort(chosen)
        parts = self._parts(shapes[sample], chosen[sample])
        return {**parts, "rows": len(chosen), "in_view": len(ids), "view": None if view is None else list(view)}

    def box(self, row: int) -> list[float] | None:
        """The box of a row in degrees, `None` for one without a place."""
        sides: list[float] = self.bounds[row].tolist()
        return sides if np.isfinite(sides).all() else None

    def _touches(self, view: Sequence[float]) -> NDArray[np.bool_]:
        west, south, east, north = view
        xmin, ymin, xmax, ymax = self.bounds.T
        with np.errstate(invalid="ignore"):
            across = (xmin <= east) | (xmax >= west) if west > east else (xmin <= east) & (xmax >= west)
            touches: NDArray[np.bool_] = across & (ymin <= north) & (ymax >= south)
        return touches

    def _width(self, view: Sequence[float] | None) -> float:
        west, east = (
            (view[0], view[2]) if view is not None else (np.nanmin(self.bounds[:, 0]), np.nanmax(self.bounds[:, 2]))
        )
        return float(east - west + (360.0 if west > east else 0.0))

    def _parts(self, shapes: NDArray[np.object_], rows: _Ids) -> dict[str, bytes]:
        """Points, lines and rings one after another, the holes of a polygon behind its outer ring."""
        import shapely

        parts, owners = shapely.get_parts(shapes, return_index=True)
        while len(parts) and (shapely.get_type_id(parts) > 3).any():  # collections of collections
            parts, inner = shapely.get_parts(parts, return_index=True)
            owners = owners[inner]
        types = shapely.get_type_id(parts)
        kinds: list[NDArray[np.uint8]] = []
        of_rows: list[_Ids] = []
        points: list[_Floats] = []
        for kind, wanted in ((POINT, types == 0), (LINE, (types == 1) | (types == 2)), (RING, types == 3)):
            own, row = parts[wanted], rows[owners[wanted]]
            own_kinds = np.full(len(own), kind, np.uint8)
            if kind == RING:
                own, polygon = shapely.get_rings(own, return_index=True)
                row = row[polygon]
                own_kinds = np.where(np.diff(polygon, prepend=-1) > 0, RING, HOLE).astype(np.uint8)
            coordinates, part = shapely.get_coordinates(own, return_index=True)
            sizes = np.bincount(part, minlength=len(own))
            filled = sizes > 0
            pieces = np.split(coordinates, np.cumsum(sizes)[:-1]) if len(own) else []
            kinds.append(own_kinds[filled])
            of_rows.append(row[filled])
            points += [piece for piece in pieces if len(piece)]
        all_kinds = np.concatenate(kinds)
        if self._jumps:
            points = self._unrolled(points, all_kinds)
        return {
            "kinds": all_kinds.tobytes(),
            "items": pack_uint32(np.concatenate(of_rows)),
            "offsets": pack_uint32(np.cumsum([0, *map(len, points)])),
            "points": pack_float64(np.concatenate([np.empty((0, 2)), *points])),
        }

    def _unrolled(self, parts: list[_Floats], kinds: NDArray[np.uint8]) -> list[_Floats]:
        """The parts without jumps over the map at 180 degrees; a hole stays in its polygon."""
        placed: list[_Floats] = []
        outer = 0.0
        for part, kind in zip(parts, kinds.tolist(), strict=True):
            line = along_arcs(part) if self._is_geography and kind != POINT else unrolled(part)
            middle = float(line[:, 0].min() + line[:, 0].max()) / 2.0
            if kind == HOLE:
                line = line + np.array([360.0 * round((outer - middle) / 360.0), 0.0])
            else:
                outer = middle
            placed.append(line)
        return placed


def along_arcs(points: _Floats) -> _Floats:
    """A line whose long edges follow great circles, with longitudes that may run past 180.

    >>> line = along_arcs(np.array([[-60.0, 45.0], [60.0, 45.0]]))
    >>> len(line) > 60, line[:, 1].max().round(1).item()
    (True, 63.4)
    """
    flat = unrolled(points)
    lengths = np.abs(np.diff(flat, axis=0)).max(axis=1, initial=0.0)
    if len(points) < 2 or lengths.max() <= _LONG_EDGE:
        return flat
    lon, lat = np.radians(points[:, 0]), np.radians(points[:, 1])
    vectors = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    pieces = []
    for start, end, length, first in zip(vectors[:-1], vectors[1:], lengths.tolist(), points[:-1], strict=True):
        steps = min(180, int(np.ceil(length / _LONG_EDGE)))
        angle = float(np.arctan2(np.linalg.norm(np.cross(start, end)), start @ end))
        if steps < 2 or not 1e-9 < angle < np.pi - 1e-9:
            pieces.append(first[None, :])
            continue
        part = np.arange(steps)[:, None] / steps
        along = (np.sin((1 - part) * angle) * start + np.sin(part * angle) * end) / np.sin(angle)
        x, y, z = along.T
        bent = np.degrees(np.column_stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))]))
        bent[0] = first
        pieces.append(bent)
    return unrolled(np.concatenate([*pieces, points[-1:]]))
