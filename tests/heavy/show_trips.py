"""Taxi trips of SpatialBench from plain Parquet to a table of which a window reads next to nothing.

`python -m tests.heavy.show_trips` makes 6 million trips (binary WKB, no geo metadata), converts them to Delta, rewrites
the table in the order of the pick-up points, and queries 200 windows of one degree around random rows. It fails unless
every window read the whole table before, the median window reads less than 2% of the bytes afterwards (by files, then
by row groups), and each finds exactly the rows that a scan of the Parquet files finds. `-s 0.02` is a short run,
`--format iceberg` another format, `--format all` each of them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl
from geolake_nb.model.box import Box
from geolake_nb.scan.data_files import data_keys
from geolake_nb.scan.explain import explain
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

PICKUP, DROPOFF = "t_pickuploc", "t_dropoffloc"
FORMATS = ("delta", "havasu", "iceberg", "parquet")
FILES = {"havasu": 512}
"""128 of the others: Havasu's files have no boxes for their row groups."""
GROUPS_A_FILE = 6
MOST = 0.02


@dataclass(frozen=True, slots=True)
class Displayable:
    """What the windows read, as shares of the bytes, and whether they found what a scan finds."""

    before: np.ndarray
    by_files: np.ndarray
    by_row_groups: np.ndarray
    rows_found: int
    wrong: int


def make_trips(folder: Path, scale: float) -> list[Path]:
    """Four Parquet files of trips."""
    return sorted(Path(gl.demo.trips(folder, scale=scale)).glob("*.parquet"))


def show(
    spark: SparkSession,
    folder: Path,
    *,
    scale: float,
    windows: int,
    files: int | None = None,
    seed: int = 1,
    to: str = "delta",
) -> Displayable:
    """Convert, rewrite and ask; prints what happens."""
    files = files or FILES.get(to, 128)
    parts = make_trips(folder, scale)
    table = folder / f"trips-{to}"
    point = gl.geometry("OGC:CRS84")
    parquet = gl.open(str(parts[0].parent))
    plan = parquet.plan_convert(str(table), format=to, columns={PICKUP: point, DROPOFF: point})
    _timed(f"convert to {to}", plan, spark)
    points = _points(parts)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(points), windows, replace=False)
    boxes = [Box(x - 0.5, y - 0.5, x + 0.5, y + 0.5) for x, y in points[chosen].tolist()]
    before = np.array([_share(gl.open(str(table)), box)[0] for box in boxes[:20]])
    print(f"explain: a window reads {before.min():.0%} of the bytes at least")
    converted = gl.open(str(table))
    size = sum(converted.files.table["bytes"].to_pylist())
    plan = converted.plan_rewrite(
        cluster_by=PICKUP,
        target_file_size=max(1, size // files),
        row_group_rows=max(1, len(points) // (GROUPS_A_FILE * files)),
    )
    if to != "parquet":  # of which no sample is taken
        print(plan.preview())
    _timed("rewrite", plan, spark)
    return _ask(table, boxes, points, before)


def _timed(name: str, plan: gl.Plan, spark: SparkSession) -> None:
    start = time.perf_counter()
    report = plan.apply(spark=spark)
    print(f"{name}: version {report.version}, {time.perf_counter() - start:.0f} s, {dict(report.metrics)}")


def _points(files: Sequence[Path]) -> np.ndarray:
    """X and y of every pick-up, from the Parquet files by shapely."""
    parts = []
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(200_000, columns=[PICKUP]):
            shapes = shapely.from_wkb(batch.column(0).to_numpy(zero_copy_only=False))
            parts.append(shapely.get_coordinates(shapes))
    return np.concatenate(parts)


def _share(table: gl.Table, box: Box, groups: pa.Table | None = None) -> tuple[float, float, pa.Table | None]:
    """The share of the bytes that a window reads by files and by row groups, and the row groups."""
    explanation = explain(table.snapshot, box, column=PICKUP, row_groups=groups)
    by_files = explanation.read.bytes / explanation.total.bytes
    if groups is None or explanation.row_groups is None:
        return by_files, by_files, None
    size, kept = np.asarray(explanation.row_groups["bytes"]), np.asarray(explanation.row_groups["kept"])
    return by_files, float(size[kept].sum() / size.sum()), explanation.row_groups.filter(explanation.row_groups["kept"])


def _ask(folder: Path, boxes: Sequence[Box], points: np.ndarray, before: np.ndarray) -> Displayable:
    table = gl.open(str(folder))
    groups = table.row_groups()
    paths = table.files.table["path"].to_pylist()
    shares, rows_found, wrong = [], 0, 0
    opened = {
        path: pq.ParquetFile(folder / key, arrow_extensions_enabled=False)
        for path, key in zip(paths, data_keys(table.snapshot), strict=True)
    }
    for box in boxes:
        by_files, by_groups, kept = _share(table, box, groups)
        shares.append((by_files, by_groups))
        area = shapely.box(box.xmin, box.ymin, box.xmax, box.ymax)
        count = 0
        assert kept is not None
        for path, group in zip(kept["path"].to_pylist(), kept["row_group"].to_pylist(), strict=True):
            values = opened[path].read_row_group(group, columns=[PICKUP]).column(0)
            count += int(shapely.intersects(area, shapely.from_wkb(values.to_numpy())).sum())
        inside = (points >= (box.xmin, box.ymin)) & (points <= (box.xmax, box.ymax))
        rows_found += count
        wrong += count != int(inside.all(axis=1).sum())
    by = np.array(shares)
    return Displayable(before, by[:, 0], by[:, 1], rows_found, wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show it and say whether it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-s", "--scale", type=float, default=1.0)
    parser.add_argument("-w", "--windows", type=int, default=200)
    parser.add_argument("--format", choices=(*FORMATS, "all"), default="delta")
    parser.add_argument("--keep", type=Path, help="a folder for the files, which stay there")
    options = parser.parse_args(arguments)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="geolake-trips-"))
    folder.mkdir(exist_ok=True, parents=True)
    spark = delta_session("local[*]", folder)
    try:
        formats = FORMATS if options.format == "all" else (options.format,)
        results = [_passed(spark, folder, options.scale, options.windows, format_) for format_ in formats]
    finally:
        spark.stop()
        if options.keep is None:
            shutil.rmtree(folder)
    return 0 if all(results) else 1


def _passed(spark: SparkSession, folder: Path, scale: float, windows: int, to: str) -> bool:
    shown = show(spark, folder, scale=scale, windows=windows, to=to)
    medians = np.median(shown.by_files), np.median(shown.by_row_groups)
    print(f"{to}: a median window reads {medians[0]:.2%} of the bytes by files, {medians[1]:.2%} by row groups")
    print(f"{shown.rows_found:,} rows in {windows} windows, {shown.wrong} windows differ from a full scan")
    holds = bool(shown.before.min() == 1.0 and medians[1] < MOST and shown.wrong == 0)
    print("holds" if holds else "DOES NOT HOLD")
    return holds


if __name__ == "__main__":
    sys.exit(main())
