"""Rules about the data files themselves: those that the table names and that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.health.finding import Severity, SpecReference
from geolake_nb.planning.health.rule import Fault, Needs, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.planning.health.evidence import Evidence

__all__ = ["FILES_RULES"]

_DELTA = SpecReference("Delta protocol", "Add File and Remove File")
_ICEBERG = SpecReference("Iceberg table spec v3", "Manifests")


def _missing(evidence: Evidence) -> Iterator[Fault]:
    assert evidence.missing is not None
    gone = np.zeros(evidence.count, np.bool_)
    gone[evidence.file_of(evidence.missing)] = True
    if gone.any():
        source = _DELTA if evidence.snapshot.format is TableFormat.DELTA else _ICEBERG
        yield Fault("named by the table and not there: nothing in them is checked", evidence.place(gone), source)


FILES_RULES = (
    Rule(
        "files.missing",
        Severity.ERROR,
        "a data file that the table names and that is not there",
        "A query that needs it fails: bring it back from a backup, or go back to a version that does not have it.",
        _DELTA,
        _missing,
        formats=frozenset({TableFormat.DELTA, TableFormat.ICEBERG, TableFormat.HAVASU}),
        needs=Needs.MISSING,
    ),
)
