"""Tables of version 3 in PyIceberg: their metadata, and snapshots whose rows have ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Transaction
from pyiceberg.table import metadata as pmd
from pyiceberg.table import update as updates
from pyiceberg.table.update import snapshot as producers

from geolake_nb.errors import RefusedError
from geolake_nb.formats.iceberg.bounds import EDGES, edge_mark
from geolake_nb.pyiceberg import manifests
from geolake_nb.pyiceberg.bridge import Patch
from geolake_nb.pyiceberg.type_text import with_java_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["next_row_id", "patches"]

_VERSION = 3
_NEXT_ROW_ID = "next-row-id"


def next_row_id(table: TableMetadata) -> int:
    """The id that the next new row gets: of a new table 0, of one without the number beyond all that are assigned."""
    stored = getattr(table, "next_row_id", None)
    if stored is not None:
        return int(stored)
    ends = [
        snapshot.first_row_id + (snapshot.added_rows or 0)
        for snapshot in table.snapshots
        if snapshot.first_row_id is not None
    ]
    return max(ends, default=0)


def _model_dump_json(self: pmd.TableMetadataV3, *args: Any, **kwargs: Any) -> str:
    text = with_java_types(super(pmd.TableMetadataV3, self).model_dump_json(*args, **kwargs))
    if self.next_row_id is not None:
        return text
    return json.dumps({**json.loads(text), _NEXT_ROW_ID: next_row_id(self)}, separators=(",", ":"), ensure_ascii=False)


class StaleSnapshotError(CommitFailedException, ValueError):
    """A snapshot whose numbers another commit has taken, perhaps on another branch: it is built and tried again."""


def _add_snapshot(
    update: updates.AddSnapshotUpdate, base_metadata: Any, context: updates._TableMetadataUpdateContext
) -> TableMetadata:
    if base_metadata.format_version != _VERSION:
        return _added(update, base_metadata, context)
    base = base_metadata.model_copy(update={"next_row_id": next_row_id(base_metadata)})
    snapshot = update.snapshot
    _check_sequence(snapshot, base)
    try:
        return _added(update, base, context)
    except ValueError as problem:
        if snapshot.first_row_id is not None and snapshot.first_row_id < base.next_row_id:
            raise StaleSnapshotError(str(problem)) from None
        raise


def _check_sequence(snapshot: Snapshot, base: Any) -> None:
    # PyIceberg checks this of version 2 alone.
    if snapshot.parent_snapshot_id is not None and (snapshot.sequence_number or 0) <= base.last_sequence_number:
        raise StaleSnapshotError(
            f"Cannot add snapshot with sequence number {snapshot.sequence_number} "
            f"older than last sequence number {base.last_sequence_number}"
        )


_added = updates._apply_table_update.dispatch(updates.AddSnapshotUpdate)


def _handle_snapshots() -> Callable[[], None]:
    updates._apply_table_update.register(updates.AddSnapshotUpdate, _add_snapshot)

    def undo() -> None:
        updates._apply_table_update.register(updates.AddSnapshotUpdate, _added)

    return undo


_upgrade = Transaction.upgrade_table_version


def _upgrade_table_version(self: Transaction, format_version: Any) -> Transaction:
    if format_version != _VERSION:
        return _upgrade(self, format_version)
    if self.table_metadata.format_version == _VERSION:
        return self
    return self._apply((updates.UpgradeFormatVersionUpdate.model_validate({"format-version": _VERSION}),))


_commit = producers._SnapshotProducer._commit
_summary = producers._SnapshotProducer._summary
_commit_deletes = producers._DeleteFiles._commit


def _commit_with_ids(self: Any) -> updates.UpdatesAndRequirements:
    """The same commit; a snapshot of version 3 has its first row id, and how many ids it assigns."""
    table = self._transaction.table_metadata
    if table.format_version != _VERSION:
        return _commit(self)
    ids = manifests.RowIds(next_row_id(table))
    token = manifests.row_ids.set(ids)
    try:
        changes, requirements = _commit(self)
    finally:
        manifests.row_ids.reset(token)
    numbered = {"first_row_id": ids.first, "added_rows": ids.next - ids.first}
    return (
        tuple(
            change.model_copy(update={"snapshot": change.snapshot.model_copy(update=numbered)})
            if isinstance(change, updates.AddSnapshotUpdate)
            else change
            for change in changes
        ),
        requirements,
    )


def _marked_summary(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The summary, with the geographies whose bounds in all new files cover their edges."""
    summary = _summary(self, *args, **kwargs)
    if ids := manifests.common_edges(self._added_data_files):
        summary[EDGES] = edge_mark(ids)
    return summary


def _commit_whole_files(self: producers._DeleteFiles) -> updates.UpdatesAndRequirements:
    """Deletes of version 3 take away whole files: PyIceberg's rewrite would give new ids to rows that stay."""
    if self._transaction.table_metadata.format_version == _VERSION and self.rewrites_needed:
        raise RefusedError(
            "the filter matches some rows of a file and not others; rewriting the file here would lose the ids of "
            "the rows that stay",
            where=".".join(self._transaction._table.name()),
            remedy="delete whole files or partitions, or delete these rows with Spark",
        )
    return _commit_deletes(self)


def patches() -> Iterator[Patch | Callable[[], Callable[[], None]]]:
    """Metadata, updates and snapshots of version 3."""
    yield Patch(pmd.TableMetadataV3, "model_dump_json", _model_dump_json)
    yield Patch(pmd, "SUPPORTED_TABLE_FORMAT_VERSION", _VERSION)
    yield Patch(updates, "SUPPORTED_TABLE_FORMAT_VERSION", _VERSION)
    yield _handle_snapshots
    yield Patch(Transaction, "upgrade_table_version", _upgrade_table_version)
    yield Patch(producers._SnapshotProducer, "_commit", _commit_with_ids)
    yield Patch(producers._SnapshotProducer, "_summary", _marked_summary)
    yield Patch(producers._DeleteFiles, "_commit", _commit_whole_files)
