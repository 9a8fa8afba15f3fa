"""Columns of bytes or text become geometries or geographies: the checks, and the commit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from geolake_nb.changes.column_types import known_geo_type
from geolake_nb.changes.geo_columns import geo_encoding, geo_sentences
from geolake_nb.changes.packing import TARGET_BYTES
from geolake_nb.changes.row_sources import DeltaRows
from geolake_nb.changes.write_job import GeoInput, WriteJob, require_writable_types
from geolake_nb.errors import CorruptTableError, RefusedError
from geolake_nb.formats.delta.create import (
    GEOSPATIAL,
    geospatial_step,
    metadata_text,
    protocol_text,
    upgraded_protocol,
    with_indexed_geo,
)
from geolake_nb.formats.delta.features import GEOSPATIAL_PREVIEWS, read_protocol
from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.delta.rewrite import remove_actions, require_read_partitions
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.formats.delta.sql_names import require_unused
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.schema import join_path, split_path, type_name
from geolake_nb.model.type_text import to_delta_text
from geolake_nb.model.types import GeographyType, GeometryType, StringType, StructType
from geolake_nb.scan.engines import engine_facts
from geolake_nb.text.untrusted_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.formats.delta.details import DeltaDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field, GeoType
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_enable"]

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
            yield f"All {len(self._snapshot.files):,} files are rewritten; a value that does not fit stops the job."
