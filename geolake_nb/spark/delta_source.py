"""The rows of some files of a Delta table, by Delta's own reader, with shapes as plain bytes.

Delta reads files by a snapshot, which defines the columns. This one is in no log: nothing is written
for it, and it has only the metadata that reading the files needs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from geolake_nb.errors import RefusedError
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.plain_actions import plain_add, plain_metadata, plain_protocol
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.formats.spark_location import spark_location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from geolake_nb.changes.write_job import DeltaRows
    from geolake_nb.spark.applying import JobContext

__all__ = ["delta_frame"]

_ACTIONS = "org.apache.spark.sql.delta.actions."


@contextlib.contextmanager
def delta_frame(context: JobContext, rows: DeltaRows) -> Iterator[DataFrame]:
    """The rows, as long as the block lasts."""
    from pyspark.sql import DataFrame

    spark, snapshot = context.spark, rows.snapshot
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise RefusedError(
            "files of a Delta table are read through the session's JVM, which Spark Connect does not expose",
            where=snapshot.location,
            remedy="use a classic session, or none",
        )
    session: Any = spark._jsparkSession
    delta = jvm.org.apache.spark.sql.delta
    none = jvm.scala.Option.empty()
    root = spark_location(spark, context.storage.location)
    # A location in the same store without a table: no log is read, and none is written.
    path = jvm.org.apache.hadoop.fs.Path(f"{root}/_geolake-{context.transaction}")
    log = delta.DeltaLog.forTable(session, path)
    try:
        metadata = _parsed(jvm, plain_metadata(snapshot), "Metadata")
        protocol = _parsed(jvm, plain_protocol(), "Protocol")
        known = delta.DummySnapshot(log.logPath(), log, metadata, none, jvm.scala.Option.apply(protocol))
        base = f"file://{quote(root)}" if context.storage.is_local else root
        files = _parsed(jvm, f"[{','.join(_adds(context, rows, base))}]", "AddFile", many=True)
        chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(files).toSeq()
        yield DataFrame(log.createDataFrame(known, chosen, False, none), spark)
    finally:
        delta.DeltaLog.invalidateCache(session, path)


def _parsed(jvm: Any, text: str, name: str, *, many: bool = False) -> Any:
    """What Delta makes of the JSON inside an action; many of them in one call, for each takes a millisecond."""
    load = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass
    mapper = jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper()
    kind = load(_ACTIONS + name)
    if many:
        kind = mapper.getTypeFactory().constructCollectionType(load("java.util.ArrayList"), kind)
    return mapper.readValue(text, kind)


def _adds(context: JobContext, rows: DeltaRows, root: str) -> Iterator[str]:
    storage, snapshot = context.storage, rows.snapshot
    stored = raw_adds(storage, snapshot.details.segment, None if rows.files is None else rows.paths)
    for path, add in zip(stored["path"].to_pylist(), stored["add"].to_pylist(), strict=True):
        storage.resolve(decoded_path(path))  # a log may name any location: only those below the table are read
        yield plain_add(add, root=root, where=snapshot.location)
