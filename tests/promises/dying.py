"""A process that is killed at one write, link, rename or removal of a file, before it, after it or in its middle."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = ("fsync", "link", "open", "rename", "replace", "unlink")


def dies_at(work: Callable[[], object], point: int) -> bool:
    """Do the work in a process of its own that is killed at its nth point; False once there are not so many."""
    child = os.fork()
    if child == 0:
        # The session of the parent is not for two processes.
        sys.modules.pop("pyspark", None)
        _set_points(point)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "the work failed"
    return os.WIFSIGNALED(status)


def _set_points(point: int) -> None:
    passed = 0

    def pass_one(before: Callable[[], object] | None = None) -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            if before is not None:
                before()
            os.kill(os.getpid(), signal.SIGKILL)

    def with_points(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **options: Any) -> Any:
            if name == "open" and not words[1] & os.O_CREAT:
                return real(*words, **options)
            pass_one()
            if name == "fsync" and os.path.isfile(file := f"/proc/self/fd/{words[0]}"):
                pass_one(lambda: os.truncate(file, os.path.getsize(file) // 2))
            answer = real(*words, **options)
            pass_one()
            return answer

        return call

    for name in CALLS:
        setattr(os, name, with_points(name, getattr(os, name)))
