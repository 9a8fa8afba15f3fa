"""Boxes of geographies against dense edges: `python -m tests.heavy.prop_geography --count 100000 --seed 1`.

Nothing of a geography may lie outside of its box, and no box may be larger than needed by more than a margin.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import geolake_nb as gl
from geolake_nb.geo.bounds import row_boxes
from geolake_nb.model.types import EdgeAlgorithm, GeographyType
from tests.oracle import great_circle as gc
from tests.oracle.wkb_write import write
from tests.strategies import make_geographies

__all__ = ["check", "check_columns", "main"]

SPHERICAL = "spherical"
# Degrees that a box may be larger than needed.
MARGIN = {SPHERICAL: 1e-9, "karney": 1e-6}
# Degrees that the dense points themselves may be wrong by: the last bits of a long double, and 15 nanometres.
NOISE = {SPHERICAL: 1e-16}
GEODESIC_NOISE = 1e-12
# Below this gap between longitudes a column may get the whole circle.
SMALL_GAP = 0.1
SAMPLES = 17


@dataclass
class _Batch:
    """All edges of many geographies, and which row each belongs to."""

    rows: int
    needs: list[gc.Needs]
    starts: np.ndarray
    ends: np.ndarray
    owner: np.ndarray
    low: np.ndarray = field(init=False)
    high: np.ndarray = field(init=False)
    open_latitude: np.ndarray = field(init=False)


def _flatten(needs: list[gc.Needs], algorithm: str) -> _Batch:
    starts = np.array([p for need in needs for p in need.starts], dtype=float).reshape(-1, 2)
    ends = np.array([p for need in needs for p in need.ends], dtype=float).reshape(-1, 2)
    owner = np.array([i for i, need in enumerate(needs) for _ in need.starts], dtype=int)
    batch = _Batch(len(needs), needs, starts, ends, owner)
    over = np.abs(starts[:, 0] - ends[:, 0]) == 180
    if algorithm == SPHERICAL:
        low, high = gc.great_circle_latitudes(starts, ends)
    else:
        low, high = gc.geodesic_latitudes(starts, ends)
    # An edge of half a circle in longitude is checked by the pole it passes.
    low = np.where(over, np.minimum(starts[:, 1], ends[:, 1]), low)
    high = np.where(over, np.maximum(starts[:, 1], ends[:, 1]), high)
    batch.low = np.full(len(needs), np.inf, dtype=gc.Wide)
    batch.high = np.full(len(needs), -np.inf, dtype=gc.Wide)
    np.minimum.at(batch.low, owner, low)
    np.maximum.at(batch.high, owner, high)
    for row, need in enumerate(needs):
        lats = [lat for _, lat in need.vertices]
        if lats:
            batch.low[row] = -90 if need.south else min(batch.low[row], *lats)
            batch.high[row] = 90 if need.north else max(batch.high[row], *lats)
    # Near-antipodal ends leave the circle open to the last bits of the vertices.
    limit = 179.99 if algorithm == SPHERICAL else 177.0
    sin1, cos1 = gc.sin_cos(starts[:, 1])
    sin2, cos2 = gc.sin_cos(ends[:, 1])
    _, cos_lon = gc.sin_cos(starts[:, 0].astype(gc.Wide) - ends[:, 0])
    far = sin1 * sin2 + cos1 * cos2 * cos_lon < np.cos(np.radians(limit))
    batch.open_latitude = np.zeros(len(needs), dtype=bool)
    np.logical_or.at(batch.open_latitude, owner, far & ~over)
    return batch


def _outside_x(lon, lat, xmin, xmax, noise: float) -> np.ndarray:
    """Whether a dense point lies west or east of the box; all longitudes meet at a pole."""
    _, flat = gc.sin_cos(lat)
    room = noise * 10 + noise / np.maximum(np.abs(flat), 1e-300)
    width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)
    ahead = (np.asarray(lon, gc.Wide) - xmin) % 360
    return (ahead > width + room) & (ahead < 360 - room) & (np.abs(lat) < 90)


def _sides(boxes: pa.Array) -> tuple[np.ndarray, ...]:
    storage = boxes.storage if isinstance(boxes, pa.ExtensionArray) else boxes
    return tuple(storage.field(name).to_numpy(zero_copy_only=False) for name in ("xmin", "ymin", "xmax", "ymax"))


def _type_of(algorithm: str):
    return GeographyType(algorithm=EdgeAlgorithm.parse(algorithm))


def check(geographies, algorithm: str = SPHERICAL, samples: int = SAMPLES) -> list[str]:
    """Every box of a row that leaves something out or is too large, as text."""
    shapes = [shape for shape, _ in geographies]
    boxes = row_boxes(pa.array([write(shape) for shape in shapes], pa.binary()), type=_type_of(algorithm))
    problems = [f"no box for {shapes[i]}" for i in np.flatnonzero(np.asarray(boxes.is_null()))[:5]]
    if problems:
        return problems
    return _violations(
        [gc.needs_of(shape) for shape in shapes],
        _sides(boxes),
        algorithm,
        samples,
        insides=[inside for _, inside in geographies],
        shapes=shapes,
    )


def check_columns(geographies, algorithm: str = SPHERICAL, seed: int = 1, samples: int = SAMPLES) -> list[str]:
    """The same for the boxes of columns of one to six rows."""
    rng = random.Random(seed)
    type_ = _type_of(algorithm)
    columns, start = [], 0
    while start < len(geographies):
        size = rng.randint(1, 6)
        columns.append(geographies[start : start + size])
        start += size
    sides, needs, insides = [], [], []
    for column in columns:
        box = gl.bounds(pa.array([write(shape) for shape, _ in column], pa.binary()), type=type_).box
        if box is None:
            return [f"no box for {[shape for shape, _ in column]}"]
        sides.append((box.xmin, box.ymin, box.xmax, box.ymax))
        need = gc.Needs()
        for shape, _ in column:
            gc.needs_of(shape, need)
        needs.append(need)
        insides.append([p for _, inside in column for p in inside])
    arrays = tuple(np.array(side) for side in zip(*sides, strict=True))
    return _violations(needs, arrays, algorithm, samples, insides=insides, shapes=[[s for s, _ in c] for c in columns])


def _violations(needs, sides, algorithm: str, samples: int, *, insides, shapes) -> list[str]:
    xmin, ymin, xmax, ymax = (np.asarray(side, gc.Wide) for side in sides)  # or noise is lost in rounding
    noise = NOISE.get(algorithm, GEODESIC_NOISE)
    batch = _flatten(needs, algorithm)
    problems: list[str] = []

    def report(rows, what: str) -> None:
        for row in list(dict.fromkeys(np.asarray(rows).tolist()))[:3]:
            box = (xmin[row], ymin[row], xmax[row], ymax[row])
            box = tuple(float(side) for side in box)
            needed = (float(batch.low[row]), float(batch.high[row]), needs[row].width)
            problems.append(f"{algorithm}: {what}: box {box!r}, needed y and width {needed!r}, of {shapes[row]}")

    # Vertices, bit for bit; a vertex at -180 is inside when -180 is, not when 180 is.
    corner = np.array([p for need in needs for p in need.vertices]).reshape(-1, 2)
    corner_owner = np.array([i for i, need in enumerate(needs) for _ in need.vertices], dtype=int)
    x0, x1 = xmin[corner_owner], xmax[corner_owner]
    lon, lat = corner[:, 0], corner[:, 1]
    in_x = np.where(x0 <= x1, (lon >= x0) & (lon <= x1), (lon >= x0) | (lon <= x1))
    in_y = (lat >= ymin[corner_owner]) & (lat <= ymax[corner_owner])
    report(corner_owner[~(in_x & in_y)], "a vertex is outside")

    # Dense points of the edges.
    over = np.abs(batch.starts[:, 0] - batch.ends[:, 0]) == 180
    maker = gc.arc_points if algorithm == SPHERICAL else gc.geodesic_points
    for first in range(0, len(batch.owner), 50_000):
        part = slice(first, first + 50_000)
        lon, lat = maker(batch.starts[part], batch.ends[part], samples)
        owner = batch.owner[part, None]
        keep = ~over[part, None]
        wrong = (lat < ymin[owner] - noise) | (lat > ymax[owner] + noise)
        report(np.broadcast_to(owner, lat.shape)[wrong & keep], "a point of an edge is south or north of it")
        wrong = _outside_x(lon, lat, xmin[owner], xmax[owner], noise)
        report(np.broadcast_to(owner, lat.shape)[wrong & keep], "a point of an edge is west or east of it")

    # Points inside polygons. They are made with doubles, hence the room.
    inner = np.array([p for inside in insides for p in inside]).reshape(-1, 2)
    inner_owner = np.array([i for i, inside in enumerate(insides) for _ in inside], dtype=int)
    if len(inner):
        room = 1e-12 if algorithm == SPHERICAL else 0.3  # the star is one of the sphere
        wrong = (inner[:, 1] < ymin[inner_owner] - room) | (inner[:, 1] > ymax[inner_owner] + room)
        if algorithm == SPHERICAL:
            wrong |= _outside_x(inner[:, 0], inner[:, 1], xmin[inner_owner], xmax[inner_owner], room)
        report(inner_owner[wrong], "a point inside a polygon is outside")

    # Turning points and poles.
    report(np.flatnonzero((batch.low < ymin - noise) | (batch.high > ymax + noise)), "latitudes left out")
    full = np.array([need.full for need in needs])
    report(np.flatnonzero(full & ((xmin != -180) | (xmax != 180))), "not all longitudes")
    report(np.flatnonzero((xmin < -180) | (xmax > 180) | (ymin < -90) | (ymax > 90)), "out of range")

    margin = MARGIN.get(algorithm)
    if margin is not None:
        loose_x = np.array([need.loose_x for need in needs])
        loose_y = np.array([need.loose_y for need in needs])
        large = (batch.low - ymin > margin) | (ymax - batch.high > margin)
        report(np.flatnonzero(large & ~loose_y & ~batch.open_latitude), "latitudes larger than needed")
        width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)
        needed = np.array([need.width for need in needs])
        large = (width - needed > margin) & ~((360 - needed <= SMALL_GAP) & (width == 360))
        report(np.flatnonzero(large & ~loose_x), "longitudes larger than needed")
    return problems


def main(arguments: list[str] | None = None) -> int:
    """Run all algorithms, print what was found, and fail on any problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    status = 0
    for algorithm in (SPHERICAL, "karney", "vincenty", "thomas", "andoyer"):
        begun, done, problems = time.perf_counter(), 0, []
        while done < options.count and len(problems) < 20:
            size = min(5000, options.count - done)
            batch = list(make_geographies(options.seed * 1_000_003 + done, size))
            problems += check(batch, algorithm)
            problems += check_columns(batch, algorithm, seed=done)
            done += size
        print(f"{algorithm}: {done:,} geographies in {time.perf_counter() - begun:.1f} s", flush=True)
        for problem in problems[:20]:
            print("WRONG", problem[:1500])
        status = status or bool(problems)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
