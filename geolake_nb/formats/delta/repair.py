"""Which bounds of a Delta table are repaired, from Parquet footers or from a scan by Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.changes.repair.bound_sources import ScanFile, ScanJob
from geolake_nb.changes.repair.evidence import RepairEvidence, StoredBounds, after_scan, repair_columns
from geolake_nb.formats.delta.add_action import with_updated_stats
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.protocol import Doing, require_writable
from geolake_nb.formats.delta.raw_actions import pre_images
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import GeographyType
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.repair.evidence import FileRepair
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.scan.value_scan import ScanColumn
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["finish_repair", "plan_repair"]


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
    footers: bool = True,
) -> Change:
    """Repair missing or wrong bounds, each from the cheapest reliable source.

    With `verify` every file is scanned; without `footers` those are scanned whose bounds the log shows to be missing.
    """
    details = snapshot.details
    require_writable(snapshot.protocol, details.metadata, doing=Doing.UPDATE_STATS, where=snapshot.location)
    chosen, notes = repair_columns(snapshot, columns, _why_no_statistics(snapshot))
    nothing = Change(
        verb=Verb.REPAIR,
        format=snapshot.format,
        location=snapshot.location,
        base_version=snapshot.version,
        engines=engine_facts(snapshot),
        parameters={
            "columns": json.dumps([column.path for column in chosen]),
            "verify": json.dumps(verify),
        },
    )
    records = _numbers(details.stats.records)
    positions = np.flatnonzero(records != 0)
    if not chosen or not len(positions):
        return replace(nothing, notes=notes)
    evidence = _evidence(snapshot, chosen, positions)
    if not verify and footers:
        evidence.read_footers(storage, on_progress)
    repairs = list(evidence.repairs(verify=verify))
    actions, files = _decided(storage, snapshot, evidence, repairs, columns=chosen, positions=positions)
    return replace(
        nothing,
        actions=actions,
        job=ScanJob(chosen, files) if files else None,
        notes=(*evidence.notes(verify=verify), *notes),
        reads=evidence.reads([repair for repair in repairs if repair.scanned]),
        metrics={"files_updated": len(actions), "files_from_footers": len(actions)},
    )


def finish_repair(change: Change, job: ScanJob, scanned_stats: Mapping[int, Sequence[ColumnStats]]) -> Change:
    """The change with the scanned statistics: for each file, by its index, in the order of `scanned`."""
    actions = list(change.actions)
    unbounded = values = 0
    for index, file in enumerate(job.files):
        new = dict(file.known)
        rows = None
        lost = False
        for stored, stats in zip(file.scanned, scanned_stats[index], strict=True):
            rows = stats.rows
            lost |= bool(stats.bad or stats.unbounded)
            values += stats.bad + stats.unbounded
            wanted = after_scan(stored, stats)
            if wanted is not None:
                new[stored.column] = wanted
        unbounded += lost
        by_name = {job.columns[column].physical: stats for column, stats in new.items()}
        action = (
            with_updated_stats(
                file.add, by_name, rows=rows, has_vector=file.has_vector, geographies=_geographies(job.columns)
            )
            if by_name
            else None
        )
        if action is not None:
            actions.append(action)
    metrics = {
        **change.metrics,
        "files_updated": len(actions),
        "files_scanned": len(job.files),
        "files_without_bound": unbounded,
        "values_without_bound": values,
    }
    return replace(change, job=None, actions=actions, metrics=metrics)


def _evidence(snapshot: Snapshot, columns: tuple[ScanColumn, ...], positions: NDArray[np.intp]) -> RepairEvidence:
    table = snapshot.files.table
    here = pa.array(positions)
    paths: list[str] = table["path"].take(here).to_pylist()
    records = snapshot.details.stats.records
    return RepairEvidence(
        columns,
        paths=paths,
        keys=[decoded_path(path) for path in paths],
        sizes=_numbers(table["bytes"].take(here)),
        # Delta's readers compare boxes on a plane: one that wraps loses rows.
        stored={
            column.path: StoredBounds.of(snapshot, column.path, positions, records=records, may_wrap=False)
            for column in columns
        },
    )


def _decided(
    storage: Storage,
    snapshot: Snapshot,
    evidence: RepairEvidence,
    repairs: Sequence[FileRepair],
    *,
    columns: tuple[ScanColumn, ...],
    positions: NDArray[np.intp],
) -> tuple[list[str], tuple[ScanFile, ...]]:
    """The actions that are known already, and the files that have to be scanned first."""
    paths = evidence.paths
    vectors = np.asarray(pc.is_valid(snapshot.details.deletion_vectors).to_numpy(), np.bool_)[positions]
    records = _numbers(snapshot.details.stats.records)[positions]
    adds = pre_images(storage, snapshot.details.segment, [paths[repair.index] for repair in repairs])
    actions: list[str] = []
    files: list[ScanFile] = []
    for repair in repairs:
        index, path = repair.index, paths[repair.index]
        add, has_vector = adds[path], bool(vectors[index])
        if repair.scanned:
            size, known = int(evidence.sizes[index]), tuple(repair.known.items())
            files.append(ScanFile(path, evidence.keys[index], size, add, has_vector, repair.scanned, known))
            continue
        rows = None if evidence.rows is None else int(evidence.rows[index])
        by_name = {columns[number].physical: new for number, new in repair.known.items()}
        counted = bool(records[index] >= 0)
        action = with_updated_stats(
            add, by_name, rows=rows, has_vector=has_vector, counted=counted, geographies=_geographies(columns)
        )
        if action is not None:
            actions.append(action)
    return actions, tuple(files)


def _geographies(columns: Sequence[ScanColumn]) -> dict[tuple[str, ...], GeographyType]:
    return {column.physical: column.type for column in columns if isinstance(column.type, GeographyType)}


def _numbers(values: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """The numbers, -1 where one is not known."""
    return np.asarray(pc.fill_null(values, -1).to_numpy(), np.int64)


def _why_no_statistics(snapshot: Snapshot) -> Callable[[tuple[str, ...], bool], str | None]:
    """Why a Delta table has no statistics of a column."""

    def why_not(parts: tuple[str, ...], repeated: bool) -> str | None:
        path = join_path(parts)
        if repeated:
            return f"{path} is inside a list or a map, for which Delta has no statistics."
        if parts in snapshot.details.indexed:
            return None
        return (
            f"{path} is not among the columns with statistics; add it to"
            " delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols."
        )

    return why_not
