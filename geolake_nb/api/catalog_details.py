"""What is known of each table of a catalog: read by several threads, from metadata alone."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError
from geolake_nb.formats.catalog_server import IN_FLIGHT
from geolake_nb.formats.catalog_sources import EntryKind
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.scan.coverage import coverage, geo_type_of
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.layout import cheap_layout
from geolake_nb.storage.object_store import requests_in_flight
from geolake_nb.text.messages import plural, printable, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from geolake_nb.api.table import Table
    from geolake_nb.checks.finding import Findings
    from geolake_nb.formats.catalog_sources import CatalogEntry, CatalogSource
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.text.messages import Progress

__all__ = ["DETAILS", "DETAIL_HEADS", "TableDetails", "detail_cells", "details_table", "read_details"]

DETAIL_HEADS = ("format", "files", "bounds", "findings", "rows", "size", "query reads", "geo columns", "last change")
"""What `detail_cells` are, in their order."""

_MAX_DEPTH = 16
"""Folders deeper than that are not looked into: a link may lead in a circle."""

DETAILS = pa.schema(
    [
        ("table", pa.string()),
        ("format", pa.string()),
        ("location", pa.string()),
        ("geo_columns", pa.list_(pa.string())),
        ("files", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("coverage", pa.float64()),
        ("share_read", pa.float64()),
        ("last_change", pa.timestamp("us", "UTC")),
        ("errors", pa.int64()),
        ("warnings", pa.int64()),
        ("xmin", pa.float64()),
        ("ymin", pa.float64()),
        ("xmax", pa.float64()),
        ("ymax", pa.float64()),
        ("problem", pa.string()),
    ]
)
"""The columns of a catalog's table of details."""


@dataclass(frozen=True, slots=True)
class TableDetails:
    """What the metadata of one table says; `None` where it does not say."""

    path: tuple[str, ...]
    format: str | None = None
    location: str | None = None
    geo_columns: tuple[str, ...] = ()
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None
    coverage: float | None = None
    """The share of the files that have usable bounds of each geo column; of the worst one."""
    share_read: float | None = None
    """The expected share of the bytes that a query reads, as `Table.layout` measures it, where that is cheap."""
    last_change: datetime | None = None
    errors: int | None = None
    warnings: int | None = None
    box: tuple[float, float, float, float] | None = None
    """The extent in degrees: xmin, ymin, xmax, ymax; xmin > xmax crosses the antimeridian."""
    problem: str | None = None
    """Why the table cannot be opened."""

    def to_dict(self, *, separator: str = ".") -> dict[str, Any]:
        """The details by the names of `DETAILS`.

        >>> TableDetails(("main", "roads"), files=3).to_dict()["table"]
        'main.roads'
        """
        sides = self.box or (None, None, None, None)
        return {
            "table": separator.join(self.path),
            **{name: getattr(self, name) for name in DETAILS.names if hasattr(self, name)},
            "geo_columns": list(self.geo_columns),
            **dict(zip(("xmin", "ymin", "xmax", "ymax"), sides, strict=True)),
        }


def details_table(details: Iterable[TableDetails], *, separator: str = ".") -> pa.Table:
    """The details of all tables, one row each, in the order of their names."""
    rows = [entry.to_dict(separator=separator) for entry in sorted(details, key=lambda entry: entry.path)]
    return pa.Table.from_pylist(rows, DETAILS)


def detail_cells(details: TableDetails) -> list[str]:
    """The details of an open table as short texts, in the order of `DETAIL_HEADS`.

    >>> detail_cells(TableDetails(("roads",), "delta", files=3, rows=1200, bytes=5000, coverage=1.0))
    ['delta', '3', '100%', 'none', '1,200', '5.0 kB', '', '', '']
    """
    counts = ((details.errors or 0, "error"), (details.warnings or 0, "warning"))
    return [
        details.format or "",
        "" if details.files is None else f"{details.files:,}",
        "" if details.coverage is None else f"{details.coverage:.0%}",
        ", ".join(plural(count, word) for count, word in counts if count) or "none",
        "" if details.rows is None else f"{details.rows:,}",
        "" if details.bytes is None else bytes_text(details.bytes),
        "" if details.share_read is None else f"{details.share_read:.1%}",
        printable(", ".join(details.geo_columns), 100),
        "" if details.last_change is None else f"{details.last_change:%Y-%m-%d %H:%M}",
    ]


