"""The box of one WKB value in plain Python, for where numba is absent.

It reads what `geolake_nb.geo.wkb` says, without curves. The edges of a geography are great circles of a sphere here;
where their course is not simple, the box gets all latitudes or longitudes.
"""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass, field

from geolake_nb.errors import BoundError
from geolake_nb.geo.wkb import MalformedWkbError, UnsupportedWkbError, WkbFault
from geolake_nb.model.box import Box, cover

__all__ = ["plain_box"]

_POINT, _LINE, _POLYGON, _COLLECTIONS = 1, 2, 3, (4, 5, 6, 7)
_MEMBERS = {4: _POINT, 5: _LINE, 6: _POLYGON}
_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000
_MAX_DEPTH = 128
_SMALLEST_GEOMETRY = 9
# Outward: sines and cosines round by less.
_PAD = 1e-9


def plain_box(wkb: bytes, *, geography: bool = False) -> Box | None:
    """The box of a value, `None` for one without X and Y.

    >>> plain_box(bytes.fromhex("0101000000000000000000F03F0000000000000040")).ymax
    2.0
    >>> line = struct.pack("<BII4d", 1, 2, 2, 170, 0, -170, 0)
    >>> plain_box(line).xmin, plain_box(line, geography=True).xmin
    (-170.0, 170.0)
    >>> plain_box(b"")
    Traceback (most recent call last):
        ...
    geolake_nb.geo.wkb.MalformedWkbError: the value ends inside a geometry (at byte 0); rewrite the value as ISO WKB
    """
    reader = _Reader(bytes(wkb))
    parts = _Parts(geography=geography)
    _read(reader, parts, depth=0, expected=None)
    if reader.left:
        raise MalformedWkbError(WkbFault.TRAILING, reader.at, reader.left)
    return parts.box()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, layout: str) -> tuple[float, ...]:
        size = struct.calcsize(layout)
        if size > self.left:
            raise MalformedWkbError(WkbFault.TRUNCATED, self.at, 0)
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += size
        return values

    def count(self, order: str, bytes_each: int) -> int:
        at = self.at
        number = int(self.take(f"{order}I")[0])
        if number * bytes_each > self.left:
            raise MalformedWkbError(WkbFault.COUNT, at, number)
        return number


_Point = tuple[float, float]


@dataclass
class _Parts:
    """The ranges that were seen."""

    geography: bool
    x: list[tuple[float, float]] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    z: list[float] = field(default_factory=list)
    m: list[float] = field(default_factory=list)

    def add(self, points: list[_Point], *, ring: bool = False) -> None:
        """Take in the points of a line or a ring, or a single one."""
        self.y += [y for _, y in points if not math.isnan(y)]
        if not self.geography:
            self.x += [(x, x) for x, _ in points if not math.isnan(x)]
            return
        known = [(x, y) for x, y in points if not (math.isnan(x) or math.isnan(y))]
        if any(not (-180 <= x <= 180 and -90 <= y <= 90) for x, y in known):
            raise BoundError("a longitude is outside [-180, 180] or a latitude outside [-90, 90]")
        self.x += [_circle() if abs(y) == 90 else (x, x) for x, y in known]
        edges = list(itertools.pairwise(known))
        if ring and len(known) > 1:
            edges.append((known[-1], known[0]))
        turned = 0.0
        for start, end in edges:
            turned += self._edge(start, end)
        if ring and edges:
            self._enclosed(known, turned)

    def _edge(self, start: _Point, end: _Point) -> float:
        """Take in an edge; the answer is how far it runs to the east."""
        step = (end[0] - start[0] + 540.0) % 360.0 - 180.0
        if abs(step) > 179.0 or max(abs(start[1]), abs(end[1])) == 90.0:
            if start[0] != end[0] or step:
                self.x.append(_circle())
                self.y += [-90.0, 90.0]
            return step
        east, west = (end[0], start[0]) if step >= 0 else (start[0], end[0])
        self.x.append((west, east))
        top = _summit(start, end)
        if top is not None:
            self.y.append(top)
        return step

    def _enclosed(self, points: list[_Point], turned: float) -> None:
        """A ring that lies between two meridians less than 180 degrees apart encloses nothing beyond its edges."""
        west, east = cover([(x, x) for x, _ in points])
        width = east - west if west <= east else east - west + 360.0
        if abs(turned) > 1.0 or width >= 179.0 or max(abs(y) for _, y in points) > 89.0:
            self.x.append(_circle())
            self.y += [-90.0, 90.0]

    def box(self) -> Box | None:
        if not self.x or not self.y:
            return None
        if self.geography:
            xmin, xmax = cover(self.x)
        else:
            xmin, xmax = min(low for low, _ in self.x), max(high for _, high in self.x)
        z, m = ((min(values), max(values)) if values else (None, None) for values in (self.z, self.m))
        return Box(xmin, min(self.y), xmax, max(self.y), *z, *m)


