"""Reading and writing below a prefix of a bucket or a container, and reading from a web server, through obstore."""

from __future__ import annotations

import os.path
import re
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from geolake_nb.errors import (
    AlreadyThereError,
    MissingDependencyError,
    MissingFileError,
    NoAnswerError,
    OutcomeUnknownError,
    StorageError,
)
from geolake_nb.storage.location import PAGE, Entry
from geolake_nb.text.messages import SECRET_NAME, url_without_secrets, without_secrets

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from geolake_nb.storage.location import Location
    from geolake_nb.storage.writing import WriteStep

__all__ = ["ObjectPrefix", "requests_in_flight"]

_EXTRAS = {"abfss": "azure", "az": "azure", "gs": "gs", "http": "http", "https": "http", "s3": "s3"}
_VENDOR = re.compile(r"^(aws|azure|google)_")
_CLIENT_OPTIONS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
}
# Options of deltalake's writers in the same dictionary, which object stores do not know.
_WRITER_OPTIONS = re.compile(
    r"aws_s3_(locking_provider|allow_unsafe_rename|force_credential_load|pool_idle_timeout_seconds)"
    r"|allow_unsafe_rename|(delta_)?dynamo_?db\w*|(aws_)?(endpoint_url_dynamodb|\w*dynamodb\w*)|mount_\w+"
)
_STATUS = re.compile(r"status code: ([0-9]{3}) ?([A-Za-z ]*)")
# A request that timed out at the server may have been executed.
_MAY_HAVE_LANDED = {"408", "499"}
# Responses of a store that did not execute the request and expects a retry.
_TOO_BUSY = {"429", "503"}
_BUSY_TRIES = 7
_PIECE = 1 << 24
_PART = 1 << 22
_PARTS_AT_ONCE = 16
# In addition to options that are secret by name: these identify someone, or contain a password.
_PRIVATE = re.compile(r"account|proxy", re.IGNORECASE)

_slots: threading.BoundedSemaphore | None = None
_held = threading.local()


@contextmanager
def requests_in_flight(count: int) -> Iterator[None]:
    """Let at most so many requests to stores be under way at once, in this process, until the block ends."""
    global _slots  # noqa: PLW0603 - threads that a read starts have to see it, whoever started them
    before, _slots = _slots, threading.BoundedSemaphore(count)
    try:
        yield
    finally:
        _slots = before


@contextmanager
def _slot() -> Iterator[None]:
    slots = _slots
    if slots is None or getattr(_held, "slot", False):  # one request inside another needs no slot of its own
        yield
        return
    with slots:
        _held.slot = True
        try:
            yield
        finally:
            _held.slot = False


