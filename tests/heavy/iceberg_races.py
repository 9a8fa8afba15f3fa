"""Writers that race for one Iceberg table, none of whose rows may be lost: `python -m tests.heavy.iceberg_races`.

Spark 4.1 with Iceberg appends rows and merges manifests, while two threads of ours append rows, repair and rewrite.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import GeolakeError
from tests.iceberg_rest import serve_rest
from tests.iceberg_spark import IcebergSpark
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 12


def point(x: float, y: float) -> bytes:
    """A point in WKB."""
    return struct.pack("<BIdd", 1, 1, x, y)


def main(rounds: int = ROUNDS) -> int:
    """Let them race, and count."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Iceberg's tables of files alone let only one process write at a time: a catalog has to decide.
        with serve_rest(folder) as uri:
            os.environ["PYICEBERG_CATALOG__REST__URI"] = uri
            theirs = IcebergSpark(folder, uri)
            spark = delta_session("local[2]", folder)
            try:
                return _race(theirs, spark, rounds)
            finally:
                theirs.stop()
                spark.stop()


def _race(theirs: IcebergSpark, spark: object, rounds: int) -> int:
    table = "rest.db.raced"
    theirs.sql("CREATE NAMESPACE rest.db")
    theirs.sql(
        f"CREATE TABLE {table} (id BIGINT, g GEOMETRY(4326)) USING iceberg TBLPROPERTIES('format-version'='3',"
        " 'commit.manifest.min-count-to-merge'='3', 'commit.retry.num-retries'='50')"
    )
    gl.open(table).plan_repair()  # what is imported on the way is imported once, before there are threads
    lost: dict[str, int] = {}
    written: list[int] = []
    failed: list[str] = []

    def append(start: int) -> None:
        for number in range(start, start + rounds):
            rows = pa.table({"id": [number], "g": [point(number, 0)]})
            # The same plan until it has landed: it never does so twice.
            plan = persistent("append", lambda rows=rows: plan_write(rows, table, format="iceberg", mode="append"))
            persistent("append", lambda plan=plan: plan.apply(spark=spark))
            written.append(number)

    def repair(_: int) -> None:
        count = 0
        while len(written) < 3 * rounds and not failed:
            attempt("repair", lambda: gl.open(table).plan_repair(verify=True).apply(spark=spark))
            if count % 3 == 2:
                attempt("rewrite", lambda: gl.open(table).plan_rewrite(cluster_by="g").apply(spark=spark))
            count += 1

    def attempt(verb: str, work: Callable[[], Any]) -> Any:
        """What the work gives, `None` where it lost; the database of the server is busy now and then."""
        try:
            return work()
        except GeolakeError as problem:
            name = f"{verb} {type(problem).__name__}"
            lost[name] = lost.get(name, 0) + 1
            return None

    def persistent(verb: str, work: Callable[[], Any]) -> Any:
        for _ in range(100):
            outcome = attempt(verb, work)
            if outcome is not None:
                return outcome
        raise RuntimeError(f"{verb} never landed: {lost}")

    def insert(number: int) -> None:
        shape = f"st_setsrid(st_geomfromwkb(X'{point(number, 1).hex()}'), 4326)"
        while not theirs_has(number):
            try:
                theirs.sql(f"INSERT INTO {table} VALUES ({number}, {shape})")
            except AssertionError:
                lost["insert of Spark"] = lost.get("insert of Spark", 0) + 1

    def theirs_has(number: int) -> bool:
        while True:
            try:
                return bool(theirs.sql(f"SELECT id FROM {table} WHERE id = {number}"))
            except AssertionError:
                continue

    def guarded(work: Callable[[int], None], start: int) -> None:
        try:
            work(start)
        except Exception as problem:  # noqa: BLE001 - told at the end
            failed.append(f"{work.__name__}: {problem}")

    threads = [threading.Thread(target=guarded, args=pair) for pair in ((append, 1000), (append, 2000), (repair, 0))]
    for thread in threads:
        thread.start()
    for number in range(rounds):
        insert(number)
        written.append(number)
    for thread in threads:
        thread.join()
    ids = sorted(row["id"] for row in theirs.sql(f"SELECT id FROM {table}"))
    gl.open(table).plan_repair(verify=True).apply(spark=spark)
    bare = gl.open(table).files.table["g.xmin"].null_count
    verbs = [row["v"] for row in theirs.sql(f"SELECT summary['geolake.verb'] AS v FROM {table}.snapshots")]
    snapshots = {str(verb): verbs.count(verb) for verb in set(verbs)}
    print(f"{len(ids)} rows of {len(written)}, snapshots {snapshots}, lost {lost}, {bare} files without box")
    for line in failed:
        print(f"failed: {line}")
    return 0 if ids == sorted(written) and not bare and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
