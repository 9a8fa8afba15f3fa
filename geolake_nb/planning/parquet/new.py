"""New sets of Parquet files, and new rows for sets that are there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.parquet.journal import read_journal
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.parquet.sets import require_folder, single_file
from geolake_nb.planning.parquet.target import ParquetTarget, file_types
from geolake_nb.planning.writing.geo_columns import geo_sentences, lenient, take_geo_columns
from geolake_nb.planning.writing.job import WriteJob
from geolake_nb.planning.writing.parquet_rows import parquet_rows, partial_folders, require_apart, require_one_type
from geolake_nb.planning.writing.place import require_no_owner, require_no_table
from geolake_nb.planning.writing.row_matching import match_rows, require_same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.core.schema import Schema
    from geolake_nb.core.types import GeographyType, GeometryType
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.writing.packing import Packing
    from geolake_nb.planning.writing.row_sources import GivenRows, ParquetRows

    GeoType = GeometryType | GeographyType

__all__ = ["plan_append", "plan_convert", "plan_new"]


def plan_new(
    rows: GivenRows,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The files that a set starts with, made of rows that a user holds."""
    return _plan_files(
        Verb.WRITE,
        rows,
        rows.schema,
        target,
        columns=columns,
        partition_by=tuple(partition_by),
        packing=packing,
        properties=properties,
        says=["A new folder of Parquet files gets the rows."],
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
        says=[
            f"A new folder gets the {rows.rows:,} rows of {len(rows.files):,} Parquet files.",
            *partial_folders(snapshot),
        ],
        parameters={"source": snapshot.location, "partitionBy": json.dumps(list(partitions))},
        expected_rows=rows.rows,
        reads=Reads(len(rows.files), sum(one.bytes for one in rows.files)),
    )


def plan_append(
    snapshot: Snapshot,
    rows: GivenRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """New files for a set that is there; `columns` may repeat the types of geo columns, and must not say otherwise."""
    where = snapshot.location
    require_no_owner(snapshot.details.storage)
    require_folder(snapshot, "an append")
    if single_file(snapshot) is not None:
        raise RefusedError("rows are added to a folder of files, and this is a single one", where=where)
    storage: Storage = snapshot.details.storage
    if any(entry.outcome is None for entry in read_journal(storage)):
        raise RefusedError("a change of the set was cut short", where=where, remedy="run geolake repair to end it")
    require_one_type(snapshot, {})
    require_same(snapshot.schema, columns, where)
    geo = take_geo_columns(snapshot.schema, {}, {}, where=where)
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
        TableFormat.PARQUET,
        where,
        None,
        job=job,
        says=(f"New files are put beside the {len(snapshot.files):,} that are there.",),
        undo="geolake undo takes the new files out again",
        engines=engine_facts(snapshot),
        parameters={"mode": "append", "partitionBy": json.dumps(list(partitions))},
        blind_append=True,
    )


def _plan_files(
    verb: Verb,
    rows: GivenRows | ParquetRows,
    given: Schema,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: tuple[str, ...],
    packing: Packing,
    properties: Mapping[str, str],
    says: Sequence[str],
    parameters: Mapping[str, str],
    expected_rows: int | None = None,
    reads: Reads = Reads(),  # noqa: B008 - frozen
) -> Change:
    where = target.location
    require_no_table(target)
    # The definitions of CRSs stand in the files where they are needed: the properties here are the user's.
    geo = take_geo_columns(given, columns, {}, where=where)
    schema, told = file_types(geo.schema, where=where)
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
        TableFormat.PARQUET,
        where,
        None,
        job=job,
        says=(*says, *geo_sentences(geo.inputs), *[f"The column {sentence}." for sentence in told]),
        reads=reads,
        undo="geolake undo takes the files out again",
        parameters=dict(parameters),
        blind_append=True,
    )


def _check_partitions(schema: Schema, partition_by: Sequence[str], where: str) -> None:
    known = {one.name for one in schema.fields}
    for name in partition_by:
        if name not in known:
            remedy = f"use one of: {', '.join(sorted(known))}"
            raise SchemaError(f"there is no column {name!r} to partition by", where=where, remedy=remedy)
    if set(partition_by) >= known:
        raise SchemaError("a file needs a column that is no partition column", where=where)
