"""Commits a change of a Delta table: writes the next file of its log if that file does not exist."""

from __future__ import annotations

import datetime as dt
import enum
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from geolake_nb import __version__
from geolake_nb.errors import (
    AlreadyThereError,
    ConflictError,
    CorruptTableError,
    GeolakeError,
    MissingFileError,
    NotATableError,
    OutcomeUnknownError,
    RefusedError,
)
from geolake_nb.formats.base import Applied
from geolake_nb.formats.delta.concurrency import Touched, conflict
from geolake_nb.formats.delta.history import read_commit_info
from geolake_nb.formats.delta.log_replay import small_actions
from geolake_nb.formats.delta.log_segment import LOG, LogListing, list_log
from geolake_nb.formats.delta.write import with_table_id
from geolake_nb.storage.location import Entry
from geolake_nb.storage.writing import WriteStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.model.change import Change
    from geolake_nb.storage.storage import Storage

__all__ = [
    "Committed",
    "DeltaCommit",
    "Phase",
    "PutIfAbsent",
    "commit",
    "commit_change",
    "find_commit",
    "find_transaction",
    "log_path",
    "require_atomic_put",
]

_IN_COMMIT_TIMES = ("delta.enableInCommitTimestamps", "delta.enableInCommitTimestamps-preview")
_REREADS = 5


class Phase(enum.Enum):
    """The progress of a commit, reported with the version that is being written."""

    START = "start"
    """Nothing has been read yet."""
    READ_LOG = "read log"
    """The log was read, and commits since the base version do not conflict."""
    BEFORE_PUT = "before put"
    """The content of the commit is ready."""
    TEMP_WRITTEN = "temp written"
    """On the local disk: the file is written under a hidden name."""
    LINKED = "linked"
    """On the local disk: the file has its final name and is part of the table."""
    LOST = "lost"
    """Another writer committed this version without conflict: the next version is tried."""
    COMMITTED = "committed"
    """The commit is done."""


@dataclass(frozen=True, slots=True, eq=False)
class DeltaCommit:
    """A change of a table, byte for byte except `commitInfo`."""

    base_version: int
    """The version that the change was planned on; -1 creates the table."""
    operation: str
    parameters: Mapping[str, str]
    actions: Sequence[str]
    """The JSON texts of whole actions, in order and without `commitInfo`."""
    transaction: str
    """A UUID that identifies the commit."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    blind_append: bool = False
    tolerates_appends: bool = True
    """Whether the change is still valid after others added files; a change of a type is not."""
    table_id: str | None = None
    """The table id in the metadata of the base version, if the caller wants to check that it is the same table."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed change."""

    version: int
    transaction: str
    rebased_over: tuple[int, ...]
    """The versions that others committed since the base version."""
    timestamp: dt.datetime


class PutIfAbsent(Protocol):
    """Writes a file below the root of the table; AlreadyThereError if it exists, OutcomeUnknownError in doubt."""

    def __call__(self, path: str, data: bytes, /) -> None:
        """Write the file."""
        ...


def commit(
    storage: Storage,
    change: DeltaCommit,
    *,
    put: PutIfAbsent | None = None,
    on_phase: Callable[[Phase, int], None] | None = None,
) -> Committed:
    """Write the change as the next version, on top of versions that others committed meanwhile without conflict.

    Without `put` the storage writes. A change whose transaction is already in the table is not written again.
    ConflictError: another change conflicts, and nothing was written. OutcomeUnknownError: it may be committed or not.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> metadata = '{"metaData":{"id":"1","schemaString":"{}","partitionColumns":[],"configuration":{}}}'
    >>> protocol = '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}'
    >>> change = DeltaCommit(-1, "CREATE TABLE", {}, [protocol, metadata], "one")
    >>> commit(storage, change).version, commit(storage, change).version
    (0, 0)
    >>> commit(storage, DeltaCommit(-1, "CREATE TABLE", {}, [protocol, metadata], "two"))
    Traceback (most recent call last):
    geolake_nb.errors.ConflictError: ...: version 0 created the table meanwhile; plan the change again
    """
    return _Committer(storage, change, put, on_phase).run()


def find_commit(storage: Storage, transaction: str, *, since: int) -> int | None:
    """The version after `since` that a transaction committed, `None` if it is not in the table.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> find_commit(Storage.at(tempfile.mkdtemp()), "a", since=-1) is None
    True
    """
    try:
        listing = list_log(storage)
    except NotATableError:
        return None
    missing: list[int] = []
    for version in range(since + 1, listing.latest + 1):
        if version not in listing.commits:
            missing.append(version)
        elif read_commit_info(storage, listing.commits[version]).get("txnId") == transaction:
            return version
    if missing:
        raise OutcomeUnknownError(
            f"the commits of {_versions(missing)} were cleaned up, so their transactions are unknown",
            where=storage.location,
            remedy="compare the table with the intended change",
        )
    return None


def log_path(version: int) -> str:
    """The commit file of a version.

    >>> log_path(7)
    '_delta_log/00000000000000000007.json'
    """
    return f"{LOG}/{version:020}.json"


