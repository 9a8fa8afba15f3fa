"""The log files of a version: commits, compacted logs and the checkpoint to start from."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from geolake_nb.errors import CorruptTableError, MissingFileError, NotATableError, StorageError, VersionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from geolake_nb.storage.storage import Entry, Storage

__all__ = [
    "LOG",
    "Checkpoint",
    "CheckpointHint",
    "CompactedLog",
    "LogListing",
    "LogSegment",
    "list_log",
    "newest_log",
]

LOG = "_delta_log"
_HINT = f"{LOG}/_last_checkpoint"
_COMMIT = re.compile(r"([0-9]{20})\.json")
_COMPACTED = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")
_CLASSIC = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_UUID_NAMED = re.compile(
    r"([0-9]{20})\.checkpoint\.[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.(?:json|parquet)"
)
_MAX_PROBES = 100_000


class CheckpointHint(enum.Enum):
    """The state of `_last_checkpoint`, compared with the checkpoints in the log."""

    RIGHT = "right"
    """It names the newest complete checkpoint."""
    STALE = "stale"
    """It names an older one."""
    MISSING = "missing"
    """There is no such file."""
    CORRUPT = "corrupt"
    """It is not a JSON object with a version."""
    WRONG = "wrong"
    """It names a checkpoint that does not exist or lacks parts."""


_Hint: TypeAlias = "Mapping[str, Any] | CheckpointHint | None"
"""The content of `_last_checkpoint`, what is wrong with it, or `None` if the file is missing."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint."""

    version: int
    paths: tuple[str, ...]
    """One file, or the parts in order."""
    sizes: tuple[int, ...] = ()
    """Their sizes in bytes, from the listing."""


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """One file with the reconciled actions of several commits."""

    first: int
    last: int
    path: str


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The log files of a version, oldest first."""

    version: int
    checkpoint: Checkpoint | None
    deltas: tuple[str, ...]
    """Commits and compacted logs after the checkpoint, in order."""
    commit: str | None
    """The commit of the version itself, with its author and time; it may have been cleaned up."""
    covered: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The commits that each compacted log among the deltas covers, none if some are missing."""


