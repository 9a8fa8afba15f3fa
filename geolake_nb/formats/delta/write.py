"""New Delta tables, appends to existing ones, and features added to a protocol."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.changes.cell_columns import appended_cells
from geolake_nb.changes.column_types import geo_sentences, match_rows, require_same, take_geo_columns
from geolake_nb.changes.write_job import require_partition_columns, require_writable_types
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.delta.details import ColumnMapping, indexed_columns
from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.delta.protocol import Doing, feature, read_protocol, require_writable
from geolake_nb.formats.delta.raw_actions import raw_small_actions
from geolake_nb.formats.delta.schema import delta_columns, require_delta_names, to_delta_schema
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.formats.detect import require_no_table
from geolake_nb.model.change import Change, IrreversibleStep, Reads, Verb
from geolake_nb.model.file_table import FileTable
from geolake_nb.model.schema import Schema, join_path
from geolake_nb.model.snapshot import Snapshot
from geolake_nb.model.table_format import Answer
from geolake_nb.model.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    to_delta_text,
)
from geolake_nb.scan.engines import engine_facts
from geolake_nb.text.json_text import edited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.formats.delta.details import DeltaDetails
    from geolake_nb.model.table_format import EngineFact
    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.json_text import JsonPath

__all__ = [
    "GEOSPATIAL",
    "FirstCommit",
    "geospatial_step",
    "metadata_text",
    "plan_append",
    "plan_create",
    "protocol_text",
    "upgraded_protocol",
    "with_indexed_geo",
    "with_table_id",
]

GEOSPATIAL = "geospatial"

_NO_ID = "00000000-0000-0000-0000-000000000000"
_INDEXED_COUNT = "delta.dataSkippingNumIndexedCols"
_INDEXED_NAMES = "delta.dataSkippingStatsColumns"

# Properties of a new table that need a feature, and the features that they need.
_FEATURE_OF = {
    "delta.appendOnly": "appendOnly",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableTypeWidening": "typeWidening",
}
# In lower case: names of constraints are case-insensitive in Spark.
_REFUSED_PROPERTIES = (
    "delta.columnmapping.",
    "delta.constraints.",
    "delta.enableiceberg",
    "delta.enablerowtracking",
    "delta.feature.",
    "delta.minreaderversion",
    "delta.minwriterversion",
    "delta.universalformat.",
)


def upgraded_protocol(
    protocol: Mapping[str, Any],
    features: Collection[str],
    *,
    configuration: Mapping[str, str] | None = None,
    previews: Collection[str] = (),
) -> dict[str, Any] | None:
    """The `protocol` action with these features too, `None` if it has them; nothing that it required is lost.

    Versions that imply features become lists of them, and known features are listed for readers or writers as
    specified. `configuration` are the properties of the table. `previews` are preview names, which the features
    replace: an engine rejects a name that it does not know.

    >>> upgraded_protocol({"minReaderVersion": 1, "minWriterVersion": 2}, ["geospatial"])
    {'minReaderVersion': 3, 'minWriterVersion': 7, 'readerFeatures': ['geospatial'], 'writerFeatures': [...]}
    >>> upgraded_protocol({"minReaderVersion": 1, "minWriterVersion": 2}, []) is None
    True
    """
    if not features:
        return None
    before = read_protocol(protocol)
    reader = int(protocol["minReaderVersion"])
    to_write = {listed.name for listed in before.features}
    if ColumnMapping.of(configuration or {}) is not ColumnMapping.NONE:
        to_write.add("columnMapping")
    unknown_to_read = {listed.name for listed in before.features if listed.needed_to_read and not listed.known}
    to_write = (to_write - set(previews)) | set(features)
    to_read = {name for name in to_write if feature(name).needed_to_read} | (unknown_to_read - set(previews))
    after = {**protocol, "minWriterVersion": 7, "writerFeatures": sorted(to_write)}
    if reader == 3 or any(feature(name).needed_to_read for name in features):
        # Delta, Table features: a reader and writer feature is in both lists.
        after |= {"minReaderVersion": 3, "readerFeatures": sorted(to_read)}
    ordered = ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")
    after = {key: after[key] for key in ordered if key in after} | after
    same = all(set(after.get(key) or ()) == set(protocol.get(key) or ()) for key in ordered[2:])
    same &= all(after[key] == protocol[key] for key in ordered[:2])
    return None if same else after


def protocol_text(protocol: Mapping[str, Any]) -> str:
    """The whole action as in the log.

    >>> protocol_text({"minReaderVersion": 1, "minWriterVersion": 2})
    '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}'
    """
    return json.dumps({"protocol": dict(protocol)}, separators=(",", ":"), ensure_ascii=False)


def metadata_text(
    storage: Storage, details: DeltaDetails, *, schema: str, configuration: Mapping[str, str] | None = None
) -> str:
    """The whole `metaData` action of a table with another schema and other properties, all else byte for byte."""
    configured = details.metadata.configuration
    changes: dict[JsonPath, str | None] = {("schemaString",): json.dumps(schema, ensure_ascii=False)}
    for name, value in (configuration or {}).items():
        if configured.get(name) != value:
            changes["configuration", name] = json.dumps(value, ensure_ascii=False)
    raw = raw_small_actions(storage, details.segment).metadata or "{}"
    return f'{{"metaData":{edited(raw, changes)}}}'


def geospatial_step(engines: Collection[EngineFact]) -> IrreversibleStep:
    """The irreversible step: which engines can no longer read the table.

    >>> geospatial_step([]).name
    'geospatial'
    """
    lost = sorted({fact.engine for fact in engines if fact.reads is Answer.NO})
    who = f" such as {', '.join(lost)}" if lost else ""
    return IrreversibleStep(
        GEOSPATIAL,
        f"The feature 'geospatial' stays in the protocol for good, and engines without it{who} can no longer read"
        " the table.",
    )


def with_indexed_geo(
    schema: Schema, properties: Mapping[str, str], partition_by: Collection[str], wanted: Collection[tuple[str, ...]]
) -> dict[str, str]:
    """The properties, such that these columns have statistics too; a user's own setting is kept.

    >>> with_indexed_geo(Schema(), {}, (), ())
    {}
    """
    configured = dict(properties)
    if _INDEXED_NAMES in configured or not wanted:
        return configured
    if set(wanted) <= indexed_columns(schema, configured, tuple(partition_by)):
        return configured
    every = indexed_columns(schema, {_INDEXED_COUNT: "-1"}, tuple(partition_by))
    order = [path for path, _ in schema.walk_parts() if path in every]
    positions = [order.index(path) for path in wanted if path in every]
    if positions:  # none where the only one is a partition column, which is refused later
        configured[_INDEXED_COUNT] = str(max(positions) + 1)
    return configured


@dataclass(frozen=True, slots=True, eq=False)
class FirstCommit:
    """The contents of the first commit of a Delta table."""

    location: str
    schema: Schema
    """With the types of Delta."""
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_delta_names(self.schema, where=self.location)
        if not self.schema.fields:
            raise SchemaError("a table needs at least one column", where=self.location)
        _check_partitions(self.schema, self.partition_by, self.location)
        for name in sorted(self.properties):
            if name.lower().startswith(_REFUSED_PROPERTIES):
                raise RefusedError(
                    f"the property {name!r} is not supported when a table is created",
                    where=self.location,
                    remedy="set it with Spark afterwards",
                )

    @property
    def protocol(self) -> dict[str, Any]:
        """The `protocol` action: no more than the columns and the properties require."""
        features = {name for key, name in _FEATURE_OF.items() if self.properties.get(key, "").lower() == "true"}
        if self.properties.get("delta.checkpointPolicy") == "v2":
            features.add("v2Checkpoint")
        types = [field.type for _, field in self.schema.walk_parts()]
        if any(isinstance(type_, (GeometryType, GeographyType)) for type_ in types):
            features.add(GEOSPATIAL)
        if PrimitiveType("timestamp") in types:
            features.add("timestampNtz")
        plain = {"minReaderVersion": 1, "minWriterVersion": 2}
        features -= {"appendOnly"}  # of writer 2
        return upgraded_protocol(plain, features) or plain

    @property
    def metadata(self) -> dict[str, Any]:
        """The `metaData` action, without an id and a time: those are set when it is written."""
        return {
            "id": _NO_ID,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": to_delta_schema(self.schema),
            "partitionColumns": list(self.partition_by),
            "configuration": dict(self.properties),
            "createdTime": 0,
        }

    @property
    def actions(self) -> list[str]:
        """The first actions of the first commit."""
        return [protocol_text(self.protocol), _metadata_text(self.metadata)]

    @property
    def snapshot(self) -> Snapshot:
        """The table without its files."""
        none = pa.array([], pa.int64())
        files = FileTable.of(path=pa.array([], pa.string()), bytes=none, rows=none)
        return Snapshot(DELTA, self.location, 0, None, self.schema, read_protocol(self.protocol), files)

    @property
    def engines(self) -> tuple[EngineFact, ...]:
        """The engines that can read and write it."""
        return engine_facts(self.snapshot)

    @property
    def indexed(self) -> frozenset[tuple[str, ...]]:
        """The columns with statistics."""
        return indexed_columns(self.schema, self.properties, self.partition_by)


def plan_create(new: NewTable) -> Change:
    """The commit that creates a Delta table; geo columns that Parquet files declare are found automatically."""
    require_no_table(new.target)
    geo = take_geo_columns(new.schema, new.columns, new.properties, where=new.where)
    schema, sentences = delta_columns(geo.schema, where=new.where)
    properties = with_indexed_geo(schema, geo.properties, new.partition_by, geo.paths)
    first = FirstCommit(new.location, schema, new.partition_by, properties)
    target = DeltaTarget(
        schema=schema,
        partition_by=new.partition_by,
        indexed=first.indexed,
        data_change=True,
        deletion_vectors="deletionVectors" in first.protocol.get("writerFeatures", ()),
    )
    types = {path: to_delta_text(input_.type) for path, input_ in geo.inputs.items()}
    return new.change(
        DELTA,
        new.job(schema, target, geo_input=geo.inputs),
        title="A new Delta table",
        actions=first.actions,
        notes=[*geo_sentences(geo.inputs), *(f"The column {sentence}." for sentence in sentences)],
        engines=first.engines,
        parameters={} if new.source is None else {"columns": json.dumps(types)},
    )


def with_table_id(change: Change, transaction: str) -> Change:
    """The change with an id and a time in the metadata of a new table: a plan has neither, so that it is reproducible.

    >>> from geolake_nb.formats.registry import DELTA
    >>> with_table_id(Change(Verb.WRITE, DELTA, "/t", None), "t").actions
    []
    """
    actions: list[str] = []
    for action in change.actions:
        value = json.loads(action).get("metaData")
        if value is not None and value.get("id") == _NO_ID:
            # From the transaction, so that a retry creates the same table.
            value |= {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, transaction)), "createdTime": int(time.time() * 1000)}
            action = _metadata_text(value)  # noqa: PLW2901
        actions.append(action)
    return replace(change, actions=actions)


def _metadata_text(metadata: Mapping[str, Any]) -> str:
    return json.dumps({"metaData": dict(metadata)}, separators=(",", ":"), ensure_ascii=False)


def _check_partitions(schema: Schema, partition_by: Collection[str], where: str) -> None:
    require_partition_columns(schema, partition_by, where)
    fields = {field.name: field.type for field in schema.fields}
    for name in partition_by:
        # Delta, Partition value serialization: it exists for numbers, texts, bytes and times.
        if isinstance(fields[name], (GeometryType, GeographyType, ListType, MapType, StructType)):
            what = f"a table cannot be partitioned by the column {join_path((name,))!r}: it is not a plain value"
            raise SchemaError(what, where=where)
    if len(set(partition_by)) < len(tuple(partition_by)):
        raise SchemaError("a partition column is listed twice", where=where)
    if len(set(partition_by)) == len(fields):
        raise SchemaError("every column is a partition column, and files need another one", where=where)


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
    target = DeltaTarget.of(snapshot, data_change=True)
    job = packing.job(
        rows, snapshot.schema, target, partition_by=partitions, geo_input=inputs, cells=appended_cells(snapshot)
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
