"""Commits a change to a set of Parquet files: no reader sees a partial file, an interrupted change continues.

A change is first prepared in the hidden folder: old and new footers, or complete new files. Then its steps are
recorded in the journal, which commits it, and then they are executed. Every step can be repeated.
If one fails, all are reverted, by the files that exist; if the store does not report the outcome of a step, nothing is
reverted, the outcome of the change is reported as unknown, and the next writer completes it.

- A footer: the file is atomically replaced by one with the same pages.
- Rewritten files: the old ones of a folder move to the hidden folder, then its new ones move in. Between the
  two, for the time of a few renames, a reader that lists that folder sees fewer rows; never a row twice. A file that is
  replaced by one of the same name is replaced atomically.
- New files move in one after the other: a reader in between sees the old and some of the new rows.
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
from geolake_nb.formats.base import Applied, warn_of_problems
from geolake_nb.formats.parquet_folder.file_changes import (
    FileState,
    FooterChange,
    footer_digest,
    make_move,
    moves_of,
    put_footer,
    revert_moves,
)
from geolake_nb.formats.parquet_folder.first_log import (
    create_log,
    discard_unlisted,
    drop_log,
    in_order,
    require_droppable,
)
from geolake_nb.formats.parquet_folder.journal import (
    HIDDEN,
    Outcome,
    begin_change,
    end_change,
    kept_folder,
    kept_path,
    read_journal,
)
from geolake_nb.model.change import Change
from geolake_nb.parquet.footer import parse_footer, read_footer
from geolake_nb.storage.hive_paths import has_glob
from geolake_nb.storage.writing import require_exclusion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.formats.parquet_folder.journal import JournalEntry
    from geolake_nb.model.change import Verb
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

    OnStep = Callable[[str], None]

__all__ = [
    "SetChange",
    "action",
    "commit_change",
    "commit_set",
    "end_pending",
    "find_change",
    "find_transaction",
    "has_kept_footers",
    "pending_change",
    "require_atomic_put",
    "require_folder",
    "single_file",
]

_WORKERS = 4
_UNKNOWN = (NoAnswerError, OutcomeUnknownError)
_FOOTERS = pa.schema([("path", pa.string()), ("old", pa.binary()), ("new", pa.binary())])


@dataclass(frozen=True, slots=True, eq=False)
class SetChange:
    """A planned change of a dataset."""

    transaction: str
    verb: str
    actions: Sequence[str]
    """JSON: `footer`, `restore` (a footer), `take` (a file out of the dataset), `put` (a file into it), `create` (the
    log of a table that the files become), `drop` (that log), `finish`, or `forget` (the files that a change keeps for
    undo)."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)


def action(kind: str, value: Mapping[str, Any]) -> str:
    """The JSON of an action.

    >>> action("take", {"path": "a.parquet"})
    '{"take":{"path":"a.parquet"}}'
    """
    return json.dumps({kind: dict(value)}, separators=(",", ":"), ensure_ascii=False)


def find_change(storage: Storage, transaction: str) -> JournalEntry | None:
    """The change of this transaction, `None` if there is none."""
    return next((entry for entry in reversed(read_journal(storage)) if entry.transaction == transaction), None)


def end_pending(storage: Storage, *, on_step: OnStep | None = None) -> list[int]:
    """Complete the interrupted changes, and return their versions."""
    pending = [entry for entry in read_journal(storage) if entry.outcome is None]
    for entry in pending:
        _execute(storage, entry, on_step or _silent)
    return [entry.version for entry in pending]


