"""The jars of Delta and Iceberg: downloaded once and cached, so that later sessions start offline."""

from __future__ import annotations

import os
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import quoteattr

from geolake_nb.errors import MissingDependencyError
from geolake_nb.formats.iceberg.jvm_table import ICEBERG_PACKAGE
from geolake_nb.spark.java_runtime import java_version

__all__ = ["cache_folder", "delta_package", "ivy_settings", "kept_jars", "local_jars"]


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
