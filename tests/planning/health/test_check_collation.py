"""Collations in the schema, and the statistics and hints that go with them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from geolake_nb.core.scalar_column import ScalarColumn
from geolake_nb.core.types import Field, ListType, StringType
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.file_stats import read_stats
from geolake_nb.planning.health.finding import Severity
from geolake_nb.planning.health.rules.collation import newest_version
from tests.planning.check_tables import COUNT, PATHS, ROWS, collated_field, delta, delta_details, the_finding

MEND = "geolake collations /data/roads"


def test_the_default_collation_stored():
    found = the_finding(
        delta().with_fields(collated_field("spark.UTF8_BINARY", "note", "note")).check(), "collation.default_stored"
    )
    assert found.severity is Severity.WARNING
    assert found.place.column == "note"
    assert found.mend == MEND
    assert found.spec.section == "Writer Requirements for Collations"


def test_a_version_in_the_schema():
    found = the_finding(delta().with_fields(collated_field("ICU.UNICODE_CI.72")).check(), "collation.version_in_schema")
    assert found.severity is Severity.ERROR
    assert found.place.column == "name"
    assert "ICU.UNICODE_CI.72".lower() in found.what.lower()
    assert "Spark cannot open the table" in found.what
    assert found.mend == MEND


def test_a_provider_that_spark_does_not_know():
    field = collated_field("glibc.de_DE", "note", "note")
    found = the_finding(delta().with_fields(field).check(), "collation.unknown_provider")
    assert found.severity is Severity.ERROR
    assert found.place.column == "note"
    assert "glibc.de_DE" in found.what
    assert found.mend == MEND


@pytest.mark.parametrize("identifier", ["icu.de", "ICU.en_US", "spark.UTF8_LCASE"])
def test_providers_that_spark_knows(identifier):
    assert not delta().with_fields(collated_field(identifier, "note", "note")).check()


def test_a_key_that_matches_no_string():
    found = the_finding(
        delta().with_fields(collated_field("icu.de", "note.key", "note")).check(), "collation.stray_key"
    )
    assert found.severity is Severity.WARNING
    assert found.place.column == "note"
    assert "'note.key'" in found.what
    assert found.mend == MEND


def test_files_with_statistics_of_an_older_version_or_none():
    versions = ["77.1", None, *["78.3"] * 8]
    found = the_finding(delta().changed(details=delta_details(versions=versions)).check(), "collation.stale_statistics")
    assert found.severity is Severity.WARNING
    assert (found.place.column, found.place.paths, found.place.count) == ("name", (PATHS[0], PATHS[1]), 2)
    assert "icu.UNICODE_CI.78.3" in found.what
    assert found.mend == MEND
    assert found.spec.section == "Collation versions"


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


def test_a_table_that_asks_for_no_version_has_no_stale_files():
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
    found = delta().changed(details=delta_details(versions=versions)).check().of("collation.version_not_hinted")
    assert [one.severity for one in found] == [Severity.WARNING]
    assert (found[0].place.paths, found[0].place.count) == ((PATHS[9],), 1)
    assert "icu.UNICODE_CI.79.1" in found[0].what
    assert found[0].mend == MEND


@pytest.mark.parametrize(
    "text", ["{", '{"writeVersions": 3}', '{"writeVersions": {"": ["1"], "icu": ["2"]}}'], ids=["broken", "odd", "keys"]
)
def test_hints_that_cannot_be_read_ask_for_nothing(text):
    details = delta_details(versions=[None] * COUNT)
    details.domains["collations"] = text
    assert not delta().changed(details=details).check()


@pytest.mark.parametrize(
    ("versions", "newest"),
    [((), None), (("72",), "72"), (("72", "100"), "100"), (("75.1", "75"), "75.1"), (("beta", "1"), "1")],
)
def test_versions_are_compared_by_their_numbers(versions, newest):
    assert newest_version(versions) == newest
