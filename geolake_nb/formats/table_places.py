"""Which table lies at a place, and in which one a place lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import StorageError
from geolake_nb.formats.delta.log_segment import newest_log
from geolake_nb.formats.delta.snapshot import is_delta
from geolake_nb.formats.iceberg.location import find_metadata
from geolake_nb.formats.iceberg.snapshot import is_iceberg
from geolake_nb.formats.parquet.files import is_parquet_place
from geolake_nb.formats.parquet.job_files import is_job_file
from geolake_nb.formats.parquet.journal import read_journal
from geolake_nb.formats.snapshot import TableFormat

if TYPE_CHECKING:
    from geolake_nb.formats.delta.log_segment import LogListing
    from geolake_nb.formats.storage import Storage

__all__ = ["Found", "has_other_files", "owner_of", "table_at"]


@dataclass(frozen=True, slots=True)
class Found:
    """The table at a place, and what had to be looked at to find it."""

    format: TableFormat
    """Iceberg for Havasu too: only its metadata tells them apart."""
    log: LogListing | None = None
    """Of a Delta table."""
    metadata: str | None = None
    """The newest metadata file of an Iceberg table."""


def table_at(storage: Storage) -> Found | None:
    """What the root holds, `None` for no table.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
    >>> table_at(Storage.at(tempfile.mkdtemp())) is None
    True
    """
    metadata = storage.ahead(lambda: find_metadata(storage))
    log = newest_log(storage)
    if log is not None:
        return Found(TableFormat.DELTA, log=log)
    newest = metadata()
    if newest is not None:
        return Found(TableFormat.ICEBERG, metadata=newest)
    return Found(TableFormat.PARQUET) if is_parquet_place(storage) else None


def has_other_files(storage: Storage) -> bool:
    """Whether Parquet files lie at a place where no table is, other than those that a job of ours has left over.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
    >>> has_other_files(Storage.at(tempfile.mkdtemp()))
    False
    """
    return bool(read_journal(storage)) or is_parquet_place(storage, passing_over=is_job_file)


def owner_of(storage: Storage) -> str | None:
    """The root of the Delta or Iceberg table that has a place among its files, the place itself included.

    `None` where there is none, or where one may not look further up.
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
