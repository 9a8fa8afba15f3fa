"""What each known engine does with a geospatial table today: dated facts, each with its source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.model.collation import stored_collations
from geolake_nb.model.table_format import Answer, EngineFact, TableKind
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryType, MapType, StringType

if TYPE_CHECKING:
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["ENGINE_FACTS", "engine_facts", "facts_by_kind", "published_facts"]

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
        "Databricks Runtime 17.1",
        TableKind.DELTA_GEO,
        _YES, _YES, _OPEN, _OPEN,
        "geometry and geography columns of Delta tables; a GEOMETRY(ANY) column cannot be stored",
        "https://docs.databricks.com/gcp/sql/language-manual/data-types/geometry-type",
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
        "Databricks Runtime 17.1",
        TableKind.ICEBERG_GEO,
        _NO, _NO, _NO, _NO,
        "its Iceberg tables have no geometry columns",
        "https://docs.databricks.com/gcp/sql/language-manual/data-types/geometry-type",
    ),
    EngineFact(
        "Snowflake",
        TableKind.ICEBERG_GEO,
        _YES, _YES, _OPEN, _OPEN,
        "geometry and geography of tables that it or another catalog manages; a table needs ICEBERG_VERSION = 3",
        "https://docs.snowflake.com/en/user-guide/tables-iceberg-v3-specification-support.html",
    ),
    EngineFact(
        "Wherobots",
        TableKind.ICEBERG_GEO,
        _YES, _YES, _YES, _OPEN,
        "keeps the bounds of a geometry with a CRS in Iceberg's column bounds, and skips data files by them",
        "https://docs.wherobots.com/data-engineering/iceberg-tables/spatial-index",
    ),
    EngineFact(
        "iceberg-go",
        TableKind.ICEBERG_GEO,
        _OPEN, _NO, _OPEN, _NO,
        "a change that writes bounds of geometries, and none of geographies, is proposed and not merged; without it a "
        "write of a geo column ends in a panic",
        "https://github.com/apache/iceberg-go/pull/1371",
    ),
    EngineFact(
        "Spark 4.2 + Delta 4.4.0",
        TableKind.DELTA_PUBLISHED,
        _YES, _YES, _OPEN, _OPEN,
        "reads the files as they are; VACUUM deletes files of the folder that the log does not list",
        _TRIED,
    ),
    EngineFact(
        "Delta Kernel (Java) 4.4",
        TableKind.DELTA_PUBLISHED,
        _YES, _OPEN, _OPEN, _OPEN,
        "reads the files as they are",
        _TRIED,
    ),
    EngineFact(
        "deltalake 1.6",
        TableKind.DELTA_PUBLISHED,
        _YES, _OPEN, _OPEN, _OPEN,
        "reads the files as they are",
        _TRIED,
    ),
    EngineFact(
        "Spark 4.1 + Iceberg 1.12",
        TableKind.ICEBERG_PUBLISHED,
        _YES, _YES, _OPEN, _OPEN,
        "finds columns of files without field ids by the name mapping",
        _TRIED,
    ),
    EngineFact(
        "PyIceberg 0.12",
        TableKind.ICEBERG_PUBLISHED,
        _YES, _OPEN, _OPEN, _OPEN,
        "finds columns of files without field ids by the name mapping; writes version 3 with geolake_nb's bridge only",
        _TRIED,
    ),
    EngineFact(
        "DuckDB 1.5 (iceberg)",
        TableKind.ICEBERG_PUBLISHED,
        _YES, _OPEN, _OPEN, _OPEN,
        "finds columns of files without field ids by the name mapping, since May 2025 in lists and maps too",
        "https://github.com/duckdb/duckdb-iceberg/pull/220",
    ),
    EngineFact(
        "Trino (iceberg)",
        TableKind.ICEBERG_PUBLISHED,
        _YES, _OPEN, _OPEN, _OPEN,
        "finds columns of files without field ids by the name mapping; needs the table in a catalog",
        "https://github.com/trinodb/trino/pull/9959",
    ),
    EngineFact(
        "Snowflake",
        TableKind.ICEBERG_PUBLISHED,
        _OPEN, _NO, _OPEN, _OPEN,
        "takes a table in object storage by its metadata file, to read alone; the counts and the row lineage that it "
        "needs are written, and no source says whether it reads files without field ids",
        "https://docs.snowflake.com/en/sql-reference/sql/create-iceberg-table-iceberg-files",
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
        _YES, _YES, _YES, _YES,
        "for && with a constant, by footer boxes; reads a geography as a geometry, on a plane; files of pyarrow 26 are "
        "read whole, and boxes are written only with GEOPARQUET_VERSION V2 or BOTH",
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
        "SedonaDB 0.5",
        TableKind.PARQUET_GEO,
        _YES, _YES, _YES, _YES,
        "skips by footer boxes of geometries, and since May 2026 of geographies",
        _TRIED + "; https://github.com/apache/sedona-db/pull/806",
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
    """What each engine does with the table, one fact for an engine: `facts_by_kind` where several kinds apply.

    What is needed for one kind is needed for the table: the worst answer holds for reading and writing.
    """
    by_engine: dict[str, EngineFact] = {}
    for fact in facts_by_kind(snapshot):
        known = by_engine.get(fact.engine)
        by_engine[fact.engine] = fact if known is None else _both(known, fact)
    return tuple(by_engine.values())


def _both(first: EngineFact, second: EngineFact) -> EngineFact:
    reads, writes = _worse(first.reads, second.reads), _worse(first.writes, second.writes)
    # Only the facts about geo types say what an engine skips by; an engine that cannot read skips nothing.
    geo = next((fact for fact in (first, second) if fact.kind is not TableKind.DELTA_COLLATED), first)
    skips = (_NO, _NO) if reads is _NO else (geo.skips_geometry, geo.skips_geography)
    notes = "; ".join(dict.fromkeys(fact.note for fact in (first, second) if fact.note))
    sources = "; ".join(dict.fromkeys(part for fact in (first, second) for part in fact.source.split("; ")))
    return replace(
        geo, reads=reads, writes=writes, skips_geometry=skips[0], skips_geography=skips[1], note=notes, source=sources
    )


def _worse(first: Answer, second: Answer) -> Answer:
    """The answer that holds for both.

    >>> _worse(Answer.YES, Answer.UNKNOWN), _worse(Answer.UNKNOWN, Answer.NO)
    (<Answer.UNKNOWN: 'not known'>, <Answer.NO: 'no'>)
    """
    return max(first, second, key=(_YES, _OPEN, _NO).index)


def facts_by_kind(snapshot: Snapshot) -> tuple[EngineFact, ...]:
    """The facts that apply to the table, by its format, its features and its types.

    An answer on a type that the table does not have stays as it is; a table without geo types and
    collations has no facts.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.file_table import FileTable
    >>> from geolake_nb.formats.registry import DELTA
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> import pyarrow as pa
    >>> none = pa.array([], pa.int64())
    >>> files = FileTable.of(path=pa.array([], pa.string()), bytes=none, rows=none)
    >>> plain = Snapshot(DELTA, "/t", 0, None, Schema(), Protocol("reader 1, writer 2"), files)
    >>> facts_by_kind(plain)
    ()
    """
    kinds = snapshot.format.table_kinds(snapshot)
    facts = [fact for fact in ENGINE_FACTS if fact.kind in kinds]
    if TableKind.DELTA_COLLATED in kinds and _has_collated_map_key(snapshot.schema):
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
        if fact.engine.startswith("Spark 4") and fact.kind in (TableKind.DELTA_GEO, TableKind.DELTA_COLLATED)
        else fact
        for fact in facts
    )


def published_facts(snapshot: Snapshot, *, typed: bool = True) -> tuple[EngineFact, ...]:
    """The facts about a table over files that were there before: what its types and these files need.

    An engine that stops at one of the two does not read the table. `typed` is whether the files declare the geo types.
    """
    facts = {fact.engine: fact for fact in engine_facts(snapshot)}
    for fact in ENGINE_FACTS:
        if fact.kind is not snapshot.format.published_kind:
            continue
        of_types = facts.get(fact.engine)
        if of_types is not None:
            reads, writes = _worse(of_types.reads, fact.reads), _worse(of_types.writes, fact.writes)
            note = f"{of_types.note}; {fact.note}"
            source = f"{of_types.source}; {fact.source}"
            facts[fact.engine] = replace(of_types, reads=reads, writes=writes, note=note, source=source)
        elif not any(snapshot.schema.geo_columns()):
            facts[fact.engine] = fact
    return tuple(facts.values() if typed else map(_without_geo_types, facts.values()))


def _without_geo_types(fact: EngineFact) -> EngineFact:
    """The fact for files whose geo columns are plain binary."""
    if fact.reads is not _YES:
        return fact
    if fact.engine.startswith("Spark 4.1"):
        note = "fails on a geo column in files that do not declare the geo type, and reads the others"
        return replace(fact, reads=_NO, writes=_NO, note=note, source=_TRIED)
    if fact.kind is TableKind.ICEBERG_GEO:
        note = f"{fact.note}; not tried with files that do not declare the geo type"
        return replace(fact, reads=_OPEN, note=note)
    return fact


_CRS_OF_SPARK = re.compile(r"(?!SRID:)[A-Z]+:[A-Z0-9]+|SRID:0")


def _has_collated_map_key(schema: Schema) -> bool:
    keys = [field.type.key.type for _, field in schema.walk() if isinstance(field.type, MapType)]
    return any(isinstance(key, StringType) and key.collation is not None for key in keys)


def _strange_to_spark(schema: Schema) -> str | None:
    """What in the schema of a Delta table Spark 4.2 does not know, `None` where it knows all."""
    strings = [field.type.collation for _, field in schema.walk() if isinstance(field.type, StringType)]
    collations = [collation for collation in strings if collation is not None]
    providers = sorted(
        {collation.provider for collation in collations if collation.provider and not collation.is_of_spark}
    )
    if providers:
        return f"collation provider {', '.join(providers)}"
    names = {str(collation) for collation in collations if not collation.opens_in_spark}
    # Spark reads all after the provider as the name, a version too.
    stored = [collation for _, field in schema.walk() for _, collation in stored_collations(field)]
    names |= {str(collation) for collation in stored if collation.version is not None}
    if names:
        return f"collation {', '.join(sorted(names))}"
    geo = [field.type for _, field in schema.walk() if isinstance(field.type, (GeometryType, GeographyType))]
    # Tried: codes of authorities in capitals and SRID:0 open, srid:<number> and projjson:<property> do not.
    crs = sorted({type_.crs.text for type_ in geo if not _CRS_OF_SPARK.fullmatch(type_.crs.text)})
    if crs:
        return f"CRS {', '.join(text[:60] for text in crs)}"
    edges = [type_.algorithm for type_ in geo if isinstance(type_, GeographyType)]
    strange = sorted({edge.value for edge in edges if edge is not EdgeAlgorithm.SPHERICAL})
    return f"edge algorithm {', '.join(strange)}" if strange else None
