"""Changes a set of Parquet files such that no reader sees half a file, and a change that is cut short can be ended.

A change first gets ready in the hidden folder: old and new footers, or new files as a whole. Then its steps are
written down in the journal, which decides that it will be made, and then they are made. Every step can be made again.
One that cannot be made takes back all, by what is there; where the store does not say what became of a step, nothing is
taken back, the change is said to be unknown, and whoever comes next ends it.

- A footer: the file is replaced by one with the same pages, at once.
- Files written again: the old ones of a folder move to the hidden folder, then the new ones of it move in. Between the
  two, for as long as a few renames take, who lists that folder sees fewer rows; never a row twice. A file that is
  replaced by one of its own name is replaced at once.
- New files move in one after the other: who lists the folder in between sees the old rows and some of the new ones.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import (
    AlreadyThereError,
    ConflictError,
    CorruptTableError,
    GeolakeError,
    MissingFileError,
    NoAnswerError,
    OutcomeUnknownError,
    RefusedError,
    StorageError,
)
from geolake_nb.formats.parquet.file_moves import make_move, moves_of, take_back
from geolake_nb.formats.parquet.footer import parse_footer
from geolake_nb.formats.parquet.footer_change import FileState, FooterChange, footer_digest, put_footer
from geolake_nb.formats.parquet.journal import Outcome, begin_change, end_change, kept_folder, old_place, read_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from geolake_nb.formats.parquet.journal import JournalEntry
    from geolake_nb.formats.storage import Storage

    OnStep = Callable[[str], None]

__all__ = ["SetChange", "action", "commit_set", "end_pending", "find_change", "footers_kept"]

_WORKERS = 4
_UNKNOWN = (NoAnswerError, OutcomeUnknownError)
_FOOTERS = pa.schema([("path", pa.string()), ("old", pa.binary()), ("new", pa.binary())])


@dataclass(frozen=True, slots=True, eq=False)
class SetChange:
    """A change of a set that is decided."""

    transaction: str
    verb: str
    actions: Sequence[str]
    """JSON: `footer`, `restore` (a footer), `take` (a file out of the set), `put` (a file into it), `finish`, or
    `forget` (what a change keeps to be taken back)."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)


def action(kind: str, value: Mapping[str, Any]) -> str:
    """The JSON of an action.

    >>> action("take", {"path": "a.parquet"})
    '{"take":{"path":"a.parquet"}}'
    """
    return json.dumps({kind: dict(value)}, separators=(",", ":"), ensure_ascii=False)


def find_change(storage: Storage, transaction: str) -> JournalEntry | None:
    """The change that was made under this name, `None` if there is none."""
    return next((entry for entry in reversed(read_journal(storage)) if entry.transaction == transaction), None)


def end_pending(storage: Storage, *, on_step: OnStep | None = None) -> list[int]:
    """Make the steps that are left of changes which were cut short, and give their versions."""
    pending = [entry for entry in read_journal(storage) if entry.outcome is None]
    for entry in pending:
        _make(storage, entry, on_step or _silent)
    return [entry.version for entry in pending]


def commit_set(storage: Storage, change: SetChange, *, on_step: OnStep | None = None) -> int:
    """Make a change, after all that were cut short, and give its number.

    Nothing is changed where a file is not as planned. `on_step` is told of each step when it is done.
    OutcomeUnknownError: it may be made, or in part, and the next change ends it.
    """
    tell = on_step or _silent
    ended = end_pending(storage)
    actions = [next(iter(json.loads(text).items())) for text in change.actions]
    if [kind for kind, _ in actions] == ["finish"]:
        return ended[-1] if ended else int(actions[0][1]["version"])
    forgotten = [held["transaction"] for kind, held in actions if kind == "forget"]
    while True:
        steps = () if forgotten else _get_ready(storage, change.transaction, actions)
        tell("ready")
        known = read_journal(storage)
        version = known[-1].version + 1 if known else 1
        entry = _begin(storage, version, change, steps)
        if entry is None:
            end_pending(storage)  # another one was first: it ends before the files are looked at again
            continue
        tell("begun")
        with _said_to_be_unknown(storage, entry.version, entry.transaction):
            for one in forgotten:
                storage.remove_folder(kept_folder(one))
                tell(f"forget {one}")
        _make(storage, entry, tell)
        return version


