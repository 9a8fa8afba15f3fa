"""Progress and the end of Spark jobs, in a real session."""

from __future__ import annotations

import time
from threading import Thread

import pytest

from geolake_nb.spark.jobs import run_with_progress

pytestmark = pytest.mark.spark


def slow(batches):
    for batch in batches:
        time.sleep(1)
        yield batch


def endless(batches):
    for batch in batches:
        time.sleep(600)
        yield batch


def job(spark, function, tasks=4):
    return spark.range(0, tasks, 1, tasks).mapInArrow(function, "id long").count


def active_jobs(spark):
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def test_tasks_are_counted_up_to_the_last(spark):
    collected = []
    assert run_with_progress(spark, job(spark, slow, tasks=6), lambda *counts: collected.append(counts)) == 6
    assert collected[-1][0] == collected[-1][1] >= 6
    assert any(0 < done < total for done, total in collected)
    assert [done for done, _ in collected] == sorted(done for done, _ in collected)


def test_nobody_has_to_listen(spark):
    assert run_with_progress(spark, lambda: "result") == "result"


def test_a_failure_of_the_work_comes_through(spark):
    def broken(batches):
        raise ValueError("no such luck")
        yield from batches

    with pytest.raises(Exception, match="no such luck"):
        run_with_progress(spark, job(spark, broken), lambda *_: None)
    with pytest.raises(KeyError, match="mine"):
        run_with_progress(spark, lambda: {}["mine"])


def test_an_interrupt_ends_the_jobs(spark):
    def interrupt(done, total):
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_with_progress(spark, job(spark, endless), interrupt)
    assert time.monotonic() - began < 60
    wait_for(lambda: not active_jobs(spark))


def test_jobs_of_others_go_on(spark):
    results = []
    other = Thread(target=lambda: results.append(spark.range(0, 1, 1, 1).mapInArrow(slow, "id long").count()))
    other.start()

    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        run_with_progress(spark, job(spark, endless, tasks=1), stop)
    other.join()
    assert results == [1]
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
