"""Where geographies lie, by points on great circles: which a window surely meets, and which it surely does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from tests.oracle.great_circle import arc_points

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Arcs"]

_SAMPLES = 33
_NEAR = 0.5
"""Degrees by which a way through the samples stays near the arc: a shape that near to a window is left open."""


@dataclass(frozen=True, slots=True)
class Arcs:
    """Points of each shape, and a plane shape through them whose longitudes run on beyond 180 degrees."""

    points: np.ndarray
    rows: np.ndarray
    """To which row a point belongs."""
    ways: np.ndarray

    @classmethod
    def of(cls, shapes: Sequence[Any]) -> Arcs:
        """Of points, lines and polygons without holes; `None` is nowhere."""
        vertices = [shapely.get_coordinates(shape) for shape in shapes]
        edges = [np.hstack([line[:-1], line[1:]]) for line in vertices]
        whole = np.concatenate([np.empty((0, 4)), *edges])
        lon, lat = (side.astype(float) for side in arc_points(whole[:, :2], whole[:, 2:], _SAMPLES))
        ways, first = [], 0
        for index, (shape, own) in enumerate(zip(shapes, edges, strict=True)):
            way = shape
            if len(own):
                part = slice(first, first + len(own))
                sampled = np.stack([lon[part].ravel(), lat[part].ravel()], axis=1)
                vertices[index] = np.concatenate([vertices[index], sampled])
                sampled[:, 0] = np.unwrap(sampled[:, 0], period=360)
                way = shapely.Polygon(sampled) if shape.geom_type == "Polygon" else shapely.LineString(sampled)
            ways.append(way)
            first += len(own)
        rows = np.repeat(np.arange(len(ways)), [len(line) for line in vertices])
        return cls(np.concatenate(vertices), rows, np.array(ways, object))

    def meet(self, area: Any) -> tuple[np.ndarray, np.ndarray]:
        """Which shapes have a point in the area, and which have none near it."""
        inside = shapely.intersects_xy(area, self.points[:, 0], self.points[:, 1])
        true = np.bincount(self.rows[inside], minlength=len(self.ways)) > 0
        shifted = [shapely.transform(area, lambda xy, by=by: xy + np.array([by, 0.0])) for by in (-360.0, 0.0, 360.0)]
        far = [~(shapely.distance(self.ways, way) <= _NEAR) for way in shifted]
        return true, np.logical_and.reduce(far) & ~true & ~shapely.is_missing(self.ways)
