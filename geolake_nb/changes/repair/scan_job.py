"""The files and geo columns whose values have to be read for their bounds, and what is already known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import to_delta_wkt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geolake_nb.changes.repair.evidence import StoredBound
    from geolake_nb.model.box import Box
    from geolake_nb.model.change import Change
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.scan.value_scan import ScanColumn

    Finish = Callable[["Change", "ScanJob", Mapping[int, Sequence[ColumnStats]]], "Change"]

__all__ = ["NewStats", "ScanFile", "ScanJob"]


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
