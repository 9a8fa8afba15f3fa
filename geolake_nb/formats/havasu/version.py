"""Havasu: how a table is recognized, and what its spec requires in addition to Iceberg's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.model.snapshot import Feature
from geolake_nb.model.types import GeometryType, RasterType

if TYPE_CHECKING:
    from geolake_nb.formats.iceberg.metadata import TableMetadata
    from geolake_nb.model.schema import Schema

__all__ = ["DEFAULT_VERSION", "VERSION_KEY", "havasu_features", "havasu_version"]

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
