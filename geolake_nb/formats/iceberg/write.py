"""New Iceberg tables, and appends to existing ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.cell_columns import appended_cells
from geolake_nb.changes.column_types import geo_sentences, lenient, match_rows, require_same, take_geo_columns
from geolake_nb.changes.write_job import require_writable_types
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.detect import require_no_table
from geolake_nb.formats.iceberg.format import ICEBERG
from geolake_nb.formats.iceberg.partitions import partition_fields, partition_ids, row_partitions
from geolake_nb.formats.iceberg.schema import iceberg_columns, to_iceberg_schema, with_fresh_ids
from geolake_nb.formats.iceberg.writability import forgetting_sentences, require_writable
from geolake_nb.formats.iceberg.write_target import IcebergTarget
from geolake_nb.model.change import Change, Verb
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import GeoType

__all__ = ["plan_append", "plan_create"]

_VERSION = "format-version"
_GEO_VERSION = 3


def plan_create(new: NewTable) -> Change:
    """The commit that creates an Iceberg table: of version 3 where there are geo columns."""
    where = new.location
    require_no_table(new.target)
    geo = take_geo_columns(new.schema, new.columns, new.properties, where=where)
    schema, sentences = iceberg_columns(geo.schema, where=where)
    if not schema.fields:
        raise SchemaError("a table needs at least one column", where=where)
    schema = with_fresh_ids(schema)
    properties = dict(geo.properties)
    if schema.geo_columns():
        version = properties.setdefault(_VERSION, str(_GEO_VERSION)).strip()
        if version != str(_GEO_VERSION):
            what = f"geo columns need format version {_GEO_VERSION}, not {version[:40]!r}"
            raise RefusedError(what, where=where, remedy="leave the property format-version out")
    spec = {"spec-id": 0, "fields": partition_fields(schema, new.partition_by, where=where)}
    made = {"schema": to_iceberg_schema(schema), "spec": spec, "properties": properties}
    target = IcebergTarget(schema, partition_ids(new.partition_by), 0, properties)
    return new.change(
        ICEBERG,
        new.job(schema, target, geo_input=lenient(geo.inputs)),
        title="A new Iceberg table",
        actions=[json.dumps({"create": made}, separators=(",", ":"), ensure_ascii=False)],
        notes=[*geo_sentences(geo.inputs), *(f"The column {sentence}." for sentence in sentences)],
    )


def plan_append(
    snapshot: Snapshot,
    rows: InputRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """The commit that adds rows; `columns` may repeat the types of geo columns, and must not contradict them."""
    require_writable(snapshot)
    require_writable_types(snapshot.schema, where=snapshot.location)
    require_same(snapshot.schema, columns, snapshot.location)
    partitions = row_partitions(snapshot)
    job = packing.job(
        rows,
        snapshot.schema,
        IcebergTarget.of(snapshot, partitions.fields, computed=partitions.keys),
        partition_by=tuple(partitions.fields),
        geo_input=lenient(match_rows(rows.schema, snapshot.schema, where=snapshot.location)),
        keys=partitions.keys,
        cells=appended_cells(snapshot),
    )
    base: dict[str, Any] = {"schema": snapshot.details.metadata.current_schema_id}
    if snapshot.details.foreign_entry_fields:
        base["merges"] = False  # Iceberg would merge manifests by its own fields alone
    return Change(
        Verb.WRITE,
        ICEBERG,
        snapshot.location,
        snapshot.version,
        actions=[json.dumps({"base": base})],
        job=job,
        notes=("Rows are added to the table.", *forgetting_sentences(snapshot)),
        undo="geolake undo goes back to the previous snapshot, while this one is the current one",
        engines=engine_facts(snapshot),
        parameters={"mode": "append", "partitionBy": json.dumps(partitions.described)},
        blind_append=True,
    )
