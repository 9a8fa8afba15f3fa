"""Detects the table at a location, and the table that a location belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import RefusedError, StorageError
from geolake_nb.formats.delta.snapshot import is_delta
from geolake_nb.formats.iceberg.snapshot import is_iceberg
from geolake_nb.formats.parquet_folder.journal import read_journal
from geolake_nb.formats.parquet_folder.snapshot import has_parquet_files
from geolake_nb.formats.registry import DELTA, FORMATS, ICEBERG, PARQUET
from geolake_nb.storage.hive_paths import is_job_file, is_parquet_name

if TYPE_CHECKING:
    from geolake_nb.formats.base import Format
    from geolake_nb.storage.storage import Storage

__all__ = [
    "DetectedTable",
    "has_other_files",
    "owner_of",
    "require_no_owner",
    "require_no_table",
    "table_at",
    "table_in_folder",
]

_METADATA = re.compile(r"metadata\.json(\.gz)?$")


@dataclass(frozen=True, slots=True)
class DetectedTable:
    """The table at a location, and what was read to detect it."""

    format: Format
    """Iceberg for Havasu too: only its metadata tells them apart."""
    detected: Any = None
    """What `Format.detect` has read."""


def table_at(storage: Storage) -> DetectedTable | None:
    """The table at the root, `None` if there is none.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> table_at(Storage.at(tempfile.mkdtemp())) is None
    True
    """
    searches = [(format_, format_.detect(storage)) for format_ in FORMATS.values()]
    for format_, search in searches:
        detected = search()
        if detected is not None:
            return DetectedTable(format_, detected)
    return None


def table_in_folder(storage: Storage, folder: str) -> str | None:
    """The name of the format of the table in a folder, `None` for a folder of other folders; Havasu is Iceberg too.

    Two or three listings tell. Parquet files count where they lie in the folder itself or in those of partitions:
    those further below are the files of other tables.
    """
    inside = [name.rstrip("/").rpartition("/")[2] for name in storage.folders(folder)]
    if "_delta_log" in inside:
        return DELTA.name
    if "metadata" in inside and any(
        _METADATA.search(entry.path) for entry in storage.list(f"{folder}/metadata".lstrip("/"))
    ):
        return ICEBERG.name
    shown = [name for name in inside if not name.startswith((".", "_"))]
    if shown and all("=" in name for name in shown):
        return PARQUET.name
    return PARQUET.name if any(is_parquet_name(entry.path) for entry in storage.list(folder)) else None


def has_other_files(storage: Storage) -> bool:
    """Whether a location without a table has Parquet files, other than those left over by a job of this package.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> has_other_files(Storage.at(tempfile.mkdtemp()))
    False
    """
    return bool(read_journal(storage)) or has_parquet_files(storage, passing_over=is_job_file)


def owner_of(storage: Storage) -> str | None:
    """The root of the Delta or Iceberg table that a location is in or the root of.

    `None` if there is none, or if the parent folders are not accessible.
    """
    here: Storage | None = storage
    try:
        while here is not None:
            if is_delta(here) or is_iceberg(here):
                return here.location
            here = here.parent
    except StorageError:
        return None
    return None


def require_no_table(target: Storage) -> None:
    """Raise where a table of any format already exists: it would be hidden, and VACUUM would delete its files."""
    table = table_at(target)
    if table is not None and (table.format is not PARQUET or has_other_files(target)):
        article = "an" if table.format.title[0] in "AEIOU" else "a"
        what = f"{article} {table.format.title} table already exists here"
        raise RefusedError(what, where=target.location, remedy="give another location")
    require_no_owner(target, remedy="give another location")


def require_no_owner(storage: Storage, *, remedy: str = "open the table itself") -> None:
    """Raise where the files belong to a Delta or Iceberg table: its log records their sizes, and no other files."""
    owner = owner_of(storage)
    if owner is not None:
        raise RefusedError(f"the files belong to the table {owner}", where=storage.location, remedy=remedy)
