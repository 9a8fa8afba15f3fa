"""Rewrite a set of Parquet files: cluster its rows, or compact its files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.changes.column_types import geo_sentences, lenient, take_geo_columns
from geolake_nb.changes.rewrite import files_to_compact, matching_files, rewrite_sentences, why_nothing
from geolake_nb.changes.write_job import WriteJob
from geolake_nb.errors import RefusedError
from geolake_nb.formats.detect import require_no_owner
from geolake_nb.formats.parquet_folder.commit import action, pending_change, require_folder, single_file
from geolake_nb.formats.parquet_folder.file_changes import FileState
from geolake_nb.formats.parquet_folder.write import (
    columns_with_geo_type,
    parquet_rows,
    partial_folders,
    require_one_type,
)
from geolake_nb.formats.parquet_folder.write_target import ParquetTarget, file_types
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.parquet.footer import read_footers
from geolake_nb.parquet.geo_property import CoveringColumn
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import bytes_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.changes.write_job import Packing, ParquetRows
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.parquet_folder.snapshot import ParquetDetails
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.parquet.geoparquet import GeoMetadata
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_rewrite"]

_UNBOUNDED = 1 << 50
"""A file size that no file reaches."""


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: Predicate | None = None,
    files: Sequence[int] | None = None,
    covering: bool = False,
    columns: Mapping[str, GeographyType | GeometryType] | None = None,
) -> Change:
    """The files that a rewrite removes, and the job that writes their rows; partition folders stay.

    Without columns to cluster by, only files are rewritten that are much smaller or larger than the target.
    `where` takes those that may match it. With `covering` the new files have a column with the box of each row.
    `columns` declares the types of WKB, EWKB or WKT columns; then all files are rewritten. A single file stays one.
    """
    require_no_owner(storage)
    pending = pending_change(storage, snapshot, Verb.REWRITE)
    if pending is not None:
        return pending
    location = snapshot.location
    require_folder(snapshot, "a rewrite")
    _require_same_folders(snapshot)
    typed = dict(columns or {})
    if typed and where is not None:
        raise RefusedError("a column has one type in all partitions", where=location, remedy="leave the filter out")
    require_one_type(snapshot, typed)
    name = single_file(snapshot)
    if name is not None:
        packing = replace(packing, target_bytes=_UNBOUNDED)
    geo = take_geo_columns(snapshot.schema, typed, {}, where=location, keeps_crs=columns_with_geo_type(snapshot))
    schema, sentences = file_types(geo.schema, where=location)
    partitions = snapshot.partition_columns
    ordering = packing.ordering(schema, partitions)
    coverings = _coverings(snapshot, schema) if covering else ()
    chosen = matching_files(snapshot, where, files)
    if ordering is None and files is None and not coverings and not typed and name is None:
        chosen = files_to_compact(snapshot, chosen, packing.target_bytes)
    covered = json.dumps([bbox.name for bbox in coverings])
    parameters = packing.parameters(ordering, where) | {"covering": covered}
    if not len(chosen):
        notes = (why_nothing(snapshot, where),)
        return Change(Verb.REWRITE, snapshot.format, location, None, notes=notes, parameters=parameters)
    rows = parquet_rows(snapshot, chosen.tolist())
    job = WriteJob(
        rows=rows,
        schema=schema,
        target=ParquetTarget.of(
            schema,
            partitions,
            before=_shared_geo(snapshot),
            coverings=coverings,
            properties=snapshot.properties,
            name=name,
        ),
        partition_by=partitions,
        target_bytes=packing.target_bytes,
        geo_input=lenient(geo.inputs),
        ordering=ordering,
        row_group_rows=packing.row_group_rows,
        expected_rows=rows.rows,
    )
    size = sum(file.bytes for file in rows.files)
    return Change(
        Verb.REWRITE,
        snapshot.format,
        location,
        None,
        actions=_take_actions(storage, rows),
        job=job,
        notes=(
            *_notes(snapshot, job, chosen, size, name=name, where=where),
            *geo_sentences({path: input_ for path, input_ in geo.inputs.items() if path in typed}),
            *[f"The column {sentence}." for sentence in sentences],
            *[f"A new column {bbox.name!r} has the bounding box of each row of {bbox.column}." for bbox in coverings],
            *partial_folders(snapshot),
            f"The old files ({bytes_text(size)}) are kept in _geolake for undo.",
        ),
        reads=Reads(len(rows.files), size),
        undo="geolake undo restores the old files until the folder _geolake is removed",
        engines=engine_facts(snapshot),
        parameters=parameters,
        metrics={"files_removed": len(rows.files), "bytes_removed": size},
    )


def _notes(
    snapshot: Snapshot,
    job: WriteJob,
    chosen: NDArray[np.int64],
    size: int,
    *,
    name: str | None,
    where: Predicate | None,
) -> list[str]:
    if name is None:
        return rewrite_sentences(snapshot, job, chosen, size, where=where)
    order = "row order is kept" if job.ordering is None else f"sorted by {' and '.join(job.ordering.columns)}"
    return [f"{name} ({bytes_text(size)}) is rewritten as one file, {order}."]


def _take_actions(storage: Storage, rows: ParquetRows) -> list[str]:
    paths = [file.path for file in rows.files]
    footers = read_footers(storage, paths)
    states = [FileState.of(storage, path, footer) for path, footer in zip(paths, footers, strict=True)]
    return [action("take", state.to_dict()) for state in states]


def _coverings(snapshot: Snapshot, schema: Schema) -> tuple[CoveringColumn, ...]:
    """A bounding box column for each top-level geo column without one."""
    known = _shared_geo(snapshot)
    names = {field.name for field in schema.fields}
    made: list[CoveringColumn] = []
    for field in schema.fields:
        if not isinstance(field.type, GeometryType | GeographyType):
            continue
        column = None if known is None else known.columns.get(field.name)
        if column is not None and column.covering is not None:
            continue
        name = "bbox" if "bbox" not in names else f"{field.name}_bbox"
        while name in names:
            name += "_"
        names.add(name)
        made.append(CoveringColumn(field.name, name))
    return tuple(made)


def _shared_geo(snapshot: Snapshot) -> GeoMetadata | None:
    """The `geo` metadata that holds for all files: what they do not share is left out."""
    details: ParquetDetails = snapshot.details
    known = [metadata for metadata in details.geo if metadata is not None]
    if not known or len(known) < len(details.geo):
        return None
    first = known[0]
    columns = {
        name: column
        for name, column in first.columns.items()
        if all(name in metadata.columns and _lasting(metadata.columns[name]) == _lasting(column) for metadata in known)
    }
    if not columns:
        return None
    primary = first.primary_column if first.primary_column in columns else next(iter(columns))
    extra = {
        key: value for key, value in first.extra.items() if all(metadata.extra.get(key) == value for metadata in known)
    }
    return replace(first, columns=columns, primary_column=primary, extra=extra)


def _lasting(column: object) -> tuple[object, ...]:
    names = ("encoding", "crs", "algorithm", "orientation", "epoch", "covering", "extra")
    return tuple(getattr(column, name) for name in names)


def _require_same_folders(snapshot: Snapshot) -> None:
    """Raise where a partition column is also in the files: a rewrite cannot decide which value is right."""
    details: ParquetDetails = snapshot.details
    for name in snapshot.partition_columns:
        if any(view.find((name,)) is not None for view in details.views):
            raise RefusedError(
                f"the column {name!r} is in the files and in the names of their folders",
                where=snapshot.location,
                remedy="drop it from one of them",
            )
