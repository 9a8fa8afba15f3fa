"""The location of a table of the running Spark session."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolake_nb.errors import NotATableError
from geolake_nb.formats.iceberg.catalogs import CatalogTable, storage_options, table_exists_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["SparkTable", "find_spark_table", "new_spark_table", "table_in_session"]

_CATALOG = "spark.sql.catalog."
_ICEBERG = "org.apache.iceberg.spark."
_NAME = re.compile(r"[\w-]+(\.[\w-]+){0,3}")


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table as Spark knows it."""

    location: str
    iceberg: CatalogTable | None = None
    """How its catalog knows an Iceberg table."""


def find_spark_table(name: str) -> SparkTable | None:
    """The table of that name in the session that runs in this process, `None` without one.

    No session is started: a name in Spark's catalog cannot be resolved without a session.

    >>> find_spark_table("/a/path") is None
    True
    """
    if not _NAME.fullmatch(name) or "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    return None if spark is None else table_in_session(spark, name)


def table_in_session(spark: SparkSession, name: str) -> SparkTable | None:
    """The table of that name in a session, `None` where it has none."""
    named = _in_iceberg(spark, name)
    if named is None:
        return _describe(spark, name)
    loaded = _loaded(spark, named)
    return None if loaded is None else SparkTable(loaded.root, loaded)


def new_spark_table(name: str) -> CatalogTable | None:
    """A table that an Iceberg catalog of the running session will create; `None` where it has no such catalog.

    >>> new_spark_table("no_catalog.ns.roads") is None
    True
    """
    if not _NAME.fullmatch(name) or "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    named = None if spark is None else _in_iceberg(spark, name)
    if spark is None or named is None:
        return None
    if _loaded(spark, named) is not None:
        raise table_exists_error(name)
    return replace(named, reload=lambda: _reloaded(spark, named))


def _in_iceberg(spark: SparkSession, name: str) -> CatalogTable | None:
    """The name in a catalog that the session has set up for Iceberg, wherever the table may be; `None` elsewhere."""
    first, *rest = name.split(".")
    settings = dict(spark.conf.getAll)
    if len(rest) < 2 or not settings.get(f"{_CATALOG}{first}", "").startswith(_ICEBERG):
        return None
    if getattr(spark, "_jvm", None) is None:  # a session of Spark Connect
        return None
    properties = _properties(settings, first)
    return CatalogTable(".".join(rest), "", catalog=first, kind=properties.get("type"), properties=properties)


def _loaded(spark: SparkSession, named: CatalogTable) -> CatalogTable | None:
    """The table by Iceberg's own classes, which work where its catalog for Spark is of another version."""
    from geolake_nb.formats.iceberg.jvm_table import JvmCatalog, iceberg_errors, require_iceberg

    where = f"{named.catalog}.{named.name}"
    require_iceberg(spark, where=where)
    with iceberg_errors(where):
        catalog = JvmCatalog(spark, named)
        if not catalog.exists():
            return None
        table = catalog.load()
        io = {str(key): str(value) for key, value in table.io().properties().items()}
        return replace(
            named,
            metadata_location=str(table.operations().current().metadataFileLocation()),
            options=storage_options({**named.properties, **io}),
            reload=lambda: _reloaded(spark, named),
        )


def _reloaded(spark: SparkSession, named: CatalogTable) -> CatalogTable:
    loaded = _loaded(spark, named)
    if loaded is None:
        raise NotATableError("the catalog has no such table any more", where=f"{named.catalog}.{named.name}")
    return loaded


def _describe(spark: SparkSession, name: str) -> SparkTable | None:
    if not spark.catalog.tableExists(name):
        return None
    # Each part is quoted, so that a name is never more than a name.
    quoted = ".".join(f"`{part}`" for part in name.split("."))
    facts = {row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()}
    location = facts.get("Location")
    if not location:
        raise NotATableError("this is a view, without files", where=name, remedy="open the tables of the view instead")
    if facts.get("Provider", "").lower() != "iceberg":
        return SparkTable(location)
    return SparkTable(location, _in_catalog(spark, name))


def _properties(settings: Mapping[str, str], catalog: str) -> dict[str, str]:
    prefix = f"{_CATALOG}{catalog}."
    return {key.removeprefix(prefix): text for key, text in settings.items() if key.startswith(prefix)}


def _in_catalog(spark: SparkSession, name: str) -> CatalogTable:
    """An Iceberg table with the properties of its catalog, as the session has them."""
    first, *rest = name.split(".")
    settings = dict(spark.conf.getAll)
    if len(rest) < 2 or f"{_CATALOG}{first}" not in settings:
        rest = [*([spark.catalog.currentDatabase()] if not rest else []), first, *rest]
        first = spark.catalog.currentCatalog()
    properties = _properties(settings, first)
    quoted = ".".join(f"`{part}`" for part in (first, *rest))
    newest = f"SELECT file FROM {quoted}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    return CatalogTable(
        name=".".join(rest),
        metadata_location=spark.sql(newest).collect()[0]["file"],
        catalog=first,
        kind=properties.get("type"),
        properties=properties,
        reload=lambda: _in_catalog(spark, name),
    )
