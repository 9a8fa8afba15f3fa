"""One tree of errors. Every message says what is wrong, where, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

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
    "NoAnswerError",
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

    advice: ClassVar[str] = (
        "Do what the message says after its last semicolon; catch this class to catch every error of this package."
    )
    """What to do about an error of this kind, where its message does not say it."""

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        message = what if where is None else f"{where}: {what}"
        super().__init__(message if remedy is None else f"{message}; {remedy}")


class SchemaError(GeolakeError, ValueError):
    """A type string or a schema that cannot be read, or cannot be written in the format asked for."""

    advice: ClassVar[str] = (
        "Compare the name or the type in the message with `geolake schema TABLE`, and write it as the message shows."
    )


class CrsError(GeolakeError, ValueError):
    """A coordinate reference system that cannot be read or resolved."""

    advice: ClassVar[str] = (
        "Name the coordinate reference system by a code, such as OGC:CRS84 for longitude and latitude or EPSG:3857."
    )


class BoundError(GeolakeError, ValueError):
    """A stored bound that cannot be read, or a box that the format cannot hold."""

    advice: ClassVar[str] = (
        "Run `geolake check TABLE`: it names the files with such bounds, and the command that mends them."
    )


class CollationError(GeolakeError, ValueError):
    """A collation identifier, or its place in a schema or in statistics, that breaks the rules."""

    advice: ClassVar[str] = (
        "Write a collation as Spark names it, such as icu.de_CI; `geolake collations TABLE` lists those in use."
    )


class PredicateError(GeolakeError, ValueError):
    """A filter that cannot be read, or cannot be bound to the table's columns."""

    advice: ClassVar[str] = (
        "Compare the columns of the filter with `geolake schema TABLE`, and put texts of shapes in single quotes."
    )


class RasterError(GeolakeError, ValueError):
    """A raster value that breaks the rules of its encoding."""

    advice: ClassVar[str] = (
        "Run `geolake check TABLE --deep` for rasters in a table; for a file, see whether GDAL or rasterio opens it."
    )


class MissingDependencyError(GeolakeError, ImportError):
    """A package that is needed here is not installed; the message has the command that installs it."""

    advice: ClassVar[str] = "Run the command in the message; nothing else has to be changed."


class OpenError(GeolakeError):
    """A table that cannot be opened."""

    advice: ClassVar[str] = (
        "Read the message for the file that is at fault, and try `geolake open` on the root folder of the table."
    )


class StorageError(OpenError, OSError):
    """A path or URL that cannot be read: missing, not permitted, or the store does not answer."""

    advice: ClassVar[str] = "Check the path, the permissions and `--storage-option`; try again when the store answers."


class MissingFileError(StorageError, FileNotFoundError):
    """A file that should be there and is not."""

    advice: ClassVar[str] = (
        "Check the spelling of the path; where a file of a table is gone, open an earlier version or restore the file."
    )


class NoAnswerError(StorageError):
    """A store that does not answer, or fails at what it was asked: it may have done it or not."""

    advice: ClassVar[str] = (
        "Try again when the store answers; where a table was being changed, look at `geolake history TABLE` first."
    )


class AlreadyThereError(StorageError, FileExistsError):
    """A file that should have been new and is there already."""

    advice: ClassVar[str] = "Choose a place where nothing is yet: nothing was overwritten."


class NotATableError(OpenError, ValueError):
    """A place that can be read and holds no table of a format that this package knows."""

    advice: ClassVar[str] = (
        "Give the root folder of a table: the one with `_delta_log`, with `metadata`, or with Parquet files."
    )


class CorruptTableError(OpenError, ValueError):
    """A table whose metadata is broken: a gap in the log, a truncated checkpoint, an unreadable manifest."""

    advice: ClassVar[str] = (
        "Restore the file that the message names, or open an earlier version with `--version` or `--snapshot-id`."
    )


class UnsupportedTableError(OpenError):
    """A table that needs something to be read that this package does not know, such as a reader feature."""

    advice: ClassVar[str] = (
        "Open the table with the engine that wrote it; `--allow-unknown-features` opens a Delta table to look at it."
    )


class VersionError(OpenError, LookupError):
    """A version, snapshot, branch, tag or time that the table does not have."""

    advice: ClassVar[str] = "Choose a version that `geolake history TABLE` lists."


class JsonError(GeolakeError, ValueError):
    """A JSON text that cannot be edited: broken, nested too deeply, or with one key twice."""

    advice: ClassVar[str] = "Look at the entry of the log that the message names: no part of it was changed."


class RefusedError(GeolakeError):
    """A change that must not be made here: a table feature, the store, or a consent that is missing forbids it."""

    advice: ClassVar[str] = (
        "Read which rule forbids the change; a step that cannot be taken back needs `--consent` with the name in "
        "the plan."
    )


class ConflictError(GeolakeError):
    """A commit that lost a race to one that it cannot stand on; nothing of it is in the table."""

    advice: ClassVar[str] = "Make the plan again and apply it: the new one stands on the table as it is now."


class OutcomeUnknownError(GeolakeError):
    """A commit that may have landed or not: nothing is cleaned up and nothing tried again before a look tells."""

    advice: ClassVar[str] = (
        "Look at `geolake history TABLE` first; apply the plan again only where the change is not there."
    )


class JobError(GeolakeError):
    """A Spark job that failed or was cancelled: the table is as before, `orphans` are the files that are left over.

    >>> JobError("the job was cancelled", orphans=["a.parquet"]).orphans
    ('a.parquet',)
    """

    advice: ClassVar[str] = (
        "Read the reason in the message and run the command again; the files that are left over belong to no version."
    )

    def __init__(
        self, what: str, *, where: str | None = None, remedy: str | None = None, orphans: Iterable[str] = ()
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.orphans = tuple(orphans)
