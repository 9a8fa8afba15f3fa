"""The score of a layout: the share of the bytes that a query reads, next to the best that clustering would reach."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from geolake_nb.model.display import LiveDisplayable
from geolake_nb.scan.coverage import FEWEST_FILES
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.layout_model import LayoutModel, layout_column
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.layout_model import RowPlaces
    from geolake_nb.scan.next_step import NextStep

__all__ = [
    "DECAYED_RATIO",
    "TARGET_BYTES",
    "Layout",
    "LayoutVersion",
    "QueryShare",
    "cheap_layout",
    "layout_of",
    "measured",
    "read_share",
    "with_versions",
]

DECAYED_RATIO = 2.0
"""A layout is decayed where a query reads this many times the best."""
TARGET_BYTES = 128_000_000
"""The size of the files that a rewrite makes by default."""
_MOST_FILES = 10_000
"""With more files, a layout is measured when it is asked for, and not on a card or in a check."""
_WORTH = 0.05
"""A share of the bytes that is not worth a rewrite."""


@dataclass(frozen=True, slots=True)
class QueryShare:
    """What the queries of one group read."""

    name: str
    queries: int
    share: float
    """The mean share of the bytes that a query reads."""
    best: float
    """The same after a full re-clustering."""

    def to_dict(self) -> dict[str, Any]:
        """`name, queries, share, best`."""
        return {"name": self.name, "queries": self.queries, "share": self.share, "best": self.best}


@dataclass(frozen=True, slots=True)
class LayoutVersion:
    """The score of an earlier version."""

    version: int
    files: int
    share: float | None
    best: float | None

    def to_dict(self) -> dict[str, Any]:
        """`version, files, share, best`."""
        return {"version": self.version, "files": self.files, "share": self.share, "best": self.best}


@dataclass(frozen=True, slots=True)
class Layout(LiveDisplayable):
    """How much of a table a query reads, on average, by its metadata: no skipping is 1, a full re-clustering `best`.

    Example:
        >>> layout = gl.open(t.plan_repair().apply().location).layout()
        >>> layout.files, layout.decayed
        (3, False)
    """

    location: str
    version: int | None
    column: str
    files: int
    bytes: int
    target_bytes: int
    """The size of the files of a full re-clustering."""
    share: float | None
    """The mean share of the bytes that a query reads; `None` where no row has a known location."""
    best: float | None
    """An estimate of the same after a full re-clustering."""
    median: float | None
    """The share that the median query reads."""
    spread_files: int
    """Files that twice as many queries read as would read a file of the best layout: their rows lie far apart."""
    queries: tuple[QueryShare, ...]
    versions: tuple[LayoutVersion, ...] = ()
    """This version and earlier ones, the oldest first, where they were asked for."""
    origin: object | None = field(default=None, repr=False, compare=False)
    """The table that was measured, where it was an open one."""

    @property
    def next_step(self) -> NextStep | None:
        """The maintenance of a decayed table, the repair of one without bounds, else `None`."""
        from geolake_nb.scan.next_step import NextStep

        if self.share is None and self.files:
            return NextStep.of("repair", self.location)
        return NextStep.of("maintain", self.location) if self.decayed else None

    @property
    def ratio(self) -> float | None:
        """How many times the best a query reads."""
        return None if self.share is None or not self.best else self.share / self.best

    @property
    def decayed(self) -> bool:
        """Whether a query reads more than twice the best, and the difference is worth a rewrite."""
        if self.share is None or self.best is None:
            return False
        # A single file that covers all others adds its own bytes to each query and no more.
        return self.spread_files > 1 and self.share > DECAYED_RATIO * self.best and self.share - self.best > _WORTH

    def to_dict(self) -> dict[str, Any]:
        """The score with plain values, ready for JSON.

        Returns:
            A dict with stable keys: `geolake help json` lists them.

        Example:
            >>> t.layout().to_dict()["share"]  # no file has bounds: every query reads all
        """
        return {
            "location": self.location,
            "version": self.version,
            "column": self.column,
            "files": self.files,
            "bytes": self.bytes,
            "target_bytes": self.target_bytes,
            "share": self.share,
            "best": self.best,
            "median": self.median,
            "ratio": self.ratio,
            "spread_files": self.spread_files,
            "decayed": self.decayed,
            "queries": [group.to_dict() for group in self.queries],
            "versions": [entry.to_dict() for entry in self.versions],
        }

    @property
    def summary(self) -> str:
        """The score in a sentence."""
        if self.share is None or self.best is None:
            return "No file has bounds: every query reads all of the table."
        times = "" if self.ratio is None or self.ratio < 1.05 else f", {self.ratio:.1f} times as much"
        return f"A query reads {self.share:.1%} of the bytes{times}; clustered anew it would read {self.best:.1%}."

    def __str__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        lines = [
            printable(f"{self.location}{version}: layout by {self.column}"),
            f"{plural(self.files, 'file')}, {bytes_text(self.bytes)}; new files of {bytes_text(self.target_bytes)}",
            self.summary,
        ]
        if self.queries:
            lines.append(f"{'':20}{'queries':>9}{'reads':>9}{'best':>9}{'no skipping':>13}")
        lines += [
            f"{group.name:20}{group.queries:>9,}{group.share:>9.1%}{group.best:>9.1%}{1:>13.0%}"
            for group in self.queries
        ]
        if self.versions:
            lines.append(f"{'version':>20}{'files':>9}{'reads':>9}{'best':>9}")
        for entry in self.versions:
            shares = ["-" if share is None else f"{share:.1%}" for share in (entry.share, entry.best)]
            lines.append(f"{entry.version:>20}{entry.files:>9,}{shares[0]:>9}{shares[1]:>9}")
        if self.decayed:
            lines.append(printable(f"Decayed: geolake maintain {self.location} shows what to rewrite."))
        return "\n".join(lines)


def layout_of(
    snapshot: Snapshot,
    column: str,
    *,
    target_bytes: int,
    queries: Sequence[FilterInput] | None = None,
    extent: tuple[float, float] = (0.0, 0.0),
    places: RowPlaces | None = None,
) -> Layout:
    """The score of a snapshot; `extent` is how wide and high a geometry is, `places` are where windows are drawn."""
    model = LayoutModel(snapshot, column, target_bytes=target_bytes, queries=queries, extent=extent, places=places)
    return measured(model)


def cheap_layout(snapshot: Snapshot, *, target_bytes: int = TARGET_BYTES) -> Layout | None:
    """The score for a card or a check; `None` where it would take long, or where files lack bounds."""
    column = layout_column(snapshot)
    if column is None or not FEWEST_FILES <= len(snapshot.files) <= _MOST_FILES:
        return None
    boxes = snapshot.files.boxes(column)
    if not (boxes.known | boxes.only_null_or_empty).all():
        return None
    # Files that are larger than the target are another matter than rows that lie far apart.
    mean = int(pc.mean(snapshot.files.table["bytes"]).as_py() or 0)
    layout = layout_of(snapshot, column, target_bytes=max(target_bytes, mean))
    return None if layout.share is None else layout


def read_share(snapshot: Snapshot) -> float | None:
    """The share of the bytes that a query reads; `None` without a geo column or files, or where it would take long."""
    column = layout_column(snapshot)
    if column is None or not 1 <= len(snapshot.files) <= _MOST_FILES:
        return None
    share = layout_of(snapshot, column, target_bytes=TARGET_BYTES).share
    # Without a single bound nothing can be measured, and nothing is skipped.
    return 1.0 if share is None else share


def measured(model: LayoutModel) -> Layout:
    """The score of a model."""
    snapshot, queries = model.snapshot, model.queries
    measurable = model.can_measure
    groups = [
        QueryShare(
            name,
            int((queries.groups == number).sum()),
            float(model.shares[queries.groups == number].mean()),
            float(model.best[queries.groups == number].mean()),
        )
        for number, name in enumerate(queries.names)
    ]
    return Layout(
        location=snapshot.location,
        version=snapshot.version,
        column=model.column,
        files=len(snapshot.files),
        bytes=int(model.size.sum()),
        target_bytes=model.target_bytes,
        share=float(model.shares.mean()) if measurable else None,
        best=float(model.best.mean()) if measurable else None,
        median=float(np.median(model.shares)) if measurable else None,
        spread_files=int(model.is_spread.sum()) if measurable else 0,
        queries=tuple(groups) if measurable else (),
    )


def with_versions(layout: Layout, earlier: Sequence[Layout]) -> Layout:
    """The score with those of other versions, the oldest first."""
    return replace(
        layout,
        versions=tuple(
            LayoutVersion(entry.version, entry.files, entry.share, entry.best)
            for entry in earlier
            if entry.version is not None
        ),
    )
