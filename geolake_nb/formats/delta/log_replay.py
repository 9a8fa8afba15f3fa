"""The state of a version after its log is reconciled: live files, metadata, protocol, transactions, domains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, MissingFileError
from geolake_nb.formats.delta.checkpoint import CheckpointFiles, open_checkpoint, read_checkpoint_files
from geolake_nb.formats.delta.log_actions import (
    CommitFile,
    empty_files,
    file_actions,
    file_keys,
    file_lines,
    keep_rows,
    scan_commit,
)
from geolake_nb.formats.delta.log_segment import LOG
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.storage.storage import Storage

__all__ = ["LogState", "SmallActions", "live_files", "read_deltas", "replay", "small_actions"]


@dataclass(frozen=True, slots=True, eq=False)
class SmallActions:
    """The newest action of each kind that is not about files."""

    protocol: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    transactions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The newest `txn` of each application."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """The configuration of each domain that was not removed."""

    @classmethod
    def reconciled(cls, actions: Iterable[Mapping[str, Any]]) -> SmallActions:
        """The state after these actions, oldest first.

        >>> SmallActions.reconciled([{"domainMetadata": {"domain": "d", "configuration": "", "removed": True}}]).domains
        {}
        """
        protocol = metadata = None
        transactions: dict[str, Mapping[str, Any]] = {}
        domains: dict[str, str] = {}
        for action in actions:
            for name, value in action.items():
                if not isinstance(value, dict):
                    continue
                if name == "protocol":
                    protocol = value
                elif name == "metaData":
                    metadata = value
                elif name == "txn" and isinstance(value.get("appId"), str):
                    transactions[value["appId"]] = value
                elif name == "domainMetadata" and isinstance(value.get("domain"), str):
                    domains.pop(value["domain"], None)
                    if not value.get("removed"):
                        domains[value["domain"]] = str(value.get("configuration") or "")
        return cls(protocol, metadata, transactions, domains)


@dataclass(frozen=True, slots=True, eq=False)
class LogState:
    """The state of a version, from its log."""

    small: SmallActions
    files: pa.Table
    """Live files: the columns of `file_schema`, and `stats_parsed` where a checkpoint has no `stats`."""
    commit_info: Mapping[str, Any] | None
    """The `commitInfo` of the version's own commit."""
    unreconciled: tuple[str, ...] = ()
    """Compacted logs that list a file more than once; their commits were read instead."""


def replay(storage: Storage, segment: LogSegment, partitions: Callable[[SmallActions], Sequence[str]]) -> LogState:
    """Read and reconcile the files of a segment; `partitions` gives the partition columns as the log names them."""
    covered = storage.prefetch(lambda: _covered_commit(storage, segment))
    base, deltas = _base_and_deltas(storage, segment)
    small = _reconciled(base, deltas)
    if small.protocol is None or small.metadata is None:
        lost = "protocol" if small.protocol is None else "metaData"
        raise CorruptTableError(
            f"the log has no {lost} action up to version {segment.version}", where=f"{storage.location}/{LOG}"
        )
    names = partitions(small)
    old = empty_files(names) if base is None else read_checkpoint_files(storage, base, names)
    actions = file_actions(deltas, names)
    _refuse_contradictions(actions, deltas)
    files = live_files(old, actions)
    _refuse_twice(files, f"{storage.location}/{LOG}", segment.version)
    own = deltas[-1] if segment.commit in segment.deltas[-1:] else covered()
    read = {delta.path for delta in deltas}
    unread = tuple(path for path in segment.deltas if f"{storage.location}/{path}" not in read)
    return LogState(small, files, _commit_info(own), unread)


def small_actions(storage: Storage, segment: LogSegment) -> SmallActions:
    """The protocol, the metadata and the other small actions, without reading the file actions."""
    return _reconciled(*_base_and_deltas(storage, segment))


def _base_and_deltas(storage: Storage, segment: LogSegment) -> tuple[CheckpointFiles | None, list[CommitFile]]:
    """The checkpoint, if there is one, and the commits after it, fetched in parallel."""
    checkpoint = segment.checkpoint
    base = storage.prefetch(lambda: None if checkpoint is None else open_checkpoint(storage, checkpoint))
    deltas = read_deltas(storage, segment)
    return base(), deltas


def _reconciled(base: CheckpointFiles | None, deltas: Sequence[CommitFile]) -> SmallActions:
    return SmallActions.reconciled(
        [*(base.actions if base else ()), *(action for delta in deltas for action in delta.actions)]
    )


def live_files(old: pa.Table, actions: pa.Table) -> pa.Table:
    """The files of a checkpoint after these adds and removes, in order; the newest action of a file wins.

    >>> from geolake_nb.formats.delta.log_actions import actions_table, add_row
    >>> files = actions_table([add_row({"path": name}, [], "") for name in "abba"], [], "")
    >>> actions = files.append_column("added", pa.array([True, True, False, True]))
    >>> live_files(files.slice(0, 2), actions)["path"].to_pylist()
    ['a']
    """
    if not actions.num_rows:
        return old
    keys = file_keys(actions).combine_chunks()
    encoded = (keys.chunk(0) if isinstance(keys, pa.ChunkedArray) else keys).dictionary_encode()
    codes = encoded.indices.to_numpy()
    last = np.empty(len(encoded.dictionary), np.int64)
    last[codes] = np.arange(len(codes))  # of equal indices the last one is assigned
    alive = np.zeros(len(codes), np.bool_)
    alive[last] = True
    alive &= actions["added"].to_numpy()
    new = actions.drop_columns(["added"])
    if not alive.all():
        new = keep_rows(new, pa.chunked_array([pa.array(alive)]))
    if not old.num_rows:
        return new
    touched = pc.is_in(file_keys(old), value_set=encoded.dictionary)
    return pa.concat_tables([keep_rows(old, pc.invert(touched)), new], promote_options="default")


