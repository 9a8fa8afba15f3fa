"""A clustered rewrite against what Spark alone needs to sort and write the same rows.

`python -m tests.heavy.bench_rewrite` makes trips of SpatialBench as a Delta table with two geometry columns. Then, in
turns and in one warm session, it is rewritten in the order of the pick-up points (sample, keys, shuffle, sort, files
with boxes, commit), and Spark sorts and writes the same rows with `repartitionByRange + sortWithinPartitions +
write.parquet`, by a plain column, into as many files and with the same codec. The best of several rounds counts: the
rewrite takes at most 1.5 times as long. The memory of the driver's Python is measured for one and for four times the
rows: it does not grow with them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import geolake_nb as gl
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios
from tests.heavy.show_trips import DROPOFF, PICKUP, make_trips
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

RATIO = 1.5
FILES = 8
GROWTH_MB = 64


def make_table(spark: SparkSession, folder: Path, files: Sequence[Path], times: int) -> str:
    """The trips so many times over, as Spark writes them."""
    shape = "st_setsrid(st_geomfromwkb({0}), 4326) AS {0}"
    frame = spark.read.parquet(*[str(file) for file in files] * times)
    plain = [name for name in frame.columns if name not in (PICKUP, DROPOFF)]
    frame.selectExpr(*plain, shape.format(PICKUP), shape.format(DROPOFF)).write.format("delta").save(str(folder))
    return str(folder)


def rewrite(spark: SparkSession, path: str) -> None:
    table = gl.open(path)
    size = sum(table.files.table["bytes"].to_pylist())
    table.plan_rewrite(cluster_by=PICKUP, target_file_size=-(-size // FILES)).apply(spark=spark)


def spark_alone(spark: SparkSession, path: str, target: Path) -> None:
    frame = spark.read.format("delta").load(path)
    # The keys are as many bytes as ours, and no two rows have the same: no task gets more than its share.
    ordered = frame.repartitionByRange(FILES, "t_tripkey").sortWithinPartitions("t_tripkey")
    ordered.write.option("compression", "zstd").mode("overwrite").parquet(str(target))


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def resident_mb() -> float:
    """The most memory that this process has had at a time."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and say whether it is fast enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-s", "--scale", type=float, default=0.25, help="6 million rows at 1")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="measure the driver's memory too")
    add_ratio_option(parser)
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="geolake-bench-"))
    spark = delta_session("local[*]", folder)
    holds = True
    try:
        files = make_trips(folder / "source", options.scale)
        path = make_table(spark, folder / "t", files, 1)
        rewrite(spark, path)
        spark_alone(spark, path, folder / "warm")
        ours, theirs = [], []
        for number in range(options.rounds):
            theirs.append(timed(lambda: spark_alone(spark, path, folder / "alone")))
            ours.append(timed(lambda: rewrite(spark, path)))
            print(f"round {number}: rewrite {ours[-1]:.1f} s, Spark alone {theirs[-1]:.1f} s")
        ratio = min(ours) / min(theirs)
        print(f"rewrite {min(ours):.1f} s, Spark alone {min(theirs):.1f} s, ratio {ratio:.2f}")
        if options.memory:
            before = resident_mb()
            rewrite(spark, make_table(spark, folder / "t4", files, 4))
            grown = resident_mb() - before
            print(f"driver: {before:.0f} MB after the rows once, {grown:.0f} MB more after four times as many")
            holds = grown < GROWTH_MB
    finally:
        spark.stop()
        shutil.rmtree(folder)
    print("" if holds else f"the driver grew by more than {GROWTH_MB} MB")
    code = print_ratios(
        [Ratio("clustered rewrite", "Spark, range sort and write", 1 / ratio, 1 / RATIO)], options.ratios
    )
    return code if holds else 1


if __name__ == "__main__":
    sys.exit(main())
