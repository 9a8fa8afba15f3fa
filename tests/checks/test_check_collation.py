"""Collations in the schema, and the statistics and hints that go with them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from geolake_nb.checks.finding import Severity
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.file_stats import read_stats
from geolake_nb.formats.delta.rules import newest_version
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import Field, ListType, StringType
from tests.checks.check_tables import COUNT, PATHS, ROWS, collated_field, delta, delta_details, the_finding

FIX = "geolake collations /data/roads"


def test_the_default_collation_stored():
    finding = the_finding(
        delta().with_fields(collated_field("spark.UTF8_BINARY", "note", "note")).check(), "collation.default_stored"
    )
    assert finding.severity is Severity.WARNING
    assert finding.scope.column == "note"
    assert finding.fix == f"{FIX} note=none"
    assert finding.spec.section == "Writer Requirements for Collations"


def test_a_version_in_the_schema():
    finding = the_finding(
        delta().with_fields(collated_field("ICU.UNICODE_CI.72")).check(), "collation.version_in_schema"
    )
    assert finding.severity is Severity.ERROR
    assert finding.scope.column == "name"
    assert "ICU.UNICODE_CI.72".lower() in finding.what.lower()
    assert "Spark cannot open the table" in finding.what
    assert finding.fix == f"{FIX} name=icu.UNICODE_CI"


def test_a_provider_that_spark_does_not_know():
    field = collated_field("glibc.de_DE", "note", "note")
    finding = the_finding(delta().with_fields(field).check(), "collation.unknown_provider")
    assert finding.severity is Severity.ERROR
    assert finding.scope.column == "note"
    assert "glibc.de_DE" in finding.what
    assert finding.fix is None
    assert "COLUMN=ID" in finding.no_command


def test_a_name_that_spark_does_not_have():
    field = collated_field("ICU.en_US", "note", "note")
    finding = the_finding(delta().with_fields(field).check(), "collation.unknown_name")
    assert finding.severity is Severity.ERROR
    assert finding.scope.column == "note"
    assert finding.fix == f"{FIX} note=icu.en_USA"


@pytest.mark.parametrize("identifier", ["icu.de", "ICU.en_USA", "spark.UTF8_LCASE"])
def test_providers_that_spark_knows(identifier):
    assert not delta().with_fields(collated_field(identifier, "note", "note")).check()


def test_a_key_that_matches_no_string():
    finding = the_finding(
        delta().with_fields(collated_field("icu.de", "note.key", "note")).check(), "collation.stray_key"
    )
    assert finding.severity is Severity.WARNING
    assert finding.scope.column == "note"
    assert "'note.key'" in finding.what
    assert finding.fix is None
    assert "does not match a string" in finding.no_command


def test_files_with_statistics_of_an_older_version_or_none():
    versions = ["77.1", None, *["78.3"] * 8]
    finding = the_finding(
        delta().changed(details=delta_details(versions=versions)).check(), "collation.stale_statistics"
    )
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("name", (PATHS[0], PATHS[1]), 2)
    assert "icu.UNICODE_CI.78.3" in finding.what
    assert finding.fix == f"{FIX} --upgrade"
    assert finding.spec.section == "Collation versions"


def test_the_newest_version_is_the_highest_not_the_last():
    details = delta_details(hints=("153.120", "153.14", "9"), versions=["153.120"] * COUNT)
    assert not delta().changed(details=details).check()


def test_files_of_nulls_are_not_stale():
    nothing = pa.nulls(COUNT, pa.string())
    nulls = pa.array([ROWS, *[0] * 9])
    scalars = ScalarColumn(nothing, nothing, nulls, pa.array([ROWS] * COUNT))
    details = delta_details(versions=[None, *["78.3"] * 9])
    table = delta().changed(details=details, scalars=lambda path: scalars if path == ("name",) else None)
    assert not table.check()


def test_statistics_are_found_by_the_physical_name():
    field = replace(collated_field(), physical_name="col-1")
    details = delta_details(mapping=ColumnMapping.NAME, name="col-1")
    assert not delta().with_fields(field).changed(details=details).check()
    unmapped = delta_details(mapping=ColumnMapping.NONE, name="col-1")
    assert delta().with_fields(field).changed(details=unmapped).check().of("collation.stale_statistics")


def test_statistics_in_a_checkpoint_are_found_too():
    details = delta_details()
    objects = [details.stats.object(row) for row in range(COUNT)]
    parsed = read_stats(
        pa.chunked_array([pa.nulls(COUNT, pa.string())]), pa.chunked_array([objects]), pa.array([0] * COUNT), []
    )
    assert not delta().changed(details=replace(details, stats=parsed)).check()


def test_a_table_that_requests_no_version_has_no_stale_files():
    assert not delta().changed(details=delta_details(hints=(), versions=[None] * COUNT)).check()


@pytest.mark.parametrize(
    "changes",
    [
        {"properties": {"delta.dataSkippingStatsColumns": "geom,track"}},
        {"properties": {"delta.dataSkippingNumIndexedCols": "2"}},
        {"partition_columns": ("name",)},
    ],
    ids=["not listed", "not counted", "partition"],
)
def test_columns_without_statistics_have_no_stale_files(changes):
    table = delta().changed(details=delta_details(versions=[None] * COUNT))
    assert not table.changed(**changes).check()


def test_strings_inside_lists_have_no_stale_files():
    tags = Field(
        "tags", ListType(Field("element", StringType())), metadata={"__COLLATIONS": {"tags.element": "icu.UNICODE_CI"}}
    )
    assert not delta().with_fields(tags).check()


def test_statistics_of_a_version_that_the_hints_do_not_name():
    versions = [*["78.3"] * 9, "79.1"]
    findings = delta().changed(details=delta_details(versions=versions)).check().of("collation.version_not_hinted")
    assert [finding.severity for finding in findings] == [Severity.WARNING]
    assert (findings[0].scope.paths, findings[0].scope.count) == ((PATHS[9],), 1)
    assert "icu.UNICODE_CI.79.1" in findings[0].what
    assert findings[0].fix == f"{FIX} --upgrade"


@pytest.mark.parametrize(
    "text", ["{", '{"writeVersions": 3}', '{"writeVersions": {"": ["1"], "icu": ["2"]}}'], ids=["broken", "odd", "keys"]
)
def test_hints_that_cannot_be_read_are_ignored(text):
    details = delta_details(versions=[None] * COUNT)
    details.domains["collations"] = text
    assert not delta().changed(details=details).check()


@pytest.mark.parametrize(
    ("versions", "newest"),
    [((), None), (("72",), "72"), (("72", "100"), "100"), (("75.1", "75"), "75.1"), (("beta", "1"), "1")],
)
def test_versions_are_compared_by_their_numbers(versions, newest):
    assert newest_version(versions) == newest
