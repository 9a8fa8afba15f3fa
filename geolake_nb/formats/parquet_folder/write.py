"""New sets of Parquet files, and appends to existing ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.changes.geo_columns import geo_sentences, lenient, take_geo_columns
from geolake_nb.changes.partition_keys import require_partition_columns
from geolake_nb.changes.row_matching import match_rows, require_same
from geolake_nb.changes.write_job import WriteJob
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.detect import require_no_owner, require_no_table
from geolake_nb.formats.parquet_folder.format import PARQUET
from geolake_nb.formats.parquet_folder.journal import read_journal
from geolake_nb.formats.parquet_folder.pending_changes import require_folder, single_file
from geolake_nb.formats.parquet_folder.source_rows import (
    columns_with_geo_type,
    parquet_rows,
    partial_folders,
    require_apart,
    require_one_type,
)
from geolake_nb.formats.parquet_folder.write_target import ParquetTarget, file_types
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.changes.packing import Packing
    from geolake_nb.changes.row_sources import InputRows, ParquetRows
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_append", "plan_convert", "plan_new"]


def plan_new(
    rows: InputRows,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The first files of a set, from given rows."""
    return _plan_files(
        Verb.WRITE,
        rows,
        rows.schema,
        target,
        columns=columns,
        partition_by=tuple(partition_by),
        packing=packing,
        properties=properties,
        notes=["A new folder of Parquet files gets the rows."],
        parameters={"mode": "create", "partitionBy": json.dumps(list(partition_by))},
    )


def plan_convert(
    snapshot: Snapshot,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """Another set with the rows of a Parquet set, in its own folder; the old one stays as it is."""
    require_apart(snapshot.location, target.location)
    require_one_type(snapshot, columns)
    rows = parquet_rows(snapshot)
    partitions = tuple(partition_by) or snapshot.partition_columns
    return _plan_files(
        Verb.CONVERT,
        rows,
        snapshot.schema,
        target,
        columns=columns,
        partition_by=partitions,
        packing=packing,
        properties=properties,
        notes=[
            f"A new folder gets the {rows.rows:,} rows of {len(rows.files):,} Parquet files.",
            *partial_folders(snapshot),
        ],
        parameters={"source": snapshot.location, "partitionBy": json.dumps(list(partitions))},
        expected_rows=rows.rows,
        reads=Reads(len(rows.files), sum(file.bytes for file in rows.files)),
    )


def plan_append(
    snapshot: Snapshot,
    rows: InputRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """New files for an existing set; `columns` may repeat the types of geo columns, and must not contradict them."""
    where = snapshot.location
    require_no_owner(snapshot.details.storage)
    require_folder(snapshot, "an append")
    if single_file(snapshot) is not None:
        raise RefusedError("expected a folder to add rows to, got a single file", where=where)
    storage: Storage = snapshot.details.storage
    if any(entry.outcome is None for entry in read_journal(storage)):
        raise RefusedError(
            "a change of the files was interrupted", where=where, remedy="run geolake repair to finish it"
        )
    require_one_type(snapshot, {})
    require_same(snapshot.schema, columns, where)
    geo = take_geo_columns(snapshot.schema, {}, {}, where=where, keeps_crs=columns_with_geo_type(snapshot))
    schema, _ = file_types(geo.schema, where=where)
    partitions = snapshot.partition_columns
    job = WriteJob(
        rows=rows,
        schema=schema,
        target=ParquetTarget.of(schema, partitions, properties=snapshot.properties),
        partition_by=partitions,
        target_bytes=packing.target_bytes,
        geo_input=lenient(match_rows(rows.schema, schema, where=where)),
        ordering=packing.ordering(schema, partitions),
        row_group_rows=packing.row_group_rows,
    )
    return Change(
        Verb.WRITE,
        PARQUET,
        where,
        None,
        job=job,
        notes=(f"New files are added to the existing {len(snapshot.files):,}.",),
        undo="geolake undo removes the new files",
        engines=engine_facts(snapshot),
        parameters={"mode": "append", "partitionBy": json.dumps(list(partitions))},
        blind_append=True,
    )


def _plan_files(
    verb: Verb,
    rows: InputRows | ParquetRows,
    given: Schema,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: tuple[str, ...],
    packing: Packing,
    properties: Mapping[str, str],
    notes: Sequence[str],
    parameters: Mapping[str, str],
    expected_rows: int | None = None,
    reads: Reads = Reads(),  # noqa: B008 - frozen
) -> Change:
    where = target.location
    require_no_table(target)
    # CRS definitions are stored in the files where needed: the properties here are the user's.
    geo = take_geo_columns(given, columns, {}, where=where)
    schema, sentences = file_types(geo.schema, where=where)
    _check_partitions(schema, partition_by, where)
    job = WriteJob(
        rows=rows,
        schema=schema,
        target=ParquetTarget.of(schema, partition_by, properties=properties),
        partition_by=partition_by,
        target_bytes=packing.target_bytes,
        geo_input=lenient(geo.inputs),
        ordering=packing.ordering(schema, partition_by),
        row_group_rows=packing.row_group_rows,
        expected_rows=expected_rows,
    )
    return Change(
        verb,
        PARQUET,
        where,
        None,
        job=job,
        notes=(*notes, *geo_sentences(geo.inputs), *[f"The column {sentence}." for sentence in sentences]),
        reads=reads,
        undo="geolake undo removes the files",
        parameters=dict(parameters),
        blind_append=True,
    )


def _check_partitions(schema: Schema, partition_by: Sequence[str], where: str) -> None:
    require_partition_columns(schema, partition_by, where)
    if set(partition_by) >= {field.name for field in schema.fields}:
        raise SchemaError("a file needs a column that is not a partition column", where=where)
