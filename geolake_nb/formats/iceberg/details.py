"""Details specific to Iceberg and Havasu tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.model.snapshot import Feature
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from geolake_nb.formats.iceberg.location import PathMap
    from geolake_nb.formats.iceberg.metadata import PartitionSpec, StoredSnapshot, TableMetadata
    from geolake_nb.model.schema import Schema

__all__ = ["IcebergDetails", "iceberg_features"]


@dataclass(frozen=True, slots=True, eq=False)
class IcebergDetails:
    """The metadata of a snapshot that checks and plans need."""

    metadata: TableMetadata
    metadata_path: str
    """The metadata file, relative to the root of the table."""
    snapshot: StoredSnapshot | None
    manifests: pa.Table
    """One row per manifest: see `manifests.MANIFEST_SCHEMA`; the column `manifest` of the files is its row number."""
    delete_files: pa.Table
    """One row per live delete file: path, rows, kind, referenced_data_file, equality_ids, `counted`, ..."""
    paths: PathMap
    """Maps a stored path to a storage key."""
    quoted_types: bool
    """Whether a geo type is in PyIceberg's quoted form."""
    havasu_version: str | None
    foreign_list_fields: tuple[str, ...] = ()
    """Fields of the manifest list that Iceberg does not define."""
    foreign_entry_fields: tuple[str, ...] = ()
    """Fields of the manifests that Iceberg does not define."""

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
        """How many delete files may delete rows that `rows` still counts."""
        counted: list[bool] = self.delete_files["counted"].to_pylist()
        return counted.count(False)


_NEW_TYPES = {"timestamp_ns", "timestamptz_ns", "unknown", "variant"}


def iceberg_features(metadata: TableMetadata, schema: Schema, delete_files: pa.Table) -> tuple[Feature, ...]:
    """The features that an engine must support to read and write the table."""
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
        meaning = "Files are encrypted with the keys of the table."
        features.append(Feature("encryption", meaning, needed_to_read=True, known=False))
    return tuple(features)


_DELETES = {
    "deletion-vector": ("deletion-vectors", "Bitmaps in Puffin files mark the deleted rows of a data file."),
    "equality": ("equality-deletes", "Delete files identify rows by values of some columns; readers must skip them."),
    "position": ("position-deletes", "Delete files identify rows by file and position; readers must skip them."),
}


def _type_features(schema: Schema, version: int) -> list[Feature]:
    fields = [field for _, field in schema.walk()]
    types = [field.type for field in fields if "havasu.geometry-encoding" not in field.metadata]
    allowed = "" if version >= 3 else f" The type needs format version 3; this table has version {version}."
    meanings = {}
    if any(isinstance(type_, GeometryType) for type_ in types):
        meanings["geometry"] = f"Columns of geometries on a plane, stored as WKB.{allowed}"
    if any(isinstance(type_, GeographyType) for type_ in types):
        meanings["geography"] = f"Columns of geometries on the Earth with geodesic edges, stored as WKB.{allowed}"
    for name in sorted({type_.name for type_ in types if isinstance(type_, PrimitiveType)} & _NEW_TYPES):
        meanings[name] = f"Columns of the type {name}.{allowed}"
    if any(field.metadata.get("initial-default") is not None for field in fields):
        meanings["default-values"] = "Columns that older files lack have a default other than null."
    return [Feature(name, meaning, needed_to_read=True) for name, meaning in meanings.items()]
