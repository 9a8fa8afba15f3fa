"""Walk the bytes of a WKB value with `struct` alone and say what it holds: the second opinion of the tests.

Written for clearness from the OGC and ISO texts, and shares no code with the package.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

__all__ = [
    "Arc",
    "BadError",
    "MalformedError",
    "TooDeepError",
    "TrailingError",
    "UnsupportedError",
    "Walk",
    "split",
    "walk",
]

MAX_DEPTH = 128

COLLECTIONS = {
    4: {1},
    5: {2},
    6: {3},
    7: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17},
    9: {2, 8},
    10: {2, 8, 9},
    11: {2, 8, 9},
    12: {3, 10},
    15: {3},
    16: {17},
}
# Texts differ here (OGC calls the parts of a TIN polygons): a reader may take it or refuse it.
TOLERATED = {15: {17}, 16: {3}}


class BadError(Exception):
    """The value breaks a rule; `offset` is where that shows."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(f"at {offset}: {why}")
        self.offset = offset


class MalformedError(BadError):
    """Truncated, a count beyond the bytes left, a byte order that is neither 0 nor 1, a wrong child."""


class UnsupportedError(BadError):
    """A type code that no text defines, or an abstract one."""


class TooDeepError(BadError):
    """More levels than allowed."""


class TrailingError(BadError):
    """Bytes after the end of the geometry."""


Arc = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]


@dataclass
class Walk:
    """What a value holds. `ranges` has one (min, max) per axis of X, Y, Z, M, or None without a value."""

    code: int
    srid: int | None
    ranges: list[tuple[float, float] | None] = field(default_factory=lambda: [None] * 4)
    arcs: list[Arc] = field(default_factory=list)
    kinds: set[int] = field(default_factory=set)
    vertices: int = 0
    depth: int = 1
    # A rule on which readers differ was met: a typed error would be as right as the result.
    contested: set[str] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        """No X and no Y that is a number."""
        return self.ranges[0] is None and self.ranges[1] is None

    @property
    def sides(self) -> tuple[float | None, ...] | None:
        """xmin ymin xmax ymax zmin zmax mmin mmax, or None without X or Y."""
        x, y, z, m = self.ranges
        if x is None or y is None:
            return None
        return (x[0], y[0], x[1], y[1], *(z or (None, None)), *(m or (None, None)))


def walk(value: bytes) -> Walk:
    """All of the value, or an error."""
    result, end = _start(value, 0)
    if end != len(value):
        raise TrailingError(end, f"{len(value) - end} bytes after the end")
    return result


def split(values: bytes) -> list[bytes]:
    """Values that were written one after the other without a separator."""
    parts, start = [], 0
    while start < len(values):
        _, end = _start(values, start)
        parts.append(values[start:end])
        start = end
    return parts


def _start(value: bytes, offset: int) -> tuple[Walk, int]:
    result = Walk(code=0, srid=None)
    end = _geometry(value, offset, 1, None, result)
    return result, end


def _need(value: bytes, offset: int, size: int) -> None:
    if offset + size > len(value):
        raise MalformedError(offset, f"{size} bytes needed, {max(len(value) - offset, 0)} left")


def _count(value: bytes, offset: int, order: str, least: int) -> tuple[int, int]:
    _need(value, offset, 4)
    (count,) = struct.unpack_from(order + "I", value, offset)
    if count * least > len(value) - offset - 4:
        raise MalformedError(offset, f"count {count} is larger than the bytes left")
    return count, offset + 4


def _geometry(value: bytes, offset: int, depth: int, allowed, result: Walk) -> int:
    start = offset
    if depth > MAX_DEPTH:
        raise TooDeepError(start, f"more than {MAX_DEPTH} levels")
    result.depth = max(result.depth, depth)
    _need(value, offset, 1)
    if value[offset] not in (0, 1):
        raise MalformedError(offset, f"byte order {value[offset]}")
    order = "<" if value[offset] else ">"
    _need(value, offset + 1, 4)
    (raw,) = struct.unpack_from(order + "I", value, offset + 1)
    offset += 5
    base = raw & 0x1FFFFFFF
    iso, kind = divmod(base, 1000)
    if iso > 3 or (kind not in (1, 2, 3, 17, 8) and kind not in COLLECTIONS):
        raise UnsupportedError(start + 1, f"type {raw}")
    if iso and raw & 0xC0000000:
        result.contested.add("ISO and EWKB dimensions in one code")
    has_z = iso in (1, 3) or bool(raw & 0x80000000)
    has_m = iso in (2, 3) or bool(raw & 0x40000000)
    srid = None
    if raw & 0x20000000:
        _need(value, offset, 4)
        (srid,) = struct.unpack_from(order + "i", value, offset)
        offset += 4
    if allowed is None:
        result.code = kind + 1000 * has_z + 2000 * has_m
        result.srid = srid
    elif kind not in COLLECTIONS[allowed]:
        if kind not in TOLERATED.get(allowed, ()):
            raise MalformedError(start, f"type {kind} in a type {allowed}")
        result.contested.add(f"type {kind} in a type {allowed}")
    result.kinds.add(kind)
    axes = [0, 1, *([2] if has_z else []), *([3] if has_m else [])]
    size = 8 * len(axes)
    if kind == 1:
        return _vertices(value, offset, 1, order=order, axes=axes, result=result)[0]
    if kind in (2, 8):
        count, offset = _count(value, offset, order, size)
        offset, rows = _vertices(value, offset, count, order=order, axes=axes, result=result)
        if kind == 8:
            if count and (count < 3 or count % 2 == 0):
                result.contested.add("an arc without its three points")
            pairs = [(row[0], row[1]) for row in rows]
            result.arcs += [tuple(pairs[i : i + 3]) for i in range(0, len(pairs) - 2, 2)]
        return offset
    if kind in (3, 17):
        rings, offset = _count(value, offset, order, 4)
        if kind == 17 and rings > 1:
            result.contested.add("a triangle with more than one ring")
        for _ in range(rings):
            count, offset = _count(value, offset, order, size)
            offset, _ = _vertices(value, offset, count, order=order, axes=axes, result=result)
        return offset
    # The shortest child: byte order, type and a count; a point is longer.
    children, offset = _count(value, offset, order, 9)
    for _ in range(children):
        offset = _geometry(value, offset, depth + 1, kind, result)
    return offset


def _vertices(value: bytes, offset: int, count: int, *, order: str, axes, result: Walk):
    width = len(axes)
    _need(value, offset, 8 * width * count)
    flat = struct.unpack_from(f"{order}{count * width}d", value, offset)
    for index, axis in enumerate(axes):
        numbers = [number for number in flat[index::width] if not math.isnan(number)]
        if numbers:
            low, high = min(numbers), max(numbers)
            known = result.ranges[axis]
            result.ranges[axis] = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))
    result.vertices += count
    rows = [flat[i : i + width] for i in range(0, len(flat), width)]
    return offset + 8 * width * count, rows
