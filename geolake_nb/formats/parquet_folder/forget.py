"""Old files and footers that are kept for undo, and can be deleted to free space."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.errors import VersionError
from geolake_nb.formats.parquet_folder.history import changes_of, kept_files
from geolake_nb.formats.parquet_folder.pending_changes import pending_change
from geolake_nb.formats.parquet_folder.replace import action
from geolake_nb.model.change import Change, IrreversibleStep, Verb
from geolake_nb.scan.explanation_text import bytes_text

if TYPE_CHECKING:
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_forget"]


def plan_forget(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Remove the undo data of all changes, or of those up to a number; no file of the set is touched.

    The journal stays, so that the history is complete. An interrupted change keeps its undo data.
    """
    pending = pending_change(storage, snapshot, Verb.FORGET)
    if pending is not None:
        return pending
    entries = changes_of(snapshot)
    if version is not None and version not in {entry.version for entry in entries}:
        known = ", ".join(str(entry.version) for entry in entries) or "none"
        what = f"there is no change {version} to forget"
        raise VersionError(what, where=snapshot.location, remedy=f"there are: {known}")
    chosen = [entry for entry in entries if version is None or entry.version <= version]
    kept = {entry.transaction: copies for entry in chosen if (copies := kept_files(storage, entry)) is not None}
    parameters = {} if version is None else {"version": str(version)}
    nothing = Change(Verb.FORGET, snapshot.format, snapshot.location, None, parameters=parameters)
    if not kept:
        return replace(nothing, notes=("Nothing is kept for undo.",))
    numbers = [copies.version for copies in kept.values()]
    files, size = sum(copies.files for copies in kept.values()), sum(copies.bytes for copies in kept.values())
    changes = f"change {numbers[0]}" if len(numbers) == 1 else f"{len(numbers):,} changes up to {numbers[-1]}"
    return Change(
        Verb.FORGET,
        snapshot.format,
        snapshot.location,
        None,
        actions=[action("forget", {"transaction": name, "version": copies.version}) for name, copies in kept.items()],
        notes=(
            f"The undo data of {changes} is removed: {files:,} files ({bytes_text(size)}) in _geolake.",
            "No file of the set is touched.",
        ),
        irreversible_steps=(IrreversibleStep("forget", f"{changes} can no longer be undone."),),
        undo="cannot be undone",
        parameters=parameters,
        metrics={"files_forgotten": files, "bytes_forgotten": size},
    )
