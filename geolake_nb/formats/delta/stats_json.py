"""Leaves of the statistics in JSON as Arrow columns, WKT points among them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import from_delta_wkt
from geolake_nb.text.json_text import has_too_many_values

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SIDES", "Leaf", "PointBoxes", "StructLeaves", "load_stats", "point_boxes", "read_leaves"]


class StructLeaves:
    """The fields of a column of structs by their paths, null where a parent struct is null.

    The cost of getting one field from Arrow grows with the width of the struct, and statistics are as wide as the table
    has columns: so all fields of a struct are extracted when the first is requested.

    >>> column = pa.chunked_array([[{"a": {"b": 1}, "c": 2}, {"a": None, "c": 3}, None]])
    >>> leaves = StructLeaves(column)
    >>> leaves.find(("a", "b")).to_pylist(), leaves.find(("c",)).to_pylist()
    ([1, None, None], [2, 3, None])
    >>> leaves.find(("a", "x")) is None, leaves.find(("c", "d")) is None, leaves.find(()) is column
    (True, True, True)
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column
        self._fields: dict[tuple[str, ...], list[pa.ChunkedArray]] = {}

    def find(self, path: Sequence[str]) -> pa.ChunkedArray | None:
        """The values at a path; `None` where the column has no such field, or several of that name."""
        column = self._column
        for depth, name in enumerate(path):
            index = column.type.get_field_index(name) if pa.types.is_struct(column.type) else -1
            if index < 0:
                return None
            above = tuple(path[:depth])
            if above not in self._fields:
                self._fields[above] = column.flatten()
            column = self._fields[above][index]
        return column


Leaf = tuple[tuple[str, ...], pa.DataType]
"""The names from the top of the JSON object down to a value, and the type to read it as."""

# One unusual value makes its whole chunk take the slow path; threads process a chunk each.
_CHUNK = 16_384
_OPEN, _CLOSE = ord("{"), ord("}")


def read_leaves(stats: pa.Array | pa.ChunkedArray, leaves: Sequence[Leaf]) -> list[pa.Array]:
    """One array for each leaf, null where the JSON has no such value or one of another type.

    >>> texts = pa.array(['{"numRecords": 3}', None, "no JSON", '{"numRecords": "many"}'])
    >>> read_leaves(texts, [(("numRecords",), pa.int64())])[0].to_pylist()
    [3, None, None, None]
    """
    if not leaves:
        return []

    def read(some: pa.Array) -> list[pa.Array]:
        table = _in_columns(some, leaves)
        return _one_by_one(some, leaves) if table is None else table

    chunks = stats.chunks if isinstance(stats, pa.ChunkedArray) else [stats]
    pieces = [chunk.slice(start, _CHUNK) for chunk in chunks for start in range(0, len(chunk), _CHUNK)]
    if not pieces:
        return [pa.array([], type_) for _, type_ in leaves]
    if len(pieces) == 1:
        return read(pieces[0])
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        parts = list(pool.map(read, pieces))
    return [_joined([part[index] for part in parts]) for index in range(len(leaves))]


