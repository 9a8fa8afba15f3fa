"""What keeps writers of a Delta table apart: checks for conflicts, and the log store of a Spark session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import AlreadyThereError, OutcomeUnknownError, RefusedError, StorageError
from geolake_nb.formats.delta.log_actions import decoded_paths, file_actions, scan_commit
from geolake_nb.formats.delta.log_segment import LOG
from geolake_nb.formats.spark_location import hadoop_configuration, spark_location
from geolake_nb.storage.location import Location, is_url
from geolake_nb.storage.writing import SINGLE_WRITER
from geolake_nb.text.messages import without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.formats.delta.commit import PutIfAbsent
    from geolake_nb.storage.storage import Storage

__all__ = ["Touched", "conflict", "session_put"]

_KNOWN = {"add", "cdc", "commitInfo", "domainMetadata", "metaData", "protocol", "remove", "txn"}


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """What the actions of a commit touch."""

    paths: pa.Array
    """The decoded paths of all files that are added or removed."""
    adds: bool
    """Whether a file is added."""
    metadata: Mapping[str, Any] | None
    """The newest `metaData` action."""
    protocol: bool
    domains: frozenset[str]
    applications: frozenset[str]
    """The applications of `txn` actions."""
    unknown: frozenset[str]
    """Actions that this package does not know."""
    info: Mapping[str, Any]
    """The `commitInfo`, empty where there is none."""

    @classmethod
    def by(cls, storage: Storage, path: str, data: bytes) -> Touched:
        """What the JSON actions of a commit touch; `path` names them in errors.

        >>> from geolake_nb.storage.storage import Storage
        >>> storage = Storage.at("/data/t")
        >>> touched = Touched.by(storage, "0.json", b'{"add":{"path":"a%20b"}}\\n{"txn":{"appId":"etl","version":3}}')
        >>> touched.paths.to_pylist(), sorted(touched.applications), Touched.by(storage, "1.json", b"").adds
        (['a b'], ['etl'], False)
        """
        commit = scan_commit(path, data)
        files = file_actions([commit], [])
        metadata: Mapping[str, Any] | None = None
        info: Mapping[str, Any] = {}
        kinds: set[str] = set()
        domains: set[str] = set()
        applications: set[str] = set()
        for action in commit.actions:
            for kind, value in action.items():
                kinds.add(kind)
                fields = value if isinstance(value, dict) else {}
                if kind == "metaData":
                    metadata = fields
                elif kind == "commitInfo":
                    info = info or fields
                elif kind == "domainMetadata":
                    domains.add(str(fields.get("domain")))
                elif kind == "txn":
                    applications.add(str(fields.get("appId")))
        return cls(
            paths=_normal_paths(storage, files["path"]),
            adds=bool(pc.any(files["added"]).as_py()),
            metadata=metadata,
            protocol="protocol" in kinds,
            domains=frozenset(domains),
            applications=frozenset(applications),
            unknown=frozenset(kinds - _KNOWN),
            info=info,
        )


def conflict(ours: Touched, theirs: Touched, *, tolerates_appends: bool) -> str | None:
    """What in another commit conflicts with ours, `None` if ours is still valid after it.

    >>> from geolake_nb.storage.storage import Storage
    >>> storage = Storage.at("/data/t")
    >>> ours, append, delete = (
    ...     Touched.by(storage, "x", text)
    ...     for text in (b'{"add":{"path":"a"}}', b'{"add":{"path":"b"}}', b'{"remove":{"path":"a"}}')
    ... )
    >>> conflict(ours, append, tolerates_appends=True) is None
    True
    >>> conflict(ours, append, tolerates_appends=False), conflict(ours, delete, tolerates_appends=True)
    ('added files', "removed or replaced the file 'a'")
    """
    if theirs.unknown:
        return f"contains an unknown action: {', '.join(sorted(theirs.unknown))[:80]}"
    if theirs.protocol:
        return "changed the protocol"
    if theirs.metadata is not None:
        return "changed the schema or the properties"
    if len(ours.paths) and len(theirs.paths):
        both = theirs.paths.filter(pc.is_in(theirs.paths, value_set=ours.paths))
        if len(both):
            count = len(both.unique())
            more = f" and {count - 1} more" if count > 1 else ""
            return f"removed or replaced the file {both[0].as_py()!r}{more}"
    if theirs.adds and not tolerates_appends:
        return "added files"
    if domains := ours.domains & theirs.domains:
        return f"changed the metadata domain {min(domains)!r}"
    if applications := ours.applications & theirs.applications:
        return f"updated the transaction of the application {min(applications)!r}"
    return None


def _normal_paths(storage: Storage, stored: pa.ChunkedArray) -> pa.Array:
    """The paths in normal form, so that one file does not count as two."""
    paths = decoded_paths(stored)
    absolute = pc.or_(pc.starts_with(paths, "/"), pc.match_substring(paths, ":/"))
    if not pc.any(absolute).as_py():
        return paths
    return pa.array([_normal_path(storage, path) for path in paths.to_pylist()], pa.string())


def _normal_path(storage: Storage, path: str) -> str:
    if not (path.startswith("/") or is_url(path)):
        return path
    try:
        return storage.resolve(path)
    except StorageError:
        return path  # at a location that this storage cannot access; only the same spelling matches it


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
