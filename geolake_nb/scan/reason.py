"""Why a scan keeps or skips a part of a table."""

from __future__ import annotations

import enum

__all__ = ["SCAN_REASONS", "ScanReason"]


class ScanReason(enum.Enum):
    """The one reason for which a file or a row group is kept or skipped; the value is its name in JSON.

    Of several reasons with the same verdict, the first in this list is given.

    >>> ScanReason.NO_BOUNDS.kept, ScanReason.OUTSIDE_WINDOW.kept
    (True, False)
    >>> ScanReason.NO_BOUNDS.text
    'no bounds'
    """

    PARTITION = "partition"
    """Skipped: no value of its partition matches."""
    ONLY_NULLS = "only_nulls"
    """Skipped: the column has no value in it."""
    EMPTY_QUERY = "empty_query"
    """Skipped: the query geometry is empty."""
    OUTSIDE_WINDOW = "outside_window"
    """Skipped: its bounds do not overlap the query."""
    TOO_SMALL_TO_HOLD = "too_small_to_hold"
    """Skipped: its bounds overlap the query, but do not contain it, as the filter requires."""
    SCALAR_STATISTICS = "scalar_statistics"
    """Skipped: min, max or null count of a plain column exclude a match."""
    FILE_SKIPPED = "file_skipped"
    """Skipped: a row group of a file that is skipped."""

    UNUSABLE_BOUNDS = "unusable_bounds"
    """Kept: its bounds cannot be used; the detail is the reason."""
    CRS_DIFFERS = "crs_differs"
    """Kept: the query cannot be transformed to the CRS of the column."""
    QUERY_UNBOUNDED = "query_unbounded"
    """Kept: the query geometry has no usable bounds."""
    NOT_INDEXED = "not_indexed"
    """Kept: the table does not index statistics for the column."""
    NO_BOUNDS = "no_bounds"
    """Kept: no bounds are stored."""
    COLLATION_VERSION_DIFFERS = "collation_version_differs"
    """Kept: its collated statistics are of another version than the filter's, or the filter names none."""
    NO_COLLATOR = "no_collator"
    """Kept: it has collated statistics of that version, and no collator for them is available."""
    NO_COLLATED_STATISTICS = "no_collated_statistics"
    """Kept: it has no statistics of the filter's collation."""
    NO_STATISTICS = "no_statistics"
    """Kept: a plain column has no statistics for the comparison."""
    WRAPPED = "wrapped"
    """Kept: its bounds cross the antimeridian and overlap the query."""
    OVERLAPS = "overlaps"
    """Kept: its bounds overlap the query."""
    IN_RANGE = "in_range"
    """Kept: it may match by the statistics of a plain column."""
    PARTITION_MATCHES = "partition_matches"
    """Kept: its partition matches."""
    NEGATED = "negated"
    """Kept: bounds cannot exclude rows for a negated filter."""

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
        """Its index in `SCAN_REASONS`."""
        return _CODES[self]


SCAN_REASONS: tuple[ScanReason, ...] = tuple(ScanReason)
"""All reasons in order; arrays of reasons hold indices into it."""

_CODES = {reason: code for code, reason in enumerate(SCAN_REASONS)}

_SKIPPED = frozenset(SCAN_REASONS[: SCAN_REASONS.index(ScanReason.UNUSABLE_BOUNDS)])

_TEXTS = {
    ScanReason.PARTITION: "partition does not match",
    ScanReason.ONLY_NULLS: "only nulls in the column",
    ScanReason.EMPTY_QUERY: "query geometry is empty",
    ScanReason.OUTSIDE_WINDOW: "bounds do not overlap the query",
    ScanReason.TOO_SMALL_TO_HOLD: "bounds do not contain the query",
    ScanReason.SCALAR_STATISTICS: "excluded by min/max/null statistics",
    ScanReason.FILE_SKIPPED: "file is skipped",
    ScanReason.UNUSABLE_BOUNDS: "bounds not usable",
    ScanReason.CRS_DIFFERS: "query cannot be transformed to column CRS",
    ScanReason.QUERY_UNBOUNDED: "query geometry has no usable bounds",
    ScanReason.NOT_INDEXED: "column is not indexed for statistics",
    ScanReason.NO_BOUNDS: "no bounds",
    ScanReason.COLLATION_VERSION_DIFFERS: "statistics of another collation version",
    ScanReason.NO_COLLATOR: "no collator of that version available",
    ScanReason.NO_COLLATED_STATISTICS: "no statistics of this collation",
    ScanReason.NO_STATISTICS: "no statistics for the column",
    ScanReason.WRAPPED: "bounds cross the antimeridian and overlap",
    ScanReason.OVERLAPS: "bounds overlap the query",
    ScanReason.IN_RANGE: "may match (min/max)",
    ScanReason.PARTITION_MATCHES: "partition matches",
    ScanReason.NEGATED: "bounds cannot exclude a negated filter",
}
