"""Whether files may be written or changed at a place: not where another table knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import RefusedError
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.formats.table_places import has_other_files, owner_of, table_at

if TYPE_CHECKING:
    from geolake_nb.formats.storage import Storage

__all__ = ["require_no_owner", "require_no_table"]


def require_no_table(target: Storage) -> None:
    """Raise where a table is already, of whatever format: it would be hidden, and its files taken by a VACUUM."""
    found = table_at(target)
    if found is not None and (found.format is not TableFormat.PARQUET or has_other_files(target)):
        what = f"there is a table already, of {found.format.value.capitalize()}"
        raise RefusedError(what, where=target.location, remedy="give another place")
    require_no_owner(target, remedy="give another place")


def require_no_owner(storage: Storage, *, remedy: str = "open the table itself") -> None:
    """Raise where a Delta or Iceberg table has these files: its log tells of their sizes, and of no others."""
    owner = owner_of(storage)
    if owner is not None:
        raise RefusedError(f"the files are those of the table {owner}", where=storage.location, remedy=remedy)
