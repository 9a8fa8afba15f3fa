"""How a Havasu table is recognized, what its spec requires, and its metadata after a change."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, RefusedError, UnsupportedTableError
from geolake_nb.model.snapshot import Feature
from geolake_nb.model.types import GeometryType, RasterType
from geolake_nb.text.json_text import edited, elements, member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.iceberg.metadata import TableMetadata
    from geolake_nb.model.schema import Schema
    from geolake_nb.text.json_text import JsonPath

__all__ = [
    "DEFAULT_VERSION",
    "FIRST_METADATA",
    "VERSION_KEY",
    "catalog_refusal",
    "following_path",
    "havasu_features",
    "havasu_version",
    "packed_metadata",
    "with_current",
    "with_snapshot",
]

VERSION_KEY = "havasu.format-version"
DEFAULT_VERSION = "0.1.0"
"""Havasu, Table Metadata: the version of a table that states none."""

_FIELD_KEYS = ("havasu.geometry-encoding", "havasu.raster-encoding")
_KNOWN = re.compile(r"0\.1(?:\.[0-9]{1,9})?")


def havasu_version(metadata: TableMetadata) -> str | None:
    """The Havasu version of a table, `None` for a plain Iceberg table."""
    stated = metadata.raw.get(VERSION_KEY, metadata.properties.get(VERSION_KEY))
    current = metadata.schemas[metadata.current_schema_id]
    if stated is None and not _has_spatial_field(current):
        return None
    if stated is not None and not isinstance(stated, str):
        raise CorruptTableError(f"{VERSION_KEY!r} is not a string", where=metadata.where)
    version = DEFAULT_VERSION if stated is None else stated.strip()
    if not _KNOWN.fullmatch(version):
        raise UnsupportedTableError(
            f"Havasu version {version[:40]!r} is not supported",
            where=metadata.where,
            remedy=f"supported: {DEFAULT_VERSION}",
        )
    # Havasu, Rationale: it extends the versions 1 and 2 of Iceberg and is not applicable to later ones.
    if metadata.format_version > 2:
        raise UnsupportedTableError(
            f"the table has Havasu columns and Iceberg format version {metadata.format_version}",
            where=metadata.where,
            remedy="Havasu extends versions 1 and 2 only; version 3 has its own geometry types",
        )
    return version


def _has_spatial_field(schema: Any) -> bool:
    stack = [schema]
    while stack:
        type_ = stack.pop()
        if isinstance(type_, dict):
            if any(key in type_ for key in _FIELD_KEYS):
                return True
            stack += [type_.get(key) for key in ("type", "fields", "element", "key", "value")]
        elif isinstance(type_, list):
            stack += type_
    return False


def havasu_features(version: str, schema: Schema) -> tuple[Feature, ...]:
    """What a Havasu table requires of engines."""
    types = [field.type for _, field in schema.walk()]
    features = [
        Feature(
            "havasu",
            f"Havasu {version}: manifests may have the bounds of geometry and raster columns as WKB points.",
            needed_to_read=False,
        )
    ]
    encodings = sorted({type_.encoding.value for type_ in types if isinstance(type_, GeometryType)})
    if encodings:
        listed = ", ".join(encodings)
        features.append(
            Feature("havasu.geometry", f"Geometry columns stored as {listed}; other engines see bytes or strings.")
        )
    if any(isinstance(type_, RasterType) for type_ in types):
        features.append(
            Feature(
                "havasu.raster",
                "Raster columns, whose schema is an empty struct; other engines cannot read them.",
                needed_to_read=True,
            )
        )
    return tuple(features)


FIRST_METADATA = "metadata/v1.metadata.json"

_NAME = re.compile(r"(metadata/v)(\d{1,18})((?:\.gz)?\.metadata\.json(?:\.gz)?)")
_KEPT_LOG = "write.metadata.previous-versions-max"
_MAIN = "main"


def following_path(path: str, *, where: str) -> str:
    """The path of the next metadata file; only one of several writers can create it.

    >>> following_path("metadata/v9.gz.metadata.json", where="t")
    'metadata/v10.gz.metadata.json'
    >>> following_path("metadata/00003-a.metadata.json", where="t")
    Traceback (most recent call last):
    geolake_nb.errors.RefusedError: t: a catalog manages the table: its metadata files are not named v1, v2 ...
    """
    match = _NAME.fullmatch(path)
    if match is None:
        raise catalog_refusal("its metadata files are not named v1, v2 and so on", where=where)
    return f"{match[1]}{int(match[2]) + 1}{match[3]}"


def catalog_refusal(why: str, *, where: str) -> RefusedError:
    """The error for a change of a table that a catalog manages; `why` explains how that is known.

    >>> catalog_refusal("it was opened as c.ns.t", where="/t").what
    'a catalog manages the table: it was opened as c.ns.t, and a commit through it would drop the types of Havasu'
    """
    # A catalog would not see a metadata file written next to the one it knows. Its clients and servers write the
    # schema as in Iceberg, without `havasu.geometry-encoding`.
    return RefusedError(
        f"a catalog manages the table: {why}, and a commit through it would drop the types of Havasu",
        where=where,
        remedy="change it with Wherobots, or copy its rows to a folder: gl.write(rows, folder, format='havasu')",
    )


def packed_metadata(text: str, path: str) -> bytes:
    """The bytes of a metadata file of that name.

    >>> packed_metadata('{"a":1}', "metadata/v1.metadata.json")
    b'{"a":1}'
    """
    return gzip.compress(text.encode(), mtime=0) if ".gz" in path else text.encode()


def with_snapshot(text: str, snapshot: Mapping[str, Any], *, before: str | None) -> str:
    """The metadata with a new current snapshot; `before` is the previous metadata file.

    Everything else stays as in the text.

    >>> new = with_snapshot('{"x": -0.0, "snapshots": []}', {"snapshot-id": 7, "timestamp-ms": 5}, before=None)
    >>> new[:75]
    '{"x": -0.0, "snapshots": [{"snapshot-id":7,"timestamp-ms":5}],"last-updated'
    >>> json.loads(new)["current-snapshot-id"], json.loads(new)["refs"]
    (7, {'main': {'snapshot-id': 7, 'type': 'branch'}})
    """
    after = with_current(text, snapshot["snapshot-id"], moment=snapshot["timestamp-ms"], before=before)
    changes: dict[JsonPath, str | None] = {("snapshots",): _longer(text, "snapshots", snapshot)}
    if "sequence-number" in snapshot:
        changes["last-sequence-number",] = _dumped(snapshot["sequence-number"])
    return edited(after, changes)


def with_current(text: str, snapshot_id: int, *, moment: int, before: str | None) -> str:
    """The metadata with that snapshot as the current one."""
    changes: dict[JsonPath, str | None] = {
        ("last-updated-ms",): _dumped(moment),
        ("current-snapshot-id",): _dumped(snapshot_id),
        # A branch may have its own retention rules, which stay.
        ("refs", _MAIN, "snapshot-id"): _dumped(snapshot_id),
        ("snapshot-log",): _longer(text, "snapshot-log", {"timestamp-ms": moment, "snapshot-id": snapshot_id}),
    }
    if member(text, ("refs", _MAIN, "type")) is None:
        changes["refs", _MAIN, "type"] = _dumped("branch")
    if before is not None:
        entry = {"timestamp-ms": json.loads(member(text, ("last-updated-ms",)) or "0"), "metadata-file": before}
        changes["metadata-log",] = _longer(text, "metadata-log", entry, most=_kept(text))
    return edited(text, changes)


def _longer(text: str, key: str, entry: Mapping[str, Any], *, most: int | None = None) -> str:
    """The list under a key with one more entry, limited to the last `most`."""
    listed = member(text, (key,))
    entries = [] if listed in (None, "null") else elements(listed or "")
    kept = [*entries, _dumped(entry)]
    return f"[{','.join(kept if most is None else kept[-most:])}]"


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _kept(text: str) -> int:
    limit = str(json.loads(member(text, ("properties", _KEPT_LOG)) or "null"))
    return max(1, int(limit)) if limit.isascii() and limit.isdigit() and len(limit) < 9 else 100