def load_stats(text: str | None) -> Mapping[str, Any] | None:
    """The statistics of one file as a JSON object, `None` if they are missing or invalid.

    >>> load_stats('{"numRecords": 1}'), load_stats("[1]"), load_stats(None)
    ({'numRecords': 1}, None, None)
    """
    if text is None or has_too_many_values(text):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _in_columns(stats: pa.Array, leaves: Sequence[Leaf]) -> list[pa.Array] | None:
    """The leaves of all texts at once, or `None` where some text must be parsed by itself."""
    import pyarrow.json as pj

    texts = pc.fill_null(stats, "{}") if stats.null_count else stats
    if not len(texts) or not _are_objects(texts):
        return None
    # One block, so that the objects need no separator.
    data = _bytes_of(texts)
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(block_size=len(data) + 1, use_threads=False),
            parse_options=pj.ParseOptions(explicit_schema=_schema(leaves), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None
    if table.num_rows != len(texts):
        return None
    tops = {name: StructLeaves(table[name]) for name in table.column_names}
    # The schema has each of the leaves, so the table has them too.
    columns = [tops[path[0]].find(path[1:]) for path, _ in leaves]
    return [_joined(column.chunks) for column in columns if column is not None]


def _are_objects(texts: pa.Array) -> bool:
    """Whether every text starts and ends with a brace; otherwise a row could take values of another."""
    offsets = _offsets(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(data) or bool(np.any(ends - starts < 2)):
        return False
    return bool(np.all(data[starts] == _OPEN) and np.all(data[ends - 1] == _CLOSE))


def _offsets(texts: pa.Array) -> np.ndarray[Any, Any]:
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets: np.ndarray[Any, Any] = np.frombuffer(texts.buffers()[1], width)
    return offsets[texts.offset : texts.offset + len(texts) + 1]


def _bytes_of(texts: pa.Array) -> pa.Buffer:
    offsets = _offsets(texts)
    return texts.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _schema(leaves: Sequence[Leaf]) -> pa.Schema:
    tree: dict[str, Any] = {}
    for path, type_ in leaves:
        level = tree
        for name in path[:-1]:
            level = level.setdefault(name, {})
        level[path[-1]] = type_

    def fields(level: dict[str, Any]) -> list[pa.Field]:
        return [
            pa.field(name, pa.struct(fields(child)) if isinstance(child, dict) else child)
            for name, child in level.items()
        ]

    return pa.schema(fields(tree))


def _one_by_one(stats: pa.Array, leaves: Sequence[Leaf]) -> list[pa.Array]:
    columns: list[list[Any]] = [[] for _ in leaves]
    load = _load_exactly if any(pa.types.is_decimal(type_) for _, type_ in leaves) else load_stats
    for text in stats.to_pylist():
        value = load(text)
        for column, (path, type_) in zip(columns, leaves, strict=True):
            column.append(_coerced(_descend(value, path), type_))
    return [pa.array(column, type_) for column, (_, type_) in zip(columns, leaves, strict=True)]


def _load_exactly(text: str | None) -> Mapping[str, Any] | None:
    """The same as `load_stats`, with the full precision of numbers."""
    if load_stats(text) is None:
        return None
    try:
        value: Mapping[str, Any] = json.loads(text or "", parse_float=Decimal)
    except (RecursionError, ValueError):
        return None
    return value


def _descend(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _coerced(value: Any, type_: pa.DataType) -> Any:
    """The value if it is of that type; Jackson writes non-finite numbers as strings."""
    if value is None or isinstance(value, (dict, list)):
        return None
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(type_):
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if pa.types.is_integer(type_):
        return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None
    if pa.types.is_floating(type_):
        if isinstance(value, str):
            return float(value) if value in ("NaN", "Infinity", "-Infinity") else None
        return float(value) if abs(value) < 1e308 or isinstance(value, float) else None
    if pa.types.is_decimal(type_):
        return _decimal(value, type_)
    return None


def _decimal(value: Any, type_: pa.DataType) -> Decimal | None:
    try:
        number = Decimal(str(value))
        return number if pa.scalar(number, type_) is not None else None
    except (ArithmeticError, ValueError, pa.ArrowException):
        return None


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


_Rows = tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""Axes, rows, and the coordinates of the lower and the upper points, one row each."""

SIDES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")

# The spellings of known writers, and the axes of each tag; any other is parsed one by one.
_SPELLINGS = {
    "POINT(": None,
    "POINT (": None,
    "POINT Z(": "xyz",
    "POINT Z (": "xyz",
    "POINT M(": "xym",
    "POINT M (": "xym",
    "POINT ZM(": "xyzm",
    "POINT ZM (": "xyzm",
    "POINTZ(": "xyz",
    "POINTM(": "xym",
    "POINTZM(": "xyzm",
}
_UNTAGGED = {2: "xy", 3: "xyz", 4: "xyzm"}


@dataclass(frozen=True, slots=True, eq=False)
class PointBoxes:
    """The boxes between pairs of points."""

    sides: Mapping[str, pa.Array]
    """By axis; null where a pair is not a box. Axes that no box has are left out."""
    problem: pa.Array
    """Why a pair is not a valid box."""


def point_boxes(lows: pa.Array, highs: pa.Array) -> PointBoxes:
    """The boxes between the texts in `minValues` and `maxValues`.

    >>> boxes = point_boxes(pa.array(["POINT(0 1)", "point z ( 1 2 3 )", None, "POINT(1 2)", "POINT EMPTY"]),
    ...     pa.array(["POINT(2 3)", "POINT Z(2 3 4)", None, None, "POINT(1 2)"]))
    >>> boxes.sides["xmax"].to_pylist(), boxes.sides["zmax"].to_pylist()
    ([2.0, 2.0, None, None, None], [None, 4.0, None, None, None])
    >>> boxes.problem.to_pylist()[3:]
    ['there is a min but no max', "the min 'POINT EMPTY' is an empty point: it bounds nothing"]
    """
    count = len(lows)
    values = {side: np.full(count, np.nan) for side in SIDES}
    has_low, has_high = (_flags(pc.is_valid(texts)) for texts in (lows, highs))
    both = has_low & has_high
    done = np.zeros(count, np.bool_)
    for axes, rows, low, high in _points_by_spelling(lows, highs, both):
        good = _is_box(low, high)
        where, kept = _copy_indices(rows, good)
        done[where] = True
        for index, axis in enumerate(axes):
            values[f"{axis}min"][where] = low[kept, index]
            values[f"{axis}max"][where] = high[kept, index]
    problems: dict[int, str] = {}
    for row in np.flatnonzero(both & ~done).tolist():
        try:
            box = from_delta_wkt(lows[row].as_py(), highs[row].as_py())
        except BoundError as problem:
            problems[row] = problem.what
        else:
            for side in SIDES:
                number = getattr(box, side)
                values[side][row] = np.nan if number is None else number
    halves = {True: "there is a min but no max", False: "there is a max but no min"}
    problems |= {row: halves[bool(has_low[row])] for row in np.flatnonzero(has_low ^ has_high).tolist()}
    sides = {
        side: pa.array(numbers, from_pandas=True)
        for side, numbers in values.items()
        if side in SIDES[:4] or not np.isnan(numbers).all()
    }
    return PointBoxes(sides, _texts(problems, count))


def _points_by_spelling(lows: pa.Array, highs: pa.Array, both: np.ndarray[Any, Any]) -> Iterator[_Rows]:
    """Rows with the same spelling, with their coordinates."""
    starts = range(0, len(lows), _CHUNK)

    def read(start: int) -> list[_Rows]:
        chunk = slice(start, start + _CHUNK)
        return list(_in_chunk(lows[chunk], highs[chunk], both[chunk].copy()))

    if len(starts) <= 1:
        batches = map(read, starts)
        yield from (rows for some in batches for rows in some)
        return
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        for start, some in zip(starts, pool.map(read, starts), strict=True):
            yield from ((axes, rows + start, low, high) for axes, rows, low, high in some)


def _in_chunk(lows: pa.Array, highs: pa.Array, left: np.ndarray[Any, Any]) -> Iterator[_Rows]:
    yield from _spelled_alike(lows, highs, left)
    if left.any():
        yield from _spelled_alike(_respelled(lows), _respelled(highs), left)


def _spelled_alike(lows: pa.Array, highs: pa.Array, left: np.ndarray[Any, Any]) -> Iterator[_Rows]:
    """The rows that match a known spelling; rows that are parsed are removed from `left`."""
    for spelling, tagged in _SPELLINGS.items():
        if not left.any():
            return
        alike = left & _flags(pc.starts_with(lows, spelling)) & _flags(pc.starts_with(highs, spelling))
        if not alike.any():
            continue
        rows = np.flatnonzero(alike)
        mask = None if alike.all() else pa.array(alike)
        low, high = (_numbers(texts if mask is None else texts.filter(mask), len(spelling)) for texts in (lows, highs))
        if low is None or high is None or low.shape != high.shape:
            continue
        axes = tagged or _UNTAGGED.get(low.shape[1])
        if axes is not None and len(axes) == low.shape[1]:
            left[rows] = False
            yield axes, rows, low, high


def _respelled(texts: pa.Array) -> pa.Array:
    """The texts in upper case, with one space between words and none next to parentheses."""
    upper = pc.utf8_upper(pc.utf8_trim_whitespace(texts))
    spaced = pc.replace_substring_regex(upper, r"\s+", " ")
    opened = pc.replace_substring_regex(spaced, r" ?\( ?", "(", max_replacements=1)
    return pc.replace_substring_regex(opened, r" \)$", ")")


def _numbers(texts: pa.Array, start: int) -> Any:
    """The numbers between the parentheses, one row per text, or `None` if some text has another form."""
    if not pc.all(pc.ends_with(texts, ")")).as_py():
        return None
    inner = pc.binary_slice(texts.cast(pa.binary()), start, -1).view(pa.string())
    words = pc.split_pattern(inner, " ")
    widths = pc.list_value_length(words)
    width = widths[0].as_py()
    if not 2 <= width <= 4 or pc.min(widths).as_py() != width or pc.max(widths).as_py() != width:
        return None
    try:
        flat = pc.list_flatten(words).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return flat.to_numpy().reshape(-1, width)


def _is_box(low: Any, high: Any) -> Any:
    """Where the ends are finite and in order; everything else is checked one by one."""
    good = np.ones(len(low), np.bool_)
    for index in range(low.shape[1]):
        bottom, top = low[:, index], high[:, index]
        good &= np.isfinite(bottom) & np.isfinite(top)
        ordered = bottom <= top
        if index == 0 and not ordered.all():
            # xmin > xmax in degrees is read as a box across the antimeridian.
            ordered |= (np.abs(bottom) <= 180.0) & (np.abs(top) <= 180.0)
        good &= ordered
    return good


def _copy_indices(rows: Any, good: Any) -> tuple[Any, Any]:
    """The target and source indices of the good rows: slices if they form one run, which NumPy copies much faster."""
    if good.all() and len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1), slice(None)
    return rows[good], good


def _flags(array: pa.Array) -> Any:
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)


def _texts(texts: Mapping[int, str], count: int) -> pa.Array:
    if not texts:
        return pa.nulls(count, pa.string())
    rows = sorted(texts)
    indices = np.full(count, -1, np.int64)
    indices[rows] = np.arange(len(rows))
    return pa.array([texts[row] for row in rows]).take(pa.array(indices, mask=indices < 0))