def read_deltas(storage: Storage, segment: LogSegment) -> list[CommitFile]:
    """The commits and compacted logs after the checkpoint, scanned and in order.

    A compacted log that is not reconciled is replaced by the commits that it covers.
    """
    deltas: list[CommitFile] = []
    for path, delta in zip(segment.deltas, _scanned(storage, segment.deltas), strict=True):
        if path not in segment.covered or _is_reconciled(delta):
            deltas.append(delta)
            continue
        commits = segment.covered[path]
        if not commits:
            raise CorruptTableError(
                "the compacted log has a file, a protocol, a schema, a transaction or a domain more than once, and"
                " some of its commits are missing",
                where=delta.path,
                remedy="restore the commits, or open a version before it",
            )
        deltas += _scanned(storage, commits)
    return deltas


def _scanned(storage: Storage, paths: Sequence[str]) -> list[CommitFile]:
    try:
        blobs = list(storage.read_many(paths))
    except MissingFileError as problem:
        raise CorruptTableError(
            "a commit vanished while the log was read", where=problem.where, remedy="open it again"
        ) from None
    return [scan_commit(f"{storage.location}/{path}", blob or b"") for path, blob in zip(paths, blobs, strict=True)]


def _is_reconciled(compacted: CommitFile) -> bool:
    """Whether no two actions of a compacted log have the same key, so that their order does not matter."""
    # Delta, Log compaction files: the actions of the commits after reconciliation.
    seen: set[tuple[str, Any]] = set()
    for action in compacted.actions:
        for name, key in (("protocol", None), ("metaData", None), ("txn", "appId"), ("domainMetadata", "domain")):
            fields = action.get(name)
            if isinstance(fields, dict):
                action_key = name, None if key is None else str(fields.get(key))
                if action_key in seen:
                    return False
                seen.add(action_key)
    actions = file_actions([compacted], [])
    added = actions.filter(actions["added"])
    return _are_distinct(file_keys(actions)) and _are_distinct(added["path"])


def _are_distinct(values: pa.ChunkedArray) -> bool:
    return len(pc.unique(values)) == len(values)


def _refuse_twice(files: pa.Table, where: str, version: int) -> None:
    """Raise where a data file is live twice: its rows would count twice, or deleted ones come back."""
    paths = files["path"]
    if _are_distinct(paths):
        return
    counted = pc.value_counts(paths)
    twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
    more = f" and {len(twice) - 1:,} more" if len(twice) > 1 else ""
    # Delta, Add file: no two adds in a version have the same path, whatever their deletion vectors.
    raise CorruptTableError(
        f"the data file {printable(twice[0].as_py(), 200)!r}{more} is live twice in version {version}",
        where=where,
        remedy="open an older version, or delete the newest checkpoint if all commits exist",
    )


def _refuse_contradictions(actions: pa.Table, commits: Sequence[CommitFile]) -> None:
    """Raise where one commit both adds and removes a file: its actions have no order."""
    added = actions["added"].to_numpy() if actions.num_rows else np.zeros(0, np.bool_)
    if added.all() or not added.any():
        return
    counts = [len(file_lines(commit)[0]) for commit in commits]
    if sum(counts) != len(added):
        # A line has more or less than one action.
        counts = [file_actions([commit], []).num_rows for commit in commits]
    commit = np.repeat(np.arange(len(counts)), counts)
    adds, removes = (np.bincount(commit[rows], minlength=len(counts)) for rows in (added, ~added))
    # Most commits only add files: those are not checked.
    rows = np.flatnonzero(((adds > 0) & (removes > 0))[commit])
    if not len(rows):
        return
    keys = file_keys(actions.select(["path", "deletionVector"]).take(pa.array(rows))).combine_chunks()
    codes = (keys.chunk(0) if isinstance(keys, pa.ChunkedArray) else keys).dictionary_encode().indices.to_numpy()
    pairs = codes.astype(np.int64) * len(counts) + commit[rows]
    both = np.intersect1d(pairs[added[rows]], pairs[~added[rows]])
    if len(both):
        row = int(rows[np.flatnonzero(pairs == both[0])[0]])
        # Delta, Actions: it is not valid for a version to have several operations on one logical file.
        raise CorruptTableError(
            f"the data file {printable(actions['path'][row].as_py(), 200)!r} is both added and removed",
            where=commits[int(commit[row])].path,
            remedy="open the version before it, or restore the commit from a backup",
        )


def _covered_commit(storage: Storage, segment: LogSegment) -> CommitFile | None:
    """The commit of a version that a checkpoint or a compacted log covers: these have no commitInfo."""
    if segment.commit is None or segment.commit in segment.deltas[-1:]:
        return None
    blob = next(iter(storage.read_many([segment.commit], missing_ok=True)))
    return None if blob is None else scan_commit(f"{storage.location}/{segment.commit}", blob)


def _commit_info(commit: CommitFile | None) -> Mapping[str, Any] | None:
    infos = [
        action["commitInfo"]
        for action in (commit.actions if commit else ())
        if isinstance(action.get("commitInfo"), dict)
    ]
    return infos[0] if infos else None
