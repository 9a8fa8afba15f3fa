"""A planned change to a table: its exact actions, its cost, and the engines that it locks out."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from geolake_nb.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.table_format import EngineFact, TableFormat

__all__ = ["Change", "IrreversibleStep", "Job", "Reads", "Verb", "of_table"]


class Verb(enum.Enum):
    """What a change does; the value is the name of the command."""

    REPAIR = "repair"
    """Statistics are put right; no data file changes."""
    REWRITE = "rewrite"
    """The same rows in new files, in another order or in files of another size."""
    ENABLE = "enable"
    """Columns of bytes or text become geometries or geographies."""
    CONVERT = "convert"
    """A new table with the rows of another."""
    PUBLISH = "publish"
    """Files become a table where they lie."""
    WRITE = "write"
    """New rows, in a new table or an existing one."""
    COLLATIONS = "collations"
    """Strings compare by other rules; the statistics follow."""
    FORGET = "forget"
    """What is kept for undo is removed."""
    UNDO = "undo"
    """An earlier change is reverted."""


@dataclass(frozen=True, slots=True)
class IrreversibleStep:
    """A step that cannot be undone, and that a user has to confirm by name."""

    name: str
    """The name to confirm with, such as `collations`."""
    why: str
    """Which engines or data it affects for good, in one sentence."""


@dataclass(frozen=True, slots=True)
class Reads:
    """How much of the data a change reads before it commits: files, and about how many bytes of them."""

    files: int = 0
    bytes: int = 0


class Job(Protocol):
    """The work on data that is left to Spark; its results complete the actions of the change."""

    def to_dict(self) -> dict[str, Any]:
        """The job in plain values, the same whenever the same change is planned."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What will be committed, on which version, and what a user should know beforehand.

    >>> from geolake_nb.formats.registry import DELTA
    >>> nothing = Change(Verb.REPAIR, DELTA, "/t", 3)
    >>> nothing.is_empty, nothing.hash == Change(Verb.REPAIR, DELTA, "/t", 3).hash
    (True, True)
    """

    verb: Verb
    format: TableFormat
    location: str
    base_version: int | None
    """The version that the change was planned on; `None` where it creates the table."""
    actions: Sequence[str] = ()
    """The JSON of each log entry, without those that `job` completes."""
    job: Job | None = None
    notes: tuple[str, ...] = ()
    """What will happen, one sentence each."""
    reads: Reads = Reads()
    irreversible_steps: tuple[IrreversibleStep, ...] = ()
    undo: str = "geolake undo reverts it"
    """How the change can be undone, or why it cannot."""
    engines: tuple[EngineFact, ...] = ()
    """Who can read and write the table afterwards."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """For the history of the table: the parameters of the command."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """For the history of the table and the report: what was done, such as `files_updated`."""
    tolerates_appends: bool = True
    """Whether files that others add in the meantime do no harm."""
    blind_append: bool = False
    """Whether it only adds rows, whatever the table holds."""
    table_id: str | None = None
    """The id of the table that it was planned on; a table that replaced it is not changed."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.actions and self.job is None

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that are the same for the same change and no other."""
        digest = hashlib.sha256()
        head = [self.verb.value, self.format.name, self.base_version, dict(self.parameters)]
        job = None if self.job is None else self.job.to_dict()
        digest.update(json.dumps([*head, job], sort_keys=True, default=str).encode())
        for action in self.actions:
            digest.update(b"\n")
            digest.update(self.format.stable_action(action).encode())
        return digest.hexdigest()[:12]

    def require_consent(self, consent: Collection[str]) -> None:
        """Raise unless every irreversible step is confirmed by its name.

        >>> from geolake_nb.formats.registry import DELTA
        >>> step = IrreversibleStep("collations", "Only Delta Kernel can write the table afterwards.")
        >>> Change(Verb.COLLATIONS, DELTA, "/t", 3, irreversible_steps=(step,)).require_consent([])
        Traceback (most recent call last):
        geolake_nb.errors.RefusedError: /t: the change cannot be undone: Only Delta Kernel can write the table ...
        """
        for step in self.irreversible_steps:
            if step.name not in consent:
                raise RefusedError(
                    f"the change cannot be undone: {step.why.rstrip('.')}",
                    where=self.location,
                    remedy=f"confirm with consent={step.name!r} (--consent {step.name}) if that is what you want",
                )


def of_table(change: Change, snapshot: Snapshot) -> Change:
    """The change with the id of the table that it was planned on, where the format has one."""
    metadata = getattr(snapshot.details, "metadata", None)
    raw = getattr(metadata, "raw", {})
    named = raw.get("id") or raw.get("table-uuid")
    return replace(change, table_id=named if isinstance(named, str) else None)
