"""Rules about collations: their identifiers in the schema, and the statistics and hints that go with them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import Fault, Rule
from geolake_nb.checks.rules.sources import (
    COLLATION_IDENTIFIERS,
    COLLATION_SCHEMA,
    COLLATION_VERSIONS,
    COLLATION_WRITERS,
)
from geolake_nb.expressions.sql_text import collation_of_name
from geolake_nb.formats.delta.format import collation_hints
from geolake_nb.formats.delta.stats_coverage import indexed_columns
from geolake_nb.model.collation import COLLATIONS_KEY, Collation, stored_collations, stray_collations
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.model.spark_collations import similar_spark_name, spark_name
from geolake_nb.model.types import StringType
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.checks.evidence import Evidence
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType

__all__ = ["COLLATION_RULES", "newest_version"]


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


_DELTA = frozenset({"delta"})
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
