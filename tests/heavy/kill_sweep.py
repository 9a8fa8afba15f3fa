"""kill -9 at random moments of repair and rewrite: the table is at version N or N + 1, and no row is lost.

python -m tests.heavy.kill_sweep --count 100
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

VERBS = ("repair", "rewrite")


def sweep(
    spark: SparkSession, folder: Path, *, count: int, seed: int, verbs: Sequence[str] = VERBS
) -> dict[str, dict[str, int]]:
    """Kill `count` runs of each verb; how many left the old version, and how many the new one."""
    from tests.spark.point_table import make_points, rows_of

    source = folder / "source"
    make_points(spark, str(source), rows=3000, files=6)
    expected = rows_of(spark, str(source))
    draw = random.Random(seed)
    told: dict[str, dict[str, int]] = {}
    for verb in verbs:
        seconds = _run(verb, _copy(source, folder / f"{verb}-whole"), folder, kill_after=None)
        told[verb] = {"old": 0, "new": 0}
        for number in range(count):
            table = _copy(source, folder / f"{verb}-{number}")
            # The end is where the commit is: half of the kills fall into the last fifth.
            moment = seconds * (draw.uniform(0, 1.05) if number % 2 else draw.uniform(0.8, 1.05))
            _run(verb, table, folder, kill_after=moment)
            version = _check(spark, table, expected)
            told[verb]["new" if version else "old"] += 1
            shutil.rmtree(table)
    return told


def _check(spark: SparkSession, table: Path, expected: list[tuple[int, str, bytes | None]]) -> int:
    import geolake_nb as gl
    from tests.spark.point_table import rows_of

    opened = gl.open(str(table))
    assert opened.version in (0, 1), opened.version
    assert rows_of(spark, str(table)) == expected, table
    # What was begun can be done again on what is left.
    assert gl.open(str(table)).plan_repair().apply(spark=spark).version in (None, opened.version + 1)
    assert rows_of(spark, str(table)) == expected, table
    return int(opened.version)


def _copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def _run(verb: str, table: Path, folder: Path, *, kill_after: float | None) -> float:
    """Run the verb in a process of its own; the seconds from the moment that it begins to apply."""
    command = [sys.executable, "-m", "tests.heavy.kill_sweep", "--victim", verb, str(table), str(folder)]
    # A group of its own: the JVM and the Python workers die with it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stderr is not None
    # Spark tells on standard output which jars it found, before anything begins.
    if not any(line == b"begin\n" for line in iter(process.stdout.readline, b"")):
        raise AssertionError(process.stderr.read().decode()[-3000:])
    started = time.perf_counter()
    if kill_after is not None:
        time.sleep(kill_after)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    spent = time.perf_counter() - started
    if kill_after is None:
        assert process.returncode == 0, process.stderr.read().decode()[-3000:]
    process.stdout.close()
    process.stderr.close()
    return spent


def _victim(verb: str, table: str, folder: str) -> None:
    import geolake_nb as gl
    from tests.spark_session import delta_session

    if verb == "repair":
        plan, spark = gl.open(table).plan_repair(), None
    else:
        spark = delta_session("local[2]", Path(tempfile.mkdtemp(dir=folder)))
        plan = gl.open(table).plan_rewrite(cluster_by="geom", target_file_size="32KB")
    print("begin", flush=True)
    plan.apply(spark=spark)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="kills of each verb")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--verb", action="append", choices=VERBS, help="only this verb; may be repeated")
    parser.add_argument("--victim", nargs=3, metavar=("VERB", "TABLE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.victim:
        _victim(*options.victim)
        return
    from tests.spark_session import delta_session

    with tempfile.TemporaryDirectory() as name:
        spark = delta_session("local[2]", Path(name))
        told = sweep(spark, Path(name), count=options.count, seed=options.seed, verbs=options.verb or VERBS)
        for verb, counts in told.items():
            print(
                f"{verb}: {sum(counts.values())} kills, {counts['old']} at the old version, {counts['new']} at the new"
            )
        spark.stop()


if __name__ == "__main__":
    main()
