"""Edges and polygons of the sphere by vectors from its centre: no longitude is added up, and no series is used."""

from __future__ import annotations

import numpy as np

__all__ = ["chord_points", "pole_inside", "vectors"]

_CLEAR = 1e-9
"""Volumes below this count as zero: six rounded products are wrong by some 1e-15."""


def vectors(places) -> np.ndarray:
    """Unit vectors of longitudes and latitudes in degrees, one row each."""
    lon, lat = np.radians(np.atleast_2d(np.asarray(places, float))[:, :2]).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def chord_points(starts, ends, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Longitudes and latitudes of points of the chords, seen from the centre: they lie on the shorter arcs."""
    part = np.linspace(0, 1, samples)[None, :, None]
    inside = vectors(starts)[:, None, :] * (1 - part) + vectors(ends)[:, None, :] * part
    lon = np.degrees(np.arctan2(inside[..., 1], inside[..., 0]))
    return lon, np.degrees(np.arctan2(inside[..., 2], np.hypot(inside[..., 0], inside[..., 1])))


def pole_inside(rings, inside, *, north: bool) -> set[bool]:
    """Whether the pole lies in the polygon, by how often the way there from a point inside meets a ring.

    There is an answer for each point that has a clear way, no half circle and past no vertex: one, if all agree.
    """
    pole = np.array([0.0, 0.0, 1.0 if north else -1.0])
    edges = [vectors(ring) for ring in rings]
    starts = np.concatenate([ring[:-1] for ring in edges])
    ends = np.concatenate([ring[1:] for ring in edges])
    moves = (starts != ends).any(axis=1)
    starts, ends = starts[moves], ends[moves]
    return {odd == 0 for point in vectors(inside) if (odd := _crossed(point, pole, starts, ends)) is not None}


def _crossed(point: np.ndarray, pole: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> int | None:
    """Whether the arc from place to pole meets the edges an odd number of times."""
    if point @ pole < -0.99:
        return None
    way = np.cross(point, pole)
    edge = np.cross(starts, ends)
    sides = np.column_stack([starts @ way, -(ends @ way), -(edge @ point), edge @ pole])
    scale = np.column_stack([np.full((len(edge), 2), np.linalg.norm(way)), *[np.linalg.norm(edge, axis=1)] * 2])
    clear = (np.abs(sides) > _CLEAR * np.maximum(scale, 1e-6)).all(axis=1)
    if not clear.all():
        return None
    # Two arcs meet when each has the ends of the other on either side, and not on the far side of the sphere.
    positive = sides > 0
    return int((positive.all(axis=1) | (~positive).all(axis=1)).sum() % 2)
