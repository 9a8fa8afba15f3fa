"""What Spark knows of collations: their names, the order of strings, and collated statistics of files."""

from __future__ import annotations

import difflib
import functools
import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CollationError, GeolakeError, JobError, RefusedError
from geolake_nb.formats.delta.add_action import StatsEdit, collated_add, lacks
from geolake_nb.formats.delta.collate import finish_collations, hints_action, with_versions
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.model.collation import Collation
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import is_geo_text
from geolake_nb.spark.jobs import cause, cores, run_with_progress
from geolake_nb.spark.session import running_session
from geolake_nb.text.json_text import member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from geolake_nb.formats.delta.add_action import Ranges
    from geolake_nb.formats.delta.collate import CollateJob
    from geolake_nb.model.change import Change
    from geolake_nb.model.collation_stats import CollationHints
    from geolake_nb.scan.value_scan import CollatedString
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.storage.storage import Storage

__all__ = [
    "SparkCollator",
    "check_schema",
    "collated_ranges",
    "collator_of",
    "known_collations",
    "run_collate",
    "spark_collations",
    "with_collated_stats",
]

_SHOWN = 5


def spark_collations(spark: SparkSession) -> dict[Collation, str]:
    """Every collation that Spark has, with the version by which it compares."""
    rows = spark.sql("SELECT NAME, ICU_VERSION FROM collations()").collect()
    # Spark's own collations fold case by the tables of ICU and go by its version, which the list leaves out.
    icu = next((row["ICU_VERSION"] for row in rows if row["ICU_VERSION"]), None)
    if icu is None:
        raise GeolakeError("Spark does not report its ICU version", remedy="use Spark 4.0 or later")
    return {Collation("icu" if row["ICU_VERSION"] else "spark", row["NAME"]): row["ICU_VERSION"] or icu for row in rows}


def known_collations(spark: SparkSession, wanted: Mapping[tuple[str, ...], Collation]) -> dict[Collation, str]:
    """Spark's version of each collation; one that Spark does not have, or calls by another name, is refused.

    `wanted` goes by the path of the string.
    """
    known = spark_collations(spark)
    for path, collation in wanted.items():
        if collation not in known:
            raise CollationError(
                f"Spark has no collation {collation}", where=join_path(path), remedy=_near(collation, known)
            )
    return {collation: known[collation] for collation in wanted.values()}


def check_schema(spark: SparkSession, schema: str, wanted: Mapping[tuple[str, ...], Collation]) -> None:
    """Raise unless Spark's parser reads the schema and finds these collations in it."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise RefusedError(
            "the schema is checked in the session's JVM, which Spark Connect does not expose",
            remedy="use a classic session",
        )
    from py4j.protocol import Py4JJavaError

    try:
        read = jvm.org.apache.spark.sql.types.DataType.fromJson(_without_geo(schema)).json()
    except Py4JJavaError as problem:
        text = str(problem.java_exception.toString()).splitlines()[0][:300]
        raise CollationError(f"Spark cannot read the schema with its collations: {text}") from None
    fields = dict(from_delta_schema(read).walk_parts())
    for path, collation in wanted.items():
        kept = getattr(fields[path].type, "collation", None)
        if kept != collation:
            raise CollationError(
                f"Spark reads the collation {collation} as {kept or 'none'}",
                where=join_path(path),
                remedy=None if kept is None else f"use {kept}",
            )


def _near(collation: Collation, known: Iterable[Collation]) -> str:
    """Suggestions: the same name in Spark's own spelling, else the names that are close to it."""
    names = {other.name.casefold(): other for other in known if not other.is_default}
    name = collation.name.casefold()
    parts = sorted(name.split("_"))
    same = [other for folded, other in names.items() if folded == name or sorted(folded.split("_")) == parts]
    close = [names[match] for match in difflib.get_close_matches(name, names, n=_SHOWN, cutoff=0.5)]
    shown = same or close
    if not shown:
        return "SELECT * FROM collations() lists Spark's names"
    return f"use one of: {', '.join(sorted(str(other) for other in shown))}"


def _without_geo(schema: str) -> str:
    """The schema with plain binary for geo types: Spark knows few of their CRSs, and they are not the question."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if not isinstance(value, dict):
            return "binary" if isinstance(value, str) and is_geo_text(value) else value
        types = ("type", "fields", "elementType", "keyType", "valueType")
        return {key: plain(item) if key in types else item for key, item in value.items()}

    return json.dumps(plain(json.loads(schema)), ensure_ascii=False)


class SparkCollator:
    """Compares by the collations that a session has; no query runs before a filter needs it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @functools.cached_property
    def _versions(self) -> dict[Collation, str]:
        return spark_collations(self._spark)

    def version_of(self, collation: Collation) -> str | None:
        """Spark's version of the collation, `None` for one that it does not have by exactly this name."""
        return self._versions.get(collation.unversioned())

    def ranks(self, texts: Mapping[Collation, pa.Array]) -> dict[Collation, pa.Array]:
        """The ranks of the texts in Spark's order, in one query; equal texts share a rank."""
        rows = [self._ranked(index, collation, texts[collation]) for index, collation in enumerate(texts)]
        ranked = functools.reduce(lambda left, other: left.unionAll(other), rows).toArrow()
        ranks: dict[Collation, pa.Array] = {}
        for index, collation in enumerate(texts):
            own = ranked.filter(pc.equal(ranked["query"], index)).sort_by("number")
            ranks[collation] = own["rank"].combine_chunks().cast(pa.int64())
        return ranks

    def _ranked(self, index: int, collation: Collation, texts: pa.Array) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        # The texts go as data: none of them becomes part of a query.
        numbered = pa.table({"number": pa.array(range(len(texts)), pa.int64()), "text": texts})
        data = self._spark.createDataFrame(numbered)
        order = Window.orderBy(F.collate(F.col("text"), collation.name))
        return data.select(F.lit(index).alias("query"), "number", F.dense_rank().over(order).alias("rank"))