def _begin(
    storage: Storage, version: int, change: SetChange, steps: tuple[Mapping[str, Any], ...]
) -> JournalEntry | None:
    """Write the change down as this version; `None` if the version is another one's."""
    with _said_to_be_unknown(storage, version, change.transaction):
        try:
            return begin_change(
                storage,
                version,
                transaction=change.transaction,
                verb=change.verb,
                steps=steps,
                parameters=change.parameters,
                metrics=change.metrics,
            )
        except AlreadyThereError:
            # Our own, where a store has written it, called itself too busy, and was asked again.
            found = find_change(storage, change.transaction)
            return found if found is not None and found.version == version else None


@contextmanager
def _said_to_be_unknown(
    storage: Storage, version: int, transaction: str, *, after: tuple[type[GeolakeError], ...] = _UNKNOWN
) -> Iterator[None]:
    """Tell of errors after which nobody knows how far a change is, and by what a look finds it again."""
    try:
        yield
    except after as problem:
        raise OutcomeUnknownError(
            f"change {version} may be in the table or not, or in part: {str(problem)[:300]}",
            where=storage.location,
            remedy="keep all files and look at the history again: it is begun if a change has the transaction"
            f" {transaction}, and the next one that is applied, also this one again, ends it",
        ) from None


def _get_ready(
    storage: Storage, transaction: str, actions: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[dict[str, Any], ...]:
    """The steps of the actions; raises if a file is not as planned, before anything is changed."""
    taken = {held["path"] for kind, held in actions if kind == "take"}
    put = [held["path"] for kind, held in actions if kind == "put"]
    if len(set(put)) < len(put):
        raise RefusedError(
            "the rows would go to more than one file, and the table is a single one",
            where=storage.location,
            remedy="make a folder of files of it with geolake convert",
        )
    footers: list[tuple[str, bytes, bytes]] = []

    def step(one: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        kind, held = one
        path = held["path"]
        if kind in ("footer", "restore"):
            old, new = _both_footers(storage, kind, held)
            footers.append((path, old, new))
            size = held["bytes"] - len(old) + len(new)
            state = FileState.from_dict(held).to_dict()
            return {"footer": {**state, "new_footer": footer_digest(new), "new_bytes": size}}
        if kind == "take":
            FileState.from_dict(held).require(storage)
            return {"take": {**held, "to": old_place(transaction, path), "stays": path in put}}
        _require_whole(storage, held)
        if path not in taken and storage.exists(path):
            raise ConflictError("the file is there already", where=f"{storage.location}/{path}", remedy="plan again")
        return {"put": {**held, "over": path in taken}}

    with ThreadPoolExecutor(_WORKERS) as pool:
        steps = tuple(pool.map(step, actions))
    if footers:
        _write_footers(storage, transaction, footers)
    return steps


def _both_footers(storage: Storage, kind: str, held: dict[str, Any]) -> tuple[bytes, bytes]:
    """The footer of a file as it is, which has to be the one that was planned with, and as it will be."""
    state = FileState.from_dict(held)
    state.require(storage)
    old = storage.parquet_footer(state.path)
    if kind == "footer":
        return old, FooterChange.from_dict(held).edited(old)
    before = _read_footers(storage, held["transaction"]).get(state.path)
    if before is None:
        raise RefusedError("the footer that the file had is not kept", where=f"{storage.location}/{state.path}")
    return old, before[0]


def _require_whole(storage: Storage, held: dict[str, Any]) -> None:
    """Raise unless a file that waits to be put in is whole."""
    where = f"{storage.location}/{held['from']}"
    size = storage.size(held["from"])
    rows = parse_footer(storage.parquet_footer(held["from"]), where=where).num_rows
    if size != held["bytes"] or held.get("rows") not in (None, rows):
        raise ConflictError("the new file is not as it was written", where=where, remedy="plan again")


def footers_kept(storage: Storage, transaction: str) -> bool:
    """Whether the old footers are there that a change replaced."""
    return storage.exists(_footers_place(transaction))


def _footers_place(transaction: str) -> str:
    return f"{kept_folder(transaction)}/footers.arrow"


def _write_footers(storage: Storage, transaction: str, footers: list[tuple[str, bytes, bytes]]) -> None:
    paths, old, new = zip(*sorted(footers), strict=True)
    table = pa.table([pa.array(paths), pa.array(old, pa.binary()), pa.array(new, pa.binary())], schema=_FOOTERS)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _FOOTERS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    place, data = _footers_place(transaction), sink.getvalue().to_pybytes()
    storage.remove(place)  # of an earlier try that did not get as far as the journal
    try:
        storage.put_if_absent(place, data)
    except AlreadyThereError:
        if storage.read(place) != data:  # else the store has written it, called itself too busy, and was asked again
            raise
    except OutcomeUnknownError as problem:
        # Of what is kept, not of the change, which is not begun yet.
        raise StorageError(
            f"the footers to keep may not be written; the table is as it was: {problem.what}",
            where=problem.where,
            remedy="apply the plan again when the store answers",
        ) from None


def _read_footers(storage: Storage, transaction: str) -> dict[str, tuple[bytes, bytes]]:
    """The old and the new footer of each file."""
    place = _footers_place(transaction)
    try:
        with pa.ipc.open_file(pa.BufferReader(storage.read(place))) as file:
            table = file.read_all().cast(_FOOTERS)
    except pa.ArrowException:
        raise RefusedError("the footers that are kept cannot be read", where=f"{storage.location}/{place}") from None
    columns = (table[name].to_pylist() for name in ("path", "old", "new"))
    return {path: (old, new) for path, old, new in zip(*columns, strict=True)}


def _make(storage: Storage, entry: JournalEntry, tell: OnStep) -> None:
    """Make the steps of a change as far as they are not made, and note its end."""
    unknown = partial(_said_to_be_unknown, storage, entry.version, entry.transaction)
    footers = [step["footer"] for step in entry.steps if "footer" in step]
    moves = moves_of(entry.steps)
    with unknown():
        problems = _put_footers(storage, entry, footers, tell) if footers else {}
    try:
        with unknown():
            for kind, held in moves:
                make_move(storage, kind, held)
                tell(f"{kind} {held['path']}")
    except OutcomeUnknownError:
        raise
    except GeolakeError:
        with unknown(after=(GeolakeError,)):
            take_back(storage, moves)  # all of them: some may have been made before the change was cut short
            end_change(storage, entry.version, Outcome(abandoned=True))
        raise
    with unknown(after=(GeolakeError,)):
        end_change(storage, entry.version, Outcome(skipped=tuple(problems)))
    tell("ended")
    for problem in problems.values():
        raise problem


def _put_footers(storage: Storage, entry: JournalEntry, steps: list[Any], tell: OnStep) -> dict[str, GeolakeError]:
    """Replace the footers, and tell of files that cannot be changed or were changed by others: they are left alone."""
    known = _read_footers(storage, entry.transaction)
    problems: dict[str, GeolakeError] = {}

    def one(step: Mapping[str, Any]) -> None:
        path = step["path"]
        try:
            if not _has_new_footer(storage, step):
                if path not in known:
                    raise RefusedError("the new footer of the file is not kept", where=f"{storage.location}/{path}")
                put_footer(storage, FileState.from_dict(step), known[path][1])
        except GeolakeError as problem:
            problems[path] = problem
        tell(f"footer {path}")

    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(one, steps))
    for problem in problems.values():
        if isinstance(problem, _UNKNOWN):
            raise problem
    # What was told as failed may have been done: the journal says what is.
    failed = [step for step in steps if step["path"] in problems]
    return {step["path"]: problems[step["path"]] for step in failed if not _has_new_footer(storage, step)}


def _has_new_footer(storage: Storage, step: Mapping[str, Any]) -> bool:
    try:
        now = FileState.now(storage, step["path"])
    except (CorruptTableError, MissingFileError):
        return False
    return (now.footer, now.bytes) == (step["new_footer"], step["new_bytes"])


def _silent(_: str) -> None:
    return
