"""Progress of the Spark jobs of some work, and their cancellation."""

from __future__ import annotations

import uuid
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from geolake_nb.text.messages import Progress

__all__ = ["run_with_progress"]

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
