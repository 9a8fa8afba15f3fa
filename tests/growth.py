"""How much longer work takes when there is more of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["growth"]


def growth(prepare: Callable[[int], Callable[[], Any]], small: int, large: int) -> float:
    """By how much the work on `large` takes longer than that on `small`, as `prepare` gives both to be run.

    The best of some runs by the clock of this process alone, in turns, so that what else the machine does hardly
    counts. Work that grows with the square of its size gives the square of `large / small`, less what every run takes.
    """
    works = [prepare(small), prepare(large)]
    for work in works:
        work()  # Imports and compiles what the others find done.
    least, most = (min(times) for times in zip(*([_seconds(work) for work in works] for _ in range(7)), strict=True))
    return most / least


def _seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
