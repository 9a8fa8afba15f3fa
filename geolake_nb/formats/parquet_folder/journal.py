"""The changes that this package made to a Parquet dataset: a journal in a hidden folder, and the history in it.

A folder of files has no log. Each change is recorded here before its first step, with all its steps, so that an
interrupted change can be completed by the next writer, and a completed one can be undone. Readers of Parquet datasets
skip the folder, whose name starts with `_`; nothing in it that stays has the name of a Parquet file.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb import __version__
from geolake_nb.errors import AlreadyThereError, CorruptTableError, StorageError
from geolake_nb.formats.havasu.metadata import FIRST_METADATA
from geolake_nb.model.snapshot import VersionInfo
from geolake_nb.storage.location import clean_key
from geolake_nb.text.json_text import expect, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = [
    "FIRST_ENTRIES",
    "FIRST_ENTRY",
    "HIDDEN",
    "STAGED",
    "JournalEntry",
    "Kept",
    "Outcome",
    "begin_change",
    "changes_of",
    "end_change",
    "kept_files",
    "kept_folder",
    "kept_path",
    "parquet_history",
    "read_journal",
]

HIDDEN = "_geolake"
"""The folder of this package in a dataset."""
STAGED = f"{HIDDEN}/new"
"""Where new files are staged until all of them are written."""
FIRST_ENTRY = f"_delta_log/{0:020}.json"
"""The file that makes a folder a Delta table; no later one is created or removed here."""
FIRST_ENTRIES = (FIRST_ENTRY, FIRST_METADATA)
"""The files that make a folder a table, of Delta and of Iceberg."""

_CHANGES = f"{HIDDEN}/changes"
_MAX_LENGTH = 1 << 30
_STATE = {"path": str, "bytes": int, "footer": str}
_MEMBERS: dict[str, dict[str, type]] = {
    "footer": {**_STATE, "new_footer": str, "new_bytes": int},
    "take": {**_STATE, "to": str, "stays": bool},
    "put": {"path": str, "from": str, "bytes": int, "over": bool},
    "create": {"path": str, "from": str, "bytes": int},
    "drop": {"path": str, "from": str, "bytes": int},
}
_KEPT_AT = {"take": "to", "put": "from", "create": "from", "drop": "from"}

_BEGUN = re.compile(r"([0-9]{8})\.json")
_PLAIN = re.compile(r"[0-9A-Za-z-]{1,100}")
# What the first version of an Iceberg table has beside its metadata file: a list, manifests, and a hint.
_OF_TABLES = re.compile(r"metadata/(?:version-hint\.text|[0-9A-Za-z-]{1,200}\.avro)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a change ended."""

    abandoned: bool = False
    """Whether its steps were reverted because one of them failed."""
    skipped: tuple[str, ...] = ()
    """Files that another writer had changed, which were left unchanged."""


