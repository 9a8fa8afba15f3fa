"""The one way in which a Delta table is changed: the next file of its log, written if it is not there."""

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
from geolake_nb.formats.delta.conflicts import Touched, conflict
from geolake_nb.formats.delta.history import read_commit_info
from geolake_nb.formats.delta.log_replay import small_actions
from geolake_nb.formats.delta.log_segment import LOG, LogListing, list_log
from geolake_nb.formats.storage_place import Entry
from geolake_nb.formats.storage_writing import WriteStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geolake_nb.formats.storage import Storage

__all__ = ["Committed", "DeltaCommit", "Phase", "PutIfAbsent", "commit", "find_commit", "log_path"]

_IN_COMMIT_TIMES = ("delta.enableInCommitTimestamps", "delta.enableInCommitTimestamps-preview")
_REREADS = 5


class Phase(enum.Enum):
    """How far a commit has come; the version that goes with it is the one that is being written."""

    START = "start"
    """Nothing was read yet."""
    READ_LOG = "read log"
    """The log was read, and what others committed since the base allows the change."""
    BEFORE_PUT = "before put"
    """The text of the commit is made."""
    TEMP_WRITTEN = "temp written"
    """On the local disk: it is written under a hidden name."""
    LINKED = "linked"
    """On the local disk: it has its name, and counts."""
    LOST = "lost"
    """Another writer has made this version, and it allows the change: the next version is tried."""
    COMMITTED = "committed"
    """It is done."""


@dataclass(frozen=True, slots=True, eq=False)
class DeltaCommit:
    """A change of a table, exact to the byte but for `commitInfo`."""

    base_version: int
    """The version that the change was planned on; -1 creates the table."""
    operation: str
    parameters: Mapping[str, str]
    actions: Sequence[str]
    """The JSON texts of whole actions, in order and without `commitInfo`."""
    transaction: str
    """A UUID, by which the commit is found again."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    blind_append: bool = False
    tolerates_appends: bool = True
    """Whether the change is still right after others added files; a change of a type is not."""
    table_id: str | None = None
    """The id in the metadata of the base, where the caller wants to be sure that it is the same table still."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A change that is in the table."""

    version: int
    transaction: str
    rebased_over: tuple[int, ...]
    """The versions that others made since the base."""
    timestamp: dt.datetime


