"""Good tables are silent, whatever was read of them."""

from __future__ import annotations

import pytest

from geolake_nb.checks.check import check
from geolake_nb.formats.rules import RULES
from tests.checks.check_tables import BOXES, GOOD, delta, files, geo_stats, havasu


@pytest.mark.parametrize("name", GOOD)
def test_a_good_table_has_no_findings(name):
    findings = GOOD[name]().check()
    assert not findings, str(findings)
    assert findings.exit_code() == 0
    assert not findings.skipped_checks


@pytest.mark.parametrize("name", GOOD)
def test_a_good_table_has_no_findings_from_its_metadata_alone(name):
    findings = check(GOOD[name]().snapshot, RULES)
    assert not findings, str(findings)
    assert {check.why for check in findings.skipped_checks} <= {
        "the existence of data files was not checked",
        "the row groups were not read",
        "the Parquet footers were not read",
        "the data was not scanned (--deep)",
        "the rasters were not read",
    }


@pytest.mark.parametrize("name", GOOD)
def test_a_good_table_with_few_small_files_is_good(name):
    table = GOOD[name]()
    few = table.snapshot.files
    small = table.with_files(bytes=[1000] * len(few))
    cut = type(few)(small.snapshot.files.table.slice(0, 3), few.geo_columns)
    findings = small.changed(files=cut, details=None).check()
    assert not findings, str(findings)
    assert [(check.rule, check.why) for check in findings.skipped_checks] == [
        ("layout.overlap", f"3 of 3 files have a box of {column}; the overlap check needs at least 8")
        for column in few.geo_columns
    ]


def test_a_table_without_files_is_good():
    empty = files({"geom": geo_stats([]), "track": geo_stats([])}, paths=[])
    findings = delta().changed(files=empty, details=None).check()
    assert not findings, str(findings)


def test_evidence_about_files_that_are_gone_is_passed_over():
    table = delta()
    kept = table.snapshot.files
    rest = type(kept)(kept.table.slice(5), kept.geo_columns)
    moved = table.with_boxes(BOXES[::-1])  # the boxes of the first five files would be wrong
    assert not table.changed(files=rest, details=None).check()
    assert moved.check().of("bounds.smaller_than_footer")


def test_rasters_without_bands_leave_the_band_rules_open():
    table = havasu()
    group = table.rasters["rast"].combine_chunks()
    names = ("width", "height", "num_bands", "crs_wkt", "geo_reference")
    import pyarrow as pa

    plain = pa.StructArray.from_arrays([group.field(name) for name in names], names, mask=group.is_null())
    findings = table.check(rasters=pa.table({"path": table.rasters["path"], "rast": plain}))
    assert not findings, str(findings)
    assert {check.why for check in findings.skipped_checks} == {"the bands of the rasters were not read"}
    assert "raster.data_size" in {check.rule for check in findings.skipped_checks}
