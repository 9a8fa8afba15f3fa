"""A plan that a user reads and then runs, and the report of what it did."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.core.message_text import plural
from geolake_nb.core.showing import Shown
from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.planning.change_text import change_dict, change_text
from geolake_nb.planning.health.finding import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.api.opening import Source
    from geolake_nb.planning.change import Change
    from geolake_nb.planning.writing.preview import Preview

    Progress = Callable[[int, int], None]

__all__ = ["Plan", "Report"]


class Plan(Shown):
    """A change that is decided and not made; it is applied as shown or not at all."""

    def __init__(self, change: Change, source: Source) -> None:
        self.change = change
        self.transaction = str(uuid.uuid4())
        """Under which the commit will be known in the history of the table."""
        self._source = source

    def __repr__(self) -> str:
        return f"Plan({self.change.verb.value!r}, {self.change.location!r}, {self.hash!r})"

    def __str__(self) -> str:
        return change_text(self.change)

    def _ipython_display_(self) -> None:
        from geolake_nb.jupyter.plan_view import display_plan

        display_plan(self)

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that stand for exactly this change."""
        return self.change.hash

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.change.is_empty

    def to_dict(self) -> dict[str, Any]:
        """The plan with plain values, all its actions included."""
        return change_dict(self.change)

    def preview(self, *, windows: int = 100, on_progress: Progress | None = None) -> Preview:
        """Boxes, overlap and share of files read before and after a rewrite, from a sample of the rows."""
        from geolake_nb.planning.writing.preview import preview
        from geolake_nb.spark.parquet_source import sample_parquet

        return preview(
            self._source.storage,
            self.change,
            windows=windows,
            on_progress=on_progress,
            sample_parquet=sample_parquet,
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
        """Run the plan and commit it; a session is started only where data has to be read and none is given.

        `consent` names the one-way doors that are agreed to. `expect` is the hash of the plan that was read: another
        one is refused. `single_writer` says that nobody else writes to a store that cannot exclude other writers.
        Applying a plan again tells whether it landed the first time, and never does it twice.
        """
        from geolake_nb.spark.applying import Place, apply_change

        if expect is not None and expect != self.hash:
            raise RefusedError(
                f"the plan is {self.hash} and not {expect}: the table has changed since it was shown",
                where=self.change.location,
                remedy="read the new plan",
            )
        self.change.require_consent({consent} if isinstance(consent, str) else consent)
        started = time.perf_counter()
        place = Place(
            storage=self._source.storage,
            transaction=self.transaction,
            spark=spark,
            catalog=self._source.catalog,
            single_writer=single_writer,
        )
        done = apply_change(self.change, place, on_progress=on_progress)
        return Report(
            verb=self.change.verb.value,
            location=self.change.location,
            version=done.version,
            transaction=self.transaction,
            rebased_over=done.rebased_over,
            metrics=done.metrics,
            seconds=time.perf_counter() - started,
            was_there=done.was_there,
            _source=self._source,
        )


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """What a plan did.

    >>> print(Report("repair", "/t", None, "", (), {}, 0.0))
    repair /t: nothing to do
    >>> print(Report("repair", "/t", 3, "", (), {}, 0.0, was_there=True))
    repair /t: version 3 has the change already, nothing was done
    """

    verb: str
    location: str
    version: int | None
    """The version that was committed; `None` where there was nothing to do."""
    transaction: str
    rebased_over: tuple[int, ...]
    """The versions of others that came in between."""
    metrics: Mapping[str, int] = field(hash=False)
    seconds: float
    was_there: bool = False
    """Whether the version had the change already when the plan was applied, so that nothing was done."""
    _source: Source | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        head = f"{self.verb} {printable(self.location)}"
        if self.version is None:
            return f"{head}: nothing to do"
        if self.was_there:
            return f"{head}: version {self.version} has the change already, nothing was done"
        facts = [_counted(name, value) for name, value in self.metrics.items() if value]
        over = f", over {len(self.rebased_over)} commits of others" if self.rebased_over else ""
        told = "".join(f"\n  {fact}" for fact in facts)
        return f"{head}: version {self.version}{over}, {self.seconds:.1f} s{told}"

    def to_dict(self) -> dict[str, Any]:
        """`verb, location, version, transaction, rebased_over, metrics, seconds`."""
        return {
            "verb": self.verb,
            "location": self.location,
            "version": self.version,
            "transaction": self.transaction,
            "rebased_over": list(self.rebased_over),
            "metrics": dict(self.metrics),
            "seconds": self.seconds,
        }

    def undo(self, *, spark: SparkSession | None = None, single_writer: bool = False) -> Report:
        """Take the change back by a commit of its own, if nobody built on it in the meantime."""
        from geolake_nb.api.table import Table

        if self.version is None or self._source is None:
            raise GeolakeError("there is nothing to undo", where=self.location)
        source = self._source.placed()
        table = Table(source.snapshot(), source)
        return table.plan_undo(self.version).apply(spark=spark, single_writer=single_writer)


def _counted(name: str, value: int) -> str:
    """A metric in words.

    >>> _counted("files_added", 1), _counted("rows_written", 1200)
    ('1 file added', '1,200 rows written')
    """
    noun, _, done = name.replace("_", " ").partition(" ")
    return f"{plural(value, noun.removesuffix('s'))} {done}"
