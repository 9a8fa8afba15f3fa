"""The history of a table: who made which version and when, and which version added each file."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import MissingFileError, VersionError
from geolake_nb.formats.delta.log_actions import file_actions, scan_commit
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.model.snapshot import VersionInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.delta.log_segment import LogListing
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Entry, Storage

__all__ = ["MAX_COMMITS", "added_versions", "commit_time", "delta_history", "read_commit_info", "version_at"]

_FIRST_READ = 64 * 1024
_WORKERS = 32
_MILLISECOND = dt.timedelta(milliseconds=1)


def delta_history(storage: Storage, *, newest: int | None = None) -> list[VersionInfo]:
    """The versions whose commits still exist, or the `newest` of them, newest first."""
    listing = list_log(storage)
    entries = sorted(listing.commits.items())[-newest if newest else None :]
    with ThreadPoolExecutor(min(_WORKERS, max(1, len(entries)))) as pool:
        infos = list(pool.map(lambda item: read_commit_info(storage, item[1]), entries))
    history: list[VersionInfo] = []
    before: dt.datetime | None = None
    for (version, entry), info in zip(entries, infos, strict=True):
        before = commit_time(info, entry, before=before)
        operation = info.get("operation")
        history.append(
            VersionInfo(
                version,
                before,
                operation if isinstance(operation, str) else None,
                parent=version - 1 if version else None,
                details=info,
            )
        )
    return history[::-1]


def commit_time(
    info: Mapping[str, Any] | None, entry: Entry | None, *, before: dt.datetime | None = None
) -> dt.datetime | None:
    """The time of a commit: its in-commit timestamp if it has one, else that of its file, made later than `before`.

    >>> commit_time({"inCommitTimestamp": 0, "timestamp": 5}, None)
    datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> commit_time(None, None) is None
    True
    """
    # Delta, In-commit timestamps: the time of a version; without them it is the time of the file, made to increase.
    own = _instant((info or {}).get("inCommitTimestamp"))
    if own is not None:
        return own
    time = None if entry is None else entry.modified
    if time is None:
        time = _instant((info or {}).get("timestamp"))
    if time is not None and before is not None and time <= before:
        return before + _MILLISECOND
    return time


def version_at(storage: Storage, listing: LogListing, moment: dt.datetime) -> int:
    """The newest version that is not later than the moment; without a zone the moment is in UTC."""
    wanted = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment
    versions = [version for version in sorted(listing.commits) if version >= listing.earliest]
    if not versions:
        what = "no commit is left with the time of a version"
        raise VersionError(
            what, where=listing.location, remedy=f"open it by version: {listing.earliest} to {listing.latest}"
        )
    files = _rising({version: listing.commits[version].modified for version in versions})

    @cache
    def time_of(version: int) -> dt.datetime:
        info = read_commit_info(storage, listing.commits[version])
        time = commit_time(
            info, None if files[version] is None else listing.commits[version]._replace(modified=files[version])
        )
        return dt.datetime.min.replace(tzinfo=dt.UTC) if time is None else time

    # Commit times increase with the version, so that a binary search reads only a few commits.
    index = bisect_right(versions, wanted, key=time_of)
    if index == 0:
        raise VersionError(
            f"there was no version yet at {wanted.isoformat()}",
            where=listing.location,
            remedy=f"the oldest available is version {versions[0]} of {time_of(versions[0]).isoformat()}",
        )
    return versions[index - 1]


def _rising(times: Mapping[int, dt.datetime | None]) -> dict[int, dt.datetime | None]:
    """The times of files, each made later than the one before, as Delta does with those of a copied table."""
    risen: dict[int, dt.datetime | None] = {}
    before: dt.datetime | None = None
    for version, time in times.items():
        late = time is not None and before is not None and time <= before
        before = risen[version] = before + _MILLISECOND if late and before is not None else time
    return risen


def read_commit_info(storage: Storage, entry: Entry) -> Mapping[str, Any]:
    """The `commitInfo` of a commit; it comes first, so that the many file actions after it are not read."""
    try:
        head = storage.read_range(entry.path, 0, _FIRST_READ)
        whole = entry.bytes <= len(head)
        lines = head.split(b"\n")
        info = _info_in(lines if whole else lines[:-1])
        if info is None and not whole:
            info = _info_in(storage.read(entry.path).split(b"\n"))
    except MissingFileError:
        return {}
    return info or {}


def _info_in(lines: list[bytes]) -> Mapping[str, Any] | None:
    for line in lines:
        if b'"commitInfo"' not in line:
            continue
        try:
            action = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(action, dict) and isinstance(action.get("commitInfo"), dict):
            info: Mapping[str, Any] = action["commitInfo"]
            return info
    return None


def _instant(millis: Any) -> dt.datetime | None:
    if not isinstance(millis, int) or isinstance(millis, bool):
        return None
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)
    except OverflowError:
        return None


MAX_COMMITS = 1000
"""How many commits are read at most, newest first, each in full."""


def added_versions(storage: Storage, snapshot: Snapshot, *, most: int = MAX_COMMITS) -> pa.Array:
    """The version that added each file, in the order of the file table; null for files added by older commits.

    A file whose statistics were repaired counts as added by the version that repaired them.
    """
    paths = snapshot.files.table["path"]
    listing = list_log(storage)
    versions = [
        version_ for version_ in sorted(listing.commits) if snapshot.version is None or version_ <= snapshot.version
    ][-most:]
    result = pa.nulls(len(paths), pa.int64())
    blobs = storage.read_many([listing.commits[version_].path for version_ in versions], missing_ok=True)
    for version, blob in zip(versions, blobs, strict=True):
        actions = file_actions([scan_commit(listing.commits[version].path, blob or b"")], [])
        added = pc.is_in(paths.combine_chunks(), value_set=actions["path"].filter(actions["added"]).combine_chunks())
        result = pc.if_else(added, pa.scalar(version, pa.int64()), result)
    return result
