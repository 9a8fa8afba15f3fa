"""Iceberg's binary bounds as columns of boxes and values, and the single values that are written.

A manifest does not specify how its writer bounds a geography, and many use the box of the vertices. Two marks list the
columns, by their field ids, whose bounds this package wrote. One is in the summary of a snapshot and applies to the
files that this snapshot added, wherever others move their entries; it expires with the snapshot. The
other is in the header of a manifest and applies to all its entries: manifests never change, and a writer that merges or
rewrites them creates new ones without it.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import from_havasu_wkb, from_iceberg_bytes
from geolake_nb.model.file_table import AXES
from geolake_nb.model.types import PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from decimal import Decimal

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.metadata import StoredSnapshot
    from geolake_nb.model.box import Box
    from geolake_nb.model.types import DataType

__all__ = [
    "EDGES",
    "MetricsMode",
    "arrow_type",
    "bound_bytes",
    "covers_edges",
    "decode_single_values",
    "edge_mark",
    "havasu_boxes",
    "iceberg_boxes",
    "marked_ids",
    "to_single_value",
]

EDGES = "geolake_nb.geography-bounds"
"""The key of both marks."""


def edge_mark(ids: Iterable[int]) -> str:
    """The value that lists these columns.

    >>> edge_mark([7, 2])
    '2,7'
    """
    return ",".join(str(id_) for id_ in sorted(set(ids)))


def marked_ids(value: str | bytes | None) -> frozenset[int]:
    """The columns that a value lists, none if it cannot be parsed.

    >>> sorted(marked_ids(b"2,7")), marked_ids("all"), marked_ids(None)
    ([2, 7], frozenset(), frozenset())
    """
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    numbers = text.split(",")
    return (
        frozenset(map(int, numbers))
        if all(number.isascii() and number.isdigit() for number in numbers)
        else frozenset()
    )


def covers_edges(
    column: int,
    *,
    added_by: NDArray[np.int64],
    manifest: NDArray[np.int64],
    snapshots: Mapping[int, StoredSnapshot],
    manifests: Mapping[int, frozenset[int]],
) -> NDArray[np.bool_]:
    """The files whose bounds of a column cover its edges: by the snapshot that added each, or by its manifest.

    >>> manifests, marks = np.array([0, 1]), {1: frozenset((2,))}
    >>> covers_edges(2, added_by=np.array([5, 5]), manifest=manifests, snapshots={}, manifests=marks)
    array([False,  True])
    """
    ours = [number for number, snapshot in snapshots.items() if column in marked_ids(snapshot.summary.get(EDGES))]
    marked = [index for index, ids in manifests.items() if column in ids]
    return np.isin(added_by, ours) | np.isin(manifest, marked)


# Reasons are worked out one file at a time; beyond this number of invalid bounds a generic one is used.
_WORDED = 100_000
_UNWORDED = "the bound is not usable"
_ONE_SIDED = "the {} bound is set but the {} bound is missing"


def iceberg_boxes(lower: pa.Array, upper: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]:
    """The sides of the boxes between two columns of bounds, and why a bound is not usable.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.geo.bound_codec import to_iceberg_bytes
    >>> low, high = to_iceberg_bytes(Box(170, 0, -170, 1), circular=True)
    >>> sides, problem = iceberg_boxes(pa.array([low, None, b"x"], pa.binary()), pa.array([high, None, high]))
    >>> sides["xmin"].to_pylist(), problem.to_pylist()[2]
    ([170.0, None, None], 'the lower bound has 1 bytes; Iceberg writes 16, 24 or 32')
    """
    return _boxes(lower, upper, _corners, from_iceberg_bytes)


def havasu_boxes(lower: pa.Array, upper: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]:
    """The same for Havasu's WKB points.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.geo.bound_codec import to_havasu_wkb
    >>> low, high = to_havasu_wkb(Box(1, 2, 3, 4))
    >>> sides, problem = havasu_boxes(pa.array([low, low]), pa.array([high, None], pa.binary()))
    >>> sides["ymax"].to_pylist(), problem.to_pylist()
    ([4.0, None], [None, 'the lower bound is set but the upper bound is missing'])
    """
    return _boxes(lower, upper, _points, from_havasu_wkb)


def _corners(bounds: pa.Array) -> NDArray[np.float64]:
    """X, Y, Z and M of every bound, NaN for those that it lacks."""
    out = np.full((len(bounds), 4), np.nan)
    data, starts, lengths = _slices(bounds)
    for axes in (2, 3, 4):
        rows = np.flatnonzero(lengths == 8 * axes)
        out[rows, :axes] = _sliced(data, starts[rows], 8 * axes).view("<f8")
    return out


# A little-endian WKB point without Z, M and SRID, which nearly every writer writes.
_PLAIN_POINT = np.frombuffer(b"\x01\x01\x00\x00\x00", np.uint8)


def _points(bounds: pa.Array) -> NDArray[np.float64]:
    out = np.full((len(bounds), 4), np.nan)
    data, starts, lengths = _slices(bounds)
    rows = np.flatnonzero(lengths == 21)
    points = _sliced(data, starts[rows], 21)
    plain = (points[:, :5] == _PLAIN_POINT).all(axis=1)
    out[rows[plain], :2] = np.ascontiguousarray(points[plain, 5:]).view("<f8")
    return out


def _is_box(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where two corners form a valid box: x may wrap unless it is infinite, no other axis may have min > max."""
    same_axes = (np.isnan(low) == np.isnan(high)).all(axis=1) & ~np.isnan(low[:, :2]).any(axis=1)
    with np.errstate(invalid="ignore"):
        forward = ~(low[:, 1:] > high[:, 1:]).any(axis=1)
        wraps = low[:, 0] > high[:, 0]
    infinite = np.isinf(low[:, 0]) | np.isinf(high[:, 0])
    return np.asarray(same_axes & forward & ~(wraps & infinite), np.bool_)


