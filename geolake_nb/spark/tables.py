"""Where a table of the running Spark session lies."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import NotATableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkTable", "find_spark_table"]

_NAME = re.compile(r"[\w-]+(\.[\w-]+){0,3}")


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table as Spark knows it: where it lies, or the metadata file of an Iceberg table."""

    location: str
    metadata: str | None = None


def find_spark_table(name: str) -> SparkTable | None:
    """The table of that name in the session that runs in this process, `None` without one.

    No session is started: a name that only Spark knows means nothing where Spark does not run.

    >>> find_spark_table("/a/path") is None
    True
    """
    if not _NAME.fullmatch(name) or "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    return None if spark is None else _describe(spark, name)


def _describe(spark: SparkSession, name: str) -> SparkTable | None:
    if not spark.catalog.tableExists(name):
        return None
    # Each part is quoted, so that a name is never more than a name.
    quoted = ".".join(f"`{part}`" for part in name.split("."))
    facts = {row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()}
    location = facts.get("Location")
    if not location:
        raise NotATableError(
            "it has no files of its own", where=name, remedy="a view cannot be opened: name its tables"
        )
    if facts.get("Provider", "").lower() != "iceberg":
        return SparkTable(location)
    newest = f"SELECT file FROM {quoted}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    return SparkTable(location, spark.sql(newest).collect()[0]["file"])
