"""What an Iceberg or Havasu table has that other formats do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.core.types import GeographyType, GeometryType, PrimitiveType
from geolake_nb.formats.snapshot import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.iceberg.location import PathMap
    from geolake_nb.formats.iceberg.metadata import PartitionSpec, StoredSnapshot, TableMetadata

__all__ = ["IcebergDetails", "iceberg_features"]


@dataclass(frozen=True, slots=True, eq=False)
class IcebergDetails:
    """Everything of a snapshot's metadata that checks and plans ask about."""

    metadata: TableMetadata
    metadata_path: str
    """The metadata file, relative to the root of the table."""
    snapshot: StoredSnapshot | None
    manifests: pa.Table
    """One row a manifest: see `manifests.MANIFEST_SCHEMA`; the column `manifest` of the files counts its rows."""
    delete_files: pa.Table
    """One row a live delete file: path, rows, kind, referenced_data_file, equality_ids, `counted`, ..."""
    paths: PathMap
    """Turns a path as stored into one that the storage reads."""
    quoted_types: bool
    """Whether a geo type stands in PyIceberg's quoted form."""
    havasu_version: str | None
    foreign_list_fields: tuple[str, ...] = ()
    """What the manifest list holds beside what Iceberg defines."""
    foreign_entry_fields: tuple[str, ...] = ()
    """What the manifests hold beside that."""

    @property
    def raw(self) -> Mapping[str, Any]:
        """The metadata file as read."""
        return self.metadata.raw

    @property
    def format_version(self) -> int:
        """The Iceberg format version."""
        return self.metadata.format_version

    @property
    def specs(self) -> Mapping[int, PartitionSpec]:
        """The partition specs by their ids."""
        return self.metadata.specs

    @property
    def sort_orders(self) -> tuple[Mapping[str, Any], ...]:
        """The sort orders as read."""
        return self.metadata.sort_orders

    @property
    def uncounted_deletes(self) -> int:
        """How many delete files may take away rows that `rows` still counts."""
        counted: list[bool] = self.delete_files["counted"].to_pylist()
        return counted.count(False)


_NEW_TYPES = {"timestamp_ns", "timestamptz_ns", "unknown", "variant"}


def iceberg_features(metadata: TableMetadata, schema: Schema, delete_files: pa.Table) -> tuple[Feature, ...]:
    """What an engine must speak to read and write the table, in plain words."""
    version = metadata.format_version
    features = []
    if version >= 2:
        features.append(
            Feature("sequence-numbers", "Format version 2: commits are numbered, and rows can be deleted by files.")
        )
    if version >= 3:
        features.append(Feature("row-lineage", "Format version 3: every row has an id that survives rewrites."))
    kinds = sorted(set(delete_files["kind"].to_pylist()))
    features += [Feature(*_DELETES[kind], needed_to_read=True) for kind in kinds]
    features += _type_features(schema, version)
    if metadata.raw.get("encryption-keys"):
        meaning = "Files are encrypted with keys that the table names."
        features.append(Feature("encryption", meaning, needed_to_read=True, known=False))
    return tuple(features)


_DELETES = {
    "deletion-vector": ("deletion-vectors", "Bitmaps in Puffin files say which rows of a data file are gone."),
    "equality": ("equality-deletes", "Delete files name rows by values of some columns; readers must leave them out."),
    "position": ("position-deletes", "Delete files name rows by file and position; readers must leave them out."),
}


def _type_features(schema: Schema, version: int) -> list[Feature]:
    found = [one for _, one in schema.walk()]
    types = [one.type for one in found if "havasu.geometry-encoding" not in one.metadata]
    allowed = "" if version >= 3 else f" The type needs format version 3; this table is of version {version}."
    meanings = {}
    if any(isinstance(one, GeometryType) for one in types):
        meanings["geometry"] = f"Columns of shapes on a plane, stored as WKB.{allowed}"
    if any(isinstance(one, GeographyType) for one in types):
        meanings["geography"] = f"Columns of shapes on the Earth with curved edges, stored as WKB.{allowed}"
    for name in sorted({one.name for one in types if isinstance(one, PrimitiveType)} & _NEW_TYPES):
        meanings[name] = f"Columns of the type {name}.{allowed}"
    if any(one.metadata.get("initial-default") is not None for one in found):
        meanings["default-values"] = "Columns that older files lack have a default other than null."
    return [Feature(name, meaning, needed_to_read=True) for name, meaning in meanings.items()]