def _boxes(
    lower: pa.Array,
    upper: pa.Array,
    corners: Callable[[pa.Array], NDArray[np.float64]],
    codec: Callable[[bytes, bytes], Box],
) -> tuple[dict[str, pa.Array], pa.Array]:
    """`corners` decodes the usual encodings, vectorized; `geo.bound_codec` decodes the rest and reports errors."""
    count = len(lower)
    low, high = corners(lower), corners(upper)
    good = _known(lower) & _known(upper) & _is_box(low, high)
    stored = _known(lower) | _known(upper)
    problems: dict[int, str] = {}
    for row in np.flatnonzero(stored & ~good).tolist():
        if len(problems) >= _WORDED:
            problems[row] = _UNWORDED
            continue
        box = _one_by_one(lower[row].as_py(), upper[row].as_py(), codec)
        if isinstance(box, str):
            problems[row] = box
        else:
            low[row] = [np.nan if side is None else side for side in (box.xmin, box.ymin, box.zmin, box.mmin)]
            high[row] = [np.nan if side is None else side for side in (box.xmax, box.ymax, box.zmax, box.mmax)]
            good[row] = True
    sides = {}
    for axis in AXES:
        values = (low if axis.endswith("min") else high)[:, "xyzm".index(axis[0])]
        absent = ~good | np.isnan(values)
        if axis[0] in "xy" or not absent.all():
            sides[axis] = pa.array(np.ascontiguousarray(values), mask=absent)
    if not problems:
        return sides, pa.nulls(count, pa.string())
    words = np.full(count, None, object)
    words[list(problems)] = list(problems.values())
    return sides, pa.array(words, pa.string())


def _one_by_one(lower: bytes | None, upper: bytes | None, codec: Callable[[bytes, bytes], Box]) -> Box | str:
    """The box of bounds that the fast path skips, or why they are invalid."""
    if lower is None or upper is None:
        return _ONE_SIDED.format(*(("lower", "upper") if upper is None else ("upper", "lower")))
    try:
        return codec(lower, upper)
    except BoundError as error:
        return error.what


def arrow_type(type_: DataType) -> pa.DataType | None:
    """The Arrow type for the values of a primitive column, `None` for a type without order.

    >>> arrow_type(PrimitiveType("decimal(9, 2)")), arrow_type(PrimitiveType("variant")) is None
    (Decimal128Type(decimal128(9, 2)), True)
    """
    if isinstance(type_, StringType):
        return pa.string()
    if not isinstance(type_, PrimitiveType):
        return None
    name, _, inside = type_.name.partition("(")
    if name == "decimal":
        precision, scale = (int(number) for number in inside.rstrip(")").split(","))
        return pa.decimal128(precision, scale) if 0 < precision <= 38 else None
    if name == "fixed":
        return pa.binary()
    return _ARROW.get(name)


_ARROW = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "uuid": pa.binary(16),
}
_MICROS_A_DAY = 86_400_000_000


def decode_single_values(bounds: pa.Array, type_: DataType) -> pa.Array | None:
    """Bounds in Iceberg's single-value serialization as values; one of a wrong length is null.

    A bound that was written before the column was promoted, such as from int to long, is read as it was written.

    >>> decode_single_values(pa.array([b"\\x01\\0\\0\\0", b"\\x02" + bytes(7), b"?", None]),
    ...     PrimitiveType("int64")).to_pylist()
    [1, 2, None, None]
    """
    target = arrow_type(type_)
    if target is None:
        return None
    if pa.types.is_string(target):
        return _texts(bounds)
    if pa.types.is_binary(target):
        return bounds.cast(target)
    if pa.types.is_fixed_size_binary(target):
        data, starts, lengths = _slices(bounds)
        rows = np.flatnonzero(lengths == target.byte_width)
        return _scattered(_sliced(data, starts[rows], target.byte_width), rows, len(bounds), target)
    if pa.types.is_decimal(target):
        return _decimals(bounds, target)
    return _numbers(bounds, target)


