"""What a scan promises beside its rows: `python -m tests.heavy.scan_limits --keep FOLDER`.

On 6 million trips of SpatialBench, and on the same files ten times over: `head` and `limit=10` of a Delta table of
100,000 files within 100 ms after it was opened; a window in a store whose every answer takes 50 ms within 8 answers in
a row; the memory of `to_batches` over 60 million rows at the end as after a tenth of them; a scan that is cancelled
ends within 2 seconds; and in Spark a window by `spark.read.format("geolake")` five times as fast as a scan of the Delta
table that tests the same Arrow UDF. Ends with 1 where one does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.errors import JobError
from tests.heavy.bench_scan import make_tables, windows
from tests.heavy.folder_store import folder_store
from tests.heavy.show_trips import PICKUP
from tests.http_proxy import longest_chain
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Callable

FILES, COPIES = 100_000, 10
HEAD_SECONDS, CANCEL_SECONDS = 0.1, 2.0
LONGEST_CHAIN = 8
MEMORY = 1.2
FASTER_IN_SPARK = 5.0


def said(what: str, figure: float, unit: str, *, good: bool, limit: str) -> bool:
    """Print a figure; whether it holds."""
    print(f"{what:46}{figure:10.3f} {unit:10}{limit}{'' if good else '  NOT MET'}", flush=True)
    return good


def is_head_fast(folder: Path, files: list[Path]) -> bool:
    """The first rows of a table of many files, which are links to those of another."""
    table = folder / "many"
    if not table.exists():
        (table / "_delta_log").mkdir(parents=True)
        source = gl.open(str(folder / "clustered-delta"))
        log = next((Path(source.location) / "_delta_log").glob("*0.json")).read_text().splitlines()
        head = [line for line in log if '"protocol"' in line or '"metaData"' in line]
        facts = [(file, pq.read_metadata(file).num_rows, file.stat().st_size) for file in files]
        for number in range(FILES):
            file, rows, size = facts[number % len(facts)]  # a file may have some 60,000 links
            os.link(file, table / f"{number}.parquet")
            add = {"path": f"{number}.parquet", "partitionValues": {}, "size": size, "modificationTime": 0}
            add |= {"dataChange": True, "stats": json.dumps({"numRecords": rows})}
            head.append(json.dumps({"add": add}))
        (table / "_delta_log" / f"{0:020}.json").write_text("\n".join(head) + "\n")
    opened = gl.open(str(table))
    good = True
    reads: dict[str, Callable[[], int]] = {
        "head(5)": lambda: len(opened.head(5)),
        "scan(limit=10)": lambda: len(opened.scan(limit=10).to_arrow()),
    }
    for name, read in reads.items():
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            assert read() in (5, 10)
            seconds.append(time.perf_counter() - start)
        best = min(seconds)
        print(f"  {name}: {', '.join(f'{value:.3f}' for value in seconds)} s")
        good &= said(f"{name} of {FILES:,} files", best, "s", good=best <= HEAD_SECONDS, limit=f"<= {HEAD_SECONDS}")
    return good


def is_chain_short(folder: Path, box: tuple[float, float, float, float]) -> bool:
    """How many answers of a store a window waits for, one after the other."""
    good = True
    for name in ("clustered-delta", "clustered-iceberg", "clustered-parquet"):
        with folder_store(folder.parent, delay=0.05) as store:
            table = gl.open(f"s3://{folder.name}/{name}", storage_options=store.options)
            store.seen()
            start = time.perf_counter()
            rows = len(table.scan(box, column=PICKUP).to_arrow())
            seconds = time.perf_counter() - start
            seen = store.seen()
        chain = longest_chain(seen)
        print(f"  {name}: {rows:,} rows, {len(seen)} requests, {seconds:.2f} s")
        good &= said(f"{name}, answers in a row", chain, "", good=chain <= LONGEST_CHAIN, limit=f"<= {LONGEST_CHAIN}")
    return good


def ten_times(folder: Path, files: list[Path]) -> Path:
    """A folder of Parquet with the trips ten times."""
    table = folder / "ten-times"
    table.mkdir(exist_ok=True)
    for copy in range(COPIES):
        for number, file in enumerate(files):
            if not (table / f"{copy}-{number}.parquet").exists():
                os.link(file, table / f"{copy}-{number}.parquet")
    return table


_BATCHES = """
import resource, sys
import geolake_nb as gl
rows, early = 0, 0
for batch in gl.open(sys.argv[1]).scan().to_batches():
    rows += len(batch)
    if not early and rows > int(sys.argv[2]):
        early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(rows, early, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def is_memory_flat(table: Path, rows: int) -> bool:
    """The most memory after a tenth of the rows and at the end, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", _BATCHES, str(table), str(rows // 10)], capture_output=True, text=True, check=True
    )
    read, early, late = map(int, run.stdout.split())
    print(f"  {read:,} rows, {early / 1024:,.0f} MiB after a tenth, {late / 1024:,.0f} MiB at the end")
    ratio = late / early
    return said("most memory at the end, of that early", ratio, "", good=ratio <= MEMORY, limit=f"<= {MEMORY}")


def is_cancelled_soon(table: Path) -> bool:
    """How long a scan of everything goes on after it was cancelled."""
    cancelled = threading.Event()
    asked: list[float] = []

    def cancel() -> None:
        asked.append(time.perf_counter())
        cancelled.set()

    rows = 0
    try:
        for batch in gl.open(str(table)).scan().to_batches(cancelled=cancelled):
            rows += len(batch)
            if rows > 1_000_000 and not asked:
                cancel()
    except JobError:
        seconds = time.perf_counter() - asked[0]
        return said("cancelled after", seconds, "s", good=seconds <= CANCEL_SECONDS, limit=f"<= {CANCEL_SECONDS}")
    print(f"the scan ended with {rows:,} rows")
    return False


def is_spark_faster(folder: Path, boxes: list[tuple[float, float, float, float]]) -> bool:
    """A window in Spark by the data source, and by a scan of Delta with the same function."""
    spark = delta_session("local[*]", folder)
    gl.spark_source.register(spark)
    gl.spark_functions.register(spark)
    path = str(folder / "clustered-delta")
    spark.read.format("delta").load(path).createOrReplaceTempView("trips")
    times: dict[str, list[float]] = {"geolake": [], "delta": []}
    for number, (west, south, east, north) in enumerate(boxes):
        shape = f"ST_MakeEnvelope({west!r}, {south!r}, {east!r}, {north!r})"
        where = f"ST_Intersects({PICKUP}, {shape})"
        counts = {}
        for name, taken in times.items():
            start = time.perf_counter()
            if name == "geolake":
                frame = spark.read.format("geolake").option("where", where).option("bbox", "false").load(path)
            else:
                frame = spark.sql(f"SELECT * FROM trips WHERE {where.replace(shape, f'ST_SetSRID({shape}, 4326)')}")
            counts[name] = frame.toArrow().num_rows
            if number:  # the first window starts the workers
                taken.append(time.perf_counter() - start)
        assert counts["geolake"] == counts["delta"] > 0, counts
    spark.stop()
    median = {name: sorted(values)[len(values) // 2] for name, values in times.items()}
    print(f"  medians: {median['geolake']:.2f} s and {median['delta']:.2f} s")
    ratio = median["delta"] / median["geolake"]
    good = ratio >= FASTER_IN_SPARK
    return said("window in Spark, times as fast as Delta", ratio, "", good=good, limit=f">= {FASTER_IN_SPARK}")


def main(arguments: list[str] | None = None) -> int:
    """Run all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-s", "--scale", type=float, default=1.0)
    parser.add_argument("--keep", type=Path, help="a folder for the tables, which stay there")
    parser.add_argument("--only", choices=("head", "chain", "memory", "cancel", "spark"), action="append")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="geolake-limits-") as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(exist_ok=True, parents=True)
        parts = make_tables(folder, options.scale)
        rows = sum(pq.read_metadata(part).num_rows for part in parts)
        boxes = windows(parts, 12)
        files = sorted((folder / "clustered-parquet").rglob("*.parquet"))
        table = ten_times(folder, files)
        steps: dict[str, Callable[[], bool]] = {
            "head": lambda: is_head_fast(folder, sorted((folder / "clustered-delta").glob("*.parquet"))),
            "chain": lambda: is_chain_short(folder, boxes[0]),
            "memory": lambda: is_memory_flat(table, COPIES * rows),
            "cancel": lambda: is_cancelled_soon(table),
            "spark": lambda: is_spark_faster(folder, boxes[:4]),
        }
        good = [step() for name, step in steps.items() if not options.only or name in options.only]
    print(f"{sum(good)} of {len(good)} hold; {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
