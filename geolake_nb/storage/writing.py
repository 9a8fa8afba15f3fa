"""Atomic writes on the local disk, and whether a store keeps two writers apart."""

from __future__ import annotations

import enum
import errno
import os
import os.path
import shutil
import stat
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from geolake_nb.errors import AlreadyThereError, MissingFileError, OutcomeUnknownError, RefusedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geolake_nb.storage.storage import Storage

__all__ = [
    "SINGLE_WRITER",
    "WriteStep",
    "link_if_absent",
    "link_local_file",
    "new_local_file",
    "rename_local_file",
    "replaced_local_file",
    "require_exclusion",
    "storage_put",
]

_NO_HARD_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV}


class WriteStep(enum.Enum):
    """The progress of the write of a new local file."""

    TEMP_WRITTEN = "temp written"
    """All bytes are on the disk, under a hidden name."""
    LINKED = "linked"
    """The file has its final name; the hidden one is not removed yet."""


def link_if_absent(path: str, data: bytes, on_step: Callable[[WriteStep], None] | None = None) -> None:
    """Write a file that must not exist; of several writers, in any process, one wins.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "0.json")
    >>> link_if_absent(path, b"first")
    >>> link_if_absent(path, b"second")
    Traceback (most recent call last):
    geolake_nb.errors.AlreadyThereError: ...: the file already exists
    """
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f".{name}.{uuid.uuid4()}.tmp")
    try:
        with _errors(path):
            os.makedirs(folder, exist_ok=True)
            _write(hidden, data)
        if on_step is not None:
            on_step(WriteStep.TEMP_WRITTEN)
        _link(hidden, path)
        if on_step is not None:
            on_step(WriteStep.LINKED)
    finally:
        with suppress(OSError):  # a leftover hidden file is harmless, and the final one may be in place
            os.unlink(hidden)
    try:
        _sync_folder(folder)
    except OSError as problem:
        raise OutcomeUnknownError(
            f"the file exists, but may not survive a power failure: {problem.strerror or problem}",
            where=path,
            remedy="check the table again before you retry",
        ) from None


@contextmanager
def new_local_file(path: str) -> Iterator[str]:
    """A new file to write: synced to the disk after the block, removed if the block fails.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "part/a.bin")
    >>> with new_local_file(path) as target, open(target, "wb") as file:
    ...     _ = file.write(b"abc")
    >>> os.path.getsize(path)
    3
    """
    # It has its final name from the start: what a killed process leaves is then an ordinary orphan file, and the
    # vacuum of the format removes it; hidden names are skipped by that.
    folder = os.path.dirname(path)
    with _errors(path):
        os.makedirs(folder, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield path
        with _errors(path):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            _sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


@contextmanager
def replaced_local_file(path: str) -> Iterator[str]:
    """A hidden file to write, which atomically replaces the file after the block.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.bin")
    >>> with new_local_file(path):
    ...     pass
    >>> with replaced_local_file(path) as target, open(target, "wb") as file:
    ...     _ = file.write(b"abc")
    >>> os.path.getsize(path), os.listdir(os.path.dirname(path))
    (3, ['a.bin'])
    """
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f".{name}.{uuid.uuid4()}.tmp")
    with _errors(path):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        yield hidden
        with _errors(path):
            with open(hidden, "rb") as file:
                os.fsync(file.fileno())
            os.chmod(hidden, mode)
            os.replace(hidden, path)
            _sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


def link_local_file(path: str, other: str) -> None:
    """Link a file to a second name, which must not exist unless it is the same file."""
    with _errors(other):
        os.makedirs(os.path.dirname(other), exist_ok=True)
        try:
            os.link(path, other)
        except OSError as problem:
            if _is_linked(path, other):
                return
            if problem.errno not in _NO_HARD_LINKS:
                raise
            _copy(path, other)
        _sync_folder(os.path.dirname(other))


