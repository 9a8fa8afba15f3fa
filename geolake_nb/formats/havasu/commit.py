"""Commits a change of a Havasu table: writes the next metadata file if it does not exist; no JVM is needed."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from geolake_nb import __version__
from geolake_nb.errors import AlreadyThereError, ConflictError, GeolakeError, OutcomeUnknownError
from geolake_nb.formats.base import Applied, warn_of_problems
from geolake_nb.formats.havasu.metadata import (
    FIRST_METADATA,
    following_path,
    packed_metadata,
    with_current,
    with_snapshot,
)
from geolake_nb.formats.havasu.snapshot_writing import Actions, SnapshotWriter
from geolake_nb.formats.iceberg.location import find_metadata
from geolake_nb.formats.iceberg.metadata import TRANSACTION, read_metadata, unpacked_metadata
from geolake_nb.model.change import Verb
from geolake_nb.storage.writing import require_exclusion, storage_put

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.formats.iceberg.metadata import TableMetadata
    from geolake_nb.model.change import Change
    from geolake_nb.storage.storage import Storage

__all__ = [
    "Committed",
    "HavasuCommit",
    "PutIfAbsent",
    "commit",
    "commit_change",
    "find_commit",
    "find_transaction",
    "require_atomic_put",
]

_AGAIN = "plan the change again"


class PutIfAbsent(Protocol):
    """Writes a file below the root of the table; AlreadyThereError if it exists, OutcomeUnknownError in doubt."""

    def __call__(self, path: str, data: bytes, /) -> None:
        """Write the file."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class HavasuCommit:
    """A change of a table, exact except for the snapshot id and the time.

    `actions` are JSON texts of one object each: `create` with the metadata of a new table, `base` with what the table
    must still match, `add`, `remove` and `update_bounds` with a file each, or `rollback` with the snapshots from
    and to which it goes.
    """

    base_snapshot: int | None
    """The snapshot that the change was planned on; `None` for a table without one, or a new table."""
    operation: str
    """Of Iceberg: `append`, `overwrite`, `replace` or `delete`."""
    actions: Sequence[str]
    transaction: str
    summary: Mapping[str, str] = field(default_factory=dict)
    """For the snapshot's summary."""
    blind_append: bool = False
    """Whether the change is valid whatever others did to the rows."""
    tolerates_appends: bool = True


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed change."""

    snapshot_id: int
    rebased_over: tuple[int, ...] = ()
    """The snapshots that others committed since the base."""


def commit(storage: Storage, change: HavasuCommit, *, put: PutIfAbsent | None = None) -> Committed:
    """Write the change as the next metadata file, on top of appends that others committed meanwhile.

    Without `put` the storage writes. ConflictError: another change conflicts, and nothing of this one is in the
    table. OutcomeUnknownError: it may be committed or not.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> metadata = {"format-version": 1, "last-column-id": 1, "partition-spec": [], "schema": {"type": "struct",
    ...     "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}]}}
    >>> change = HavasuCommit(None, "append", [json.dumps({"create": metadata})], "one")
    >>> made = commit(storage, change)
    >>> commit(storage, change) == made, find_commit(storage, "one") == made.snapshot_id
    (True, True)
    """
    return _Committer(storage, change, put or storage.put_if_absent).run()


def find_commit(storage: Storage, transaction: str) -> int | None:
    """The snapshot that a transaction committed, `None` if the table does not list it.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> find_commit(Storage.at(tempfile.mkdtemp()), "one") is None
    True
    """
    loaded = _load(storage)
    return None if loaded is None else _find_transaction(loaded[1], transaction)


def _load(storage: Storage) -> tuple[str, TableMetadata, str] | None:
    """The newest metadata file: its path, its parsed content, and its text."""
    path = find_metadata(storage)
    if path is None:
        return None
    where = f"{storage.location}/{path}"
    data = unpacked_metadata(storage.read(path), where=where)
    table = read_metadata(data, where=where)
    return path, table, data.decode(json.detect_encoding(data))


def _find_transaction(table: TableMetadata, transaction: str) -> int | None:
    return next(
        (id_ for id_, snapshot in table.snapshots.items() if snapshot.summary.get(TRANSACTION) == transaction), None
    )


class _Committer:
    """Commits one change to one table."""

    def __init__(self, storage: Storage, change: HavasuCommit, put: PutIfAbsent) -> None:
        self._storage = storage
        self._change = change
        self._put = put
        self._actions = Actions(change.actions, where=storage.location)
        self._writer = SnapshotWriter(storage, self._actions, transaction=change.transaction)

    def run(self) -> Committed:
        """Commit the change, or raise an error that explains why not."""
        try:
            while True:
                done = self._attempt()
                if done is not None:
                    return done
        except OutcomeUnknownError:
            raise  # the files may be in the table
        except BaseException:
            self._writer.clean()
            raise

    def _attempt(self) -> Committed | None:
        """One attempt; `None` if another writer committed the version first."""
        loaded = _load(self._storage)
        if (
            loaded is not None
            and (applied_version := _find_transaction(loaded[1], self._change.transaction)) is not None
        ):
            return Committed(applied_version)
        if self._actions.create is not None:
            return self._create(loaded)
        if loaded is None:
            raise self._conflict("the table no longer exists")
        path, table, text = loaded
        if self._actions.rollback is not None and self._is_back(table):
            return Committed(self._actions.rollback["to"])
        between = self._meet(table)
        following = following_path(path, where=self._storage.location)
        stored = f"{table.location.rstrip('/')}/{path}"
        moment = max(time.time_ns() // 1_000_000, int(table.raw["last-updated-ms"]))
        if self._actions.rollback is not None:
            after = with_current(text, self._actions.rollback["to"], moment=moment, before=stored)
            made = self._actions.rollback["to"]
        else:
            after = with_snapshot(text, self._snapshot(table, moment), before=stored)
            made = self._writer.snapshot_id
        return Committed(made, tuple(between)) if self._write(following, after) else None

    def _create(self, existing: object | None) -> Committed | None:
        if existing is not None:
            raise self._conflict("the table already exists", remedy="use another location")
        moment = time.time_ns() // 1_000_000
        raw = {
            **(self._actions.create or {}),
            # Derived from the transaction, so that a retry creates the same table.
            "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, self._change.transaction)),
            "location": self._storage.location,
            "last-updated-ms": moment,
        }
        text = json.dumps(raw, separators=(",", ":"), ensure_ascii=False)
        table = read_metadata(text.encode(), where=self._storage.location)
        after = with_snapshot(text, self._snapshot(table, moment), before=None)
        return Committed(self._writer.snapshot_id) if self._write(FIRST_METADATA, after) else None

    def _meet(self, table: TableMetadata) -> list[int]:
        """The snapshots since the base; ConflictError if one of them conflicts with the change."""
        base, expected = self._change.base_snapshot, self._actions.base
        now = {
            "uuid": table.raw.get("table-uuid"),
            "schema": table.current_schema_id,
            "spec": table.default_spec_id,
            "version": table.format_version,
        }
        if expected.get("uuid", now["uuid"]) != now["uuid"]:
            raise self._conflict("the table was replaced by another one after the change was planned")
        if any(expected.get(key, value) != value for key, value in now.items()):
            raise self._conflict("the schema, the partitions or the format version was changed meanwhile")
        between: list[int] = []
        at = table.current_snapshot_id
        while at != base:
            snapshot = table.snapshots.get(at) if at is not None else None
            if at is None or snapshot is None or at in between:
                raise self._conflict("the base snapshot of the planned change is no longer in the table's history")
            between.append(at)
            at = snapshot.parent_id
        for id_ in reversed(between):
            operation = table.snapshots[id_].operation
            if self._actions.rollback is not None:
                raise self._conflict(f"the snapshot {id_} ({operation}) is based on the snapshot to undo")
            if self._change.blind_append:
                continue
            if operation != "append" or not self._change.tolerates_appends:
                raise self._conflict(f"the snapshot {id_} ({operation}) was committed meanwhile")
        return between[::-1]

    def _is_back(self, table: TableMetadata) -> bool:
        """Whether the snapshot log shows that the table was already rolled back after the snapshot to undo."""
        assert self._actions.rollback is not None
        ids = [id_ for _, id_ in table.snapshot_log]
        undone, to = self._actions.rollback["from"], self._actions.rollback["to"]
        last = len(ids) - 1 - ids[::-1].index(undone) if undone in ids else -1
        return table.current_snapshot_id != undone and last >= 0 and to in ids[last:]

    def _snapshot(self, table: TableMetadata, moment: int) -> dict[str, Any]:
        """The snapshot as the metadata lists it; its manifests are written."""
        summary = {
            **self._change.summary,
            "engine-name": "geolake_nb",
            "engine-version": __version__,
            TRANSACTION: self._change.transaction,
        }
        return self._writer.write(table, moment, operation=self._change.operation, summary=summary)

    def _write(self, path: str, text: str) -> bool:
        """Whether the metadata file was written; `False` if it exists."""
        try:
            self._put(path, packed_metadata(text, path))
        except AlreadyThereError:
            return False
        except OutcomeUnknownError as problem:
            raise self._unknown(path, problem.what) from problem
        except GeolakeError:
            raise
        except BaseException as problem:  # an interrupt can also come after the write
            raise self._unknown(path, str(problem) or type(problem).__name__) from problem
        self._hint(path)
        return True

    def _hint(self, path: str) -> None:
        """Write the version hint; readers that find an older number or none search on from there."""
        number = "".join(filter(str.isdigit, path.rpartition("/")[2].partition(".")[0]))
        hint = "metadata/version-hint.text"
        with suppress(GeolakeError):
            try:
                self._storage.put_if_absent(hint, number.encode())
            except AlreadyThereError:
                with self._storage.atomic_replace(hint) as temporary, open(temporary, "w") as file:
                    file.write(number)

    def _conflict(self, what: str, *, remedy: str = _AGAIN) -> ConflictError:
        return ConflictError(what, where=self._storage.location, remedy=remedy)

    def _unknown(self, path: str, why: str) -> OutcomeUnknownError:
        back = self._actions.rollback
        sign = f"the summary of a snapshot has the {TRANSACTION} {self._change.transaction}"
        return OutcomeUnknownError(
            f"{path} may or may not be in the table: {why[:300]}",
            where=self._storage.location,
            remedy="keep all files and check the history again: it is committed if "
            + (sign if back is None else f"{back['to']} is the current snapshot"),
        )


# Iceberg, Snapshots: new rows, the same rows in other files, and rows in place of others.
_OPERATIONS = {"append": "append", "create": "append", "overwrite": "overwrite"}
_PROBE = "metadata"


def find_transaction(change: Change, context: CommitContext) -> int | None:
    """The snapshot that already has the transaction, `None` if there is none."""
    return find_commit(context.storage, context.transaction)


def require_atomic_put(context: CommitContext) -> None:
    """Raise if the store of the table has no atomic put."""
    require_exclusion(context.storage, single_writer=context.single_writer, folder=_PROBE)


def commit_change(change: Change, context: CommitContext) -> Applied:
    """Write the next metadata file; appends of other writers are accepted, their other changes are conflicts."""
    adds = [json.loads(action).get("add", {}) for action in change.actions if '"problems"' in action]
    unbounded = warn_of_problems(adds)
    made = commit(
        context.storage,
        HavasuCommit(
            base_snapshot=change.base_version,
            operation=_operation(change),
            actions=change.actions,
            transaction=context.transaction,
            summary={
                "geolake.verb": change.verb.value,
                **{f"geolake.{name}": text for name, text in change.parameters.items()},
            },
            blind_append=change.blind_append,
            tolerates_appends=change.tolerates_appends,
        ),
        put=storage_put(context.storage, single_writer=context.single_writer),
    )
    metrics = {**change.metrics, **({"files_without_bound": unbounded} if unbounded else {})}
    return Applied(made.snapshot_id, made.rebased_over, metrics)


def _operation(change: Change) -> str:
    if change.verb in (Verb.CONVERT, Verb.WRITE):
        return _OPERATIONS.get(change.parameters.get("mode", "create"), "append")
    return "replace"
