"""Iceberg's Java classes in the JVM of a session: catalogs, tables for a commit, and their errors."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from geolake_nb.errors import ConflictError, GeolakeError, NotATableError, OutcomeUnknownError, RefusedError
from geolake_nb.formats.iceberg.location import PathMap
from geolake_nb.formats.spark_location import spark_location
from geolake_nb.text.messages import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.formats.iceberg.catalogs import CatalogTable

__all__ = [
    "ICEBERG_PACKAGE",
    "JvmCatalog",
    "JvmTable",
    "committing",
    "iceberg_errors",
    "java_map",
    "open_jvm",
    "require_iceberg",
]

ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
"""Iceberg has no runtime for Spark 4.2; of this one only the core classes are used there, which know no Spark."""


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


PROBE = "org.apache.iceberg.CatalogUtil"
"""A class that every Iceberg runtime has."""
_ERRORS = "org.apache.iceberg.exceptions."
_LOST = {f"{_ERRORS}CommitFailedException", f"{_ERRORS}ValidationException", f"{_ERRORS}AlreadyExistsException"}
_FAILED = f"{_ERRORS}CleanableFailure"
"""What Iceberg marks errors with after which a commit is known not to be in the table."""
_NO_TABLE = {f"{_ERRORS}NoSuchTableException", f"{_ERRORS}NotFoundException"}


class JvmTable:
    """A table in the JVM, or the location of a new one."""

    def __init__(self, spark: SparkSession, context: CommitContext) -> None:
        self.jvm: Any = spark._jvm
        self._spark = spark
        self._context = context
        self._table: Any = None

    @property
    def core(self) -> Any:
        """The package `org.apache.iceberg`."""
        return self.jvm.org.apache.iceberg

    @property
    def table(self) -> Any:
        """The `org.apache.iceberg.Table`; loaded once, `refresh` it to see what others did."""
        if self._table is None:
            with iceberg_errors(self._context.storage.location):
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
        return PathMap(str(self.table.location()), self._context.storage.location)

    def exists(self) -> bool:
        """Whether there is a table."""
        if self._context.catalog is not None:
            return JvmCatalog(self._spark, self._context.catalog).exists()
        return bool(self._hadoop().exists(self._location()))

    def create(self, schema: Any, spec: Any, properties: Mapping[str, str]) -> Any:
        """The transaction that makes the table."""
        if self._context.catalog is not None:
            return JvmCatalog(self._spark, self._context.catalog).stage(schema, spec, properties)
        location = self._location()
        return self._hadoop().newCreateTableTransaction(location, schema, spec, java_map(self.jvm, properties))

    def _load(self) -> Any:
        catalog = self._context.catalog
        if catalog is None:
            return self._hadoop().load(self._location())
        return JvmCatalog(self._spark, catalog).load()

    def _hadoop(self) -> Any:
        return self.core.hadoop.HadoopTables(self._configuration())

    def _location(self) -> str:
        storage = self._context.storage
        return storage.location if storage.is_local else spark_location(self._spark, storage.location)

    def _configuration(self) -> Any:
        context: Any = self._spark._jsc
        return context.hadoopConfiguration()

    def _require_at_home(self) -> None:
        """Refuse a table that was moved: Iceberg would write to the old location."""
        if self._context.catalog is not None and not self._context.catalog.has_location:
            return  # it is where its catalog has just placed it
        stated, here = str(self._table.location()), self._context.storage.location
        if PathMap(here, here).key(f"{stated}/a") != "a":
            self._table = None
            raise RefusedError(
                f"the metadata of the table says that its location is {stated}",
                where=here,
                remedy="open it there, or register it where it is with Iceberg",
            )


def open_jvm(context: CommitContext) -> JvmTable:
    """The table of a context in the JVM of the given session, of the running one, or of one that is started."""
    spark = context.spark if context.session is None else context.session(context.spark)
    if spark is None:
        raise RefusedError("Iceberg tables are changed through Spark", where=context.storage.location)
    require_iceberg(spark, where=context.storage.location)
    return JvmTable(spark, context)


def require_iceberg(spark: SparkSession, *, where: str) -> None:
    """Raise unless the session shows a JVM that has Iceberg's classes."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise RefusedError(
            "Iceberg tables are changed through the session's JVM, which Spark Connect does not expose",
            where=where,
            remedy="use a classic session, or none",
        )
    if not _has_class(jvm, PROBE):
        raise RefusedError(
            "the Spark session has no Iceberg on its class path",
            where=where,
            remedy=f"start it with the package {ICEBERG_PACKAGE} in spark.jars.packages, or stop it",
        )


def _has_class(jvm: Any, name: str) -> bool:
    """Whether py4j finds the class; it takes any other name for a package."""
    node = jvm
    for part in name.split("."):
        node = getattr(node, part)
    return type(node).__name__ == "JavaClass"


@contextlib.contextmanager
def iceberg_errors(where: str) -> Iterator[None]:
    """What Iceberg raises as errors of this package; a commit of unknown state is not reported as a failure."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as problem:  # what PySpark makes of some of Java's own, such as a bad argument
        text = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise GeolakeError(f"Iceberg refuses: {without_secrets(text)[:300]}", where=where) from _java_error(problem)
    except Py4JJavaError as problem:
        name, text = _cause(problem)
        if name in _LOST:
            raise ConflictError(
                f"the table changed in the meantime: {text}", where=where, remedy="plan again"
            ) from _java_error(problem)
        if name in _NO_TABLE:
            raise NotATableError(
                "Iceberg cannot load this as a file-system (Hadoop) table",
                where=where,
                remedy="if it is in a catalog, open it by its name: catalog.namespace.table",
            ) from _java_error(problem)
        raise GeolakeError(f"Iceberg refuses: {text}", where=where) from _java_error(problem)


@contextlib.contextmanager
def committing(where: str, sign: str) -> Iterator[None]:
    """From where a commit is sent until it is read back: other errors of Iceberg leave its state unknown.

    `sign` describes how to recognize the commit in the table.
    """
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except GeolakeError:
        raise
    except BaseException as problem:  # an interrupt, too, can come after the commit
        from_java = isinstance(problem, Py4JJavaError)
        name, text = _cause(problem) if from_java else ("", without_secrets(str(problem)) or type(problem).__name__)
        if from_java and (name in _LOST or _has_failed(problem)):
            raise
        raise OutcomeUnknownError(
            f"the commit may or may not be in the table: {text[:300]}",
            where=where,
            remedy=f"keep all files and apply the plan again, which is idempotent; the commit succeeded if {sign}",
        ) from _java_error(problem)


def _cause(problem: Any) -> tuple[str, str]:
    error = problem.java_exception
    name = str(error.getClass().getName())
    lines = (str(error.getMessage() or name)).splitlines() or [name]
    return name, without_secrets(lines[0])[:300]


def _java_error(problem: BaseException) -> Exception:
    """The error of the JVM with its stack; a server may have echoed a token in it."""
    return RuntimeError(without_secrets(str(problem)))


def _has_failed(problem: Any) -> bool:
    kind = problem.java_exception.getClass()
    while kind is not None:
        if any(str(interface.getName()) == _FAILED for interface in kind.getInterfaces()):
            return True
        kind = kind.getSuperclass()
    return False
