"""The statistics of every live file: row counts, null counts, boxes, minima and maxima, collated ranges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.delta.bounds_tag import marked_bounds
from geolake_nb.formats.delta.checkpoint_adds import stats_object, stats_objects
from geolake_nb.formats.delta.scalar_stats import arrow_type, from_json, from_struct, json_type, widened_maximum
from geolake_nb.formats.delta.stats_json import Leaf, load_stats, read_leaves
from geolake_nb.formats.delta.struct_leaves import StructLeaves
from geolake_nb.formats.delta.wkt_columns import point_boxes
from geolake_nb.model.collation_stats import collations_in_stats, range_for_filter
from geolake_nb.model.file_table import BoundSource, GeoStatsColumns
from geolake_nb.model.scalar_column import ScalarColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.types import DataType, GeographyType

__all__ = ["FileStats", "read_stats"]

_MIN, _MAX, _NULLS, _COLLATED = "minValues", "maxValues", "nullCount", "statsWithCollation"
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FileStats:
    """The statistics of all files, in their order; columns are named as in the statistics (physical names)."""

    raw: pa.ChunkedArray
    """The `stats` of each file byte for byte as in the log; null where it has none."""
    parsed: pa.ChunkedArray | None
    """The statistics that a checkpoint has as structs; used where `raw` is null."""
    records: pa.Array
    """Rows in the data file, deleted ones included."""
    deleted: pa.Array
    """Rows that a deletion vector deletes."""
    wide: pa.Array
    """Where the statistics may still count deleted rows."""
    geo: Mapping[_Path, GeoStatsColumns]
    """The statistics of each requested geo column."""
    marked: Mapping[_Path, NDArray[np.bool_]] = field(default_factory=dict)
    """For each requested geography, the files whose bounds are known to cover its edges."""

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def rows(self) -> pa.Array:
        """Live rows; null where they are not known."""
        live = pc.subtract(self.records, self.deleted)
        return pc.if_else(pc.greater_equal(live, 0), live, pa.scalar(None, pa.int64()))

    def scalar(self, path: _Path, type_: DataType) -> ScalarColumn:
        """Bounds and null counts of one column of that type."""
        kind = arrow_type(type_)
        stored = None if kind is None else json_type(kind)
        wanted: list[Leaf] = [((_NULLS, *path), pa.int64())]
        if stored is not None:
            wanted += [((_MIN, *path), stored), ((_MAX, *path), stored)]
        leaves = self._leaves(wanted)
        nulls = self._null_counts(leaves[0][0], leaves[0][1])
        if kind is None or stored is None:
            nothing = pa.nulls(len(self), pa.binary())
            return ScalarColumn(nothing, nothing, nulls, self._counted_rows)
        low, high = (_merged(from_json(json, kind), struct, kind) for json, struct in leaves[1:])
        # A string may be truncated without a marker, and then the file can contain a longer one with the same prefix.
        text = bool(pa.types.is_string(kind))
        return ScalarColumn(low, widened_maximum(high), nulls, self._counted_rows, truncated=text)

    def object(self, row: int) -> Mapping[str, Any] | None:
        """The statistics of one file as a JSON object; `None` if it has none or they cannot be parsed."""
        text = self.raw[row].as_py()
        if text is None and self.parsed is not None:
            return stats_object(self.parsed[row])
        return load_stats(text)

    def collations(self) -> tuple[Collation, ...]:
        """The collations, with their versions, for which any file has statistics."""
        unique: dict[Collation, None] = {}
        for _, stats in self.collated_objects():
            unique |= dict.fromkeys(collations_in_stats(stats))
        return tuple(unique)

    def collated(self, path: _Path, collation: Collation, *, prefix_length: int | None = None) -> ScalarColumn:
        """Bounds of a string column under one collation and version, null where a file has no usable ones.

        `prefix_length` is the length at which the writers truncate strings, as in `range_for_filter`.
        """
        low: list[str | None] = [None] * len(self)
        high: list[str | None] = [None] * len(self)
        for row, stats in self.collated_objects():
            result = range_for_filter(stats, path, collation, collators=(collation,), prefix_length=prefix_length)
            usable = result.range
            if usable is not None:
                low[row], high[row] = usable.low, usable.high
        (nulls, parsed), *_ = self._leaves([((_NULLS, *path), pa.int64())])
        counts = self._null_counts(nulls, parsed)
        return ScalarColumn(pa.array(low, pa.string()), pa.array(high, pa.string()), counts, self._counted_rows)

    @property
    def _counted_rows(self) -> pa.Array:
        """The row counts that null counts refer to."""
        return pc.if_else(self.wide, self.records, self.rows)

    def collated_objects(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The files that have collated statistics, each with an object that contains these and maybe others."""
        marked = pc.fill_null(pc.match_substring(self.raw, _COLLATED), False)
        for row in np.flatnonzero(marked.to_numpy()).tolist():
            yield row, load_stats(self.raw[row].as_py()) or {}
        column = None if self.parsed is None else StructLeaves(self.parsed).find((_COLLATED,))
        if column is None:
            return
        # Flattened as a column, not struct by struct.
        structs = pc.and_(pc.is_null(self.raw), pc.is_valid(column))
        for row, stats in zip(
            np.flatnonzero(structs.to_numpy()).tolist(), stats_objects(column.filter(structs)), strict=True
        ):
            if stats is not None:
                yield row, {_COLLATED: stats}

    def _leaves(self, wanted: Sequence[Leaf]) -> list[tuple[pa.Array, pa.Array | None]]:
        """Each leaf from JSON and, where there are structs, from those."""
        parsed = None if self.parsed is None else StructLeaves(self.parsed)
        return [
            (column, _struct_leaf(parsed, path))
            for column, (path, _) in zip(read_leaves(self.raw, wanted), wanted, strict=True)
        ]

    def _null_counts(self, json: pa.Array, struct: pa.Array | None) -> pa.Array:
        return _sound_null_counts(_merged(json, struct, pa.int64()), self.records, self.wide)


