"""The Spark session that a job runs in: the user's, or a local one with Delta and Iceberg."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from geolake_nb.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ICEBERG_PACKAGE", "running_session", "session_for"]

ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
"""Iceberg has no runtime for Spark 4.2; of this one only the core classes are used there, which know no Spark."""

# Delta 4.4 opens tables with geo types only where its preview is on.
_GEO_PREVIEW = "spark.databricks.delta.geo.preview.enabled"


def session_for(spark: SparkSession | None) -> SparkSession:
    """The session that is given, else the running one, else a new one on all cores of this machine."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError(
            "this reads data with Spark, which is not installed", remedy="run pip install 'geolake-nb[spark]'"
        ) from None
    session = spark or SparkSession.getActiveSession() or _local()
    session.conf.set(_GEO_PREVIEW, "true")
    return session


def running_session(spark: SparkSession | None) -> SparkSession | None:
    """The session that is given, else the one that runs in this process; none is started.

    >>> running_session(None) is None or "pyspark" in sys.modules
    True
    """
    if spark is None and "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession()
    return spark


def _local() -> SparkSession:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    # The workers need this package too; else Spark takes the first python3 that it finds.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("geolake_nb")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    return configure_spark_with_delta_pip(builder, extra_packages=[ICEBERG_PACKAGE]).getOrCreate()
