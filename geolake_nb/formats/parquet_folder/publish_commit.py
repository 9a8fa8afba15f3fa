"""Makes a table of Parquet files where they lie, and takes that back: the same for every format of the table.

The journal of the folder records the change: footers are repaired first, and the file that makes the table is created
last, so that a reader finds either files without a table or the whole table.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.errors import ConflictError, RefusedError
from geolake_nb.formats.parquet_folder.commit import (
    SetChange,
    action,
    commit_set,
    end_pending,
    find_change,
    pending_change,
)
from geolake_nb.formats.parquet_folder.first_log import stage_log
from geolake_nb.formats.parquet_folder.format import PARQUET
from geolake_nb.formats.parquet_folder.journal import FIRST_ENTRIES, Outcome, read_journal
from geolake_nb.formats.parquet_folder.undo import undo_of
from geolake_nb.model.change import Change, Verb
from geolake_nb.storage.hive_paths import is_hidden, is_parquet_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["commit_first", "is_completed", "plan_unpublish"]


def is_completed(change: Change, context: CommitContext) -> bool:
    """Whether this transaction made the table; an interrupted one is completed."""
    stored = find_change(context.storage, context.transaction)
    if stored is None:
        return False
    if stored.outcome is None:
        end_pending(context.storage)
        stored = find_change(context.storage, context.transaction)
    ended = None if stored is None else stored.outcome
    if ended is None or ended.abandoned or any(path in ended.skipped for path in FIRST_ENTRIES):
        raise ConflictError("the change was not completed", where=change.location, remedy="plan it again")
    return True


def commit_first(
    change: Change,
    context: CommitContext,
    *,
    planned: Mapping[str, tuple[int, int]],
    made: Callable[[], Mapping[str, bytes]],
) -> None:
    """Repair the footers of the change and create the files that `made` returns, the first entry of the table last.

    `planned` has the size after the repair and the time, in milliseconds since 1970, of each file by its path.
    """
    storage = context.storage
    footers = [text for text in change.actions if text.startswith('{"footer"')]
    _require_unchanged(storage, planned, {json.loads(text)["footer"]["path"] for text in footers})
    files = made()
    if any(storage.exists(path) for path in files if path in FIRST_ENTRIES):
        raise ConflictError("a table was created here meanwhile", where=storage.location, remedy="open it")
    creates = [action("create", file) for file in stage_log(storage, context.transaction, files)]
    commit_set(
        storage,
        SetChange(context.transaction, change.verb.value, [*footers, *creates], change.parameters, change.metrics),
    )


def _require_unchanged(storage: Storage, planned: Mapping[str, tuple[int, int]], repaired: Iterable[str]) -> None:
    """Raise where a file was added since the plan was made, or one whose footer stays was changed."""
    for entry in storage.list(recursive=True):
        if is_parquet_name(entry.path) and not is_hidden(entry.path) and entry.path not in planned:
            what = "the file was added since the plan was made"
            raise ConflictError(what, where=f"{storage.location}/{entry.path}", remedy="plan again")
    for path in planned.keys() - set(repaired):
        size, time = planned[path]
        now = storage.stat(path)
        modified = 0 if now.modified is None else int(now.modified.timestamp() * 1000)
        if now.bytes != size or (now.modified is not None and abs(modified - time) > 1):
            raise ConflictError(
                "the file was changed since the plan was made", where=f"{storage.location}/{path}", remedy="plan again"
            )


def plan_unpublish(storage: Storage, snapshot: Snapshot, transaction: str, *, remedy: str) -> Change:
    """The folder of files as it was before this transaction made it a table, which has no other version.

    `remedy` is for a table that was moved without its journal.
    """
    made = find_change(storage, transaction)
    if made is None:
        raise RefusedError("the journal of the files is not here", where=snapshot.location, remedy=remedy)
    if any(entry.outcome is None and entry.version > made.version for entry in read_journal(storage)):
        pending = pending_change(storage, snapshot, Verb.UNDO)  # an undo that was interrupted
        assert pending is not None
        return replace(pending, format=PARQUET)
    # It is complete where the table is there: an end that was not recorded is recorded by the next change.
    change = undo_of(storage, snapshot, replace(made, outcome=made.outcome or Outcome()))
    note = "The log is removed, and the files are no longer a table."
    return replace(change, format=PARQUET, engines=(), notes=(*change.notes, note))
