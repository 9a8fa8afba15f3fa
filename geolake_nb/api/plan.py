"""A plan that a user reads and then runs, as text and as JSON, and the report of what it did."""

from __future__ import annotations

import textwrap
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.model.change import Verb
from geolake_nb.model.display import LiveDisplayable
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.text.messages import plural, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.api.table import Table
    from geolake_nb.changes.rewrite import Preview
    from geolake_nb.formats.base import TableSource
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.text.messages import Progress

__all__ = ["Plan", "Report", "base_text", "change_dict", "change_text"]

_WIDTH = 100
_SHOWN_ACTIONS = 5
_ENGINE_WIDTH = 27
_CHANGES_READS = frozenset({"repair", "rewrite"})


def change_text(change: Change, *, actions: int = _SHOWN_ACTIONS) -> str:
    """The plan in 100 columns, with the first few of its actions."""
    return "\n".join(_lines(change, actions))


def change_dict(change: Change) -> dict[str, Any]:
    """The change as JSON.

    Keys: `verb, location, format, base_version, hash, notes, reads, actions, job, irreversible_steps, undo, engines,
    parameters`.
    """
    return {
        "verb": change.verb.value,
        "location": change.location,
        "format": change.format.name,
        "base_version": change.base_version,
        "hash": change.hash,
        "notes": list(change.notes),
        "reads": {"files": change.reads.files, "bytes": change.reads.bytes},
        "actions": list(change.actions),
        "job": None if change.job is None else change.job.to_dict(),
        "irreversible_steps": [{"name": step.name, "why": step.why} for step in change.irreversible_steps],
        "undo": change.undo,
        "engines": [fact.to_dict() for fact in change.engines],
        "parameters": dict(change.parameters),
    }


def base_text(change: Change) -> str:
    """What the change was planned on, in words."""
    if not change.format.has_versions:
        return "a set of files"
    return "a new table" if change.base_version is None else f"version {change.base_version}"


def _lines(change: Change, shown: int) -> Iterator[str]:
    yield printable(f"{change.verb.value} {change.location}: plan {change.hash} on {base_text(change)}")
    if change.is_empty:
        yield from _sentences(change.notes or ("There is nothing to do.",))
        return
    yield from _sentences(change.notes)
    read = change.reads
    amount = f"{plural(read.files, 'file')}, {bytes_text(read.bytes)}" if read.files else "no data file"
    yield f"reads      {amount}"
    yield printable(f"undo       {change.undo}")
    for step in change.irreversible_steps:
        yield from _wrapped("cannot be undone: ", printable(f"{step.why} Confirm with --consent {step.name}."))
    if change.engines:
        width = max(_ENGINE_WIDTH, *(len(fact.engine) + 1 for fact in change.engines))
        yield f"{'afterwards':{width + 2}}{'reads':11}writes"
        for fact in change.engines:
            yield f"  {fact.engine:{width}}{fact.reads.value:11}{fact.writes.value}"
            if change.verb is Verb.PUBLISH:
                yield from _wrapped("    ", printable(f"{fact.note} ({fact.as_of})"))
    if change.actions:
        count = len(change.actions)
        yield f"actions    {count:,}" + (f", the first {shown}:" if count > shown else ":")
        for action in change.actions[:shown]:
            # Cut where it ends, not between words: an action may be one word.
            yield shortened(f"  {printable(action)}", 4 * _WIDTH)


def _sentences(sentences: tuple[str, ...]) -> Iterator[str]:
    for sentence in sentences:
        yield from _wrapped("", printable(sentence))


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label)) or [label]


