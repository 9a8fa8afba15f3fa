"""Which files a rewrite takes, and what it would change for spatial queries: boxes, overlap, what is read.

Before is the current state of the table. After is estimated: a sample of the rows is put into files as the job would
put all of them. The boxes of new files are those of the sampled rows, so the true ones are a little larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.changes.clustering import centres, keying, place_rows
from geolake_nb.changes.sampling import partition_codes
from geolake_nb.changes.write_job import DeltaRows, IcebergRows, InputRows, ParquetRows, WriteJob
from geolake_nb.errors import PredicateError, RefusedError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.filter_input import is_area, read_filter
from geolake_nb.expressions.predicate import Spatial, SpatialOp
from geolake_nb.expressions.projection import Statistics
from geolake_nb.geo.bounds import row_boxes
from geolake_nb.model.box import Box
from geolake_nb.model.change import Verb
from geolake_nb.model.display import LiveDisplayable
from geolake_nb.model.file_table import AXES, FileTable, GeoStatsColumns, physical_rows
from geolake_nb.model.schema import split_path
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.scan.coverage import OverlapDepth, overlap_depth, union_box
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.file_statistics import known_files
from geolake_nb.scan.layout_model import has_one_value
from geolake_nb.scan.prune import PruneInput, prune
from geolake_nb.text.messages import part_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.change import Change
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    SampleRows = Callable[[Storage, WriteJob, Sequence[str], Progress | None], Sample]

__all__ = [
    "Preview",
    "PreviewSide",
    "files_to_compact",
    "matching_files",
    "preview",
    "rewrite_filter",
    "rewrite_sentences",
    "why_nothing",
]

# A file within these shares of the target is left alone when rows are not sorted.
_SMALL, _LARGE = 0.75, 1.8
_DELETED = 0.05
_FILTER_LENGTH = 200


def rewrite_filter(
    snapshot: Snapshot, where: FilterInput, *, cluster_by: Sequence[str] = (), box_crs: str | None = None
) -> Predicate:
    """The filter of a rewrite; an area is one of the first geo column that rows are clustered by, or the only one.

    Raises:
        PredicateError: a filter that cannot be read, or an area in a table with several geo columns.
    """
    schema = snapshot.schema
    column = None
    if is_area(where):
        geo = [path for path, _ in schema.geo_columns() if has_one_value(schema, path)]
        column = next((path for path in cluster_by if path in geo), None)
        if column is None and len(geo) > 1:
            raise PredicateError(
                f"the table has the geo columns {', '.join(sorted(geo))}, and the area does not name one",
                where=snapshot.location,
                remedy=f"write SQL, such as ST_Intersects({geo[0]}, 'POINT (1 2)')",
            )
    return read_filter(where, schema, column=column, box_crs=box_crs, location=snapshot.location)


def matching_files(
    snapshot: Snapshot, where: Predicate | None, files: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """The indices of the files that may have rows that match the filter, or of those that were chosen."""
    if files is not None:
        return np.array(sorted(files), np.int64)
    if where is None:
        return np.arange(len(snapshot.files))
    predicate = bind(where, snapshot.schema)
    return np.flatnonzero(prune(predicate, known_files(snapshot, predicate)).kept)


def files_to_compact(
    snapshot: Snapshot, chosen: NDArray[np.int64], target: int, *, codes: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Those of the files that are worth rewriting for their size or their deleted rows alone.

    `codes` say which partition each file is in, where the columns do not.
    """
    table = snapshot.files.table
    if codes is None:
        _, codes = partition_codes(table, snapshot.partition_columns, chosen)
    size = table["bytes"].to_numpy()[chosen]
    deleted = np.nan_to_num(table["deleted_rows"].to_numpy()[chosen].astype(np.float64))
    rows = np.nan_to_num(physical_rows(table).to_numpy()[chosen].astype(np.float64))
    wanted = (size > _LARGE * target) | (deleted > _DELETED * np.maximum(rows, deleted))
    small = size < _SMALL * target
    # A small file needs another one of its partition to merge with.
    joined = np.bincount(codes[small | wanted], minlength=codes.max(initial=0) + 1)
    kept: NDArray[np.int64] = chosen[wanted | (small & (joined[codes] > 1))]
    return kept


def why_nothing(snapshot: Snapshot, where: Predicate | None) -> str:
    """Why there is nothing to rewrite, in a sentence."""
    if not len(snapshot.files):
        return "The table has no files."
    if where is not None:
        return "No file that may match the filter needs a rewrite."
    return "Every file is close to the target size."


