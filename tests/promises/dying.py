"""A process that is killed at one point of its work: where it opens, writes, links, renames or removes a file.

The points of a call lie before it; what a kill after it leaves is what the next point finds. A write has three: nothing
is written yet, half of it is, and all is. They are where the file is synced, since that is when all of it is known.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import sys
import threading
import types
import unittest.mock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Work = Callable[[Path], object]

# A process with threads, such as that of the tests, must not be forked: the child would wait for their locks.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.promises.killed_tables"])
# Python names every call that changes a folder before it is made.
_CHANGES = {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}
_WRITES = os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_WRONLY


def points_of(work: Work, folder: Path) -> list[str]:
    """Do the work in a process of its own that is not killed; the points that it passed, by name."""
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    child = _started(_count, work, folder, sender)
    sender.close()
    points: list[str] = receiver.recv()
    child.join(60)
    assert child.exitcode == 0, "the work failed"
    return points


def die_at(work: Work, folder: Path, point: int) -> None:
    """Do the work in a process of its own that is killed at its nth point, the first being 1."""
    child = _started(_die, work, folder, point)
    child.join(60)
    assert child.exitcode == -signal.SIGKILL, f"it was not killed at point {point}: {child.exitcode}"


def _started(target: Callable[..., None], *words: object) -> Any:
    child = _CONTEXT.Process(target=target, args=words)
    # IPython, where a test has used it, leaves a main module of which multiprocessing cannot tell where it is from.
    with unittest.mock.patch.dict(sys.modules, {"__main__": types.ModuleType("__main__")}):
        child.start()
    return child


def _count(work: Work, folder: Path, sender: Any) -> None:
    points = _Points(folder, None)
    work(folder)
    sender.send(points.passed)


def _die(work: Work, folder: Path, point: int) -> None:
    _Points(folder, point)
    work(folder)


class _Points:
    """The points of this process, from now on, for what is below the folder."""

    def __init__(self, folder: Path, fatal: int | None) -> None:
        self.passed: list[str] = []
        self._folder = os.path.realpath(folder)
        self._fatal = fatal
        self._lock = threading.RLock()
        self._sync = os.fsync
        sys.addaudithook(self._hear)
        os.fsync = self._fsync

    def _hear(self, event: str, words: tuple[Any, ...]) -> None:
        if event not in _CHANGES or not isinstance(words[0], str) or not self._is_below(words[0]):
            return
        if event == "open":
            empty = os.path.exists(words[0]) and os.path.getsize(words[0]) == 0
            if empty or not isinstance(words[2], int) or not words[2] & _WRITES:
                return
        if event != "os.mkdir" or not os.path.exists(words[0]):
            self._pass(f"{event} {os.path.basename(words[0])}")

    def _fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if self._is_below(path) and stat.S_ISREG(os.fstat(descriptor).st_mode):
            for part in (0, os.path.getsize(path) // 2):
                self._pass(f"write {part} of {os.path.basename(path)}", tear=(path, part))
        if self._is_below(path):
            self._pass(f"sync {os.path.basename(path)}")
        self._sync(descriptor)

    def _is_below(self, path: str) -> bool:
        return os.path.realpath(path).startswith(self._folder)

    def _pass(self, name: str, tear: tuple[str, int] | None = None) -> None:
        with self._lock:
            self.passed.append(name)
            if len(self.passed) == self._fatal:
                if tear is not None:
                    os.truncate(*tear)
                os.kill(os.getpid(), signal.SIGKILL)
