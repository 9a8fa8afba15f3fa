"""Iceberg's catalogs in the JVM of a session: existing tables, and the transaction that creates one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from geolake_nb.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.formats.iceberg.catalogs import CatalogTable

__all__ = ["JvmCatalog", "java_map"]

_SCHEME = re.compile(r"[a-z][a-z0-9+]*", re.IGNORECASE)
_NAMESPACES = "org.apache.iceberg.catalog.SupportsNamespaces"
_FOLDERS = "org.apache.iceberg.hadoop.HadoopCatalog"


class JvmCatalog:
    """The catalog of a table, and what it knows of that table."""

    def __init__(self, spark: SparkSession, table: CatalogTable) -> None:
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._table = table
        context: Any = spark._jsc
        properties = java_map(self._jvm, _java_properties(table))
        configuration = context.hadoopConfiguration()
        self._catalog = self._core.CatalogUtil.buildIcebergCatalog(table.catalog, properties, configuration)
        self._identifier = self._core.catalog.TableIdentifier.of(_strings(self._jvm, table.identifier))

    @property
    def _core(self) -> Any:
        return self._jvm.org.apache.iceberg

    def exists(self) -> bool:
        """Whether it has the table."""
        return bool(self._catalog.tableExists(self._identifier))

    def load(self) -> Any:
        """The `org.apache.iceberg.Table`."""
        return self._catalog.loadTable(self._identifier)

    def stage(self, schema: Any, spec: Any, properties: Mapping[str, str]) -> Any:
        """The transaction that makes the table; the catalog has chosen its location, and stores nothing yet."""
        self._require_namespace()
        builder = self._catalog.buildTable(self._identifier, schema).withPartitionSpec(spec)
        return builder.withProperties(java_map(self._jvm, properties)).createTransaction()

    def _require_namespace(self) -> None:
        """Raise where the namespace is missing: some catalogs would report it only after all files are written."""
        if not self._is_a(_NAMESPACES) or self._is_a(_FOLDERS):  # folders are made as they are needed
            return
        if not self._catalog.namespaceExists(self._identifier.namespace()):
            *levels, _ = self._table.identifier
            what = f"the catalog {self._table.catalog!r} has no namespace {'.'.join(levels)!r}"
            name = f"{self._table.catalog}.{self._table.name}"
            raise RefusedError(what, where=name, remedy="create the namespace first, or name another")

    def _is_a(self, name: str) -> bool:
        from py4j.java_gateway import is_instance_of

        return bool(is_instance_of(self._gateway, self._catalog, name))


def java_map(jvm: Any, values: Mapping[str, str]) -> Any:
    """A `java.util.HashMap`."""
    map_ = jvm.java.util.HashMap()
    for key, value in values.items():
        map_.put(key, value)
    return map_


def _strings(jvm: Any, values: tuple[str, ...]) -> Any:
    array = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), len(values))
    for index, value in enumerate(values):
        jvm.java.lang.reflect.Array.set(array, index, value)
    return array


def _java_properties(table: CatalogTable) -> dict[str, str]:
    """The properties of a catalog as Iceberg for Java names them, from PyIceberg's names or those of Spark."""
    properties = {key: value for key, value in table.properties.items() if not key.startswith("py-")}
    if table.kind == "sql":
        properties |= _jdbc(properties.get("uri", ""))
        if table.has_location:
            # The catalog needs it only for the location of new tables.
            properties.setdefault("warehouse", table.root)
        elif not properties.get("warehouse"):
            what = f"the catalog {table.catalog!r} has no warehouse to create a table in"
            remedy = "give it the property 'warehouse'"
            raise RefusedError(what, where=f"{table.catalog}.{table.name}", remedy=remedy)
        properties["type"] = "jdbc"
    elif table.kind is not None and "catalog-impl" not in properties:
        properties["type"] = table.kind
    return properties


def _jdbc(uri: str) -> dict[str, str]:
    """The address of a database as JDBC has it, from SQLAlchemy's.

    >>> _jdbc("sqlite:////a/b.db")
    {'uri': 'jdbc:sqlite:/a/b.db'}
    >>> _jdbc("postgresql+psycopg2://me:pw@host:5432/db")
    {'uri': 'jdbc:postgresql://host:5432/db', 'jdbc.user': 'me', 'jdbc.password': 'pw'}
    """
    if uri.startswith("jdbc:"):
        return {}
    dialect = _SCHEME.match(uri)
    name = dialect[0].partition("+")[0].lower() if dialect else ""
    if name == "sqlite":
        return {"uri": f"jdbc:sqlite:{uri.partition('://')[2].removeprefix('/')}"}
    parts = urlsplit(uri)
    host = parts.hostname or ""
    port = "" if parts.port is None else f":{parts.port}"
    properties = {"uri": f"jdbc:{name}://{host}{port}{parts.path}"}
    if parts.username:
        properties["jdbc.user"] = unquote(parts.username)
    if parts.password:
        properties["jdbc.password"] = unquote(parts.password)
    return properties
