"""Commits to a Delta table in a bucket, written through the log store of the Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.errors import AlreadyThereError, OutcomeUnknownError, RefusedError, StorageError
from geolake_nb.formats.delta.log_segment import LOG
from geolake_nb.formats.spark_location import hadoop_configuration, spark_location
from geolake_nb.storage.exclusion import SINGLE_WRITER
from geolake_nb.storage.location import Location
from geolake_nb.text.messages import without_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from geolake_nb.formats.delta.commit import PutIfAbsent

__all__ = ["session_put"]

# The log stores of Delta with an atomic put, by scheme. S3SingleDriverLogStore is none: it
# looks and then writes. HDFSLogStore renames, which is safe on HDFS and not in a bucket.
_EXCLUDING = {
    "abfss": {"io.delta.storage.AzureLogStore", "org.apache.spark.sql.delta.storage.AzureLogStore"},
    "az": {"io.delta.storage.AzureLogStore", "org.apache.spark.sql.delta.storage.AzureLogStore"},
    "gs": {"io.delta.storage.GCSLogStore"},
    "s3": {"io.delta.storage.S3DynamoDBLogStore"},
}
_EXISTS = {"java.nio.file.FileAlreadyExistsException", "org.apache.hadoop.fs.FileAlreadyExistsException"}
_REMEDIES = {
    "s3": "configure spark.delta.logStore.{scheme}.impl=io.delta.storage.S3DynamoDBLogStore, or pass"
    " single_writer=True if nobody else writes the table",
}


def session_put(spark: SparkSession, location: str, *, single_writer: bool = False) -> PutIfAbsent | None:
    """Writes through the log store that the session has for the location; `None` for a local path, which needs none.

    A store without an atomic put is refused unless there is a `single_writer`.

    >>> session_put(None, "/data/t") is None
    True
    """
    parsed = Location.of(location)
    if parsed.scheme == "file":
        return None
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise RefusedError(
            "commits to a bucket go through the session's JVM, which Spark Connect does not expose",
            where=parsed.text,
            remedy="use a classic session, or none",
        )
    root = spark_location(spark, location)
    store = _store(spark, f"{root}/{LOG}", parsed.text)
    name = _class_name(store)
    if name not in _EXCLUDING.get(parsed.scheme, ()) and not single_writer:
        remedy = _REMEDIES.get(parsed.scheme, SINGLE_WRITER).format(scheme=root.partition(":")[0])
        raise RefusedError(
            f"the log store {name} does not prevent concurrent writers from overwriting each other",
            where=parsed.text,
            remedy=remedy,
        )
    return lambda path, data: _write(spark, store, f"{root}/{path}", data)


def _store(spark: SparkSession, log: str, where: str) -> Any:
    """The log store for a path, unwrapped: that of Delta's public interface where there is one."""
    from py4j.protocol import Py4JError, Py4JJavaError

    jvm: Any = spark._jvm
    try:
        stores = getattr(jvm.org.apache.spark.sql.delta.storage, "LogStore$")
        store = getattr(stores, "MODULE$").createLogStore(spark._jsparkSession)
        if _class_name(store).endswith(".DelegatingLogStore"):
            store = store.getDelegate(jvm.org.apache.hadoop.fs.Path(log))
        return store.logStoreImpl() if _class_name(store).endswith(".LogStoreAdaptor") else store
    except Py4JJavaError as problem:
        raise StorageError(
            f"the log store of the session cannot be created: {_first_line(problem)}", where=where
        ) from None
    except (Py4JError, TypeError):
        raise StorageError(
            "the session does not have Delta", where=where, remedy="start it with the jars of delta-spark"
        ) from None


def _write(spark: SparkSession, store: Any, path: str, data: bytes) -> None:
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    # The store ends each text with a newline. One text for all lines: each call to the JVM costs as much as many lines.
    lines: Any = jvm.java.util.Collections.singletonList(data.decode().removesuffix("\n")).iterator()
    if not _class_name(store).startswith("io.delta.storage."):
        lines = jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines)
    try:
        store.write(jvm.org.apache.hadoop.fs.Path(path), lines, False, hadoop_configuration(spark))
    except Py4JJavaError as problem:
        if problem.java_exception.getClass().getName() in _EXISTS:
            raise AlreadyThereError("the file already exists", where=path) from None
        raise OutcomeUnknownError(
            f"the state of the file is unknown: {_first_line(problem)}",
            where=path,
            remedy="check the table again before you retry",
        ) from None


def _class_name(java_object: Any) -> str:
    return str(java_object.getClass().getName())


def _first_line(problem: Any) -> str:
    text = str(problem.java_exception.toString()).strip()
    return without_secrets(text.splitlines()[0])[:300] if text else "no reason given"
