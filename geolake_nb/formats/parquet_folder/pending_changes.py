"""Whether a set of Parquet files can be changed: interrupted changes, single files, patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import RefusedError
from geolake_nb.formats.parquet_folder.journal import read_journal
from geolake_nb.formats.parquet_folder.replace import action
from geolake_nb.model.change import Change
from geolake_nb.storage.hive_paths import has_glob

if TYPE_CHECKING:
    from geolake_nb.model.change import Verb
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["pending_change", "require_folder", "single_file"]


def pending_change(storage: Storage, snapshot: Snapshot, verb: Verb) -> Change | None:
    """The change that finishes an interrupted one, `None` if there is none; it comes before any other change."""
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
        notes=(
            f"Change {newest.version} ({newest.verb}) was interrupted: its remaining steps run now.",
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
    """Raise for a pattern, which selects files but does not define where new ones belong."""
    storage: Storage = snapshot.details.storage
    if snapshot.location != storage.location and single_file(snapshot) is None and has_glob(snapshot.location):
        raise RefusedError(f"{what} needs a folder or a file, not a pattern", where=snapshot.location,
                           remedy="open the folder")  # fmt: skip
