"""How each format writes the two ends of a box, and how they are read back.

Every pair `to_x` / `from_x` keeps doubles bit for bit. Writers refuse a box that the format cannot store;
readers refuse corners that do not form a box. `circular` means that x is a longitude that may wrap: a geography, or a
raster of Havasu. A geometry never wraps, yet `xmin > xmax` is read as a wrapped box everywhere.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from geolake_nb.errors import BoundError
from geolake_nb.model.box import Box
from geolake_nb.text.messages import shortened

__all__ = [
    "ParquetGeoStatistics",
    "from_delta_wkt",
    "from_geoparquet_bbox",
    "from_havasu_wkb",
    "from_iceberg_bytes",
    "from_parquet_statistics",
    "outward_float32",
    "parquet_type_codes",
    "to_delta_wkt",
    "to_geoparquet_bbox",
    "to_havasu_wkb",
    "to_iceberg_bytes",
    "to_parquet_fields",
    "widened_float32",
]

_Corner = dict[str, float]


def to_delta_wkt(box: Box) -> tuple[str, str]:
    """The texts for `minValues` and `maxValues`; a box that wraps is written over the whole circle.

    >>> to_delta_wkt(Box(-122.419, 37.774, -120.503, 38.021))
    ('POINT(-122.419 37.774)', 'POINT(-120.503 38.021)')
    >>> to_delta_wkt(Box(170, -20, -170, -10, zmin=0, zmax=5))
    ('POINT Z(-180 -20 0)', 'POINT Z(180 -10 5)')
    """
    # The readers of Delta compare boxes as planes: xmin > xmax would make them skip the file and lose rows.
    if box.wraps:
        _require_degrees(box, "a wrapped box")
    flat = box.unwrapped()
    _require_finite(flat, "a WKT point")
    low, high = (_delta_point(corner) for corner in _corners(flat))
    return low, high


def from_delta_wkt(min_text: str, max_text: str) -> Box:
    """The box between two WKT points, in any spelling.

    >>> from_delta_wkt("POINT(1 2)", "point ( 3.5 4e0 )").xmax
    3.5
    >>> from_delta_wkt("POINT EMPTY", "POINT EMPTY")
    Traceback (most recent call last):
    geolake_nb.errors.BoundError: the min 'POINT EMPTY' is an empty point: it bounds nothing
    """
    box = _box(_read_wkt_point(min_text, "min"), _read_wkt_point(max_text, "max"))
    if box.wraps and not _in_degrees(box):
        raise BoundError(
            f"the min {min_text!r} has a larger x than the max {max_text!r}",
            remedy="Delta boxes do not wrap; the two may have been ordered as text",
        )
    return box


def to_iceberg_bytes(box: Box, *, circular: bool = False) -> tuple[bytes, bytes]:
    """The lower and the upper bound: 16 bytes for XY, 24 for XYZ, 32 for XYM (Z is NaN) and XYZM.

    >>> [len(bound) for bound in to_iceberg_bytes(Box(0, 0, 1, 1, mmin=0, mmax=9))]
    [32, 32]
    """
    _require_writable(box, circular=circular)
    low, high = (_iceberg_point(corner) for corner in _corners(box))
    return low, high


def from_iceberg_bytes(lower: bytes, upper: bytes) -> Box:
    """The box between two bounds of Iceberg.

    >>> from_iceberg_bytes(*to_iceberg_bytes(Box(170, 0, -170, 1), circular=True)).wraps
    True
    >>> from_iceberg_bytes(b"", b"")
    Traceback (most recent call last):
    geolake_nb.errors.BoundError: the lower bound has 0 bytes; Iceberg writes 16, 24 or 32
    """
    return _box(_read_iceberg_point(lower, "lower"), _read_iceberg_point(upper, "upper"))


def to_havasu_wkb(box: Box, *, circular: bool = False) -> tuple[bytes, bytes]:
    """The lower and the upper bound as WKB points; Havasu bounds X and Y only.

    >>> to_havasu_wkb(Box(1, 2, 3, 4))[0].hex()
    '0101000000000000000000f03f0000000000000040'
    """
    # Havasu, Raster bounds: xmin > xmax crosses the antimeridian. Geometry bounds have no such rule.
    _require_writable(box, circular=circular)
    low, high = (struct.pack("<BIdd", 1, 1, corner["x"], corner["y"]) for corner in _corners(box))
    return low, high


def from_havasu_wkb(lower: bytes, upper: bytes) -> Box:
    """The box between two WKB or EWKB points of either byte order; the SRID, Z and M are ignored.

    >>> from_havasu_wkb(*to_havasu_wkb(Box(1, 2, 3, 4)))
    Box(xmin=1.0, ymin=2.0, xmax=3.0, ymax=4.0, zmin=None, zmax=None, mmin=None, mmax=None)
    """
    return _box(_read_wkb_point(lower, "lower"), _read_wkb_point(upper, "upper"))


class ParquetGeoStatistics(Protocol):
    """The part of pyarrow's `GeoStatistics` that is used here."""

    @property
    def geospatial_types(self) -> list[int] | None:
        """ISO WKB type codes."""

    def to_dict(self) -> dict[str, Any]:
        """The sides by their names, `None` where there is none."""


