"""One tree of errors. Every message says what is wrong, where, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AlreadyThereError",
    "BoundError",
    "CollationError",
    "ConflictError",
    "CorruptTableError",
    "CrsError",
    "GeolakeError",
    "JobError",
    "JsonError",
    "MissingDependencyError",
    "MissingFileError",
    "NotATableError",
    "OpenError",
    "OutcomeUnknownError",
    "PredicateError",
    "RasterError",
    "RefusedError",
    "SchemaError",
    "StorageError",
    "UnsupportedTableError",
    "VersionError",
]


class GeolakeError(Exception):
    """The root of every error that this package raises on purpose.

    >>> print(GeolakeError("no column 'gem'", where="roads", remedy="use one of: geom, name"))
    roads: no column 'gem'; use one of: geom, name
    """

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        message = what if where is None else f"{where}: {what}"
        super().__init__(message if remedy is None else f"{message}; {remedy}")


class SchemaError(GeolakeError, ValueError):
    """A type string or a schema that cannot be read, or cannot be written in the format asked for."""


class CrsError(GeolakeError, ValueError):
    """A coordinate reference system that cannot be read or resolved."""


class BoundError(GeolakeError, ValueError):
    """A stored bound that cannot be read, or a box that the format cannot hold."""


class CollationError(GeolakeError, ValueError):
    """A collation identifier, or its place in a schema or in statistics, that breaks the rules."""


class PredicateError(GeolakeError, ValueError):
    """A filter that cannot be read, or cannot be bound to the table's columns."""


class RasterError(GeolakeError, ValueError):
    """A raster value that breaks the rules of its encoding."""


class MissingDependencyError(GeolakeError, ImportError):
    """A package that is needed here is not installed; the message has the command that installs it."""


class OpenError(GeolakeError):
    """A table that cannot be opened."""


class StorageError(OpenError, OSError):
    """A path or URL that cannot be read: missing, not permitted, or the store does not answer."""


class MissingFileError(StorageError, FileNotFoundError):
    """A file that should be there and is not."""


class AlreadyThereError(StorageError, FileExistsError):
    """A file that should have been new and is there already."""


class NotATableError(OpenError, ValueError):
    """A place that can be read and holds no table of a format that this package knows."""


class CorruptTableError(OpenError, ValueError):
    """A table whose metadata is broken: a gap in the log, a truncated checkpoint, an unreadable manifest."""


class UnsupportedTableError(OpenError):
    """A table that needs something to be read that this package does not know, such as a reader feature."""


class VersionError(OpenError, LookupError):
    """A version, snapshot, branch, tag or time that the table does not have."""


class JsonError(GeolakeError, ValueError):
    """A JSON text that cannot be edited: broken, nested too deeply, or with one key twice."""


class RefusedError(GeolakeError):
    """A change that must not be made here: a table feature, the store, or a consent that is missing forbids it."""


class ConflictError(GeolakeError):
    """A commit that lost a race to one that it cannot stand on; nothing of it is in the table."""


class OutcomeUnknownError(GeolakeError):
    """A commit that may have landed or not: nothing is cleaned up and nothing tried again before a look tells."""


class JobError(GeolakeError):
    """A Spark job that failed or was cancelled: the table is as before, `orphans` are the files that are left over.

    >>> JobError("the job was cancelled", orphans=["a.parquet"]).orphans
    ('a.parquet',)
    """

    def __init__(
        self, what: str, *, where: str | None = None, remedy: str | None = None, orphans: Iterable[str] = ()
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.orphans = tuple(orphans)
