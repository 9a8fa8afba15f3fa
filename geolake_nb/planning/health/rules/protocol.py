"""Rules about versions and features: what a table must declare for the types that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from geolake_nb.core.types import GeographyType, GeometryType, RasterType, StringType
from geolake_nb.formats.delta.details import DeltaDetails
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.format_facts import data_file_formats, havasu_version, parquet_problems, quoted_type_columns
from geolake_nb.planning.health.evidence import flags
from geolake_nb.planning.health.finding import Place, Severity, SpecReference, printable
from geolake_nb.planning.health.rule import Fault, Rule
from geolake_nb.planning.health.rules.sources import (
    COLLATION_FEATURE,
    DELTA_FEATURE,
    HAVASU_METADATA,
    HAVASU_RATIONALE,
    ICEBERG_TYPES,
    PARQUET_LOGICAL,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.formats.snapshot import Feature, Snapshot
    from geolake_nb.planning.health.evidence import Evidence

__all__ = ["PROTOCOL_RULES"]

_GEOSPATIAL = "geospatial"
_GEOSPATIAL_PREVIEWS = ("geospatial-dev", "geospatial-preview")
_COLLATIONS = "collations"
_COLLATIONS_PREVIEWS = ("collations-preview",)
_DOMAIN_METADATA = "domainMetadata"
_SHOWN = 20
_COMPACTION = SpecReference("Delta protocol", "Log Compaction Files")


def _unreconciled(evidence: Evidence) -> Iterator[Fault]:
    details = evidence.snapshot.details
    logs = details.unreconciled if isinstance(details, DeltaDetails) else ()
    for path in logs:
        what = "the compacted log states a file, a schema or a transaction more than once; the commits are read instead"
        yield Fault(what, Place(paths=(path,), count=1))


def _geo_version(evidence: Evidence) -> Iterator[Fault]:
    # Delta geospatial types, Geospatial table feature: reader version 3 and writer version 7.
    place = _columns_place(evidence.snapshot, geo=True)
    reader, writer = _number(evidence, "minReaderVersion"), _number(evidence, "minWriterVersion")
    if place.count and (reader < 3 or writer < 7):
        what = f"geometry and geography need reader 3 and writer 7; the table has reader {reader} and writer {writer}"
        yield Fault(what, place)


def _geo_feature(evidence: Evidence) -> Iterator[Fault]:
    place = _columns_place(evidence.snapshot, geo=True)
    features = _features(evidence.snapshot)
    if not place.count or any(name in features for name in _GEOSPATIAL_PREVIEWS):
        return
    found = features.get(_GEOSPATIAL)
    if found is None:
        yield Fault(f"geometry and geography need the table feature {_GEOSPATIAL!r}, which is not listed", place)
    elif not (found.needed_to_read and found.needed_to_write):
        missing = "writerFeatures" if found.needed_to_read else "readerFeatures"
        yield Fault(f"the table feature {_GEOSPATIAL!r} is not in {missing}", place)


def _geo_preview(evidence: Evidence) -> Iterator[Fault]:
    yield from _preview(evidence, _GEOSPATIAL, _GEOSPATIAL_PREVIEWS)


def _collations_preview(evidence: Evidence) -> Iterator[Fault]:
    yield from _preview(evidence, _COLLATIONS, _COLLATIONS_PREVIEWS)


def _preview(evidence: Evidence, name: str, previews: tuple[str, ...]) -> Iterator[Fault]:
    features = _features(evidence.snapshot)
    found = [preview for preview in previews if preview in features]
    if found and name not in features:
        yield Fault(f"the table has the feature {found[0]!r}; readers of the final one look for {name!r}")


def _collations_feature(evidence: Evidence) -> Iterator[Fault]:
    place = _columns_place(evidence.snapshot, geo=False)
    features = _features(evidence.snapshot)
    if not place.count:
        return
    # Delta collations, Collations Table Feature: writer version 7, and the feature in writerFeatures.
    if not any(name in features for name in (_COLLATIONS, *_COLLATIONS_PREVIEWS)):
        what = f"collated strings need the writer feature {_COLLATIONS!r}: writers without it drop the collations"
        yield Fault(what, place)
    elif _number(evidence, "minWriterVersion") < 7:
        yield Fault(f"the feature {_COLLATIONS!r} needs writer 7", place)


def _domain_metadata(evidence: Evidence) -> Iterator[Fault]:
    features = _features(evidence.snapshot)
    collated = any(name in features for name in (_COLLATIONS, *_COLLATIONS_PREVIEWS))
    if collated and _DOMAIN_METADATA not in features:
        yield Fault(f"the feature {_COLLATIONS!r} needs the writer feature {_DOMAIN_METADATA!r}, which is not listed")


def _iceberg_version(evidence: Evidence) -> Iterator[Fault]:
    place = _columns_place(evidence.snapshot, geo=True)
    version = _number(evidence, "format-version")
    if place.count and version < 3:
        yield Fault(f"geometry and geography need format version 3; the table has {version}", place)


def _quoted_type(evidence: Evidence) -> Iterator[Fault]:
    columns = quoted_type_columns(evidence.snapshot)
    if columns:
        what = (
            "type texts with quotes around the CRS, as in geometry('EPSG:3857'): other readers take them for its name"
        )
        yield Fault(what, _place_of(columns))


def _havasu_base(evidence: Evidence) -> Iterator[Fault]:
    version = _number(evidence, "format-version")
    if version > 2:
        yield Fault(f"Havasu extends Iceberg 1 and 2 and no later version; the table has {version}")


def _havasu_version(evidence: Evidence) -> Iterator[Fault]:
    version = havasu_version(evidence.snapshot)
    if version is not None and version != "0.1.0":
        yield Fault(f"the table has Havasu version {printable(version)}; only 0.1.0 is defined")


def _havasu_file_format(evidence: Evidence) -> Iterator[Fault]:
    formats = data_file_formats(evidence.snapshot)
    if formats is None:
        return
    wrong = flags(pc.not_equal(pc.utf8_upper(formats), "PARQUET"))
    if wrong.any():
        others = sorted(set(np.asarray(pc.utf8_upper(formats).to_numpy(zero_copy_only=False))[wrong].tolist()))
        what = f"data files in {', '.join(map(printable, others))}: Havasu defines its types for Parquet alone"
        yield Fault(what, evidence.place(wrong))


def _files_differ(evidence: Evidence) -> Iterator[Fault]:
    groups: dict[tuple[str | None, str], list[str]] = {}
    for problem in parquet_problems(evidence.snapshot):
        paths = groups.setdefault((problem.column, problem.what), [])
        paths += [] if problem.path is None else [problem.path]
    for (column, what), paths in list(groups.items())[:_SHOWN]:
        yield Fault(what, Place(column, tuple(paths[:3]), len(paths)))


def _number(evidence: Evidence, name: str) -> int:
    return evidence.snapshot.protocol.numbers.get(name, 0)


def _features(snapshot: Snapshot) -> dict[str, Feature]:
    return {feature.name: feature for feature in snapshot.protocol.features}


def _columns_place(snapshot: Snapshot, *, geo: bool) -> Place:
    """The columns with a geo type, or those with a collation."""
    if geo:
        kinds = (GeometryType, GeographyType, RasterType)
        names = [path for path, field in snapshot.schema.walk() if isinstance(field.type, kinds)]
    else:
        walk = ((path, field.type) for path, field in snapshot.schema.walk())
        names = [path for path, type_ in walk if isinstance(type_, StringType) and type_.collation is not None]
    return _place_of(tuple(names))


def _place_of(columns: tuple[str, ...]) -> Place:
    shown = ", ".join(columns[:3]) + (", …" if len(columns) > 3 else "")
    return Place(shown or None, count=len(columns), unit="columns")


_DELTA = frozenset({TableFormat.DELTA})
_ICEBERG = frozenset({TableFormat.ICEBERG})
_HAVASU = frozenset({TableFormat.HAVASU})

PROTOCOL_RULES = (
    Rule(
        "protocol.geo_version",
        Severity.ERROR,
        "a Delta table with geo types below reader 3 or writer 7",
        "Engines go by these numbers first: one that knows no geo types is not stopped, and misreads the columns.",
        DELTA_FEATURE,
        _geo_version,
        "geolake enable {table} geospatial",
        _DELTA,
    ),
    Rule(
        "protocol.geo_feature",
        Severity.ERROR,
        "a Delta table with geo types without the feature geospatial for readers and writers",
        "The feature is how an engine learns that geo types are there: without it some refuse the table, and "
        "others that know no geo types write to it.",
        DELTA_FEATURE,
        _geo_feature,
        "geolake enable {table} geospatial",
        _DELTA,
    ),
    Rule(
        "protocol.geo_preview",
        Severity.WARNING,
        "a Delta table with the preview name of the feature geospatial",
        "Engines of today look for the final name, and may refuse the table.",
        DELTA_FEATURE,
        _geo_preview,
        "geolake enable {table} geospatial",
        _DELTA,
    ),
    Rule(
        "protocol.collations_feature",
        Severity.ERROR,
        "a Delta table with collated strings without the feature collations or writer 7",
        "A writer that knows no collations is not stopped, and drops them with its next change of the schema.",
        COLLATION_FEATURE,
        _collations_feature,
        "geolake enable {table} collations",
        _DELTA,
    ),
    Rule(
        "protocol.collations_preview",
        Severity.WARNING,
        "a Delta table with the preview name of the feature collations",
        "Engines of today look for the final name, and may refuse the table.",
        COLLATION_FEATURE,
        _collations_preview,
        "geolake enable {table} collations",
        _DELTA,
    ),
    Rule(
        "protocol.domain_metadata",
        Severity.ERROR,
        "a Delta table with the feature collations and without domainMetadata",
        "The table keeps there which versions of a collation have statistics: without the feature a writer may "
        "lose that, and strict ones refuse the table.",
        COLLATION_FEATURE,
        _domain_metadata,
        "geolake enable {table} collations",
        _DELTA,
    ),
    Rule(
        "protocol.compacted_log",
        Severity.ERROR,
        "a compacted log of a Delta table that is not reconciled: it states a file more than once",
        "Readers that rely on it may bring back deleted rows or read a file twice. Delete the compacted log: its"
        " commits say the same, and all of them are there.",
        _COMPACTION,
        _unreconciled,
        formats=_DELTA,
    ),
    Rule(
        "protocol.iceberg_version",
        Severity.ERROR,
        "an Iceberg table with geo types below format version 3",
        "Engines expect no geo types in versions 1 and 2, and fail on the schema.",
        ICEBERG_TYPES,
        _iceberg_version,
        "geolake convert {table}",
        _ICEBERG,
    ),
    Rule(
        "protocol.quoted_type",
        Severity.ERROR,
        "an Iceberg type text with quotes around the CRS, as PyIceberg writes it",
        "Other engines take the quotes for a part of the CRS's name, and cannot read the table or place its data.",
        ICEBERG_TYPES,
        _quoted_type,
        "geolake repair {table}",
        _ICEBERG,
    ),
    Rule(
        "protocol.havasu_base",
        Severity.ERROR,
        "Havasu columns in an Iceberg table above format version 2",
        "Iceberg 3 has geo types of its own with other bounds, so that nobody can tell which rules hold for this "
        "table.",
        HAVASU_RATIONALE,
        _havasu_base,
        "geolake convert {table}",
        _HAVASU,
    ),
    Rule(
        "protocol.havasu_version",
        Severity.WARNING,
        "a Havasu table of a version that is not defined",
        "What another version means is not written down: its bounds may be read by the wrong rules.",
        HAVASU_METADATA,
        _havasu_version,
        formats=_HAVASU,
    ),
    Rule(
        "protocol.havasu_file_format",
        Severity.ERROR,
        "data files of a Havasu table that are not Parquet",
        "Havasu says how geometries and rasters lie in Parquet only: in other files every engine guesses.",
        HAVASU_RATIONALE,
        _havasu_file_format,
        "geolake rewrite {table}",
        _HAVASU,
    ),
    Rule(
        "protocol.files_differ",
        Severity.WARNING,
        "Parquet files that do not fit together: other types, or GeoParquet metadata that cannot be used",
        "Where a column means one thing in one file and another in the next, a query over both fails or gives "
        "wrong answers.",
        PARQUET_LOGICAL,
        _files_differ,
        None,  # a rewrite takes no files that differ: what a column is, its owner has to say
        frozenset({TableFormat.PARQUET}),
    ),
)
