"""New Delta tables, and new rows for those that are there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.core.type_text import to_delta_text
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.delta.creating import NewTable, plan_create, with_indexed_geo
from geolake_nb.planning.delta.target import DeltaTarget
from geolake_nb.planning.delta.types import delta_columns
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.writing.geo_columns import geo_sentences, take_geo_columns
from geolake_nb.planning.writing.job import WriteJob, require_writable_types
from geolake_nb.planning.writing.parquet_rows import parquet_rows, partial_folders, require_apart, require_one_type
from geolake_nb.planning.writing.place import require_no_table
from geolake_nb.planning.writing.row_matching import match_rows, require_same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.core.types import GeographyType, GeometryType
    from geolake_nb.formats.delta.details import DeltaDetails
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.writing.packing import Packing
    from geolake_nb.planning.writing.row_sources import GivenRows

    GeoType = GeometryType | GeographyType

__all__ = ["plan_append", "plan_convert", "plan_new"]


def plan_convert(
    snapshot: Snapshot,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that makes a Delta table of the rows; geo columns that the files name are taken by themselves.

    `columns` adds some or says otherwise. Without `partition_by`, the folders of a partitioned set count.
    """
    require_apart(snapshot.location, target.location)
    require_no_table(target)
    require_one_type(snapshot, columns)
    geo = take_geo_columns(snapshot.schema, columns, properties, where=snapshot.location)
    schema, told = delta_columns(geo.schema, where=snapshot.location)
    partitions = tuple(partition_by) or snapshot.partition_columns
    held = with_indexed_geo(schema, geo.properties, partitions, geo.paths)
    table = NewTable(target.location, schema, partitions, held)
    rows = parquet_rows(snapshot)
    return plan_create(
        Verb.CONVERT,
        table,
        rows,
        geo_input=geo.inputs,
        packing=packing,
        expected_rows=rows.rows,
        reads=Reads(len(rows.files), sum(one.bytes for one in rows.files)),
        says=[
            f"A new Delta table gets the {rows.rows:,} rows of {len(rows.files):,} Parquet files.",
            *geo_sentences(geo.inputs),
            *[f"The column {sentence}." for sentence in told],
            *partial_folders(snapshot),
        ],
        parameters={
            "source": snapshot.location,
            "columns": json.dumps({path: to_delta_text(one.type) for path, one in geo.inputs.items()}),
            "partitionBy": json.dumps(list(partitions)),
        },
    )


def plan_new(
    rows: GivenRows,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that makes a Delta table of rows that a user holds."""
    require_no_table(target)
    geo = take_geo_columns(rows.schema, columns, properties, where=target.location)
    schema, told = delta_columns(geo.schema, where=target.location)
    held = with_indexed_geo(schema, geo.properties, partition_by, geo.paths)
    table = NewTable(target.location, schema, tuple(partition_by), held)
    return plan_create(
        Verb.WRITE,
        table,
        rows,
        geo_input=geo.inputs,
        packing=packing,
        reads=Reads(),
        says=[
            "A new Delta table gets the rows.",
            *geo_sentences(geo.inputs),
            *[f"The column {sentence}." for sentence in told],
        ],
        parameters={"mode": "create", "partitionBy": json.dumps(list(partition_by))},
    )


def plan_append(
    snapshot: Snapshot,
    rows: GivenRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """The commit that adds rows; `columns` may repeat the types of geo columns, and must not say otherwise."""
    details: DeltaDetails = snapshot.details
    where = snapshot.location
    require_writable(snapshot.protocol, details.metadata, doing=Doing.APPEND, where=where)
    require_writable_types(snapshot.schema, where=where)
    require_same(snapshot.schema, columns, where)
    inputs = match_rows(rows.schema, snapshot.schema, where=where)
    partitions = snapshot.partition_columns
    job = WriteJob(
        rows=rows,
        schema=snapshot.schema,
        target=DeltaTarget.of(snapshot, data_change=True),
        partition_by=partitions,
        geo_input=inputs,
        ordering=packing.ordering(snapshot.schema, partitions),
        target_bytes=packing.target_bytes,
        row_group_rows=packing.row_group_rows,
    )
    return Change(
        Verb.WRITE,
        TableFormat.DELTA,
        where,
        snapshot.version,
        job=job,
        says=(f"Rows are added to version {snapshot.version}.",),
        reads=Reads(),
        undo="geolake undo takes the new files out again",
        engines=engine_facts(snapshot),
        parameters={"mode": "append", "partitionBy": json.dumps(list(partitions))},
        blind_append=True,
    )
