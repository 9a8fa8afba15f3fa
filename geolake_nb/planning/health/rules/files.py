"""Rules about the data files themselves: those that are not there, and what their footers say of plain columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.core.types import GeographyType, GeometryType
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.health.finding import Severity, SpecReference
from geolake_nb.planning.health.rule import Fault, Needs, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.core.types import DataType
    from geolake_nb.planning.health.evidence import Evidence

__all__ = ["FILES_RULES"]

_DELTA = SpecReference("Delta protocol", "Add File and Remove File")
_ICEBERG = SpecReference("Iceberg table spec v3", "Manifests")
_PARQUET = SpecReference("Parquet format", "ColumnOrder, TYPE_ORDER of FLOAT and DOUBLE")


def _missing(evidence: Evidence) -> Iterator[Fault]:
    assert evidence.missing is not None
    gone = np.zeros(evidence.count, np.bool_)
    gone[evidence.file_of(evidence.missing)] = True
    if gone.any():
        source = _DELTA if evidence.snapshot.format is TableFormat.DELTA else _ICEBERG
        yield Fault("named by the table and not there: nothing in them is checked", evidence.place(gone), source)


def _nan_outside_range(evidence: Evidence) -> Iterator[Fault]:
    hidden = evidence.hidden_nan
    if hidden is None or not hidden.num_rows:
        return
    names = np.asarray(hidden["column"].to_pylist(), object)
    repeated = evidence.repeated
    # To cluster by a column writes every file again.
    cluster = next((path for path, kind in evidence.columns if _is_shape(kind) and path not in repeated), None)
    for name in dict.fromkeys(names.tolist()):
        what = "NaN outside of the minimum and maximum in the footer: Spark and others that go by them lose these rows"
        place = evidence.place_of_rows(hidden, names == name, name)
        yield Fault(what, place, fix_column=cluster or (None if name in repeated else name))


def _is_shape(kind: DataType) -> bool:
    return isinstance(kind, (GeometryType, GeographyType))


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
    Rule(
        "files.nan_outside_range",
        Severity.ERROR,
        "a data file whose footer has a minimum and maximum that leave NaN out",
        "For Spark NaN is greater than any number, and it skips by the footer: a filter such as d > 5 loses the rows.",
        _PARQUET,
        _nan_outside_range,
        "geolake rewrite {table} --cluster {column}",
        needs=Needs.DEEP,
    ),
)
