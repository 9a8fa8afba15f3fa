"""An Iceberg table of version 3 over the data files of a Havasu table, which stays as it is.

Only metadata is written: manifests with the bounds of Iceberg in place of those of Havasu. Files keep their sequence
numbers, so that the delete files of the table still apply, their partitions and the ids of their columns.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.changes.column_types import geo_sentences, take_geo_columns, through_structs
from geolake_nb.changes.repair.bound_sources import NewStats
from geolake_nb.changes.repair.evidence import repair_columns
from geolake_nb.errors import AlreadyThereError, ConflictError, RefusedError
from geolake_nb.formats.base import Applied
from geolake_nb.formats.detect import require_no_table
from geolake_nb.formats.havasu.commit import find_commit
from geolake_nb.formats.havasu.convert import kept_columns, known_columns
from geolake_nb.formats.havasu.manifest_writing import rewritten_manifest
from geolake_nb.formats.havasu.snapshot_writing import manifest_list_of
from geolake_nb.formats.iceberg.first_version import HINT, FirstVersion, name_mapping_text
from geolake_nb.formats.iceberg.format import ICEBERG
from geolake_nb.formats.iceberg.location import PathMap
from geolake_nb.formats.iceberg.metadata import read_metadata, unpacked_metadata
from geolake_nb.formats.iceberg.repair import update_bounds
from geolake_nb.formats.iceberg.schema import NAME_MAPPING, name_mapping, to_iceberg_schema
from geolake_nb.formats.parquet_folder.publish import PublishedFile, PublishJob
from geolake_nb.formats.parquet_folder.write import require_apart
from geolake_nb.geo.bound_codec import to_iceberg_bytes
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.file_table import physical_rows
from geolake_nb.model.schema import join_path
from geolake_nb.model.snapshot import Protocol
from geolake_nb.model.types import GeometryEncoding, GeometryType
from geolake_nb.scan.engines import published_facts
from geolake_nb.storage.writing import storage_put
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.formats.havasu.manifest_writing import ListedManifest
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.formats.parquet_folder.publish import Entry
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import GeoType
    from geolake_nb.scan.value_scan import ScanColumn
    from geolake_nb.storage.storage import Storage

__all__ = ["IN_PLACE", "commit_in_place", "find_in_place", "plan_in_place"]

IN_PLACE = "inPlace"
"""The parameter of a change that writes metadata over the files of another table."""
_COPIED = "run geolake convert without --in-place, which writes the values anew"
_KEPT_KEYS = (
    "last-column-id", "partition-specs", "default-spec-id", "last-partition-id", "sort-orders", "default-sort-order-id",
)  # fmt: skip


def plan_in_place(
    snapshot: Snapshot,
    storage: Storage,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    leave_out: Collection[str] = (),
) -> Change:
    """The metadata of an Iceberg table of version 3 over the files of a Havasu table; `storage` reads those.

    Every geometry is read: for its bounds, and because Iceberg's are ISO WKB without SRIDs.
    """
    where = snapshot.location
    require_no_table(target)
    require_apart(where, target.location)
    _require_at_home(snapshot)
    kept = kept_columns(snapshot, leave_out)
    _require_plain_wkb(kept, where)
    types, notes = known_columns(snapshot, storage, kept, columns)
    details: IcebergDetails = snapshot.details
    properties = {key: text for key, text in snapshot.properties.items() if not key.startswith("havasu.")}
    # Two tables have the same files: neither may delete what it no longer lists.
    properties["gc.enabled"] = "false"
    geo = take_geo_columns(kept, types, properties, where=where)
    schema = replace(geo.schema, metadata=kept.metadata, identifier_field_ids=kept.identifier_field_ids)
    if NAME_MAPPING not in properties and name_mapping(snapshot) is not None:
        properties = {**geo.properties, NAME_MAPPING: name_mapping_text(schema)}
    chosen, _ = repair_columns(snapshot, list(geo.inputs), lambda parts, repeated: None)
    files = _files(snapshot, chosen)
    raw = details.raw
    specs = raw.get("partition-specs") or [{"spec-id": 0, "fields": raw.get("partition-spec", [])}]
    metadata = {
        "format-version": 3,
        "last-sequence-number": int(raw.get("last-sequence-number", 0)),
        "next-row-id": 0,
        **{key: raw[key] for key in _KEPT_KEYS if key in raw},
        "partition-specs": specs,
        "schemas": [to_iceberg_schema(replace(schema, schema_id=details.metadata.current_schema_id))],
        "current-schema-id": details.metadata.current_schema_id,
        "properties": dict(properties),
        "current-snapshot-id": -1, "refs": {}, "snapshots": [], "snapshot-log": [], "metadata-log": [],
    }  # fmt: skip
    source = {"metadata": f"{where}/{details.metadata_path}", "snapshot": snapshot.version}
    table = replace(snapshot, format=ICEBERG, schema=schema, protocol=Protocol("format version 3"))
    deletes = len(details.delete_files)
    return Change(
        Verb.CONVERT,
        ICEBERG,
        target.location,
        None,
        actions=[_dumped({"create": metadata}), _dumped({"source": source})],
        job=PublishJob(files, _entry_of(chosen), remedy=_COPIED) if files else None,
        notes=(
            f"An Iceberg table of version 3 gets the {plural(len(snapshot.files), 'file')} of the Havasu table {where}"
            " as they are: only metadata is written.",
            *geo_sentences(geo.inputs),
            *notes,
            *([f"{plural(deletes, 'delete file')} of version 2 still apply."] if deletes else []),
            f"The values of geo columns are read for bounds in {plural(len(files), 'file')}.",
            "The files do not declare the geo types: see below which engines fail on these columns.",
            f"Open the new table with --allow-root {where}: its files lie there.",
            f"The table {where} stays as it is, and its history stays there. Both list the same files, so the new one"
            " has gc.enabled=false: set it to true once the old one is removed without its files.",
        ),
        reads=Reads(len(files), sum(file.bytes for file in files)),
        undo="remove the folder of the new table: it has metadata alone",
        engines=published_facts(table, typed=False),
        parameters={"source": where, IN_PLACE: "true"},
        metrics={"files_published": len(snapshot.files)},
        tolerates_appends=False,
    )


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _require_at_home(snapshot: Snapshot) -> None:
    """Refuse a table that was moved: the new one would list its files where they were."""
    stated = snapshot.details.metadata.location
    if PathMap(snapshot.location, snapshot.location).key(f"{stated.rstrip('/')}/a") != "a":
        raise RefusedError(
            f"the metadata of the table says that its location is {stated}", where=snapshot.location, remedy=_COPIED
        )


def _require_plain_wkb(schema: Schema, where: str) -> None:
    for path, field in schema.walk_parts():
        if not isinstance(field.type, GeometryType):
            continue
        there = f"{where}, column {join_path(path)}"
        if field.type.encoding is not GeometryEncoding.WKB:
            what = f"the column holds {field.type.encoding.name} values, and Iceberg's are WKB"
            raise RefusedError(what, where=there, remedy=_COPIED)
        if not through_structs(schema, path):
            what = "geometries inside lists and maps are not converted"
            raise RefusedError(what, where=there, remedy="leave the column out with --leave-out")


def _files(snapshot: Snapshot, chosen: tuple[ScanColumn, ...]) -> tuple[PublishedFile, ...]:
    """The files with rows, all of whose geometries are read."""
    table = snapshot.files.table
    rows, sizes = physical_rows(table).to_numpy(), table["bytes"].to_pylist()
    paths = table["path"].to_pylist()
    return tuple(
        PublishedFile(index, paths[index], sizes[index], int(rows[index]), 0, {}, {}, {}, chosen)
        for index in np.flatnonzero(rows).tolist()
        if chosen
    )


def _entry_of(chosen: tuple[ScanColumn, ...]) -> Entry:
    def entry(file: PublishedFile, size: int, geo: Mapping[str, ColumnStats]) -> str:
        del size
        new = {number: NewStats(geo[column.path].box, None) for number, column in enumerate(chosen)}
        return update_bounds(file.path, chosen, new, to_iceberg_bytes)

    return entry


def find_in_place(change: Change, context: CommitContext) -> int | None:
    """The snapshot that already has the transaction, `None` if there is none."""
    return find_commit(context.storage, context.transaction)


def commit_in_place(change: Change, context: CommitContext) -> Applied:
    """Write the manifests, and then the metadata file, unless there is a table by now."""
    lines = [json.loads(text) for text in change.actions]
    (metadata,) = (line["create"] for line in lines if "create" in line)
    (source,) = (line["source"] for line in lines if "source" in line)
    wanted = {line["update_bounds"]["path"]: line["update_bounds"] for line in lines if "update_bounds" in line}
    storage = context.storage
    moment = time.time_ns() // 1_000_000
    first = FirstVersion(metadata, location=storage.location, transaction=context.transaction, moment=moment)
    manifests, deletes = _manifests(storage, source, first, wanted)
    files = first.files(
        manifests, verb=change.verb.value, deletes=deletes, summary={"geolake.source": source["metadata"]}
    )
    put = storage_put(storage, single_writer=context.single_writer)
    for path, data in files.items():
        if path == HINT:
            continue
        try:
            put(path, data)
        except AlreadyThereError:
            if path.endswith(".avro"):
                continue  # of an earlier attempt of the same transaction
            for written in files:
                if written.endswith(".avro"):
                    storage.remove(written)
            raise ConflictError("a table was created here meanwhile", where=storage.location,
                                remedy="choose another location") from None  # fmt: skip
    with suppress(AlreadyThereError):  # of a later version
        put(HINT, files[HINT])
    return Applied(first.snapshot_id, metrics=change.metrics)


def _manifests(
    storage: Storage, source: Mapping[str, Any], first: FirstVersion, wanted: Mapping[str, Any]
) -> tuple[list[ListedManifest], dict[str, int]]:
    """The manifests of data files with new bounds, then those of delete files, and the counts of the latter."""
    where = source["metadata"]
    old = read_metadata(unpacked_metadata(storage.read(where), where=where), where=where)
    snapshot = None if source["snapshot"] is None else old.snapshots.get(source["snapshot"])
    if source["snapshot"] is not None and snapshot is None:
        raise ConflictError("the snapshot of the plan is gone", where=where, remedy="plan again")
    listing = manifest_list_of(storage, str, snapshot, version=old.format_version, snapshot_id=first.snapshot_id)
    schema = {"schema": _dumped(first.table.schemas[first.table.current_schema_id]).encode(),
              "schema-id": str(first.table.current_schema_id).encode()}  # fmt: skip
    kinds: dict[int, list[ListedManifest]] = {0: [], 1: []}
    for record in listing.records:
        path = listing.value(record, 500)
        manifest = rewritten_manifest(
            storage.read(path),
            inherits=listing.numbers(record),
            version=3,
            snapshot_id=first.snapshot_id,
            removed=(),
            updated=wanted,
            where=path,
            header=schema,
        )
        content = listing.value(record, 517) or 0
        values = {502: listing.value(record, 502), 517: content, 507: listing.value(record, 507)}
        kinds[content].append(replace(manifest, values={**values, **manifest.values}))
    summary = {} if snapshot is None else snapshot.summary
    names = ("total-delete-files", "total-position-deletes", "total-equality-deletes")
    return [*kinds[0], *kinds[1]], {name: int(summary[name]) for name in names if summary.get(name, "").isdigit()}
