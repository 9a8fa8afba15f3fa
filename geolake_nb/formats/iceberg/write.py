"""New Iceberg tables, and appends to existing ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.column_types import geo_sentences, lenient, match_rows, require_same, take_geo_columns
from geolake_nb.changes.write_job import WriteJob, require_writable_types
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.detect import require_no_table
from geolake_nb.formats.havasu.write import partition_field
from geolake_nb.formats.iceberg.format import ICEBERG
from geolake_nb.formats.iceberg.partitions import row_partitions
from geolake_nb.formats.iceberg.schema import iceberg_columns, to_iceberg_schema, with_fresh_ids
from geolake_nb.formats.iceberg.writability import forgetting_sentences, require_writable
from geolake_nb.formats.iceberg.write_target import IcebergTarget
from geolake_nb.formats.parquet_folder.write import parquet_rows, partial_folders, require_apart, require_one_type
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.changes.write_job import GeoInput, InputRows, Packing, ParquetRows
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_append", "plan_convert", "plan_new"]

_VERSION = "format-version"
_GEO_VERSION = 3


@dataclass(frozen=True, slots=True, eq=False)
class _New:
    """A new table."""

    location: str
    schema: Schema
    inputs: Mapping[str, GeoInput]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        given: Schema,
        columns: Mapping[str, GeoType],
        partition_by: Sequence[str],
        properties: Mapping[str, str],
        *,
        location: str,
    ) -> _New:
        geo = take_geo_columns(given, columns, properties, where=location)
        schema, sentences = iceberg_columns(geo.schema, where=location)
        if not schema.fields:
            raise SchemaError("a table needs at least one column", where=location)
        schema = with_fresh_ids(schema)
        table_properties = dict(geo.properties)
        if schema.geo_columns():
            version = table_properties.setdefault(_VERSION, str(_GEO_VERSION)).strip()
            if version != str(_GEO_VERSION):
                what = f"geo columns need format version {_GEO_VERSION}, not {version[:40]!r}"
                raise RefusedError(what, where=location, remedy="leave the property format-version out")
        notes = (*geo_sentences(geo.inputs), *[f"The column {sentence}." for sentence in sentences])
        return cls(location, schema, lenient(geo.inputs), tuple(partition_by), table_properties, notes)

    @property
    def action(self) -> str:
        """The action that creates the table: its schema, its partition spec and its properties."""
        fields = [
            partition_field(self.schema, name, index, self.location) for index, name in enumerate(self.partition_by)
        ]
        if len({field["source-id"] for field in fields}) < len(fields):
            raise SchemaError("a partition column is listed twice", where=self.location)
        made = {
            "schema": to_iceberg_schema(self.schema),
            "spec": {"spec-id": 0, "fields": fields},
            "properties": dict(self.properties),
        }
        return json.dumps({"create": made}, separators=(",", ":"), ensure_ascii=False)

    @property
    def target(self) -> IcebergTarget:
        """The target of its files."""
        ids = {name: 1000 + index for index, name in enumerate(self.partition_by)}
        return IcebergTarget(self.schema, ids, 0, self.properties)


def plan_new(
    rows: InputRows,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that creates an Iceberg table from given rows: of version 3 where there are geo columns."""
    require_no_table(target)
    new = _New.of(rows.schema, columns, partition_by, properties, location=target.location)
    job = WriteJob(
        rows=rows,
        schema=new.schema,
        target=new.target,
        partition_by=new.partition_by,
        geo_input=new.inputs,
        ordering=packing.ordering(new.schema, partition_by),
        target_bytes=packing.target_bytes,
        row_group_rows=packing.row_group_rows,
    )
    return _create(new, job, Verb.WRITE, notes=["A new Iceberg table gets the rows."], parameters={"mode": "create"})


def plan_convert(
    snapshot: Snapshot,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that creates an Iceberg table from the rows of Parquet files; partition folders become columns."""
    require_apart(snapshot.location, target.location)
    require_no_table(target)
    require_one_type(snapshot, columns)
    partitions = tuple(partition_by) or snapshot.partition_columns
    new = _New.of(snapshot.schema, columns, partitions, properties, location=target.location)
    rows: ParquetRows = parquet_rows(snapshot)
    job = WriteJob(
        rows=rows,
        schema=new.schema,
        target=new.target,
        partition_by=partitions,
        geo_input=new.inputs,
        ordering=packing.ordering(new.schema, partitions),
        target_bytes=packing.target_bytes,
        row_group_rows=packing.row_group_rows,
        expected_rows=rows.rows,
    )
    change = _create(
        new,
        job,
        Verb.CONVERT,
        notes=[
            f"A new Iceberg table gets the {rows.rows:,} rows of {len(rows.files):,} Parquet files.",
            *partial_folders(snapshot),
        ],
        parameters={"source": snapshot.location},
    )
    return replace(change, reads=Reads(len(rows.files), sum(file.bytes for file in rows.files)))


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
    job = WriteJob(
        rows=rows,
        schema=partitions.with_keys(snapshot.schema),
        target=IcebergTarget.of(snapshot, partitions.fields, computed=partitions.keys),
        partition_by=tuple(partitions.fields),
        geo_input=lenient(match_rows(rows.schema, snapshot.schema, where=snapshot.location)),
        keys=partitions.keys,
        ordering=packing.ordering(snapshot.schema, tuple(partitions.fields)),
        target_bytes=packing.target_bytes,
        row_group_rows=packing.row_group_rows,
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


def _create(new: _New, job: WriteJob, verb: Verb, *, notes: Sequence[str], parameters: Mapping[str, str]) -> Change:
    return Change(
        verb,
        ICEBERG,
        new.location,
        None,
        actions=[new.action],
        job=None if job.expected_rows == 0 else job,
        notes=(*notes, *new.notes),
        undo="remove the folder of the new table: there is no earlier version to go back to",
        parameters={**parameters, "partitionBy": json.dumps(list(new.partition_by))},
        tolerates_appends=False,
    )