def details_of(path: tuple[str, ...], table: Table) -> tuple[TableDetails, Findings]:
    """The details of an open table, and what a check of its metadata finds."""
    snapshot = table.snapshot
    findings = table.check(footers=False)
    files = snapshot.files.table
    bounded = coverage(snapshot)
    layout = cheap_layout(snapshot)
    shares = [entry.covered.files / entry.total.files for entry in bounded if entry.total.files]
    counts = {
        severity: sum(finding.severity.value == severity for finding in findings) for severity in ("error", "warning")
    }
    details = TableDetails(
        path,
        snapshot.format.name,
        snapshot.location,
        tuple(snapshot.files.geo_columns),
        len(snapshot.files),
        pc.sum(files["rows"], min_count=0, skip_nulls=False).as_py(),
        pc.sum(files["bytes"]).as_py() or 0,
        min(shares) if shares else None,
        None if layout is None else layout.share,
        snapshot.timestamp,
        counts["error"],
        counts["warning"],
        _extent(snapshot),
    )
    return details, findings


def _extent(snapshot: Snapshot) -> tuple[float, float, float, float] | None:
    """The extent of the first geo column that has bounds, in degrees."""
    from geolake_nb.jupyter.map_layers import place_boxes

    for bounds in coverage(snapshot):
        if bounds.box is None:
            continue
        placed = place_boxes(BoxColumn.from_boxes([bounds.box]), geo_type_of(snapshot, bounds.column))
        if placed.drawn[0]:
            xmin, ymin, xmax, ymax = placed.boxes[0].tolist()
            return xmin, ymin, xmax, ymax
    return None


def read_details(
    source: CatalogSource,
    entries: Iterable[CatalogEntry],
    open_table: Callable[[tuple[str, ...]], Table],
    *,
    on_progress: Progress | None = None,
    cancelled: threading.Event | None = None,
    take: Callable[[TableDetails, Findings | None], None] = lambda *_: None,
) -> Iterator[TableDetails]:
    """The details of the tables among and below the entries, as they are known.

    At most `IN_FLIGHT` requests are under way at once. `take` gets the findings of each table too, in the thread of
    the caller; it may keep them or let them go.
    """
    stop, ended_early = cancelled or threading.Event(), threading.Event()

    def look(entry: CatalogEntry) -> list[CatalogEntry] | tuple[TableDetails, Findings | None]:
        if stop.is_set() or ended_early.is_set():
            return []
        try:
            resolved = source.resolved(entry)
            if resolved.kind is EntryKind.NAMESPACE:
                return source.children(resolved.path) if len(resolved.path) < _MAX_DEPTH else []
            details, findings = details_of(resolved.path, open_table(resolved.path))
            return replace(details, format=details.format or resolved.format), findings
        except GeolakeError as problem:
            return TableDetails(entry.path, entry.format, problem=without_secrets(str(problem))), None

    with requests_in_flight(IN_FLIGHT), ThreadPoolExecutor(IN_FLIGHT, "geolake-catalog") as pool:
        waiting: set[Future[Any]] = {pool.submit(look, entry) for entry in entries}
        done, total = 0, len(waiting)
        try:
            while waiting and not stop.is_set():
                ended, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in ended:
                    answer = future.result()
                    done += 1
                    if isinstance(answer, list):
                        # A namespace was no table: its place in the count is that of what it holds.
                        waiting |= {pool.submit(look, entry) for entry in answer}
                        done, total = done - 1, total - 1 + len(answer)
                        continue
                    take(*answer)
                    yield answer[0]
                if on_progress is not None and ended:
                    on_progress(done, total)
        finally:
            ended_early.set()
            pool.shutdown(wait=True, cancel_futures=True)
