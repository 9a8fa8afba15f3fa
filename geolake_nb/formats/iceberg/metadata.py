"""Iceberg's table metadata, versions 1 to 3, plain or gzip: schemas, specs, snapshots and refs."""

from __future__ import annotations

import datetime as dt
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, SchemaError, UnsupportedTableError, VersionError
from geolake_nb.formats.iceberg.schema import from_iceberg_schema
from geolake_nb.text.json_text import MAX_LENGTH, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.model.schema import Schema

__all__ = [
    "FIRST_PARTITION_ID",
    "TRANSACTION",
    "PartitionField",
    "PartitionSpec",
    "SnapshotRef",
    "StoredSnapshot",
    "TableMetadata",
    "read_metadata",
    "unpacked_metadata",
]

TRANSACTION = "geolake.transaction"
"""The key in the summary of a snapshot that identifies a change of this package."""

NEWEST_VERSION = 3

_NO_SNAPSHOT = -1
FIRST_PARTITION_ID = 1000
# Iceberg, Table Metadata Fields: required in version 2 and optional in version 1.
_REQUIRED_SINCE_2 = (
    "schemas",
    "partition-specs",
    "sort-orders",
    "current-schema-id",
    "default-spec-id",
    "default-sort-order-id",
    "last-partition-id",
    "last-sequence-number",
    "table-uuid",
)
_QUOTED = re.compile(r"\s*(?:geometry|geography)\s*\(\s*['\"]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """How a partition value is derived from a column.

    >>> PartitionField("ts_day", 4, "day", 1000).describe("ts"), PartitionField("a", 1, "identity", 1001).describe("a")
    ('day(ts)', 'a')
    """

    name: str
    source_id: int
    transform: str
    """Such as `identity`, `bucket[16]`, `truncate[4]`, `year`, `month`, `day`, `hour`, `void`."""
    field_id: int

    def describe(self, source: str) -> str:
        """The transform as a SQL expression."""
        if self.transform == "identity":
            return source
        name, _, width = self.transform.partition("[")
        return f"{name}({width.rstrip(']')}, {source})" if width else f"{name}({source})"


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The partition fields of the files that were written under one spec."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all files are in one partition: there are no fields, or all of them are dropped.

        >>> dropped = PartitionField("a", 1, "void", 1000)
        >>> PartitionSpec(0).is_unpartitioned, PartitionSpec(1, (dropped,)).is_unpartitioned
        (True, True)
        """
        # Iceberg, Partition Evolution: in version 1, a field that is dropped becomes `void`.
        return all(field.transform == "void" for field in self.fields)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot as listed in the metadata."""

    snapshot_id: int
    timestamp: dt.datetime
    manifest_list: str | None
    """`None` in tables of version 1 that list their manifests inline."""
    manifests: tuple[str, ...] = ()
    parent_id: int | None = None
    sequence_number: int = 0
    schema_id: int | None = None
    key_id: str | None = None
    """The id of the key that the manifest list is encrypted with."""
    summary: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def operation(self) -> str | None:
        """What the commit did: `append`, `delete`, `overwrite` or `replace`."""
        return self.summary.get("operation")


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A branch or a tag."""

    name: str
    snapshot_id: int
    is_branch: bool


@dataclass(frozen=True, slots=True, eq=False)
class TableMetadata:
    """One metadata file, validated as far as reading requires."""

    raw: Mapping[str, Any]
    """The file as read."""
    where: str
    format_version: int
    location: str
    schemas: Mapping[int, Mapping[str, Any]]
    current_schema_id: int
    specs: Mapping[int, PartitionSpec]
    default_spec_id: int
    sort_orders: tuple[Mapping[str, Any], ...]
    default_sort_order_id: int
    snapshots: Mapping[int, StoredSnapshot]
    current_snapshot_id: int | None
    snapshot_log: tuple[tuple[dt.datetime, int], ...]
    refs: Mapping[str, SnapshotRef]
    properties: Mapping[str, str]
    last_updated: dt.datetime

    def schema(self, schema_id: int | None = None) -> Schema:
        """The current schema, or the one of that id."""
        wanted = self.current_schema_id if schema_id is None else schema_id
        if wanted not in self.schemas:
            known = ", ".join(map(str, sorted(self.schemas)))
            raise CorruptTableError(f"no schema has the id {wanted}", where=self.where, remedy=f"known ids: {known}")
        try:
            return from_iceberg_schema(self.schemas[wanted], properties=self.properties)
        except SchemaError as error:
            raise CorruptTableError(f"the schema cannot be read: {error}", where=self.where) from None

    @property
    def has_quoted_types(self) -> bool:
        """Whether a type is in PyIceberg's quoted form, which Iceberg for Java cannot read."""
        return any(_has_quoted(schema) for schema in self.schemas.values())

    def pick(
        self, *, snapshot_id: int | None = None, timestamp: dt.datetime | None = None, ref: str | None = None
    ) -> StoredSnapshot | None:
        """The requested snapshot, else the current one, `None` for a table without any."""
        given = [choice is not None for choice in (snapshot_id, timestamp, ref)]
        if sum(given) > 1:
            what = "more than one of snapshot id, time and ref is given"
            raise VersionError(what, where=self.where, remedy="give one of them")
        if ref is not None:
            return self._by_ref(ref)
        if timestamp is not None:
            return self._at(timestamp)
        wanted = self.current_snapshot_id if snapshot_id is None else snapshot_id
        if wanted is None:
            return None
        if wanted not in self.snapshots:
            if snapshot_id is None:
                raise CorruptTableError(f"the current snapshot {wanted} is not listed", where=self.where)
            raise VersionError(f"no snapshot {snapshot_id}", where=self.where, remedy=_some_of(self.snapshots))
        return self.snapshots[wanted]

    def _by_ref(self, name: str) -> StoredSnapshot | None:
        if name == "main" and name not in self.refs:
            return self.pick()
        if name not in self.refs:
            raise VersionError(f"no branch or tag {name!r}", where=self.where, remedy=_some_of(self.refs))
        wanted = self.refs[name].snapshot_id
        if wanted not in self.snapshots:
            raise CorruptTableError(f"the ref {name!r} refers to a snapshot that is not listed", where=self.where)
        return self.snapshots[wanted]

    def _at(self, timestamp: dt.datetime) -> StoredSnapshot:
        moment = timestamp.replace(tzinfo=dt.UTC) if timestamp.tzinfo is None else timestamp
        log = self.snapshot_log or tuple(
            (snapshot.timestamp, snapshot.snapshot_id) for snapshot in self.snapshots.values()
        )
        earlier = [(when, id_) for when, id_ in log if when <= moment and id_ in self.snapshots]
        if not earlier:
            first = min((when for when, _ in log), default=None)
            remedy = "the table has no snapshots" if first is None else f"the first is from {first.isoformat()}"
            raise VersionError(f"no snapshot at {moment.isoformat()}", where=self.where, remedy=remedy)
        return self.snapshots[max(earlier, key=lambda entry: entry[0])[1]]


def read_metadata(data: bytes, *, where: str) -> TableMetadata:
    """The table metadata from the bytes of its file, compressed or not.

    >>> read_metadata(b'{"format-version": 42}', where="v1.metadata.json")
    Traceback (most recent call last):
    geolake_nb.errors.UnsupportedTableError: v1.metadata.json: Iceberg format version 42 is unknown; ...
    """
    text = unpacked_metadata(data, where=where)
    raw = load_json(text, what="the table metadata", where=where, error=CorruptTableError)
    if not isinstance(raw, dict):
        raise CorruptTableError("the table metadata is not a JSON object", where=where)
    if "view-uuid" in raw:  # Iceberg View Spec, View Metadata: required there, unknown to tables
        raise UnsupportedTableError(
            "the file is the metadata of an Iceberg view, which is a query and has no data files",
            where=where,
            remedy="open the tables that the view selects from",
        )
    fields = _Fields(raw, where)
    version = fields.integer("format-version")
    if version not in range(1, NEWEST_VERSION + 1):
        raise UnsupportedTableError(
            f"Iceberg format version {version} is unknown",
            where=where,
            remedy=f"supported: 1 to {NEWEST_VERSION}",
        )
    schemas, current_schema = _schemas(fields, listed_only=version > 1)
    if version > 1:
        for name in _REQUIRED_SINCE_2:
            fields.need(name)
    specs, default_spec = _specs(fields)
    snapshots = _snapshots(fields)
    current = fields.integer("current-snapshot-id", None)
    if current == _NO_SNAPSHOT:
        current = None
    orders = tuple(fields.objects("sort-orders"))
    metadata = TableMetadata(
        raw=raw,
        where=where,
        format_version=version,
        location=fields.text("location"),
        schemas=schemas,
        current_schema_id=current_schema,
        specs=specs,
        default_spec_id=default_spec,
        sort_orders=orders,
        default_sort_order_id=fields.integer("default-sort-order-id", 0),
        snapshots=snapshots,
        current_snapshot_id=current,
        snapshot_log=_snapshot_log(fields),
        refs=_refs(fields),
        properties=_texts(fields.value("properties", {}), "properties", where),
        last_updated=_time(fields.integer("last-updated-ms"), where),
    )
    metadata.schema()  # an invalid schema is refused before the manifests are read
    return metadata


def unpacked_metadata(data: bytes, *, where: str) -> bytes:
    """The text of a metadata file; gzip and zstd are recognised by their magic bytes."""
    if data[:4] == b"\x28\xb5\x2f\xfd":
        raise UnsupportedTableError(
            "the metadata file is compressed with zstd, which is not supported",
            where=where,
            remedy="set the table property write.metadata.compression-codec to gzip or none, and commit once",
        )
    if data[:2] != b"\x1f\x8b":
        return data
    engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = engine.decompress(data, MAX_LENGTH + 1)
    except zlib.error as problem:
        raise CorruptTableError(f"the gzip metadata cannot be decompressed: {problem}", where=where) from None
    if len(text) > MAX_LENGTH:
        raise CorruptTableError(f"the gzip metadata decompresses to more than {MAX_LENGTH} bytes", where=where)
    if not engine.eof:
        raise CorruptTableError("the gzip metadata is truncated", where=where)
    return text


_MISSING: Any = object()


class _Fields:
    """An object of the metadata whose fields are checked when they are read."""

    def __init__(self, raw: Any, where: str, what: str = "the table metadata") -> None:
        if not isinstance(raw, dict):
            raise CorruptTableError(f"{what} is not a JSON object", where=where)
        self.raw = raw
        self.where = where
        self.what = what

    def fail(self, problem: str) -> CorruptTableError:
        return CorruptTableError(f"{self.what} {problem}", where=self.where)

    def need(self, name: str) -> None:
        if self.raw.get(name) is None:
            raise self.fail(f"has no {name!r}")

    def value(self, name: str, default: Any = _MISSING) -> Any:
        member = self.raw.get(name)
        if member is not None:
            return member
        if default is _MISSING:
            raise self.fail(f"has no {name!r}")
        return default

    def integer(self, name: str, default: Any = _MISSING) -> Any:
        number = self.value(name, default)
        if number is not default and (not isinstance(number, int) or isinstance(number, bool)):
            raise self.fail(f"has a {name!r} that is not an integer")
        if number is not default and not -(2**63) <= number < 2**63:
            raise self.fail(f"has a {name!r} beyond 64 bits: {str(number)[:40]}")
        return number

    def text(self, name: str, default: Any = _MISSING) -> Any:
        member = self.value(name, default)
        if member is not default and not isinstance(member, str):
            raise self.fail(f"has a {name!r} that is not a string")
        return member

    def objects(self, name: str) -> list[dict[str, Any]]:
        items = self.value(name, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self.fail(f"has {name!r} that is not a list of objects")
        return items


def _schemas(fields: _Fields, *, listed_only: bool) -> tuple[dict[int, dict[str, Any]], int]:
    if listed_only:
        fields.need("schemas")
    listed = fields.objects("schemas")
    if not listed:
        # Iceberg, Table Metadata Fields: version 1 has a single `schema`.
        schema = fields.value("schema")
        if not isinstance(schema, dict):
            raise fields.fail("has a 'schema' that is not an object")
        id_ = _Fields(schema, fields.where, "the schema").integer("schema-id", 0)
        return {id_: schema}, id_
    schemas = {_Fields(raw, fields.where, "a schema").integer("schema-id", 0): raw for raw in listed}
    current = fields.integer("current-schema-id", next(iter(schemas)))
    if current not in schemas:
        raise fields.fail(f"names the current schema {current}, which is not listed")
    return schemas, current


def _specs(fields: _Fields) -> tuple[dict[int, PartitionSpec], int]:
    listed = fields.objects("partition-specs")
    if not listed:
        spec_fields = fields.value("partition-spec", [])
        if not isinstance(spec_fields, list):
            raise fields.fail("has a 'partition-spec' that is not a list")
        listed = [{"spec-id": 0, "fields": spec_fields}]
    specs = {}
    for raw in listed:
        spec = _Fields(raw, fields.where, "a partition spec")
        parts = tuple(_partition_field(part, index, fields.where) for index, part in enumerate(spec.objects("fields")))
        id_ = spec.integer("spec-id")
        specs[id_] = PartitionSpec(id_, parts)
    default = fields.integer("default-spec-id", max(specs))
    if default not in specs:
        raise fields.fail(f"names the default partition spec {default}, which is not listed")
    return specs, default


def _partition_field(raw: dict[str, Any], index: int, where: str) -> PartitionField:
    field = _Fields(raw, where, "a partition field")
    # Iceberg 3, Partition Specs: a transform of several columns lists them in `source-ids`.
    several = raw.get("source-ids")
    first = several[0] if isinstance(several, list) and several else None
    source = first if isinstance(first, int) and "source-id" not in raw else field.integer("source-id")
    # Iceberg, Partition Specs: version 1 numbers the fields from 1000 if they have no ids.
    return PartitionField(
        field.text("name"),
        source,
        field.text("transform").lower(),
        field.integer("field-id", FIRST_PARTITION_ID + index),
    )


def _snapshots(fields: _Fields) -> dict[int, StoredSnapshot]:
    snapshots = {}
    for raw in fields.objects("snapshots"):
        snapshot = _Fields(raw, fields.where, "a snapshot")
        id_ = snapshot.integer("snapshot-id")
        manifests = snapshot.value("manifests", [])
        if not isinstance(manifests, list) or not all(isinstance(path, str) for path in manifests):
            raise snapshot.fail("has 'manifests' that is not a list of paths")
        snapshots[id_] = StoredSnapshot(
            snapshot_id=id_,
            timestamp=_time(snapshot.integer("timestamp-ms"), fields.where),
            manifest_list=snapshot.text("manifest-list", None),
            manifests=tuple(manifests),
            parent_id=snapshot.integer("parent-snapshot-id", None),
            sequence_number=snapshot.integer("sequence-number", 0),
            schema_id=snapshot.integer("schema-id", None),
            key_id=snapshot.text("key-id", None),
            summary=_texts(snapshot.value("summary", {}), "summary", fields.where),
        )
    return snapshots


def _snapshot_log(fields: _Fields) -> tuple[tuple[dt.datetime, int], ...]:
    log = [_Fields(raw, fields.where, "the snapshot log") for raw in fields.objects("snapshot-log")]
    return tuple((_time(entry.integer("timestamp-ms"), fields.where), entry.integer("snapshot-id")) for entry in log)


def _refs(fields: _Fields) -> dict[str, SnapshotRef]:
    listed = fields.value("refs", {})
    if not isinstance(listed, dict):
        raise fields.fail("has 'refs' that is not an object")
    refs = {}
    for name, raw in listed.items():
        ref = _Fields(raw, fields.where, f"the ref {name!r}")
        refs[name] = SnapshotRef(name, ref.integer("snapshot-id"), ref.text("type", "branch").lower() == "branch")
    return refs


def _texts(raw: Any, what: str, where: str) -> dict[str, str]:
    if not isinstance(raw, dict):
        raise CorruptTableError(f"{what!r} is not a JSON object", where=where)
    return {key: value if isinstance(value, str) else str(value) for key, value in raw.items() if value is not None}


def _time(millis: int, where: str) -> dt.datetime:
    try:
        return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=millis)
    except OverflowError:
        raise CorruptTableError(f"the time {millis} is out of range", where=where) from None


def _has_quoted(value: Any) -> bool:
    stack = [value]
    while stack:
        type_ = stack.pop()
        if isinstance(type_, dict):
            stack += [type_.get(key) for key in ("type", "fields", "element", "key", "value")]
        elif isinstance(type_, list):
            stack += type_
        elif isinstance(type_, str) and _QUOTED.match(type_):
            return True
    return False


def _some_of(names: Mapping[Any, Any] | Sequence[Any]) -> str:
    shown = [str(name) for name in sorted(names)]
    if not shown:
        return "the table has none"
    return f"use one of: {', '.join(shown[:10])}{', ...' if len(shown) > 10 else ''}"
