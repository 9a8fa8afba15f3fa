"""Versions and features that a table must declare."""

from __future__ import annotations

from dataclasses import replace

import pytest

from geolake_nb.core.types import Field, GeometryType
from geolake_nb.formats.parquet.files import FileProblem, ParquetDetails
from geolake_nb.formats.snapshot import Protocol
from geolake_nb.planning.health.finding import Severity
from tests.planning.check_tables import PATHS, delta, feature, havasu, iceberg, iceberg_details, parquet, the_finding

GEO, COLLATIONS, DOMAINS = feature("geospatial", read=True), feature("collations"), feature("domainMetadata")


def with_protocol(table, *features, reader=3, writer=7):
    numbers = {"minReaderVersion": reader, "minWriterVersion": writer}
    return table.changed(protocol=Protocol("", features, numbers))


@pytest.mark.parametrize(("reader", "writer"), [(2, 7), (1, 7)])
def test_geo_types_need_reader_3(reader, writer):
    table = with_protocol(delta(), GEO, COLLATIONS, DOMAINS, reader=reader, writer=writer)
    found = the_finding(table.check(), "protocol.geo_version")
    assert found.severity is Severity.ERROR
    assert (found.place.column, found.place.count, found.place.unit) == ("geom, track", 2, "columns")
    assert f"reader {reader}" in found.what
    assert found.mend == "geolake enable /data/roads geospatial"
    assert found.spec.document == "Delta geospatial types"


def test_geo_types_need_writer_7():
    table = with_protocol(delta(), GEO, COLLATIONS, DOMAINS, writer=6)
    assert [one.rule for one in table.check()] == ["protocol.geo_version", "protocol.collations_feature"]


def test_geo_types_need_their_feature():
    found = the_finding(with_protocol(delta(), COLLATIONS, DOMAINS).check(), "protocol.geo_feature")
    assert found.severity is Severity.ERROR
    assert found.place.column == "geom, track"
    assert found.mend == "geolake enable /data/roads geospatial"


@pytest.mark.parametrize(
    ("half", "missing"),
    [(feature("geospatial"), "readerFeatures"), (feature("geospatial", read=True, write=False), "writerFeatures")],
)
def test_the_geo_feature_is_for_readers_and_writers(half, missing):
    found = the_finding(with_protocol(delta(), half, COLLATIONS, DOMAINS).check(), "protocol.geo_feature")
    assert missing in found.what


def test_the_preview_of_the_geo_feature_is_a_warning():
    preview = feature("geospatial-dev", read=True)
    found = the_finding(with_protocol(delta(), preview, COLLATIONS, DOMAINS).check(), "protocol.geo_preview")
    assert found.severity is Severity.WARNING
    assert "'geospatial-dev'" in found.what
    assert found.mend == "geolake enable /data/roads geospatial"


def test_collated_strings_need_their_feature():
    found = the_finding(with_protocol(delta(), GEO, DOMAINS).check(), "protocol.collations_feature")
    assert found.severity is Severity.ERROR
    assert found.place.column == "name"
    assert found.mend == "geolake enable /data/roads collations"


def test_the_preview_of_collations_is_a_warning():
    table = with_protocol(delta(), GEO, feature("collations-preview"), DOMAINS)
    found = the_finding(table.check(), "protocol.collations_preview")
    assert found.severity is Severity.WARNING
    assert found.mend == "geolake enable /data/roads collations"


def test_collations_need_domain_metadata():
    found = the_finding(with_protocol(delta(), GEO, COLLATIONS).check(), "protocol.domain_metadata")
    assert found.severity is Severity.ERROR
    assert str(found.place) == "table"
    assert found.mend == "geolake enable /data/roads collations"


@pytest.mark.parametrize("version", [1, 2])
def test_iceberg_geo_types_need_version_3(version):
    table = iceberg().changed(protocol=Protocol("", (), {"format-version": version}))
    found = the_finding(table.check(), "protocol.iceberg_version")
    assert found.severity is Severity.ERROR
    assert found.place.column == "geom, track"
    assert found.mend == "geolake convert /data/ways"


def test_quoted_type_texts_are_found_where_they_are():
    raw = {
        "fields": [
            {"name": "geom", "type": "geometry('EPSG:3857')"},
            {"name": "track", "type": "geography"},
            {"name": "all", "type": {"type": "list", "element": 'geometry("OGC:CRS84")'}},
        ]
    }
    table = iceberg().changed(details=iceberg_details(raw))
    found = the_finding(table.check(), "protocol.quoted_type")
    assert found.severity is Severity.ERROR
    assert (found.place.column, found.place.count) == ("geom, all.element", 2)
    assert found.mend == "geolake repair /data/ways"


def test_quotes_in_a_schema_of_the_past_do_not_count():
    raw = {"fields": [{"name": "geom", "type": "geometry('EPSG:3857')"}]}
    assert not iceberg().changed(details=iceberg_details(raw, schema_id=7)).check()


def test_havasu_does_not_extend_version_3():
    table = havasu().changed(protocol=Protocol("", (), {"format-version": 3}))
    found = the_finding(table.check(), "protocol.havasu_base")
    assert found.severity is Severity.ERROR
    assert found.mend == "geolake convert /data/scenes"


def test_a_version_of_havasu_that_is_not_defined():
    found = the_finding(
        havasu().changed(properties={"havasu.format-version": "0.1.9"}).check(), "protocol.havasu_version"
    )
    assert found.severity is Severity.WARNING
    assert "0.1.9" in found.what
    assert found.mend is None


def test_havasu_without_a_stated_version_is_good():
    assert not havasu().changed(properties={}).check()


def test_havasu_data_files_are_parquet():
    formats = ["parquet", "ORC", *["PARQUET"] * 7, "avro"]
    found = the_finding(havasu().with_files(format=formats).check(), "protocol.havasu_file_format")
    assert found.severity is Severity.ERROR
    assert (found.place.paths, found.place.count) == ((PATHS[1], PATHS[9]), 2)
    assert "AVRO, ORC" in found.what
    assert found.mend == "geolake rewrite /data/scenes"


def test_parquet_files_that_do_not_fit_are_grouped():
    problems = [FileProblem(path, "geom", "the type is binary, not geometry(OGC:CRS84)") for path in PATHS[:5]]
    details = ParquetDetails(None, (), tuple(problems))
    found = the_finding(parquet().changed(details=details).check(), "protocol.files_differ")
    assert found.severity is Severity.WARNING
    assert (found.place.column, found.place.paths, found.place.count) == ("geom", tuple(PATHS[:3]), 5)
    assert found.mend is None, "a rewrite takes no files that differ"


def test_the_location_in_a_command_is_quoted_for_the_shell():
    table = with_protocol(delta(), COLLATIONS, DOMAINS).changed(location="/my data/$(rm)/{0}")
    found = the_finding(table.check(), "protocol.geo_feature")
    assert found.mend == "geolake enable '/my data/$(rm)/{0}' geospatial"


def test_many_columns_are_shown_by_the_first_few():
    fields = [Field(f"g{index}", GeometryType()) for index in range(5)]
    table = with_protocol(delta(), COLLATIONS, DOMAINS).with_fields(*fields)
    table = replace(table, footers=None)
    [found] = table.check().of("protocol.geo_feature")
    assert (found.place.column, found.place.count) == ("g0, g1, g2, …", 7)
