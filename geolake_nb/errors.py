"""One tree of errors. Every message says what is wrong, where, and what to do about it."""

from __future__ import annotations

import traceback
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
    "NoGeoColumnError",
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

_SHOWN_ORPHANS = 10


class GeolakeError(Exception):
    """The base class of every error that this package raises on purpose.

    Example:
        >>> try:
        ...     gl.open("no/such/table")
        ... except gl.GeolakeError as error:
        ...     print(error.what)
        there is nothing at this path
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
        self._was_shown = False

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows of it: the message at first, and the traceback when it is asked for again."""
        if self._was_shown:
            return "".join(traceback.format_exception(self)).splitlines()
        self.show_traceback()
        return [*self.message_lines(), "(%tb shows the traceback)"]

    def show_traceback(self) -> None:
        """Have IPython show the traceback from now on, and not the message alone.

        Example:
            >>> error = GeolakeError("no column 'gem'")
            >>> error.show_traceback()
            >>> error._render_traceback_()
            ["geolake_nb.errors.GeolakeError: no column 'gem'"]
        """
        self._was_shown = True

    def message_lines(self, source: str | None = None) -> list[str]:
        """The lines that a notebook shows of the error.

        Args:
            source: what the first line names; by default the class of the error.

        Returns:
            The message, without control characters.

        Example:
            >>> GeolakeError("no column 'gem'").message_lines()
            ["GeolakeError: no column 'gem'"]
        """
        return [f"{source or type(self).__name__}: {_visible(str(self))}"]


def _visible(text: str) -> str:
    """The text with escapes for what has no shape in a terminal: a table may have given a part of it."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


class SchemaError(GeolakeError, ValueError):
    """A type string or a schema that cannot be read, or that the format cannot store."""

    advice: ClassVar[str] = (
        "Compare the name or the type in the message with `geolake schema TABLE`, and write it as the message shows."
    )


class CrsError(GeolakeError, ValueError):
    """A coordinate reference system that cannot be read or resolved."""

    advice: ClassVar[str] = (
        "Name the coordinate reference system by a code, such as OGC:CRS84 for longitude and latitude or EPSG:3857."
    )


class BoundError(GeolakeError, ValueError):
    """A stored bound that cannot be read, or a box that the format cannot store."""

    advice: ClassVar[str] = (
        "Run `geolake check TABLE`: it names the files with such bounds, and the command that fixes them."
    )


class CollationError(GeolakeError, ValueError):
    """A collation identifier, or its use in a schema or in statistics, that is invalid."""

    advice: ClassVar[str] = (
        "Write a collation as Spark names it, such as icu.de_CI; `geolake collations TABLE` lists those in use."
    )


class PredicateError(GeolakeError, ValueError):
    """A filter that cannot be read, or cannot be bound to the table's columns."""

    advice: ClassVar[str] = (
        "Compare the columns of the filter with `geolake schema TABLE`, and put WKT in single quotes."
    )


class NoGeoColumnError(PredicateError):
    """A query or a map of a column that is not a geometry, a geography or a raster."""

    advice: ClassVar[str] = (
        "Name a geo column of `geolake schema TABLE`; `geolake check TABLE` finds binary columns that hold WKB."
    )


class RasterError(GeolakeError, ValueError):
    """A raster value that violates its encoding."""

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
    """A file that should exist and does not."""

    advice: ClassVar[str] = (
        "Check the spelling of the path; if a file of a table is missing, open an earlier version or restore the file."
    )


class NoAnswerError(StorageError):
    """A store that does not answer, or fails during a request: the request may have succeeded or not."""

    advice: ClassVar[str] = (
        "Try again when the store answers; if a table was being changed, look at `geolake history TABLE` first."
    )


class AlreadyThereError(StorageError, FileExistsError):
    """A file that should be new and already exists."""

    advice: ClassVar[str] = "Choose a new location: nothing was overwritten."


class NotATableError(OpenError, ValueError):
    """A readable location without a table of a supported format."""

    advice: ClassVar[str] = (
        "Give the root folder of a table: the one with `_delta_log`, with `metadata`, or with Parquet files."
    )


class CorruptTableError(OpenError, ValueError):
    """A table whose metadata is broken: a gap in the log, a truncated checkpoint, an unreadable manifest."""

    advice: ClassVar[str] = (
        "Restore the file that the message names, or open an earlier version with `--version` or `--snapshot-id`."
    )


class UnsupportedTableError(OpenError):
    """A table that requires something unknown to this package, such as a reader feature."""

    advice: ClassVar[str] = (
        "Open the table with the engine that wrote it; `--allow-unknown-features` opens a Delta table for inspection."
    )


class VersionError(OpenError, LookupError):
    """A version, snapshot, branch, tag or time that the table does not have."""

    advice: ClassVar[str] = "Choose a version that `geolake history TABLE` lists."


class JsonError(GeolakeError, ValueError):
    """A JSON text that cannot be edited: invalid, nested too deeply, or with a duplicate key."""

    advice: ClassVar[str] = "Look at the entry of the log that the message names: no part of it was changed."


class RefusedError(GeolakeError):
    """A change that is refused because of a table feature, the store, or a missing consent."""

    advice: ClassVar[str] = (
        "Read which rule forbids the change; a step that cannot be undone needs `--consent` with its name in the plan."
    )


class ConflictError(GeolakeError):
    """A commit that conflicts with a concurrent one; nothing of it is in the table."""

    advice: ClassVar[str] = "Make a new plan from the current version and apply it."


class OutcomeUnknownError(GeolakeError):
    """A commit whose outcome is unknown: nothing is cleaned up or retried until the table is checked."""

    advice: ClassVar[str] = "Look at `geolake history TABLE` first; apply the plan again only if the change is missing."


class JobError(GeolakeError):
    """A Spark job that failed or was cancelled: no changes were made, `orphans` are the leftover files.

    >>> JobError("the job was cancelled", orphans=["a.parquet"]).orphans
    ('a.parquet',)
    """

    advice: ClassVar[str] = (
        "Read the reason in the message and run the command again; leftover files belong to no version."
    )

    def __init__(
        self, what: str, *, where: str | None = None, remedy: str | None = None, orphans: Iterable[str] = ()
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.orphans = tuple(orphans)

    def message_lines(self, source: str | None = None) -> list[str]:
        """The lines that a notebook shows of the error.

        Args:
            source: what the first line names; by default the class of the error.

        Returns:
            The message, and the first of the leftover files.

        Example:
            >>> JobError("the job was cancelled", orphans=["a.parquet"]).message_lines()
            ['JobError: the job was cancelled', '  leftover file: a.parquet']
        """
        more = len(self.orphans) - _SHOWN_ORPHANS
        lines = [f"  leftover file: {_visible(path)}" for path in self.orphans[:_SHOWN_ORPHANS]]
        return [*super().message_lines(source), *lines, *([f"  and {more:,} more leftover files"] if more > 0 else [])]
