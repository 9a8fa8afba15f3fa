"""A change to a table that is decided and not made: exact actions, what it costs, whom it locks out."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from geolake_nb.errors import RefusedError
from geolake_nb.formats.delta.remove_action import without_deletion_time

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from geolake_nb.formats.snapshot import Snapshot, TableFormat
    from geolake_nb.planning.engines import EngineFact

__all__ = ["Change", "Job", "OneWayDoor", "Reads", "Verb", "of_table"]


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
    WRITE = "write"
    """New rows, in a new table or in one that is there."""
    COLLATIONS = "collations"
    """Strings compare by other rules; the statistics follow."""
    FORGET = "forget"
    """What is kept for undo is removed."""
    UNDO = "undo"
    """An earlier change is taken back."""


@dataclass(frozen=True, slots=True)
class OneWayDoor:
    """A step that cannot be taken back, and that a user has to agree to by name."""

    name: str
    """What the consent names, such as `collations`."""
    why: str
    """Who or what is left behind, in one sentence."""


@dataclass(frozen=True, slots=True)
class Reads:
    """How much of the data a change reads before it commits: files, and about how many bytes of them."""

    files: int = 0
    bytes: int = 0


class Job(Protocol):
    """The work on data that is left to Spark; its results complete the actions of the change."""

    def to_dict(self) -> dict[str, Any]:
        """What the job will do, in plain values that are the same whenever the same thing is planned."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What will be committed, on which version, and what a user should know before it is.

    >>> from geolake_nb.formats.snapshot import TableFormat
    >>> nothing = Change(Verb.REPAIR, TableFormat.DELTA, "/t", 3)
    >>> nothing.is_empty, nothing.hash == Change(Verb.REPAIR, TableFormat.DELTA, "/t", 3).hash
    (True, True)
    """

    verb: Verb
    format: TableFormat
    location: str
    base_version: int | None
    """The version that the change was decided on; `None` where it makes the table."""
    actions: Sequence[str] = ()
    """The JSON of each action as it will stand in the log; those that `job` completes are not among them."""
    job: Job | None = None
    says: tuple[str, ...] = ()
    """What will happen, one sentence each."""
    reads: Reads = Reads()
    doors: tuple[OneWayDoor, ...] = ()
    undo: str = "geolake undo takes it back"
    """How the change can be taken back, or why it cannot."""
    engines: tuple[EngineFact, ...] = ()
    """Who can read and write the table afterwards."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """For the history of the table: what was asked for."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """For the history of the table and the report: what was done, such as `files_restated`."""
    tolerates_appends: bool = True
    """Whether files that others add in the meantime do no harm."""
    blind_append: bool = False
    """Whether it only adds rows, whatever the table holds."""
    table_id: str | None = None
    """Of the table that it was decided on: another one that takes its place is not changed."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.actions and self.job is None

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that are the same for the same change and no other."""
        digest = hashlib.sha256()
        head = [self.verb.value, self.format.value, self.base_version, dict(self.parameters)]
        job = None if self.job is None else self.job.to_dict()
        digest.update(json.dumps([*head, job], sort_keys=True, default=str).encode())
        for action in self.actions:
            digest.update(b"\n")
            digest.update(without_deletion_time(action).encode())
        return digest.hexdigest()[:12]

    def require_consent(self, consent: Collection[str]) -> None:
        """Raise unless every one-way door is agreed to by its name.

        >>> from geolake_nb.formats.snapshot import TableFormat
        >>> door = OneWayDoor("collations", "Only Delta Kernel can write the table afterwards.")
        >>> Change(Verb.COLLATIONS, TableFormat.DELTA, "/t", 3, doors=(door,)).require_consent([])
        Traceback (most recent call last):
        geolake_nb.errors.RefusedError: /t: the change cannot be taken back: Only Delta Kernel can write the table ...
        """
        for door in self.doors:
            if door.name not in consent:
                raise RefusedError(
                    f"the change cannot be taken back: {door.why.rstrip('.')}",
                    where=self.location,
                    remedy=f"agree with consent={door.name!r} (--consent {door.name}) if that is what you want",
                )


def of_table(change: Change, snapshot: Snapshot) -> Change:
    """The change with the id of the table that it was decided on, where the format has one."""
    metadata = getattr(snapshot.details, "metadata", None)
    raw = getattr(metadata, "raw", {})
    named = raw.get("id") or raw.get("table-uuid")
    return replace(change, table_id=named if isinstance(named, str) else None)
