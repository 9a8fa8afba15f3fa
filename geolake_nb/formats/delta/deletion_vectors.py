"""Deletion vectors as described in the log: how many rows they delete, and where they are stored."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ALPHABET", "DESCRIPTOR", "descriptor_ids", "descriptors", "vector_counts", "vector_file"]

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
    path = pc.struct_field(vectors, "pathOrInlineDv")
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    whole = pc.binary_join_element_wise(storage, path, "")
    return pc.if_else(pc.is_null(offset), whole, pc.binary_join_element_wise(whole, offset, "@"))


def vector_counts(vectors: pa.Array) -> pa.Array:
    """How many rows each deletion vector deletes: 0 without one, null if its descriptor has no count.

    >>> vector_counts(descriptors([None, {"storageType": "u", "cardinality": 3}, {"storageType": "u"}])).to_pylist()
    [0, 3, None]
    """
    cardinality = pc.struct_field(vectors, "cardinality")
    sane = pc.if_else(pc.greater_equal(cardinality, 0), cardinality, pa.scalar(None, pa.int64()))
    return pc.if_else(pc.is_null(vectors), pa.scalar(0, pa.int64()), sane)


# Delta, Deletion vector descriptor: the UUID is in Z85, whose alphabet differs from that of RFC 1924.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_RFC1924 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
ALPHABET = str.maketrans(_Z85, _RFC1924)
"""From Z85 to what `base64.b85decode` reads."""
_UUID_LETTERS = 20


def vector_file(descriptor: Mapping[str, Any] | None) -> str | None:
    """The file that stores a deletion vector, relative to the table or absolute; `None` if it is inline in the log.

    >>> vector_file({"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"})
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    >>> vector_file({"storageType": "i", "pathOrInlineDv": "wi5b"}) is None, vector_file(None) is None
    (True, True)
    """
    kind, text = (None, "") if descriptor is None else (descriptor.get("storageType"), descriptor.get("pathOrInlineDv"))
    if kind == "p":
        return str(text)
    if kind != "u" or not isinstance(text, str) or len(text) < _UUID_LETTERS:
        return None
    prefix, letters = text[:-_UUID_LETTERS], text[-_UUID_LETTERS:]
    try:
        name = uuid.UUID(bytes=base64.b85decode(letters.translate(ALPHABET)))
    except ValueError:
        return None
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"
