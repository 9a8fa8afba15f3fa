"""Window queries to Arrow against DuckDB, SedonaDB and pyarrow, on the same files in one run.

`python -m tests.heavy.bench_scan` converts 6 million trips of SpatialBench to clustered Parquet files, a Delta and an
Iceberg table. Then, in turns, 12 windows of one degree are read with all columns by `t.scan`, and by SedonaDB and
DuckDB from the Parquet files as they are. The median counts: at least as fast as SedonaDB, at most 1.5 times as long as
DuckDB, and tables at most 1.2 times as long as Parquet files. A full scan takes at most 1.5 times as long as with
pyarrow's dataset reader. `--keep FOLDER` keeps the tables for the next run.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import geolake_nb as gl
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios
from tests.heavy.show_trips import DROPOFF, PICKUP, _points, make_trips
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FILES = 92
WINDOWS = 12
FORMATS = ("parquet", "delta", "iceberg")
SEDONA, DUCKDB, TABLE, FULL = 1.0, 1 / 1.5, 1 / 1.2, 1 / 1.5


def make_tables(folder: Path, scale: float) -> list[Path]:
    """The trips, and a clustered table of each format; returns the files of the trips."""
    parts = make_trips(folder, scale)
    missing = [name for name in FORMATS if not (folder / f"clustered-{name}").exists()]
    if missing:
        spark = delta_session("local[*]", folder)
        point = gl.geometry("OGC:CRS84")
        size = sum(part.stat().st_size for part in parts)
        for name in missing:
            gl.open(str(parts[0].parent)).plan_convert(
                str(folder / f"clustered-{name}"),
                format=name,
                columns={PICKUP: point, DROPOFF: point},
                cluster_by=PICKUP,
                target_file_size=size // FILES,
            ).apply(spark=spark)
        spark.stop()
    return parts


def windows(parts: Sequence[Path], count: int) -> list[tuple[float, float, float, float]]:
    """Windows of one degree around random pick-ups."""
    points = _points(parts)
    chosen = np.random.default_rng(1).choice(len(points), count, replace=False)
    return [(x - 0.5, y - 0.5, x + 0.5, y + 0.5) for x, y in points[chosen].tolist()]


def readers(folder: Path) -> Iterator[tuple[str, Callable[[tuple[float, float, float, float]], Any]]]:
    """What reads a window to Arrow, by name."""
    for name in FORMATS:
        table = gl.open(str(folder / f"clustered-{name}"))
        yield name, lambda box, table=table: table.scan(box, column=PICKUP).to_arrow()
    files = sorted(str(path) for path in (folder / "clustered-parquet").rglob("*.parquet"))
    connection = duckdb.connect()

    def in_duckdb(box: tuple[float, float, float, float]) -> pa.Table:
        west, south, east, north = box
        wkt = f"POLYGON(({west} {south}, {east} {south}, {east} {north}, {west} {north}, {west} {south}))"
        where = f"{PICKUP} && '{wkt}'::GEOMETRY"
        return connection.sql(f"SELECT * FROM read_parquet({files!r}) WHERE {where}").to_arrow_table()

    yield "DuckDB", in_duckdb
    yield "SedonaDB", _sedona(files)


def _sedona(files: Sequence[str]) -> Callable[[tuple[float, float, float, float]], pa.Table]:
    import sedonadb

    session = sedonadb.connect()
    session.read_parquet(list(files)).to_view("trips")

    def read(box: tuple[float, float, float, float]) -> pa.Table:
        west, south, east, north = box
        wkt = f"POLYGON(({west} {south}, {east} {south}, {east} {north}, {west} {north}, {west} {south}))"
        shape = f"ST_SetSRID(ST_GeomFromText('{wkt}'), 4326)"
        return session.sql(f"SELECT * FROM trips WHERE ST_Intersects({PICKUP}, {shape})").to_arrow_table()

    return read


def measure(folder: Path, boxes: Sequence[tuple[float, float, float, float]]) -> Iterator[Ratio]:
    """The ratios of the medians."""
    measured = dict(readers(folder))
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for read in measured.values():
        read(boxes[0])  # compiled kernels, open files
    for box in boxes:
        counts = {}
        for name, read in measured.items():
            start = time.perf_counter()
            counts[name] = read(box).num_rows
            seconds[name].append(time.perf_counter() - start)
        if len(set(counts.values())) > 1:
            raise SystemExit(f"the readers differ in window {box}: {counts}")
    median = {name: statistics.median(values) for name, values in seconds.items()}
    print(", ".join(f"{name} {1000 * value:.0f} ms" for name, value in median.items()))
    yield Ratio("window of Parquet files", "SedonaDB", median["SedonaDB"] / median["parquet"], SEDONA)
    yield Ratio("window of Parquet files", "DuckDB", median["DuckDB"] / median["parquet"], DUCKDB)
    for name in FORMATS[1:]:
        yield Ratio(f"window of a {name} table", "Parquet files", median["parquet"] / median[name], TABLE)
    yield _full(folder)


def _full(folder: Path) -> Ratio:
    files = [str(path) for path in (folder / "clustered-parquet").rglob("*.parquet")]
    table = gl.open(str(folder / "clustered-delta"))
    best = {"ours": float("inf"), "pyarrow": float("inf")}
    for _ in range(3):
        start = time.perf_counter()
        rows = sum(len(batch) for batch in table.scan().to_batches())
        best["ours"] = min(best["ours"], time.perf_counter() - start)
        start = time.perf_counter()
        other = sum(len(batch) for batch in ds.dataset(files).to_batches())
        best["pyarrow"] = min(best["pyarrow"], time.perf_counter() - start)
        if rows != other:
            raise SystemExit(f"{rows} rows, pyarrow has {other}")
    print(f"full scan: ours {best['ours']:.2f} s, pyarrow {best['pyarrow']:.2f} s")
    return Ratio("full scan", "pyarrow's dataset reader", best["pyarrow"] / best["ours"], FULL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 1 if a ratio is too low."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-s", "--scale", type=float, default=1.0)
    parser.add_argument("--keep", type=Path, help="a folder for the tables, which stay there")
    add_ratio_option(parser)
    options = parser.parse_args(arguments)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="geolake-scan-"))
    folder.mkdir(exist_ok=True, parents=True)
    try:
        parts = make_tables(folder, options.scale)
        rows = sum(pq.read_metadata(part).num_rows for part in parts)
        print(f"{rows:,} trips")
        return print_ratios(measure(folder, windows(parts, WINDOWS)), options.ratios)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
