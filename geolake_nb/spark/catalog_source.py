"""The catalogs of a Spark session as a tree of namespaces and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.errors import NotATableError, StorageError
from geolake_nb.formats.catalog_sources import CatalogEntry, CatalogSource, EntryKind
from geolake_nb.formats.open_source import catalog_source, source_at
from geolake_nb.spark.tables import table_in_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from geolake_nb.formats.base import TableSource

__all__ = ["SparkSource"]


class SparkSource(CatalogSource):
    """What `SHOW CATALOGS`, `SHOW NAMESPACES` and `SHOW TABLES` list."""

    kind = "spark"

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark, self._options = spark, dict(options)
        self.name = self.where = "Spark session"

    def children(self, path: Sequence[str] = ()) -> list[CatalogEntry]:
        """The catalogs of the session, or the namespaces and tables right below a namespace."""
        if not path:
            names = [catalog.name for catalog in self._spark.catalog.listCatalogs()]
            return [CatalogEntry((name,), EntryKind.NAMESPACE) for name in sorted(names)]
        below = self._rows(f"SHOW NAMESPACES IN {_quoted(path)}") if self._has_namespaces(path) else []
        # Spark names a namespace by its levels below the catalog.
        listed_below = [(path[0], *row[0].replace("`", "").split(".")) for row in below]
        namespaces = [levels for levels in listed_below if len(levels) == len(path) + 1]
        listed = self._rows(f"SHOW TABLES IN {_quoted(path)}") if len(path) > 1 else []
        tables = [row["tableName"] for row in listed if not row["isTemporary"]]
        return [CatalogEntry(levels, EntryKind.NAMESPACE) for levels in namespaces] + [
            CatalogEntry((*path, name), EntryKind.TABLE) for name in tables
        ]

    def table(self, path: Sequence[str]) -> TableSource:
        """What opens the table of that path."""
        known = table_in_session(self._spark, ".".join(path))
        if known is None:
            raise NotATableError(f"the Spark session has no table {'.'.join(path)}")
        if known.iceberg is not None:
            return catalog_source(known.iceberg, self._options)
        return source_at(known.location, self._options, named=lambda *_: None)

    def _has_namespaces(self, path: Sequence[str]) -> bool:
        # The session's own catalog has databases, and nothing below them: Spark refuses the question.
        return len(path) == 1 or path[0] != "spark_catalog"

    def _rows(self, query: str) -> list[Any]:
        from pyspark.errors import PySparkException

        try:
            return list(self._spark.sql(query).collect())
        except PySparkException as problem:
            kind = problem.getCondition() or type(problem).__name__
            raise StorageError(f"Spark cannot answer {query}: {kind}", where=self.where) from None


def _quoted(path: Sequence[str]) -> str:
    # Each level is quoted, so that a name is never more than a name.
    return ".".join("`" + level.replace("`", "``") + "`" for level in path)