def rewrite_sentences(
    snapshot: Snapshot,
    job: WriteJob,
    chosen: NDArray[np.int64],
    size: int,
    *,
    codes: NDArray[np.int64] | None = None,
    where: Predicate | None = None,
) -> list[str]:
    """What a rewrite of these files does, for a plan; `codes` say which partition each file is in."""
    if codes is None:
        _, codes = partition_codes(snapshot.files.table, snapshot.partition_columns, chosen)
    bytes_ = np.bincount(codes, weights=snapshot.files.table["bytes"].to_numpy()[chosen])
    files = sum(max(1, math.ceil(partition_bytes / job.target_bytes)) for partition_bytes in bytes_.tolist())
    sentences = [
        f"{part_of(len(chosen), len(snapshot.files), 'file')} ({bytes_text(size)}) are rewritten into about"
        f" {plural(files, 'file')} (target {bytes_text(job.target_bytes)}, row groups of {job.row_group_rows:,} rows)."
    ]
    if where is not None:
        sentences.append(f"They may have rows that match {printable(str(where), _FILTER_LENGTH)}; other files stay.")
    if job.ordering is None:
        sentences.append("Row order is kept.")
    else:
        names = " and ".join(job.ordering.columns)
        curve = {"hilbert": "a Hilbert curve", "zorder": "a Z-order curve"}[job.ordering.curve.value]
        sentences.append(f"Rows are sorted by {names} along {curve}.")
    if snapshot.partition_columns:
        sentences.append(f"The partitions by {' and '.join(snapshot.partition_columns)} are kept.")
    return sentences


