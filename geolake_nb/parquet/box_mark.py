"""A property of a Parquet file that marks boxes of this package in a file that another writer wrote."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["BOX_MARK", "box_digest", "has_box_mark"]

BOX_MARK = "geolake_nb.boxes"
"""The property; its value depends on the boxes and on the offsets of the columns in the file."""

_GEO = ("GEOMETRY", "GEOGRAPHY")


def box_digest(metadata: pq.FileMetaData) -> str:
    """The value of the mark for a file with these boxes.

    Writers copy the properties of files that they read. The digest is for one file: a copy with other row groups, or
    with the boxes of its own writer, has another digest.
    """
    schema = metadata.schema
    leaves = [index for index in range(len(schema)) if schema.column(index).logical_type.type in _GEO]
    content: list[object] = [metadata.created_by, metadata.num_rows]
    content += [[schema.column(index).path, schema.column(index).logical_type.to_json()] for index in leaves]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in leaves:
            chunk = group.column(index)
            boxes = chunk.geo_statistics
            chunk_facts = [chunk.data_page_offset, chunk.total_compressed_size, chunk.num_values]
            content.append([*chunk_facts, None if boxes is None else boxes.to_dict()])
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:32]


def has_box_mark(metadata: pq.FileMetaData) -> bool:
    """Whether this package wrote the boxes of the file, whoever wrote its pages."""
    mark = (metadata.metadata or {}).get(BOX_MARK.encode())
    return mark is not None and mark.decode(errors="replace") == box_digest(metadata)
