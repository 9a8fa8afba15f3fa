"""Repair from footers against repair by a scan, and the scan against the least that Spark could do with the same bytes.

`python -m tests.heavy.bench_repair`. Two tables are made here:

- many files (hard links to some, so that the disk holds them): planning and committing a repair from their footers,
  and by a Spark scan of their values, which is at least 10 times slower. The former costs by the file and the latter
  by the byte: below files of about 3 MB, which is small for so many, it is less;
- few large files: a repair by a scan, and a Spark job that sums the lengths of the same column, in one warm session.
  The repair takes at most 1.5 times as long.

Both run in turns in one process, the best of several rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.api.plan import Plan
from geolake_nb.formats.delta.repair import plan_repair
from geolake_nb.parquet.schema import to_arrow_type
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

FOOTER_RATIO = 10.0
SCAN_RATIO = 1.5
DISTINCT = 50
ROUNDS = 3


def lines(rows: int, vertices: int, seed: int) -> pa.Array:
    """Random lines as WKB, made all at once; one vertex makes points."""
    rng = np.random.default_rng(seed)
    size = 21 if vertices == 1 else 9 + 16 * vertices
    head = b"\x01\x01\x00\x00\x00" if vertices == 1 else b"\x01\x02\x00\x00\x00" + vertices.to_bytes(4, "little")
    values = np.empty((rows, size), np.uint8)
    values[:, : len(head)] = np.frombuffer(head, np.uint8)
    xy = rng.uniform((-180, -90), (180, 90), (rows, vertices, 2))
    values[:, len(head) :] = xy.reshape(rows, -1).view(np.uint8)
    offsets = pa.py_buffer(np.arange(0, (rows + 1) * size, size, np.int32))
    binary = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, pa.py_buffer(values)])
    return to_arrow_type(gl.geometry()).wrap_array(binary)


def make_table(folder: Path, *, files: int, rows: int, vertices: int) -> LogMaker:
    """A table without bounds whose footers have boxes."""
    table = LogMaker(folder)
    adds = []
    for number in range(files):
        path = folder / f"part-{number:05}.parquet"
        if number < DISTINCT or files <= 2 * DISTINCT:
            values = {"id": pa.array(np.arange(rows)), "geom": lines(rows, vertices, number)}
            pq.write_table(pa.table(values), path, row_group_size=65_536)
        else:
            os.link(folder / f"part-{number % DISTINCT:05}.parquet", path)
        adds.append(add(path.name, {"numRecords": rows}, size=path.stat().st_size))
    fields = field("id", "long"), field("geom", "geometry(OGC:CRS84)")
    return table.commit(0, {"commitInfo": {}}, protocol("geospatial"), metadata(*fields), *adds)


def repair(table: LogMaker, spark: SparkSession, *, footers: bool) -> None:
    """Open, plan and commit; then the log is as before."""
    opened = gl.open(str(table.folder))
    change = plan_repair(opened._storage, opened.snapshot, footers=footers)
    assert (change.job is None) is footers
    report = Plan(change, opened._source).apply(spark=spark)
    assert report.version == 1
    assert report.metrics["files_updated"] == len(opened.files)


def forget(table: LogMaker) -> None:
    for path in table.log.glob(f"{1:020}.json"):
        path.unlink()


def best(work: Callable[[], Any], rounds: int, after: Callable[[], None]) -> float:
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
        after()
    return min(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000, help="of the table of many files")
    parser.add_argument("--rows", type=int, default=30_000, help="of each of them; 30,000 make files of 5 MB")
    parser.add_argument("--vertices", type=int, default=10, help="of each of their lines")
    parser.add_argument("--large-files", type=int, default=64)
    parser.add_argument("--large-rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    add_ratio_option(parser)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench_repair_"))
    spark = delta_session("local[*]", folder)
    try:
        figures = measure(folder, spark, options)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures, indent=2))
    measured = [
        Ratio(f"repair of {options.files:,} files from footers", "our scan", figures["scan / footers"], FOOTER_RATIO),
        Ratio("repair by a scan", "Spark, summing lengths", 1 / figures["scan / sum of lengths"], 1 / SCAN_RATIO),
    ]
    return print_ratios(measured, options.ratios)


def measure(folder: Path, spark: SparkSession, options: argparse.Namespace) -> dict[str, float]:
    warm = make_table(folder / "warm", files=8, rows=1000, vertices=1)
    repair(warm, spark, footers=False)
    large = make_table(folder / "large", files=options.large_files, rows=options.large_rows, vertices=1)

    def sum_lengths() -> None:
        # Anew each time: Spark would find the result of the same frame again.
        frame = spark.read.format("delta").load(str(large.folder)).selectExpr("sum(length(st_asbinary(geom)))")
        assert frame.collect()[0][0] == 21 * options.large_files * options.large_rows

    sum_lengths()
    scan, summed = float("inf"), float("inf")
    for _ in range(options.rounds):
        summed = min(summed, best(sum_lengths, 1, lambda: None))
        scan = min(scan, best(lambda: repair(large, spark, footers=False), 1, lambda: forget(large)))
    many = make_table(folder / "many", files=options.files, rows=options.rows, vertices=options.vertices)
    footers = best(lambda: repair(many, spark, footers=True), options.rounds, lambda: forget(many))
    values = best(lambda: repair(many, spark, footers=False), 1, lambda: forget(many))
    return {
        "files": options.files,
        "footers seconds": round(footers, 2),
        "scan seconds": round(values, 2),
        "scan / footers": round(values / footers, 1),
        "large scan seconds": round(scan, 2),
        "sum of lengths seconds": round(summed, 2),
        "scan / sum of lengths": round(scan / summed, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
