"""The files and geo columns whose values have to be read to know their bounds, and what is known of them already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.core.bound_codec import to_delta_wkt
from geolake_nb.errors import BoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geolake_nb.core.box import Box
    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.formats.parquet.value_scan import ScanColumn
    from geolake_nb.planning.change import Change
    from geolake_nb.planning.mending.evidence import StoredBound

    Finish = Callable[["Change", "ScanJob", Mapping[int, Sequence[ColumnStats]]], "Change"]

__all__ = ["NewStats", "ScanFile", "ScanJob"]


@dataclass(frozen=True, slots=True)
class NewStats:
    """What the statistics of a column in a file shall say."""

    box: Box | None
    """`None` takes the bound away: no value has a place, or one has no sound bound."""
    null_count: int | None
    """In the whole file, deleted rows included; `None` leaves what is there."""

    @property
    def ends(self) -> tuple[str, str] | None:
        """The texts of the bound, `None` where there is none, as for a box that Delta cannot hold.

        >>> from geolake_nb.core.box import Box
        >>> NewStats(Box(0, 1, 2, float("inf")), 0).ends is None
        True
        """
        try:
            return None if self.box is None else to_delta_wkt(self.box)
        except BoundError:
            return None


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A file whose values Spark reads, and what becomes of it meanwhile known."""

    path: str
    """As the log stores it."""
    key: str
    """As the storage takes it."""
    bytes: int
    add: str
    """Its `add` before the change; empty where the format has none."""
    has_vector: bool
    scanned: tuple[StoredBound, ...]
    known: tuple[tuple[int, NewStats], ...] = ()
    """What the footer told of other columns."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanJob:
    """The files and geo columns that have to be read to know their bounds."""

    columns: tuple[ScanColumn, ...]
    files: tuple[ScanFile, ...]
    finish: Finish | None = None
    """What completes the change with the statistics found; `None` for `finish_repair`, which is Delta's."""

    def to_dict(self) -> dict[str, Any]:
        """`scan`: for each file its path and the columns that are read; `known`: what the footers told of others."""
        names = [column.path for column in self.columns]
        known = {
            file.path: {names[place]: _told(new) for place, new in file.known} for file in self.files if file.known
        }
        scan = [{"path": file.path, "columns": [names[one.column] for one in file.scanned]} for file in self.files]
        return {"scan": scan, "known": known}


def _told(new: NewStats) -> list[Any]:
    return [None if new.ends is None else list(new.ends), new.null_count]
