"""The names of data files that jobs write."""

from __future__ import annotations

import re
import uuid

__all__ = ["is_job_file", "job_file_name"]

_NAME = re.compile(r"part-\d{5,}-.+-\d+-[0-9a-f]{8}-c\d{3,}\.\w+\.parquet")


def job_file_name(transaction: str, *, task: int, attempt: int) -> str:
    """The prefix of the file names of one task attempt.

    The attempt distinguishes the runs of a task, the last part those of a plan that is applied twice.

    >>> job_file_name("txn", task=3, attempt=7)
    'part-00003-txn-7-...'
    """
    return f"part-{task:05}-{transaction}-{attempt}-{uuid.uuid4().hex[:8]}"


def is_job_file(name: str) -> bool:
    """Whether a file has such a name, which no other writer uses.

    >>> is_job_file(f"{job_file_name('txn', task=3, attempt=7)}-c000.zstd.parquet")
    True
    >>> is_job_file("part-00000-5b3f2e1c-0000-4a54-9e6b-7ee9adf96721-c000.snappy.parquet")
    False
    """
    return _NAME.fullmatch(name) is not None