@dataclass(frozen=True, slots=True, eq=False)
class JournalEntry:
    """A change of a dataset: what, when, and each of its steps."""

    version: int
    transaction: str
    verb: str
    timestamp: int
    """Milliseconds since 1970."""
    steps: tuple[Mapping[str, Any], ...]
    """Each an object with one member: `footer`, `take`, `put`, `create` or `drop`."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    outcome: Outcome | None = None
    """`None` while it is not complete."""

    def to_json(self) -> bytes:
        """The entry as it is stored; the outcome is not part of it."""
        value = {
            "version": self.version,
            "transaction": self.transaction,
            "verb": self.verb,
            "timestamp": self.timestamp,
            "engine": f"geolake_nb/{__version__}",
            "parameters": dict(self.parameters),
            "metrics": dict(self.metrics),
            "steps": list(self.steps),
        }
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def kept_folder(transaction: str) -> str:
    """Where a change keeps the files for its undo.

    >>> kept_folder("../4f")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: the name '../4f' of a change points outside of its folder
    """
    # A journal may come from anyone, and files in this folder can be removed.
    if not _PLAIN.fullmatch(transaction) or f"{HIDDEN}/{transaction}" in (STAGED, _CHANGES):
        raise CorruptTableError(f"the name {transaction[:100]!r} of a change points outside of its folder")
    return f"{HIDDEN}/{transaction}"


def kept_path(transaction: str, path: str) -> str:
    """Where a file is kept that a change removed from the dataset.

    >>> kept_path("4f", "day=1/a.parquet")
    '_geolake/4f/old/day=1/a.parquet.old'
    """
    return f"{kept_folder(transaction)}/old/{path}.old"


def read_journal(storage: Storage) -> list[JournalEntry]:
    """The changes of a dataset, oldest first.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> read_journal(Storage.at(tempfile.mkdtemp()))
    []
    """
    names = [entry.path for entry in storage.list(_CHANGES)]
    texts = dict(zip(names, storage.read_many(names, missing_ok=True), strict=True))
    entries: list[JournalEntry] = []
    for name, text in texts.items():
        match = _BEGUN.fullmatch(name.rpartition("/")[2])
        if match is not None and text is not None:
            where = f"{storage.location}/{name}"
            entries.append(_read(text, texts.get(_end_name(int(match[1]))), int(match[1]), where))
    return entries


def begin_change(
    storage: Storage,
    version: int,
    *,
    transaction: str,
    verb: str,
    steps: tuple[Mapping[str, Any], ...],
    parameters: Mapping[str, str],
    metrics: Mapping[str, int],
) -> JournalEntry:
    """Write the entry of a change; of two with the same version, the second gets `AlreadyThereError`."""
    moment = time.time_ns() // 1_000_000
    entry = JournalEntry(version, transaction, verb, moment, steps, parameters, metrics)
    storage.put_if_absent(f"{_CHANGES}/{version:08}.json", entry.to_json())
    return entry


def end_change(storage: Storage, version: int, outcome: Outcome) -> None:
    """Record that a change is complete; the first record counts."""
    value = {"abandoned": outcome.abandoned, "skipped": list(outcome.skipped)}
    try:
        storage.put_if_absent(_end_name(version), json.dumps(value).encode())
    except AlreadyThereError:
        return


def _end_name(version: int) -> str:
    return f"{_CHANGES}/{version:08}.end.json"


def _read(text: bytes, end: bytes | None, version: int, where: str) -> JournalEntry:
    value = _object(text, where)
    steps = expect(value, "steps", list, where)
    for step in steps:
        _check_step(step, where)
    outcome = None
    if end is not None:
        ended = _object(end, where)
        outcome = Outcome(bool(ended.get("abandoned")), tuple(map(str, expect(ended, "skipped", list, where))))
    return JournalEntry(
        version,
        expect(value, "transaction", str, where),
        expect(value, "verb", str, where),
        expect(value, "timestamp", int, where),
        tuple(steps),
        expect(value, "parameters", dict, where),
        expect(value, "metrics", dict, where),
        outcome,
    )


def _object(text: bytes, where: str) -> dict[str, Any]:
    value = load_json(text, what="the entry", where=where, error=CorruptTableError, max_length=_MAX_LENGTH)
    if not isinstance(value, dict):
        raise CorruptTableError("the entry is not a JSON object", where=where)
    return value


def _check_step(step: Any, where: str) -> None:
    """Raise unless a step moves a file from the dataset to the hidden folder or back: a journal is untrusted.

    Only the files of the first version of a table are created and dropped.
    """
    kind = next(iter(step), None) if isinstance(step, dict) and len(step) == 1 else None
    members = step[kind] if kind in _MEMBERS else None
    if not isinstance(members, dict) or not all(
        type(members.get(name)) is wanted for name, wanted in _MEMBERS[str(kind)].items()
    ):
        raise CorruptTableError("a step of a change cannot be read", where=where)
    hidden = _KEPT_AT.get(str(kind))
    inside = _is_hidden(members["path"], where)
    if kind in ("create", "drop"):
        inside |= members["path"] not in FIRST_ENTRIES and not _OF_TABLES.fullmatch(members["path"])
    if inside or (hidden is not None and not _is_hidden(members[hidden], where)):
        raise CorruptTableError("a step of a change has a path that is not allowed", where=where)


def _is_hidden(path: str, where: str) -> bool:
    return clean_key(path, where=where).startswith(f"{HIDDEN}/")


@dataclass(frozen=True, slots=True)
class Kept:
    """The files that one change keeps for undo."""

    version: int
    files: int
    bytes: int


def parquet_history(snapshot: Snapshot, *, newest: int | None = None) -> list[VersionInfo]:
    """The changes of a dataset, or the `newest` of them, newest first; none without listings, as on the web."""
    try:
        entries = changes_of(snapshot)
    except StorageError:
        return []
    history = [_info(entry, entries[index - 1].version if index else None) for index, entry in enumerate(entries)]
    return history[::-1][:newest]


def changes_of(snapshot: Snapshot) -> list[JournalEntry]:
    """The changes of this table, not of other files in the same folder, oldest first."""
    if snapshot.details is None:  # built from a list of files
        return []
    storage: Storage = snapshot.details.storage
    entries = read_journal(storage)
    if snapshot.location == storage.location:
        return entries
    paths = set(snapshot.files.table["path"].to_pylist())
    return [
        entry for entry in entries if any(action["path"] in paths for step in entry.steps for action in step.values())
    ]


def kept_files(storage: Storage, entry: JournalEntry) -> Kept | None:
    """The files that a finished change keeps; `None` if there are none."""
    if entry.outcome is None:
        return None
    files = storage.list(kept_folder(entry.transaction), recursive=True)
    return Kept(entry.version, len(files), sum(file.bytes for file in files)) if files else None


def _info(entry: JournalEntry, parent: int | None) -> VersionInfo:
    ended = entry.outcome
    state = " (incomplete)" if ended is None else " (aborted)" if ended.abandoned else ""
    kinds = [kind for step in entry.steps for kind in step]
    files = {"footers": kinds.count("footer"), "taken": kinds.count("take"), "put": kinds.count("put")}
    return VersionInfo(
        entry.version,
        dt.datetime.fromtimestamp(entry.timestamp / 1000, dt.UTC),
        f"{entry.verb}{state}",
        parent=parent,
        details={
            "transaction": entry.transaction,
            "parameters": dict(entry.parameters),
            "metrics": dict(entry.metrics),
            "files": files,
        },
    )