def _numbers(bounds: pa.Array, target: pa.DataType) -> pa.Array:
    data, starts, lengths = _slices(bounds)
    if pa.types.is_boolean(target):
        rows = np.flatnonzero(lengths == 1)
        flags = np.zeros(len(bounds), np.bool_)
        flags[rows] = _sliced(data, starts[rows], 1)[:, 0] != 0
        return pa.array(flags, mask=~np.isin(np.arange(len(bounds)), rows))
    storage = {pa.float32(): "<f4", pa.float64(): "<f8", pa.int32(): "<i4", pa.date32(): "<i4"}.get(target, "<i8")
    width = int(storage[2])
    values = np.zeros(len(bounds), storage)
    known = lengths == width
    rows = np.flatnonzero(known)
    values[rows] = _sliced(data, starts[rows], width).view(storage)[:, 0]
    # Iceberg, Schema Evolution: int to long, float to double, and since version 3 date to timestamp.
    if width == 8 and not pa.types.is_time(target):
        short = np.flatnonzero(lengths == 4)
        promoted = _sliced(data, starts[short], 4).view("<f4" if storage == "<f8" else "<i4")[:, 0].astype(storage)
        if pa.types.is_timestamp(target):
            promoted = promoted * _MICROS_A_DAY * (1000 if target.unit == "ns" else 1)
        values[short] = promoted
        known = known | (lengths == 4)
    array = pa.array(values, mask=~known)
    return array if array.type == target else array.view(target)


def _decimals(bounds: pa.Array, target: pa.DataType) -> pa.Array:
    # Iceberg, Binary single-value serialization: unscaled, two's complement, big-endian, in the fewest bytes.
    data, starts, lengths = _slices(bounds)
    wide = np.zeros((len(bounds), 16), np.uint8)
    for width in np.unique(lengths[(lengths > 0) & (lengths <= 16)]).tolist():
        rows = np.flatnonzero(lengths == width)
        digits = _sliced(data, starts[rows], width)
        wide[rows] = np.where(digits[:, :1] >= 0x80, 0xFF, 0)
        wide[rows[:, None], np.arange(width)] = digits[:, ::-1]
    known = (lengths > 0) & (lengths <= 16)
    rows = np.flatnonzero(known)
    return _scattered(wide[rows], rows, len(bounds), target)


