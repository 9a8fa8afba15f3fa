"""Delete files: how many rows of which data file they delete, where the metadata determines that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.iceberg.avro_program import Pool
from geolake_nb.formats.iceberg.manifests import Content

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.manifests import ManifestReader

__all__ = ["DELETE_PATH_ID", "count_deleted", "read_deletes", "with_uncounted_deletes"]

DELETE_PATH_ID = 2147483546
"""Iceberg, Reserved Field IDs: `file_path` of a position delete file."""

PUFFIN = "PUFFIN"


def read_deletes(manifests: ManifestReader) -> pa.Table:
    """The live delete files: position and equality deletes and deletion vectors.

    `kind` is one of `deletion-vector`, `equality`, `position`. A position delete file whose bounds contain one data
    file has it as its `referenced_data_file`.
    """
    table = manifests.files(deletes=True, wanted=[DELETE_PATH_ID], bounds=(Pool.LOWER, Pool.UPPER))
    lower, upper = (table[f"{DELETE_PATH_ID}.{pool.name}"] for pool in (Pool.LOWER, Pool.UPPER))
    position = pc.equal(table["content"], Content.POSITION_DELETES.value)
    # A bound that is not valid UTF-8 is not a path.
    try:
        lower_text = lower.cast(pa.string())
    except pa.ArrowInvalid:
        lower_text = pa.nulls(len(table), pa.string())
    one_file = pc.and_(position, pc.fill_null(pc.equal(lower, upper), False))
    named = pc.if_else(one_file, lower_text, pa.scalar(None, pa.string()))
    referenced = pc.coalesce(table["referenced_data_file"], named)
    vector = pc.and_(position, pc.equal(table["format"], PUFFIN))
    kind = pc.case_when(
        pc.make_struct(vector, position), pa.scalar("deletion-vector"), pa.scalar("position"), pa.scalar("equality")
    )
    kept = [name for name in table.column_names if not name.startswith(f"{DELETE_PATH_ID}.")]
    table = table.select(kept).drop_columns(["content", "referenced_data_file"])
    return table.append_column("kind", kind).append_column("referenced_data_file", referenced)


def count_deleted(
    path: pa.Array, rows: pa.Array, sequence_number: pa.Array, deletes: pa.Table
) -> tuple[pa.Array, pa.Array]:
    """The rows that are deleted from each data file for certain, and which delete files were counted.

    Equality deletes, and position deletes that span several data files, cannot be counted without reading them. Of
    several delete files for one data file the largest is counted: the others may contain the same rows.
    """
    count = np.zeros(len(path), np.int64)
    if not len(deletes):
        return pa.array(count), pa.array([], pa.bool_())
    referenced = deletes["referenced_data_file"].combine_chunks()
    target = pc.index_in(referenced, value_set=path).fill_null(-1).to_numpy(zero_copy_only=False)
    is_vector = _flags(pc.equal(deletes["kind"], "deletion-vector"))
    countable = (target >= 0) & _flags(pc.not_equal(deletes["kind"], "equality"))
    # Iceberg, Scan Planning: a position delete or a vector applies to files of its sequence number or an earlier one.
    data_number = sequence_number.fill_null(0).to_numpy(zero_copy_only=False)
    number = deletes["sequence_number"].fill_null(0).to_numpy()
    applies = countable & (data_number[np.maximum(target, 0)] <= number) if len(path) else countable
    deleted = deletes["rows"].to_numpy()
    with_vector = np.zeros(len(path), np.bool_)
    with_vector[target[applies & is_vector]] = True
    # Iceberg 3, Deletion Vectors: a vector includes the position delete files of its data file.
    counted = applies & (is_vector | ~with_vector[np.maximum(target, 0)]) if len(path) else applies
    np.maximum.at(count, target[counted], deleted[counted])
    count = np.minimum(count, rows.to_numpy(zero_copy_only=False))
    largest_first = np.flatnonzero(counted)[np.argsort(-deleted[counted], kind="stable")]
    _, firsts = np.unique(target[largest_first], return_index=True)
    others = np.delete(largest_first, firsts)
    countable[others] = False
    return pa.array(count), pa.array(countable)


def with_uncounted_deletes(path: pa.Array, sequence_number: pa.Array, deletes: pa.Table) -> NDArray[np.bool_]:
    """The data files that an uncounted delete may apply to: their number of live rows is not known.

    `deletes` has the column `counted`. Partitions are not compared: the result may have files without deletes.
    """
    uncounted = np.zeros(len(path), np.bool_)
    if not len(deletes) or not len(path):
        return uncounted
    data_number = sequence_number.fill_null(0).to_numpy(zero_copy_only=False)
    number = deletes["sequence_number"].fill_null(0).to_numpy()
    referenced = deletes["referenced_data_file"].combine_chunks()
    target = pc.index_in(referenced, value_set=path).fill_null(-1).to_numpy(zero_copy_only=False)
    kind = {name: _flags(pc.equal(deletes["kind"], name)) for name in ("equality", "position", "deletion-vector")}
    # Iceberg, Scan Planning: an equality delete applies to files of earlier sequence numbers, a position delete also to
    # those of its own.
    if kind["equality"].any():
        uncounted |= data_number < number[kind["equality"]].max()
    with_vector = np.zeros(len(path), np.bool_)
    with_vector[target[kind["deletion-vector"] & (target >= 0)]] = True
    spanning = kind["position"] & ~_flags(pc.is_valid(deletes["referenced_data_file"]))
    if spanning.any():
        uncounted |= (data_number <= number[spanning].max()) & ~with_vector
    # Of several position deletes of one file the largest is counted, and the others may contain other rows.
    smaller = kind["position"] & ~_flags(deletes["counted"]) & (target >= 0)
    several = np.zeros(len(path), np.bool_)
    several[target[smaller]] = True
    return uncounted | (several & ~with_vector)


def _flags(array: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(array, False).to_numpy(), np.bool_)
