"""Rules about columns that lack a geo type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Scope, Severity
from geolake_nb.checks.rule import Fault, Needs, Rule, Skip
from geolake_nb.checks.rules.sources import PARQUET_CRS, PARQUET_LOGICAL
from geolake_nb.checks.untyped_wkb import crs_sentence, typing_command, why_no_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.checks.evidence import Evidence

__all__ = ["GEO_RULES"]


def _untyped_wkb(evidence: Evidence) -> Iterator[Fault | Skip]:
    sample, snapshot = evidence.wkb, evidence.snapshot
    assert sample is not None
    for column in sample.columns:
        command = typing_command(snapshot, column)
        what = f"a plain binary column whose {column.values} sampled values are all valid WKB: {crs_sentence(column)}"
        yield Fault(
            what,
            Scope(column.path),
            None if snapshot.format.types_spec == PARQUET_CRS else snapshot.format.types_spec,
            command=command,
            no_command=None if command is not None else why_no_command(snapshot, column),
        )
    if sample.unread and evidence.count:
        yield Skip("no value of a binary column could be read")


GEO_RULES = (
    Rule(
        "geo.untyped_wkb",
        Severity.WARNING,
        "a plain binary column whose sampled values are all valid WKB",
        "No engine knows that the column holds geometries: no file is skipped, nothing is drawn, and the CRS is lost.",
        PARQUET_LOGICAL,
        _untyped_wkb,
        "geolake enable {table} COLUMN=TYPE",
        formats=frozenset({"delta", "iceberg", "parquet"}),
        needs=Needs.WKB,
        no_command="Iceberg does not let a column change from binary to geometry: write the rows to a new table",
    ),
)
