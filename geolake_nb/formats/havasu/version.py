"""Havasu: how an Iceberg table is known to be one, and what its spec asks on top of Iceberg's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from geolake_nb.core.types import GeometryType, RasterType
from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.snapshot import Feature

if TYPE_CHECKING:
    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.iceberg.metadata import TableMetadata

__all__ = ["DEFAULT_VERSION", "VERSION_KEY", "havasu_features", "havasu_version"]

VERSION_KEY = "havasu.format-version"
DEFAULT_VERSION = "0.1.0"
"""Havasu, Table Metadata: the version of a table that states none."""

_FIELD_KEYS = ("havasu.geometry-encoding", "havasu.raster-encoding")
_KNOWN = re.compile(r"0\.1(?:\.[0-9]{1,9})?")


def havasu_version(metadata: TableMetadata) -> str | None:
    """The version of Havasu that a table is of, `None` for an Iceberg table that is no Havasu table."""
    stated = metadata.raw.get(VERSION_KEY, metadata.properties.get(VERSION_KEY))
    current = metadata.schemas[metadata.current_schema_id]
    if stated is None and not _has_spatial_field(current):
        return None
    if stated is not None and not isinstance(stated, str):
        raise CorruptTableError(f"{VERSION_KEY!r} is no text", where=metadata.where)
    version = DEFAULT_VERSION if stated is None else stated.strip()
    if not _KNOWN.fullmatch(version):
        raise UnsupportedTableError(
            f"Havasu version {version[:40]!r} is not known", where=metadata.where, remedy=f"known is {DEFAULT_VERSION}"
        )
    # Havasu, Rationale: it extends the versions 1 and 2 of Iceberg and is not applicable to later ones.
    if metadata.format_version > 2:
        raise UnsupportedTableError(
            f"the table has Havasu columns and is of Iceberg format version {metadata.format_version}",
            where=metadata.where,
            remedy="Havasu extends the versions 1 and 2 only; version 3 has geometry types of its own",
        )
    return version


def _has_spatial_field(schema: Any) -> bool:
    stack = [schema]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            if any(key in one for key in _FIELD_KEYS):
                return True
            stack += [one.get(key) for key in ("type", "fields", "element", "key", "value")]
        elif isinstance(one, list):
            stack += one
    return False


def havasu_features(version: str, schema: Schema) -> tuple[Feature, ...]:
    """What a Havasu table asks of engines, in plain words."""
    types = [found.type for _, found in schema.walk()]
    features = [
        Feature(
            "havasu",
            f"Havasu {version}: manifests may hold boxes of geometry and raster columns as WKB points.",
            needed_to_read=False,
        )
    ]
    encodings = sorted({type_.encoding.value for type_ in types if isinstance(type_, GeometryType)})
    if encodings:
        listed = ", ".join(encodings)
        features.append(
            Feature("havasu.geometry", f"Geometry columns stored as {listed}; plain engines see bytes or text.")
        )
    if any(isinstance(type_, RasterType) for type_ in types):
        features.append(
            Feature(
                "havasu.raster",
                "Raster columns, whose schema is an empty struct; plain engines cannot read them.",
                needed_to_read=True,
            )
        )
    return tuple(features)
