"""Rules about Delta tables: what the protocol must declare for the types, and collations with their statistics."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import (
    COLLATION_FEATURE,
    COLLATION_IDENTIFIERS,
    COLLATION_SCHEMA,
    COLLATION_VERSIONS,
    COLLATION_WRITERS,
    DELTA_FEATURE,
    Fault,
    Rule,
    collated_columns_scope,
    geo_columns_scope,
)
from geolake_nb.expressions.sql_text import collation_of_name
from geolake_nb.formats.delta.details import DeltaDetails, indexed_columns
from geolake_nb.formats.delta.format import collation_hints
from geolake_nb.formats.delta.protocol import COLLATIONS_PREVIEWS, GEOSPATIAL_PREVIEWS
from geolake_nb.model.collation import (
    COLLATIONS_KEY,
    Collation,
    similar_spark_name,
    spark_name,
    stored_collations,
    stray_collations,
)
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.model.table_format import SpecReference
from geolake_nb.model.types import StringType
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.checks.check import Evidence
    from geolake_nb.model.snapshot import Feature, Snapshot
    from geolake_nb.model.types import DataType

__all__ = ["COLLATION_RULES", "DELTA_PROTOCOL_RULES", "newest_version"]

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


def _default_stored(evidence: Evidence) -> Iterator[Fault]:
    for column, key, collation in _stored(evidence.snapshot):
        if collation.is_default:
            what = f"the schema names the default collation {collation} under {printable(key)!r}, which it must not"
            yield Fault(what, Scope(column), command=_setting(evidence, column, key, "none"))


def _version_in_schema(evidence: Evidence) -> Iterator[Fault]:
    for column, key, collation in _stored(evidence.snapshot):
        if collation.version is not None:
            named = f"{printable(str(collation))} under {printable(key)!r}"
            # Spark reads all after the provider as the name: it cannot parse a schema with a version there.
            what = f"the schema names {named} with a version, and Spark cannot open the table"
            plain = str(collation.unversioned())
            yield Fault(what, Scope(column), command=_setting(evidence, column, key, plain))


def _unknown_provider(evidence: Evidence) -> Iterator[Fault]:
    for parts, collation in _collated_strings(evidence.snapshot):
        name, column = printable(str(collation)), join_path(parts)
        if not collation.provider:
            what = f"the identifier {name!r} has no provider and name, and Spark cannot open the table"
            yield Fault(what, Scope(column), command=_with_provider(evidence.snapshot, column, collation.name))
        elif not collation.is_of_spark:
            yield Fault(f"Spark knows no provider of {name} and cannot open the table", Scope(column))


def _unknown_name(evidence: Evidence) -> Iterator[Fault]:
    for parts, collation in _collated_strings(evidence.snapshot):
        if collation.is_of_spark and not collation.opens_in_spark:
            column = join_path(parts)
            similar = similar_spark_name(collation.name)
            change = None if similar is None else f"{column}={collation.provider}.{similar}"
            what = f"Spark has no collation {printable(str(collation))} and cannot open the table"
            yield Fault(f"{what}: {collation.in_spark}", Scope(column), fix_column=change)


def _stray_key(evidence: Evidence) -> Iterator[Fault]:
    for column, key in stray_collations(evidence.snapshot.schema.root):
        yield Fault(
            f"{COLLATIONS_KEY} has the key {printable(key)!r}, which is not a string of this field", Scope(column)
        )


def _stale_statistics(evidence: Evidence) -> Iterator[Fault]:
    snapshot = evidence.snapshot
    hints = collation_hints(snapshot)
    for parts, collation in _collated_strings(snapshot):
        # Delta collations, Collation versions: the hints list the versions that need statistics.
        newest = newest_version(hints.versions_of(collation))
        if newest is None or not _has_statistics(evidence, parts):
            continue
        column = join_path(parts)
        wanted = Collation(collation.provider, collation.name, newest)
        fresh = np.zeros(evidence.count, np.bool_)
        for part in evidence.collated:
            if part.column == parts and part.collation == wanted:
                fresh |= part.has
        wrong = ~fresh & ~_only_null(evidence, parts)
        if wrong.any():
            what = f"files without statistics for {printable(str(wanted))}, the newest version that the table requests"
            yield Fault(what, evidence.scope(wrong, column))


def _version_not_hinted(evidence: Evidence) -> Iterator[Fault]:
    hinted = set(collation_hints(evidence.snapshot).collations)
    seen: dict[Collation, NDArray[np.bool_]] = {}
    for part in evidence.collated:
        if part.collation not in hinted and part.has.any():
            seen[part.collation] = seen.get(part.collation, np.zeros(evidence.count, np.bool_)) | part.has
    for collation, has in seen.items():
        what = f"statistics for {printable(str(collation))}, a version that the table's hints do not name"
        yield Fault(what, evidence.scope(has))


def _setting(evidence: Evidence, field: str, key: str, identifier: str) -> str | None:
    """The command that sets the collation under a key of a field's metadata, `None` where there is no such string."""
    own = split_path(field)[-1]
    path = join_path((*split_path(field), *key.removeprefix(own).split(".")[1:]))
    strings = {join_path(parts) for parts, field in evidence.snapshot.schema.walk_parts() if _is_string(field.type)}
    if not key.startswith(own) or path not in strings:
        return None
    word = shlex.quote(f"{path}={identifier}")
    return f"geolake collations {shlex.quote(evidence.snapshot.location)} {word}"


