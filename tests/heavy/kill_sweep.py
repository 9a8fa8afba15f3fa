"""kill -9 at random moments of repair and rewrite: the table is at version N or N + 1, and no row is lost.

python -m tests.heavy.kill_sweep --count 100, with `--format havasu` or `--format iceberg` for those.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.iceberg_spark import IcebergSpark

VERBS = ("repair", "rewrite")
MARKS = ("begin", "commit", "committed")


def sweep(
    spark: SparkSession,
    folder: Path,
    *,
    count: int,
    seed: int,
    verbs: Sequence[str] = VERBS,
    form: str = "delta",
) -> dict[str, dict[str, int]]:
    """Kill `count` runs of each verb; how many left the old version, and how many the new one."""
    import geolake_nb as gl
    from tests.spark.point_table import make_points, rows_of

    table, kept = folder / "table", folder / "kept"
    make_points(spark, str(table), rows=3000, files=6)
    expected = rows_of(spark, str(table))
    if form != "delta":
        table = _as_format(spark, table, folder / "swept" / form, form)
    base = gl.open(str(table)).version
    shutil.copytree(table, kept)
    draw = random.Random(seed)
    counts: dict[str, dict[str, int]] = {}
    for verb in verbs:
        whole = _run(verb, _restored(kept, table), folder)
        counts[verb] = {"old": 0, "new": 0}
        for number in range(count):
            # The kills fall in turn into the job, into the commit, and between that and the end.
            mark = MARKS[number % len(MARKS)]
            span = whole[mark] - whole[MARKS[number % len(MARKS) + 1]] if mark != MARKS[-1] else whole[mark]
            _run(verb, _restored(kept, table), folder, kill=(mark, span * draw.uniform(0, 0.95)))
            left = _check(spark, table, expected, base=base)
            counts[verb][left] += 1
            print(f"{verb} {number}: killed after {mark!r}, at the {left} version", flush=True)
    return counts


def _check(spark: SparkSession, table: Path, expected: list[tuple[int, str, bytes | None]], *, base: int | None) -> str:
    """Whether the table is at the old version or the new one, with every row."""
    import geolake_nb as gl

    opened = gl.open(str(table))
    assert opened.version == base or opened.history()[0].parent in (base, None), opened.version
    assert len(opened.history()) <= 2, opened.history()
    assert _rows(spark, table) == expected, table
    # What was begun can be done again on what is left.
    gl.open(str(table)).plan_repair().apply(spark=spark)
    assert _rows(spark, table) == expected, table
    return "old" if opened.version == base else "new"


def _rows(spark: SparkSession, table: Path) -> list[tuple[int, str, bytes | None]]:
    """The rows by Spark, or, for Havasu, which it cannot open, by fastavro and pyarrow from the live files."""
    from tests.spark.point_table import rows_of

    if (table / "_delta_log").exists():
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # it has seen the table of the kill before
        return rows_of(spark, str(table))
    return _iceberg_rows(table) if table.name == "iceberg" else _havasu_rows(table)


@functools.cache
def _iceberg_spark(warehouse: Path) -> IcebergSpark:
    """Spark with Iceberg in a process of its own, which ends with this one."""
    from tests.iceberg_spark import IcebergSpark

    process = IcebergSpark(warehouse)
    atexit.register(process.stop)
    return process


def _iceberg_rows(table: Path) -> list[tuple[int, str, bytes | None]]:
    query = f"SELECT id, name, st_asbinary(geom) AS wkb FROM ice.{table.parent.name}.{table.name} ORDER BY id"
    rows = _iceberg_spark(table.parent.parent).sql(query)
    return [(row["id"], row["name"], None if row["wkb"] is None else bytes.fromhex(row["wkb"])) for row in rows]


def _havasu_rows(table: Path) -> list[tuple[int, str, bytes | None]]:
    import pyarrow.parquet as pq

    from tests.promises.foreign_fields import iceberg_entries, local

    rows: list[tuple[int, str, bytes | None]] = []
    for entry in iceberg_entries(table):
        if entry["status"] != 2:
            path = local(entry["data_file"]["file_path"])
            file = pq.read_table(path, columns=["id", "name", "geom"], arrow_extensions_enabled=False)
            rows += [(row["id"], row["name"], row["geom"]) for row in file.to_pylist()]
    return sorted(rows)


def _as_format(spark: SparkSession, source: Path, target: Path, form: str) -> Path:
    import geolake_nb as gl
    from geolake_nb.model.types import GeometryEncoding, GeometryType

    frame = spark.read.format("delta").load(str(source)).selectExpr("id", "name", "st_asbinary(geom) AS geom")
    type_ = GeometryType(encoding=GeometryEncoding.WKB) if form == "havasu" else gl.geometry()
    gl.write(frame.repartition(6), target, format=form, columns={"geom": type_}, spark=spark)
    return target


def _restored(kept: Path, table: Path) -> Path:
    """The table as it was, where it was: it may hold absolute paths."""
    shutil.rmtree(table)
    shutil.copytree(kept, table)
    return table


def _run(verb: str, table: Path, folder: Path, *, kill: tuple[str, float] | None = None) -> dict[str, float]:
    """Run the verb in a process of its own, and kill it so many seconds after a mark.

    The seconds from each mark to the end: `begin` comes before the plan is applied, `commit` when all files are
    written, `committed` when that has returned.
    """
    command = [sys.executable, "-m", "tests.heavy.kill_sweep", "--victim", verb, str(table), str(folder)]
    # A group of its own: the JVM and the Python workers die with it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stderr is not None
    seen: dict[str, float] = {}
    # Spark prints on standard output which jars it found, before anything begins.
    for line in iter(process.stdout.readline, b""):
        if line.decode().strip() in MARKS:
            seen[line.decode().strip()] = time.perf_counter()
        if kill is not None and kill[0] in seen:
            time.sleep(kill[1])
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.wait()
    ended = time.perf_counter()
    problem = process.stderr.read().decode()[-3000:]
    process.stdout.close()
    process.stderr.close()
    assert kill is not None or process.returncode == 0, problem
    assert seen, problem
    return {mark: ended - moment for mark, moment in seen.items()}


def _victim(verb: str, table: str, folder: str) -> None:
    import geolake_nb as gl
    from geolake_nb.formats.registry import FORMATS
    from tests.spark_session import delta_session

    if verb == "repair":
        plan, spark = gl.open(table).plan_repair(), None
    else:
        spark = delta_session("local[2]", Path(tempfile.mkdtemp(dir=folder)))
        plan = gl.open(table).plan_rewrite(cluster_by="geom", target_file_size="32KB")
    format_ = FORMATS[plan.change.format.name]
    commit = format_.commit

    def report_and_commit(*arguments: Any) -> Any:
        print("commit", flush=True)
        made = commit(*arguments)
        print("committed", flush=True)
        return made

    format_.commit = report_and_commit
    print("begin", flush=True)
    plan.apply(spark=spark)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="kills of each verb")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--format", choices=("delta", "havasu", "iceberg"), default="delta")
    parser.add_argument("--verb", action="append", choices=VERBS, help="only this verb; may be repeated")
    parser.add_argument("--victim", nargs=3, metavar=("VERB", "TABLE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.victim:
        _victim(*options.victim)
        return
    from tests.spark_session import delta_session

    with tempfile.TemporaryDirectory() as name:
        spark = delta_session("local[2]", Path(name))
        # The other tables are written here, with bounds that need no repair.
        verbs = options.verb or (VERBS if options.format == "delta" else ("rewrite",))
        results = sweep(spark, Path(name), count=options.count, seed=options.seed, verbs=verbs, form=options.format)
        for verb, counts in results.items():
            print(
                f"{verb}: {sum(counts.values())} kills, {counts['old']} at the old version, {counts['new']} at the new"
            )
        spark.stop()


if __name__ == "__main__":
    main()