def commit_set(storage: Storage, change: SetChange, *, on_step: OnStep | None = None) -> int:
    """Apply a change, after completing interrupted ones, and return its number.

    Nothing is changed where a file is not as planned. `on_step` is called after each step.
    OutcomeUnknownError: it may be applied or in part, and the next change completes it.
    """
    report = on_step or _silent
    ended = end_pending(storage)
    actions = [next(iter(json.loads(text).items())) for text in change.actions]
    if [kind for kind, _ in actions] == ["finish"]:
        return ended[-1] if ended else int(actions[0][1]["version"])
    forgotten = [action["transaction"] for kind, action in actions if kind == "forget"]
    while True:
        steps = () if forgotten else _prepare(storage, change.transaction, actions)
        report("ready")
        known = read_journal(storage)
        version = known[-1].version + 1 if known else 1
        entry = _begin(storage, version, change, steps)
        if entry is None:
            end_pending(storage)  # another one was first: it is completed before the files are checked again
            continue
        report("begun")
        with _outcome_unknown(storage, entry.version, entry.transaction):
            for old in forgotten:
                storage.remove_folder(kept_folder(old))
                report(f"forget {old}")
        _execute(storage, entry, report)
        return version


def _begin(
    storage: Storage, version: int, change: SetChange, steps: tuple[Mapping[str, Any], ...]
) -> JournalEntry | None:
    """Record the change as this version; `None` if the version is another change."""
    with _outcome_unknown(storage, version, change.transaction):
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
            # Our own, if a store wrote it, reported that it is busy, and the request was retried.
            entry = find_change(storage, change.transaction)
            return entry if entry is not None and entry.version == version else None


@contextmanager
def _outcome_unknown(
    storage: Storage, version: int, transaction: str, *, after: tuple[type[GeolakeError], ...] = _UNKNOWN
) -> Iterator[None]:
    """Report errors after which the state of a change is unknown, with how to find it in the history."""
    try:
        yield
    except after as problem:
        raise OutcomeUnknownError(
            f"change {version} may or may not be in the table, or in part: {str(problem)[:300]}",
            where=storage.location,
            remedy="keep all files and check the history again: it was started if a change has the transaction"
            f" {transaction}, and the next change that is applied, or this one again, completes it",
        ) from None


