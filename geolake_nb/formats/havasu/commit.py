"""The one way in which a Havasu table is changed: the next metadata file, written if it is not there."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from geolake_nb import __version__
from geolake_nb.errors import AlreadyThereError, ConflictError, GeolakeError, OutcomeUnknownError
from geolake_nb.formats.havasu.next_metadata import (
    FIRST_METADATA,
    following_path,
    packed_metadata,
    with_current,
    with_snapshot,
)
from geolake_nb.formats.havasu.snapshot_writing import Actions, SnapshotWriter
from geolake_nb.formats.iceberg.location import find_metadata
from geolake_nb.formats.iceberg.metadata import TRANSACTION, read_metadata, unpacked_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.iceberg.metadata import TableMetadata
    from geolake_nb.formats.storage import Storage

__all__ = ["Committed", "HavasuCommit", "PutIfAbsent", "commit", "find_commit"]


_AGAIN = "plan the change again"


class PutIfAbsent(Protocol):
    """Writes a file below the root of the table; AlreadyThereError if it is there, OutcomeUnknownError in doubt."""

    def __call__(self, path: str, data: bytes, /) -> None:
        """Write the file."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class HavasuCommit:
    """A change of a table: exact but for the snapshot's number and the time.

    `actions` are JSON texts of one object each: `create` with the metadata of a new table, `base` with what the table
    must still be, `add`, `remove` and `restate` with a file each, or `rollback` with the snapshots that it goes from
    and to.
    """

    base_snapshot: int | None
    """The snapshot that the change was planned on; `None` for a table without one, or that is to be made."""
    operation: str
    """Of Iceberg: `append`, `overwrite`, `replace` or `delete`."""
    actions: Sequence[str]
    transaction: str
    summary: Mapping[str, str] = field(default_factory=dict)
    """For the snapshot's summary."""
    blind_append: bool = False
    """Whether it is right whatever others did to the rows."""
    tolerates_appends: bool = True


@dataclass(frozen=True, slots=True)
class Committed:
    """A change that is in the table."""

    snapshot_id: int
    rebased_over: tuple[int, ...] = ()
    """The snapshots that others made since the base."""


