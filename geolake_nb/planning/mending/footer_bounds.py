"""What the Parquet footers of a table's files say of its geo columns, file by file and in columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.core.types import GeometryType
from geolake_nb.formats.file_table import AXES
from geolake_nb.formats.parquet.footer_boxes import locate, without_column
from geolake_nb.formats.parquet.footer_view import FooterReader
from geolake_nb.formats.parquet.foreign_boxes import widened_sides
from geolake_nb.planning.mending.box_comparison import BoxSides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from geolake_nb.core.box import Box
    from geolake_nb.formats.parquet.footer_boxes import FooterColumn, GeoEvidence
    from geolake_nb.formats.parquet.footer_view import FileView
    from geolake_nb.formats.parquet.value_scan import ScanColumn
    from geolake_nb.formats.storage import Storage

__all__ = ["FooterBounds", "read_footer_bounds"]

_RANGES = (("xmin", "xmax"), ("ymin", "ymax"), ("zmin", "zmax"), ("mmin", "mmax"))


@dataclass(frozen=True, slots=True, eq=False)
class FooterBounds:
    """The footers' evidence of one geo column, an entry a file."""

    stated: BoxSides
    """Joined from the row groups, not widened: what a bound has to hold, whoever wrote it."""
    usable: BoxSides
    """What a bound may be made of."""
    null_count: NDArray[np.int64]
    """-1 where it is not known."""
    nowhere: NDArray[np.bool_]
    """Where no value has a place."""
    bytes: NDArray[np.int64]
    """The compressed bytes of the column."""
    foreign: NDArray[np.bool_]
    """Boxes of other writers that count once they are widened, which is done for all of them at once."""

    @classmethod
    def blank(cls, count: int) -> FooterBounds:
        """Nothing is known of so many files.

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
    """The rows of each file, and the evidence of each column by its path; one footer is in memory at a time."""
    rows = np.zeros(len(keys), np.int64)
    found = {column.path: FooterBounds.blank(len(keys)) for column in columns}
    reader = FooterReader()
    for place, footer in enumerate(storage.parquet_metadata(keys, on_progress=on_progress)):
        rows[place] = footer.num_rows
        view = reader.view(footer, where=f"{storage.location}/{keys[place]}")
        for column in columns:
            _note(found[column.path], place, view, column)
    for bounds in found.values():
        bounds.widen()
    return rows, found


def _note(bounds: FooterBounds, place: int, view: FileView, column: ScanColumn) -> None:
    here = locate(view, view.find(column.physical, field_id=column.field_id), column.type)
    rows = view.metadata.num_rows
    if here is None:
        lacks = view.lacks(column.physical, field_id=column.field_id)
        _put(bounds, place, without_column(rows, lacks=lacks), nowhere=lacks)
        return
    if _note_plain(bounds, place, here):
        return
    if here.leaf is not None:
        groups = range(view.metadata.num_row_groups)
        bounds.bytes[place] = sum(view.metadata.row_group(n).column(here.leaf).total_compressed_size for n in groups)
    stated = here.stated()
    if stated.box is not None and here.problem is None:
        _put_box(bounds.stated, place, stated.box)
    usable = here.whole() if stated.box is None else here.usable(stated)
    # In a file of this package, types without a box are those of values without a coordinate.
    empty = view.own and isinstance(here.type, GeometryType) and bool(stated.types) and stated.problem is None
    blank = stated.box is None and (empty or stated.null_count == rows)
    _put(bounds, place, usable, nowhere=blank)


def _note_plain(bounds: FooterBounds, place: int, here: FooterColumn) -> bool:
    """Note the box of a usual file, several times faster; `False` where a closer look is needed.

    That is a file of one row group, with a flat box of finite sides that run upward, and with a value.
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
    bounds.null_count[place] = nulls
    bounds.bytes[place] = chunk.total_compressed_size
    bounds.foreign[place] = not here.view.own
    for axis in AXES:
        side = sides[axis]
        if side is not None:
            bounds.stated[axis][place] = bounds.usable[axis][place] = side
    return True


def _put(bounds: FooterBounds, place: int, evidence: GeoEvidence, *, nowhere: bool) -> None:
    bounds.nowhere[place] = nowhere
    if evidence.null_count is not None:
        bounds.null_count[place] = evidence.null_count
    if evidence.box is not None:
        _put_box(bounds.usable, place, evidence.box)


def _put_box(sides: BoxSides, place: int, box: Box) -> None:
    for axis in AXES:
        side = getattr(box, axis)
        if side is not None:
            sides[axis][place] = side
