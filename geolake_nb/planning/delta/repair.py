"""Which bounds of a Delta table are mended, from what: the Parquet footers, or a scan that is left to Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.types import GeographyType
from geolake_nb.formats.delta.data_paths import decoded_path
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.planning.change import Change, Verb
from geolake_nb.planning.delta.pre_images import pre_images
from geolake_nb.planning.delta.restating import restated
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.mending.bound_faults import StoredBounds
from geolake_nb.planning.mending.columns import repair_columns
from geolake_nb.planning.mending.evidence import RepairEvidence, after_scan
from geolake_nb.planning.mending.scan_job import ScanFile, ScanJob

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.formats.parquet.value_scan import ScanColumn
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.mending.evidence import Mending

    Progress = Callable[[int, int], None]

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
    """Bounds that are missing or wrong, each from the cheapest source that is sound.

    With `verify` every file is scanned; without `footers` those are scanned whose bounds the log shows to be missing.
    """
    details = snapshot.details
    require_writable(snapshot.protocol, details.metadata, doing=Doing.RESTATE, where=snapshot.location)
    chosen, says = repair_columns(snapshot, columns)
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
        return replace(nothing, says=says)
    evidence = _evidence(snapshot, chosen, positions)
    if not verify and footers:
        evidence.read_footers(storage, on_progress)
    mendings = list(evidence.mendings(verify=verify))
    actions, files = _decided(storage, snapshot, evidence, mendings, columns=chosen, positions=positions)
    return replace(
        nothing,
        actions=actions,
        job=ScanJob(chosen, files) if files else None,
        says=(*evidence.says(verify=verify), *says),
        reads=evidence.reads([one for one in mendings if one.scanned]),
        metrics={"files_restated": len(actions), "files_from_footers": len(actions)},
    )


def finish_repair(change: Change, job: ScanJob, found: Mapping[int, Sequence[ColumnStats]]) -> Change:
    """The change with what the scan found: for each file, by its place, the statistics in the order of `scanned`."""
    actions = list(change.actions)
    unbounded = values = 0
    for place, file in enumerate(job.files):
        new = dict(file.known)
        rows = None
        lost = False
        for stored, stats in zip(file.scanned, found[place], strict=True):
            rows = stats.rows
            lost |= bool(stats.bad or stats.unbounded)
            values += stats.bad + stats.unbounded
            wanted = after_scan(stored, stats)
            if wanted is not None:
                new[stored.column] = wanted
        unbounded += lost
        by_name = {job.columns[column].physical: stats for column, stats in new.items()}
        action = (
            restated(file.add, by_name, rows=rows, has_vector=file.has_vector, geographies=_geographies(job.columns))
            if by_name
            else None
        )
        if action is not None:
            actions.append(action)
    metrics = {
        **change.metrics,
        "files_restated": len(actions),
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
        # Delta's readers compare boxes as planes: one that wraps loses rows.
        stored={
            column.path: StoredBounds.of(snapshot, column.path, positions, records=records, may_wrap=False)
            for column in columns
        },
    )


def _decided(
    storage: Storage,
    snapshot: Snapshot,
    evidence: RepairEvidence,
    mendings: Sequence[Mending],
    *,
    columns: tuple[ScanColumn, ...],
    positions: NDArray[np.intp],
) -> tuple[list[str], tuple[ScanFile, ...]]:
    """The actions that are known already, and the files that have to be scanned first."""
    paths = evidence.paths
    vectors = np.asarray(pc.is_valid(snapshot.details.deletion_vectors).to_numpy(), np.bool_)[positions]
    records = _numbers(snapshot.details.stats.records)[positions]
    adds = pre_images(storage, snapshot.details.segment, [paths[one.place] for one in mendings])
    actions: list[str] = []
    files: list[ScanFile] = []
    for one in mendings:
        place, path = one.place, paths[one.place]
        add, has_vector = adds[path], bool(vectors[place])
        if one.scanned:
            size, known = int(evidence.sizes[place]), tuple(one.known.items())
            files.append(ScanFile(path, evidence.keys[place], size, add, has_vector, one.scanned, known))
            continue
        rows = None if evidence.rows is None else int(evidence.rows[place])
        by_name = {columns[number].physical: new for number, new in one.known.items()}
        counted = bool(records[place] >= 0)
        action = restated(
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