def commit(storage: Storage, change: HavasuCommit, *, put: PutIfAbsent | None = None) -> Committed:
    """Write the change as the next metadata file, over appends that others made meanwhile.

    Without `put` the storage writes. ConflictError: another change is in the way, and nothing of this one is in the
    table. OutcomeUnknownError: it may be in or not.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
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
    """The snapshot that a transaction made, `None` if the table does not list it.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
    >>> find_commit(Storage.at(tempfile.mkdtemp()), "one") is None
    True
    """
    found = _load(storage)
    return None if found is None else _landed(found[1], transaction)


def _load(storage: Storage) -> tuple[str, TableMetadata, str] | None:
    """The newest metadata file: its path, what it says, and its text."""
    path = find_metadata(storage)
    if path is None:
        return None
    where = f"{storage.location}/{path}"
    data = unpacked_metadata(storage.read(path), where=where)
    table = read_metadata(data, where=where)
    return path, table, data.decode(json.detect_encoding(data))


def _landed(table: TableMetadata, transaction: str) -> int | None:
    return next((id_ for id_, one in table.snapshots.items() if one.summary.get(TRANSACTION) == transaction), None)


class _Committer:
    """One change on its way into one table."""

    def __init__(self, storage: Storage, change: HavasuCommit, put: PutIfAbsent) -> None:
        self._storage = storage
        self._change = change
        self._put = put
        self._actions = Actions(change.actions, where=storage.location)
        self._writer = SnapshotWriter(storage, self._actions, transaction=change.transaction)

    def run(self) -> Committed:
        """The change in the table, or an error that says why it is not."""
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
        """One try; `None` if another writer made the version first."""
        found = _load(self._storage)
        if found is not None and (landed := _landed(found[1], self._change.transaction)) is not None:
            return Committed(landed)
        if self._actions.create is not None:
            return self._create(found)
        if found is None:
            raise self._conflict("the table is gone")
        path, table, text = found
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

    def _create(self, found: object | None) -> Committed | None:
        if found is not None:
            raise self._conflict("there is a table already", remedy="give another place")
        moment = time.time_ns() // 1_000_000
        raw = {
            **(self._actions.create or {}),
            # Of the transaction, so that trying again makes no other table.
            "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, self._change.transaction)),
            "location": self._storage.location,
            "last-updated-ms": moment,
        }
        text = json.dumps(raw, separators=(",", ":"), ensure_ascii=False)
        table = read_metadata(text.encode(), where=self._storage.location)
        after = with_snapshot(text, self._snapshot(table, moment), before=None)
        return Committed(self._writer.snapshot_id) if self._write(FIRST_METADATA, after) else None

    def _meet(self, table: TableMetadata) -> list[int]:
        """The snapshots since the base, if each of them allows the change; ConflictError if one does not."""
        base, expected = self._change.base_snapshot, self._actions.base
        now = {
            "uuid": table.raw.get("table-uuid"),
            "schema": table.current_schema_id,
            "spec": table.default_spec_id,
            "version": table.format_version,
        }
        if expected.get("uuid", now["uuid"]) != now["uuid"]:
            raise self._conflict("another table has taken the place of the one that the change was planned on")
        if any(expected.get(key, value) != value for key, value in now.items()):
            raise self._conflict("the schema, the partitions or the format version was changed meanwhile")
        between: list[int] = []
        at = table.current_snapshot_id
        while at != base:
            one = table.snapshots.get(at) if at is not None else None
            if at is None or one is None or at in between:
                raise self._conflict("the snapshot on which the change was planned is not in the table's history now")
            between.append(at)
            at = one.parent_id
        for id_ in reversed(between):
            operation = table.snapshots[id_].operation
            if self._actions.rollback is not None:
                raise self._conflict(f"the snapshot {id_} ({operation}) was built on what would be taken back")
            if self._change.blind_append:
                continue
            if operation != "append" or not self._change.tolerates_appends:
                raise self._conflict(f"the snapshot {id_} ({operation}) came in between")
        return between[::-1]

    def _is_back(self, table: TableMetadata) -> bool:
        """Whether the log of snapshots shows that the table went back after the snapshot that is to be undone."""
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
        """Whether the metadata file was written; not if it is there."""
        try:
            self._put(path, packed_metadata(text, path))
        except AlreadyThereError:
            return False
        except OutcomeUnknownError as problem:
            raise self._unknown(path, problem.what) from problem
        except GeolakeError:
            raise
        except BaseException as problem:  # an interrupt, too, can come after the write
            raise self._unknown(path, str(problem) or type(problem).__name__) from problem
        self._hint(path)
        return True

    def _hint(self, path: str) -> None:
        """Tell readers where to start looking; those that find an older number or none go on from there."""
        number = "".join(filter(str.isdigit, path.rpartition("/")[2].partition(".")[0]))
        hint = "metadata/version-hint.text"
        with suppress(GeolakeError):
            try:
                self._storage.put_if_absent(hint, number.encode())
            except AlreadyThereError:
                with self._storage.replaced_file(hint) as place, open(place, "w") as file:
                    file.write(number)

    def _conflict(self, what: str, *, remedy: str = _AGAIN) -> ConflictError:
        return ConflictError(what, where=self._storage.location, remedy=remedy)

    def _unknown(self, path: str, why: str) -> OutcomeUnknownError:
        back = self._actions.rollback
        sign = f"the summary of a snapshot has the {TRANSACTION} {self._change.transaction}"
        return OutcomeUnknownError(
            f"{path} may be in the table or not: {why[:300]}",
            where=self._storage.location,
            remedy="keep all files and look at the history again: it is in if "
            + (sign if back is None else f"{back['to']} is the current snapshot"),
        )
