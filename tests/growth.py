"""How much longer work takes when there is more of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["growth"]


def growth(prepare: Callable[[int], Callable[[], Any]], small: int, large: int) -> float:
    """By how much the work on `large` takes longer than that on `small`, as `prepare` gives both to be run.

    The best of some runs by the clock of this process alone, so that what else the machine does hardly counts. Work
    that grows with the square of its size gives the square of `large / small`, less what every run takes.
    """
    return _seconds(prepare(large)) / _seconds(prepare(small))


def _seconds(work: Callable[[], Any]) -> float:
    work()  # Imports and compiles what the others find done.
    took = []
    for _ in range(3):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)
