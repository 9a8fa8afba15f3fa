"""New Iceberg tables, and new rows for those that are there."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema_iceberg import to_iceberg_schema
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.havasu.new import partition_field
from geolake_nb.planning.iceberg.columns import iceberg_columns, with_fresh_ids
from geolake_nb.planning.iceberg.forgetting import forgetting_sentences
from geolake_nb.planning.iceberg.target import IcebergTarget
from geolake_nb.planning.iceberg.writability import require_writable
from geolake_nb.planning.writing.geo_columns import geo_sentences, lenient, take_geo_columns
from geolake_nb.planning.writing.job import WriteJob, require_writable_types
from geolake_nb.planning.writing.parquet_rows import parquet_rows, partial_folders, require_apart, require_one_type
from geolake_nb.planning.writing.partition_keys import row_partitions
from geolake_nb.planning.writing.place import require_no_table
from geolake_nb.planning.writing.row_matching import match_rows, require_same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.core.schema import Schema
    from geolake_nb.core.types import GeographyType, GeometryType
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.writing.job import GeoInput
    from geolake_nb.planning.writing.packing import Packing
    from geolake_nb.planning.writing.row_sources import GivenRows, ParquetRows

    GeoType = GeometryType | GeographyType

__all__ = ["plan_append", "plan_convert", "plan_new"]

_VERSION = "format-version"
_GEO_VERSION = 3


@dataclass(frozen=True, slots=True, eq=False)
class _New:
    """A table that is to be."""

    location: str
    schema: Schema
    inputs: Mapping[str, GeoInput]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    says: tuple[str, ...]

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
        schema, told = iceberg_columns(geo.schema, where=location)
        if not schema.fields:
            raise SchemaError("a table needs a column, and there is none", where=location)
        schema = with_fresh_ids(schema)
        held = dict(geo.properties)
        if schema.geo_columns():
            version = held.setdefault(_VERSION, str(_GEO_VERSION)).strip()
            if version != str(_GEO_VERSION):
                what = f"geo columns need format version {_GEO_VERSION}, not {version[:40]!r}"
                raise RefusedError(what, where=location, remedy="leave the property format-version out")
        says = (*geo_sentences(geo.inputs), *[f"The column {sentence}." for sentence in told])
        return cls(location, schema, lenient(geo.inputs), tuple(partition_by), held, says)

    @property
    def action(self) -> str:
        """What makes the table: its schema, its partition spec and its properties."""
        fields = [
            partition_field(self.schema, name, place, self.location) for place, name in enumerate(self.partition_by)
        ]
        if len({one["source-id"] for one in fields}) < len(fields):
            raise SchemaError("a partition column is named twice", where=self.location)
        made = {
            "schema": to_iceberg_schema(self.schema),
            "spec": {"spec-id": 0, "fields": fields},
            "properties": dict(self.properties),
        }
        return json.dumps({"create": made}, separators=(",", ":"), ensure_ascii=False)

    @property
    def target(self) -> IcebergTarget:
        """What its files are like."""
        ids = {name: 1000 + place for place, name in enumerate(self.partition_by)}
        return IcebergTarget(self.schema, ids, 0, self.properties)


def plan_new(
    rows: GivenRows,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that makes an Iceberg table of rows that a user holds: of version 3 where there are geo columns."""
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
    return _create(new, job, Verb.WRITE, says=["A new Iceberg table gets the rows."], parameters={"mode": "create"})


def plan_convert(
    snapshot: Snapshot,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that makes an Iceberg table of the rows of Parquet files; folders of partitions count."""
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
        says=[
            f"A new Iceberg table gets the {rows.rows:,} rows of {len(rows.files):,} Parquet files.",
            *partial_folders(snapshot),
        ],
        parameters={"source": snapshot.location},
    )
    return replace(change, reads=Reads(len(rows.files), sum(one.bytes for one in rows.files)))


def plan_append(
    snapshot: Snapshot,
    rows: GivenRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """The commit that adds rows; `columns` may repeat the types of geo columns, and must not say otherwise."""
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
        TableFormat.ICEBERG,
        snapshot.location,
        snapshot.version,
        actions=[json.dumps({"base": base})],
        job=job,
        says=("Rows are added to the table.", *forgetting_sentences(snapshot)),
        undo="geolake undo goes back to the snapshot before, as long as this one is the current one",
        engines=engine_facts(snapshot),
        parameters={"mode": "append", "partitionBy": json.dumps(partitions.described)},
        blind_append=True,
    )


def _create(new: _New, job: WriteJob, verb: Verb, *, says: Sequence[str], parameters: Mapping[str, str]) -> Change:
    return Change(
        verb,
        TableFormat.ICEBERG,
        new.location,
        None,
        actions=[new.action],
        job=None if job.expected_rows == 0 else job,
        says=(*says, *new.says),
        undo="remove the folder of the new table: there is no earlier version to go back to",
        parameters={**parameters, "partitionBy": json.dumps(list(new.partition_by))},
        tolerates_appends=False,
    )
