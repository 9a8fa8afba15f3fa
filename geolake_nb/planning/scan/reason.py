"""Why a scan keeps or skips a part of a table."""

from __future__ import annotations

import enum

__all__ = ["SCAN_REASONS", "ScanReason"]


class ScanReason(enum.Enum):
    """The one reason for which a file or a row group is kept or skipped; the value is its name in JSON.

    Of several reasons that weigh the same, the one that stands first here is given.

    >>> ScanReason.NO_BOUNDS.kept, ScanReason.OUTSIDE_WINDOW.kept
    (True, False)
    >>> ScanReason.NO_BOUNDS.text
    'no bounds: its rows may lie anywhere'
    """

    PARTITION = "partition"
    """Skipped: no value of its partition matches."""
    ONLY_NULLS = "only_nulls"
    """Skipped: the column has no value in it."""
    EMPTY_QUERY = "empty_query"
    """Skipped: the query's geometry is empty, and shares no point with anything."""
    OUTSIDE_WINDOW = "outside_window"
    """Skipped: its box does not meet the window."""
    TOO_SMALL_TO_HOLD = "too_small_to_hold"
    """Skipped: its box meets the window, yet does not hold all of it, as the filter asks."""
    SCALAR_STATISTICS = "scalar_statistics"
    """Skipped: minimum, maximum or null count of a plain column rule a match out."""
    FILE_SKIPPED = "file_skipped"
    """Skipped: a row group of a file that is skipped."""

    UNUSABLE_BOUNDS = "unusable_bounds"
    """Kept: bounds are stored and cannot be used; the detail says why."""
    CRS_DIFFERS = "crs_differs"
    """Kept: the window cannot be moved into the CRS of the column."""
    QUERY_UNBOUNDED = "query_unbounded"
    """Kept: the query's geometry has no sound box itself."""
    NOT_INDEXED = "not_indexed"
    """Kept: the column is outside those for which the table keeps statistics."""
    NO_BOUNDS = "no_bounds"
    """Kept: no bounds are stored."""
    COLLATION_VERSION_DIFFERS = "collation_version_differs"
    """Kept: its collated statistics are of another version than the filter's, or the filter names none."""
    NO_COLLATOR = "no_collator"
    """Kept: it has collated statistics of the very version, and nothing here compares strings by it."""
    NO_COLLATED_STATISTICS = "no_collated_statistics"
    """Kept: it has no statistics of the filter's collation."""
    NO_STATISTICS = "no_statistics"
    """Kept: a plain column has no statistics that the comparison could use."""
    WRAPPED = "wrapped"
    """Kept: its box crosses the antimeridian, and meets the window."""
    OVERLAPS = "overlaps"
    """Kept: its box meets the window."""
    IN_RANGE = "in_range"
    """Kept: the statistics of a plain column leave room for a match."""
    PARTITION_MATCHES = "partition_matches"
    """Kept: its partition matches."""
    NEGATED = "negated"
    """Kept: a box cannot rule out that a row lies elsewhere."""

    @property
    def kept(self) -> bool:
        """Whether what has this reason is read."""
        return self not in _SKIPPED

    @property
    def text(self) -> str:
        """The reason in a few words."""
        return _TEXTS[self]

    @property
    def code(self) -> int:
        """Its place in `SCAN_REASONS`."""
        return _CODES[self]


SCAN_REASONS: tuple[ScanReason, ...] = tuple(ScanReason)
"""All reasons in order; arrays of reasons hold places in it."""

_CODES = {reason: code for code, reason in enumerate(SCAN_REASONS)}

_SKIPPED = frozenset(SCAN_REASONS[: SCAN_REASONS.index(ScanReason.UNUSABLE_BOUNDS)])

_TEXTS = {
    ScanReason.PARTITION: "its partition cannot match",
    ScanReason.ONLY_NULLS: "only nulls in the column",
    ScanReason.EMPTY_QUERY: "the query is empty and meets nothing",
    ScanReason.OUTSIDE_WINDOW: "its box is outside the window",
    ScanReason.TOO_SMALL_TO_HOLD: "its box does not hold the window",
    ScanReason.SCALAR_STATISTICS: "minimum, maximum or nulls rule it out",
    ScanReason.FILE_SKIPPED: "its file is skipped",
    ScanReason.UNUSABLE_BOUNDS: "bounds not usable",
    ScanReason.CRS_DIFFERS: "the window cannot be moved to its CRS",
    ScanReason.QUERY_UNBOUNDED: "the query itself has no sound box",
    ScanReason.NOT_INDEXED: "the column is outside the indexed ones",
    ScanReason.NO_BOUNDS: "no bounds: its rows may lie anywhere",
    ScanReason.COLLATION_VERSION_DIFFERS: "collated statistics of another version",
    ScanReason.NO_COLLATOR: "no collator of that version here",
    ScanReason.NO_COLLATED_STATISTICS: "no statistics of this collation",
    ScanReason.NO_STATISTICS: "no statistics of the column",
    ScanReason.WRAPPED: "its box crosses the antimeridian and meets it",
    ScanReason.OVERLAPS: "its box meets the window",
    ScanReason.IN_RANGE: "its statistics leave room for a match",
    ScanReason.PARTITION_MATCHES: "its partition matches",
    ScanReason.NEGATED: "a box cannot rule out rows that lie elsewhere",
}
