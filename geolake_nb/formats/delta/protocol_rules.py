"""Rules about the protocol of a Delta table: what it must declare for the types that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import Fault, Rule
from geolake_nb.checks.rules.columns import collated_columns_scope, geo_columns_scope
from geolake_nb.checks.rules.sources import COLLATION_FEATURE, DELTA_FEATURE
from geolake_nb.formats.delta.details import DeltaDetails
from geolake_nb.formats.delta.features import COLLATIONS_PREVIEWS, GEOSPATIAL_PREVIEWS
from geolake_nb.model.spec_reference import SpecReference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.checks.evidence import Evidence
    from geolake_nb.model.snapshot import Feature, Snapshot

__all__ = ["DELTA_PROTOCOL_RULES"]

_GEOSPATIAL = "geospatial"
_COLLATIONS = "collations"
_DOMAIN_METADATA = "domainMetadata"
_COMPACTION = SpecReference("Delta protocol", "Log Compaction Files")
_DELTA = frozenset({"delta"})


def _unreconciled(evidence: Evidence) -> Iterator[Fault]:
    details = evidence.snapshot.details
    logs = details.unreconciled if isinstance(details, DeltaDetails) else ()
    for path in logs:
        what = "the compacted log lists a file, a schema or a transaction more than once; the commits are read instead"
        yield Fault(what, Scope(paths=(path,), count=1))


def _geo_version(evidence: Evidence) -> Iterator[Fault]:
    # Delta geospatial types, Geospatial table feature: reader version 3 and writer version 7.
    scope = geo_columns_scope(evidence.snapshot.schema)
    reader, writer = (
        evidence.snapshot.protocol.numbers.get("minReaderVersion", 0),
        evidence.snapshot.protocol.numbers.get("minWriterVersion", 0),
    )
    if scope.count and (reader < 3 or writer < 7):
        what = f"geometry and geography need reader 3 and writer 7; the table has reader {reader} and writer {writer}"
        yield Fault(what, scope)


def _geo_feature(evidence: Evidence) -> Iterator[Fault]:
    # Delta geospatial types, Geospatial table feature: listed in readerFeatures and in writerFeatures.
    scope = geo_columns_scope(evidence.snapshot.schema)
    listed = _listed(evidence.snapshot, (_GEOSPATIAL, *GEOSPATIAL_PREVIEWS))
    if not scope.count or any(feature.needed_to_read and feature.needed_to_write for feature in listed):
        return
    if not listed:
        yield Fault(f"geometry and geography need the table feature {_GEOSPATIAL!r}, which is not listed", scope)
        return
    missing = "writerFeatures" if listed[0].needed_to_read else "readerFeatures"
    yield Fault(f"the table feature {listed[0].name!r} is not in {missing}", scope)


def _geo_preview(evidence: Evidence) -> Iterator[Fault]:
    yield from _preview(evidence, _GEOSPATIAL, GEOSPATIAL_PREVIEWS)


def _collations_preview(evidence: Evidence) -> Iterator[Fault]:
    yield from _preview(evidence, _COLLATIONS, COLLATIONS_PREVIEWS)


def _preview(evidence: Evidence, name: str, previews: tuple[str, ...]) -> Iterator[Fault]:
    listed = _listed(evidence.snapshot, previews)
    if listed and not _listed(evidence.snapshot, (name,)):
        yield Fault(f"the table has the feature {listed[0].name!r}; readers of the final one look for {name!r}")


def _collations_feature(evidence: Evidence) -> Iterator[Fault]:
    scope = collated_columns_scope(evidence.snapshot.schema)
    listed = _listed(evidence.snapshot, (_COLLATIONS, *COLLATIONS_PREVIEWS))
    if not scope.count:
        return
    # Delta collations, Collations Table Feature: writer version 7, and the feature in writerFeatures.
    if not listed:
        what = f"collated strings need the writer feature {_COLLATIONS!r}: writers without it drop the collations"
        yield Fault(what, scope)
    elif not any(feature.needed_to_write for feature in listed):
        yield Fault(f"the feature {listed[0].name!r} is in readerFeatures and not in writerFeatures", scope)
    elif any(feature.needed_to_read for feature in listed):
        what = f"readerFeatures names the writer feature {listed[0].name!r}: Spark refuses to open the table"
        yield Fault(what, scope)
    elif evidence.snapshot.protocol.numbers.get("minWriterVersion", 0) < 7:
        yield Fault(f"the feature {_COLLATIONS!r} needs writer 7", scope)


def _domain_metadata(evidence: Evidence) -> Iterator[Fault]:
    collated = _listed(evidence.snapshot, (_COLLATIONS, *COLLATIONS_PREVIEWS))
    listed = _listed(evidence.snapshot, (_DOMAIN_METADATA,))
    if not collated or any(feature.needed_to_write and not feature.needed_to_read for feature in listed):
        return
    state = "which is not listed"
    if listed:
        only = not listed[0].needed_to_write
        state = "which only readerFeatures names" if only else "which readerFeatures must not name"
    yield Fault(f"the feature {_COLLATIONS!r} needs {_DOMAIN_METADATA!r} in writerFeatures, {state}")


def _listed(snapshot: Snapshot, names: tuple[str, ...]) -> list[Feature]:
    """Those of the features that the protocol lists, for readers or for writers, in the order of the names."""
    features = {feature.name: feature for feature in snapshot.protocol.features}
    return [features[name] for name in names if name in features]


DELTA_PROTOCOL_RULES = (
    Rule(
        "protocol.geo_version",
        Severity.ERROR,
        "a Delta table with geo types below reader 3 or writer 7",
        "Engines check these numbers first: one without geo types is not stopped, and misreads the columns.",
        DELTA_FEATURE,
        _geo_version,
        "geolake enable {table} geospatial",
        _DELTA,
    ),
    Rule(
        "protocol.geo_feature",
        Severity.ERROR,
        "a Delta table with geo types without the feature geospatial for readers and writers",
        "The feature tells an engine that geo types are present: without it some reject the table, and "
        "others without geo types write to it.",
        DELTA_FEATURE,
        _geo_feature,
        "geolake enable {table} geospatial",
        _DELTA,
    ),
    Rule(
        "protocol.geo_preview",
        Severity.WARNING,
        "a Delta table with the preview name of the feature geospatial",
        "Current engines look for the final name, and may reject the table.",
        DELTA_FEATURE,
        _geo_preview,
        "geolake enable {table} geospatial",
        _DELTA,
    ),
    Rule(
        "protocol.collations_feature",
        Severity.ERROR,
        "a Delta table with collated strings without writer 7, or whose writerFeatures alone do not name collations",
        "A writer without collations is not stopped, and drops them with its next schema change; a reader "
        "that finds it among the reader features may reject the table.",
        COLLATION_FEATURE,
        _collations_feature,
        "geolake enable {table} collations",
        _DELTA,
    ),
    Rule(
        "protocol.collations_preview",
        Severity.WARNING,
        "a Delta table with the preview name of the feature collations",
        "Current engines look for the final name, and may reject the table.",
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
        "lose it, and strict ones reject the table.",
        COLLATION_FEATURE,
        _domain_metadata,
        "geolake enable {table} collations",
        _DELTA,
    ),
    Rule(
        "protocol.compacted_log",
        Severity.ERROR,
        "a compacted log of a Delta table that is not reconciled: it lists a file more than once",
        "Readers that rely on it may bring back deleted rows or read a file twice. Delete the compacted log: its"
        " commits hold the same actions, and all of them exist.",
        _COMPACTION,
        _unreconciled,
        formats=_DELTA,
        no_command="delete the file of the compacted log by hand; all of its commits exist",
    ),
)
