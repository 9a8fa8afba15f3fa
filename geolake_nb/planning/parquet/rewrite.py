"""The rows of a set of Parquet files in new files: near each other, or just in files of a better size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.core.types import GeographyType, GeometryType
from geolake_nb.errors import RefusedError
from geolake_nb.formats.parquet.covering import CoveringColumn
from geolake_nb.formats.parquet.footer_change import FileState
from geolake_nb.formats.parquet.replace import action
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.parquet.sets import pending_change, require_folder, single_file
from geolake_nb.planning.parquet.target import ParquetTarget, file_types
from geolake_nb.planning.scan.explanation_text import bytes_text
from geolake_nb.planning.writing.geo_columns import lenient, take_geo_columns
from geolake_nb.planning.writing.job import WriteJob
from geolake_nb.planning.writing.parquet_rows import parquet_rows, partial_folders, require_one_type
from geolake_nb.planning.writing.place import require_no_owner
from geolake_nb.planning.writing.rewrite_scope import ill_sized, in_partitions, rewrite_sentences, why_nothing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.core.geoparquet import GeoMetadata
    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.parquet.files import ParquetDetails
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.writing.packing import Packing
    from geolake_nb.planning.writing.row_sources import ParquetRows

__all__ = ["plan_rewrite"]

_UNBOUNDED = 1 << 50
"""A file size that nothing reaches."""


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: str | None = None,
    covering: bool = False,
) -> Change:
    """What a rewrite takes away, and the job that writes the same rows again; the folders of partitions stay.

    Without columns to cluster by, only files are written again that are much smaller or larger than the target.
    `where` chooses partitions. With `covering` the new files have a column with the box of each row. A single file
    stays one.
    """
    require_no_owner(storage)
    pending = pending_change(storage, snapshot, Verb.REWRITE)
    if pending is not None:
        return pending
    location = snapshot.location
    require_folder(snapshot, "a rewrite")
    _require_same_folders(snapshot)
    require_one_type(snapshot, {})
    name = single_file(snapshot)
    if name is not None:
        packing = replace(packing, target_bytes=_UNBOUNDED)
    geo = take_geo_columns(snapshot.schema, {}, {}, where=location)
    schema, told = file_types(geo.schema, where=location)
    partitions = snapshot.partition_columns
    ordering = packing.ordering(schema, partitions)
    coverings = _coverings(snapshot, schema) if covering else ()
    chosen = in_partitions(snapshot, where)
    if ordering is None and not coverings and name is None:
        chosen = ill_sized(snapshot, chosen, packing.target_bytes)
    covered = json.dumps([one.name for one in coverings])
    parameters = packing.parameters(ordering, where) | {"covering": covered}
    if not len(chosen):
        says = (why_nothing(snapshot, where),)
        return Change(Verb.REWRITE, snapshot.format, location, None, says=says, parameters=parameters)
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
    size = sum(one.bytes for one in rows.files)
    return Change(
        Verb.REWRITE,
        snapshot.format,
        location,
        None,
        actions=_takes(storage, rows),
        job=job,
        says=(
            *_says(snapshot, job, chosen, size, name=name),
            *[f"The column {sentence}." for sentence in told],
            *[f"A column {one.name!r} has the box of each row of {one.column}." for one in coverings],
            *partial_folders(snapshot),
            f"The old files ({bytes_text(size)}) are kept in _geolake for undo.",
        ),
        reads=Reads(len(rows.files), size),
        undo="geolake undo puts the old files back, until the folder _geolake is removed",
        engines=engine_facts(snapshot),
        parameters=parameters,
        metrics={"files_removed": len(rows.files), "bytes_removed": size},
    )


def _says(snapshot: Snapshot, job: WriteJob, chosen: NDArray[np.int64], size: int, *, name: str | None) -> list[str]:
    if name is None:
        return rewrite_sentences(snapshot, job, chosen, size)
    order = "about as they are" if job.ordering is None else f"in order by {' and '.join(job.ordering.columns)}"
    return [f"{name} ({bytes_text(size)}) is written again as one file, its rows {order}."]


def _takes(storage: Storage, rows: ParquetRows) -> list[str]:
    paths = [one.path for one in rows.files]
    footers = storage.parquet_footers(paths)
    states = [FileState.of(storage, path, footer) for path, footer in zip(paths, footers, strict=True)]
    return [action("take", state.to_dict()) for state in states]


def _coverings(snapshot: Snapshot, schema: Schema) -> tuple[CoveringColumn, ...]:
    """A column of boxes for each geo column at the top that has none."""
    known = _shared_geo(snapshot)
    names = {one.name for one in schema.fields}
    made: list[CoveringColumn] = []
    for one in schema.fields:
        if not isinstance(one.type, GeometryType | GeographyType):
            continue
        column = None if known is None else known.columns.get(one.name)
        if column is not None and column.covering is not None:
            continue
        name = "bbox" if "bbox" not in names else f"{one.name}_bbox"
        while name in names:
            name += "_"
        names.add(name)
        made.append(CoveringColumn(one.name, name))
    return tuple(made)


def _shared_geo(snapshot: Snapshot) -> GeoMetadata | None:
    """The `geo` metadata that holds for all files: what they do not share is left out."""
    details: ParquetDetails = snapshot.details
    known = [one for one in details.geo if one is not None]
    if not known or len(known) < len(details.geo):
        return None
    first = known[0]
    columns = {
        name: column
        for name, column in first.columns.items()
        if all(name in one.columns and _lasting(one.columns[name]) == _lasting(column) for one in known)
    }
    if not columns:
        return None
    primary = first.primary_column if first.primary_column in columns else next(iter(columns))
    extra = {key: value for key, value in first.extra.items() if all(one.extra.get(key) == value for one in known)}
    return replace(first, columns=columns, primary_column=primary, extra=extra)


def _lasting(column: object) -> tuple[object, ...]:
    names = ("encoding", "crs", "algorithm", "orientation", "epoch", "covering", "extra")
    return tuple(getattr(column, name) for name in names)


def _require_same_folders(snapshot: Snapshot) -> None:
    """Raise where a partition column is in the files too: which of the two counts is not for a rewrite to say."""
    details: ParquetDetails = snapshot.details
    for name in snapshot.partition_columns:
        if any(view.find((name,)) is not None for view in details.views):
            raise RefusedError(
                f"the column {name!r} is in the files and in the names of their folders",
                where=snapshot.location,
                remedy="drop it from one of them",
            )