def rename_local_file(path: str, other: str) -> None:
    """Rename a file; an existing file is replaced atomically."""
    with _errors(other):
        os.makedirs(os.path.dirname(other), exist_ok=True)
        os.replace(path, other)
        _sync_folder(os.path.dirname(other))
        _sync_folder(os.path.dirname(path))


def _copy(path: str, other: str) -> None:
    """For file systems without hard links: an atomic copy."""
    if os.path.exists(other):
        raise FileExistsError(other)
    folder, name = os.path.split(other)
    hidden = os.path.join(folder, f".{name}.{uuid.uuid4()}.tmp")
    try:
        shutil.copy2(path, hidden)
        with open(hidden, "rb") as file:
            os.fsync(file.fileno())
        os.rename(hidden, other)
    finally:
        with suppress(OSError):
            os.unlink(hidden)


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) or 0 :]
        os.fsync(descriptor)


def _link(hidden: str, path: str) -> None:
    try:
        os.link(hidden, path)
    except OSError as problem:
        # A network file system can lose the response and then refuse its own retry.
        if _is_linked(hidden, path):
            return
        if problem.errno == errno.EEXIST:
            raise AlreadyThereError("the file already exists", where=path) from None
        if problem.errno in _NO_HARD_LINKS:
            raise StorageError(
                "the file system has no hard links, and without them two writers can overwrite each other",
                where=path,
                remedy="keep the table on a file system that has them",
            ) from None
        raise StorageError(f"it cannot be written: {problem.strerror or problem}", where=path) from None


def _is_linked(hidden: str, path: str) -> bool:
    try:
        return os.path.samefile(hidden, path)
    except OSError:
        return False


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise AlreadyThereError("the file already exists", where=path) from None
    except FileNotFoundError:
        raise MissingFileError("there is no such file", where=path) from None
    except PermissionError:
        raise StorageError("writing is not permitted", where=path, remedy="check its permissions") from None
    except OSError as problem:
        raise StorageError(f"it cannot be written: {problem.strerror or problem}", where=path) from None


SINGLE_WRITER = "pass single_writer=True if nobody else writes the table"


def require_exclusion(storage: Storage, *, single_writer: bool = False, folder: str) -> None:
    """Raise unless the store refuses, in that folder, to overwrite an existing file.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> require_exclusion(Storage.at(tempfile.mkdtemp()), folder="_delta_log")
    """
    if not single_writer and not storage.is_local and not _refuses_second_write(storage, folder):
        raise RefusedError(
            "the store overwrites existing files, so concurrent writers could lose a commit",
            where=storage.location,
            remedy=SINGLE_WRITER,
        )


def storage_put(storage: Storage, *, single_writer: bool = False) -> Callable[[str, bytes], None]:
    """Writes by a request that the store refuses if the file exists; a `single_writer` checks first.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> storage_put(Storage.at(tempfile.mkdtemp()))("_delta_log/0.json", b"{}")
    """
    if storage.is_local or not single_writer:
        return storage.put_if_absent

    def look_and_write(path: str, data: bytes) -> None:
        if storage.exists(path):
            raise AlreadyThereError("the file already exists", where=f"{storage.location}/{path}")
        storage.put_if_absent(path, data)

    return look_and_write


def _refuses_second_write(storage: Storage, folder: str) -> bool:
    # Readers and cleaners leave alone what starts with a dot.
    path = f"{folder}/.{uuid.uuid4()}.probe"
    try:
        storage.put_if_absent(path, b"")
        storage.put_if_absent(path, b"")
    except AlreadyThereError:
        return True
    except OutcomeUnknownError as problem:
        # The error is about the probe file: no commit was attempted yet.
        raise StorageError(
            f"the store did not answer before the commit; no changes were made: {problem.what}",
            where=problem.where,
            remedy="apply the plan again when the store answers",
        ) from None
    finally:
        with suppress(StorageError):
            storage.remove(path)
    return False