def _circle() -> tuple[float, float]:
    return (-180.0, 180.0)


def _summit(start: _Point, end: _Point) -> float | None:
    """The latitude farthest from the equator inside an edge, `None` where that is one of its ends."""
    first, second = _vector(start), _vector(end)
    normal = _cross(first, second)
    length = math.sqrt(sum(side * side for side in normal))
    if length < 1e-12:
        return None
    # The highest point of the circle, or the lowest for an edge in the south.
    sign = 1.0 if start[1] + end[1] >= 0 else -1.0
    flat = math.hypot(normal[0], normal[1])
    if flat < 1e-15:
        return None
    up = (-normal[2] * normal[0] * sign, -normal[2] * normal[1] * sign, flat * flat * sign)
    inside = _dot(_cross(normal, first), up) > 0 and _dot(_cross(second, normal), up) > 0
    return sign * min(90.0, math.degrees(math.acos(min(1.0, abs(normal[2]) / length))) + _PAD) if inside else None


def _vector(point: _Point) -> tuple[float, float, float]:
    x, y = math.radians(point[0]), math.radians(point[1])
    return math.cos(y) * math.cos(x), math.cos(y) * math.sin(x), math.sin(y)


def _cross(left: tuple[float, float, float], right: tuple[float, float, float]) -> tuple[float, float, float]:
    return (
        left[1] * right[2] - left[2] * right[1],
        left[2] * right[0] - left[0] * right[2],
        left[0] * right[1] - left[1] * right[0],
    )


def _dot(left: tuple[float, float, float], right: tuple[float, float, float]) -> float:
    return sum(side * other for side, other in zip(left, right, strict=True))


def _read(reader: _Reader, parts: _Parts, *, depth: int, expected: int | None) -> None:
    at = reader.at
    (mark,) = reader.take("B")
    if mark not in (0, 1):
        raise MalformedWkbError(WkbFault.BYTE_ORDER, at, int(mark))
    order = "<" if mark else ">"
    code = int(reader.take(f"{order}I")[0])
    dimensions, kind = divmod(code & 0x1FFFFFFF, 1000)
    if dimensions > 3 or kind not in (_POINT, _LINE, _POLYGON, *_COLLECTIONS):
        raise UnsupportedWkbError(WkbFault.TYPE, at + 1, code)
    if expected is not None and kind != expected:
        raise MalformedWkbError(WkbFault.CHILD_TYPE, at + 1, kind)
    if code & _SRID:
        reader.take(f"{order}I")
    axes = (
        "xy" + ("z" if dimensions in (1, 3) or code & _Z else "") + ("m" if dimensions in (2, 3) or code & _M else "")
    )
    if kind == _POINT:
        parts.add(_points(reader, parts, order, axes, 1))
    elif kind == _LINE:
        parts.add(_points(reader, parts, order, axes, reader.count(order, 8 * len(axes))))
    elif kind == _POLYGON:
        for _ in range(reader.count(order, 4)):
            parts.add(_points(reader, parts, order, axes, reader.count(order, 8 * len(axes))), ring=True)
    else:
        if depth >= _MAX_DEPTH:
            raise MalformedWkbError(WkbFault.NESTING, at, depth)
        for _ in range(reader.count(order, _SMALLEST_GEOMETRY)):
            _read(reader, parts, depth=depth + 1, expected=_MEMBERS.get(kind))


def _points(reader: _Reader, parts: _Parts, order: str, axes: str, count: int) -> list[_Point]:
    width = len(axes)
    values = reader.take(f"{order}{width * count}d")
    for axis in axes[2:]:
        column = values[axes.index(axis) :: width]
        getattr(parts, axis).extend(value for value in column if not math.isnan(value))
    return list(zip(values[::width], values[1::width], strict=True))
