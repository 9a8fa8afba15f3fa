"""Which bounds of an Iceberg table are repaired, from Parquet footers or from a scan by Spark."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from geolake_nb.changes.repair.bound_sources import ScanFile, ScanJob
from geolake_nb.changes.repair.evidence import RepairEvidence, StoredBounds, after_scan, repair_columns
from geolake_nb.errors import BoundError
from geolake_nb.formats.iceberg.bounds import MetricsMode
from geolake_nb.formats.iceberg.writability import forgetting_sentences, require_writable
from geolake_nb.geo.bound_codec import to_iceberg_bytes
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.file_table import physical_rows
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import GeographyType
from geolake_nb.scan.data_files import data_keys
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.repair.bound_sources import NewStats
    from geolake_nb.model.box import Box
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.scan.value_scan import ScanColumn
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["bounded_columns", "plan_repair", "repair_change", "update_bounds"]


def bounded_columns(snapshot: Snapshot, names: Sequence[str] | None) -> tuple[tuple[ScanColumn, ...], tuple[str, ...]]:
    """The geo columns of these names, or all, that have bounds in manifests; a sentence about each other one."""

    def why_not(parts: tuple[str, ...], repeated: bool) -> str | None:
        path = join_path(parts)
        if repeated:
            return f"{path} is inside a list or a map, for which Iceberg has no bounds."
        if not MetricsMode.of(snapshot.properties, ".".join(parts)).bounds:
            return f"{path} has no bounds because of the table property write.metadata.metrics."
        return None

    return repair_columns(snapshot, names, why_not, rasters=True)


class Encode(Protocol):
    """Encodes the lower and the upper bound of a box; BoundError for one that the format cannot hold."""

    def __call__(self, box: Box, *, circular: bool) -> tuple[bytes, bytes]:
        """The lower and the upper bound."""
        ...


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
) -> Change:
    """Repair missing or wrong bounds, each from the cheapest reliable source; no other metric is touched.

    With `verify` every file is scanned.
    """
    require_writable(snapshot)
    chosen, notes = bounded_columns(snapshot, columns)
    change = repair_change(
        storage, snapshot, chosen, notes, encode=to_iceberg_bytes, verify=verify, on_progress=on_progress
    )
    return change if change.is_empty else replace(change, notes=(*change.notes, *_warnings(storage, snapshot)))


def _warnings(storage: Storage, snapshot: Snapshot) -> Iterator[str]:
    """What a user of Iceberg 1.12 should know of tables with geo bounds."""
    yield "Spark's SELECT * FROM table.files fails on geo bounds in Iceberg 1.12: name its columns."
    if storage.is_local:
        yield "On a local disk, Iceberg only serializes writers of one JVM, unless a catalog manages the table."
    yield from forgetting_sentences(snapshot)


def repair_change(
    storage: Storage,
    snapshot: Snapshot,
    chosen: tuple[ScanColumn, ...],
    notes: tuple[str, ...],
    *,
    encode: Encode,
    verify: bool,
    footers: bool = True,
    on_progress: Progress | None = None,
) -> Change:
    """The change that gives these columns correct bounds; `encode` encodes a box.

    Without `footers` those of the files are not read: they have no boxes.
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
    records = physical_rows(table)
    positions = np.flatnonzero(records.to_numpy() != 0)
    if not chosen or not len(positions):
        return replace(nothing, notes=notes or (() if chosen else ("The table has no geo column.",)))
    keys = data_keys(snapshot)
    evidence = RepairEvidence(
        chosen,
        paths=table["path"].take(pa.array(positions)).to_pylist(),
        keys=[keys[index] for index in positions.tolist()],
        sizes=table["bytes"].to_numpy()[positions],
        stored={column.path: _stored(snapshot, column, positions, records) for column in chosen},
    )
    if footers and not verify:
        evidence.read_footers(storage, on_progress)
    repairs = list(evidence.repairs(verify=verify))
    actions: list[str] = []
    files: list[ScanFile] = []
    for repair in repairs:
        path = evidence.paths[repair.index]
        # Counts are Iceberg's own; without a box to set or to remove there is nothing to update.
        known = {
            number: new
            for number, new in repair.known.items()
            if new.box is not None or evidence.has_bound(number, repair.index)
        }
        if repair.scanned:
            size = int(evidence.sizes[repair.index])
            known_stats = tuple(known.items())
            files.append(ScanFile(path, evidence.keys[repair.index], size, "", False, repair.scanned, known_stats))
        elif known:
            actions.append(update_bounds(path, chosen, known, encode))
    return replace(
        nothing,
        actions=actions,
        job=ScanJob(chosen, tuple(files), functools.partial(_finish, encode)) if files else None,
        notes=(*evidence.notes(verify=verify), *notes),
        reads=evidence.reads([repair for repair in repairs if repair.scanned]),
        undo="geolake undo goes back to the previous snapshot, while this one is the current one",
        metrics={"files_updated": len(actions), "files_from_footers": len(actions)},
    )


def _finish(encode: Encode, change: Change, job: ScanJob, scanned_stats: Mapping[int, Sequence[ColumnStats]]) -> Change:
    """The change with the results of the scan."""
    actions = list(change.actions)
    unbounded = values = 0
    for index, file in enumerate(job.files):
        new = dict(file.known)
        lost = False
        for stored, stats in zip(file.scanned, scanned_stats[index], strict=True):
            lost |= bool(stats.bad or stats.unbounded)
            values += stats.bad + stats.unbounded
            wanted = after_scan(stored, stats, may_wrap=_wraps(job.columns[stored.column]))
            if wanted is not None and (wanted.box is not None or stored.box is not None or stored.broken):
                new[stored.column] = wanted
        unbounded += lost
        if new:
            actions.append(update_bounds(file.path, job.columns, new, encode))
    metrics = {
        **change.metrics,
        "files_updated": len(actions),
        "files_scanned": len(job.files),
        "files_without_bound": unbounded,
        "values_without_bound": values,
    }
    return replace(change, job=None, actions=actions, metrics=metrics)


def _stored(
    snapshot: Snapshot, column: ScanColumn, positions: NDArray[np.intp], records: pa.ChunkedArray
) -> StoredBounds:
    return StoredBounds.of(snapshot, column.path, positions, records=records, may_wrap=_wraps(column))


def update_bounds(path: str, columns: Sequence[ScanColumn], new: Mapping[int, NewStats], encode: Encode) -> str:
    """The action that updates the bounds of a file: by field id both bounds in hexadecimal digits, or null."""
    bounds: dict[str, Any] = {}
    for number, stats in sorted(new.items()):
        column = columns[number]
        ends = None
        if stats.box is not None:
            try:
                ends = [bound.hex() for bound in encode(stats.box, circular=_wraps(column))]
            except BoundError:
                ends = None  # the format cannot hold the box: no bound
        bounds[str(column.field_id)] = ends
    return json.dumps({"update_bounds": {"path": path, "bounds": bounds}}, separators=(",", ":"), ensure_ascii=False)


def _wraps(column: ScanColumn) -> bool:
    return isinstance(column.type, GeographyType)