class _Committer:
    """Commits one change to one table."""

    def __init__(
        self,
        storage: Storage,
        change: DeltaCommit,
        put: PutIfAbsent | None,
        on_phase: Callable[[Phase, int], None] | None,
    ) -> None:
        self._storage = storage
        self._change = change
        self._put = put
        self._on_phase = on_phase or (lambda phase, version: None)
        self._actions = _lines(change.actions, storage.location)
        self._ours = Touched.by(storage, f"{storage.location}, the change", self._actions)
        if self._ours.info or self._ours.unknown:
            kind = "commitInfo" if self._ours.info else min(self._ours.unknown)
            raise RefusedError(f"the action {kind[:60]!r} is not supported here", where=storage.location)
        self._rebased: list[int] = []

    def run(self) -> Committed:
        base = self._change.base_version
        self._on_phase(Phase.START, base + 1)
        listing = self._list()
        for version in range(base + 1, listing.latest + 1):
            if (applied_version := self._meet(version, listing)) is not None:
                return applied_version
        timed = self._keeps_times(listing)
        version = listing.latest + 1
        previous = self._time_of(version - 1) if timed and version else None
        self._on_phase(Phase.READ_LOG, version)
        while True:
            moment = time.time_ns() // 1_000_000
            if previous is not None:
                # Delta, In-commit timestamps: later than that of the version before.
                moment = max(moment, previous + 1)
            data = commit_info(self._change, moment, in_commit=timed) + b"\n" + self._actions
            self._on_phase(Phase.BEFORE_PUT, version)
            if self._write(version, data):
                self._on_phase(Phase.COMMITTED, version)
                return self._committed(version, moment)
            if (applied_version := self._meet(version, None)) is not None:
                return applied_version
            if timed:
                previous = self._time_of(version)
            self._on_phase(Phase.LOST, version)
            version += 1

    def _list(self) -> LogListing:
        base = self._change.base_version
        try:
            listing = list_log(self._storage)
        except NotATableError:
            if base >= 0:
                raise
            return LogListing(self._storage.location)
        if listing.latest < base:
            raise ConflictError(
                f"version {base}, the base of the planned change, no longer exists",
                where=self._storage.location,
                remedy="plan the change again",
            )
        return listing

    def _keeps_times(self, listing: LogListing) -> bool:
        """Whether commits must have in-commit timestamps."""
        now = self._ours.metadata
        requested = None if now is None else _switched_on(now)
        if self._change.base_version < 0:
            return bool(requested)
        # No commit since the base version changed the metadata: that would be a conflict.
        before = small_actions(self._storage, listing.segment(self._change.base_version)).metadata or {}
        if self._change.table_id is not None and before.get("id") != self._change.table_id:
            raise ConflictError(
                "the table was replaced by another one after the change was planned",
                where=self._storage.location,
                remedy="plan the change again",
            )
        was = _switched_on(before)
        if requested and not was:
            raise RefusedError(
                f"the change enables {_IN_COMMIT_TIMES[0]}, which is supported only when a table is created",
                where=self._storage.location,
            )
        return was if requested is None else requested

    def _meet(self, version: int, listing: LogListing | None) -> Committed | None:
        """Check an existing version: it is our own commit, or it must not conflict with the change."""
        theirs = self._read(version, listing)
        if theirs.info.get("txnId") == self._change.transaction:
            moment = theirs.info.get("inCommitTimestamp", theirs.info.get("timestamp"))
            return self._committed(version, moment if isinstance(moment, int) else 0)
        if self._change.base_version < 0:
            problem: str | None = "created the table meanwhile" if version == 0 else "already exists"
        else:
            problem = conflict(self._ours, theirs, tolerates_appends=self._change.tolerates_appends)
        if problem is not None:
            by = theirs.info.get("operation")
            who = f" ({by[:60]})" if isinstance(by, str) and self._change.base_version >= 0 else ""
            raise ConflictError(
                f"version {version}{who} {problem}", where=self._storage.location, remedy="plan the change again"
            )
        self._rebased.append(version)
        return None

    def _read(self, version: int, listing: LogListing | None) -> Touched:
        path = log_path(version)
        if listing is not None and version not in listing.commits:
            if _was_cleaned_up(listing, version):
                raise ConflictError(
                    f"the commit of version {version} was cleaned up, so its changes are unknown",
                    where=self._storage.location,
                    remedy="plan the change again",
                )
            raise CorruptTableError(
                f"the log has a gap: version {version} is missing", where=f"{self._storage.location}/{LOG}"
            )
        for again in range(_REREADS + 1):
            try:
                data = self._storage.read(path)
                break
            except MissingFileError:
                # A store can refuse a write while another one is in progress.
                if again == _REREADS:
                    raise
                time.sleep(0.05 * 2**again)
        return Touched.by(self._storage, f"{self._storage.location}/{path}", data)

    def _time_of(self, version: int) -> int:
        path = log_path(version)
        try:
            info = read_commit_info(self._storage, Entry(path, self._storage.size(path), None))
        except MissingFileError:
            info = {}
        moment = info.get("inCommitTimestamp")
        if type(moment) is not int:
            raise CorruptTableError(
                f"version {version} has no inCommitTimestamp, and that of the next version must be later",
                where=f"{self._storage.location}/{path}",
            )
        return moment

    def _write(self, version: int, data: bytes) -> bool:
        """Whether it was written; `False` if the version exists."""
        steps = {WriteStep.TEMP_WRITTEN: Phase.TEMP_WRITTEN, WriteStep.LINKED: Phase.LINKED}
        try:
            if self._put is not None:
                self._put(log_path(version), data)
            else:
                self._storage.put_if_absent(
                    log_path(version), data, on_step=lambda step: self._on_phase(steps[step], version)
                )
        except AlreadyThereError:
            return False
        except OutcomeUnknownError as problem:
            raise self._unknown(version, problem.what) from problem
        except GeolakeError:
            raise
        except BaseException as problem:  # an interrupt can also come after the write
            raise self._unknown(version, str(problem) or type(problem).__name__) from problem
        return True

    def _unknown(self, version: int, why: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"version {version} may or may not be in the table: {why[:300]}",
            where=self._storage.location,
            remedy="keep all files and check the history again: it is committed if a version has the"
            f" txnId {self._change.transaction}",
        )

    def _committed(self, version: int, moment: int) -> Committed:
        when = dt.datetime.fromtimestamp(moment / 1000, dt.UTC)
        return Committed(version, self._change.transaction, tuple(self._rebased), when)


