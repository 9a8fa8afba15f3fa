"""How a job of Spark runs: its tasks, their rows and reports, its progress, and the cause of a failure."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from geolake_nb.text.messages import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType as SparkStruct

    from geolake_nb.text.messages import Progress

    Batches = Iterator[pa.RecordBatch]

__all__ = ["RowStream", "cause", "cores", "keyed_accumulator", "map_in_arrow", "run_with_progress"]


def cores(spark: SparkSession) -> int:
    """The cores of the session; eight for a Spark Connect server, which does not report them."""
    remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return 8 if remote else int(spark.sparkContext.defaultParallelism)


_OURS = re.compile(r"geolake_nb\.errors\.\w+: (.+)")
_RAISED = re.compile(
    r"(?:Caused by: |: )?((?:[A-Za-z_$][\w$]*\.)*)([A-Za-z_$][\w$]*(?:Error|Exception|Interrupt)(?:: .+)?)"
)
_TRACEBACK = "Traceback (most recent call last):"
_MAX_LENGTH = 300
_MAX_OUR_LENGTH = 2000


def cause(problem: BaseException) -> str:
    """The deepest cause in one line: the error of our own task, else the last error that Java or Python names.

    >>> cause(ValueError("An exception was thrown from the Python worker:\\nTraceback ...\\nKeyError: 'a'"))
    "KeyError: 'a'"
    >>> java = ": a.b.SparkException: aborted\\n\\tat a.b\\nCaused by: java.io.IOException: no disk\\n\\tat c.d"
    >>> cause(ValueError(f"An error occurred while calling o7.load.\\n{java}"))
    'IOException: no disk'
    >>> cause(ValueError())
    'ValueError'
    """
    text = without_secrets(str(problem))
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1])[:_MAX_OUR_LENGTH]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [match.group(2) for line in lines if (match := _RAISED.fullmatch(line)) and not line.endswith(_TRACEBACK)]
    return ((raised[-1:] or lines[:1] or [type(problem).__name__])[0])[:_MAX_LENGTH]


_Result = TypeVar("_Result")
_POLL_SECONDS = 0.1


def run_with_progress(spark: SparkSession, work: Callable[[], _Result], on_progress: Progress | None = None) -> _Result:
    """What `work` returns; meanwhile `on_progress(done, total)` gets the tasks of its jobs.

    The work runs in a thread of its own and under a job group of its own. An interrupt, or a failure of
    `on_progress`, cancels its jobs, waits for its end and is raised to the caller; so is a failure of the work.
    """
    from pyspark import InheritableThread

    jobs = _jobs(spark, f"geolake_nb-{uuid.uuid4()}")
    results: list[_Result] = []
    failures: list[BaseException] = []
    done = Event()

    def run() -> None:
        try:
            jobs.mark()
            results.append(work())
        except BaseException as problem:  # noqa: BLE001 - it is raised in the thread that waits
            failures.append(problem)
        finally:
            done.set()

    thread = InheritableThread(target=run, session=spark, daemon=True)
    thread.start()
    try:
        while not done.wait(_POLL_SECONDS):
            if on_progress is not None:
                jobs.report(on_progress)
        if not failures and on_progress is not None:
            jobs.report(on_progress, ended=True)
    except BaseException:
        jobs.cancel(done)
        raise
    finally:
        thread.join()
    if failures:
        jobs.cancel(done)
        raise failures[0]
    return results[0]


class _Jobs(Protocol):
    """The jobs of one piece of work."""

    def mark(self) -> None:
        """Called in the thread of the work: jobs that it starts from now on are tracked."""

    def report(self, on_progress: Progress, *, ended: bool = False) -> None:
        """Report their progress."""

    def cancel(self, done: Event) -> None:
        """End those that run, until the work is done."""


def _jobs(spark: SparkSession, name: str) -> _Jobs:
    remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return _TaggedJobs(spark, name) if remote else _GroupedJobs(spark, name)


class _GroupedJobs:
    """The jobs of a session in this process, by their group."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._name = name
        self._stages: dict[int, tuple[int, int]] = {}
        self._ended: set[int] = set()

    def mark(self) -> None:
        self._context.setJobGroup(self._name, "geolake_nb", interruptOnCancel=True)

    def report(self, on_progress: Progress, *, ended: bool = False) -> None:
        for job in self._tracker.getJobIdsForGroup(self._name):
            if job not in self._ended:
                self._look(job)
        done = sum(count for count, _ in self._stages.values())
        total = sum(count for _, count in self._stages.values())
        if total:
            # Stages whose results already exist are never run.
            on_progress(total if ended else done, total)

    def _look(self, job: int) -> None:
        info = self._tracker.getJobInfo(job)
        if info is None:
            return
        for stage in info.stageIds:
            known = self._tracker.getStageInfo(stage)
            if known is not None:
                self._stages[stage] = known.numCompletedTasks, known.numTasks
        if info.status != "RUNNING":
            self._ended.add(job)

    def cancel(self, done: Event) -> None:
        self._context.cancelJobGroup(self._name)
        # A job that was on its way when the others were cancelled comes later.
        while not done.wait(_POLL_SECONDS):
            self._context.cancelJobGroup(self._name)


