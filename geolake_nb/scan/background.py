"""Batches that a thread of Python reads, for consumers with threads of their own.

DuckDB and SedonaDB ask for the next batch from threads that Python does not know, and end these at any time. What keeps
something for each thread, as PROJ does, crashes there.
"""

from __future__ import annotations

import threading
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["in_thread", "iter_in_thread"]

_Item = TypeVar("_Item")
_AHEAD = 2
_POLL = 0.1
"""Seconds between two looks at whether the consumer is still there."""


def in_thread(work: Callable[[], _Item]) -> _Item:
    """The result of the work, done in a thread of its own.

    >>> in_thread(lambda: 1 + 1)
    2
    """
    return next(iter_in_thread(lambda: iter([work()])))


def iter_in_thread(start: Callable[[], Iterator[_Item]]) -> Iterator[_Item]:
    """The items of an iterator that is made and advanced in a thread of its own, at most two ahead.

    >>> list(iter_in_thread(lambda: iter(range(3))))
    [0, 1, 2]
    """
    queue: Queue[tuple[_Item | None, BaseException | None]] = Queue(_AHEAD)
    stopped = threading.Event()

    def put(item: _Item | None, problem: BaseException | None = None) -> None:
        while not stopped.is_set():
            try:
                queue.put((item, problem), timeout=_POLL)
            except Full:
                continue
            return

    def run() -> None:
        try:
            for item in start():
                put(item)
                if stopped.is_set():
                    return
        except BaseException as problem:  # noqa: BLE001 - raised again by the consumer
            put(None, problem)
        else:
            put(None, StopIteration())

    thread = threading.Thread(target=run, name="geolake-scan-reader", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item, problem = queue.get(timeout=_POLL)
            except Empty:
                continue
            if isinstance(problem, StopIteration):
                return
            if problem is not None:
                raise problem
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()
