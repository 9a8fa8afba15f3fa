"""Rules about a folder of Parquet files as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import PARQUET_LOGICAL, Fault, Rule
from geolake_nb.formats.parquet_folder.snapshot import ParquetDetails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.checks.check import Evidence

__all__ = ["PARQUET_FOLDER_RULES"]

_SHOWN = 20


def _files_differ(evidence: Evidence) -> Iterator[Fault]:
    details = evidence.snapshot.details
    problems = details.problems if isinstance(details, ParquetDetails) else ()
    groups: dict[tuple[str | None, str], list[str]] = {}
    for problem in problems:
        paths = groups.setdefault((problem.column, problem.what), [])
        paths += [] if problem.path is None else [problem.path]
    for (column, what), paths in list(groups.items())[:_SHOWN]:
        yield Fault(what, Scope(column, tuple(paths[:3]), len(paths)))


PARQUET_FOLDER_RULES = (
    Rule(
        "protocol.files_differ",
        Severity.WARNING,
        "Parquet files that do not fit together: other types, or GeoParquet metadata that cannot be used",
        "Where a column means one thing in one file and another in the next, a query over both fails or gives "
        "wrong answers.",
        PARQUET_LOGICAL,
        _files_differ,
        formats=frozenset({"parquet"}),
        no_command="the owner has to declare the type of the column: geolake rewrite TABLE --column COLUMN=TYPE",
    ),
)