def collator_of(spark: SparkSession | None) -> SparkCollator | None:
    """The collator of the session that is given, else of the one that runs in this process; none is started.

    >>> import sys
    >>> collator_of(None) is None or "pyspark" in sys.modules
    True
    """
    session = running_session(spark)
    return None if session is None else SparkCollator(session)


_TASKS_A_CORE = 4
_BATCH = 10_000


def run_collate(change: Change, job: CollateJob, context: JobContext) -> Change:
    """Check the schema with Spark, compute the statistics that files lack, and complete the change with them."""
    if job.collations:
        known_collations(context.spark, job.collations)
        check_schema(context.spark, job.schema, job.collations)
    versions = known_collations(context.spark, {column.path: column.collation for column in job.columns})
    job = with_versions(job, versions, where=change.location)
    need: set[str] = set()
    for batch in raw_adds(context.storage, job.segment, job.files).to_batches(_BATCH) if job.files else ():
        need |= {row["path"] for row in batch.to_pylist() if lacks(row["add"], job.edit)}
    ranges = collated_ranges(context, sorted(need), job.columns)
    return finish_collations(context.storage, change, job, ranges)


def with_collated_stats(
    context: JobContext, adds: Sequence[str], columns: Sequence[CollatedString], hints: CollationHints
) -> list[str]:
    """The `add` actions of new, uncommitted files, with statistics of these columns.

    A `domainMetadata` action comes first where the hints do not name Spark's version yet. A column whose collation
    Spark does not have gets none: rows can be added without.
    """
    known = spark_collations(context.spark) if columns and adds else {}
    columns = [column for column in columns if column.collation in known]
    if not columns:
        return list(adds)
    edit = StatsEdit(tuple(columns), tuple({column.collation: known[column.collation] for column in columns}.items()))
    objects = [member(action, ("add",)) or "{}" for action in adds]
    stored = [json.loads(object_) for object_ in objects]
    ranges = collated_ranges(context, [add["path"] for add in stored], columns)
    wanted = hints
    for column in columns:
        wanted = wanted.adding(edit.version_of(column.collation))
    actions = [] if wanted is hints else [hints_action(wanted)]
    for action, text, add in zip(adds, objects, stored, strict=True):
        made = collated_add(text, edit, ranges.get(add["path"], {}), data_change=bool(add["dataChange"]))
        actions.append(action if made is None else made)
    return actions


def collated_ranges(context: JobContext, paths: Sequence[str], columns: Sequence[CollatedString]) -> dict[str, Ranges]:
    """For each file, by its path as the log stores it, the least and the greatest string of each column.

    Whole strings, by Spark's own comparison: of several that are equal under the collation any one. A column
    without values, and a side that is not valid UTF-8, is left out.
    """
    if not paths or not columns:
        return {}
    rows = _ranges(_strings(context, paths, columns), columns)
    try:
        table = run_with_progress(context.spark, rows.toArrow, context.on_progress)
    except GeolakeError:
        raise
    except Exception as problem:  # whatever Spark or py4j raises
        raise JobError(
            f"the collated statistics could not be computed: {cause(problem)}",
            where=context.storage.location,
            remedy="no changes were made",
        ) from problem
    ranges: dict[str, Ranges] = {path: {} for path in paths}
    for row in table.to_pylist():
        for index, column in enumerate(columns):
            low, high = row[f"low{index}"], row[f"high{index}"]
            if low is not None or high is not None:
                ranges[paths[row["file"]]][column.path] = low, high
    return ranges


def _strings(context: JobContext, paths: Sequence[str], columns: Sequence[CollatedString]) -> DataFrame:
    """Each string of each file once or a few times: `file`, its index in the paths, and a column for each column."""
    tasks = min(len(paths), _TASKS_A_CORE * cores(context.spark))
    blobs = [
        pickle.dumps([(index, decoded_path(paths[index])) for index in range(task, len(paths), tasks)])
        for task in range(tasks)
    ]
    schema = ", ".join(["file int", *(f"c{index} string" for index in range(len(columns)))])
    reader = _reader(context.storage, tuple(columns), blobs)
    return context.spark.range(0, tasks, 1, tasks).mapInArrow(reader, schema)


def _reader(
    storage: Storage, columns: tuple[CollatedString, ...], blobs: list[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that executors run: the ids that it gets select which of the lists of files it reads."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from geolake_nb.parquet.footer import FooterReader
        from geolake_nb.scan.value_scan import distinct_strings

        reader = FooterReader()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files: list[tuple[int, str]] = pickle.loads(blobs[number])
                for file, key in files:
                    for index, values in distinct_strings(storage, key, columns, reader=reader):
                        others = pa.nulls(len(values), pa.string())
                        arrays = {
                            f"c{position}": values if position == index else others for position in range(len(columns))
                        }
                        yield pa.record_batch({"file": pa.repeat(pa.scalar(file, pa.int32()), len(values)), **arrays})

    return read


def _ranges(strings: DataFrame, columns: Sequence[CollatedString]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    sides = []
    for index, column in enumerate(columns):
        # The name is one of Spark's own list: a name of a table's text has been looked up there.
        text = F.collate(F.col(f"c{index}"), column.collation.name)
        for name, side in (("low", F.min(text)), ("high", F.max(text))):
            plain = F.collate(side, "UTF8_BINARY")
            sides.append(F.when(F.is_valid_utf8(plain), plain).alias(f"{name}{index}"))
    return strings.groupBy("file").agg(*sides)
