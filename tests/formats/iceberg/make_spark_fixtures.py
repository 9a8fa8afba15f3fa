"""Writes Iceberg tables with Spark 4.1.4 and Iceberg 1.12.0: `python -m tests.formats.iceberg.make_spark_fixtures OUT`.

The project's own environment has a Spark that Iceberg has no runtime for, so this makes one beside it, in a cache
folder (`$GEOLAKE_TEST_CACHE`, else `~/.cache/geolake-tests`); the jars come through Ivy. Both are kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from geolake_nb.spark.session import ivy_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

PYSPARK = "4.1.4"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
IVY_SETTINGS = ivy_settings()

# Runs in the other environment, so that it cannot import anything from here.
SCRIPT = r"""
import json, struct, sys
from pyspark.sql import SparkSession

out = sys.argv[1]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", sys.argv[2])
    .config("spark.jars.ivySettings", sys.argv[3])
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.ice.type", "hadoop")
    .config("spark.sql.catalog.ice.warehouse", out)
    .config("spark.sql.geospatial.enabled", "true")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def point(x, y):
    return "X'" + struct.pack("<BIdd", 1, 1, x, y).hex() + "'"


spark.sql("CREATE TABLE ice.db.geo (id INT, name STRING, g GEOMETRY(4326), h GEOGRAPHY(4326)) USING iceberg"
          " TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read')")
for part in range(3):
    rows = ", ".join(
        f"({10 * part + i}, 'n{i}', st_setsrid(st_geomfromwkb({point(10 * part + i, i)}), 4326),"
        f" st_geogfromwkb({point(10 * part + i, -i)}))" for i in range(4)
    )
    spark.sql(f"INSERT INTO ice.db.geo VALUES {rows}")
spark.sql("INSERT INTO ice.db.geo VALUES (99, NULL, NULL, NULL)")
spark.sql("ALTER TABLE ice.db.geo CREATE TAG before_delete")
spark.sql("DELETE FROM ice.db.geo WHERE id = 11")

spark.sql("CREATE TABLE ice.db.plain (id BIGINT, d DECIMAL(12, 3), t TIMESTAMP, s STRING, f DOUBLE, b BINARY)"
          " USING iceberg PARTITIONED BY (days(t), bucket(4, id)) TBLPROPERTIES('format-version'='2')")
spark.sql("INSERT INTO ice.db.plain SELECT id, id * 1.5BD, timestamp'2024-02-28 12:00:00' + make_interval(0,0,0,id),"
          " repeat(char(97 + id), 40), IF(id = 2, double('NaN'), id / 3), CAST(repeat('z', 20 + id) AS BINARY)"
          " FROM range(6) AS r(id)")

truth = {}
for name in ("geo", "plain"):
    files = spark.sql("SELECT content, file_path, file_format, record_count, file_size_in_bytes"
                      f" FROM ice.db.{name}.files").collect()
    snapshots = spark.sql(f"SELECT snapshot_id, operation FROM ice.db.{name}.snapshots ORDER BY committed_at").collect()
    truth[name] = {
        "rows": spark.table(f"ice.db.{name}").count(),
        "files": [row.asDict() for row in files],
        "snapshots": [row.asDict() for row in snapshots],
    }
with open(f"{out}/truth.json", "w") as file:
    json.dump(truth, file)
spark.stop()
"""


class NoSparkError(Exception):
    """The other environment cannot be made here."""


def cache_folder() -> Path:
    """Where environments and classpaths for tests are kept."""
    return Path(os.environ.get("GEOLAKE_TEST_CACHE") or Path.home() / ".cache" / "geolake-tests")


@contextlib.contextmanager
def locked() -> Iterator[Path]:
    """The cache folder, for one process at a time: parallel test runs share it."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def spark_python() -> Path:
    """The interpreter of an environment with that PySpark, which is made if it is not there."""
    folder = cache_folder() / f"spark-{PYSPARK}"
    python = folder / "bin" / "python"
    probe = [str(python), "-c", f"import pyspark; assert pyspark.__version__ == '{PYSPARK}'"]
    if python.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return python
    venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"pyspark=={PYSPARK}"]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=900)
    if installed.returncode != 0:
        raise NoSparkError(f"pip cannot install pyspark {PYSPARK}: {installed.stderr[-500:]}")
    return python


def make(out: Path) -> Path:
    """Write the tables `db/geo` and `db/plain` and what Spark says of them in `truth.json`."""
    python = spark_python()
    out.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK_"))}
    environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = out / "ivysettings.xml"
    settings.write_text(IVY_SETTINGS)
    command = [str(python), "-c", SCRIPT, str(out), ICEBERG, str(settings)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=environment)
    if made.returncode != 0:
        raise NoSparkError(f"Spark {PYSPARK} with {ICEBERG} failed: {made.stderr[-2000:]}")
    return out


if __name__ == "__main__":
    print(make(Path(sys.argv[1]).resolve()))