_SIDES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")


def to_parquet_fields(box: Box, *, circular: bool = False) -> dict[str, float]:
    """The fields of Parquet's `BoundingBox` that the box has.

    >>> to_parquet_fields(Box(0, 1, 2, 3))
    {'xmin': 0.0, 'ymin': 1.0, 'xmax': 2.0, 'ymax': 3.0}
    """
    _require_writable(box, circular=circular)
    return {side: getattr(box, side) for side in _SIDES if getattr(box, side) is not None}


def from_parquet_statistics(statistics: ParquetGeoStatistics | Mapping[str, Any] | None) -> Box | None:
    """The box in the geospatial statistics of a column chunk, `None` where there is none.

    >>> from_parquet_statistics({"xmin": 0, "ymin": 1, "xmax": 2, "ymax": 3, "zmin": None}).ymax
    3.0
    >>> from_parquet_statistics(None) is None, from_parquet_statistics({"xmin": None}) is None
    (True, True)
    """
    if statistics is None:
        return None
    fields = statistics if isinstance(statistics, Mapping) else statistics.to_dict()
    sides = {side: _number(fields[side]) for side in _SIDES if fields.get(side) is not None}
    # Parquet, Bounding Box: without X or without Y there is no box.
    if not sides.keys() >= set(_SIDES[:4]):
        return None
    _require_meaning(sides["xmin"], sides["xmax"])
    # Parquet, Bounding Box: a dimension without values is omitted, for which writers also put NaN or an inverted range.
    for low, high in (("zmin", "zmax"), ("mmin", "mmax")):
        if not sides.get(low, math.nan) <= sides.get(high, math.nan):
            sides = {side: value for side, value in sides.items() if side not in (low, high)}
    return Box(**sides)


def parquet_type_codes(statistics: ParquetGeoStatistics | None) -> tuple[int, ...] | None:
    """The ISO WKB type codes in a column chunk, unique and sorted; `None` when they are not known.

    >>> parquet_type_codes(None) is None
    True
    """
    # Parquet, Geospatial Types: an empty list signals that the types are not known.
    if statistics is None or not statistics.geospatial_types:
        return None
    return tuple(sorted(set(statistics.geospatial_types)))


def to_geoparquet_bbox(box: Box, *, circular: bool = False) -> list[float]:
    """The array for `bbox` in GeoParquet's metadata: four numbers, six with Z; M is not stored.

    >>> to_geoparquet_bbox(Box(0, 1, 2, 3, zmin=-1, zmax=1, mmin=5, mmax=6))
    [0.0, 1.0, -1.0, 2.0, 3.0, 1.0]
    """
    _require_writable(box, circular=circular)
    flat = Box(box.xmin, box.ymin, box.xmax, box.ymax, box.zmin, box.zmax)
    _require_finite(flat, "a bbox in JSON")
    return [corner[axis] for corner in _corners(flat) for axis in corner]


