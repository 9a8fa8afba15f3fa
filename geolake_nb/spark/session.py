"""The Spark session that a job runs in: the user's, or a local one with Delta and Iceberg."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import JobError, MissingDependencyError
from geolake_nb.spark.jars import local_jars
from geolake_nb.spark.java_runtime import java_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["running_session", "session", "session_for"]

# Delta 4.4 opens tables with geo types only where its preview is on.
_GEO_PREVIEW = "spark.databricks.delta.geo.preview.enabled"


def session(*, options: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, else a new one on all cores of this machine, with Delta and Iceberg.

    A new one prints nothing in a notebook or a shell, and leaves nothing in the current folder: tables without a path
    last as long as it does.

    Args:
        options: further options of a new session.

    Returns:
        A session; plans that are applied without one use it.

    Raises:
        MissingDependencyError: PySpark or Java is not installed.
        JobError: Spark does not start.

    Example:
        >>> spark = gl.session(options={"spark.driver.memory": "8g"})  # doctest: +SKIP
        >>> t.plan_rewrite(cluster_by="geom").apply(spark=spark)  # doctest: +SKIP
    """
    return _session(None, options or {})


def session_for(spark: SparkSession | None) -> SparkSession:
    """The session that is given, else the running one, else a new one on all cores of this machine."""
    return _session(spark, {})


def running_session(spark: SparkSession | None) -> SparkSession | None:
    """The session that is given, else the one that runs in this process; none is started.

    >>> running_session(None) is None or "pyspark" in sys.modules
    True
    """
    if spark is None and "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession()
    return spark


def _session(spark: SparkSession | None, options: Mapping[str, str]) -> SparkSession:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError(
            "this reads data with Spark, which is not installed", remedy="run pip install 'geolake-nb[spark]'"
        ) from None
    session = spark or SparkSession.getActiveSession() or _local(options)
    session.conf.set(_GEO_PREVIEW, "true")
    return session


def _local(options: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # started here by another thread
        return SparkSession.builder.getOrCreate()
    folder = Path(tempfile.mkdtemp(prefix="geolake_nb-"))
    # The workers need this package too; else Spark takes the first python3 that it finds.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setAll(list({**_options(folder), **options}.items()))
    if SparkContext._gateway is None:  # else a Java runs that an earlier session has left
        SparkContext._ensure_initialized(gateway=_quiet_java(conf, folder / "spark.log"))
    java: Any = SparkContext._jvm
    # Java ends after this process, however that ends, and sweeps up.
    java.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(java.java.io.File(str(folder)))
    # They write errors to the cell, as JSON with the whole stack of Java; each is raised as well.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _options(folder: Path) -> dict[str, str]:
    log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        "spark.app.name": "geolake_nb",
        # Delta reads the log of a table with this many tasks, 50 by default: more than a machine has cores.
        "spark.databricks.delta.snapshotPartitions": "4",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={log_settings}",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": ",".join(str(jar) for jar in local_jars()),
        "spark.master": "local[*]",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _quiet_java(conf: SparkConf, log: Path) -> JavaGateway:
    """Start Java with its output in a file: a notebook would show all of it in whatever cell runs."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    java_version()
    with log.open("wb") as sink:
        try:
            return launch_gateway(conf, popen_kwargs={"stdout": sink, "stderr": sink})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as problem:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            raise JobError(f"Spark did not start: {lines[-1] if lines else problem}") from problem
