"""What a format needs to commit a change, and what it reports back."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.geo.bounds import BadValueWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from geolake_nb.storage.storage import Storage

__all__ = ["Applied", "CommitContext", "warn_of_problems"]


@dataclass(frozen=True, slots=True)
class CommitContext:
    """The table that is changed, and by whom."""

    storage: Storage
    """The root of the table."""
    transaction: str
    """The id of the change: in the history of the table, and in the name of each new file."""
    spark: SparkSession | None = None
    """The session that a user gave."""
    session: Callable[[SparkSession | None], SparkSession] | None = None
    """Gives the session to commit through, starting one where none runs; only Iceberg commits through the JVM."""
    catalog: Any = None
    """The catalog that knows the table, where it was found in one or is to be made in one."""
    staged: Any = None
    """The transaction that creates a table in its catalog, which has chosen the location."""
    single_writer: bool = False
    """Whether nobody else writes to a store that has no atomic writes."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a change."""

    version: int | None
    rebased_over: tuple[int, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict, hash=False)
    already_applied: bool = False
    """Whether the change was already applied, so that nothing was done."""


def warn_of_problems(adds: Sequence[Mapping[str, Any]]) -> int:
    """Report the files that have values without bounds; returns their number."""
    count = 0
    for add in adds:
        for column, problem in add.get("problems", {}).items():
            message = f"{add['path']}: {column} gets no bounds, first {problem}"
            warnings.warn(message, BadValueWarning, stacklevel=5)
        count += bool(add.get("problems"))
    return count
