"""Whether a store keeps two writers apart, and writes that fail where a file exists."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from geolake_nb.errors import AlreadyThereError, OutcomeUnknownError, RefusedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.storage.storage import Storage

__all__ = ["SINGLE_WRITER", "require_exclusion", "storage_put"]

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
