"""Rules about collations: their identifiers in the schema, and the statistics and hints that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.core.collation import COLLATIONS_KEY, Collation, stray_collations
from geolake_nb.core.schema import join_path
from geolake_nb.core.types import StringType
from geolake_nb.errors import CollationError
from geolake_nb.formats.delta.stats_coverage import indexed_columns
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.format_facts import collation_hints
from geolake_nb.planning.health.finding import Place, Severity, printable
from geolake_nb.planning.health.rule import Fault, Rule
from geolake_nb.planning.health.rules.sources import (
    COLLATION_IDENTIFIERS,
    COLLATION_SCHEMA,
    COLLATION_VERSIONS,
    COLLATION_WRITERS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.health.evidence import Evidence

__all__ = ["COLLATION_RULES", "newest_version"]


def _default_stored(evidence: Evidence) -> Iterator[Fault]:
    for column, key, collation in _stored(evidence.snapshot):
        if collation.is_default:
            what = f"the schema names the default collation {collation} under {printable(key)!r}, which it must not"
            yield Fault(what, Place(column))


def _version_in_schema(evidence: Evidence) -> Iterator[Fault]:
    for column, key, collation in _stored(evidence.snapshot):
        if collation.version is not None and not collation.is_default:
            named = f"{printable(str(collation))} under {printable(key)!r}"
            # Spark takes all after the provider for the name: it parses no schema that has a version there.
            what = f"the schema names {named} with a version, and Spark cannot open the table"
            yield Fault(what, Place(column))


def _unknown_provider(evidence: Evidence) -> Iterator[Fault]:
    for parts, collation in _collated_strings(evidence.snapshot):
        if not collation.opens_in_spark:
            name = printable(str(collation))
            yield Fault(f"Spark knows no provider of {name} and cannot open the table", Place(join_path(parts)))


def _stray_key(evidence: Evidence) -> Iterator[Fault]:
    for column, key in stray_collations(evidence.snapshot.schema.root):
        yield Fault(f"{COLLATIONS_KEY} has the key {printable(key)!r}, which is no string of this field", Place(column))


def _stale_statistics(evidence: Evidence) -> Iterator[Fault]:
    snapshot = evidence.snapshot
    hints = collation_hints(snapshot)
    for parts, collation in _collated_strings(snapshot):
        # Delta collations, Collation versions: the hints say of which versions statistics are wanted.
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
            what = f"files without statistics for {printable(str(wanted))}, the newest version that the table asks for"
            yield Fault(what, evidence.place(wrong, column))


def _version_not_hinted(evidence: Evidence) -> Iterator[Fault]:
    hinted = set(collation_hints(evidence.snapshot).collations)
    seen: dict[Collation, NDArray[np.bool_]] = {}
    for part in evidence.collated:
        if part.collation not in hinted and part.has.any():
            seen[part.collation] = seen.get(part.collation, np.zeros(evidence.count, np.bool_)) | part.has
    for collation, has in seen.items():
        what = f"statistics for {printable(str(collation))}, a version that the table's hints do not name"
        yield Fault(what, evidence.place(has))


def newest_version(versions: tuple[str, ...]) -> str | None:
    """The highest of these versions by their numbers, `None` of none; what has no numbers comes first.

    >>> newest_version(("72", "153.120", "153.9")), newest_version(())
    ('153.120', None)
    """

    def numbers(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split(".") if part.isdecimal() and len(part) < 20)

    return max(versions, key=numbers, default=None)


def _stored(snapshot: Snapshot) -> Iterator[tuple[str, str, Collation]]:
    """Every identifier in `__COLLATIONS` with its column and its key."""
    for path, field in snapshot.schema.walk():
        stored = field.metadata.get(COLLATIONS_KEY)
        for key, value in stored.items() if isinstance(stored, Mapping) else ():
            try:
                yield path, str(key), Collation.parse(str(value))
            except CollationError:
                continue


def _collated_strings(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Collation]]:
    for parts, field in snapshot.schema.walk_parts():
        if isinstance(field.type, StringType) and field.type.collation is not None:
            yield parts, field.type.collation


def _has_statistics(evidence: Evidence, column: tuple[str, ...]) -> bool:
    """Whether writers of the table make statistics of the column."""
    snapshot = evidence.snapshot
    partitions = snapshot.partition_columns
    if column[0] in partitions or join_path(column) in evidence.repeated:
        return False
    return column in indexed_columns(snapshot.schema, snapshot.properties, partitions)


def _only_null(evidence: Evidence, column: tuple[str, ...]) -> NDArray[np.bool_]:
    scalars = evidence.snapshot.scalars(column)
    return np.zeros(evidence.count, np.bool_) if scalars is None else scalars.only_nulls


_DELTA = frozenset({TableFormat.DELTA})
_COLLATIONS = "geolake collations {table}"

COLLATION_RULES = (
    Rule(
        "collation.default_stored",
        Severity.WARNING,
        "a schema that names the default collation of a string",
        "The specification forbids it, and a strict reader may refuse the schema.",
        COLLATION_WRITERS,
        _default_stored,
        _COLLATIONS,
        _DELTA,
    ),
    Rule(
        "collation.version_in_schema",
        Severity.ERROR,
        "a schema that names a collation with its version, so that Spark cannot open the table",
        "Spark fails on the schema, and the whole table is out of its reach.",
        COLLATION_IDENTIFIERS,
        _version_in_schema,
        _COLLATIONS,
        _DELTA,
    ),
    Rule(
        "collation.unknown_provider",
        Severity.ERROR,
        "a collation of a provider that Spark does not know, so that Spark cannot open the table",
        "Spark fails on the schema, and the whole table is out of its reach.",
        COLLATION_IDENTIFIERS,
        _unknown_provider,
        _COLLATIONS,
        _DELTA,
    ),
    Rule(
        "collation.stray_key",
        Severity.WARNING,
        "a key in __COLLATIONS that matches no string of its field",
        "The collation that somebody set does not take effect: the string is compared byte by byte.",
        COLLATION_SCHEMA,
        _stray_key,
        _COLLATIONS,
        _DELTA,
    ),
    Rule(
        "collation.stale_statistics",
        Severity.WARNING,
        "files without collated statistics of the newest version that the table asks for",
        "Smallest and largest values hold for one version of a collation only, so that queries read these files "
        "always.",
        COLLATION_VERSIONS,
        _stale_statistics,
        _COLLATIONS,
        _DELTA,
    ),
    Rule(
        "collation.version_not_hinted",
        Severity.WARNING,
        "collated statistics of a version that the table's hints do not name",
        "Writers do not know that these statistics are wanted, and new files come without them.",
        COLLATION_WRITERS,
        _version_not_hinted,
        _COLLATIONS,
        _DELTA,
    ),
)