def from_geoparquet_bbox(bbox: Sequence[Any]) -> Box:
    """The box in an array of four or six numbers.

    >>> from_geoparquet_bbox([170, -20, -170, -10]).wraps
    True
    >>> from_geoparquet_bbox([])
    Traceback (most recent call last):
    geolake_nb.errors.BoundError: a bbox has 0 numbers; GeoParquet has 4 or 6
    """
    if isinstance(bbox, str | bytes) or not isinstance(bbox, Sequence):
        raise BoundError("expected a bbox to be an array of numbers")
    if len(bbox) not in (4, 6):
        raise BoundError(f"a bbox has {len(bbox)} numbers; GeoParquet has 4 or 6")
    values = [_number(value) for value in bbox]
    axes = "xyz"[: len(bbox) // 2]
    half = len(axes)
    box = _box(dict(zip(axes, values[:half], strict=True)), dict(zip(axes, values[half:], strict=True)))
    _require_finite(box, "a bbox in JSON")
    return box


def outward_float32(box: Box) -> Box:
    """The smallest box around this one whose sides are 32-bit floats: what a GeoParquet covering stores.

    >>> outward_float32(Box(0.1, 0.5, 0.1, 0.5)).xmin, outward_float32(Box(0.1, 0.5, 0.1, 0.5)).xmax
    (0.09999999403953552, 0.10000000149011612)
    """
    return _outward(box, slack=False)


def widened_float32(box: Box) -> Box:
    """A box of 32-bit floats as a writer may have meant it that rounded to the nearest: one step wider.

    >>> widened_float32(Box(0, 0.5, 1, 0.5)).ymax
    0.5000000596046448
    """
    return _outward(box, slack=True)


def _corners(box: Box) -> tuple[_Corner, _Corner]:
    low: _Corner = {"x": box.xmin, "y": box.ymin}
    high: _Corner = {"x": box.xmax, "y": box.ymax}
    for axis in "zm":
        bottom, top = getattr(box, f"{axis}min"), getattr(box, f"{axis}max")
        if bottom is not None:
            low[axis], high[axis] = bottom, top
    return low, high


def _box(low: _Corner, high: _Corner) -> Box:
    if low.keys() != high.keys():
        axes = ["".join(corner).upper() for corner in (low, high)]
        raise BoundError(f"the lower end of a box has {axes[0]}, its upper end {axes[1]}")
    _require_meaning(low["x"], high["x"])
    sides = {f"{axis}min": value for axis, value in low.items()}
    return Box(**sides, **{f"{axis}max": value for axis, value in high.items()})


def _require_meaning(xmin: float, xmax: float) -> None:
    """Refuse the inverted infinities with which some writers mark an empty box."""
    if xmin > xmax and (math.isinf(xmin) or math.isinf(xmax)):
        raise BoundError(f"a box runs from x = {xmin} to {xmax}: neither a range nor a wrapped one")


def _require_writable(box: Box, *, circular: bool) -> None:
    if circular:
        # Parquet and Iceberg: the bounds of a geography lie in [-180, 180] and [-90, 90].
        _require_degrees(box, "a box on the Earth")
        if box.ymin < -90.0 or box.ymax > 90.0:
            raise BoundError(f"a box on the Earth runs from y = {box.ymin} to {box.ymax}, beyond [-90, 90]")
    elif box.wraps:
        raise BoundError(
            f"a geometry's box runs from x = {box.xmin} to {box.xmax}, across the antimeridian",
            remedy="only a geography or a raster may wrap; write x from -180 to 180",
        )


def _in_degrees(box: Box) -> bool:
    return all(-180.0 <= x <= 180.0 for x in (box.xmin, box.xmax))


def _require_degrees(box: Box, what: str) -> None:
    if not _in_degrees(box):
        raise BoundError(f"{what} runs from x = {box.xmin} to {box.xmax}, beyond [-180, 180]")


def _require_finite(box: Box, holder: str) -> None:
    if not all(math.isfinite(value) for value in box.values):
        raise BoundError(f"{holder} cannot hold an infinite side", remedy="write no bound")


# A longer text cannot be a point: the exact decimals of four doubles need some 4,400 characters.
_MAX_WKT = 8192
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WKT_AXES = {
    "POINT": None,
    "POINTZ": "xyz",
    "POINT Z": "xyz",
    "POINTM": "xym",
    "POINT M": "xym",
    "POINTZM": "xyzm",
    "POINT ZM": "xyzm",
    "POINT Z M": "xyzm",
}


def _delta_point(corner: _Corner) -> str:
    # Delta Kernel writes and reads a tag after one space and no space before the parenthesis.
    tag = "".join(axis for axis in corner if axis in "zm").upper()
    numbers = " ".join(repr(value).removesuffix(".0") for value in corner.values())
    return f"POINT{' ' if tag else ''}{tag}({numbers})"


def _read_wkt_point(text: str, end: str) -> _Corner:
    if not isinstance(text, str):
        raise BoundError(f"expected the {end} to be a string, got {type(text).__name__}")
    shown = repr(shortened(text, 80))
    if len(text) > _MAX_WKT:
        raise BoundError(f"the {end} {shown} is not a WKT point: it has {len(text)} characters")
    head, bracket, body = text.strip().partition("(")
    kind = " ".join(head.upper().split())
    if kind.startswith("POINT") and kind.endswith("EMPTY"):
        raise BoundError(f"the {end} {shown} is an empty point: it bounds nothing")
    if kind not in _WKT_AXES or not bracket or not body.endswith(")"):
        raise BoundError(f"the {end} {shown} is not a WKT point", remedy="geospatial bounds look like POINT(1 2)")
    words = body[:-1].split()
    # Untagged Z and M are how older writers of WKT put them.
    axes = _WKT_AXES[kind] or {3: "xyz", 4: "xyzm"}.get(len(words), "xy")
    if len(words) != len(axes):
        raise BoundError(f"the {end} {shown} has {len(words)} numbers, expected {len(axes)}")
    for word in words:
        if not _NUMBER.fullmatch(word):
            raise BoundError(f"the {end} {shown} has {word!r}, expected a number")
    values = [float(word) for word in words]
    if not all(math.isfinite(value) for value in values):
        raise BoundError(f"the {end} {shown} has a number outside the range of a double")
    return dict(zip(axes, values, strict=True))


def _iceberg_point(corner: _Corner) -> bytes:
    values = [corner["x"], corner["y"]]
    if "z" in corner or "m" in corner:
        values.append(corner.get("z", math.nan))
    if "m" in corner:
        values.append(corner["m"])
    return struct.pack(f"<{len(values)}d", *values)


def _read_iceberg_point(data: bytes, end: str) -> _Corner:
    _require_bytes(data, end)
    if len(data) not in (16, 24, 32):
        what = f"the {end} bound has {len(data)} bytes; Iceberg writes 16, 24 or 32"
        raise BoundError(f"{what}, and these look like WKB" if _looks_like_wkb(data) else what)
    values = struct.unpack(f"<{len(data) // 8}d", data)
    return _numbered(zip("xyzm", values, strict=False), end)


def _numbered(values: Iterable[tuple[str, float]], end: str) -> _Corner:
    """The corner without the axes that are NaN, which means a missing axis."""
    corner = {axis: value for axis, value in values if not math.isnan(value)}
    if not {"x", "y"} <= corner.keys():
        raise BoundError(f"the {end} bound has a NaN for x or y: it bounds nothing")
    return corner


_EWKB_Z, _EWKB_M, _EWKB_SRID = 0x80000000, 0x40000000, 0x20000000


def _wkb_head(data: bytes) -> tuple[str, int, int]:
    """The byte order, the flags of EWKB and the ISO type."""
    order = "<" if data[0] else ">"
    (code,) = struct.unpack_from(f"{order}I", data, 1)
    return order, code & ~0x1FFFFFFF, code & 0x1FFFFFFF


def _looks_like_wkb(data: bytes) -> bool:
    if len(data) < 5 or data[0] not in (0, 1):
        return False
    dimension, kind = divmod(_wkb_head(data)[2], 1000)
    return dimension <= 3 and 1 <= kind <= 17


def _require_bytes(data: Any, end: str) -> None:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BoundError(f"expected the {end} bound to be bytes, got a {type(data).__name__}")


def _read_wkb_point(data: bytes, end: str) -> _Corner:
    _require_bytes(data, end)
    if not _looks_like_wkb(data):
        raise BoundError(f"the {end} bound of {len(data)} bytes is not a WKB point")
    order, flags, kind = _wkb_head(data)
    if kind not in (1, 1001, 2001, 3001):
        raise BoundError(f"the {end} bound is WKB of type {kind}, not a point")
    axes = 2 + bool(flags & _EWKB_Z or kind in (1001, 3001)) + bool(flags & _EWKB_M or kind in (2001, 3001))
    start = 9 if flags & _EWKB_SRID else 5
    if len(data) != start + 8 * axes:
        raise BoundError(f"the {end} bound has {len(data)} bytes, expected {start + 8 * axes} for its WKB point")
    return _numbered(zip("xy", struct.unpack_from(f"{order}2d", data, start), strict=True), end)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BoundError(f"a box has {value!r}, expected a number")
    try:
        return float(value)
    except OverflowError:
        raise BoundError("a box has a number outside the range of a double") from None


def _outward(box: Box, *, slack: bool) -> Box:
    def moved(value: float, towards: float) -> float:
        with np.errstate(over="ignore", under="ignore"):
            near = np.float32(value)
            inside = float(near) > value if towards < 0 else float(near) < value
            return float(np.nextafter(near, np.float32(towards)) if slack or inside else near)

    low, high = _corners(box)
    low = {axis: moved(value, -math.inf) for axis, value in low.items()}
    high = {axis: moved(value, math.inf) for axis, value in high.items()}
    if box.wraps and low["x"] <= high["x"]:
        # The gap closed, so the box covers every longitude; unchanged it would cover none.
        low["x"], high["x"] = (-180.0, 180.0) if _in_degrees(box) else (-math.inf, math.inf)
    return _box(low, high)