class Plan(LiveDisplayable):
    """A planned change; it is applied as shown or not at all.

    Example:
        >>> plan = t.plan_repair()
        >>> plan
        Plan('repair', '/.../roads', '...')
        >>> print("\\n".join(str(plan).splitlines()[1:4]))  # print(plan) shows the log entries too
        geom: 3 files without a bound; 3 repaired from Parquet footers.
        reads      3 files, 3.1 kB
        undo       geolake undo reverts it
    """

    def __init__(self, change: Change, source: TableSource, *, origin: Table | None = None) -> None:
        self.change = change
        self.origin = origin
        """The table that was planned on; `None` where the plan makes a new one."""
        self.transaction = str(uuid.uuid4())
        """The id of the commit in the history of the table."""
        self._source = source

    def __repr__(self) -> str:
        return f"Plan({self.change.verb.value!r}, {self.change.location!r}, {self.hash!r})"

    def __str__(self) -> str:
        return change_text(self.change)

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that identify exactly this change."""
        return self.change.hash

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.change.is_empty

    def to_dict(self) -> dict[str, Any]:
        """The plan with plain values, all its actions included, ready for JSON.

        Returns:
            A dict with stable keys: `geolake help json` lists them.

        Example:
            >>> plan = t.plan_repair().to_dict()
            >>> plan["verb"], plan["base_version"], len(plan["actions"])
            ('repair', 1, 3)
        """
        return change_dict(self.change)

    def preview(self, *, windows: int = 100, on_progress: Progress | None = None) -> Preview:
        """Bounds, overlap and share of files read before and after a rewrite, from a sample of the rows.

        Args:
            windows: how many random windows are queried.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            The state before and the estimate after; in a notebook, two maps that move together.

        Raises:
            GeolakeError: the plan does not rewrite rows, or the table has no geo column.

        Example:
            >>> preview = t.plan_rewrite(cluster_by="geom").preview(windows=10)
            >>> preview.sampled_rows
            12
        """
        from geolake_nb.changes.rewrite import preview
        from geolake_nb.spark.row_sources import sample_rows

        return preview(
            self._source.storage,
            self.change,
            windows=windows,
            on_progress=on_progress,
            sample_rows=sample_rows,
        )

    def apply(
        self,
        *,
        spark: SparkSession | None = None,
        consent: str | Collection[str] = (),
        expect: str | None = None,
        single_writer: bool = False,
        on_progress: Progress | None = None,
    ) -> Report:
        """Run the plan and commit it.

        A session is started only where data has to be read and none is given. Applying a plan again reports whether
        it was applied the first time, and never applies it twice.

        Args:
            spark: the session that reads and writes data; by default the running one, else a new local one.
            consent: the names of the irreversible steps that are confirmed.
            expect: the hash of the plan that was read; another plan is refused.
            single_writer: assert that nobody else writes to a store without atomic writes.
            on_progress: called with the number of tasks that are done and that of all.

        Returns:
            The version that was committed, and what it did.

        Raises:
            RefusedError: the plan is not the expected one, a consent is missing, or the store has no atomic writes.
            ConflictError: another writer committed what the plan depends on; nothing was committed.
            OutcomeUnknownError: it is unknown whether the commit succeeded; look at the history first.
            JobError: a Spark job failed or was cancelled; nothing was committed.

        Example:
            >>> report = t.plan_repair().apply()
            >>> report.version, report.metrics["files_updated"]
            (2, 3)
            >>> t.plan_repair().apply(expect="000000000000")
            Traceback (most recent call last):
            geolake_nb.errors.RefusedError: /.../roads: expected the plan 000000000000, got ...
        """
        from geolake_nb.formats.base import CommitContext
        from geolake_nb.spark.applying import apply_change
        from geolake_nb.spark.session import session_for

        if expect is not None and expect != self.hash:
            raise RefusedError(
                f"expected the plan {expect}, got {self.hash}: the table has changed since it was shown",
                where=self.change.location,
                remedy="read the new plan",
            )
        self.change.require_consent({consent} if isinstance(consent, str) else consent)
        started = time.perf_counter()
        context = CommitContext(
            storage=self._source.storage,
            transaction=self.transaction,
            spark=spark,
            catalog=self._source.catalog,
            single_writer=single_writer,
            session=session_for,
        )
        done = apply_change(self.change, context, on_progress=on_progress)
        return Report(
            verb=self.change.verb.value,
            location=self.change.location,
            version=done.version,
            transaction=self.transaction,
            rebased_over=done.rebased_over,
            metrics=done.metrics,
            seconds=time.perf_counter() - started,
            already_applied=done.already_applied,
            origin=self.origin,
            _source=self._source,
            _before=None if self.origin is None else self.origin.snapshot,
        )


@dataclass(frozen=True, slots=True)
class Report(LiveDisplayable):
    """What a plan did.

    Example:
        >>> print(Report("repair", "/t", None, "", (), {}, 0.0))
        repair /t: nothing to do
        >>> print(Report("repair", "/t", 3, "", (), {}, 0.0, already_applied=True))
        repair /t: version 3 already has the change, nothing was done
    """

    verb: str
    location: str
    version: int | None
    """The version that was committed; `None` where there was nothing to do."""
    transaction: str
    rebased_over: tuple[int, ...]
    """The versions of other writers that came in between."""
    metrics: Mapping[str, int] = field(hash=False)
    seconds: float
    already_applied: bool = False
    """Whether the change was already applied, so that nothing was done."""
    origin: Table | None = field(default=None, repr=False, compare=False)
    """The table that was planned on; `None` where a new table was made."""
    _source: TableSource | None = field(default=None, repr=False, compare=False)
    _before: Snapshot | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        head = f"{self.verb} {printable(self.location)}"
        if self.version is None:
            return f"{head}: nothing to do"
        if self.already_applied:
            return f"{head}: version {self.version} already has the change, nothing was done"
        facts = [_counted(name, value) for name, value in self.metrics.items() if value]
        over = f", rebased over {len(self.rebased_over)} commits of other writers" if self.rebased_over else ""
        details = "".join(f"\n  {fact}" for fact in facts)
        return f"{head}: version {self.version}{over}, {self.seconds:.1f} s{details}"

    def to_dict(self) -> dict[str, Any]:
        """The report with plain values, ready for JSON.

        Returns:
            A dict with the keys `verb, location, version, transaction, rebased_over, metrics, seconds`.

        Example:
            >>> report = t.plan_repair().apply().to_dict()
            >>> report["verb"], report["version"], report["rebased_over"]
            ('repair', 2, [])
        """
        return {
            "verb": self.verb,
            "location": self.location,
            "version": self.version,
            "transaction": self.transaction,
            "rebased_over": list(self.rebased_over),
            "metrics": dict(self.metrics),
            "seconds": self.seconds,
        }

    @property
    def reads(self) -> tuple[float, float] | None:
        """The share of the bytes that a query reads before and after the change, over windows where the rows are.

        `None` for a new table, for one without a geo column or without files, and where the table cannot be read.
        """
        from geolake_nb.scan.layout import read_share

        if self._before is None or self.version is None or self.verb not in _CHANGES_READS:
            return None
        try:
            shares = read_share(self._before), read_share(self.table().snapshot)
        except GeolakeError:
            return None
        return None if shares[0] is None or shares[1] is None else (shares[0], shares[1])

    def table(self) -> Table:
        """The table at its newest version.

        Returns:
            The table, opened again.

        Raises:
            GeolakeError: the report does not know how the table was opened.

        Example:
            >>> report = t.plan_repair().apply()
            >>> report.table().version, t.version
            (2, 1)
        """
        from geolake_nb.api.opening import placed
        from geolake_nb.api.table import Table

        if self._source is None:
            raise GeolakeError("the report does not know how its table was opened", where=self.location)
        source = placed(self._source)
        return Table(source.snapshot(), source)

    def undo(self, *, spark: SparkSession | None = None, single_writer: bool = False) -> Report:
        """Undo the change with a new commit, unless later commits depend on it.

        Args:
            spark: the session that reads and writes data, where the undo needs one.
            single_writer: assert that nobody else writes to a store without atomic writes.

        Returns:
            The report of the undo.

        Raises:
            GeolakeError: the plan had nothing to do.
            RefusedError: later commits depend on the change.

        Example:
            >>> report = t.plan_repair().apply()
            >>> report.undo().version
            3
        """
        if self.version is None or self._source is None:
            raise GeolakeError("there is nothing to undo", where=self.location)
        return self.table().plan_undo(self.version).apply(spark=spark, single_writer=single_writer)


def _counted(name: str, value: int) -> str:
    """A metric in words.

    >>> _counted("files_added", 1), _counted("rows_written", 1200)
    ('1 file added', '1,200 rows written')
    """
    noun, _, done = name.replace("_", " ").partition(" ")
    return f"{plural(value, noun.removesuffix('s'))} {done}"
