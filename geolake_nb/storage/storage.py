"""All file I/O: one way to read and write below a root, on the local disk, in a bucket or on a web server."""

from __future__ import annotations

import functools
import os.path
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from geolake_nb.errors import MissingFileError, StorageError
from geolake_nb.storage.local import LocalFolder
from geolake_nb.storage.location import Backend, Entry, Location, clean_key, is_url, split_last
from geolake_nb.storage.object_store import ObjectPrefix
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from geolake_nb.storage.writing import WriteStep

__all__ = ["Entry", "Storage", "pending"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Reading a local file is faster than waking a thread: several files per task, and few threads, if any.
_LOCAL_BATCH = 4
_LOCAL_TURN = 64
_SLOW = 0.0005
"""Seconds per item above which several are processed in parallel."""
_LOCAL_WORKERS = 8


class Storage:
    """Access to a root and what is below it.

    Paths are relative to the root and use `/`. Absolute paths and URLs are accepted if they are below the
    root or one of the `allowed_roots`; nothing else is ever opened. Only the root itself is writable.

    >>> import tempfile, pathlib
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "a.txt").write_bytes(b"abc")
    >>> storage = Storage.at(folder)
    >>> storage.read("a.txt"), storage.read_range("a.txt", 1, 1), storage.exists("b.txt"), storage.list("none")
    (b'abc', b'b', False, [])
    """

    def __init__(
        self,
        location: Location,
        backend: Backend,
        others: tuple[Storage, ...] = (),
        secrets: tuple[str, Mapping[str, str]] = ("", {}),
    ) -> None:
        self._location = location
        self._backend = backend
        self._others = others
        self._secrets = secrets

    @classmethod
    def at(
        cls, location: str, *, options: Mapping[str, str] | None = None, allowed_roots: Iterable[str] = ()
    ) -> Storage:
        """The storage of a local path or a file:, s3:, gs:, abfss:, az: or http(s): URL.

        `options` have the names of object_store, as in deltalake: `aws_access_key_id`, `AWS_REGION`, ...
        `allowed_roots` are other locations that the table may refer to, such as the source of a shallow clone.
        """
        location = os.fspath(location)
        root_location = Location.of(location)
        settings = dict(options or {})
        others = tuple(cls.at(root, options=settings) for root in allowed_roots)
        backend: Backend
        if root_location.scheme == "file":
            local = tuple(other._location.path for other in others if other._location.scheme == "file")
            backend = LocalFolder(root_location.path, allowed=local)
            location = root_location.path  # absolute: other processes may have other working directories
        else:
            backend = ObjectPrefix(root_location, location, settings)
        return cls(root_location, backend, others, (location, settings))

    @classmethod
    def with_file(cls, location: str, *, options: Mapping[str, str] | None = None) -> tuple[Storage, str]:
        """The storage of the parent folder of a location, and its name there; a URL keeps its signature.

        >>> Storage.with_file("/data/t/a.parquet")
        (Storage.at('/data/t'), 'a.parquet')
        """
        folder, name = split_last(os.fspath(location))
        return cls.at(folder, options=options), name

    def allowing(self, *roots: str) -> Storage:
        """The same storage with more allowed roots."""
        location, options = self._secrets
        known = [other._secrets[0] for other in self._others]
        return Storage.at(location, options=options, allowed_roots=[*known, *roots])

    def __reduce__(self) -> tuple[Any, ...]:
        """A storage is pickled as its arguments, including secrets."""
        location, options = self._secrets
        return _reopen, (location, options, [other._secrets[0] for other in self._others])

    @property
    def location(self) -> str:
        """The root: an absolute path or a URL, without a slash at its end and without secrets."""
        return self._location.text

    @property
    def parent(self) -> Storage | None:
        """The parent folder of the root, `None` at the top of a disk or a store; links are followed.

        >>> Storage.at("/").parent is None
        True
        """
        location, options = self._secrets
        if not location:  # the catalog has not assigned a location yet
            return None
        folder, name = split_last(os.path.realpath(self.location) if self.is_local else location)
        return Storage.at(folder, options=options) if name else None

    @property
    def is_local(self) -> bool:
        """Whether the root is on the local disk."""
        return self._location.scheme == "file"

    def __repr__(self) -> str:
        return f"Storage.at({self.location!r})"

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        backend, key = self._route(path)
        return backend.read(key)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Part of a file, shorter at the end of the file."""
        backend, key = self._route(path)
        return backend.read_range(key, start, length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]], *, workers: int = 16) -> builtins.list[bytes]:
        """Parts of a file by start and length, from a store at the same time.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a.bin", b"abcdef")
        >>> storage.read_ranges("a.bin", [(0, 2), (4, 1)])
        [b'ab', b'e']
        """
        if self.is_local:
            return [self.read_range(path, *some) for some in ranges]
        return list(self.in_parallel(lambda some: self.read_range(path, *some), ranges, workers))

    def iter_chunks(self, path: str, length: int) -> Iterator[bytes | memoryview]:
        """The beginning of a file in chunks, each valid until the next is requested.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a.bin", b"abc")
        >>> [bytes(piece) for piece in storage.iter_chunks("a.bin", 2)]
        [b'ab']
        """
        backend, key = self._route(path)
        return backend.iter_chunks(key, length)

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The file for Arrow's readers: on the local disk only the requested parts are read.

        `size` is from a listing: a large file of a store is then fetched faster.
        """
        backend, key = self._route(path)
        if isinstance(backend, LocalFolder):
            backend.size(key)  # for its errors
            return pa.OSFile(backend.check(key))
        return pa.BufferReader(backend.view(key, size) if isinstance(backend, ObjectPrefix) else backend.read(key))

    def open_many(
        self, paths: Sequence[str], sizes: Sequence[int | None] | None = None, *, workers: int = 16
    ) -> Iterator[pa.NativeFile]:
        """The files as from `open`, in order; from a store they are fetched in full and in parallel."""
        known_sizes = sizes if sizes is not None else [None] * len(paths)
        return self.in_parallel(lambda item: self.open(*item), [*zip(paths, known_sizes, strict=True)], workers)

    def read_many(self, paths: Sequence[str], *, workers: int = 64, missing_ok: bool = False) -> Iterator[bytes | None]:
        """The bytes of many files, in order and in parallel; with `missing_ok`, `None` for a missing one."""

        def read(path: str) -> bytes | None:
            try:
                return self.read(path)
            except MissingFileError:
                if missing_ok:
                    return None
                raise

        return self.in_parallel(read, paths, workers)

    def size(self, path: str) -> int:
        """The bytes of a file."""
        backend, key = self._route(path)
        return backend.size(key)

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        backend, key = self._route(path)
        if isinstance(backend, LocalFolder):
            return backend.is_file(key)
        try:
            backend.size(key)
        except MissingFileError:
            return False
        return True

    def exist(self, paths: Sequence[str], *, workers: int = 64) -> Iterator[bool]:
        """Whether there are such files, in order and in parallel."""
        return self.in_parallel(self.exists, paths, workers)

    def is_folder(self, path: str = "") -> bool:
        """Whether there is such a folder; in a bucket, whether any file is below it."""
        backend, key = self._route(path)
        if isinstance(backend, LocalFolder):
            return backend.is_folder(key)
        return bool(backend.list_first(key, recursive=True)[0])

    def list(self, prefix: str = "", *, recursive: bool = False, after: str = "") -> builtins.list[Entry]:
        """The files of a folder, sorted by path; none for a missing folder.

        With `after`, the name of a file or a prefix of one, only those whose names come later: a store does not
        list the others.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> for name in ("a", "b"):
        ...     storage.put_if_absent(name, b"")
        >>> [entry.path for entry in storage.list(after="a")]
        ['b']
        """
        storage, folder = self._find(prefix)
        entries = sorted(storage._backend.list(folder, recursive, after))
        return (
            [entry._replace(path=self._name(storage, entry.path)) for entry in entries] if storage != self else entries
        )

    def list_first(self, prefix: str = "", *, recursive: bool = False) -> tuple[builtins.list[Entry], bool]:
        """The first page of the files of a folder below the root, and whether that is all."""
        return self._backend.list_first(clean_key(prefix, where=self.location), recursive)

    def prefetch(self, work: Callable[[], _Result]) -> Callable[[], _Result]:
        """A function that returns the result of the work, or raises its error.

        A store is slow: the work starts now, and the call waits for it. On a local disk the first call runs it.
        """
        if self.is_local:
            return functools.cache(work)
        pool = ThreadPoolExecutor(1)
        future = pool.submit(work)
        pool.shutdown(wait=False)
        return future.result

    def folders(self, prefix: str = "") -> builtins.list[str]:
        """The paths of the direct subfolders of a folder, sorted; none for a missing folder."""
        storage, folder = self._find(prefix)
        return sorted(self._name(storage, name) for name in storage._backend.folders(folder))

    def resolve(self, path: str) -> str:
        """A path as stored in a table, as a path for `read`; one outside the table is refused.

        A path below an allowed root stays absolute. The caller decodes percent escapes.

        >>> storage = Storage.at("/data/t")
        >>> storage.resolve("file:///data/t/a"), storage.resolve("./b")
        ('a', 'b')
        >>> storage.resolve("/etc/passwd")
        Traceback (most recent call last):
        geolake_nb.errors.StorageError: /data/t: the path '/etc/passwd' is outside the table; ...
        """
        storage, key = self._find(path)
        if isinstance(storage._backend, LocalFolder):
            storage._backend.check(key)
        return self._name(storage, key)

    def put_if_absent(self, path: str, data: bytes, *, on_step: Callable[[WriteStep], None] | None = None) -> None:
        """Write a file that must not exist; of several writers one wins, the others get AlreadyThereError.

        The write is atomic; where only the store knows whether it succeeded, OutcomeUnknownError
        is raised. Folders are created as needed. `on_step` is called only on the local disk.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("_delta_log/0.json", b"{}")
        >>> storage.put_if_absent("_delta_log/0.json", b"{}")
        Traceback (most recent call last):
        geolake_nb.errors.AlreadyThereError: ...: the file already exists
        """
        self._backend.put_if_absent(self._own(path), data, on_step)

    def new_file(self, path: str) -> AbstractContextManager[str]:
        """A local path to write in the block; after it the file is complete, or removed if the block fails.

        On the local disk the path is that of the file itself, which must not exist.

        >>> import tempfile, pathlib
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> with storage.new_file("day=1/a.bin") as path:
        ...     _ = pathlib.Path(path).write_bytes(b"abc")
        >>> storage.read("day=1/a.bin")
        b'abc'
        """
        return self._backend.new_file(self._own(path))

    def atomic_replace(self, path: str) -> AbstractContextManager[str]:
        """A local path to write in the block, which then replaces the file: readers see the old or the new one.

        >>> import tempfile, pathlib
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a.bin", b"abc")
        >>> with storage.atomic_replace("a.bin") as path:
        ...     _ = pathlib.Path(path).write_bytes(storage.read("a.bin") + b"d")
        >>> storage.read("a.bin")
        b'abcd'
        """
        return self._backend.atomic_replace(self._own(path))

    def link(self, path: str, other: str) -> None:
        """Link a file to a second name, which must not exist; a copy where there are no links.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a", b"abc")
        >>> storage.link("a", "old/a")
        >>> storage.read("old/a")
        b'abc'
        """
        self._backend.link(self._own(path), self._own(other))

    def rename(self, path: str, other: str) -> None:
        """Rename a file; an existing file is replaced."""
        self._backend.rename(self._own(path), self._own(other))

    def stat(self, path: str) -> Entry:
        """The size and the modification time of a file."""
        backend, key = self._route(path)
        return backend.stat(key)

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""
        self._backend.remove(self._own(path))

    def remove_folder(self, path: str) -> None:
        """Remove a folder of this package with its content if it exists.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a/b/c", b"")
        >>> storage.remove_folder("a")
        >>> storage.is_folder("a"), storage.remove_folder("a")
        (False, None)
        """
        key = self._own(path)
        for entry in self.list(key, recursive=True):
            self.remove(entry.path)
        if isinstance(self._backend, LocalFolder):
            self._backend.remove_empty_folders(key)

    def full_path(self, path: str) -> str:
        """The path as messages name it."""
        return url_without_secrets(path if is_url(path) or path.startswith("/") else f"{self.location}/{path}")

    def _find(self, path: str) -> tuple[Storage, str]:
        """The storage that contains the path, and its key there."""
        absolute = is_url(path) or os.path.isabs(path)
        if not absolute:
            return self, clean_key(path, where=self.location)
        target = Location.of(path) if is_url(path) or self.is_local else None
        for storage in (self, *self._others):
            if target is None:
                break
            key = storage._location.key_of(target)
            if key is None and isinstance(storage._backend, LocalFolder) and target.scheme == "file":
                key = storage._backend.real_key(target.path)
            if key is not None:
                return storage, key
        shown = path if target is None else target.text
        raise StorageError(
            f"the path {url_without_secrets(shown)!r} is outside the table",
            where=self.location,
            remedy="if the table is a clone that may read there, open it with --allow-root ROOT, in Python "
            "gl.open(..., allowed_roots=[ROOT])",
        )

    def _route(self, path: str) -> tuple[Backend, str]:
        storage, key = self._find(path)
        return storage._backend, key

    def _own(self, path: str) -> str:
        storage, key = self._find(path)
        if storage is not self or not key:
            raise StorageError(
                f"the path {url_without_secrets(path)!r} is not below the table and is not written",
                where=self.location,
            )
        return key

    def _name(self, storage: Storage, key: str) -> str:
        return key if storage is self else f"{storage.location}/{key}"

    def tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last bytes of a file, and its size."""
        backend, key = self._route(path)
        return backend.tail(key, length)

    def in_parallel(self, work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
        """What the work gives for each item, in order; a store is asked by many workers at once."""
        if len(items) <= 1:
            yield from map(work, items)
            return
        if self.is_local:
            yield from _in_turns(work, items, min(workers, _LOCAL_WORKERS))
            return
        yield from _in_order(lambda some: [work(item) for item in some], ([item] for item in items), workers)


def _reopen(location: str, options: Mapping[str, str], allowed_roots: builtins.list[str]) -> Storage:
    return Storage.at(location, options=options, allowed_roots=allowed_roots)


def _in_turns(work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
    """The results in order, by one thread or by several, whichever was faster in the last batch.

    Because of the GIL, threads help only where the disk, not the work, takes the time.
    """
    slow = False
    for start in range(0, len(items), _LOCAL_TURN):
        turn = items[start : start + _LOCAL_TURN]
        began = time.perf_counter()
        if slow:
            batches = (turn[i : i + _LOCAL_BATCH] for i in range(0, len(turn), _LOCAL_BATCH))
            results = [*_in_order(lambda some: [work(item) for item in some], batches, workers)]
        else:
            results = [work(item) for item in turn]
        slow = (time.perf_counter() - began) / len(turn) > _SLOW
        yield from results


def _in_order(
    work: Callable[[Sequence[_Item]], builtins.list[_Result]], batches: Iterator[Sequence[_Item]], workers: int
) -> Iterator[_Result]:
    """The results in order; at most two tasks per worker are ahead of the consumer, so memory stays bounded."""
    pool = ThreadPoolExecutor(max(1, workers))
    ahead: deque[Future[builtins.list[_Result]]] = deque()
    try:
        ahead.extend(pool.submit(work, batch) for batch in islice(batches, 2 * workers))
        while ahead:
            yield from ahead.popleft().result()
            ahead.extend(pool.submit(work, batch) for batch in islice(batches, 1))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def pending(name: str) -> Storage:
    """A storage with the name of the table; its catalog assigns the location when the table is created.

    >>> pending("rest.ns.roads"), pending("rest.ns.roads").list("metadata")
    (Storage.at('rest.ns.roads'), [])
    >>> pending("rest.ns.roads").read("metadata/v1.metadata.json")
    Traceback (most recent call last):
    geolake_nb.errors.StorageError: rest.ns.roads: the catalog has not assigned a location to the table yet
    """
    return Storage(Location("catalog", "", name), _Pending(name))


class _Pending:
    """A backend without a location."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise StorageError("the catalog has not assigned a location to the table yet", where=self._name)

    def list(self, _prefix: str, _recursive: bool, _after: str = "") -> builtins.list[Entry]:
        return []

    def list_first(self, _prefix: str, _recursive: bool) -> tuple[builtins.list[Entry], bool]:
        return [], True

    def folders(self, _prefix: str) -> builtins.list[str]:
        return []

    link = new_file = iter_chunks = put_if_absent = read = read_range = remove = _refuse
    rename = atomic_replace = size = stat = tail = _refuse
