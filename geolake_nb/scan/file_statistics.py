"""Which statistics of a table's files a filter can use, collated ones too, and why others are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from geolake_nb.expressions.binding import BoundComparison, BoundIn, BoundSpatial, Leaf, leaves
from geolake_nb.expressions.predicate import And, ColumnPath, Not, Or, Predicate
from geolake_nb.expressions.projection import CollatedColumn, Statistics
from geolake_nb.model.collation import Collation
from geolake_nb.model.file_table import has_column, physical_rows
from geolake_nb.model.schema import join_path
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.scan.prune import PruneInput, ScanReason

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import BoxColumn
    from geolake_nb.model.table_format import CollatedFiles

__all__ = ["Collator", "collated_columns", "known_files", "whole", "why_no_box", "with_versions_of"]

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


def known_files(snapshot: Snapshot, predicate: Predicate, *, collator: Collator | None = None) -> PruneInput:
    """The statistics of the columns in the bound filter; collated ones where a collator can use them."""
    files = snapshot.files
    boxes: dict[ColumnPath, BoxColumn] = {}
    scalars: dict[ColumnPath, ScalarColumn] = {}
    why: dict[ColumnPath, Any] = {}
    for leaf in leaves(predicate):
        path, name = leaf.column, join_path(leaf.column)
        if name in files.geo_columns:
            if path not in scalars:
                scalars[path] = _null_counts(files.table, name)
            if isinstance(leaf, BoundSpatial) and path not in boxes:
                nothing = (
                    ScanReason.NO_BOUNDS if snapshot.format.has_statistics(snapshot, path) else ScanReason.NOT_INDEXED
                )
                boxes[path] = files.boxes(name)
                why[path] = why_no_box(files.table, name, boxes[path], nothing)
        elif path not in scalars:
            statistics = _scalar(snapshot, path)
            if statistics is not None:
                scalars[path] = statistics
            why[path] = _why_no_statistics(leaf, indexed=snapshot.format.has_statistics(snapshot, path))
    partitions = frozenset((name,) for name in snapshot.partition_columns)
    collated = {} if collator is None else collated_columns(snapshot, predicate, collator)
    reasons = _why_not_collated(snapshot, predicate, collated)
    return PruneInput(Statistics(len(files), boxes, scalars, collated), why, reasons, partitions)


def _null_counts(table: pa.Table, name: str) -> ScalarColumn:
    """The null counts of a geo column: of the rows that are in the file, deleted ones too."""
    nothing = pa.nulls(table.num_rows)
    physical = physical_rows(table)
    return ScalarColumn(nothing, nothing, whole(table[f"{name}.null_count"]), whole(physical))


def _scalar(snapshot: Snapshot, path: ColumnPath) -> ScalarColumn | None:
    column = snapshot.scalars(path)
    if column is not None or len(path) > 1 or path[0] not in snapshot.partition_columns:
        return column
    name = f"partition.{path[0]}"
    if not has_column(snapshot.files.table, name):
        return None
    # A null here may be a null of the rows or an unreadable value: both are kept.
    values = whole(snapshot.files.table[name])
    return ScalarColumn(values, values)


def _why_not_collated(
    snapshot: Snapshot, predicate: Predicate, usable: Container[tuple[ColumnPath, Collation]]
) -> dict[tuple[ColumnPath, Collation], NDArray[np.int8]]:
    """For each collation that the filter compares by, why a file has no usable statistics.

    `usable` are those that a collator can compare by.
    """
    compared = [leaf for leaf in leaves(predicate) if isinstance(leaf, (BoundComparison, BoundIn))]
    wanted = {(leaf.column, leaf.collation) for leaf in compared if leaf.collation is not None}
    stored = snapshot.format.collated_files(snapshot) if wanted else ()
    return {
        (path, collation): _collated_reasons(
            [files for files in stored if files.column == path],
            collation,
            snapshot,
            # Statistics that are stored but unused may be truncated: not a bound under a collation.
            of_same=ScanReason.UNUSABLE_BOUNDS if (path, collation) in usable else ScanReason.NO_COLLATOR,
        )
        for path, collation in wanted
    }


def _collated_reasons(
    stored: Sequence[CollatedFiles], collation: Collation, snapshot: Snapshot, *, of_same: ScanReason
) -> NDArray[np.int8]:
    reasons = np.full(len(snapshot.files), ScanReason.NO_COLLATED_STATISTICS.code, np.int8)
    same_name = [files for files in stored if files.collation.unversioned() == collation.unversioned()]
    for files in same_name:
        reasons[files.has] = ScanReason.COLLATION_VERSION_DIFFERS.code
    for files in same_name:
        if files.collation == collation:
            reasons[files.has] = of_same.code
    return reasons


def _why_no_statistics(leaf: Leaf, *, indexed: bool) -> ScanReason:
    if not indexed:
        return ScanReason.NOT_INDEXED
    return ScanReason.NO_BOUNDS if isinstance(leaf, BoundSpatial) else ScanReason.NO_STATISTICS


def why_no_box(
    table: pa.Table, name: str, boxes: BoxColumn, nothing: NDArray[np.int8] | ScanReason
) -> NDArray[np.int8] | ScanReason:
    """Why the rows of a file or row-group table have no box: `nothing`, unless a bound is stored and cannot be used."""
    if boxes.known.all():
        return nothing
    broken = np.zeros(len(boxes), np.bool_)
    # Sides that are stored but invalid: NaN, or ymin > ymax.
    stored = table[f"{name}.xmin"]
    if stored.null_count < len(stored):
        broken |= stored.is_valid().to_numpy() & ~boxes.known
    if has_column(table, f"{name}.problem") and table[f"{name}.problem"].null_count < len(boxes):
        broken |= table[f"{name}.problem"].is_valid().to_numpy()
    otherwise = np.int8(nothing.code) if isinstance(nothing, ScanReason) else nothing
    return np.where(broken, np.int8(ScanReason.UNUSABLE_BOUNDS.code), otherwise)


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column in one piece.

    >>> whole(pa.chunked_array([[1], [2]])).to_pylist()
    [1, 2]
    """
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
