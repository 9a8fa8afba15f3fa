"""Tables as engines write them today, made on the spot from the data that ships."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from geolake_nb.errors import AlreadyThereError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["airports_delta"]

# Marks the first commit, so that only tables of this function are replaced.
_MARK = "demo table of geolake_nb"


def airports_delta(folder: str | os.PathLike[str], *, spark: SparkSession | None = None, files: int = 96) -> str:
    """A Delta table of the airports that Spark writes: a geometry column, no geo bounds, files in no spatial order.

    Each file holds airports of the whole world, as a load by key leaves them.

    Args:
        folder: where the table is written; an earlier table of this function there is replaced.
        spark: the session that writes; by default the running one, else a new local one.
        files: how many files the table has.

    Returns:
        The folder.

    Raises:
        AlreadyThereError: the folder has other files.

    Example:
        >>> gl.demo.airports_delta("parcels")
        Traceback (most recent call last):
        geolake_nb.errors.AlreadyThereError: /.../parcels: the folder has other files; ...
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

    from geolake_nb.demo.data import airports
    from geolake_nb.spark.session import session_for

    path = Path(folder).absolute()
    _make_room(path)
    frame = session_for(spark).createDataFrame(airports())
    frame = frame.withColumn("location", F.st_setsrid(F.st_geomfromwkb("location"), 4326))
    # By the hash of the code: the same files on every machine, whatever its cores.
    frame.repartition(files, "code").write.format("delta").option("userMetadata", _MARK).save(str(path))
    return os.fspath(folder)


def _make_room(path: Path) -> None:
    if not path.exists() or not any(path.iterdir()):
        return
    first = path / "_delta_log" / "00000000000000000000.json"
    if not first.exists() or _MARK not in first.read_text():
        raise AlreadyThereError("the folder has other files", where=str(path), remedy="choose an empty folder")
    shutil.rmtree(path)
