"""The Spark session that a job runs in: the user's, or a local one with the jars of Delta and Iceberg."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from geolake_nb.errors import JobError, MissingDependencyError
from geolake_nb.formats.iceberg.jvm_table import ICEBERG_PACKAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = [
    "OLDEST_JAVA",
    "cache_folder",
    "delta_package",
    "ivy_settings",
    "java_version",
    "kept_jars",
    "local_jars",
    "running_session",
    "session",
    "session_for",
]

OLDEST_JAVA = 17
"""Spark 4 runs on this and later ones."""

# 'openjdk version "17.0.15"'; the first number of those before 9 is 1.
_VERSION = re.compile(r'version "([^"]+)"')


def java_version() -> str:
    """The version of the Java that Spark will start; an error where there is none, or too old a one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = (
        f"install Java {OLDEST_JAVA} or later (Debian and Ubuntu: apt-get install openjdk-{OLDEST_JAVA}-jre-headless)"
        " or set JAVA_HOME to it"
    )
    if java is None:
        raise MissingDependencyError("Spark needs Java, and none is on the PATH", remedy=remedy)
    version = _reported_version(java)
    if version is None:
        raise MissingDependencyError("Spark needs Java, and this one does not run", where=java, remedy=remedy)
    if int(re.split(r"\D", version)[0]) < OLDEST_JAVA:
        raise MissingDependencyError(f"Spark does not run on Java {version}", where=java, remedy=remedy)
    return version


def _reported_version(java: str) -> str | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = _VERSION.search(done.stderr)
    return match[1] if done.returncode == 0 and match else None


# Delta depends on these too, 50 MB; Spark has its own, which is found first.
_IN_SPARK = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")


def cache_folder() -> Path:
    """The cache folder of this package."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "geolake_nb"


def delta_package() -> str:
    """The jar that belongs to the installed packages pyspark and delta-spark.

    >>> delta_package()
    'io.delta:delta-spark_4.2_2.13:4.4.0'
    """
    from importlib.metadata import version

    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}"


def local_jars(*more: str) -> list[Path]:
    """The jars of Delta, of Iceberg and of `more` packages with their dependencies, downloaded unless cached."""
    folder = _folder(more)
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _fetch(_packages(more), folder)
        except OSError as problem:
            raise MissingDependencyError(
                f"the jars of Delta and Iceberg cannot be cached here: {problem.strerror}",
                where=str(folder.parent),
                remedy="set XDG_CACHE_HOME to a folder that can be written to",
            ) from problem
    return sorted(folder.glob("*.jar"))


def kept_jars(*more: str) -> Path | None:
    """The folder of the jars that `local_jars` gives, None where they are not downloaded yet."""
    folder = _folder(more)
    return folder if folder.is_dir() else None


def ivy_settings() -> str:
    """Settings of Ivy, which fetches packages for Spark: from the central repository alone, or its stand-in.

    Spark's own list starts with the local Maven repository, which may hold the description of a package without the
    package itself, and that ends the search.
    """
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")  # as Spark reads it
    attribute = f" root={quoteattr(root)}" if root else ""
    return f"""<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"{attribute}/></resolvers>
</ivysettings>
"""


def _packages(more: tuple[str, ...]) -> list[str]:
    return [delta_package(), ICEBERG_PACKAGE, *more]


def _folder(more: tuple[str, ...]) -> Path:
    names = ["-".join(package.split(":")[1:]) for package in _packages(more)]
    return cache_folder() / "jars" / "+".join(names)


def _fetch(packages: list[str], folder: Path) -> None:
    """Resolve into a folder beside the wanted one, and give it that name when it is whole."""
    import pyspark

    java_version()
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as work:
        settings = Path(work) / "ivysettings.xml"
        settings.write_text(ivy_settings(), encoding="utf-8")
        options = {
            "spark.jars.excludes": ",".join(_IN_SPARK),
            "spark.jars.ivy": work,
            "spark.jars.ivySettings": str(settings),
            "spark.jars.packages": ",".join(packages),
        }
        submit = Path(pyspark.__file__).parent / "bin" / ("spark-submit.cmd" if os.name == "nt" else "spark-submit")
        # Spark resolves the packages before it runs a class; this one prints a line and ends.
        command = [str(submit), "--master", "local[1]", "--class", "org.apache.ivy.Main"]
        command += [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
        done = subprocess.run(
            [*command, "spark-internal", "-version"],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},  # the name of this machine may lead nowhere
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        made = Path(work) / "jars"
        if done.returncode != 0 or not any(made.glob("*.jar")):
            raise MissingDependencyError(
                f"the jars of Delta and Iceberg are not cached and cannot be downloaded: {_reason(done.stderr)}",
                where=str(folder.parent),
                remedy="run `geolake demo --prepare` once with network access; DEFAULT_ARTIFACT_REPOSITORY names "
                "another Maven repository",
            )
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


def _reason(output: str) -> str:
    """Ivy's first error, else the last line of the output.

    >>> _reason(":: problems summary ::\\n:::: WARNINGS\\n\\tHost central not found. url=file.pom\\n\\n")
    'Host central not found'
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    after = dict(pairwise(lines))
    complaint = after.get(":::: ERRORS") or after.get(":::: WARNINGS")
    if complaint is not None:
        return complaint.partition(" url=")[0].rstrip(".")
    return lines[-1] if lines else "no reason was given"


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
