"""One Spark session with Delta and the classes of Iceberg for all tests that need a real engine."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from geolake_nb.spark.session import local_jars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# A driver for Iceberg's JDBC catalog.
_SQLITE = "org.xerial:sqlite-jdbc:3.49.1.0"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with Delta and its geospatial preview."""
    pytest.importorskip("delta", reason="delta-spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    session = delta_session("local[2]", tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def delta_session(master: str, folder: Path) -> SparkSession:
    """A session with Delta, its geospatial preview and the classes of Iceberg; `folder` takes what it leaves behind."""
    from pyspark.sql import SparkSession

    # The workers of this machine run in the environment of the tests.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.databricks.delta.geo.preview.enabled": "true",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": ",".join(str(jar) for jar in local_jars(_SQLITE)),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(master).appName("geolake_nb tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
