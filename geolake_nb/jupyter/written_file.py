"""The file that something is written to: a place that cannot be written is an error of ours."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from geolake_nb.errors import StorageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["written_file"]


@contextmanager
def written_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The place to write to; `~` is the home folder, as where a table is opened.

    >>> with written_file("/nowhere/map.html") as target:
    ...     target.write_text("")
    Traceback (most recent call last):
    geolake_nb.errors.StorageError: /nowhere/map.html: cannot be written: No such file or directory; give another path
    """
    try:
        yield Path(path).expanduser()
    except (OSError, RuntimeError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        # Arrow puts the path into its text, and the reason after it.
        why = why.rpartition("] ")[2]
        raise StorageError(f"cannot be written: {why}", where=str(path) or "''", remedy="give another path") from None