class _TaggedJobs:
    """The jobs of a session on a Spark Connect server, which are cancelled by their tag and not counted."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name

    def mark(self) -> None:
        self._spark.addTag(self._name)

    def report(self, on_progress: Progress, *, ended: bool = False) -> None:
        """Nothing is known."""

    def cancel(self, done: Event) -> None:
        self._spark.interruptTag(self._name)
        while not done.wait(_POLL_SECONDS):
            self._spark.interruptTag(self._name)


def keyed_accumulator(spark: SparkSession) -> Accumulator[dict[int, Any]] | None:
    """An accumulator to which tasks add dicts; `None` where the driver is another process than this one."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    from pyspark.accumulators import AccumulatorParam

    class ByKey(AccumulatorParam[dict[int, Any]]):
        def zero(self, value: dict[int, Any]) -> dict[int, Any]:
            return {}

        def addInPlace(self, value1: dict[int, Any], value2: dict[int, Any]) -> dict[int, Any]:  # noqa: N802
            value1.update(value2)
            return value1

    return spark.sparkContext.accumulator({}, ByKey())


def map_in_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: SparkStruct | str) -> DataFrame:
    """`frame.mapInArrow`, which takes a dot in the name of a column for a path, with names that may have dots."""
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def renamed(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*[f"c{index}" for index in range(len(names))]).mapInArrow(renamed, schema)


@dataclass(frozen=True, slots=True, eq=False)
class RowStream:
    """A DataFrame, and what makes the rows of what it holds, if it does not hold the rows themselves."""

    source: DataFrame
    read: Callable[[Batches], Batches] | None = None
    """Makes rows of the batches of `source`, which then are the numbers of parts to read."""
    columns: SparkStruct | None = None
    """What `read` makes."""

    @property
    def frame(self) -> DataFrame:
        """The rows as Spark's own."""
        if self.read is None or self.columns is None:
            return self.source
        return map_in_arrow(self.source, self.read, self.columns)

    def coalesced(self, tasks: int) -> RowStream:
        """The same rows in at most so many tasks."""
        return RowStream(self.source.coalesce(tasks), self.read, self.columns)

    def extended(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], columns: SparkStruct) -> RowStream:
        """The rows that tasks read, as a function makes them, with these columns."""
        read = self.read
        if read is None:
            raise ValueError("the rows are read by Spark")
        return RowStream(self.source, lambda batches: map(function, read(batches)), columns)

    def through(self, function: Callable[[Batches], Batches], schema: str, names: Sequence[str]) -> DataFrame:
        """What a function makes of these columns of the rows; rows that tasks read do not pass through the JVM."""
        read = self.read
        if read is None:
            frame = self.source.select(*[f"`{name.replace('`', '``')}`" for name in names])
            return map_in_arrow(frame, function, schema)
        return self.source.mapInArrow(
            lambda batches: function(batch.select(list(names)) for batch in read(batches)), schema
        )