class PutIfAbsent(Protocol):
    """Writes a file below the root of the table; AlreadyThereError if it is there, OutcomeUnknownError in doubt."""

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
    """Write the change as the next version, over versions that others made meanwhile where it allows them.

    Without `put` the storage writes. A change that its transaction shows to be in the table is not written again.
    ConflictError: another change is in the way, and nothing was written. OutcomeUnknownError: it may be in or not.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
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
    """The version after `since` that a transaction made, `None` if it is not in the table.

    >>> import tempfile
    >>> from geolake_nb.formats.storage import Storage
    >>> find_commit(Storage.at(tempfile.mkdtemp()), "a", since=-1) is None
    True
    """
    try:
        listing = list_log(storage)
    except NotATableError:
        return None
    gone: list[int] = []
    for version in range(since + 1, listing.latest + 1):
        if version not in listing.commits:
            gone.append(version)
        elif read_commit_info(storage, listing.commits[version]).get("txnId") == transaction:
            return version
    if gone:
        raise OutcomeUnknownError(
            f"the commits of {_versions(gone)} were cleaned up, and with them who made them",
            where=storage.location,
            remedy="compare the table with the change that was meant",
        )
    return None


def log_path(version: int) -> str:
    """The commit file of a version.

    >>> log_path(7)
    '_delta_log/00000000000000000007.json'
    """
    return f"{LOG}/{version:020}.json"


class _Committer:
    """One change on its way into one table."""

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
            raise RefusedError(f"the action {kind[:60]!r} is not written here", where=storage.location)
        self._rebased: list[int] = []

    def run(self) -> Committed:
        base = self._change.base_version
        self._on_phase(Phase.START, base + 1)
        listing = self._list()
        for version in range(base + 1, listing.latest + 1):
            if (landed := self._meet(version, listing)) is not None:
                return landed
        timed = self._keeps_times(listing)
        version = listing.latest + 1
        previous = self._time_of(version - 1) if timed and version else None
        self._on_phase(Phase.READ_LOG, version)
        while True:
            moment = time.time_ns() // 1_000_000
            if previous is not None:
                # Delta, In-commit timestamps: later than that of the version before.
                moment = max(moment, previous + 1)
            data = self._info(moment, in_commit=timed) + b"\n" + self._actions
            self._on_phase(Phase.BEFORE_PUT, version)
            if self._write(version, data):
                self._on_phase(Phase.COMMITTED, version)
                return self._committed(version, moment)
            if (landed := self._meet(version, None)) is not None:
                return landed
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
                f"version {base}, on which the change was planned, is gone",
                where=self._storage.location,
                remedy="plan the change again",
            )
        return listing

    def _keeps_times(self, listing: LogListing) -> bool:
        """Whether commits have to hold their times."""
        now = self._ours.metadata
        asked = None if now is None else _switched_on(now)
        if self._change.base_version < 0:
            return bool(asked)
        # No commit since the base has changed the metadata, else it would be in conflict.
        before = small_actions(self._storage, listing.segment(self._change.base_version)).metadata or {}
        if self._change.table_id is not None and before.get("id") != self._change.table_id:
            raise ConflictError(
                "another table has taken the place of the one that the change was planned on",
                where=self._storage.location,
                remedy="plan the change again",
            )
        was = _switched_on(before)
        if asked and not was:
            raise RefusedError(
                f"the change switches on {_IN_COMMIT_TIMES[0]}, which is done here at the creation of a table only",
                where=self._storage.location,
            )
        return was if asked is None else asked

    def _meet(self, version: int, listing: LogListing | None) -> Committed | None:
        """Look at a version that is there: our own if it is, else it must allow the change."""
        theirs = self._read(version, listing)
        if theirs.info.get("txnId") == self._change.transaction:
            moment = theirs.info.get("inCommitTimestamp", theirs.info.get("timestamp"))
            return self._committed(version, moment if isinstance(moment, int) else 0)
        if self._change.base_version < 0:
            problem: str | None = "created the table meanwhile" if version == 0 else "is there already"
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
                    f"the commit of version {version} was cleaned up, so that nothing tells what it changed",
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
                # A store can refuse a write for another one that is still under way.
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
                f"version {version} tells no inCommitTimestamp, and the next has to be later",
                where=f"{self._storage.location}/{path}",
            )
        return moment

    def _write(self, version: int, data: bytes) -> bool:
        """Whether it was written; not if the version is there."""
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
        except BaseException as problem:  # an interrupt, too, can come after the write
            raise self._unknown(version, str(problem) or type(problem).__name__) from problem
        return True

    def _unknown(self, version: int, why: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"version {version} may be in the table or not: {why[:300]}",
            where=self._storage.location,
            remedy="keep all files and look at the history again: it is in if a version has the"
            f" txnId {self._change.transaction}",
        )

    def _info(self, moment: int, *, in_commit: bool) -> bytes:
        change = self._change
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

    def _committed(self, version: int, moment: int) -> Committed:
        when = dt.datetime.fromtimestamp(moment / 1000, dt.UTC)
        return Committed(version, self._change.transaction, tuple(self._rebased), when)


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
    """Whether the version is in a checkpoint or a compacted log, so that its own commit need not be there."""
    return any(one.version >= version for one in listing.checkpoints) or any(
        one.first <= version <= one.last for one in listing.compacted
    )


def _versions(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"version {numbers[0]}"
    return f"{len(numbers)} versions from {numbers[0]} to {numbers[-1]}"
