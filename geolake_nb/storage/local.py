"""Reads and writes below a local folder with plain system calls."""

from __future__ import annotations

import io
import os
import os.path
import stat
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from geolake_nb.errors import MissingFileError, StorageError
from geolake_nb.storage.location import PAGE, Entry
from geolake_nb.storage.writing import (
    link_if_absent,
    link_local_file,
    new_local_file,
    rename_local_file,
    replaced_local_file,
)
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from geolake_nb.storage.writing import WriteStep

__all__ = ["LocalFolder"]

_PIECE = 1 << 20


class LocalFolder:
    """A folder and what is below it; a symbolic link out of it is followed only into an allowed folder.

    Listings skip links to folders, which could form cycles.
    """

    def __init__(self, path: str, *, allowed: tuple[str, ...] = ()) -> None:
        self.path = path
        self._real = os.path.realpath(path)
        self._allowed = (self._real, *map(os.path.realpath, allowed))
        self._safe_parents: set[str] = set()

    def __repr__(self) -> str:
        return f"LocalFolder({self.path!r})"

    def real_key(self, path: str) -> str | None:
        """The key of an absolute path that is below the folder after links in both are resolved."""
        folder, name = os.path.split(path)
        real = os.path.join(os.path.realpath(folder), name)
        if not _is_below(real, self._real):
            return None
        return os.path.relpath(real, self._real).replace(os.sep, "/")

    def check(self, key: str) -> str:
        """The absolute path of the key, which must not leave the allowed folders through a link."""
        path = os.path.join(self.path, key) if key else self.path
        parent = os.path.dirname(path)
        if key and parent not in self._safe_parents:
            self._check_real(os.path.realpath(parent), key)
            self._safe_parents.add(parent)
        if key and os.path.islink(path):
            self._check_real(os.path.realpath(path), key)
        return path

    def read(self, key: str) -> bytes:
        """The whole file."""
        with self._errors(key), open(self.check(key), "rb", opener=_open_plain) as file:
            return file.read()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Part of the file, shorter at the end of the file."""
        with self._errors(key), self._open(key) as file:
            file.seek(start)
            return _read_all(file.fileno(), length)

    def iter_chunks(self, key: str, length: int) -> Iterator[memoryview]:
        """The beginning of the file in chunks, each in the buffer of the previous one, which stays in the CPU cache."""
        buffer = memoryview(bytearray(min(length, _PIECE)))
        with self._errors(key), self._open(key) as file:
            while length > 0:
                size = file.readinto(buffer[: min(length, _PIECE)])
                if not size:
                    return
                yield buffer[:size]
                length -= size

    def tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes of the file, and its size."""
        with self._errors(key), self._open(key) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - length))
            return _read_all(file.fileno(), min(size, length)), size

    def size(self, key: str) -> int:
        """The bytes of the file."""
        with self._errors(key):
            status = os.stat(self.check(key))
            _require_plain(status.st_mode)
            return status.st_size

    def is_file(self, key: str) -> bool:
        """Whether there is such a file."""
        return self._has(key, stat.S_ISREG)

    def is_folder(self, key: str) -> bool:
        """Whether there is such a folder."""
        return self._has(key, stat.S_ISDIR)

    def list(self, prefix: str, recursive: bool, after: str = "") -> builtins.list[Entry]:
        """The files in the folder whose names come after `after`, unordered."""
        return [*self._files(prefix, recursive, after)]

    def list_first(self, prefix: str, recursive: bool) -> tuple[builtins.list[Entry], bool]:
        """Some files in the folder, at most a page of a store, and whether they are all."""
        entries = [*islice(self._files(prefix, recursive), PAGE)]
        return entries, len(entries) < PAGE

    def _files(self, prefix: str, recursive: bool, after: str = "") -> Iterator[Entry]:
        waiting = [prefix]
        while waiting:
            folder = waiting.pop()
            for name, entry in self._scan(folder):
                if entry.name <= after:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if recursive:
                        waiting.append(name)
                    continue
                try:
                    status = entry.stat()
                except OSError:
                    continue  # a dangling link
                if entry.is_file():
                    yield Entry(name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def folders(self, prefix: str) -> builtins.list[str]:
        """The direct subfolders, unordered."""
        return [name for name, entry in self._scan(prefix) if entry.is_dir(follow_symlinks=False)]

    def put_if_absent(self, key: str, data: bytes, on_step: Callable[[WriteStep], None] | None = None) -> None:
        """Write a file that must not exist."""
        link_if_absent(self.check(key), data, on_step)

    def new_file(self, key: str) -> AbstractContextManager[str]:
        """A local path to write, which is the file itself."""
        return new_local_file(self.check(key))

    def atomic_replace(self, key: str) -> AbstractContextManager[str]:
        """A hidden file to write, which then replaces the file; a link stays a link."""
        return replaced_local_file(os.path.realpath(self.check(key)))

    def link(self, key: str, other: str) -> None:
        """Link the file to a second name, which must not exist."""
        link_local_file(self.check(key), self.check(other))

    def rename(self, key: str, other: str) -> None:
        """Rename the file; an existing file is replaced."""
        rename_local_file(self.check(key), self.check(other))

    def stat(self, key: str) -> Entry:
        """The size and the modification time of the file."""
        with self._errors(key):
            status = os.stat(self.check(key))
            return Entry(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def remove(self, key: str) -> None:
        """Remove a file if it exists."""
        try:
            os.unlink(self.check(key))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as problem:
            raise StorageError(
                f"it cannot be removed: {problem.strerror or problem}", where=os.path.join(self.path, key)
            ) from None

    def remove_empty_folders(self, key: str) -> None:
        """Remove a folder and its subfolders if they contain no files."""
        for folder, _, _ in os.walk(self.check(key), topdown=False):
            with suppress(OSError):
                os.rmdir(folder)

    def _open(self, key: str) -> io.FileIO:
        return io.FileIO(self.check(key), opener=_open_plain)

    def _has(self, key: str, kind: Callable[[int], bool]) -> bool:
        # Not os.path.isfile: it returns False for a file that the user may not access.
        with self._errors(key):
            try:
                return kind(os.stat(self.check(key)).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return False

    def _scan(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        with self._errors(folder):
            try:
                with os.scandir(self.check(folder)) as entries:
                    children = [(f"{folder}/{entry.name}" if folder else entry.name, entry) for entry in entries]
            except (FileNotFoundError, NotADirectoryError):
                return
        yield from children

    def _check_real(self, real: str, key: str) -> None:
        if not any(_is_below(real, folder) for folder in self._allowed):
            raise StorageError(f"the link {url_without_secrets(key)!r} is outside the table", where=self.path)

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except (StorageError, MissingFileError):
            raise
        except OSError as problem:
            where = url_without_secrets(os.path.join(self.path, key) if key else self.path)
            raise _reading_error(problem, where) from None


def _reading_error(problem: OSError, where: str) -> StorageError:
    match problem:
        case FileNotFoundError() | NotADirectoryError():
            return MissingFileError("there is no such file", where=where)
        case PermissionError():
            return StorageError("reading is not permitted", where=where, remedy="check its permissions")
        case IsADirectoryError():
            return StorageError("this is a folder, not a file", where=where)
        case _NotPlainError():
            return StorageError("this is a pipe, a socket or a device, not a file", where=where)
    return StorageError(f"it cannot be read: {problem.strerror or problem}", where=where)


class _NotPlainError(OSError):
    """Not a regular file."""


def _open_plain(path: str, flags: int) -> int:
    """Open a regular file: a pipe without a writer, which somebody may put in a table, does not block."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        _require_plain(os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_plain(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError
    if not stat.S_ISREG(mode):
        raise _NotPlainError


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _read_all(descriptor: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0:
        part = os.read(descriptor, length)
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
