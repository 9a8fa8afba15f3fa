"""A clustered rewrite of GeoParquet against the Hilbert sort of gpio: `python -m tests.heavy.bench_sort`.

Both sort the same file of trips by the Hilbert curve into files of the same codec; Spark's start is not counted, nor is
the installation of gpio in an environment of its own. gpio sorts in one process with DuckDB; ours is a Spark job that
also verifies what it has written.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import pyarrow.parquet as pq

import geolake_nb as gl
from tests.formats.iceberg.make_spark_fixtures import cache_folder
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios
from tests.heavy.show_trips import PICKUP, make_trips
from tests.spark_session import delta_session

GPIO = "1.7.0"
# DuckDB's spatial extension is a package of its own; gpio would fetch it from another host. There is none for DuckDB
# 1.5.6, which gpio 1.7 asks for, so that DuckDB is put back to the release that it is made for.
EXTENSION = ("duckdb==1.5.5", "duckdb-extension-spatial==1.5.5")
FIND = "import duckdb_extension_spatial as spatial; print(spatial.__path__[0])"


def gpio() -> Path:
    """The command, in an environment that is made if it is not there."""
    folder = cache_folder() / f"gpio-{GPIO}"
    command = folder / "bin" / "gpio"
    if not command.exists():
        venv.create(folder, with_pip=True)
        python = str(folder / "bin" / "python")
        for packages in ([f"geoparquet-io=={GPIO}"], ["--no-deps", *EXTENSION]):
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        location = Path(subprocess.run([python, "-c", FIND], check=True, capture_output=True, text=True).stdout.strip())
        extension = next(location.rglob("*.duckdb_extension"))
        home = folder / "home" / ".duckdb" / "extensions" / extension.parent.name / "linux_amd64"
        home.mkdir(parents=True)
        shutil.copy(extension, home)
    return command


def sort_with_gpio(command: Path, source: Path, target: Path) -> float:
    words = ["sort", "hilbert", str(source), str(target), "-g", PICKUP, "--compression", "zstd"]
    home = {**os.environ, "HOME": str(command.parents[1] / "home")}
    start = time.perf_counter()
    subprocess.run([command, *words, "--compression-level", "1", "--overwrite"], check=True, env=home)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-s", "--scale", type=float, default=0.25, help="6 million rows at 1")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    add_ratio_option(parser)
    options = parser.parse_args()
    command = gpio()
    folder = Path(tempfile.mkdtemp(prefix="geolake-bench-"))
    spark = delta_session("local[*]", folder)
    try:
        trips = pq.read_table(make_trips(folder / "source", options.scale)[0].parent)
        gl.write(trips, folder / "t", format="parquet", columns={PICKUP: gl.geometry()}, spark=spark)
        source = folder / "one.parquet"
        pq.write_table(pq.read_table(folder / "t"), source, compression="zstd")
        ours, theirs = [], []
        for number in range(options.rounds):
            theirs.append(sort_with_gpio(command, source, folder / "sorted.parquet"))
            table = folder / f"t{number}"
            table.mkdir()
            shutil.copy(source, table)
            plan = gl.open(str(table)).plan_rewrite(cluster_by=PICKUP)
            start = time.perf_counter()
            plan.apply(spark=spark)
            ours.append(time.perf_counter() - start)
            print(f"round {number}: rewrite {ours[-1]:.1f} s, gpio {theirs[-1]:.1f} s")
    finally:
        spark.stop()
        shutil.rmtree(folder)
    rows = f"{len(trips):,} rows of GeoParquet"
    return print_ratios([Ratio(f"Hilbert sort of {rows}", "gpio", min(theirs) / min(ours))], options.ratios)


if __name__ == "__main__":
    sys.exit(main())
