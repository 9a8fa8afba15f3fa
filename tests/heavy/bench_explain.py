"""Time of explaining a window over 1,000,000 files, against opening a Delta table that has them.

Run with `python -m tests.heavy.bench_explain`; the number of files can be given.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from geolake_nb.formats.delta.snapshot import open_delta
from geolake_nb.formats.registry import DELTA
from geolake_nb.model.box import Box
from geolake_nb.model.file_table import BoundSource, FileTable, GeoStatsColumns
from geolake_nb.model.schema import Schema
from geolake_nb.model.snapshot import Protocol, Snapshot
from geolake_nb.model.types import Field, GeographyType, GeometryType, PrimitiveType, StructType
from geolake_nb.scan.coverage import coverage, overlap_depth
from geolake_nb.scan.diff import diff
from geolake_nb.scan.explain import explain
from geolake_nb.storage.storage import Storage

WINDOW = "POLYGON((10 10, 20 10, 20 20, 10 20, 10 10))"


def make_files(count: int) -> FileTable:
    rng = np.random.default_rng(4)
    x, y, size = rng.uniform(-180, 179, count), rng.uniform(-90, 89, count), rng.uniform(0, 1, count)
    missing = rng.random(count) < 0.05
    ends = {"xmin": x, "ymin": y, "xmax": x + size, "ymax": y + size}
    sides = {axis: pa.array(values, mask=missing) for axis, values in ends.items()}
    stats = GeoStatsColumns(sides, null_count=pa.array(np.zeros(count, np.int64)), source=BoundSource.LOG)
    return FileTable.of(
        path=pa.array([f"part-{number:08d}-c000.snappy.parquet" for number in range(count)]),
        bytes=pa.array(rng.integers(10**6, 10**8, count)),
        rows=pa.array(rng.integers(1000, 10**6, count)),
        geo={"geom": stats},
    )


def snapshot_of(files: FileTable, type_) -> Snapshot:
    schema = Schema(StructType((Field("id", PrimitiveType("int64")), Field("geom", type_))))
    return Snapshot(DELTA, "/bench", 1, None, schema, Protocol("reader 3, writer 7"), files)


def best(run, times: int = 5) -> float:
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return min(spent)


def write_log(files: FileTable, folder: Path) -> None:
    """The files as one commit of a Delta table."""
    fields = [{"name": "geom", "type": "geometry(OGC:CRS84)", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    named = {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial"]}
    log = folder / "_delta_log"
    log.mkdir()
    with (log / f"{0:020}.json").open("w") as commit:
        lines = [
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}},
            {"metaData": {"id": "1", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                          "configuration": {}, "schemaString": schema}},
        ]  # fmt: skip
        commit.writelines(json.dumps(line) + "\n" for line in lines)
        columns = ["path", "bytes", "rows", *(f"geom.{axis}" for axis in ("xmin", "ymin", "xmax", "ymax"))]
        for path, size, rows, xmin, ymin, xmax, ymax in zip(
            *(files.table[name].to_pylist() for name in columns), strict=True
        ):
            stats = {"numRecords": rows, "nullCount": {"geom": 0}}
            if xmin is not None:
                stats |= {"minValues": {"geom": f"POINT({xmin!r} {ymin!r})"}}
                stats |= {"maxValues": {"geom": f"POINT({xmax!r} {ymax!r})"}}
            add = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
            commit.write(json.dumps({"add": {**add, "stats": json.dumps(stats)}}) + "\n")


def main(count: int = 1_000_000) -> None:
    files = make_files(count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "files.parquet"
        pq.write_table(files.table, path)
        reading = best(lambda: FileTable(pq.read_table(path), ("geom",)), 3)
        write_log(files, Path(folder))
        opening = best(lambda: open_delta(Storage.at(folder)), 1)
    print(f"{count:,} files; opening the Delta table takes {opening * 1000:.0f} ms, reading the bare file table from")
    print(f"Parquet {reading * 1000:.0f} ms")
    flat, round_ = snapshot_of(files, GeometryType()), snapshot_of(files, GeographyType())
    for name, table in (("geometry", flat), ("geography", round_)):
        runs = {
            "box": lambda table=table: explain(table, Box(10, 10, 20, 20)),
            "ST_Intersects": lambda table=table: explain(table, f"ST_Intersects(geom, '{WINDOW}')"),
            "AND, OR, NOT": lambda table=table: explain(
                table, f"ST_Within(geom, '{WINDOW}') AND NOT ST_Touches(geom, 'POINT (1 1)') OR geom IS NULL"
            ),
        }  # fmt: skip
        for what, run in runs.items():
            spent = best(run)
            print(f"{name:>10} {what:<14} {spent * 1000:7.1f} ms, 1/{opening / spent:.0f} of opening")
    explanation = explain(snapshot_of(files, GeometryType()), Box(10, 10, 20, 20))
    print(
        f"      as text {best(lambda: str(explanation)) * 1000:.1f} ms,"
        f" as a table {best(lambda: explanation.files) * 1000:.1f} ms"
    )
    table = flat
    print(f"     coverage {best(lambda: coverage(table), 1) * 1000:.0f} ms")
    print(f"overlap depth {best(lambda: overlap_depth(files.boxes('geom')), 1) * 1000:.0f} ms")
    other = snapshot_of(FileTable(files.table.slice(1000), ("geom",)), GeometryType())
    print(f"         diff {best(lambda: diff(table, other), 1) * 1000:.0f} ms")
    print(explanation)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
