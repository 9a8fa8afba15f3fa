"""Small tables whose few bytes expand to many values."""

from __future__ import annotations

import copy
import gzip
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from geolake_nb.formats.delta.log_actions import DESCRIPTOR
from tests import small_tables
from tests.formats.delta.log_maker import add, field, metadata, protocol
from tests.formats.iceberg_tables import POSITION_DELETES, FileEntry, column, make_iceberg_table
from tests.promises.bombs import delta, iceberg, of_field, set_field, with_footer

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


def transactions(folder: Path, count: int = 3_900_000) -> None:
    """A checkpoint in which so many rows are the same transaction."""
    path = checkpoint(folder, {"txn": {"appId": "a", "version": 1}})
    rows = pq.read_table(path)
    same = rows.filter(pc.is_valid(rows["txn"])).take(pa.array(np.zeros(count, np.int32)))
    pq.write_table(pa.concat_tables([rows, same]), path, compression="zstd")


def checkpoint(folder: Path, *actions: dict[str, Any]) -> Path:
    """A table that is its checkpoint alone."""
    made = delta(folder)
    start = protocol("geospatial"), metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"))
    made.checkpoint(1, *start, *actions, add("a.parquet", {"numRecords": 1}))
    for commit in made.log.glob("*.json"):
        commit.unlink()
    return made.log / f"{1:020}.checkpoint.parquet"


def null_adds(folder: Path, count: int, groups: int = 1) -> None:
    """A checkpoint whose second part has so many rows without a file, in so many row groups that are the same."""
    path = checkpoint(folder)
    name = path.name.removesuffix("parquet")
    path.rename(path.with_name(f"{name}{1:010}.{2:010}.parquet"))
    path = path.with_name(f"{name}{2:010}.{2:010}.parquet")
    kind = pa.struct([("path", pa.string()), ("stats", pa.string()), ("deletionVector", DESCRIPTOR)])
    rows = pa.table({"add": pa.nulls(count, kind)})
    pq.write_table(rows, path, compression="zstd", row_group_size=count, data_page_size=1 << 28)
    path.write_bytes(with_footer(path.read_bytes(), lambda tree: repeat_groups(tree, groups)))


def repeat_groups(tree: list[Any], times: int) -> None:
    """The last row group is there so many times, and its bytes once."""
    groups = of_field(tree, 4)[1]
    groups += [copy.deepcopy(groups[-1]) for _ in range(times - 1)]
    set_field(tree, 3, sum(of_field(group, 3) for group in groups))


def many_values(folder: Path) -> None:
    """Metadata that unpack to as many bytes as are read, of which every three are a list."""
    path = iceberg(folder)
    text = path.read_text().replace('"properties": {}', f'"properties": {{}}, "new": {LISTS}')
    path.unlink()
    path.with_name("v1.gz.metadata.json").write_bytes(gzip.compress(text.encode()))


def checkpoint_text(folder: Path, target: str) -> None:
    """A checkpoint with such a text as the schema, or as the statistics of its only file."""
    action = metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"))
    stats = '{"numRecords":1}'
    if target == "schema":
        action["metaData"]["schemaString"] = action["metaData"]["schemaString"][:-1] + f',"new":{LISTS}}}'
    else:
        stats = f'{{"numRecords":1,"new":{LISTS}}}'
    made = delta(folder)
    made.checkpoint(1, protocol("geospatial"), action, add("a.parquet", stats))
    path = made.log / f"{1:020}.checkpoint.parquet"
    pq.write_table(pq.read_table(path), path, compression="zstd")
    for commit in made.log.glob("*.json"):
        commit.unlink()


LISTS = "[" + "[]," * 20_000_000 + "[]]"
UNPACKING: dict[str, Callable[[Path], Any]] = {
    "delta: a checkpoint of equal transactions": transactions,
    "delta: a checkpoint without files": lambda folder: null_adds(folder, 3_900_000),
    "delta: a checkpoint of nothing again and again": lambda folder: null_adds(folder, 3_000_000, 20),
    "delta: a checkpoint of row groups that share their bytes": lambda folder: null_adds(folder, 400_000, 9),
    "delta: a schema of many values": lambda folder: checkpoint_text(folder, "schema"),
    "delta: statistics of many values": lambda folder: checkpoint_text(folder, "statistics"),
    "iceberg: metadata of many values": many_values,
    "iceberg: a deletion vector of many rows": vector_of_runs,
}
