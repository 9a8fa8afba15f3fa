"""Data files that the table names and that are not there, and footers that hide NaN."""

from __future__ import annotations

import pyarrow as pa
import pytest

from geolake_nb.checks.finding import Severity
from tests.checks.check_tables import PATHS, delta, havasu, iceberg, paths_of, the_finding


@pytest.mark.parametrize(
    ("make", "source"),
    [(delta, "Delta protocol"), (iceberg, "Iceberg table spec v3"), (havasu, "Iceberg table spec v3")],
)
def test_files_that_are_not_there(make, source):
    finding = the_finding(make().check(missing=paths_of([PATHS[2], PATHS[7]])), "files.missing")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == (None, (PATHS[2], PATHS[7]), 2)
    assert finding.spec.document == source
    assert finding.fix is None


def test_missing_files_are_not_checked_without_their_evidence():
    assert [check.rule for check in delta().check(missing=None).skipped_checks] == ["files.missing"]


def test_footers_that_leave_nan_out():
    hidden = pa.table({"path": [PATHS[1], PATHS[3], PATHS[1]], "column": ["d", "d", "e"]})
    findings = [finding for finding in delta().check(hidden_nan=hidden) if finding.rule == "files.nan_outside_range"]
    assert [(finding.scope.column, finding.scope.count) for finding in findings] == [("d", 2), ("e", 1)]
    assert findings[0].severity is Severity.ERROR
    assert findings[0].fix is not None
    assert findings[0].fix.endswith(" --cluster geom")