_SEED = 7
_DEGREE = 1.0
_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class PreviewSide:
    """The files of the table on one side of the rewrite."""

    files: FileTable
    """With the boxes of the column; new files are named by numbers."""
    overlap: OverlapDepth | None
    """The overlap depth; `None` for fewer than 8 boxes."""
    files_read: float | None
    """The mean share of the files that a window reads; `None` without windows."""
    bytes_read: float | None
    """The mean share of the bytes that a window reads."""

    def to_dict(self) -> dict[str, Any]:
        """`files, bytes, overlap_depth, files_read, bytes_read`."""
        return {
            "files": len(self.files),
            "bytes": int(self.files.table["bytes"].to_numpy().sum()),
            "overlap_depth": None if self.overlap is None else self.overlap.mean,
            "files_read": self.files_read,
            "bytes_read": self.bytes_read,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Preview(LiveDisplayable):
    """The preview of a rewrite."""

    column: str | None
    """The geo column that the windows query; `None` for a table without one."""
    windows: tuple[Box, ...]
    sampled_rows: int
    before: PreviewSide
    after: PreviewSide
    schema: Schema | None = None
    """The columns of the table, to draw the boxes."""

    def to_dict(self) -> dict[str, Any]:
        """`column, windows, sampled_rows, before, after`."""
        return {
            "column": self.column,
            "windows": len(self.windows),
            "sampled_rows": self.sampled_rows,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
        }

    def __str__(self) -> str:
        lines = [f"{len(self.windows):,} windows on {self.column}, from a sample of {self.sampled_rows:,} rows"]
        if self.column is None:
            lines = ["the table has no geo column to query"]
        lines.append(f"{'':8}{'files':>10}{'bytes':>12}{'overlap':>10}{'files read':>13}{'bytes read':>13}")
        for name, side in (("before", self.before), ("after", self.after)):
            facts = side.to_dict()
            depth = "-" if facts["overlap_depth"] is None else f"{facts['overlap_depth']:.1f}"
            read = ["-" if facts[key] is None else f"{facts[key]:.1%}" for key in ("files_read", "bytes_read")]
            size = bytes_text(facts["bytes"])
            lines.append(f"{name:8}{facts['files']:>10,}{size:>12}{depth:>10}{read[0]:>13}{read[1]:>13}")
        return "\n".join(lines)


def preview(
    storage: Storage,
    change: Change,
    *,
    windows: int = 100,
    on_progress: Progress | None = None,
    sample_rows: SampleRows,
) -> Preview:
    """The rewrite of a plan before and after, by so many windows around sampled rows.

    A window is one degree wide, or a hundredth of the extent in a projected CRS. `sample_rows` reads some
    rows of the source of the job.
    """
    job = change.job
    snapshot = None if not isinstance(job, WriteJob) or isinstance(job.rows, InputRows) else job.rows.snapshot
    if not isinstance(job, WriteJob) or snapshot is None or change.verb is not Verb.REWRITE:
        raise RefusedError("only a rewrite that has something to do can be previewed", where=change.location)
    column = _geo_column(job, snapshot.schema)
    wanted = list(dict.fromkeys([*(job.ordering.columns if job.ordering else ()), *([column] if column else [])]))
    sample = sample_rows(storage, job, wanted, on_progress)
    queries = () if column is None else _windows(sample, column, job.schema, windows)
    after = _after(job, snapshot, sample, column)
    return Preview(
        column=column,
        windows=queries,
        sampled_rows=len(sample),
        before=_side(snapshot.files, snapshot.schema, column, queries),
        after=_side(after, snapshot.schema, column, queries),
        schema=snapshot.schema,
    )


def _geo_column(job: WriteJob, schema: Schema) -> str | None:
    """The first geo column to cluster by, else the first with one value per row."""
    ordered = list(job.ordering.columns) if job.ordering else []
    for path in [*ordered, *(path for path, _ in schema.geo_columns())]:
        if has_one_value(schema, path) and isinstance(schema.find(path).type, GeometryType | GeographyType):
            return path
    return None


def _windows(sample: Sample, column: str, schema: Schema, count: int) -> tuple[Box, ...]:
    type_ = schema.find(column).type
    assert isinstance(type_, GeometryType | GeographyType)
    x, y = centres(sample.columns[column], type_)
    inside = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not len(inside):
        return ()
    draw = np.random.default_rng(_SEED)
    chosen = draw.choice(inside, min(count, len(inside)), replace=False)
    half_x = half_y = _DEGREE / 2
    if isinstance(type_, GeometryType) and type_.crs.is_projected:
        half_x, half_y = (_SHARE / 2 * (float(side[inside].max()) - float(side[inside].min())) for side in (x, y))
    rim = (180.0, 90.0) if isinstance(type_, GeographyType) else (np.inf, np.inf)
    return tuple(
        Box(
            max(x[row] - half_x, -rim[0]), max(y[row] - half_y, -rim[1]),
            min(x[row] + half_x, rim[0]), min(y[row] + half_y, rim[1]),
        )
        for row in chosen.tolist()
    )  # fmt: skip


def _side(files: FileTable, schema: Schema, column: str | None, windows: tuple[Box, ...]) -> PreviewSide:
    if column is None:
        return PreviewSide(files, None, None, None)
    boxes = files.boxes(column)
    path = split_path(column)
    known = PruneInput(Statistics(len(files), boxes={path: boxes}))
    size = files.table["bytes"].to_numpy().astype(np.float64)
    read: list[tuple[float, float]] = []
    for window in windows if len(files) else ():
        kept = prune(bind(Spatial.of(SpatialOp.INTERSECTS, path, window), schema), known).kept
        read.append((float(kept.mean()), float(size[kept].sum() / max(1.0, size.sum()))))
    shares = np.array(read).mean(axis=0).tolist() if read else [None, None]
    return PreviewSide(files, overlap_depth(boxes), *shares)


def _after(job: WriteJob, snapshot: Snapshot, sample: Sample, column: str | None) -> FileTable:
    """The files that stay, and the estimated new ones."""
    chosen = np.zeros(len(snapshot.files), np.bool_)
    chosen[_chosen(job, snapshot)] = True
    indices = np.flatnonzero(chosen)
    if job.ordering is None:
        bytes_, boxes = _packed(job, snapshot, indices, column)
    else:
        bytes_, boxes = _sorted(job, snapshot, indices, sample, column)
    table = snapshot.files.table
    stay = pa.array(~chosen)
    kept_boxes = [] if column is None else _boxes(snapshot.files.boxes(column), ~chosen)
    sides = [*kept_boxes, *boxes]
    paths = [*table["path"].filter(stay).to_pylist(), *(f"new file {number}" for number in range(len(bytes_)))]
    return FileTable.of(
        path=pa.array(paths, pa.string()),
        bytes=pa.array([*table["bytes"].filter(stay).to_pylist(), *bytes_], pa.int64()),
        rows=pa.nulls(len(paths), pa.int64()),
        geo={} if column is None else {column: _geo_stats(sides)},
    )


def _chosen(job: WriteJob, snapshot: Snapshot) -> slice | list[int]:
    """The indices of the files to rewrite."""
    if isinstance(job.rows, ParquetRows):
        taken = {file.path for file in job.rows.files}
        return [index for index, path in enumerate(snapshot.files.table["path"].to_pylist()) if path in taken]
    assert isinstance(job.rows, DeltaRows | IcebergRows)
    return slice(None) if job.rows.files is None else list(job.rows.files)


def _sorted(
    job: WriteJob, snapshot: Snapshot, indices: NDArray[np.int64], sample: Sample, column: str | None
) -> tuple[list[int], list[Box | None]]:
    """The bytes and boxes of the files that sampled rows go to."""
    assert job.ordering is not None
    columns = [sample.columns[path] for path in job.ordering.columns]
    keys = keying(job.ordering, job.ordering.types(job.schema), columns)
    partitions, codes = _partitions(job, snapshot, indices)
    size = np.bincount(codes, weights=snapshot.files.table["bytes"].to_numpy()[indices], minlength=len(partitions))
    sizes = {partition: int(total) for partition, total in zip(partitions, size.tolist(), strict=True)}
    placed = place_rows(sizes, job.target_bytes, keying=keys, sample=sample)
    tasks = placed.tasks_of(sample.partitions, sample.codes, keys.keys(columns), turn=0)
    rows_in = np.bincount(sample.codes, minlength=len(sample.partitions))
    bytes_: list[int] = []
    boxes: list[Box | None] = []
    known = None if column is None else _row_boxes(sample, column, job.schema)
    order = np.lexsort((sample.codes, tasks))
    starts = np.flatnonzero(np.diff(tasks[order], prepend=-1) | np.diff(sample.codes[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if len(order) else []:
        code = int(sample.codes[rows[0]])
        bytes_.append(int(sizes[sample.partitions[code]] * len(rows) / rows_in[code]))
        boxes.append(None if known is None else _union(known, rows, job.schema, column))
    return bytes_, boxes


def _partitions(
    job: WriteJob, snapshot: Snapshot, indices: NDArray[np.int64]
) -> tuple[tuple[Partition, ...], NDArray[np.int64]]:
    """The partitions of the files to rewrite, and which of them each file is in."""
    if not isinstance(job.rows, IcebergRows):
        return partition_codes(snapshot.files.table, snapshot.partition_columns, indices)
    if job.rows.partitions is None:
        return ((),), np.zeros(len(indices), np.int64)
    names, codes = np.unique(np.array(job.rows.partitions, np.int64), return_inverse=True)
    return tuple((str(name),) for name in names.tolist()), codes.reshape(-1)


def _packed(
    job: WriteJob, snapshot: Snapshot, indices: NDArray[np.int64], column: str | None
) -> tuple[list[int], list[Box | None]]:
    """The bytes and boxes where files are only merged or split, in their order."""
    _, codes = _partitions(job, snapshot, indices)
    size = snapshot.files.table["bytes"].to_numpy()
    stored = None if column is None else snapshot.files.boxes(column)
    bytes_: list[int] = []
    boxes: list[Box | None] = []
    for code in np.unique(codes).tolist():
        mine = indices[codes == code]
        files = max(1, -(-int(size[mine].sum()) // job.target_bytes))
        ends = np.cumsum(size[mine])
        middles = ends - size[mine] / 2
        number = np.minimum(middles * files // max(1, int(ends[-1])), files - 1)
        for file in range(files):
            inside = mine[number == file] if (number == file).any() else mine[[np.searchsorted(number, file) - 1]]
            bytes_.append(int(ends[-1]) // files)
            boxes.append(None if stored is None else _union(stored, inside, job.schema, column))
    return bytes_, boxes


def _row_boxes(sample: Sample, column: str, schema: Schema) -> BoxColumn:
    type_ = schema.find(column).type
    assert isinstance(type_, GeometryType | GeographyType)
    row_box = row_boxes(sample.columns[column], type=type_).storage
    sides = [side.to_numpy(zero_copy_only=False) for side in row_box.flatten()]
    return BoxColumn.from_sides(*sides, only_null_or_empty=np.asarray(row_box.is_null()))


def _union(boxes: BoxColumn, rows: NDArray[np.int64], schema: Schema, column: str | None) -> Box | None:
    """The box around some of them; `None` where one is unknown and may have a location."""
    part = BoxColumn.from_sides(boxes.xmin[rows], boxes.ymin[rows], boxes.xmax[rows], boxes.ymax[rows])
    if not (part.known | boxes.only_null_or_empty[rows]).all() or column is None:
        return None
    return union_box(part, circular=isinstance(schema.find(column).type, GeographyType))


def _boxes(boxes: BoxColumn, wanted: NDArray[np.bool_]) -> list[Box | None]:
    return [
        Box(boxes.xmin[index], boxes.ymin[index], boxes.xmax[index], boxes.ymax[index]) if boxes.known[index] else None
        for index in np.flatnonzero(wanted).tolist()
    ]


def _geo_stats(boxes: Iterable[Box | None]) -> GeoStatsColumns:
    listed = list(boxes)
    sides = {
        axis: pa.array([None if box is None else getattr(box, axis) for box in listed], pa.float64())
        for axis in AXES[:4]
    }
    return GeoStatsColumns(sides)
