"""New Delta tables, and appends to existing ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.changes.geo_columns import geo_sentences, take_geo_columns
from geolake_nb.changes.row_matching import match_rows, require_same
from geolake_nb.changes.write_job import WriteJob, require_writable_types
from geolake_nb.formats.delta.column_types import delta_columns
from geolake_nb.formats.delta.create import NewTable, plan_create, with_indexed_geo
from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.formats.detect import require_no_table
from geolake_nb.formats.parquet_folder.source_rows import parquet_rows, partial_folders, require_apart, require_one_type
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.type_text import to_delta_text
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.changes.packing import Packing
    from geolake_nb.changes.row_sources import InputRows
    from geolake_nb.formats.delta.details import DeltaDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage

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
    """The commit that creates a Delta table from the rows; geo columns that the files declare are found automatically.

    `columns` adds or overrides some. Without `partition_by`, the folders of a partitioned set are used.
    """
    require_apart(snapshot.location, target.location)
    require_no_table(target)
    require_one_type(snapshot, columns)
    geo = take_geo_columns(snapshot.schema, columns, properties, where=snapshot.location)
    schema, sentences = delta_columns(geo.schema, where=snapshot.location)
    partitions = tuple(partition_by) or snapshot.partition_columns
    table_properties = with_indexed_geo(schema, geo.properties, partitions, geo.paths)
    table = NewTable(target.location, schema, partitions, table_properties)
    rows = parquet_rows(snapshot)
    return plan_create(
        Verb.CONVERT,
        table,
        rows,
        geo_input=geo.inputs,
        packing=packing,
        expected_rows=rows.rows,
        reads=Reads(len(rows.files), sum(file.bytes for file in rows.files)),
        notes=[
            f"A new Delta table gets the {rows.rows:,} rows of {len(rows.files):,} Parquet files.",
            *geo_sentences(geo.inputs),
            *[f"The column {sentence}." for sentence in sentences],
            *partial_folders(snapshot),
        ],
        parameters={
            "source": snapshot.location,
            "columns": json.dumps({path: to_delta_text(input_.type) for path, input_ in geo.inputs.items()}),
            "partitionBy": json.dumps(list(partitions)),
        },
    )


def plan_new(
    rows: InputRows,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that creates a Delta table from given rows."""
    require_no_table(target)
    geo = take_geo_columns(rows.schema, columns, properties, where=target.location)
    schema, sentences = delta_columns(geo.schema, where=target.location)
    table_properties = with_indexed_geo(schema, geo.properties, partition_by, geo.paths)
    table = NewTable(target.location, schema, tuple(partition_by), table_properties)
    return plan_create(
        Verb.WRITE,
        table,
        rows,
        geo_input=geo.inputs,
        packing=packing,
        reads=Reads(),
        notes=[
            "A new Delta table gets the rows.",
            *geo_sentences(geo.inputs),
            *[f"The column {sentence}." for sentence in sentences],
        ],
        parameters={"mode": "create", "partitionBy": json.dumps(list(partition_by))},
    )


def plan_append(
    snapshot: Snapshot,
    rows: InputRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """The commit that adds rows; `columns` may repeat the types of geo columns, and must not contradict them."""
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
        DELTA,
        where,
        snapshot.version,
        job=job,
        notes=(f"Rows are added to version {snapshot.version}.",),
        reads=Reads(),
        undo="geolake undo removes the new files",
        engines=engine_facts(snapshot),
        parameters={"mode": "append", "partitionBy": json.dumps(list(partitions))},
        blind_append=True,
    )
