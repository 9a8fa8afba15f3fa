"""Old files and footers of a set of Parquet files that are kept for undo, and can be given up for their space."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.errors import VersionError
from geolake_nb.formats.parquet.history import changes_of, kept_files
from geolake_nb.formats.parquet.replace import action
from geolake_nb.planning.change import Change, OneWayDoor, Verb
from geolake_nb.planning.parquet.sets import pending_change
from geolake_nb.planning.scan.explanation_text import bytes_text

if TYPE_CHECKING:
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

__all__ = ["plan_forget"]


def plan_forget(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """What is kept of all changes, or of those up to a number, is removed; no file of the set is touched.

    The journal stays, so that the history is told as before. A change that was cut short keeps all that it has.
    """
    pending = pending_change(storage, snapshot, Verb.FORGET)
    if pending is not None:
        return pending
    entries = changes_of(snapshot)
    if version is not None and version not in {one.version for one in entries}:
        known = ", ".join(str(one.version) for one in entries) or "none"
        what = f"there is no change {version} to forget"
        raise VersionError(what, where=snapshot.location, remedy=f"there are: {known}")
    chosen = [one for one in entries if version is None or one.version <= version]
    kept = {one.transaction: found for one in chosen if (found := kept_files(storage, one)) is not None}
    parameters = {} if version is None else {"version": str(version)}
    nothing = Change(Verb.FORGET, snapshot.format, snapshot.location, None, parameters=parameters)
    if not kept:
        return replace(nothing, says=("Nothing is kept for undo.",))
    numbers = [one.version for one in kept.values()]
    files, size = sum(one.files for one in kept.values()), sum(one.bytes for one in kept.values())
    changes = f"change {numbers[0]}" if len(numbers) == 1 else f"{len(numbers):,} changes up to {numbers[-1]}"
    return Change(
        Verb.FORGET,
        snapshot.format,
        snapshot.location,
        None,
        actions=[action("forget", {"transaction": name, "version": one.version}) for name, one in kept.items()],
        says=(
            f"What is kept to take back {changes} is removed: {files:,} files ({bytes_text(size)}) in _geolake.",
            "No file of the set is touched.",
        ),
        doors=(OneWayDoor("forget", f"The undo of {changes} has nothing left to put back."),),
        undo="it is not taken back",
        parameters=parameters,
        metrics={"files_forgotten": files, "bytes_forgotten": size},
    )
