"""Where a table of the running Spark session lies."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import NotATableError
from geolake_nb.formats.iceberg.catalogs import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkTable", "find_spark_table"]

_CATALOG = "spark.sql.catalog."
_NAME = re.compile(r"[\w-]+(\.[\w-]+){0,3}")


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table as Spark knows it."""

    location: str
    iceberg: CatalogTable | None = None
    """How its catalog knows an Iceberg table."""


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
    return SparkTable(location, _in_catalog(spark, name))


def _in_catalog(spark: SparkSession, name: str) -> CatalogTable:
    """An Iceberg table with the properties of its catalog, as the session has them."""
    first, *rest = name.split(".")
    settings = dict(spark.conf.getAll)
    if len(rest) < 2 or f"{_CATALOG}{first}" not in settings:
        rest = [*([spark.catalog.currentDatabase()] if not rest else []), first, *rest]
        first = spark.catalog.currentCatalog()
    prefix = f"{_CATALOG}{first}."
    properties = {key.removeprefix(prefix): text for key, text in settings.items() if key.startswith(prefix)}
    quoted = ".".join(f"`{part}`" for part in (first, *rest))
    newest = f"SELECT file FROM {quoted}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    return CatalogTable(
        name=".".join(rest),
        metadata_location=spark.sql(newest).collect()[0]["file"],
        catalog=first,
        kind=properties.get("type"),
        properties=properties,
        ask=lambda: _in_catalog(spark, name),
    )
