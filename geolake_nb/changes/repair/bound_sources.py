"""Where repaired bounds come from: Parquet footers, or a scan of the files whose footers lack them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import to_delta_wkt
from geolake_nb.geo.box_comparison import BoxSides
from geolake_nb.model.file_table import AXES
from geolake_nb.model.types import GeometryType
from geolake_nb.parquet.footer import FooterReader, read_metadata
from geolake_nb.parquet.footer_boxes import locate, widened_sides, without_column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.repair.evidence import StoredBound
    from geolake_nb.model.box import Box
    from geolake_nb.model.change import Change
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.parquet.footer import FileView
    from geolake_nb.parquet.footer_boxes import FooterColumn, GeoEvidence
    from geolake_nb.scan.value_scan import ScanColumn
    from geolake_nb.storage.storage import Storage

    Finish = Callable[["Change", "ScanJob", Mapping[int, Sequence[ColumnStats]]], "Change"]

__all__ = ["FooterBounds", "NewStats", "ScanFile", "ScanJob", "read_footer_bounds"]


@dataclass(frozen=True, slots=True)
class NewStats:
    """The new statistics of a column in a file."""

    box: Box | None
    """`None` removes the bound: only null or empty geometries, or a value without a usable bound."""
    null_count: int | None
    """In the whole file, deleted rows included; `None` keeps the stored count."""

    @property
    def ends(self) -> tuple[str, str] | None:
        """The texts of the bound, `None` where there is none, as for a box that Delta cannot store.

        >>> from geolake_nb.model.box import Box
        >>> NewStats(Box(0, 1, 2, float("inf")), 0).ends is None
        True
        """
        try:
            return None if self.box is None else to_delta_wkt(self.box)
        except BoundError:
            return None


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A file whose values Spark reads, and what is known of it before."""

    path: str
    """As the log stores it."""
    key: str
    """The key in the storage."""
    bytes: int
    add: str
    """Its `add` before the change; empty where the format has none."""
    has_vector: bool
    scanned: tuple[StoredBound, ...]
    known: tuple[tuple[int, NewStats], ...] = ()
    """The statistics of other columns from the footer."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanJob:
    """The files and geo columns that have to be read for their bounds."""

    columns: tuple[ScanColumn, ...]
    files: tuple[ScanFile, ...]
    finish: Finish | None = None
    """Completes the change with the scanned statistics; `None` for `finish_repair`, which is Delta's."""

    def to_dict(self) -> dict[str, Any]:
        """`scan`: for each file its path and the columns that are read; `known`: statistics from the footers."""
        names = [column.path for column in self.columns]
        known = {
            file.path: {names[number]: _to_list(new) for number, new in file.known} for file in self.files if file.known
        }
        scan = [
            {"path": file.path, "columns": [names[stored.column] for stored in file.scanned]} for file in self.files
        ]
        return {"scan": scan, "known": known}


def _to_list(new: NewStats) -> list[Any]:
    return [None if new.ends is None else list(new.ends), new.null_count]


_RANGES = (("xmin", "xmax"), ("ymin", "ymax"), ("zmin", "zmax"), ("mmin", "mmax"))


@dataclass(frozen=True, slots=True, eq=False)
class FooterBounds:
    """The footer bounds of one geo column, one entry per file."""

    stated: BoxSides
    """The union of the row groups, not widened: what a bound has to contain."""
    usable: BoxSides
    """The boxes that can be used as bounds."""
    null_count: NDArray[np.int64]
    """-1 where it is not known."""
    nowhere: NDArray[np.bool_]
    """Files with only null or empty geometries."""
    bytes: NDArray[np.int64]
    """The compressed bytes of the column."""
    foreign: NDArray[np.bool_]
    """Boxes of other writers, which are widened together at the end."""

    @classmethod
    def blank(cls, count: int) -> FooterBounds:
        """Unknown bounds for so many files.

        >>> FooterBounds.blank(1).null_count.tolist()
        [-1]
        """
        return cls(
            stated=BoxSides({axis: np.full(count, np.nan) for axis in AXES}),
            usable=BoxSides({axis: np.full(count, np.nan) for axis in AXES}),
            null_count=np.full(count, -1, np.int64),
            nowhere=np.zeros(count, np.bool_),
            bytes=np.zeros(count, np.int64),
            foreign=np.zeros(count, np.bool_),
        )

    def widen(self) -> None:
        """Widen the boxes of other writers."""
        rows = self.foreign
        for low, high in _RANGES:
            self.usable[low][rows], self.usable[high][rows] = widened_sides(
                self.usable[low][rows], self.usable[high][rows]
            )


