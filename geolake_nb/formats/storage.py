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

from geolake_nb.core.message_text import url_without_secrets
from geolake_nb.errors import MissingFileError, StorageError
from geolake_nb.formats.parquet.footer import FIRST_READ, footer_bytes, parse_footer
from geolake_nb.formats.storage_local import LocalFolder
from geolake_nb.formats.storage_objects import ObjectPrefix
from geolake_nb.formats.storage_place import Backend, Entry, Place, clean_key, is_url, split_last

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    import pyarrow.parquet as pq

    from geolake_nb.formats.storage_writing import WriteStep

__all__ = ["Entry", "Storage"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Local files are read faster than a thread is woken: some to each task, and few threads, if any.
_LOCAL_BATCH = 4
_LOCAL_TURN = 64
_SLOW = 0.0005
"""Seconds an item, from which on several are worked on at a time."""
_LOCAL_WORKERS = 8


class Storage:
    """Access to a root and what is below it.

    Paths are relative to the root and use `/`. Absolute paths and URLs are taken too where they are below the
    root or below one of the `allowed_roots`; nothing else is ever opened. Only below the root itself is written.

    >>> import tempfile, pathlib
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "a.txt").write_bytes(b"abc")
    >>> storage = Storage.at(folder)
    >>> storage.read("a.txt"), storage.read_range("a.txt", 1, 1), storage.exists("b.txt"), storage.list("none")
    (b'abc', b'b', False, [])
    """

    def __init__(
        self,
        place: Place,
        backend: Backend,
        others: tuple[Storage, ...] = (),
        secrets: tuple[str, Mapping[str, str]] = ("", {}),
    ) -> None:
        self._place = place
        self._backend = backend
        self._others = others
        self._secrets = secrets

    @classmethod
    def at(
        cls, location: str, *, options: Mapping[str, str] | None = None, allowed_roots: Iterable[str] = ()
    ) -> Storage:
        """The storage of a local path or a file:, s3:, gs:, abfss:, az: or http(s): URL.

        `options` have the names of object_store, as in deltalake: `aws_access_key_id`, `AWS_REGION`, ...
        `allowed_roots` are other places that the table may point to, such as the source of a shallow clone.
        """
        location = os.fspath(location)
        place = Place.of(location)
        held = dict(options or {})
        others = tuple(cls.at(root, options=held) for root in allowed_roots)
        backend: Backend
        if place.scheme == "file":
            local = tuple(other._place.path for other in others if other._place.scheme == "file")
            backend = LocalFolder(place.path, allowed=local)
            location = place.path  # from the root: other processes may be in other folders
        else:
            backend = ObjectPrefix(place, location, held)
        return cls(place, backend, others, (location, held))

    @classmethod
    def with_file(cls, location: str, *, options: Mapping[str, str] | None = None) -> tuple[Storage, str]:
        """The storage of the folder that a location is in, and its name there; a URL keeps its signature.

        >>> Storage.with_file("/data/t/a.parquet")
        (Storage.at('/data/t'), 'a.parquet')
        """
        folder, name = split_last(os.fspath(location))
        return cls.at(folder, options=options), name

    def allowing(self, *roots: str) -> Storage:
        """The same storage with more places that the table may point to."""
        location, options = self._secrets
        known = [other._secrets[0] for other in self._others]
        return Storage.at(location, options=options, allowed_roots=[*known, *roots])

    def __reduce__(self) -> tuple[Any, ...]:
        """A storage goes to another process as what it was made of, secrets included."""
        location, options = self._secrets
        return _reopen, (location, options, [other._secrets[0] for other in self._others])

    @property
    def location(self) -> str:
        """The root: an absolute path or a URL, without a slash at its end and without secrets."""
        return self._place.text

    @property
    def parent(self) -> Storage | None:
        """The folder that the root is in, `None` at the top of a disk or a store; links are followed.

        >>> Storage.at("/").parent is None
        True
        """
        location, options = self._secrets
        if not location:  # the catalog has not yet said where it is
            return None
        folder, name = split_last(os.path.realpath(self.location) if self.is_local else location)
        return Storage.at(folder, options=options) if name else None

    @property
    def is_local(self) -> bool:
        """Whether the root is on the local disk."""
        return self._place.scheme == "file"

    def __repr__(self) -> str:
        return f"Storage.at({self.location!r})"

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        backend, key = self._route(path)
        return backend.read(key)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Part of a file, shorter where the file ends before."""
        backend, key = self._route(path)
        return backend.read_range(key, start, length)

    def pieces(self, path: str, length: int) -> Iterator[bytes | memoryview]:
        """The beginning of a file in pieces, each of which holds until the next is asked for.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a.bin", b"abc")
        >>> [bytes(piece) for piece in storage.pieces("a.bin", 2)]
        [b'ab']
        """
        backend, key = self._route(path)
        return backend.pieces(key, length)

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        """The file as Arrow's readers want it: on the local disk only what they ask for is read.

        `size` is what a listing has told: a store then sends a large file faster.
        """
        backend, key = self._route(path)
        if isinstance(backend, LocalFolder):
            backend.size(key)  # for its errors
            return pa.OSFile(backend.check(key))
        return pa.BufferReader(backend.view(key, size) if isinstance(backend, ObjectPrefix) else backend.read(key))

    def open_many(
        self, paths: Sequence[str], sizes: Sequence[int | None] | None = None, *, workers: int = 16
    ) -> Iterator[pa.NativeFile]:
        """The files as `open` gives them, in order; from a store, which has them sent whole, in parallel."""
        told = sizes if sizes is not None else [None] * len(paths)
        return self._in_parallel(lambda one: self.open(*one), [*zip(paths, told, strict=True)], workers)

    def read_many(self, paths: Sequence[str], *, workers: int = 64, missing_ok: bool = False) -> Iterator[bytes | None]:
        """The bytes of many files, in order and in parallel; with `missing_ok`, `None` for one that is not there."""

        def read(path: str) -> bytes | None:
            try:
                return self.read(path)
            except MissingFileError:
                if missing_ok:
                    return None
                raise

        return self._in_parallel(read, paths, workers)

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
        return self._in_parallel(self.exists, paths, workers)

    def is_folder(self, path: str = "") -> bool:
        """Whether there is such a folder; in a bucket, whether any file is below it."""
        backend, key = self._route(path)
        if isinstance(backend, LocalFolder):
            return backend.is_folder(key)
        return bool(backend.list_first(key, recursive=True)[0])

    def list(self, prefix: str = "", *, recursive: bool = False, after: str = "") -> builtins.list[Entry]:
        """The files of a folder, sorted by path; none for a folder that is not there.

        With `after`, the name of a file or the beginning of one, those alone whose names come later: a store is not
        asked for the others.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> for name in ("a", "b"):
        ...     storage.put_if_absent(name, b"")
        >>> [entry.path for entry in storage.list(after="a")]
        ['b']
        """
        storage, folder = self._find(prefix)
        found = sorted(storage._backend.list(folder, recursive, after))
        return [entry._replace(path=self._name(storage, entry.path)) for entry in found] if storage != self else found

    def list_first(self, prefix: str = "", *, recursive: bool = False) -> tuple[builtins.list[Entry], bool]:
        """Some files of a folder below the root, as many as one look gives, and whether they are all."""
        return self._backend.list_first(clean_key(prefix, where=self.location), recursive)

    def ahead(self, work: Callable[[], _Result]) -> Callable[[], _Result]:
        """A call that gives what the work gives, or raises what it raises.

        A store answers slowly: it is asked now, and the call waits. A local disk is asked in the first call, if any.
        """
        if self.is_local:
            return functools.cache(work)
        pool = ThreadPoolExecutor(1)
        asked = pool.submit(work)
        pool.shutdown(wait=False)
        return asked.result

    def folders(self, prefix: str = "") -> builtins.list[str]:
        """The paths of the folders right below a folder, sorted; none for a folder that is not there."""
        storage, folder = self._find(prefix)
        return sorted(self._name(storage, name) for name in storage._backend.folders(folder))

    def resolve(self, path: str) -> str:
        """A path as a table stores it, as a path that `read` takes; one outside the table is refused.

        A place below an allowed root stays absolute. Percent escapes are the matter of the caller.

        >>> storage = Storage.at("/data/t")
        >>> storage.resolve("file:///data/t/a"), storage.resolve("./b")
        ('a', 'b')
        >>> storage.resolve("/etc/passwd")
        Traceback (most recent call last):
        geolake_nb.errors.StorageError: /data/t: the path '/etc/passwd' leads outside the table; ...
        """
        storage, key = self._find(path)
        if isinstance(storage._backend, LocalFolder):
            storage._backend.check(key)
        return self._name(storage, key)

    def put_if_absent(self, path: str, data: bytes, *, on_step: Callable[[WriteStep], None] | None = None) -> None:
        """Write a file that must not be there yet; of several writers one wins, the others get AlreadyThereError.

        The file is there as a whole or not at all; where only the store knows whether it is, OutcomeUnknownError
        says so. Folders are made as needed. `on_step` is called on the local disk alone.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("_delta_log/0.json", b"{}")
        >>> storage.put_if_absent("_delta_log/0.json", b"{}")
        Traceback (most recent call last):
        geolake_nb.errors.AlreadyThereError: ...: the file is there already
        """
        self._backend.put_if_absent(self._own(path), data, on_step)

    def new_file(self, path: str) -> AbstractContextManager[str]:
        """A local path to be filled inside the block; after it the file is in its place, or gone if the block fails.

        On the local disk the path is that of the file itself, which must not be there yet.

        >>> import tempfile, pathlib
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> with storage.new_file("day=1/a.bin") as place:
        ...     _ = pathlib.Path(place).write_bytes(b"abc")
        >>> storage.read("day=1/a.bin")
        b'abc'
        """
        return self._backend.new_file(self._own(path))

    def replaced_file(self, path: str) -> AbstractContextManager[str]:
        """A local path to be filled inside the block, and then the file: readers see the old one or the new one.

        >>> import tempfile, pathlib
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a.bin", b"abc")
        >>> with storage.replaced_file("a.bin") as place:
        ...     _ = pathlib.Path(place).write_bytes(storage.read("a.bin") + b"d")
        >>> storage.read("a.bin")
        b'abcd'
        """
        return self._backend.replaced_file(self._own(path))

    def link(self, path: str, other: str) -> None:
        """Give a file a second name, which must not be there yet; a copy where there are no links.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.put_if_absent("a", b"abc")
        >>> storage.link("a", "old/a")
        >>> storage.read("old/a")
        b'abc'
        """
        self._backend.link(self._own(path), self._own(other))

    def rename(self, path: str, other: str) -> None:
        """Give a file another name; a file that has it is replaced."""
        self._backend.rename(self._own(path), self._own(other))

    def stat(self, path: str) -> Entry:
        """The size of a file and when it was changed."""
        backend, key = self._route(path)
        return backend.stat(key)

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is fine."""
        self._backend.remove(self._own(path))

    def remove_folder(self, path: str) -> None:
        """Remove a folder of ours with all that is in it; one that is not there is fine.

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

    def parquet_metadata(
        self, paths: Sequence[str], *, workers: int = 64, on_progress: Callable[[int, int], None] | None = None
    ) -> Iterator[pq.FileMetaData]:
        """The footers of Parquet files, in order and in parallel; `on_progress(done, total)` is called for each."""

        def read(path: str) -> pq.FileMetaData:
            return parse_footer(self.parquet_footer(path), where=self._shown(path))

        for done, footer in enumerate(self._in_parallel(read, paths, workers), 1):
            if on_progress is not None:
                on_progress(done, len(paths))
            yield footer

    def parquet_footer(self, path: str) -> bytes:
        """The bytes of the footer of a Parquet file, without its length and the magic bytes."""
        backend, key = self._route(path)
        tail, size = backend.tail(key, FIRST_READ)
        return footer_bytes(
            tail, size, where=self._shown(path), more=lambda start, length: backend.read_range(key, start, length)
        )

    def parquet_footers(self, paths: Sequence[str], *, workers: int = 64) -> Iterator[bytes]:
        """The bytes of the footers of Parquet files, in order and in parallel."""
        return self._in_parallel(self.parquet_footer, paths, workers)

    def _shown(self, path: str) -> str:
        return url_without_secrets(path if is_url(path) or path.startswith("/") else f"{self.location}/{path}")

    def _find(self, path: str) -> tuple[Storage, str]:
        """The storage below which the path is, and its key there."""
        absolute = is_url(path) or os.path.isabs(path)
        if not absolute:
            return self, clean_key(path, where=self.location)
        place = Place.of(path) if is_url(path) or self.is_local else None
        for storage in (self, *self._others):
            if place is None:
                break
            key = storage._place.key_of(place)
            if key is None and isinstance(storage._backend, LocalFolder) and place.scheme == "file":
                key = storage._backend.real_key(place.path)
            if key is not None:
                return storage, key
        shown = path if place is None else place.text
        raise StorageError(
            f"the path {url_without_secrets(shown)!r} leads outside the table",
            where=self.location,
            remedy="allow its root if the table is a clone that may read there",
        )

    def _route(self, path: str) -> tuple[Backend, str]:
        storage, key = self._find(path)
        return storage._backend, key

    def _own(self, path: str) -> str:
        storage, key = self._find(path)
        if storage is not self or not key:
            raise StorageError(
                f"the path {url_without_secrets(path)!r} is not below the table, and is not written",
                where=self.location,
            )
        return key

    def _name(self, storage: Storage, key: str) -> str:
        return key if storage is self else f"{storage.location}/{key}"

    def _in_parallel(self, work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
        if len(items) <= 1:
            yield from map(work, items)
            return
        if self.is_local:
            yield from _in_turns(work, items, min(workers, _LOCAL_WORKERS))
            return
        yield from _in_order(lambda some: [work(one) for one in some], ([one] for one in items), workers)


def _reopen(location: str, options: Mapping[str, str], allowed_roots: builtins.list[str]) -> Storage:
    return Storage.at(location, options=options, allowed_roots=allowed_roots)


def _in_turns(work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
    """The results in order, by one thread or by several, whichever the last turn shows to be better.

    Threads of Python wait for each other: they pay only where the disk, and not the work, takes the time.
    """
    slow = False
    for start in range(0, len(items), _LOCAL_TURN):
        turn = items[start : start + _LOCAL_TURN]
        began = time.perf_counter()
        if slow:
            batches = (turn[i : i + _LOCAL_BATCH] for i in range(0, len(turn), _LOCAL_BATCH))
            results = [*_in_order(lambda some: [work(one) for one in some], batches, workers)]
        else:
            results = [work(one) for one in turn]
        slow = (time.perf_counter() - began) / len(turn) > _SLOW
        yield from results


def _in_order(
    work: Callable[[Sequence[_Item]], builtins.list[_Result]], batches: Iterator[Sequence[_Item]], workers: int
) -> Iterator[_Result]:
    """The results in order; no more than two tasks a worker are ahead of who takes them, so memory stays bounded."""
    pool = ThreadPoolExecutor(max(1, workers))
    ahead: deque[Future[builtins.list[_Result]]] = deque()
    try:
        ahead.extend(pool.submit(work, one) for one in islice(batches, 2 * workers))
        while ahead:
            yield from ahead.popleft().result()
            ahead.extend(pool.submit(work, one) for one in islice(batches, 1))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
