"""No bound leaves out a row: `python -m tests.heavy.no_bound_excludes --count 1000000 --seed 1`.

Tables of generated geometries and geographies go through every writer of every format; the bounds are read back from
the bytes, and each row has to lie inside all of its bounds. Two oracles compute where a row lies.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.geo.bounds import BadValueWarning
from tests.promises.bound_verdict import Verdict
from tests.promises.bound_writers import GEO, Made, Rows, with_spark, without_spark
from tests.promises.raster_rows import RasterRows, check_rasters, raster_tables
from tests.promises.shaped_tables import shaped_truth, with_spark_shaped, without_spark_shaped
from tests.promises.written_bounds import bounds_of_files, delta_bounds, live_files, manifest_bounds
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tests.promises.written_bounds import Bound

__all__ = ["check_all", "check_raster_tables"]

BATCH = 25_000
"""Rows of a table."""


def check_all(rows: Rows, made: Iterable[Made], verdict: Verdict) -> None:
    """Check each table right after it was written."""
    verdict.problems += [f"the oracles differ: {problem}" for problem in rows.differ[:20]]
    truth = rows.truth | shaped_truth(rows)
    for made_writer in made:
        bounds = list(_table_bounds(made_writer, made_writer.columns))
        if made_writer.in_files and made_writer.form != "havasu":  # whose shapes are plain bytes and text in the files
            bounds += bounds_of_files(
                live_files(made_writer.folder, made_writer.form), made_writer.columns, leaves=made_writer.leaves
            )
        missing = made_writer.levels - {bound.level for bound in bounds}
        verdict.problems += [f"{made_writer.writer}: there is no {level}" for level in sorted(missing)]
        verdict.check(made_writer.writer, bounds, truth)
        verdict.problems += [
            f"{made_writer.writer}, {bound.level}: {bound.column} holds many shapes a row and has {bound.sides}"
            for bound in _table_bounds(made_writer, made_writer.repeated)
            if not np.isnan(bound.sides).all()
        ]


def check_raster_tables(rows: RasterRows, folder: Path, spark: SparkSession, verdict: Verdict) -> None:
    """Check each table of rasters right after it was written."""
    verdict.problems += [f"the oracles differ: {problem}" for problem in rows.differ[:20]]
    for writer, where in raster_tables(rows, folder / "rasters", spark):
        check_rasters(writer, list(manifest_bounds(where, ("rast",), havasu=True)), rows, verdict)


def _table_bounds(made: Made, columns: tuple[str, ...]) -> Iterable[Bound]:
    if made.form == "delta":
        return delta_bounds(made.folder, columns)
    if made.form in ("iceberg", "havasu"):
        return manifest_bounds(made.folder, columns, havasu=made.form == "havasu")
    return ()


def run(count: int, seed: int, spark: SparkSession, verdict: Verdict) -> None:
    done = 0
    while done < count and len(verdict.problems) < 20:
        begun = time.perf_counter()
        rows = Rows(seed + done // BATCH, min(BATCH, count - done))
        made = time.perf_counter()
        folder = Path(tempfile.mkdtemp(prefix="geolake-bounds-"))
        try:
            check_all(rows, without_spark(rows, folder), verdict)
            check_all(rows, without_spark_shaped(rows, folder), verdict)
            check_all(rows, with_spark(rows, folder, spark), verdict)
            check_all(rows, with_spark_shaped(rows, folder, spark), verdict)
            check_raster_tables(RasterRows.make(seed + done, 200), folder, spark, verdict)
        finally:
            shutil.rmtree(folder)
        done += len(rows.table)
        spent = time.perf_counter()
        print(
            f"{done * len(GEO):,} values: {made - begun:.0f} s to make, {spent - made:.0f} s to write and check,  "
            f"{len(verdict.problems)} wrong so far",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> int:
    """Run, print what was compared by writer, and fail on a row that is left out or a bound that is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="geometries and geographies, three a row")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", BadValueWarning)
    verdict = Verdict()
    home = Path(tempfile.mkdtemp(prefix="geolake-bounds-spark-"))
    spark = delta_session("local[2]", home)
    try:
        run(-(-options.count // len(GEO)), options.seed, spark, verdict)
    finally:
        spark.stop()
        shutil.rmtree(home)
    for where in sorted(verdict.compared):
        print(f"{where}: {verdict.compared[where]:,} rows inside, {verdict.unbounded[where]:,} without a bound")
    problems = verdict.problems + verdict.shortfalls
    for problem in problems[:20]:
        print("WRONG", problem[:1500])
    return int(bool(problems) or not verdict.required)


if __name__ == "__main__":
    sys.exit(main())