class ObjectPrefix:
    """A prefix and what is below it; `options` are those of object_store, as in deltalake."""

    def __init__(self, location: Location, url: str, options: Mapping[str, str]) -> None:
        self._location = location
        self._prefix = f"{location.path}/" if location.path else ""
        self._secrets = sorted(
            {
                str(value)
                for name, value in options.items()
                if (SECRET_NAME.search(name) or _PRIVATE.search(name)) and len(str(value)) > 3
            },
            key=len,
            reverse=True,
        )
        self._store = self._open(url, options)
        # No retries: a conditional request that is repeated after a lost response conflicts with its first attempt.
        # And a new connection: one that was idle for long may be closed, and would leave the outcome unknown.
        no_retries = {**options, "pool_max_idle_per_host": "0"}
        self._without_retries = cache(partial(self._open, url, no_retries, retry_config={"max_retries": 0}))

    def __repr__(self) -> str:
        return f"ObjectPrefix({self._location.text!r})"

    def read(self, key: str) -> bytes:
        """The whole file."""
        return bytes(self.view(key))

    def view(self, key: str, size: int | None = None) -> memoryview:
        """The whole file; a large one of a known size is fetched in parallel parts, which is faster."""
        import obstore

        data = None if size is None or size < 2 * _PART else self._in_parts(key, size)
        if data is not None:
            return memoryview(data)
        with self._errors(key):
            return memoryview(obstore.get(self._store, self._prefix + key).bytes())

    def _in_parts(self, key: str, size: int) -> bytes | None:
        """The file, `None` if it was replaced meanwhile, so that its parts may be of several files."""
        import obstore
        from obstore.exceptions import BaseError

        def fetch(start: int) -> tuple[str | None, int, Any]:
            wanted = start, min(start + _PART, size)
            answer = obstore.get(self._store, self._prefix + key, options={"range": wanted})
            return answer.meta["e_tag"], int(answer.meta["size"]), answer.bytes()

        starts = range(0, size, _PART)
        try:
            with ThreadPoolExecutor(min(_PARTS_AT_ONCE, len(starts))) as pool:
                parts = [*pool.map(fetch, starts)]
        except (BaseError, FileNotFoundError):
            return None  # reading the whole file raises the error
        tag = parts[0][0]
        is_one = tag is not None and all(part[:2] == (tag, size) for part in parts)
        return b"".join(data for _, _, data in parts) if is_one else None

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Part of the file, shorter at the end of the file."""
        import obstore
        from obstore.exceptions import BaseError

        if length <= 0:
            return b""
        with self._errors(key):
            try:
                return bytes(obstore.get_range(self._store, self._prefix + key, start=start, length=length))
            except BaseError as problem:
                if "416" in str(problem) and start >= self.size(key):
                    return b""
                raise

    def iter_chunks(self, key: str, length: int) -> Iterator[bytes]:
        """The beginning of the file in chunks."""
        for start in range(0, length, _PIECE):
            yield self.read_range(key, start, min(_PIECE, length - start))

    def tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes of the file, and its size."""
        import obstore
        from obstore.exceptions import NotSupportedError

        with self._errors(key):
            try:
                answer = obstore.get(self._store, self._prefix + key, options={"range": {"suffix": length}})
                return bytes(answer.bytes()), int(answer.meta["size"])
            except NotSupportedError:
                pass  # Azure has no suffix ranges
        size = self.size(key)
        return self.read_range(key, max(0, size - length), min(size, length)), size

    def size(self, key: str) -> int:
        """The bytes of the file."""
        import obstore

        with self._errors(key):
            return int(obstore.head(self._store, self._prefix + key)["size"])

    def list(self, prefix: str, recursive: bool, after: str = "") -> builtins.list[Entry]:
        """The files in the folder whose names come after `after`, unordered."""
        import obstore

        folder = (self._prefix + prefix).rstrip("/")
        with self._errors(prefix, listing=True):
            if recursive or after:
                offset = f"{folder}/{after}".lstrip("/") if after else None
                chunks = obstore.list(self._store, folder or None, offset=offset, chunk_size=PAGE)
                objects = [item for chunk in chunks for item in chunk]
            else:
                objects = list(obstore.list_with_delimiter(self._store, folder or None)["objects"])
        return self._entries(objects, folder, recursive=recursive)

    def list_first(self, prefix: str, recursive: bool) -> tuple[builtins.list[Entry], bool]:
        """The first page of the files in the folder, and whether that is all."""
        import obstore

        folder = (self._prefix + prefix).rstrip("/")
        with self._errors(prefix, listing=True):
            objects = next(iter(obstore.list(self._store, folder or None, chunk_size=PAGE)), [])
        return self._entries(objects, folder, recursive=recursive), len(objects) < PAGE

    def _entries(self, objects: Iterable[Any], folder: str, *, recursive: bool) -> builtins.list[Entry]:
        cut = len(self._prefix)
        # An object whose name is that of the folder marks an empty folder.
        return [
            Entry(item["path"][cut:], int(item["size"]), item["last_modified"])
            for item in objects
            if item["path"] != folder
            and item["path"].startswith(self._prefix)
            and (recursive or "/" not in item["path"][len(folder) :].lstrip("/"))
        ]

    def folders(self, prefix: str) -> builtins.list[str]:
        """The direct subfolders, unordered."""
        import obstore

        folder = (self._prefix + prefix).rstrip("/")
        with self._errors(prefix, listing=True):
            prefixes = obstore.list_with_delimiter(self._store, folder or None)["common_prefixes"]
        return [str(folder_).rstrip("/")[len(self._prefix) :] for folder_ in prefixes]

    def put_if_absent(self, key: str, data: bytes, on_step: Callable[[WriteStep], None] | None = None) -> None:
        """Write a file that must not exist, with a conditional request."""
        from obstore import exceptions as known

        self._require_writable(key)
        where = self._shown(key)
        with self._errors(key):
            try:
                _put_once(self._without_retries(), self._prefix + key, data)
            except (known.AlreadyExistsError, known.PreconditionError, FileExistsError):
                raise AlreadyThereError("the file already exists", where=where) from None
            except (known.NotSupportedError, NotImplementedError):
                raise StorageError("the store does not support conditional writes", where=where) from None
            except (
                known.InvalidPathError,
                known.NotFoundError,
                known.PermissionDeniedError,
                known.UnauthenticatedError,
                FileNotFoundError,
            ):
                raise
            except known.BaseError as problem:
                status = _STATUS.search(str(problem))
                if status and _is_refusal(status[1]):
                    raise
                raise OutcomeUnknownError(
                    f"the file may or may not have been written: {self._clean(problem)}",
                    where=where,
                    remedy="check the table again before you retry",
                ) from None

    @contextmanager
    def new_file(self, key: str) -> Iterator[str]:
        """A local file to write, which is uploaded after the block."""
        import obstore

        self._require_writable(key)
        with tempfile.TemporaryDirectory(prefix="geolake_nb-") as folder:
            local = Path(folder, os.path.basename(key))
            local.touch()
            yield str(local)
            with self._errors(key):
                obstore.put(self._store, self._prefix + key, local)

    def atomic_replace(self, key: str) -> AbstractContextManager[str]:
        """A local file to write, which is then uploaded: a store replaces files atomically."""
        return self.new_file(key)

    def link(self, key: str, other: str) -> None:
        """Copy the file within the store to a name that must not exist."""
        import obstore

        self._require_writable(other)
        with self._errors(key):
            if self._exists(other):
                raise AlreadyThereError("the file already exists", where=self._shown(other))
            obstore.copy(self._store, self._prefix + key, self._prefix + other)

    def rename(self, key: str, other: str) -> None:
        """Copy the file to the other name, then remove it; an existing file is replaced."""
        import obstore

        self._require_writable(other)
        with self._errors(key):
            obstore.copy(self._store, self._prefix + key, self._prefix + other)
        self.remove(key)

    def stat(self, key: str) -> Entry:
        """The size and the modification time of the file."""
        import obstore

        with self._errors(key):
            head = obstore.head(self._store, self._prefix + key)
            return Entry(key, int(head["size"]), head["last_modified"])

    def _exists(self, key: str) -> bool:
        try:
            self.size(key)
        except MissingFileError:
            return False
        return True

    def remove(self, key: str) -> None:
        """Remove a file if it exists."""
        import obstore

        self._require_writable(key)
        try:
            with self._errors(key):
                obstore.delete(self._store, self._prefix + key)
        except MissingFileError:
            return

    def _require_writable(self, key: str) -> None:
        if self._location.scheme in ("http", "https"):
            raise StorageError(
                "a web server is read-only",
                where=self._shown(key),
                remedy="copy the table to a disk or a bucket",
            )

    def _open(self, url: str, options: Mapping[str, str], **settings: Any) -> Any:
        location = self._location
        try:
            from obstore import store
            from obstore.exceptions import BaseError, UnknownConfigurationKeyError
        except ImportError:
            extra = _EXTRAS[location.scheme]
            raise MissingDependencyError(
                f"{location.scheme}: URLs need obstore, which is not installed",
                remedy=f"run pip install 'geolake-nb[{extra}]'",
            ) from None
        config: Any
        client: Any
        config, client = _split_options(options)
        try:
            if location.scheme in ("http", "https"):
                if location.scheme == "http":
                    client["allow_http"] = "true"
                return store.HTTPStore.from_url(_server(url), client_options=client or None)
            return store.from_url(
                f"{location.scheme}://{location.host}", config=config or None, client_options=client or None, **settings
            )
        except UnknownConfigurationKeyError as problem:
            name = re.search(r"'([^']{1,60})'", str(problem))
            raise StorageError(
                f"unknown storage option{f' {name[1]}' if name else ''}",
                where=url_without_secrets(location.text),
                remedy="use the names of object_store, such as aws_region",
            ) from None
        except (BaseError, ValueError, TypeError) as problem:
            raise StorageError(
                f"invalid storage options: {self._clean(problem)}", where=url_without_secrets(location.text)
            ) from None

    @contextmanager
    def _errors(self, key: str, *, listing: bool = False) -> Iterator[None]:
        from obstore import exceptions as known

        where = self._shown(key).rstrip("/")
        # The causes are dropped: messages of the library contain URLs, and these may contain signatures.
        try:
            with _slot():
                yield
        except (known.NotFoundError, FileNotFoundError):
            what = "there is no such bucket or folder" if listing else "there is no such file"
            raise MissingFileError(what, where=where) from None
        except (known.PermissionDeniedError, known.UnauthenticatedError):
            raise StorageError("access is denied", where=where, remedy="check storage_options") from None
        except (known.NotSupportedError, NotImplementedError):
            raise StorageError("the server does not serve parts of files", where=where) from None
        except known.BaseError as problem:
            status = _STATUS.search(str(problem))
            if listing and self._location.scheme in ("http", "https"):
                raise StorageError(
                    "the web server does not list folders", where=where, remedy="give the URL of a file"
                ) from None
            if status and status[1] == "404":
                raise MissingFileError("there is no such bucket or folder", where=where) from None
            if status:
                kind = StorageError if _is_refusal(status[1]) else NoAnswerError
                raise kind(f"the store responds with {status[1]} {status[2]}".rstrip(), where=where) from None
            raise NoAnswerError(f"the store does not respond: {self._clean(problem)}", where=where) from None
        except BaseException as problem:
            # How the library fails on an invalid option, such as an endpoint that is not a URL.
            if type(problem).__name__ != "PanicException":
                raise
            raise StorageError(f"invalid storage options: {self._clean(problem)}", where=where) from None

    def _shown(self, key: str) -> str:
        # A signature in the URL of an object is part of its key: only web servers have queries.
        return url_without_secrets(f"{self._location.text}/{key}")

    def _clean(self, problem: BaseException) -> str:
        """The first line of the message, without queries and without values of the options."""
        text = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        return without_secrets(text, self._secrets)[:300]


def _is_refusal(status: str) -> bool:
    """Whether a store with this status did not execute the request."""
    return status.startswith("4") and status not in _MAY_HAVE_LANDED


def _put_once(store: Any, key: str, data: bytes) -> None:
    """Request the write of a new file; retried only if the store reports that it is busy."""
    import obstore
    from obstore.exceptions import BaseError

    for again in range(_BUSY_TRIES):
        try:
            obstore.put(store, key, data, mode="create")
            return
        except BaseError as problem:
            status = _STATUS.search(str(problem))
            if status is None or status[1] not in _TOO_BUSY or again == _BUSY_TRIES - 1:
                raise
            time.sleep(0.1 * 2**again)


def _split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    config: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        plain = _VENDOR.sub("", lower)
        if _WRITER_OPTIONS.fullmatch(lower):
            continue
        if plain in _CLIENT_OPTIONS:
            client[plain] = str(value)
        else:
            config[lower] = str(value)
    return config, client


def _server(url: str) -> str:
    """The URL of a web server as given, password and signature included, without the path."""
    parts = urlsplit(url)
    return parts._replace(path="/", fragment="").geturl()
