"""New Havasu tables, appends, overwrites, repairs, rewrites, and the way back."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.cell_columns import appended_cells
from geolake_nb.changes.repair.bound_sources import ScanJob
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.detect import require_no_table
from geolake_nb.formats.havasu.format import HAVASU
from geolake_nb.formats.havasu.metadata import DEFAULT_VERSION, VERSION_KEY, following_path
from geolake_nb.formats.havasu.write_target import HavasuTarget, fitting_inputs, havasu_sentences, new_columns
from geolake_nb.formats.iceberg.first_version import new_metadata
from geolake_nb.formats.iceberg.partitions import partition_fields, partition_ids, row_partitions
from geolake_nb.formats.iceberg.repair import bounded_columns, repair_change
from geolake_nb.formats.iceberg.rewrite import plan_snapshot_rewrite
from geolake_nb.formats.iceberg.schema import to_iceberg_schema
from geolake_nb.formats.iceberg.undo import plan_rollback
from geolake_nb.formats.iceberg.writability import require_writable as require_current
from geolake_nb.geo.bound_codec import to_havasu_wkb
from geolake_nb.model.change import Change, Verb
from geolake_nb.scan.engines import engine_facts
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.repair.bound_sources import Finish
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import GeographyType, GeometryType, RasterType
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    GeoType = GeometryType | GeographyType | RasterType

__all__ = [
    "base_action",
    "plan_append",
    "plan_create",
    "plan_overwrite",
    "plan_repair",
    "plan_rewrite",
    "plan_undo",
    "require_writable",
]

_VERSION = "format-version"


def plan_create(new: NewTable) -> Change:
    """The commit that creates a Havasu table.

    The property `format-version` sets the Iceberg version: 1 or 2, which is the default. With the property
    `geolake.geoparquet-metadata=true`, readers of GeoParquet can read the data files.
    """
    require_no_table(new.target)
    made = new_columns(new.schema, new.columns, where=new.where, properties=new.properties)
    metadata = _metadata(made.schema, new.partition_by, {**made.properties, **new.properties}, where=new.location)
    target = HavasuTarget(made.schema, partition_ids(new.partition_by), 0, metadata["properties"])
    return new.change(
        HAVASU,
        new.job(made.schema, target, geo_input=made.inputs),
        title="A new Havasu table",
        actions=[json.dumps({"create": metadata}, separators=(",", ":"), ensure_ascii=False)],
        notes=[*havasu_sentences(made.schema, made.inputs), *(f"The column {sentence}." for sentence in made.notes)],
    )


def plan_append(
    snapshot: Snapshot,
    rows: InputRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """The commit that adds rows; `columns` declares the CRS of geometries without an SRID."""
    require_writable(snapshot)
    partitions = row_partitions(snapshot)
    job = packing.job(
        rows,
        snapshot.schema,
        HavasuTarget.of(snapshot, partitions.fields, computed=partitions.keys),
        partition_by=tuple(partitions.fields),
        geo_input=fitting_inputs(
            rows.schema, snapshot.schema, columns, where=snapshot.location, properties=snapshot.properties
        ),
        keys=partitions.keys,
        cells=appended_cells(snapshot),
    )
    return Change(
        Verb.WRITE,
        HAVASU,
        snapshot.location,
        snapshot.version,
        actions=[base_action(snapshot)],
        job=job,
        notes=("Rows are added to the table.",),
        engines=engine_facts(snapshot),
        parameters={"mode": "append"},
        blind_append=True,
    )


def plan_overwrite(snapshot: Snapshot, rows: InputRows, *, columns: Mapping[str, GeoType], packing: Packing) -> Change:
    """The commit that replaces all rows; the schema and the partitions stay.

    The options are those of `plan_append`.
    """
    paths = snapshot.files.table["path"].to_pylist()
    size = sum(snapshot.files.table["bytes"].to_pylist())
    removes = [json.dumps({"remove": {"path": path}}, ensure_ascii=False) for path in paths]
    append = plan_append(snapshot, rows, columns=columns, packing=packing)
    return replace(
        append,
        actions=[*append.actions, *removes],
        notes=(f"The rows of all {plural(len(paths), 'file')} are replaced by new ones.",),
        undo="geolake undo reverts it until the old snapshot is expired",
        parameters={"mode": "overwrite"},
        metrics={"files_removed": len(paths), "bytes_removed": size},
        tolerates_appends=False,
        blind_append=False,
    )


def require_writable(snapshot: Snapshot) -> None:
    """Raise unless the table can be changed: in a file-system catalog, with Parquet files only."""
    details: IcebergDetails = snapshot.details
    where = snapshot.location
    require_current(snapshot)
    following_path(details.metadata_path, where=where)
    formats = {str(format_) for format_ in snapshot.files.table["format"].to_pylist()} - {"PARQUET"}
    if formats:
        # Havasu, Rationale: data types are mapped for Parquet alone.
        what = f"data files in {', '.join(sorted(formats))}: Havasu supports Parquet only"
        raise RefusedError(what, where=where)


def base_action(snapshot: Snapshot) -> str:
    """The state that the table must still have when the change is committed."""
    details: IcebergDetails = snapshot.details
    base = {
        "uuid": details.raw.get("table-uuid"),
        "schema": details.metadata.current_schema_id,
        "spec": details.metadata.default_spec_id,
        "version": details.format_version,
    }
    return json.dumps({"base": base})


def _metadata(
    schema: Schema, partition_by: Sequence[str], properties: Mapping[str, str], *, where: str
) -> dict[str, Any]:
    """The metadata of a table without snapshots; its id, location and time come with the commit."""
    version = properties.get(_VERSION, "2").strip()
    if version not in ("1", "2"):
        # Havasu, Rationale: it is not applicable to later versions of Iceberg.
        what = f"Havasu extends the versions 1 and 2 of Iceberg, not {version[:40]!r}"
        raise RefusedError(what, where=where, remedy="write format='iceberg' for version 3")
    if not schema.fields:
        raise SchemaError("a table needs at least one column", where=where)
    fields = partition_fields(schema, partition_by, where=where)
    written = to_iceberg_schema(schema, havasu=True)
    last = max(field.id or 0 for _, field in schema.walk_parts())
    metadata = new_metadata(written, version=int(version), last_column_id=last, fields=fields)
    kept = {key: text for key, text in properties.items() if key != _VERSION}
    return {**metadata, VERSION_KEY: DEFAULT_VERSION, "properties": kept}


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
) -> Change:
    """Repair bounds that are missing or cannot be read; with `verify`, also those that contradict the data.

    Havasu's Parquet files have no boxes, so values are read; of rasters only the metadata, never pixels.
    """
    require_writable(snapshot)
    chosen, notes = bounded_columns(snapshot, columns)
    change = repair_change(
        storage, snapshot, chosen, notes, encode=to_havasu_wkb, verify=verify, footers=False, on_progress=on_progress
    )
    if not isinstance(change.job, ScanJob) or change.job.finish is None:
        return change
    finish = functools.partial(_finish, change.job.finish, base_action(snapshot))
    return replace(change, job=replace(change.job, finish=finish))


def _finish(
    finish: Finish, base: str, change: Change, job: ScanJob, scanned_stats: Mapping[int, Sequence[ColumnStats]]
) -> Change:
    """The change with the results of the scan; where all bounds are correct, there is nothing to commit."""
    done = finish(change, job, scanned_stats)
    return replace(done, actions=[base, *done.actions]) if done.actions else done


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: Predicate | None = None,
    files: Sequence[int] | None = None,
) -> Change:
    """The files that a rewrite removes, and the job that writes their rows; files stay in their partitions."""
    require_writable(snapshot)
    return plan_snapshot_rewrite(
        snapshot,
        packing=packing,
        where=where,
        files=files,
        target_of=lambda tuples: HavasuTarget.of(snapshot, {}, tuples=tuples),
        first=(base_action(snapshot),),
    )


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Go back to the parent of a snapshot, which has to be the current one; by default of this toolkit's newest."""
    require_writable(snapshot)
    return plan_rollback(snapshot, version, first=(base_action(snapshot),))
