"""The target file of an export: never one of the table; a path that cannot be written is an error."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from geolake_nb.errors import RefusedError, StorageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from geolake_nb.model.snapshot import Snapshot

__all__ = ["written_file"]


@contextmanager
def written_file(path: str | os.PathLike[str], snapshot: Snapshot) -> Iterator[Path]:
    """The path to write an export of a table; `~` is the home folder, as where a table is opened.

    An earlier file of that name is replaced, unless the table has it.
    """
    try:
        target = Path(path).expanduser()
        if _is_in_table(target.resolve(), snapshot):
            what = "this is a file of the table"
            raise RefusedError(what, where=str(path), remedy="give another path")
        yield target
    except (OSError, RuntimeError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        # Arrow puts the path into its text, and the reason after it.
        why = why.rpartition("] ")[2]
        raise StorageError(f"cannot be written: {why}", where=str(path) or "''", remedy="give another path") from None


def _is_in_table(target: Path, snapshot: Snapshot) -> bool:
    """Whether the table has the file, or would take it for one of its own."""
    if snapshot.format.has_versions:
        return target.exists() and target.is_relative_to(Path(snapshot.location).resolve())
    if snapshot.details is None:  # boxes without a location
        return False
    root = Path(snapshot.details.storage.location).resolve()
    if not target.is_relative_to(root):
        return False
    data_files = {(root / path).resolve() for path in snapshot.files.table["path"].to_pylist()}
    is_folder = snapshot.location == snapshot.details.storage.location
    return target in data_files or (is_folder and target.suffix == ".parquet")