def read_footer_bounds(
    storage: Storage,
    keys: Sequence[str],
    columns: Sequence[ScanColumn],
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[NDArray[np.int64], dict[str, FooterBounds]]:
    """The rows of each file, and the bounds of each column by its path; one footer is in memory at a time."""
    rows = np.zeros(len(keys), np.int64)
    by_column = {column.path: FooterBounds.blank(len(keys)) for column in columns}
    reader = FooterReader()
    for index, footer in enumerate(read_metadata(storage, keys, on_progress=on_progress)):
        rows[index] = footer.num_rows
        view = reader.view(footer, where=f"{storage.location}/{keys[index]}")
        for column in columns:
            _note(by_column[column.path], index, view, column)
    for bounds in by_column.values():
        bounds.widen()
    return rows, by_column


def _note(bounds: FooterBounds, index: int, view: FileView, column: ScanColumn) -> None:
    here = locate(view, view.find(column.physical, field_id=column.field_id), column.type)
    rows = view.metadata.num_rows
    if here is None:
        lacks = view.lacks(column.physical, field_id=column.field_id)
        _put(bounds, index, without_column(rows, lacks=lacks), nowhere=lacks)
        return
    if _note_plain(bounds, index, here):
        return
    if here.leaf is not None:
        groups = range(view.metadata.num_row_groups)
        bounds.bytes[index] = sum(view.metadata.row_group(n).column(here.leaf).total_compressed_size for n in groups)
    stated = here.stated()
    if stated.box is not None and here.problem is None:
        _put_box(bounds.stated, index, stated.box)
    usable = here.whole() if stated.box is None else here.usable(stated)
    # In a file of this package, types without a box mean only empty geometries.
    empty = view.own and isinstance(here.type, GeometryType) and bool(stated.types) and stated.problem is None
    blank = stated.box is None and (empty or stated.null_count == rows)
    _put(bounds, index, usable, nowhere=blank)


def _note_plain(bounds: FooterBounds, index: int, here: FooterColumn) -> bool:
    """Fast path for common files; `False` where the general path is needed.

    A common file has one row group, a 2D box with finite, ordered sides, and at least one value.
    """
    metadata = here.view.metadata
    if here.leaf is None or here.problem is not None or metadata.num_row_groups != 1:
        return False
    chunk = metadata.row_group(0).column(here.leaf)
    stored = chunk.geo_statistics
    if stored is None or not isinstance(here.type, GeometryType):
        return False
    sides = stored.to_dict()
    for low, high in _RANGES:
        least, most = sides[low], sides[high]
        if least is None and most is None and low in ("zmin", "mmin"):
            continue
        if least is None or most is None or not -math.inf < least <= most < math.inf:
            return False
    plain = chunk.statistics
    nulls = plain.null_count if plain is not None and plain.has_null_count else -1
    if nulls == metadata.num_rows:
        return False
    bounds.null_count[index] = nulls
    bounds.bytes[index] = chunk.total_compressed_size
    bounds.foreign[index] = not here.view.own
    for axis in AXES:
        side = sides[axis]
        if side is not None:
            bounds.stated[axis][index] = bounds.usable[axis][index] = side
    return True


def _put(bounds: FooterBounds, index: int, evidence: GeoEvidence, *, nowhere: bool) -> None:
    bounds.nowhere[index] = nowhere
    if evidence.null_count is not None:
        bounds.null_count[index] = evidence.null_count
    if evidence.box is not None:
        _put_box(bounds.usable, index, evidence.box)


def _put_box(sides: BoxSides, index: int, box: Box) -> None:
    for axis in AXES:
        side = getattr(box, axis)
        if side is not None:
            sides[axis][index] = side
