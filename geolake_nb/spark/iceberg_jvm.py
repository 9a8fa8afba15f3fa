"""Iceberg's Java classes in the JVM of a session: how a table is loaded for a commit, and what its errors mean."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from geolake_nb.core.message_text import without_secrets
from geolake_nb.errors import ConflictError, GeolakeError, NotATableError, OutcomeUnknownError, RefusedError
from geolake_nb.formats.iceberg.location import PathMap
from geolake_nb.spark.iceberg_catalog import JvmCatalog, java_map
from geolake_nb.spark.jars import ICEBERG_PACKAGE
from geolake_nb.spark.log_store import spark_location
from geolake_nb.spark.session import session_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.spark.applying import Place

__all__ = ["JvmTable", "committing", "iceberg_errors", "open_jvm", "require_iceberg"]

PROBE = "org.apache.iceberg.CatalogUtil"
"""A class that is there wherever Iceberg is."""
_ERRORS = "org.apache.iceberg.exceptions."
_LOST = {f"{_ERRORS}CommitFailedException", f"{_ERRORS}ValidationException", f"{_ERRORS}AlreadyExistsException"}
_FAILED = f"{_ERRORS}CleanableFailure"
"""What Iceberg marks errors with after which a commit is known not to be in the table."""
_NO_TABLE = {f"{_ERRORS}NoSuchTableException", f"{_ERRORS}NotFoundException"}


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
            return JvmCatalog(self._spark, self._place.catalog).exists()
        return bool(self._hadoop().exists(self._location()))

    def create(self, schema: Any, spec: Any, properties: Mapping[str, str]) -> Any:
        """The transaction that makes the table."""
        if self._place.catalog is not None:
            return JvmCatalog(self._spark, self._place.catalog).stage(schema, spec, properties)
        location = self._location()
        return self._hadoop().newCreateTableTransaction(location, schema, spec, java_map(self.jvm, properties))

    def _load(self) -> Any:
        catalog = self._place.catalog
        if catalog is None:
            return self._hadoop().load(self._location())
        return JvmCatalog(self._spark, catalog).load()

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
        if self._place.catalog is not None and not self._place.catalog.is_placed:
            return  # it is where its catalog has just placed it
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
    require_iceberg(spark, where=place.storage.location)
    return JvmTable(spark, place)


def require_iceberg(spark: SparkSession, *, where: str) -> None:
    """Raise unless the session shows a JVM that has Iceberg's classes."""
    jvm = getattr(spark, "_jvm", None)
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
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as problem:  # what PySpark makes of some of Java's own, such as a bad argument
        text = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise GeolakeError(f"Iceberg refuses: {without_secrets(text)[:300]}", where=where) from _told(problem)
    except Py4JJavaError as problem:
        name, text = _cause(problem)
        if name in _LOST:
            raise ConflictError(
                f"the table changed in the meantime: {text}", where=where, remedy="plan again"
            ) from _told(problem)
        if name in _NO_TABLE:
            raise NotATableError(
                "Iceberg finds no table that is committed by its files alone",
                where=where,
                remedy="if a catalog keeps it, open it by its name there: catalog.namespace.table",
            ) from _told(problem)
        raise GeolakeError(f"Iceberg refuses: {text}", where=where) from _told(problem)


@contextlib.contextmanager
def committing(where: str, sign: str) -> Iterator[None]:
    """From where a commit is sent until it is read back: what Iceberg does not call a failure leaves it open.

    `sign` tells by what the commit is known to be in the table.
    """
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except GeolakeError:
        raise
    except BaseException as problem:  # an interrupt, too, can come after the commit
        told = isinstance(problem, Py4JJavaError)
        name, text = _cause(problem) if told else ("", without_secrets(str(problem)) or type(problem).__name__)
        if told and (name in _LOST or _has_failed(problem)):
            raise
        raise OutcomeUnknownError(
            f"the commit may be in the table or not: {text[:300]}",
            where=where,
            remedy=f"keep all files and apply the plan again, which does nothing twice, or look: it is in if {sign}",
        ) from _told(problem)


def _cause(problem: Any) -> tuple[str, str]:
    error = problem.java_exception
    name = str(error.getClass().getName())
    lines = (str(error.getMessage() or name)).splitlines() or [name]
    return name, without_secrets(lines[0])[:300]


def _told(problem: BaseException) -> Exception:
    """What the JVM said, its stack included; a server may have said back a token in it."""
    return RuntimeError(without_secrets(str(problem)))


def _has_failed(problem: Any) -> bool:
    kind = problem.java_exception.getClass()
    while kind is not None:
        if any(str(one.getName()) == _FAILED for one in kind.getInterfaces()):
            return True
        kind = kind.getSuperclass()
    return False
