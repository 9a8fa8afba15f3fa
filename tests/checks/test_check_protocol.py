"""Versions and features that a table must declare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from geolake_nb.checks.finding import Severity
from geolake_nb.formats.parquet_folder.snapshot import FileProblem, ParquetDetails
from geolake_nb.model.snapshot import Protocol
from geolake_nb.model.types import Field, GeometryType
from tests.checks.check_tables import PATHS, delta, feature, havasu, iceberg, iceberg_details, parquet, the_finding

GEO, COLLATIONS, DOMAINS = feature("geospatial", read=True), feature("collations"), feature("domainMetadata")


def with_protocol(table, *features, reader=3, writer=7):
    numbers = {"minReaderVersion": reader, "minWriterVersion": writer}
    return table.changed(protocol=Protocol("", features, numbers))


@pytest.mark.parametrize(("reader", "writer"), [(2, 7), (1, 7)])
def test_geo_types_need_reader_3(reader, writer):
    table = with_protocol(delta(), GEO, COLLATIONS, DOMAINS, reader=reader, writer=writer)
    finding = the_finding(table.check(), "protocol.geo_version")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.count, finding.scope.unit) == ("geom, track", 2, "columns")
    assert f"reader {reader}" in finding.what
    assert finding.fix == "geolake enable /data/roads geospatial"
    assert finding.spec.document == "Delta geospatial types"


def test_geo_types_need_writer_7():
    table = with_protocol(delta(), GEO, COLLATIONS, DOMAINS, writer=6)
    assert [result.rule for result in table.check()] == ["protocol.geo_version", "protocol.collations_feature"]


def test_geo_types_need_their_feature():
    finding = the_finding(with_protocol(delta(), COLLATIONS, DOMAINS).check(), "protocol.geo_feature")
    assert finding.severity is Severity.ERROR
    assert finding.scope.column == "geom, track"
    assert finding.fix == "geolake enable /data/roads geospatial"


def test_the_preview_of_the_geo_feature_is_a_warning():
    preview = feature("geospatial-dev", read=True)
    finding = the_finding(with_protocol(delta(), preview, COLLATIONS, DOMAINS).check(), "protocol.geo_preview")
    assert finding.severity is Severity.WARNING
    assert "'geospatial-dev'" in finding.what
    assert finding.fix == "geolake enable /data/roads geospatial"


def test_collated_strings_need_their_feature():
    finding = the_finding(with_protocol(delta(), GEO, DOMAINS).check(), "protocol.collations_feature")
    assert finding.severity is Severity.ERROR
    assert finding.scope.column == "name"
    assert finding.fix == "geolake enable /data/roads collations"


def test_the_preview_of_collations_is_a_warning():
    table = with_protocol(delta(), GEO, feature("collations-preview"), DOMAINS)
    finding = the_finding(table.check(), "protocol.collations_preview")
    assert finding.severity is Severity.WARNING
    assert finding.fix == "geolake enable /data/roads collations"


def test_collations_need_domain_metadata():
    finding = the_finding(with_protocol(delta(), GEO, COLLATIONS).check(), "protocol.domain_metadata")
    assert finding.severity is Severity.ERROR
    assert str(finding.scope) == "table"
    assert finding.fix == "geolake enable /data/roads collations"


@pytest.mark.parametrize("version", [1, 2])
def test_iceberg_geo_types_need_version_3(version):
    table = iceberg().changed(protocol=Protocol("", (), {"format-version": version}))
    finding = the_finding(table.check(), "protocol.iceberg_version")
    assert finding.severity is Severity.ERROR
    assert finding.scope.column == "geom, track"
    assert finding.fix is None
    assert "geolake convert" in finding.no_command


def test_quoted_type_texts_are_found_where_they_are():
    raw = {
        "fields": [
            {"name": "geom", "type": "geometry('EPSG:3857')"},
            {"name": "track", "type": "geography"},
            {"name": "all", "type": {"type": "list", "element": 'geometry("OGC:CRS84")'}},
        ]
    }
    table = iceberg().changed(details=iceberg_details(raw))
    finding = the_finding(table.check(), "protocol.quoted_type")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.count) == ("geom, all.element", 2)
    assert finding.fix is None
    assert "geolake convert" in finding.no_command


def test_quotes_in_a_schema_of_the_past_do_not_count():
    raw = {"fields": [{"name": "geom", "type": "geometry('EPSG:3857')"}]}
    assert not iceberg().changed(details=iceberg_details(raw, schema_id=7)).check()


def test_a_version_of_havasu_that_is_not_defined():
    finding = the_finding(
        havasu().changed(properties={"havasu.format-version": "0.1.9"}).check(), "protocol.havasu_version"
    )
    assert finding.severity is Severity.WARNING
    assert "0.1.9" in finding.what
    assert finding.fix is None


def test_havasu_without_a_stated_version_is_good():
    assert not havasu().changed(properties={}).check()


def test_havasu_data_files_are_parquet():
    formats = ["parquet", "ORC", *["PARQUET"] * 7, "avro"]
    finding = the_finding(havasu().with_files(format=formats).check(), "protocol.havasu_file_format")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.paths, finding.scope.count) == ((PATHS[1], PATHS[9]), 2)
    assert "AVRO, ORC" in finding.what
    assert finding.fix is None
    assert "not supported" in finding.no_command


def test_parquet_files_that_do_not_fit_are_grouped():
    problems = [FileProblem(path, "geom", "the type is binary, not geometry(OGC:CRS84)") for path in PATHS[:5]]
    details = ParquetDetails(None, (), tuple(problems))
    finding = the_finding(parquet().changed(details=details).check(), "protocol.files_differ")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", tuple(PATHS[:3]), 5)
    assert finding.fix is None, "a rewrite takes no files that differ"


def test_the_location_in_a_command_is_quoted_for_the_shell():
    table = with_protocol(delta(), COLLATIONS, DOMAINS).changed(location="/my data/$(rm)/{0}")
    finding = the_finding(table.check(), "protocol.geo_feature")
    assert finding.fix == "geolake enable '/my data/$(rm)/{0}' geospatial"


def test_many_columns_are_shown_by_the_first_few():
    fields = [Field(f"g{index}", GeometryType()) for index in range(5)]
    table = with_protocol(delta(), COLLATIONS, DOMAINS).with_fields(*fields)
    table = replace(table, footers=None)
    [finding] = table.check().of("protocol.geo_feature")
    assert (finding.scope.column, finding.scope.count) == ("g0, g1, g2, …", 7)
