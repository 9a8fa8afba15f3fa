"""Writers that race for one Iceberg table, none of whose rows may be lost: `python -m tests.heavy.iceberg_races`.

Spark 4.1 with Iceberg appends rows and merges manifests, while two threads of ours append rows, repair and rewrite.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path

import pyarrow as pa

import geolake_nb as gl
from geolake_nb.errors import ConflictError
from tests.iceberg_rest import serve_rest
from tests.iceberg_spark import IcebergSpark
from tests.spark_session import delta_session

ROUNDS = 12


def point(x: float, y: float) -> bytes:
    """A point in WKB."""
    return struct.pack("<BIdd", 1, 1, x, y)


def main(rounds: int = ROUNDS) -> int:
    """Let them race, and count."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Iceberg's tables of files alone let only one process write at a time: a catalog has to judge.
        with serve_rest(folder) as uri:
            os.environ |= {"PYICEBERG_CATALOG__REST__URI": uri, "HOME": name}
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
    import_module("geolake_nb.api.writing")
    conflicts: dict[str, int] = {}
    written: list[int] = []
    failed: list[str] = []

    def append(start: int) -> None:
        for number in range(start, start + rounds):
            rows = pa.table({"id": [number], "g": [point(number, 0)]})
            attempt("append", lambda rows=rows: gl.write(rows, table, format="iceberg", mode="append", spark=spark))
            written.append(number)

    def mend(_: int) -> None:
        count = 0
        while len(written) < 3 * rounds and not failed:
            attempt("repair", lambda: gl.open(table).plan_repair(verify=True).apply(spark=spark), again=False)
            if count % 3 == 2:
                attempt("rewrite", lambda: gl.open(table).plan_rewrite(cluster_by="g").apply(spark=spark), again=False)
            count += 1

    def attempt(verb: str, work: object, *, again: bool = True) -> None:
        while True:
            try:
                work()
                return
            except ConflictError:
                conflicts[verb] = conflicts.get(verb, 0) + 1
                if not again:
                    return

    def guarded(work: object, start: int) -> None:
        try:
            work(start)
        except Exception as problem:  # noqa: BLE001 - told at the end
            failed.append(f"{work.__name__}: {problem}")

    threads = [threading.Thread(target=guarded, args=pair) for pair in ((append, 1000), (append, 2000), (mend, 0))]
    for one in threads:
        one.start()
    for number in range(rounds):
        shape = f"st_setsrid(st_geomfromwkb(X'{point(number, 1).hex()}'), 4326)"
        theirs.sql(f"INSERT INTO {table} VALUES ({number}, {shape})")
        written.append(number)
    for one in threads:
        one.join()
    found = sorted(one["id"] for one in theirs.sql(f"SELECT id FROM {table}"))
    gl.open(table).plan_repair(verify=True).apply(spark=spark)
    bare = gl.open(table).files.table["g.xmin"].null_count
    verbs = [one["v"] for one in theirs.sql(f"SELECT summary['geolake.verb'] AS v FROM {table}.snapshots")]
    snapshots = {str(verb): verbs.count(verb) for verb in set(verbs)}
    print(
        f"{len(found)} rows of {len(written)}, snapshots {snapshots}, conflicts {conflicts}, {bare} files without box"
    )
    for line in failed:
        print(f"failed: {line}")
    return 0 if found == sorted(written) and not bare and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
