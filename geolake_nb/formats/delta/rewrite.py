"""Rewrite a Delta table: cluster its rows, compact its files, or turn bytes and text into geometries."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from geolake_nb.changes.column_types import geo_encoding, geo_sentences, known_geo_type
from geolake_nb.changes.rewrite import files_to_compact, matching_files, rewrite_sentences, why_nothing
from geolake_nb.changes.write_job import TARGET_BYTES, DeltaRows, GeoInput, WriteJob, require_writable_types
from geolake_nb.errors import CorruptTableError, RefusedError
from geolake_nb.formats.delta.add_action import remove_action
from geolake_nb.formats.delta.constraints import require_unused
from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.delta.protocol import GEOSPATIAL_PREVIEWS, Doing, read_protocol, require_writable
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.formats.delta.write import (
    GEOSPATIAL,
    geospatial_step,
    metadata_text,
    protocol_text,
    upgraded_protocol,
    with_indexed_geo,
)
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.schema import join_path, split_path, type_name
from geolake_nb.model.types import GeographyType, GeometryType, StringType, StructType, to_delta_text
from geolake_nb.parquet.footer import read_metadata
from geolake_nb.scan.data_files import data_keys
from geolake_nb.scan.engines import engine_facts
from geolake_nb.text.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.changes.write_job import Packing
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.delta.details import DeltaDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field, GeoType
    from geolake_nb.storage.storage import Storage

__all__ = ["live_rows", "plan_enable", "plan_rewrite", "remove_actions", "require_read_partitions"]


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: Predicate | None = None,
    files: Sequence[int] | None = None,
) -> Change:
    """The files that a rewrite removes, and the job that writes their rows; partitions stay as they are.

    Without columns to cluster by, only files are rewritten that are much smaller or larger than the target, or that
    have many deleted rows. `where` takes those that may match it.
    """
    location, details = snapshot.location, snapshot.details
    require_writable(snapshot.protocol, details.metadata, doing=Doing.REWRITE, where=location)
    require_writable_types(snapshot.schema, where=location)
    require_read_partitions(snapshot)
    ordering = packing.ordering(snapshot.schema, snapshot.partition_columns)
    chosen = matching_files(snapshot, where, files)
    if ordering is None and files is None:
        chosen = files_to_compact(snapshot, chosen, packing.target_bytes)
    parameters = packing.parameters(ordering, where)
    if not len(chosen):
        return Change(
            Verb.REWRITE, snapshot.format, location, snapshot.version, notes=(why_nothing(snapshot, where),),
            parameters=parameters,
        )  # fmt: skip
    rows = DeltaRows(snapshot, None if len(chosen) == len(snapshot.files) else tuple(chosen.tolist()))
    job = WriteJob(
        rows=rows,
        schema=snapshot.schema,
        target=DeltaTarget.of(snapshot, data_change=False),
        partition_by=snapshot.partition_columns,
        target_bytes=packing.target_bytes,
        ordering=ordering,
        row_group_rows=packing.row_group_rows,
        expected_rows=_stated_rows(snapshot, chosen),
    )
    size = int(snapshot.files.table["bytes"].to_numpy()[chosen].sum())
    return Change(
        verb=Verb.REWRITE,
        format=snapshot.format,
        location=location,
        base_version=snapshot.version,
        actions=remove_actions(storage, rows),
        job=job,
        notes=tuple(rewrite_sentences(snapshot, job, chosen, size, where=where)),
        reads=Reads(len(chosen), size),
        undo="geolake undo reverts it until VACUUM removes the old files",
        engines=engine_facts(snapshot),
        parameters=parameters,
        metrics={"files_removed": len(chosen), "bytes_removed": size},
    )


def require_read_partitions(snapshot: Snapshot) -> None:
    """Raise RefusedError for a partition value that is not of its column's type: Spark would write null for it."""
    for name in snapshot.details.unread_partitions:
        raise RefusedError(
            f"the partition column {name[:60]!r} has a value that is not of its type",
            where=snapshot.location,
            remedy="the column partition."
            + name[:60]
            + " of its files shows it; overwrite those rows with Spark first",
        )


def remove_actions(storage: Storage, rows: DeltaRows, *, data_change: bool = False) -> list[str]:
    """The actions that remove the files of some rows, as the log lists these files."""
    wanted = rows.paths
    adds = raw_adds(storage, rows.snapshot.details.segment, None if rows.files is None else wanted)
    texts = dict(zip(adds["path"].to_pylist(), adds["add"].to_pylist(), strict=True))
    now = int(time.time() * 1000)
    return [remove_action(texts[path], data_change=data_change, deletion_timestamp=now) for path in wanted]


def live_rows(storage: Storage, rows: DeltaRows) -> int | None:
    """How many rows the files have by their footers, without deleted ones; `None` where that is unknown."""
    snapshot = rows.snapshot
    indices = range(len(snapshot.files)) if rows.files is None else rows.files
    keys = data_keys(snapshot)
    deleted = pc.sum(snapshot.files.table["deleted_rows"].take(list(indices)), skip_nulls=False, min_count=0).as_py()
    if deleted is None:
        return None
    total = sum(footer.num_rows for footer in read_metadata(storage, [keys[index] for index in indices]))
    return int(total - deleted)