def read_stats(
    raw: pa.ChunkedArray,
    parsed: pa.ChunkedArray | None,
    deleted: pa.Array,
    geo: Sequence[_Path],
    *,
    geographies: Mapping[_Path, GeographyType] | None = None,
    tags: pa.Array | None = None,
) -> FileStats:
    """Read row counts, and the boxes and null counts of these geo columns, in one pass.

    `geographies` are those of them whose bounds count only where `tags`, the values of `BOUNDS_TAG`, repeat them.

    >>> text = '{"numRecords":2,"minValues":{"g":"POINT(0 1)"},"maxValues":{"g":"POINT(2 3)"},"nullCount":{"g":1}}'
    >>> stats = read_stats(pa.chunked_array([[text, None]]), None, pa.array([0, 0]), [("g",)])
    >>> stats.rows.to_pylist(), stats.geo["g",].sides["ymax"].to_pylist(), stats.geo["g",].null_count.to_pylist()
    ([2, None], [3.0, None], [1, None])
    """
    leaves: list[Leaf] = [(("numRecords",), pa.int64()), (("tightBounds",), pa.bool_())]
    for path in geo:
        leaves += [((_MIN, *path), pa.string()), ((_MAX, *path), pa.string()), ((_NULLS, *path), pa.int64())]
    json = read_leaves(raw, leaves)
    structs = None if parsed is None else StructLeaves(parsed)
    columns = [
        _merged(column, _struct_leaf(structs, path), type_) for column, (path, type_) in zip(json, leaves, strict=True)
    ]
    records, tight = columns[0], columns[1]
    records = pc.if_else(pc.greater_equal(records, 0), records, pa.scalar(None, pa.int64()))
    # Delta assumes tight bounds by default. With a deletion vector they must be declared tight.
    is_tight = pc.fill_null(tight, False)
    wide = pc.if_else(pc.not_equal(deleted, 0), pc.invert(is_tight), pc.invert(pc.fill_null(tight, True)))
    wide = pc.fill_null(wide, True)
    unread = _unreadable(raw, records)
    boxes: dict[_Path, GeoStatsColumns] = {}
    marked: dict[_Path, NDArray[np.bool_]] = {}
    for index, path in enumerate(geo):
        low, high, nulls = columns[2 + 3 * index : 5 + 3 * index]
        points = point_boxes(low, high)
        if geographies and path in geographies:
            nothing = np.zeros(len(low), np.bool_)
            marked[path] = nothing if tags is None else marked_bounds(tags, path, geographies[path], low, high)
        boxes[path] = GeoStatsColumns(
            points.sides,
            null_count=_sound_null_counts(nulls, records, wide),
            source=BoundSource.LOG,
            problem=points.problem if unread is None else pc.coalesce(points.problem, unread),
        )
    return FileStats(raw, parsed, records, deleted, wide, boxes, marked)


def _sound_null_counts(nulls: pa.Array, records: pa.Array, wide: pa.Array) -> pa.Array:
    # Delta, Per-file statistics: without tight bounds only a count of 0 or of all rows is meaningful.
    telling = pc.or_kleene(pc.equal(nulls, 0), pc.equal(nulls, records))
    usable = pc.and_kleene(pc.greater_equal(nulls, 0), pc.or_kleene(pc.invert(wide), telling))
    return pc.if_else(pc.fill_null(usable, False), nulls, pa.scalar(None, pa.int64()))


def _merged(json: pa.Array, struct: pa.Array | None, kind: pa.DataType) -> pa.Array:
    return json if struct is None else pc.coalesce(json, from_struct(struct, kind))


def _struct_leaf(parsed: StructLeaves | None, path: Sequence[str]) -> pa.Array | None:
    column = None if parsed is None else parsed.find(path)
    if column is None:
        return None
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


def _unreadable(raw: pa.ChunkedArray, records: pa.Array) -> pa.Array | None:
    """The problem of each file whose statistics cannot be parsed; `None` if there is no such file."""
    suspect = pc.and_(pc.is_valid(raw), pc.is_null(records)).to_numpy()
    rows = [row for row in np.flatnonzero(suspect).tolist() if load_stats(raw[row].as_py()) is None]
    if not rows:
        return None
    marks = np.zeros(len(raw), np.bool_)
    marks[rows] = True
    return pc.if_else(pa.array(marks), "the statistics are not a JSON object", pa.scalar(None, pa.string()))