def commit_info(change: DeltaCommit, moment: int, *, in_commit: bool = False) -> bytes:
    """The first line of the entry of a change, at a time in milliseconds since 1970."""
    info: dict[str, Any] = {"inCommitTimestamp": moment} if in_commit else {}
    info |= {
        "timestamp": moment,
        "operation": change.operation,
        "operationParameters": dict(change.parameters),
    }
    if change.base_version >= 0:
        info["readVersion"] = change.base_version
    info["isBlindAppend"] = change.blind_append
    if change.metrics:
        info["operationMetrics"] = dict(change.metrics)
    info |= {"engineInfo": f"geolake_nb/{__version__}", "txnId": change.transaction}
    return orjson.dumps({"commitInfo": info})


def _lines(actions: Sequence[str], location: str) -> bytes:
    for number, action in enumerate(actions, 1):
        if "\n" in action or "\r" in action:
            raise RefusedError(f"action {number} of the change has several lines", where=location)
    return "".join(f"{action}\n" for action in actions).encode()


def _switched_on(metadata: Mapping[str, Any]) -> bool:
    configuration = metadata.get("configuration")
    return isinstance(configuration, dict) and any(
        str(configuration.get(name)).lower() == "true" for name in _IN_COMMIT_TIMES
    )


def _was_cleaned_up(listing: LogListing, version: int) -> bool:
    """Whether the version is in a checkpoint or a compacted log, so that its own commit file need not exist."""
    return any(checkpoint.version >= version for checkpoint in listing.checkpoints) or any(
        delta.first <= version <= delta.last for delta in listing.compacted
    )


def _versions(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"version {numbers[0]}"
    return f"{len(numbers)} versions from {numbers[0]} to {numbers[-1]}"


def find_transaction(change: Change, context: CommitContext) -> int | None:
    """The version that already has the transaction, `None` if there is none."""
    return find_commit(context.storage, context.transaction, since=_base(change))


def require_atomic_put(context: CommitContext) -> None:
    """Raise if the store of the table has no atomic put."""
    from geolake_nb.storage.writing import require_exclusion

    if context.spark is None:
        require_exclusion(context.storage, single_writer=context.single_writer, folder=LOG)
    else:
        _put(context)


def commit_change(change: Change, context: CommitContext) -> Applied:
    """Write the log entry; appends of other writers are accepted, their other changes are conflicts."""
    if change.base_version is None:
        change = with_table_id(change, context.transaction)
    made = commit(context.storage, delta_commit(change, context.transaction), put=_put(context))
    return Applied(made.version, made.rebased_over, change.metrics)


def delta_commit(change: Change, transaction: str) -> DeltaCommit:
    """The change as it is committed."""
    return DeltaCommit(
        base_version=_base(change),
        operation=f"GEOLAKE {change.verb.value.upper()}",
        parameters=change.parameters,
        actions=change.actions,
        transaction=transaction,
        metrics={name: str(value) for name, value in change.metrics.items()},
        blind_append=change.blind_append,
        tolerates_appends=change.tolerates_appends,
        table_id=change.table_id,
    )


def _base(change: Change) -> int:
    return -1 if change.base_version is None else change.base_version


def _put(context: CommitContext) -> PutIfAbsent | None:
    """How the log entry is written: by the storage itself, or through the store of the session that is given."""
    from geolake_nb.formats.delta.concurrency import session_put
    from geolake_nb.storage.writing import storage_put

    if context.storage.is_local:
        return None
    if context.spark is not None:
        return session_put(context.spark, context.storage.location, single_writer=context.single_writer)
    return storage_put(context.storage, single_writer=context.single_writer)
