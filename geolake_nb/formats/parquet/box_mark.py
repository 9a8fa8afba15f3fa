"""A property of a Parquet file that says who made its boxes, where another one wrote the pages."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["BOX_MARK", "box_digest", "has_box_mark"]

BOX_MARK = "geolake_nb.boxes"
"""The property; its value is bound to the boxes and to where the columns lie in the file."""

_GEO = ("GEOMETRY", "GEOGRAPHY")


def box_digest(metadata: pq.FileMetaData) -> str:
    """What the mark of a file with these boxes says.

    Writers copy the properties of what they read. The digest is that of one file: of a copy with other row groups, or
    with the boxes of its own writer, it is another one.
    """
    schema = metadata.schema
    leaves = [index for index in range(len(schema)) if schema.column(index).logical_type.type in _GEO]
    told: list[object] = [metadata.created_by, metadata.num_rows]
    told += [[schema.column(index).path, schema.column(index).logical_type.to_json()] for index in leaves]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in leaves:
            chunk = group.column(index)
            boxes = chunk.geo_statistics
            place = [chunk.data_page_offset, chunk.total_compressed_size, chunk.num_values]
            told.append([*place, None if boxes is None else boxes.to_dict()])
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:32]


def has_box_mark(metadata: pq.FileMetaData) -> bool:
    """Whether the boxes of the file are of this package, whoever wrote its pages."""
    mark = (metadata.metadata or {}).get(BOX_MARK.encode())
    return mark is not None and mark.decode(errors="replace") == box_digest(metadata)