@dataclass(frozen=True, slots=True)
class LogListing:
    """A listing of the log of a table, or of its newest part."""

    location: str
    commits: Mapping[int, Entry] = field(default_factory=dict, hash=False)
    compacted: tuple[CompactedLog, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    """The complete checkpoints, oldest first, at most one per version."""
    incomplete: Mapping[int, str] = field(default_factory=dict, hash=False)
    """The missing parts of incomplete checkpoints, by version."""
    hint: CheckpointHint = CheckpointHint.MISSING
    since: int = 0
    """The first version that was listed."""

    def with_hint(self, hint: _Hint) -> LogListing:
        """The same listing with the state of the hint."""
        versions = [checkpoint.version for checkpoint in self.checkpoints]
        if hint is None:
            state = CheckpointHint.MISSING
        elif isinstance(hint, CheckpointHint):
            state = hint
        elif hint["version"] not in versions:
            state = CheckpointHint.WRONG
        else:
            state = CheckpointHint.RIGHT if hint["version"] == versions[-1] else CheckpointHint.STALE
        return replace(self, hint=state)

    def checked(self) -> LogListing:
        """The same listing if it has a version; else raise an error that describes what is left of the log."""
        if self.latest >= 0:
            return self
        if self.incomplete:
            what = "; ".join(f"the checkpoint of version {at} lacks {what}" for at, what in self.incomplete.items())
            raise CorruptTableError(what, where=f"{self.location}/{LOG}")
        raise NotATableError("there is no Delta log", where=self.location)

    @property
    def latest(self) -> int:
        """The newest version."""
        checkpoint = self.checkpoints[-1].version if self.checkpoints else -1
        compacted = max((delta.last for delta in self.compacted), default=-1)
        return max(max(self.commits, default=-1), checkpoint, compacted)

    @property
    def earliest(self) -> int:
        """The oldest version that can still be read."""
        starts = [checkpoint.version for checkpoint in self.checkpoints]
        if 0 in self.commits or any(delta.first == 0 for delta in self.compacted):
            starts.append(0)
        return min(starts, default=0)

    def segment(self, version: int | None = None) -> LogSegment:
        """The log files of this version, or of the newest.

        >>> LogListing("t", checkpoints=(Checkpoint(7, ("7.parquet",)),)).segment(9)
        Traceback (most recent call last):
        geolake_nb.errors.VersionError: t: there is no version 9; the versions are 7 to 7
        """
        wanted = self.latest if version is None else version
        if not 0 <= wanted <= self.latest:
            remedy = f"the versions are {self.earliest} to {self.latest}"
            raise VersionError(f"there is no version {wanted}", where=self.location, remedy=remedy)
        checkpoint = next((candidate for candidate in reversed(self.checkpoints) if candidate.version <= wanted), None)
        start = 0 if checkpoint is None else checkpoint.version + 1
        deltas = self._deltas(start, wanted)
        commit = self.commits.get(wanted)
        return LogSegment(
            wanted, checkpoint, tuple(deltas), None if commit is None else commit.path, self._covered(deltas)
        )

    def _covered(self, deltas: Sequence[str]) -> dict[str, tuple[str, ...]]:
        covered: dict[str, tuple[str, ...]] = {}
        for delta in self.compacted:
            if delta.path in deltas:
                commits = [self.commits.get(version) for version in range(delta.first, delta.last + 1)]
                existing = [commit.path for commit in commits if commit is not None]
                covered[delta.path] = tuple(existing) if len(existing) == len(commits) else ()
        return covered

    def _deltas(self, start: int, end: int) -> list[str]:
        longest: dict[int, CompactedLog] = {}
        for delta in self.compacted:
            if delta.last <= end and (delta.first not in longest or delta.last > longest[delta.first].last):
                longest[delta.first] = delta
        deltas: list[str] = []
        version = start
        while version <= end:
            if version in longest:
                deltas.append(longest[version].path)
                version = longest[version].last + 1
            elif version in self.commits:
                deltas.append(self.commits[version].path)
                version += 1
            else:
                self._refuse_gap(version, start, end)
        return deltas

    def _refuse_gap(self, version: int, start: int, end: int) -> None:
        after = min((commit for commit in self.commits if commit > version), default=end + 1)
        lost = f"version {version} is" if after == version + 1 else f"versions {version} to {after - 1} are"
        parts = [f"the checkpoint of version {at} lacks {what}" for at, what in self.incomplete.items() if at <= end]
        last = f" and {parts[-1]}" if parts else ""
        if version == start == 0 and end < self.earliest:
            remedy = f"open version {self.earliest} or a later one"
            raise VersionError(f"version {end} was cleaned up", where=self.location, remedy=remedy)
        raise CorruptTableError(
            f"the log has a gap: {lost} missing{last}",
            where=f"{self.location}/{LOG}",
            remedy="restore the missing files" if version == 0 else f"open version {version - 1}, or restore them",
        )


def list_log(storage: Storage) -> LogListing:
    """List the log below the root; on a server without listings, follow `_last_checkpoint`.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> list_log(Storage.at(tempfile.mkdtemp()))
    Traceback (most recent call last):
    geolake_nb.errors.NotATableError: /...: there is no Delta log
    """
    hint = storage.prefetch(lambda: _read_hint(storage))
    try:
        entries = storage.list(LOG)
    except MissingFileError:
        entries = []
    except StorageError:
        if not _lists_nothing(storage):
            raise
        entries = _probe(storage, hint())
    return _sorted_out(storage.location, entries).with_hint(hint()).checked()


def newest_log(storage: Storage) -> LogListing | None:
    """The log files of the newest version, or what is left of them; `None` if there is no log.

    If a store lists a log in many pages, only what comes after the hinted checkpoint is listed.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> newest_log(Storage.at(tempfile.mkdtemp())) is None
    True
    """
    hint = storage.prefetch(lambda: _read_hint(storage))
    try:
        entries, whole = storage.list_first(LOG)
    except MissingFileError:
        return None
    except StorageError:
        if not _lists_nothing(storage):
            raise
        entries, whole = _probe(storage, hint()), True
    if not whole and (since := _worthwhile_start(hint(), entries)):
        listed = _sorted_out(storage.location, storage.list(LOG, after=f"{since:020}")).with_hint(hint())
        if listed.hint is not CheckpointHint.WRONG:
            return replace(listed, since=since)
    listing = _sorted_out(storage.location, entries if whole else storage.list(LOG))
    return listing.with_hint(hint()) if listing.latest >= 0 or listing.incomplete else None


def _worthwhile_start(hint: _Hint, first: Sequence[Entry]) -> int:
    """The version of the hinted checkpoint if all entries of the first page are older, else 0."""
    # A store that lists from an offset also lists the sidecar files of all checkpoints.
    if hint is None or isinstance(hint, CheckpointHint) or "v2Checkpoint" in hint:
        return 0
    name = f"{LOG}/{hint['version']:020}"
    return hint["version"] if first and all(entry.path < name for entry in first) else 0


def _sorted_out(location: str, entries: Iterable[Entry]) -> LogListing:
    commits: dict[int, Entry] = {}
    compacted: list[CompactedLog] = []
    # Delta prefers a UUID-named checkpoint to a multi-part one, and that to a classic one.
    ranked: dict[int, list[tuple[int, tuple[Entry, ...]]]] = {}
    parts: dict[tuple[int, int], dict[int, Entry]] = {}
    for entry in entries:
        name = entry.path.rpartition("/")[2]
        if match := _COMMIT.fullmatch(name):
            commits[int(match[1])] = entry
        elif match := _COMPACTED.fullmatch(name):
            if int(match[1]) <= int(match[2]):
                compacted.append(CompactedLog(int(match[1]), int(match[2]), entry.path))
        elif match := _CLASSIC.fullmatch(name):
            ranked.setdefault(int(match[1]), []).append((0, (entry,)))
        elif match := _UUID_NAMED.fullmatch(name):
            ranked.setdefault(int(match[1]), []).append((2, (entry,)))
        elif match := _PART.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = entry
    incomplete: dict[int, str] = {}
    for (version, count), paths in sorted(parts.items()):
        lost = [part for part in range(1, count + 1) if part not in paths] if count <= _MAX_PROBES else [count]
        if lost:
            shown = ", ".join(map(str, lost[:10])) + (", ..." if len(lost) > 10 else "")
            incomplete[version] = f"part{'s' if len(lost) > 1 else ''} {shown} of {count}"
        else:
            ranked.setdefault(version, []).append((1, tuple(paths[part] for part in range(1, count + 1))))
    checkpoints = tuple(_checkpoint(version, max(choices)[1]) for version, choices in sorted(ranked.items()))
    incomplete = {version: what for version, what in incomplete.items() if version not in ranked}
    return LogListing(location, commits, tuple(compacted), checkpoints, incomplete)


def _checkpoint(version: int, files: Sequence[Entry]) -> Checkpoint:
    return Checkpoint(version, tuple(file.path for file in files), tuple(file.bytes for file in files))


def _read_hint(storage: Storage) -> _Hint:
    try:
        data = storage.read(_HINT)
    except MissingFileError:
        return None
    try:
        hint = orjson.loads(data)
    except orjson.JSONDecodeError:
        return CheckpointHint.CORRUPT
    if not isinstance(hint, dict) or type(hint.get("version")) is not int:
        return CheckpointHint.CORRUPT
    return hint


def _lists_nothing(storage: Storage) -> bool:
    """Whether it is on a web server, which has no listings."""
    return storage.location.startswith(("http:", "https:"))


def _probe(storage: Storage, hint: _Hint) -> list[Entry]:
    """The log by its file names where listing is not possible: the hinted checkpoint, then commit by commit."""
    from geolake_nb.storage.storage import Entry

    def entry(name: str) -> Entry | None:
        path = f"{LOG}/{name}"
        return Entry(path, storage.size(path), None) if storage.exists(path) else None

    entries: list[Entry | None] = []
    version = 0
    if hint is not None and not isinstance(hint, CheckpointHint):
        version = hint["version"]
        v2 = hint.get("v2Checkpoint")
        parts = hint.get("parts")
        if isinstance(v2, dict) and isinstance(v2.get("path"), str):
            names = [v2["path"].rpartition("/")[2]]
        elif type(parts) is int and 0 < parts <= _MAX_PROBES:
            names = [f"{version:020}.checkpoint.{part:010}.{parts:010}.parquet" for part in range(1, parts + 1)]
        else:
            names = [f"{version:020}.checkpoint.parquet"]
        entries = [*map(entry, names), entry(f"{version:020}.json")]
        version += 1
    first = version
    while len(entries) < _MAX_PROBES and (commit := entry(f"{version:020}.json")) is not None:
        # Some servers answer every path, with something that is not a commit.
        if version == first and storage.read_range(commit.path, 0, 1) != b"{":
            break
        entries.append(commit)
        version += 1
    return [item for item in entries if item is not None]
