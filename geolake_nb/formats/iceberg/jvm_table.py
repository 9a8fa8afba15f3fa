"""Iceberg's Java classes in the JVM of a session: how a table is loaded for a commit, and what its errors mean."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError, GeolakeError, NotATableError, OutcomeUnknownError, RefusedError
from geolake_nb.formats.iceberg.jvm_catalog import JvmCatalog, java_map
from geolake_nb.formats.iceberg.location import PathMap
from geolake_nb.formats.iceberg.package import ICEBERG_PACKAGE
from geolake_nb.formats.spark_location import spark_location
from geolake_nb.text.messages import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.changes.commit import CommitContext

__all__ = ["JvmTable", "committing", "iceberg_errors", "open_jvm", "require_iceberg"]

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
