"""Which bounds of an Iceberg table are mended, from what: the Parquet footers, or a scan that is left to Spark."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.bound_codec import to_iceberg_bytes
from geolake_nb.core.types import GeographyType
from geolake_nb.errors import BoundError
from geolake_nb.formats.data_files import data_keys
from geolake_nb.planning.change import Change, Verb
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.iceberg.forgetting import forgetting_sentences
from geolake_nb.planning.iceberg.writability import require_writable
from geolake_nb.planning.mending.bound_faults import StoredBounds
from geolake_nb.planning.mending.columns import bounded_columns
from geolake_nb.planning.mending.evidence import RepairEvidence, after_scan
from geolake_nb.planning.mending.scan_job import ScanFile, ScanJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.core.box import Box
    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.formats.parquet.value_scan import ScanColumn
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.mending.scan_job import NewStats

    Progress = Callable[[int, int], None]


__all__ = ["mended", "plan_repair"]


class Encode(Protocol):
    """Makes the bytes of the lower and the upper bound of a box; BoundError for one that the format cannot hold."""

    def __call__(self, box: Box, *, circular: bool) -> tuple[bytes, bytes]:
        """The two ends."""
        ...


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
) -> Change:
    """Bounds that are missing or wrong, each from the cheapest source that is sound; no other metric is touched.

    With `verify` every file is scanned.
    """
    require_writable(snapshot)
    chosen, says = bounded_columns(snapshot, columns)
    change = mended(storage, snapshot, chosen, says, encode=to_iceberg_bytes, verify=verify, on_progress=on_progress)
    return change if change.is_empty else replace(change, says=(*change.says, *_warnings(storage, snapshot)))


def _warnings(storage: Storage, snapshot: Snapshot) -> Iterator[str]:
    """What a user of Iceberg 1.12 should know of tables with geo bounds."""
    yield "Spark's SELECT * FROM table.files fails on geo bounds in Iceberg 1.12: name its columns."
    if storage.is_local:
        yield "On a local disk, Iceberg keeps apart only writers of one JVM, unless a catalog keeps the table."
    yield from forgetting_sentences(snapshot)


def mended(
    storage: Storage,
    snapshot: Snapshot,
    chosen: tuple[ScanColumn, ...],
    says: tuple[str, ...],
    *,
    encode: Encode,
    verify: bool,
    footers: bool = True,
    on_progress: Progress | None = None,
) -> Change:
    """The change that gives these columns right bounds; `encode` makes the bytes of a box.

    Without `footers` those of the files are not read: they tell nothing of the boxes.
    """
    nothing = Change(
        verb=Verb.REPAIR,
        format=snapshot.format,
        location=snapshot.location,
        base_version=snapshot.version,
        engines=engine_facts(snapshot),
        parameters={"columns": json.dumps([column.path for column in chosen]), "verify": json.dumps(verify)},
    )
    table = snapshot.files.table
    records = pc.add(table["rows"], table["deleted_rows"])
    positions = np.flatnonzero(records.to_numpy() != 0)
    if not chosen or not len(positions):
        return replace(nothing, says=says or (() if chosen else ("The table has no geo column.",)))
    keys = data_keys(snapshot)
    evidence = RepairEvidence(
        chosen,
        paths=table["path"].take(pa.array(positions)).to_pylist(),
        keys=[keys[place] for place in positions.tolist()],
        sizes=table["bytes"].to_numpy()[positions],
        stored={one.path: _stored(snapshot, one, positions, records) for one in chosen},
    )
    if footers and not verify:
        evidence.read_footers(storage, on_progress)
    mendings = list(evidence.mendings(verify=verify))
    actions: list[str] = []
    files: list[ScanFile] = []
    for one in mendings:
        path = evidence.paths[one.place]
        # Counts are Iceberg's own; where there is no box to give or to take, there is nothing to say.
        known = {
            number: new
            for number, new in one.known.items()
            if new.box is not None or evidence.has_bound(number, one.place)
        }
        if one.scanned:
            size = int(evidence.sizes[one.place])
            held = tuple(known.items())
            files.append(ScanFile(path, evidence.keys[one.place], size, "", False, one.scanned, held))
        elif known:
            actions.append(_restated(path, chosen, known, encode))
    return replace(
        nothing,
        actions=actions,
        job=ScanJob(chosen, tuple(files), functools.partial(_finish, encode)) if files else None,
        says=(*evidence.says(verify=verify), *says),
        reads=evidence.reads([one for one in mendings if one.scanned]),
        undo="geolake undo goes back to the snapshot before, as long as this one is the current one",
        metrics={"files_restated": len(actions), "files_from_footers": len(actions)},
    )


def _finish(encode: Encode, change: Change, job: ScanJob, found: Mapping[int, Sequence[ColumnStats]]) -> Change:
    """The change with what the scan found."""
    actions = list(change.actions)
    unbounded = values = 0
    for place, file in enumerate(job.files):
        new = dict(file.known)
        lost = False
        for stored, stats in zip(file.scanned, found[place], strict=True):
            lost |= bool(stats.bad or stats.unbounded)
            values += stats.bad + stats.unbounded
            wanted = after_scan(stored, stats, may_wrap=_wraps(job.columns[stored.column]))
            if wanted is not None and (wanted.box is not None or stored.box is not None or stored.broken):
                new[stored.column] = wanted
        unbounded += lost
        if new:
            actions.append(_restated(file.path, job.columns, new, encode))
    metrics = {
        **change.metrics,
        "files_restated": len(actions),
        "files_scanned": len(job.files),
        "files_without_bound": unbounded,
        "values_without_bound": values,
    }
    return replace(change, job=None, actions=actions, metrics=metrics)


def _stored(
    snapshot: Snapshot, column: ScanColumn, positions: NDArray[np.intp], records: pa.ChunkedArray
) -> StoredBounds:
    return StoredBounds.of(snapshot, column.path, positions, records=records, may_wrap=_wraps(column))


def _restated(path: str, columns: Sequence[ScanColumn], new: Mapping[int, NewStats], encode: Encode) -> str:
    """The action that gives a file other bounds: by field id the two ends in hexadecimal digits, or null."""
    bounds: dict[str, Any] = {}
    for place, stats in sorted(new.items()):
        column = columns[place]
        ends = None
        if stats.box is not None:
            try:
                ends = [one.hex() for one in encode(stats.box, circular=_wraps(column))]
            except BoundError:
                ends = None  # a box that the format cannot hold is no bound
        bounds[str(column.field_id)] = ends
    return json.dumps({"restate": {"path": path, "bounds": bounds}}, separators=(",", ":"), ensure_ascii=False)


def _wraps(column: ScanColumn) -> bool:
    return isinstance(column.type, GeographyType)
