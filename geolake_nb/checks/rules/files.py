"""Rules about the data files themselves: missing files, and what their footers declare for plain columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.checks.finding import Severity
from geolake_nb.checks.rule import Fault, Needs, Rule
from geolake_nb.model.table_format import SpecReference
from geolake_nb.model.types import GeographyType, GeometryType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.checks.evidence import Evidence
    from geolake_nb.model.types import DataType

__all__ = ["FILES_RULES"]

_ICEBERG = SpecReference("Iceberg table spec v3", "Manifests")
_PARQUET = SpecReference("Parquet format", "ColumnOrder, TYPE_ORDER of FLOAT and DOUBLE")


def _missing(evidence: Evidence) -> Iterator[Fault]:
    assert evidence.missing is not None
    gone = np.zeros(evidence.count, np.bool_)
    gone[evidence.file_of(evidence.missing)] = True
    if gone.any():
        source = evidence.snapshot.format.files_spec
        yield Fault("referenced by the table but missing: their contents are not checked", evidence.scope(gone), source)


def _nan_outside_range(evidence: Evidence) -> Iterator[Fault]:
    hidden = evidence.hidden_nan
    if hidden is None or not hidden.num_rows:
        return
    names = np.asarray(hidden["column"].to_pylist(), object)
    repeated = evidence.repeated
    # Clustering by a column rewrites every file.
    cluster = next((path for path, kind in evidence.columns if _is_shape(kind) and path not in repeated), None)
    for name in dict.fromkeys(names.tolist()):
        what = "NaN outside the min and max in the footer: Spark and others that use them lose these rows"
        scope = evidence.scope_of_rows(hidden, names == name, name)
        yield Fault(what, scope, fix_column=cluster or (None if name in repeated else name))


def _is_shape(kind: DataType) -> bool:
    return isinstance(kind, (GeometryType, GeographyType))


FILES_RULES = (
    Rule(
        "files.missing",
        Severity.ERROR,
        "a data file that the table references but that is missing",
        "A query that needs it fails: restore it from a backup, or go back to a version without it.",
        SpecReference("Delta protocol", "Add File and Remove File"),
        _missing,
        formats=frozenset({"delta", "iceberg", "havasu"}),
        needs=Needs.MISSING,
        no_command="restore the file from a backup, or go back to a version without it",
    ),
    Rule(
        "files.nan_outside_range",
        Severity.ERROR,
        "a data file whose footer has a min and max without its NaN values",
        "For Spark NaN is greater than any number, and it skips by footers: a filter such as d > 5 loses the rows.",
        _PARQUET,
        _nan_outside_range,
        "geolake rewrite {table} --cluster {column}",
        needs=Needs.DEEP,
        no_command="its only columns are inside lists and maps, which cannot be clustered by: rewrite it with the"
        " engine that wrote it",
    ),
)
