"""How a commit of a table in a bucket is written: through the log store of the session, or by the storage itself."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from geolake_nb.core.message_text import without_secrets
from geolake_nb.errors import AlreadyThereError, OutcomeUnknownError, RefusedError, StorageError
from geolake_nb.formats.delta.log_segment import LOG
from geolake_nb.formats.storage_place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from geolake_nb.formats.delta.commit import PutIfAbsent
    from geolake_nb.formats.storage import Storage

__all__ = ["require_exclusion", "session_put", "spark_location", "storage_put"]

# The stores of Delta that let one of several writers win, by the kind of place. S3SingleDriverLogStore is none: it
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
_SINGLE_WRITER = "pass single_writer=True if nobody else writes the table"


def session_put(spark: SparkSession, location: str, *, single_writer: bool = False) -> PutIfAbsent | None:
    """Writes through the log store that the session has for the place; `None` for a local path, which needs none.

    A store that does not exclude other writers is refused unless there is a `single_writer`.

    >>> session_put(None, "/data/t") is None
    True
    """
    place = Place.of(location)
    if place.scheme == "file":
        return None
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise RefusedError(
            "commits to a bucket go through the session's JVM, which a Spark Connect session does not show",
            where=place.text,
            remedy="use a classic session, or none",
        )
    root = spark_location(spark, location)
    store = _store(spark, f"{root}/{LOG}", place.text)
    name = _class_name(store)
    if name not in _EXCLUDING.get(place.scheme, ()) and not single_writer:
        remedy = _REMEDIES.get(place.scheme, _SINGLE_WRITER).format(scheme=root.partition(":")[0])
        raise RefusedError(
            f"the log store {name} does not keep two writers from overwriting each other",
            where=place.text,
            remedy=remedy,
        )
    return lambda path, data: _write(spark, store, f"{root}/{path}", data)


def require_exclusion(storage: Storage, *, single_writer: bool = False, folder: str = LOG) -> None:
    """Raise unless the store shows, in that folder, that it refuses to write a file that is there.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
    >>> require_exclusion(Storage.at(tempfile.mkdtemp()))
    """
    if not single_writer and not storage.is_local and not _refuses_second_write(storage, folder):
        raise RefusedError(
            "the store overwrites a file that should be new, so that two writers could lose a commit",
            where=storage.location,
            remedy=_SINGLE_WRITER,
        )


def storage_put(storage: Storage, *, single_writer: bool = False) -> PutIfAbsent:
    """Writes by a request that the store refuses where the file is there; a `single_writer` looks before it.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
    >>> storage_put(Storage.at(tempfile.mkdtemp()))("_delta_log/0.json", b"{}")
    """
    if storage.is_local or not single_writer:
        return storage.put_if_absent

    def look_and_write(path: str, data: bytes) -> None:
        if storage.exists(path):
            raise AlreadyThereError("the file is there already", where=f"{storage.location}/{path}")
        storage.put_if_absent(path, data)

    return look_and_write


def _refuses_second_write(storage: Storage, folder: str) -> bool:
    # Readers and cleaners leave alone what starts with a dot.
    path = f"{folder}/.{uuid.uuid4()}.probe"
    try:
        storage.put_if_absent(path, b"")
        storage.put_if_absent(path, b"")
    except AlreadyThereError:
        return True
    except OutcomeUnknownError as problem:
        # Of the file that was to try the store, not of the commit, which nobody has asked for yet.
        raise StorageError(
            f"the store was tried before the commit and did not answer; the table is as it was: {problem.what}",
            where=problem.where,
            remedy="apply the plan again when the store answers",
        ) from None
    finally:
        with suppress(StorageError):
            storage.remove(path)
    return False


def spark_location(spark: SparkSession, location: str) -> str:
    """The place as Spark names it.

    >>> spark_location(None, "/data/t"), spark_location(None, "s3://lake/t")
    ('/data/t', 's3a://lake/t')
    """
    place = Place.of(location)
    return place.text if place.scheme == "file" else f"{_scheme(spark, place)}://{place.host}/{place.path}".rstrip("/")


def _scheme(spark: SparkSession, place: Place) -> str:
    # Spark's own file system for S3 goes by s3a; only where another one is set up does s3 mean anything.
    if place.scheme != "s3" or getattr(spark, "_jvm", None) is None:
        return {"s3": "s3a"}.get(place.scheme, place.scheme)
    return "s3" if _hadoop(spark).get("fs.s3.impl") else "s3a"


def _hadoop(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()


def _store(spark: SparkSession, log: str, where: str) -> Any:
    """The log store for a path, as deep as it can be seen: that of Delta's public interface where there is one."""
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
            f"the log store of the session cannot be made: {_first_line(problem)}", where=where
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
        store.write(jvm.org.apache.hadoop.fs.Path(path), lines, False, _hadoop(spark))
    except Py4JJavaError as problem:
        if problem.java_exception.getClass().getName() in _EXISTS:
            raise AlreadyThereError("the file is there already", where=path) from None
        raise OutcomeUnknownError(
            f"the file may have been written or not: {_first_line(problem)}",
            where=path,
            remedy="look at the table again before anything is tried again",
        ) from None


def _class_name(thing: Any) -> str:
    return str(thing.getClass().getName())


def _first_line(problem: Any) -> str:
    text = str(problem.java_exception.toString()).strip()
    return without_secrets(text.splitlines()[0])[:300] if text else "it does not say why"