def _texts(bounds: pa.Array) -> pa.Array:
    try:
        return bounds.cast(pa.string())
    except pa.ArrowInvalid:
        # A bound that was truncated inside a character cannot be compared with strings.
        values = [None if value is None else _text(value) for value in bounds.to_pylist()]
        return pa.array(values, pa.string())


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _scattered(values: NDArray[np.uint8], rows: NDArray[Any], count: int, target: pa.DataType) -> pa.Array:
    """Values of a fixed width at their rows, null elsewhere."""
    whole = np.zeros((count, values.shape[1] if values.size else target.bit_width // 8), np.uint8)
    known = np.zeros(count, np.bool_)
    whole[rows], known[rows] = values, True
    validity = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(target, count, [validity, pa.py_buffer(whole)])


def _slices(bounds: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The bytes of a binary array, and where each value starts and how long it is; -1 for null."""
    array = bounds.cast(pa.binary())
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.where(_known(array), np.diff(offsets), -1)
    return data, offsets[:-1], lengths


def _sliced(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Slices of one width, one per row."""
    if not len(starts):
        return np.zeros((0, width), np.uint8)
    first = int(starts[0])
    if len(starts) == 1 or (np.diff(starts) == width).all():
        return data[first : first + width * len(starts)].reshape(-1, width).copy()
    return np.asarray(data[starts[:, None] + np.arange(width)], np.uint8)


def _known(array: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), np.bool_)


_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_TRUNCATE = re.compile(r"truncate\(([0-9]{1,9})\)")
_DEFAULT_LENGTH = 16
_MODE, _MODE_OF_COLUMN = "write.metadata.metrics.default", "write.metadata.metrics.column."


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Which metrics of a column are kept in manifests.

    >>> MetricsMode.of({}, "a")
    MetricsMode(counts=True, bounds=True, length=16)
    >>> MetricsMode.of({"write.metadata.metrics.column.a": "none"}, "a").counts
    False
    """

    counts: bool = True
    bounds: bool = True
    length: int | None = _DEFAULT_LENGTH
    """How many characters of strings or bytes of binary values; `None` for all of them."""

    @classmethod
    def of(cls, properties: Mapping[str, str], column: str) -> MetricsMode:
        """The mode of a column by the properties of its table; an unknown mode counts as the default."""
        text = properties.get(_MODE_OF_COLUMN + column, properties.get(_MODE, "")).strip().lower()
        if text == "none":
            return cls(counts=False, bounds=False)
        if text == "counts":
            return cls(bounds=False)
        if text == "full":
            return cls(length=None)
        match = _TRUNCATE.fullmatch(text)
        return cls(length=int(match[1])) if match and int(match[1]) else cls()


def bound_bytes(
    low: Any, high: Any, type_: DataType, *, length: int | None = _DEFAULT_LENGTH
) -> tuple[bytes | None, bytes | None]:
    """The bounds of two values; strings and bytes are truncated, the upper one rounded up.

    >>> bound_bytes("aaa", "abz", StringType(), length=2)
    (b'aa', b'ac')
    >>> bound_bytes(None, b"\\xff\\xff", PrimitiveType("binary"), length=1)
    (None, None)
    >>> bound_bytes(0.0, 0.0, PrimitiveType("float32"))
    (b'\\x00\\x00\\x00\\x80', b'\\x00\\x00\\x00\\x00')
    """
    if isinstance(type_, PrimitiveType) and type_.name in ("float32", "float64"):
        # Iceberg, Manifests: -0.0 comes before +0.0, which are equal in Python.
        low, high = -0.0 if low == 0 else low, 0.0 if high == 0 else high
    elif length is not None and isinstance(low if low is not None else high, (bytes, str)):
        low = None if low is None else low[:length]
        high = None if high is None else _rounded_up(high, length)
    return to_single_value(low, type_), to_single_value(high, type_)


def _rounded_up(value: bytes | str, length: int) -> bytes | str | None:
    """The shortest prefix of a value with its last character incremented; `None` if there is none."""
    if len(value) <= length:
        return value
    cut = value[:length]
    if isinstance(cut, bytes):
        kept = cut.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    while cut:
        following = ord(cut[-1]) + 1
        if 0xD800 <= following <= 0xDFFF:
            following = 0xE000  # the code points between are surrogates
        if following <= 0x10FFFF:
            return cut[:-1] + chr(following)
        cut = cut[:-1]
    return None


def to_single_value(value: Any, type_: DataType) -> bytes | None:
    """A Python value as Iceberg serializes it; `None` for null and for a type that has no bounds.

    Dates and times may be numbers of days or microseconds, whose range exceeds that of Python.

    >>> from decimal import Decimal
    >>> to_single_value(1, PrimitiveType("int64")).hex()
    '0100000000000000'
    >>> to_single_value(Decimal("-1.28"), PrimitiveType("decimal(9, 2)"))
    b'\\x80'
    >>> to_single_value(-800_000, PrimitiveType("date")) == to_single_value(-800_000, PrimitiveType("int32"))
    True
    >>> to_single_value(None, StringType()) is None
    True
    """
    if value is None:
        return None
    if isinstance(type_, StringType):
        return str(value).encode()
    if not isinstance(type_, PrimitiveType):
        return None
    name = type_.name
    if name in _FORMATS:
        return struct.pack(_FORMATS[name], value)
    if isinstance(value, int) and name in _COUNTED:
        return struct.pack(_COUNTED[name], value)
    if name == "date":
        return struct.pack("<i", (value - _EPOCH.date()).days)
    if name == "time":
        clock = dt.datetime.combine(_EPOCH.date(), value) - _EPOCH
        return struct.pack("<q", clock // _MICROSECOND)
    if name in ("timestamp", "timestamptz"):
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return struct.pack("<q", (moment - _EPOCH) // _MICROSECOND)
    if name == "uuid":
        return value.bytes if isinstance(value, uuid.UUID) else bytes(value)
    if name == "binary" or name.startswith("fixed"):
        return bytes(value)
    if name.startswith("decimal"):
        scale = int(name.rstrip(")").rpartition(",")[2])
        return _unscaled(value, scale)
    return None


_COUNTED = {"date": "<i", "time": "<q", "timestamp": "<q", "timestamptz": "<q"}
_FORMATS = {"boolean": "<?", "int32": "<i", "int64": "<q", "float32": "<f", "float64": "<d"}


def _unscaled(value: Decimal, scale: int) -> bytes:
    # Iceberg, Binary single-value serialization: unscaled, two's complement, big-endian, in the fewest bytes.
    sign, digits, exponent = value.as_tuple()
    whole: int = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    number: int = -whole if sign else whole
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