def _prepare(
    storage: Storage, transaction: str, actions: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[dict[str, Any], ...]:
    """The steps of the actions; raises if a file is not in the planned state, before anything is changed."""
    taken = {action["path"] for kind, action in actions if kind == "take"}
    for kind, action in actions:
        if kind == "drop":
            require_droppable(storage, action)
    put = [action["path"] for kind, action in actions if kind == "put"]
    if len(set(put)) < len(put):
        raise RefusedError(
            "the rows need more than one file, but the table is a single file",
            where=storage.location,
            remedy="convert it to a folder of files with geolake convert",
        )
    footers: list[tuple[str, bytes, bytes]] = []

    def step(item: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        kind, action = item
        path = action["path"]
        if kind in ("footer", "restore"):
            old, new = _both_footers(storage, kind, action)
            footers.append((path, old, new))
            size = action["bytes"] - len(old) + len(new)
            state = FileState.from_dict(action).to_dict()
            return {"footer": {**state, "new_footer": footer_digest(new), "new_bytes": size}}
        if kind in ("create", "drop"):
            return {kind: action}
        if kind == "take":
            FileState.from_dict(action).require(storage)
            return {"take": {**action, "to": kept_path(transaction, path), "stays": path in put}}
        _require_whole(storage, action)
        if path not in taken and storage.exists(path):
            raise ConflictError("the file already exists", where=f"{storage.location}/{path}", remedy="plan again")
        return {"put": {**action, "over": path in taken}}

    with ThreadPoolExecutor(_WORKERS) as pool:
        steps = tuple(pool.map(step, actions))
    if footers:
        _write_footers(storage, transaction, footers)
    return steps


def _both_footers(storage: Storage, kind: str, action: dict[str, Any]) -> tuple[bytes, bytes]:
    """The current footer of a file, which must be that of the plan, and the new one."""
    state = FileState.from_dict(action)
    state.require(storage)
    old = read_footer(storage, state.path)
    if kind == "footer":
        return old, FooterChange.from_dict(action).edited(old)
    before = _read_footers(storage, action["transaction"]).get(state.path)
    if before is None:
        raise RefusedError("the old footer of the file was not kept", where=f"{storage.location}/{state.path}")
    return old, before[0]


def _require_whole(storage: Storage, action: dict[str, Any]) -> None:
    """Raise unless a staged file is complete."""
    where = f"{storage.location}/{action['from']}"
    size = storage.size(action["from"])
    rows = parse_footer(read_footer(storage, action["from"]), where=where).num_rows
    if size != action["bytes"] or action.get("rows") not in (None, rows):
        raise ConflictError("the new file was changed after it was written", where=where, remedy="plan again")


def has_kept_footers(storage: Storage, transaction: str) -> bool:
    """Whether the old footers of a change are kept."""
    return storage.exists(_footers_path(transaction))


def _footers_path(transaction: str) -> str:
    return f"{kept_folder(transaction)}/footers.arrow"


def _write_footers(storage: Storage, transaction: str, footers: list[tuple[str, bytes, bytes]]) -> None:
    paths, old, new = zip(*sorted(footers), strict=True)
    table = pa.table([pa.array(paths), pa.array(old, pa.binary()), pa.array(new, pa.binary())], schema=_FOOTERS)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _FOOTERS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    path, data = _footers_path(transaction), sink.getvalue().to_pybytes()
    storage.remove(path)  # of an earlier attempt that did not reach the journal
    try:
        storage.put_if_absent(path, data)
    except AlreadyThereError:
        if storage.read(path) != data:  # else the store wrote it, reported that it is busy, and the request was retried
            raise
    except OutcomeUnknownError as problem:
        # Of the kept footers, not of the change, which has not started.
        raise StorageError(
            f"the kept footers may not be written; the table is unchanged: {problem.what}",
            where=problem.where,
            remedy="apply the plan again when the store responds",
        ) from None


def _read_footers(storage: Storage, transaction: str) -> dict[str, tuple[bytes, bytes]]:
    """The old and the new footer of each file."""
    kept = _footers_path(transaction)
    try:
        with pa.ipc.open_file(pa.BufferReader(storage.read(kept))) as file:
            table = file.read_all().cast(_FOOTERS)
    except pa.ArrowException:
        raise RefusedError("the kept footers cannot be read", where=f"{storage.location}/{kept}") from None
    columns = (table[name].to_pylist() for name in ("path", "old", "new"))
    return {path: (old, new) for path, old, new in zip(*columns, strict=True)}


def _execute(storage: Storage, entry: JournalEntry, report: OnStep) -> None:
    """Execute the remaining steps of a change, and record its end."""
    unknown = partial(_outcome_unknown, storage, entry.version, entry.transaction)
    footers = [step["footer"] for step in entry.steps if "footer" in step]
    moves = moves_of(entry.steps)
    created, dropped = (in_order(step[kind] for step in entry.steps if kind in step) for kind in ("create", "drop"))
    try:
        for action in reversed(dropped):  # before its files change
            with unknown():
                drop_log(storage, action)
            report(f"drop {action['path']}")
    except ConflictError:
        with unknown(after=(GeolakeError,)):
            end_change(storage, entry.version, Outcome(abandoned=True))
        raise
    with unknown():
        problems = _put_footers(storage, entry, footers, report) if footers else {}
    try:
        with unknown():
            for kind, action in moves:
                make_move(storage, kind, action)
                report(f"{kind} {action['path']}")
    except OutcomeUnknownError:
        raise
    except GeolakeError:
        with unknown(after=(GeolakeError,)):
            revert_moves(storage, moves)  # all of them: some may have been made before the change was interrupted
            end_change(storage, entry.version, Outcome(abandoned=True))
        raise
    for action in created:  # after its files have changed
        with unknown():
            problem = _created(storage, action, problems)
        if problem is not None:
            problems[action["path"]] = problem
        report(f"create {action['path']}")
    if problems:
        discard_unlisted(storage, created)
    with unknown(after=(GeolakeError,)):
        end_change(storage, entry.version, Outcome(skipped=tuple(problems)))
    report("ended")
    for problem in problems.values():
        raise problem


def _put_footers(storage: Storage, entry: JournalEntry, steps: list[Any], report: OnStep) -> dict[str, GeolakeError]:
    """Replace the footers, and report files that cannot be changed or were changed by others: they stay unchanged."""
    known = _read_footers(storage, entry.transaction)
    problems: dict[str, GeolakeError] = {}

    def edit(step: Mapping[str, Any]) -> None:
        path = step["path"]
        try:
            if not _has_new_footer(storage, step):
                if path not in known:
                    raise RefusedError("the new footer of the file was not kept", where=f"{storage.location}/{path}")
                put_footer(storage, FileState.from_dict(step), known[path][1])
        except GeolakeError as problem:
            problems[path] = problem
        report(f"footer {path}")

    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(edit, steps))
    for problem in problems.values():
        if isinstance(problem, _UNKNOWN):
            raise problem
    # A step that was reported as failed may have been done: the footers show it.
    failed = [step for step in steps if step["path"] in problems]
    return {step["path"]: problems[step["path"]] for step in failed if not _has_new_footer(storage, step)}


def _created(storage: Storage, action: Mapping[str, Any], problems: Mapping[str, GeolakeError]) -> GeolakeError | None:
    """Create the log, and return why it is not created: a file that it lists is not as it states, or another table."""
    if problems:
        return next(iter(problems.values()))
    try:
        create_log(storage, action)
    except ConflictError as problem:
        return problem
    return None


def _has_new_footer(storage: Storage, step: Mapping[str, Any]) -> bool:
    try:
        now = FileState.now(storage, step["path"])
    except (CorruptTableError, MissingFileError):
        return False
    return (now.footer, now.bytes) == (step["new_footer"], step["new_bytes"])


def _silent(_: str) -> None:
    return


def find_transaction(change: Change, context: CommitContext) -> int | None:
    """The number of the change that was made under this transaction, `None` if there is none.

    An interrupted one is finished first.
    """
    stored = find_change(context.storage, context.transaction)
    if stored is None:
        return None
    if stored.outcome is None:
        end_pending(context.storage)
        stored = find_change(context.storage, context.transaction)
    return None if stored is None or (stored.outcome is not None and stored.outcome.abandoned) else stored.version


def require_atomic_put(context: CommitContext) -> None:
    """Raise if the store of the set has no atomic put: the journal decides which writer is first."""
    require_exclusion(context.storage, single_writer=context.single_writer, folder=HIDDEN)


def commit_change(change: Change, context: CommitContext) -> Applied:
    """Run the steps of the change; a journal is written first, so that they can be finished or undone."""
    puts = [json.loads(text).get("put", {}) for text in change.actions if '"problems"' in text]
    unbounded = warn_of_problems(puts)
    metrics = {**change.metrics, **({"files_without_bound": unbounded} if unbounded else {})}
    made = SetChange(context.transaction, change.verb.value, change.actions, change.parameters, metrics)
    return Applied(commit_set(context.storage, made), metrics=metrics)


def pending_change(storage: Storage, snapshot: Snapshot, verb: Verb) -> Change | None:
    """The change that finishes an interrupted one, `None` if there is none; it comes before any other change."""
    pending = [entry for entry in read_journal(storage) if entry.outcome is None]
    if not pending:
        return None
    newest = pending[-1]
    return Change(
        verb,
        snapshot.format,
        snapshot.location,
        None,
        actions=[action("finish", {"version": newest.version, "transaction": newest.transaction})],
        notes=(
            f"Change {newest.version} ({newest.verb}) was interrupted: its remaining steps run now.",
            "Plan again afterwards.",
        ),
        parameters={"finish": str(newest.version)},
    )


def single_file(snapshot: Snapshot) -> str | None:
    """The name of the file that the table is, `None` for a folder or a pattern."""
    storage: Storage = snapshot.details.storage
    paths = snapshot.files.table["path"].to_pylist()
    return paths[0] if len(paths) == 1 and snapshot.location == f"{storage.location}/{paths[0]}" else None


def require_folder(snapshot: Snapshot, what: str) -> None:
    """Raise for a pattern, which selects files but does not define where new ones belong."""
    storage: Storage = snapshot.details.storage
    if snapshot.location != storage.location and single_file(snapshot) is None and has_glob(snapshot.location):
        raise RefusedError(f"{what} needs a folder or a file, not a pattern", where=snapshot.location,
                           remedy="open the folder")  # fmt: skip