def _stated_rows(snapshot: Snapshot, chosen: NDArray[np.int64]) -> int | None:
    """How many live rows there are by the log; `None` if some file has no count."""
    rows = pc.sum(snapshot.files.table["rows"].take(chosen), skip_nulls=False, min_count=0).as_py()
    return None if rows is None else int(rows)


_CLUSTERING = "delta.clustering"
_GENERATION = "delta.generationExpression"
_OF_TEXT = ("__CHAR_VARCHAR_TYPE_STRING",)
# SQL in a field's metadata that was written for the old type.
_BOUND_TO_TYPE = {
    _GENERATION: "it is generated",
    "CURRENT_DEFAULT": "it has a default value",
    "delta.invariants": "it has an invariant",
}


def plan_enable(storage: Storage, snapshot: Snapshot, columns: Mapping[str, GeoType]) -> Change:
    """The commit that gives columns of WKB, EWKB or WKT a geo type; without columns, that adds the feature alone.

    All files are rewritten, with ISO WKB and Parquet's geo types. A value that cannot be read, or whose SRID is not
    that of the CRS, ends the job before anything is committed.
    """
    return _Enable(storage, snapshot, columns).change()


class _Enable:
    """A table some of whose columns become geo columns."""

    def __init__(self, storage: Storage, snapshot: Snapshot, columns: Mapping[str, GeoType]) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._details: DeltaDetails = snapshot.details
        self._where = snapshot.location
        self._columns = {split_path(name): type_ for name, type_ in columns.items()}
        self._properties = dict(self._details.metadata.configuration)
        self._types: dict[tuple[str, ...], GeoType] = {}
        self._inputs: dict[str, GeoInput] = {}

    def change(self) -> Change:
        for path, type_ in self._columns.items():
            self._take(path, type_)
        features = [] if self._has_feature() else [GEOSPATIAL]
        protocol = upgraded_protocol(
            self._details.protocol,
            features,
            configuration=self._details.metadata.configuration,
            previews=GEOSPATIAL_PREVIEWS,
        )
        metadata = self._metadata() if self._types else None
        after = self._after(protocol, metadata)
        engines = engine_facts(after)
        texts = {join_path(path): to_delta_text(new_type) for path, new_type in self._types.items()}
        change = Change(
            Verb.ENABLE,
            DELTA,
            self._where,
            self._snapshot.version,
            notes=tuple(self._notes(protocol, metadata)),
            irreversible_steps=() if protocol is None else (geospatial_step(engines),),
            engines=engines,
            undo="geolake undo restores the old files and types; the feature stays in the protocol",
            parameters={"columns": json.dumps(texts)},
            tolerates_appends=not self._types,
        )
        small = [] if protocol is None else [protocol_text(protocol)]
        if metadata is None:
            if protocol is not None:
                require_writable(self._snapshot.protocol, self._details.metadata, doing=Doing.SCHEMA, where=self._where)
            undo = "a feature cannot be removed from the protocol"
            return replace(change, actions=small, undo=undo if small else "there is nothing to undo")
        for doing in (Doing.SCHEMA, Doing.REWRITE):
            require_writable(self._snapshot.protocol, self._details.metadata, doing=doing, where=self._where)
        small.append(
            metadata_text(
                self._storage,
                self._details,
                schema=metadata["schemaString"],
                configuration=metadata["configuration"],
            )
        )
        require_read_partitions(self._snapshot)
        reads = self._reads()
        metrics = {"files_removed": reads.files, "bytes_removed": reads.bytes}
        actions = [*small, *self._removes()]
        return replace(change, actions=actions, job=self._job(after), reads=reads, metrics=metrics)

    def _has_feature(self) -> bool:
        lists = [self._details.protocol.get(key) or () for key in ("readerFeatures", "writerFeatures")]
        # Types of the preview are those of the feature; with the feature alone, its final name replaces the preview.
        names = (GEOSPATIAL, *GEOSPATIAL_PREVIEWS) if self._columns else (GEOSPATIAL,)
        return any(all(name in listed for listed in lists) for name in names)

    def _take(self, path: tuple[str, ...], wanted: GeoType) -> None:
        field = self._find(path)
        path = self._spelled(path)
        name = join_path(path)
        where = f"{self._where}, column {name}"
        if path[0] in self._snapshot.partition_columns:
            raise RefusedError("it is a partition column, and those hold plain values", where=where)
        if isinstance(field.type, (GeometryType, GeographyType)):
            raise RefusedError(f"it is a {type_name(field.type)} already", where=where)
        encoding = geo_encoding(wanted, field.type, where=where)
        self._refuse_uses(path, field, where)
        type_ = known_geo_type(wanted, name, self._properties, where=self._where)
        self._types[path] = type_
        self._inputs[name] = GeoInput(type_, encoding)

    def _find(self, path: tuple[str, ...]) -> Field:
        field = self._snapshot.schema.find(join_path(path))
        for depth in range(1, len(path)):
            around = self._snapshot.schema.find(join_path(path[:depth]))
            if not isinstance(around.type, StructType):
                raise RefusedError(
                    f"it is inside a {type_name(around.type)}, and only columns in structs can be changed",
                    where=f"{self._where}, column {join_path(path)}",
                )
        return field

    def _spelled(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The path as the schema spells it."""
        return tuple(self._snapshot.schema.find(join_path(path[: depth + 1])).name for depth in range(len(path)))

    def _refuse_uses(self, path: tuple[str, ...], field: Field, where: str) -> None:
        """Raise where something in the table depends on the current type of the column."""
        for part in (field, self._snapshot.schema.find(join_path(path[:1]))):
            for key, why in _BOUND_TO_TYPE.items():
                if key in part.metadata:
                    raise RefusedError(f"{why}, which depends on its type", where=where, remedy="drop it first")
        if isinstance(field.type, StringType) and field.type.collation is not None:
            raise RefusedError("it has a collation, which only a string can have", where=where, remedy="drop it first")
        require_unused(self._snapshot, path[-1], where=where)
        if self._physical(path) in self._clustered():
            raise RefusedError(
                "the table is clustered by it, and no engine can cluster by a geo column", where=where,
                remedy="run ALTER TABLE ... CLUSTER BY NONE first",
            )  # fmt: skip

    def _clustered(self) -> list[tuple[str, ...]]:
        text = self._details.domains.get(_CLUSTERING)
        value = (
            load_json(text, what="the domain delta.clustering", where=self._where, error=CorruptTableError)
            if text
            else {}
        )
        columns = value.get("clusteringColumns") if isinstance(value, dict) else None
        return [tuple(map(str, column)) for column in columns or () if isinstance(column, list)]

    def _physical(self, path: tuple[str, ...]) -> tuple[str, ...]:
        return self._details.column_mapping.physical(self._snapshot.schema, path)

    def _metadata(self) -> dict[str, Any]:
        """The `metaData` action: the types of the columns, maybe some properties, and everything else as it was."""
        schema = json.loads(self._details.metadata.schema_string)
        for path, type_ in self._types.items():
            fields = schema["fields"]
            for part in path[:-1]:
                fields = next(child for child in fields if child["name"] == part)["type"]["fields"]
            field = next(child for child in fields if child["name"] == path[-1])
            field["type"] = to_delta_text(type_)
            for key in _OF_TEXT:
                field.get("metadata", {}).pop(key, None)
        text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
        after = from_delta_schema(text, properties=self._properties)
        configuration = with_indexed_geo(after, self._properties, self._snapshot.partition_columns, tuple(self._types))
        return {**self._details.metadata.raw, "schemaString": text, "configuration": configuration}

    def _after(self, protocol: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> Snapshot:
        """The table as it will be."""
        after = self._snapshot
        if protocol is not None:
            after = replace(after, protocol=read_protocol(protocol, where=self._where))
        if metadata is not None:
            configuration = metadata["configuration"]
            schema = from_delta_schema(metadata["schemaString"], properties=configuration)
            require_writable_types(schema, where=self._where)
            after = replace(after, schema=schema, properties=configuration)
        return after

    def _removes(self) -> list[str]:
        # The rows are the same, only their type changes, so dataChange is false: a streaming reader has them all,
        # and would otherwise see each as deleted and added again. The metaData action makes streams stop for the
        # new schema, and transactions that read the old one fail, whatever dataChange is.
        return remove_actions(self._storage, DeltaRows(self._snapshot))

    def _job(self, after: Snapshot) -> WriteJob | None:
        if not len(self._snapshot.files):
            return None
        rows = self._snapshot.files.table["rows"]
        partitions = self._snapshot.partition_columns
        return WriteJob(
            rows=DeltaRows(self._snapshot),
            schema=after.schema,
            target=DeltaTarget.of(after, data_change=False),
            partition_by=partitions,
            geo_input=self._inputs,
            target_bytes=TARGET_BYTES,
            expected_rows=None if rows.null_count else pc.sum(rows).as_py(),
        )

    def _reads(self) -> Reads:
        table = self._snapshot.files.table
        return Reads(table.num_rows, pc.sum(table["bytes"]).as_py() or 0)

    def _notes(self, protocol: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> Iterator[str]:
        if protocol is None and metadata is None:
            yield "The table has the feature 'geospatial' already: there is nothing to do."
        if protocol is not None:
            before = self._snapshot.protocol.summary
            yield f"The protocol gets the feature 'geospatial': {before} becomes reader 3, writer 7."
            named = {feature.name for feature in self._snapshot.protocol.features}
            yield from (f"It replaces its preview {preview!r}." for preview in GEOSPATIAL_PREVIEWS if preview in named)
        yield from geo_sentences(self._inputs)
        if metadata is not None:
            configured = self._details.metadata.configuration
            for key, value in metadata["configuration"].items():
                if configured.get(key) != value:
                    yield f"The property {key!r} is set to {value[:40]}{'...' if len(value) > 40 else ''}."
            files = len(self._snapshot.files)
            all_files = "The file is" if files == 1 else f"All {files:,} files are"
            yield f"{all_files} rewritten; a value that does not fit stops the job."
