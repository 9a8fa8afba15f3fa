"""A Spark standalone cluster on loopback, a master and two workers, and the jobs that run on it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The URL of a running master with two workers, each with a core and a folder of its own."""
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    # Executors start their own Python processes: the interpreter and the packages of this one.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    started: list[subprocess.Popen[bytes]] = []
    logs: list[Path] = []

    def start(name: str, *arguments: str) -> None:
        logs.append(folder / f"{name}.log")
        with logs[-1].open("wb") as log:
            command = [str(_SPARK_CLASS), *arguments]
            started.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment))

    try:
        start("master", _MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for number in (1, 2):
            room = folder / f"worker-{number}"
            start(f"worker-{number}", _WORKER, url, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
                  "--webui-port", "0", "--work-dir", str(room))  # fmt: skip
        _wait_for(logs[0], re.compile(r"Registering worker"), times=2)
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(20)


def _wait_for(log: Path, pattern: re.Pattern[str], *, times: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if len(pattern.findall(log.read_text(errors="replace"))) >= times:
            return
        time.sleep(0.2)
    raise TimeoutError(f"{log}: {pattern.pattern!r} was not seen {times} times:\n{log.read_text(errors='replace')}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


WINDOW = "ST_Intersects(geom, ST_MakeEnvelope(-20, -20, 20, 20))"


def main(master: str, folder: str) -> None:
    """What the driver does: make a table with plain Spark, repair, cluster and read it, and print what it saw."""
    import geolake_nb as gl
    from tests.spark.point_table import make_points
    from tests.spark_session import delta_session

    spark = delta_session(master, Path(folder))
    table = str(Path(folder) / "table")
    make_points(spark, table, rows=2000, files=4)
    before = sorted(map(tuple, spark.read.format("delta").load(table).select("id", "name").collect()))
    repaired = gl.open(table).plan_repair(verify=True).apply(spark=spark)
    rewritten = gl.open(table).plan_rewrite(cluster_by="geom", target_file_size="16KB").apply(spark=spark)
    after = sorted(map(tuple, spark.read.format("delta").load(table).select("id", "name").collect()))
    hosts = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    opened = gl.open(table)
    gl.spark_source.register(spark)
    rows = spark.read.format("geolake").option("partition_bytes", "4000").load(table)
    window = spark.read.format("geolake").option("where", WINDOW).load(table)
    print(
        json.dumps(
            {
                "executors": hosts - 1,  # the driver is listed too
                "same_rows": before == after,
                "versions": [repaired.version, rewritten.version],
                "files": len(opened.files),
                "bounded": opened.files.table["geom.xmin"].null_count == 0,
                "tasks": rows.rdd.getNumPartitions(),
                "read_rows": rows.count(),
                "ids_in_window": sorted(window.toArrow()["id"].to_pylist()),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
