"""Deletion vectors as the log describes them: how many rows they take away, and where their bits lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DESCRIPTOR", "descriptor_ids", "descriptors", "vector_counts"]

DESCRIPTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("cardinality", pa.int64()),
    ]
)
"""The Arrow type of a descriptor, null for a file without a deletion vector."""


def descriptors(values: Sequence[dict[str, object] | None]) -> pa.Array:
    """Descriptors as an Arrow array.

    >>> descriptors([None, {"storageType": "i", "pathOrInlineDv": "wi5b", "cardinality": 2}])[1]["cardinality"].as_py()
    2
    """
    return pa.array(values, DESCRIPTOR)


def descriptor_ids(vectors: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The unique ids of deletion vectors, null where there is none.

    >>> descriptor_ids(descriptors([{"storageType": "u", "pathOrInlineDv": "ab", "offset": 4}, None])).to_pylist()
    ['uab@4', None]
    """
    # Delta, Derived fields: uniqueId is storageType and pathOrInlineDv, with @ and the offset if there is one.
    storage = pc.struct_field(vectors, "storageType")
    place = pc.struct_field(vectors, "pathOrInlineDv")
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    whole = pc.binary_join_element_wise(storage, place, "")
    return pc.if_else(pc.is_null(offset), whole, pc.binary_join_element_wise(whole, offset, "@"))


def vector_counts(vectors: pa.Array) -> pa.Array:
    """How many rows each deletion vector takes away: 0 without one, null if its descriptor does not say.

    >>> vector_counts(descriptors([None, {"storageType": "u", "cardinality": 3}, {"storageType": "u"}])).to_pylist()
    [0, 3, None]
    """
    cardinality = pc.struct_field(vectors, "cardinality")
    sane = pc.if_else(pc.greater_equal(cardinality, 0), cardinality, pa.scalar(None, pa.int64()))
    return pc.if_else(pc.is_null(vectors), pa.scalar(0, pa.int64()), sane)
