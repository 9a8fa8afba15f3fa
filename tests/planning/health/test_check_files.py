"""Data files that the table names and that are not there, and footers that hide NaN."""

from __future__ import annotations

import pyarrow as pa
import pytest

from geolake_nb.planning.health.finding import Severity
from tests.planning.check_tables import PATHS, delta, havasu, iceberg, paths_of, the_finding


@pytest.mark.parametrize(
    ("make", "source"),
    [(delta, "Delta protocol"), (iceberg, "Iceberg table spec v3"), (havasu, "Iceberg table spec v3")],
)
def test_files_that_are_not_there(make, source):
    found = the_finding(make().check(missing=paths_of([PATHS[2], PATHS[7]])), "files.missing")
    assert found.severity is Severity.ERROR
    assert (found.place.column, found.place.paths, found.place.count) == (None, (PATHS[2], PATHS[7]), 2)
    assert found.spec.document == source
    assert found.mend is None


def test_files_that_were_not_looked_for_are_not_judged():
    assert [one.rule for one in delta().check(missing=None).not_judged] == ["files.missing"]


def test_footers_that_leave_nan_out():
    hidden = pa.table({"path": [PATHS[1], PATHS[3], PATHS[1]], "column": ["d", "d", "e"]})
    findings = [one for one in delta().check(hidden_nan=hidden) if one.rule == "files.nan_outside_range"]
    assert [(one.place.column, one.place.count) for one in findings] == [("d", 2), ("e", 1)]
    assert findings[0].severity is Severity.ERROR
    assert findings[0].mend is not None
    assert findings[0].mend.endswith(" --cluster geom")
