"""The Java that Spark runs on: found, and new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from geolake_nb.errors import MissingDependencyError

__all__ = ["OLDEST_JAVA", "java_version"]

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
