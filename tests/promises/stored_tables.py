"""Tables of many files for stores: Delta checkpoints in several files, many footers, many manifests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table, xy
from tests.heavy.bench_open_delta import make_checkpoint
from tests.small_tables import PLACES, make_delta

if TYPE_CHECKING:
    from pathlib import Path

_CHECKPOINT = f"{0:020}.checkpoint"
_SIDECAR = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])


def in_parts(folder: Path, files: int, parts: int) -> Path:
    """A Delta table whose checkpoint has so many parts."""
    log, whole = _checkpoint(folder, files)
    for part, some in enumerate(_split(whole, parts), 1):
        pq.write_table(some, log / f"{_CHECKPOINT}.{part:010}.{parts:010}.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": whole.num_rows, "parts": parts}))
    return folder


def with_long_log(folder: Path, files: int, commits: int) -> Path:
    """A Delta table whose log still has so many commits from before its checkpoint, and three after it."""
    make_checkpoint(folder, "geo", files)
    log = folder / "_delta_log"
    newest = (log / f"{1:020}.json").read_bytes()
    (log / f"{0:020}.checkpoint.parquet").rename(log / f"{commits:020}.checkpoint.parquet")
    for version in range(commits + 3):
        (log / f"{version:020}.json").write_bytes(newest if version > commits else b'{"commitInfo":{}}')
    (log / "_last_checkpoint").write_text(json.dumps({"version": commits, "size": files + 2}))
    return folder


def with_sidecars(folder: Path, files: int, parts: int) -> Path:
    """A Delta table with a v2 checkpoint, whose files stand in so many sidecar files."""
    log, whole = _checkpoint(folder, files)
    (log / "_sidecars").mkdir()
    sidecars = []
    for part, some in enumerate(_split(whole.slice(2), parts)):
        path = log / "_sidecars" / f"{part}.parquet"
        pq.write_table(some.select(["add"]), path)
        sidecars.append({"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 1})
    top = whole.slice(0, 2).select(["protocol", "metaData"])
    rows = pa.table({"sidecar": pa.array(sidecars, _SIDECAR)})
    name = f"{_CHECKPOINT}.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
    pq.write_table(pa.concat_tables([top, rows], promote_options="default"), log / name)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": 2 + parts}))
    return folder


def many_files(folder: Path, files: int) -> Path:
    """A Delta table without geo bounds whose files are there."""
    make_delta(folder, bounds=False)
    log = folder / "_delta_log"
    lines = (log / f"{0:020}.json").read_text().splitlines()
    content = (folder / "part-0.parquet").read_bytes()
    (add,) = (json.loads(line) for line in lines if line.startswith('{"add"'))
    lines = [line for line in lines if not line.startswith('{"add"')]
    for number in range(files):
        add["add"]["path"] = f"many-{number:05}.parquet"
        (folder / add["add"]["path"]).write_bytes(content)
        lines.append(json.dumps(add))
    (log / f"{0:020}.json").write_text("\n".join(lines))
    (log / f"{1:020}.json").unlink()
    return folder


def many_manifests(folder: Path, files: int, manifests: int) -> Path:
    """An Iceberg table whose files stand in so many manifests; only their entries are there."""
    x, y = PLACES[0]
    bounds = {"lower": {2: xy(x, y)}, "upper": {2: xy(x + 3, y + 3)}, "nulls": {1: 0, 2: 0}}
    entries = [FileEntry(f"data/{number}.parquet", rows=4, **bounds) for number in range(files)]
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    make_iceberg_table(folder, columns, entries, version=3, manifest_size=-(-files // manifests))
    return folder


def _checkpoint(folder: Path, files: int) -> tuple[Path, pa.Table]:
    """The log of a table, and its checkpoint, which is removed."""
    make_checkpoint(folder, "geo", files)
    log = folder / "_delta_log"
    path = log / f"{_CHECKPOINT}.parquet"
    whole = pq.read_table(path)
    path.unlink()
    return log, whole


def _split(table: pa.Table, parts: int) -> list[pa.Table]:
    size = -(-table.num_rows // parts)
    return [table.slice(start, size) for start in range(0, table.num_rows, size)]
