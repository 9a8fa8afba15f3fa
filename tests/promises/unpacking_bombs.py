"""Small tables of which a few bytes stand for many values."""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

from tests import small_tables
from tests.formats.iceberg_tables import POSITION_DELETES, FileEntry, column, make_iceberg_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def vector_of_runs(folder: Path, count: int = 1_024) -> None:
    """A deletion vector of so many containers, each a run of 65,536 rows."""
    runs = struct.pack("<QII", 1, 0, 12347 | count - 1 << 16) + b"\xff" * (count // 8)
    runs += b"".join(struct.pack("<HH", key, 65535) for key in range(count)) + bytes(4 * count)
    runs += struct.pack("<HHH", 1, 0, 65535) * count
    body = b"\xd1\xd3\x39\x64" + runs
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    names = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["geom"]}]
    make_iceberg_table(
        folder,
        [column(1, "id", "long"), column(2, "geom", "geometry")],
        [
            FileEntry("a.parquet", rows=4, table=small_tables.data((1, 2))),
            FileEntry(
                "a.puffin",
                rows=4,
                format="PUFFIN",
                content=POSITION_DELETES,
                referenced_data_file=f"{folder}/a.parquet",
                vector_bytes=len(blob),
            ),
        ],
        version=3,
        properties={"schema.name-mapping.default": json.dumps(names)},
    )
    (folder / "a.puffin").write_bytes(b"PFA1" + blob)


UNPACKING: dict[str, Callable[[Path], Any]] = {
    "iceberg: a deletion vector of many rows": vector_of_runs,
}
