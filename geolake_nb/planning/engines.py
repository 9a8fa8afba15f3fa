"""What each known engine does with a geospatial table today: dated facts, each with its source."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.types import EdgeAlgorithm, GeographyType, GeometryType, MapType, RasterType, StringType
from geolake_nb.formats.snapshot import Snapshot, TableFormat

if TYPE_CHECKING:
    from geolake_nb.core.schema import Schema

__all__ = ["AS_OF", "ENGINE_FACTS", "Answer", "EngineFact", "TableKind", "engine_facts"]

AS_OF = "2026-11"
"""The month in which the facts were gathered."""


class Answer(enum.Enum):
    """What is known of a question."""

    YES = "yes"
    """It does."""
    NO = "no"
    """It does not."""
    UNKNOWN = "not known"
    """No source says so, and it was not tried."""


class TableKind(enum.Enum):
    """The kinds of tables that engines differ on."""

    DELTA_GEO = "Delta with geospatial types"
    """The feature `geospatial` or `geospatial-dev`."""
    DELTA_COLLATED = "Delta with collations"
    """The feature `collations` or `collations-preview`."""
    ICEBERG_GEO = "Iceberg v3 with geo types"
    """`geometry` and `geography` columns of format version 3."""
    HAVASU = "Havasu"
    """Geometry and raster columns on Iceberg v1 or v2."""
    PARQUET_GEO = "Parquet with geo types"
    """GEOMETRY or GEOGRAPHY logical types, or GeoParquet metadata."""


@dataclass(frozen=True, slots=True)
class EngineFact:
    """What one engine does with one kind of table; `note` says in words what yes and no leave out."""

    engine: str
    kind: TableKind
    reads: Answer
    writes: Answer
    skips_geometry: Answer
    """Whether a spatial filter on a geometry leaves files or row groups unread by their boxes."""
    skips_geography: Answer
    note: str
    source: str
    as_of: str = AS_OF

    def to_dict(self) -> dict[str, Any]:
        """The fact with plain values: `engine, kind, reads, writes, skips_geometry, skips_geography, note,
        source, as_of`.

        >>> ENGINE_FACTS[0].to_dict()["reads"]
        'yes'
        """
        return {
            "engine": self.engine,
            "kind": self.kind.value,
            "reads": self.reads.value,
            "writes": self.writes.value,
            "skips_geometry": self.skips_geometry.value,
            "skips_geography": self.skips_geography.value,
            "note": self.note,
            "source": self.source,
            "as_of": self.as_of,
        }


_YES, _NO, _OPEN = Answer.YES, Answer.NO, Answer.UNKNOWN
_TRIED = "tried with these versions"

ENGINE_FACTS: tuple[EngineFact, ...] = (
    EngineFact(
        "Spark 4.2 + Delta 4.4.0",
        TableKind.DELTA_GEO,
        _YES, _YES, _NO, _NO,
        "needs spark.databricks.delta.geo.preview.enabled; writes null counts and no boxes; has no spatial "
        "predicates, and keeps boxes that others wrote",
        _TRIED,
    ),
    EngineFact(
        "Delta Kernel (Java) 4.4",
        TableKind.DELTA_GEO,
        _YES, _OPEN, _YES, _NO,
        "skips on StGeometryBoxesIntersect only, box against box on a plane: a wrapped box would lose rows",
        "https://github.com/delta-io/delta/pull/6444",
    ),
    EngineFact(
        "deltalake 1.6",
        TableKind.DELTA_GEO,
        _NO, _NO, _NO, _NO,
        "cannot open the table: its kernel does not know the types",
        _TRIED + "; https://github.com/delta-io/delta-kernel-rs/issues/2427",
    ),
    EngineFact(
        "DuckDB 1.5 (delta)",
        TableKind.DELTA_GEO,
        _NO, _NO, _NO, _NO,
        "delta_scan stops at the reader feature geospatial",
        "https://github.com/duckdb/duckdb-delta/issues/248",
    ),
    EngineFact(
        "Trino (delta)",
        TableKind.DELTA_GEO,
        _OPEN, _OPEN, _OPEN, _OPEN,
        "no source found",
        "none",
    ),
    EngineFact(
        "Spark 4.2 + Delta 4.4.0",
        TableKind.DELTA_COLLATED,
        _YES, _NO, _NO, _NO,
        "compares by the collation when it reads; refuses to append, and to create such a table",
        _TRIED,
    ),
    EngineFact(
        "Delta Kernel (Java) 4.4",
        TableKind.DELTA_COLLATED,
        _YES, _OPEN, _OPEN, _OPEN,
        "the only engine that knows the feature by name",
        _TRIED,
    ),
    EngineFact(
        "deltalake 1.6",
        TableKind.DELTA_COLLATED,
        _YES, _NO, _NO, _NO,
        "opens the table without the collations, and refuses to append",
        _TRIED,
    ),
    EngineFact(
        "Spark 4.1 + Iceberg 1.12",
        TableKind.ICEBERG_GEO,
        _YES, _YES, _NO, _NO,
        "writes counts and no bounds; keeps bounds that others wrote, and has no spatial predicate to use them",
        _TRIED + "; https://github.com/apache/iceberg/pull/17175",
    ),
    EngineFact(
        "Spark 4.2 + Iceberg 1.12",
        TableKind.ICEBERG_GEO,
        _NO, _NO, _NO, _NO,
        "there is no runtime for Spark 4.2; the SQL catalog of the one for 4.1 fails on it",
        _TRIED,
    ),
    EngineFact(
        "PyIceberg 0.12",
        TableKind.ICEBERG_GEO,
        _NO, _NO, _NO, _NO,
        "cannot parse the type strings that Iceberg Java writes, and cannot write v3 metadata",
        _TRIED + "; https://github.com/apache/iceberg-python/issues/3004",
    ),
    EngineFact(
        "DuckDB 1.5 (iceberg)",
        TableKind.ICEBERG_GEO,
        _YES, _YES, _YES, _OPEN,
        "geometry since 1.5.3; newer builds of the extension write bounds of geometries and skip files by them",
        "https://github.com/duckdb/duckdb-iceberg/pull/1030",
    ),
    EngineFact(
        "Trino (iceberg)",
        TableKind.ICEBERG_GEO,
        _YES, _YES, _OPEN, _OPEN,
        "types since mid-2026; stores no bounds yet",
        "https://github.com/trinodb/trino/pull/27893; https://github.com/trinodb/trino/issues/30077",
    ),
    EngineFact(
        "Sedona / Havasu (Wherobots)",
        TableKind.HAVASU,
        _YES, _YES, _YES, _OPEN,
        "the vendor's engine alone; its text defines the projection of spatial predicates to manifest bounds",
        "https://docs.wherobots.com/reference/havasu",
    ),
    EngineFact(
        "Spark, PyIceberg, DuckDB, Trino",
        TableKind.HAVASU,
        _OPEN, _OPEN, _NO, _NO,
        "Iceberg's own readers know neither the types nor the bounds 1250 and 1280 of a manifest",
        "Havasu 0.1.0, Manifests",
    ),
    EngineFact(
        "DuckDB 2.0",
        TableKind.PARQUET_GEO,
        _YES, _YES, _YES, _OPEN,
        "for && with a constant, by the footer boxes of files that it wrote itself with GEOPARQUET_VERSION V2 or "
        "BOTH; it skipped nothing in files of pyarrow 26, and writes no boxes by default",
        _TRIED + "; https://github.com/duckdb/duckdb/pull/19439",
    ),
    EngineFact(
        "Spark 4.2",
        TableKind.PARQUET_GEO,
        _YES, _YES, _NO, _NO,
        "writes boxes of geometries into the footers, none of geographies; has no spatial predicates",
        _TRIED,
    ),
    EngineFact(
        "Sedona (Spark)",
        TableKind.PARQUET_GEO,
        _YES, _YES, _YES, _OPEN,
        "skips GeoParquet files by the bbox in their metadata, and row groups by a bbox column",
        "https://github.com/apache/sedona/pull/2946",
    ),
    EngineFact(
        "SedonaDB",
        TableKind.PARQUET_GEO,
        _YES, _YES, _YES, _YES,
        "skips by footer boxes of geometries, and since May 2026 of geographies",
        "https://github.com/apache/sedona-db/pull/806",
    ),
    EngineFact(
        "pyarrow 26",
        TableKind.PARQUET_GEO,
        _YES, _YES, _NO, _NO,
        "writes boxes of geometries into the footers, none of geographies; has no spatial predicates",
        _TRIED,
    ),
)  # fmt: skip
"""Every fact, by kind of table."""


def engine_facts(snapshot: Snapshot) -> tuple[EngineFact, ...]:
    """The facts that apply to the table, by its format, its features and its types.

    An answer on a type that the table does not have is left as it is; a table without geo types and
    collations has none.

    >>> from geolake_nb.core.schema import Schema
    >>> from geolake_nb.formats.file_table import FileTable
    >>> from geolake_nb.formats.snapshot import Protocol
    >>> import pyarrow as pa
    >>> none = pa.array([], pa.int64())
    >>> files = FileTable.of(path=pa.array([], pa.string()), bytes=none, rows=none)
    >>> plain = Snapshot(TableFormat.DELTA, "/t", 0, None, Schema(), Protocol("reader 1, writer 2"), files)
    >>> engine_facts(plain)
    ()
    """
    kinds = _kinds(snapshot)
    facts = [fact for fact in ENGINE_FACTS if fact.kind in kinds]
    if snapshot.format is TableFormat.DELTA and _has_collated_map_key(snapshot.schema):
        note = "cannot open the schema: it takes no collation for the keys of a map"
        facts = [
            replace(fact, reads=_NO, writes=_NO, skips_geometry=_NO, skips_geography=_NO, note=note, source=_TRIED)
            if fact.engine.startswith("Delta Kernel")
            else fact
            for fact in facts
        ]
    strange = _strange_to_spark(snapshot.schema)
    if strange is None:
        return tuple(facts)
    note = f"cannot open the schema: Spark does not know the {strange}"
    return tuple(
        replace(fact, reads=_NO, writes=_NO, skips_geometry=_NO, skips_geography=_NO, note=note)
        if fact.engine.startswith("Spark 4") and snapshot.format is TableFormat.DELTA
        else fact
        for fact in facts
    )


def _kinds(snapshot: Snapshot) -> frozenset[TableKind]:
    types = [found.type for _, found in snapshot.schema.walk()]
    has_geo = any(isinstance(one, (GeometryType, GeographyType, RasterType)) for one in types)
    features = {feature.name for feature in snapshot.protocol.features}
    kinds: set[TableKind] = set()
    if snapshot.format is TableFormat.DELTA:
        if has_geo or features & {"geospatial", "geospatial-dev"}:
            kinds.add(TableKind.DELTA_GEO)
        collated = any(isinstance(one, StringType) and one.collation is not None for one in types)
        if collated or features & {"collations", "collations-preview"}:
            kinds.add(TableKind.DELTA_COLLATED)
    elif has_geo:
        kinds.add(_GEO_KINDS[snapshot.format])
    return frozenset(kinds)


_CRS_OF_SPARK = re.compile(r"(?!SRID:)[A-Z]+:[A-Z0-9]+|SRID:0")
_GEO_KINDS = {
    TableFormat.ICEBERG: TableKind.ICEBERG_GEO,
    TableFormat.HAVASU: TableKind.HAVASU,
    TableFormat.PARQUET: TableKind.PARQUET_GEO,
}


def _has_collated_map_key(schema: Schema) -> bool:
    keys = [found.type.key.type for _, found in schema.walk() if isinstance(found.type, MapType)]
    return any(isinstance(key, StringType) and key.collation is not None for key in keys)


def _strange_to_spark(schema: Schema) -> str | None:
    """What in the schema of a Delta table Spark 4.2 stumbles over, `None` where it knows all."""
    collations = [found.type.collation for _, found in schema.walk() if isinstance(found.type, StringType)]
    providers = sorted({one.provider for one in collations if one is not None and not one.opens_in_spark})
    if providers:
        return f"collation provider {', '.join(providers)}"
    geo = [found.type for _, found in schema.walk() if isinstance(found.type, (GeometryType, GeographyType))]
    # Tried: codes of authorities in capitals and SRID:0 open, srid:<number> and projjson:<property> do not.
    crs = sorted({one.crs.text for one in geo if not _CRS_OF_SPARK.fullmatch(one.crs.text)})
    if crs:
        return f"CRS {', '.join(text[:60] for text in crs)}"
    edges = [one.algorithm for one in geo if isinstance(one, GeographyType)]
    strange = sorted({one.value for one in edges if one is not EdgeAlgorithm.SPHERICAL})
    return f"edge algorithm {', '.join(strange)}" if strange else None
