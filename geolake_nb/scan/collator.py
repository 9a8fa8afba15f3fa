"""Collated statistics that a filter can use when a collator compares strings by exactly the same collation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from geolake_nb.expressions.binding import BoundComparison, BoundIn, leaves
from geolake_nb.expressions.predicate import And, ColumnPath, Not, Or, Predicate
from geolake_nb.expressions.projection import CollatedColumn
from geolake_nb.model.collation import Collation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from geolake_nb.model.scalar_column import ScalarColumn
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["Collator", "collated_columns", "with_versions_of"]

_Key = tuple[ColumnPath, Collation]

_PREFIX = 32
"""At this length Delta's writers cut strings in statistics, those of a collation too. A writer with another
length does not record it; we write whole strings."""


class Collator(Protocol):
    """Compares strings by collations."""

    def version_of(self, collation: Collation) -> str | None:
        """The version by which it compares, `None` for a collation that it does not have."""
        ...

    def ranks(self, texts: Mapping[Collation, pa.Array]) -> Mapping[Collation, pa.Array]:
        """Whole numbers that compare as the texts do under the collation: equal for texts that are equal there."""
        ...


def with_versions_of(predicate: Predicate, collator: Collator) -> Predicate:
    """The bound filter with the versions by which it will be compared, where it names none."""
    if isinstance(predicate, Not):
        return Not(with_versions_of(predicate.operand, collator))
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(with_versions_of(operand, collator) for operand in predicate.operands))
    if isinstance(predicate, (BoundComparison, BoundIn)):
        collation = predicate.collation
        if collation is not None and collation.version is None:
            version = collator.version_of(collation)
            if version is not None:
                return replace(predicate, collation=Collation(collation.provider, collation.name, version))
    return predicate


def collated_columns(snapshot: Snapshot, predicate: Predicate, collator: Collator) -> dict[_Key, CollatedColumn]:
    """The statistics that serve the comparisons by a collation of exactly the collator's version.

    The collator is called once for all files and all comparisons.
    """
    literals_of: dict[_Key, list[str]] = {}
    for leaf in leaves(predicate):
        if isinstance(leaf, (BoundComparison, BoundIn)) and leaf.collation is not None:
            literals = leaf.values if isinstance(leaf, BoundIn) else (leaf.value,)
            literals_of.setdefault((leaf.column, leaf.collation), []).extend(map(str, literals))
    columns: dict[_Key, ScalarColumn] = {}
    for (path, collation), values in literals_of.items():
        # Delta collations, Reader requirements: statistics of the same collation and version, or none.
        same = collation.version is not None and collation.version == collator.version_of(collation.unversioned())
        column = _column(snapshot, path, collation) if same and _are_texts(values) else None
        if column is not None:
            columns[path, collation] = column
    texts: dict[Collation, list[pa.Array]] = {}
    for (path, collation), column in columns.items():
        parts = [column.minimum, column.maximum, pa.array(literals_of[path, collation], pa.string())]
        texts.setdefault(collation, []).extend(parts)
    unique = {
        collation: pa.chunked_array(parts, pa.string()).unique().drop_null() for collation, parts in texts.items()
    }
    ranks = collator.ranks(unique) if unique else {}
    keys = {collation: _sort_key(unique[collation], ranks[collation]) for collation in unique}
    return {key: CollatedColumn(column, keys[key[1]]) for key, column in columns.items()}


def _column(snapshot: Snapshot, path: ColumnPath, collation: Collation) -> ScalarColumn | None:
    """The minimum and maximum string of each file under the collation."""
    return snapshot.format.collated_column(snapshot, path, collation, prefix_length=_PREFIX)


def _sort_key(texts: pa.Array, ranks: pa.Array) -> Callable[[str], bytes]:
    numbers = np.asarray(ranks.to_numpy(zero_copy_only=False), ">i8").tobytes()
    keys = {text: numbers[8 * index : 8 * index + 8] for index, text in enumerate(texts.to_pylist())}
    return keys.__getitem__


def _are_texts(values: list[str]) -> bool:
    try:
        "".join(values).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no engine can compare
        return False
    return True
