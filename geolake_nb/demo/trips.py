"""Taxi trips that are made on the spot: as many as a test of scale needs, and none to ship."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError, MissingDependencyError

if TYPE_CHECKING:
    import os

__all__ = ["trips"]

_TOOL = "spatialbench-cli"


def trips(folder: str | os.PathLike[str], *, scale: float = 0.1) -> str:
    """Four Parquet files of made-up taxi trips, 6 million for a scale of 1, without geo metadata.

    Pick-up and drop-off are WKB points in plain binary columns. The same scale gives the same trips.

    Args:
        folder: where a folder for the trips is created; existing trips are not generated again.
        scale: how many trips, in units of 6 million.

    Returns:
        The folder of the files.

    Raises:
        MissingDependencyError: spatialbench-cli is not installed.
        GeolakeError: a scale that is not above 0, or the tool has failed.

    Example:
        >>> gl.demo.trips("/tmp", scale=0)
        Traceback (most recent call last):
        geolake_nb.errors.GeolakeError: scale is 0; give a number above it, such as 0.1 for 600,000 trips
    """
    if not scale > 0:
        raise GeolakeError(f"scale is {scale}", remedy="give a number above it, such as 0.1 for 600,000 trips")
    made = Path(folder) / f"trips-{scale:g}"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        # A run that is broken off leaves nothing that a later one would take for all of it.
        with tempfile.TemporaryDirectory(dir=made.parent, prefix=".trips-") as unfinished:
            _make(unfinished, scale)
            (Path(unfinished) / "trip").rename(made)
    return str(made)


def _make(folder: str, scale: float) -> None:
    tool = shutil.which(_TOOL) or shutil.which(_TOOL, path=str(Path(sys.executable).parent))
    if tool is None:
        raise MissingDependencyError(f"{_TOOL} is not installed", remedy=f"run pip install {_TOOL}")
    command = [tool, "--scale-factor", str(scale), "--tables", "trip", "--parts", "4", "--output-dir", folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        reason = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
        raise GeolakeError(f"the trips could not be generated: {reason[:300]}", where=folder)
