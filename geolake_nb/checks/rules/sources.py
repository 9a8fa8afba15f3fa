"""The sections of the specifications that the rules cite."""

from __future__ import annotations

from geolake_nb.model.table_format import SpecReference

__all__ = [
    "COLLATION_FEATURE",
    "COLLATION_IDENTIFIERS",
    "COLLATION_READERS",
    "COLLATION_SCHEMA",
    "COLLATION_VERSIONS",
    "COLLATION_WRITERS",
    "DELTA_FEATURE",
    "DELTA_PARQUET",
    "DELTA_STATISTICS",
    "DELTA_TYPES",
    "HAVASU_GEOMETRY_BOUNDS",
    "HAVASU_METADATA",
    "HAVASU_RASTER",
    "HAVASU_RASTER_BOUNDS",
    "HAVASU_RASTER_MODEL",
    "HAVASU_RATIONALE",
    "ICEBERG_BOUNDS",
    "ICEBERG_FILE_SIZE",
    "ICEBERG_TYPES",
    "PARQUET_BOX",
    "PARQUET_CRS",
    "PARQUET_CUSTOM_CRS",
    "PARQUET_LOGICAL",
    "PARQUET_TYPES",
]

_DELTA = "Delta geospatial types"
_COLLATIONS = "Delta collations"
_HAVASU = "Havasu table spec"
_ICEBERG = "Iceberg table spec v3"
_PARQUET = "Parquet geospatial"

DELTA_FEATURE = SpecReference(_DELTA, "Geospatial table feature")
DELTA_TYPES = SpecReference(_DELTA, "Type definitions")
DELTA_STATISTICS = SpecReference(_DELTA, "Per-file statistics")
DELTA_PARQUET = SpecReference(_DELTA, "Geospatial data in Parquet")

COLLATION_FEATURE = SpecReference(_COLLATIONS, "Collations Table Feature")
COLLATION_READERS = SpecReference(_COLLATIONS, "Reader Requirements for Collations")
COLLATION_WRITERS = SpecReference(_COLLATIONS, "Writer Requirements for Collations")
COLLATION_IDENTIFIERS = SpecReference(_COLLATIONS, "Collation identifiers")
COLLATION_SCHEMA = SpecReference(_COLLATIONS, "Specifying collations in the table schema")
COLLATION_VERSIONS = SpecReference(_COLLATIONS, "Collation versions")

HAVASU_RATIONALE = SpecReference(_HAVASU, "Rationale")
HAVASU_METADATA = SpecReference(_HAVASU, "Table Metadata")
HAVASU_GEOMETRY_BOUNDS = SpecReference(_HAVASU, "Geometry bounds")
HAVASU_RASTER_BOUNDS = SpecReference(_HAVASU, "Raster bounds")
HAVASU_RASTER_MODEL = SpecReference(_HAVASU, "Raster data model")
HAVASU_RASTER = SpecReference(_HAVASU, "Parquet Data Type Mappings, Raster")

ICEBERG_BOUNDS = SpecReference(_ICEBERG, "Bounds for Geometry and Geography")
ICEBERG_FILE_SIZE = SpecReference("Iceberg configuration", "write.target-file-size-bytes")
ICEBERG_TYPES = SpecReference(_ICEBERG, "Primitive Types")

PARQUET_BOX = SpecReference(_PARQUET, "Bounding Box")
PARQUET_CUSTOM_CRS = SpecReference(_PARQUET, "CRS Customization")
PARQUET_CRS = SpecReference(_PARQUET, "Coordinate Reference System")
PARQUET_LOGICAL = SpecReference(_PARQUET, "Logical Types")
PARQUET_TYPES = SpecReference(_PARQUET, "Geospatial Types")