def _with_provider(snapshot: Snapshot, column: str, name: str) -> str | None:
    """The command that sets the collation of Spark that has this name, `None` where none has it."""
    if "." in name or spark_name(name) is None:
        return None
    named = collation_of_name(name)
    word = shlex.quote(f"{column}={'none' if named.is_default else named}")
    return f"geolake collations {shlex.quote(snapshot.location)} {word}"


def _is_string(type_: DataType) -> bool:
    return isinstance(type_, StringType)


def newest_version(versions: tuple[str, ...]) -> str | None:
    """The highest of these versions by their numbers, `None` for no versions; those without numbers come first.

    >>> newest_version(("72", "153.120", "153.9")), newest_version(())
    ('153.120', None)
    """

    def numbers(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split(".") if part.isdecimal() and len(part) < 20)

    return max(versions, key=numbers, default=None)


def _stored(snapshot: Snapshot) -> Iterator[tuple[str, str, Collation]]:
    """Every identifier in `__COLLATIONS` with its column and its key."""
    for path, field in snapshot.schema.walk():
        for key, collation in stored_collations(field):
            yield path, key, collation


def _collated_strings(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Collation]]:
    for parts, field in snapshot.schema.walk_parts():
        if isinstance(field.type, StringType) and field.type.collation is not None:
            yield parts, field.type.collation


def _has_statistics(evidence: Evidence, column: tuple[str, ...]) -> bool:
    """Whether writers of the table write statistics for the column."""
    snapshot = evidence.snapshot
    partitions = snapshot.partition_columns
    if column[0] in partitions or join_path(column) in evidence.repeated:
        return False
    return column in indexed_columns(snapshot.schema, snapshot.properties, partitions)


def _only_null(evidence: Evidence, column: tuple[str, ...]) -> NDArray[np.bool_]:
    scalars = evidence.snapshot.scalars(column)
    return np.zeros(evidence.count, np.bool_) if scalars is None else scalars.only_nulls


_SET = "geolake collations {table} COLUMN=ID"
_UPGRADE = "geolake collations {table} --upgrade"
_NO_STRING = "the key does not match a string of its field: it has no effect, and only its owner knows its purpose"

COLLATION_RULES = (
    Rule(
        "collation.default_stored",
        Severity.WARNING,
        "a schema that names the default collation of a string",
        "The specification forbids it, and a strict reader may refuse the schema.",
        COLLATION_WRITERS,
        _default_stored,
        _SET,
        _DELTA,
        no_command=_NO_STRING,
    ),
    Rule(
        "collation.version_in_schema",
        Severity.ERROR,
        "a schema that names a collation with its version, so that Spark cannot open the table",
        "Spark fails on the schema and cannot open the table at all.",
        COLLATION_IDENTIFIERS,
        _version_in_schema,
        _SET,
        _DELTA,
        no_command=_NO_STRING,
    ),
    Rule(
        "collation.unknown_provider",
        Severity.ERROR,
        "a collation without a provider or of one that Spark does not know, so that Spark cannot open the table",
        "Spark fails on the schema and cannot open the table at all.",
        COLLATION_IDENTIFIERS,
        _unknown_provider,
        formats=_DELTA,
        no_command="only its owner knows which Spark collation to use: geolake collations TABLE COLUMN=ID"
        " sets one, and COLUMN=none drops it",
    ),
    Rule(
        "collation.unknown_name",
        Severity.ERROR,
        "a collation that Spark 4.2 does not have, such as ICU.en_US, so that Spark cannot open the table",
        "Spark fails on the schema and cannot open the table at all.",
        COLLATION_IDENTIFIERS,
        _unknown_name,
        "geolake collations {table} {column}",
        _DELTA,
        no_command="no collation of Spark has a similar name: geolake collations TABLE COLUMN=ID sets one of those that"
        " Spark has, and COLUMN=none drops it",
    ),
    Rule(
        "collation.stray_key",
        Severity.WARNING,
        "a key in __COLLATIONS that matches no string of its field",
        "The collation has no effect: the string is compared byte by byte.",
        COLLATION_SCHEMA,
        _stray_key,
        formats=_DELTA,
        no_command=_NO_STRING,
    ),
    Rule(
        "collation.stale_statistics",
        Severity.WARNING,
        "files without collated statistics of the newest version that the table requests",
        "Min and max values hold for one version of a collation only, so queries always read these files.",
        COLLATION_VERSIONS,
        _stale_statistics,
        _UPGRADE,
        _DELTA,
    ),
    Rule(
        "collation.version_not_hinted",
        Severity.WARNING,
        "collated statistics of a version that the table's hints do not name",
        "Writers do not know that these statistics are wanted, and new files come without them.",
        COLLATION_WRITERS,
        _version_not_hinted,
        _UPGRADE,
        _DELTA,
    ),
)
