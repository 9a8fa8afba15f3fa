"""A set of Parquet files as what is changed: what stands in the way, and what it is a set of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import RefusedError
from geolake_nb.formats.parquet.hive_paths import has_glob
from geolake_nb.formats.parquet.journal import read_journal
from geolake_nb.formats.parquet.replace import action
from geolake_nb.planning.change import Change

if TYPE_CHECKING:
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Verb

__all__ = ["pending_change", "require_folder", "single_file"]


def pending_change(storage: Storage, snapshot: Snapshot, verb: Verb) -> Change | None:
    """The change that ends one which was cut short, `None` if there is none; whatever is wanted comes after it."""
    pending = [entry for entry in read_journal(storage) if entry.outcome is None]
    if not pending:
        return None
    newest = pending[-1]
    return Change(
        verb,
        snapshot.format,
        snapshot.location,
        None,
        actions=[action("finish", {"version": newest.version, "transaction": newest.transaction})],
        says=(
            f"Change {newest.version} ({newest.verb}) was cut short: its last steps are made now.",
            "Plan again afterwards.",
        ),
        parameters={"finish": str(newest.version)},
    )


def single_file(snapshot: Snapshot) -> str | None:
    """The name of the file that the table is, `None` for a folder or a pattern."""
    storage: Storage = snapshot.details.storage
    paths = snapshot.files.table["path"].to_pylist()
    return paths[0] if len(paths) == 1 and snapshot.location == f"{storage.location}/{paths[0]}" else None


def require_folder(snapshot: Snapshot, what: str) -> None:
    """Raise for a pattern, which says which files are meant and not where new ones belong."""
    storage: Storage = snapshot.details.storage
    if snapshot.location != storage.location and single_file(snapshot) is None and has_glob(snapshot.location):
        raise RefusedError(f"{what} needs a folder or a file, not a pattern", where=snapshot.location,
                           remedy="open the folder")  # fmt: skip
