"""Iceberg's Java classes in the JVM of a session: how a table is loaded for a commit, and what its errors mean."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from geolake_nb.errors import ConflictError, GeolakeError, NotATableError, OutcomeUnknownError, RefusedError
from geolake_nb.formats.iceberg.location import PathMap
from geolake_nb.spark.log_store import spark_location
from geolake_nb.spark.session import ICEBERG_PACKAGE, session_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.formats.iceberg.catalogs import CatalogTable
    from geolake_nb.spark.applying import Place

__all__ = ["JvmTable", "iceberg_errors", "java_map", "open_jvm"]

PROBE = "org.apache.iceberg.CatalogUtil"
"""A class that is there wherever Iceberg is."""
_ERRORS = "org.apache.iceberg.exceptions."
_LOST = {f"{_ERRORS}CommitFailedException", f"{_ERRORS}ValidationException", f"{_ERRORS}AlreadyExistsException"}
_UNKNOWN = f"{_ERRORS}CommitStateUnknownException"
_NO_TABLE = {f"{_ERRORS}NoSuchTableException", f"{_ERRORS}NotFoundException"}
_SCHEME = re.compile(r"[a-z][a-z0-9+]*", re.IGNORECASE)


class JvmTable:
    """A table as the JVM has it, or the place where one will be."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        self.jvm: Any = spark._jvm
        self._spark = spark
        self._place = place
        self._table: Any = None

    @property
    def core(self) -> Any:
        """The package `org.apache.iceberg`."""
        return self.jvm.org.apache.iceberg

    @property
    def table(self) -> Any:
        """The `org.apache.iceberg.Table`; loaded once, `refresh` it to see what others did."""
        if self._table is None:
            with iceberg_errors(self._place.storage.location):
                self._table = self._load()
            self._require_at_home()
        return self._table

    @property
    def metadata(self) -> Any:
        """The `TableMetadata` as last read."""
        return self.table.operations().current()

    @property
    def paths(self) -> PathMap:
        """Turns paths that the table stores into those that our storage takes."""
        return PathMap(str(self.table.location()), self._place.storage.location)

    def exists(self) -> bool:
        """Whether there is a table."""
        if self._place.catalog is not None:
            return True
        return bool(self._hadoop().exists(self._location()))

    def create(self, schema: Any, spec: Any, properties: Mapping[str, str]) -> Any:
        """The transaction that makes the table."""
        location = self._location()
        return self._hadoop().newCreateTableTransaction(location, schema, spec, java_map(self.jvm, properties))

    def _load(self) -> Any:
        catalog = self._place.catalog
        if catalog is None:
            return self._hadoop().load(self._location())
        identifier = self.core.catalog.TableIdentifier.of(_strings(self.jvm, catalog.identifier))
        properties = java_map(self.jvm, _java_properties(catalog, self._place.storage.location))
        found = self.core.CatalogUtil.buildIcebergCatalog(catalog.catalog, properties, self._configuration())
        return found.loadTable(identifier)

    def _hadoop(self) -> Any:
        return self.core.hadoop.HadoopTables(self._configuration())

    def _location(self) -> str:
        storage = self._place.storage
        return storage.location if storage.is_local else spark_location(self._spark, storage.location)

    def _configuration(self) -> Any:
        context: Any = self._spark._jsc
        return context.hadoopConfiguration()

    def _require_at_home(self) -> None:
        """Refuse a table that was moved: Iceberg would write to where it was."""
        stated, here = str(self._table.location()), self._place.storage.location
        if PathMap(here, here).key(f"{stated}/a") != "a":
            self._table = None
            raise RefusedError(
                f"the table says that it lies at {stated}",
                where=here,
                remedy="open it there, or register it where it is with Iceberg",
            )


def open_jvm(place: Place) -> JvmTable:
    """The table of a place in the JVM of the given session, of the running one, or of one that is started."""
    spark = session_for(place.spark)
    jvm = getattr(spark, "_jvm", None)
    where = place.storage.location
    if jvm is None:
        raise RefusedError(
            "Iceberg tables are changed through the session's JVM, which a Spark Connect session does not show",
            where=where,
            remedy="use a classic session, or none",
        )
    if not _has_class(jvm, PROBE):
        raise RefusedError(
            "the Spark session has no Iceberg on its class path",
            where=where,
            remedy=f"start it with the package {ICEBERG_PACKAGE} in spark.jars.packages, or stop it and give none",
        )
    return JvmTable(spark, place)


def _has_class(jvm: Any, name: str) -> bool:
    """Whether py4j finds the class; it takes any other name for a package."""
    found = jvm
    for part in name.split("."):
        found = getattr(found, part)
    return type(found).__name__ == "JavaClass"


@contextlib.contextmanager
def iceberg_errors(where: str) -> Iterator[None]:
    """What Iceberg raises as errors of this package; a commit that may have landed is told from one that did not."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as problem:
        name, text = _cause(problem)
        if name == _UNKNOWN:
            what = "Iceberg does not know whether the commit landed"
            raise OutcomeUnknownError(what, where=where, remedy="apply the plan again: it tells") from problem
        if name in _LOST:
            raise ConflictError(
                f"the table changed in the meantime: {text}", where=where, remedy="plan again"
            ) from problem
        if name in _NO_TABLE:
            raise NotATableError(
                "Iceberg finds no table that is committed by its files alone",
                where=where,
                remedy="if a catalog keeps it, open it by its name there: catalog.namespace.table",
            ) from problem
        raise GeolakeError(f"Iceberg refuses: {text}", where=where) from problem


def java_map(jvm: Any, values: Mapping[str, str]) -> Any:
    """A `java.util.HashMap`."""
    found = jvm.java.util.HashMap()
    for key, value in values.items():
        found.put(key, value)
    return found


def _cause(problem: Any) -> tuple[str, str]:
    error = problem.java_exception
    name = str(error.getClass().getName())
    lines = (str(error.getMessage() or name)).splitlines() or [name]
    return name, lines[0][:300]


def _strings(jvm: Any, values: tuple[str, ...]) -> Any:
    array = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), len(values))
    for place, value in enumerate(values):
        jvm.java.lang.reflect.Array.set(array, place, value)
    return array


def _java_properties(catalog: CatalogTable, root: str) -> dict[str, str]:
    """The properties of a catalog as Iceberg for Java names them, from PyIceberg's names or those of Spark."""
    properties = {key: value for key, value in catalog.properties.items() if not key.startswith("py-")}
    if catalog.kind == "sql":
        properties |= _jdbc(properties.get("uri", ""))
        # The catalog only asks for it to know where new tables go.
        properties.setdefault("warehouse", root)
        properties["type"] = "jdbc"
    elif catalog.kind is not None and "catalog-impl" not in properties:
        properties["type"] = catalog.kind
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
    found = {"uri": f"jdbc:{name}://{host}{port}{parts.path}"}
    if parts.username:
        found["jdbc.user"] = unquote(parts.username)
    if parts.password:
        found["jdbc.password"] = unquote(parts.password)
    return found
