"""Line 2: which of readerFeatures and writerFeatures names a Delta feature is kept and checked.

Delta geospatial types, Geospatial table feature: `geospatial` is listed in both. Delta collations, Collations Table
Feature: `collations` and `domainMetadata` are in `writerFeatures`; readers need not know them.
"""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.formats.delta.protocol import GEOSPATIAL_PREVIEWS
from geolake_nb.scan.engines import engine_facts
from tests.formats.delta.log_maker import LogMaker, field, metadata

GEOM = field("geom", "geometry(OGC:CRS84)")
NAME = field("name", "string", __COLLATIONS={"name": "icu.UNICODE_CI"})


def table_of(folder, column, *, readers, writers, reader=3, writer=7):
    protocol = {"minReaderVersion": reader, "minWriterVersion": writer, "writerFeatures": list(writers)}
    if readers is not None:
        protocol["readerFeatures"] = list(readers)
    LogMaker(folder).commit(0, {"protocol": protocol}, metadata(column))
    return gl.open(str(folder))


def findings(table):
    return {finding.rule: finding for finding in table.check() if finding.rule.startswith("protocol.")}


def lists_of(table):
    return {feature.name: (feature.needed_to_read, feature.needed_to_write) for feature in table.protocol.features}


def protocol_of(change):
    return next(json.loads(line)["protocol"] for line in change.actions if line.startswith('{"protocol"'))


def test_a_feature_says_which_lists_name_it(tmp_path):
    readers, writers = ["geospatial", "fromTheFuture"], ["deletionVectors", "collations", "geospatial"]
    LogMaker(tmp_path).commit(
        0,
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": readers,
                "writerFeatures": writers,
            }
        },
        metadata(),
    )
    assert lists_of(gl.open(str(tmp_path), allow_unknown_features=True)) == {
        "collations": (False, True),
        "deletionVectors": (False, True),
        "fromTheFuture": (True, False),
        "geospatial": (True, True),
    }


@pytest.mark.parametrize("name", ["geospatial", "geospatial-dev"])
@pytest.mark.parametrize(
    ("readers", "writers", "missing"), [(False, True, "readerFeatures"), (True, False, "writerFeatures")]
)
def test_geospatial_in_one_list_alone_is_an_error_that_enable_fixes(tmp_path, name, readers, writers, missing):
    table = table_of(tmp_path, GEOM, readers=[name] * readers, writers=[name] * writers)
    finding = findings(table)["protocol.geo_feature"]
    assert repr(name) in finding.what
    assert missing in finding.what
    after = protocol_of(table.plan_enable({}).change)
    assert "geospatial" in after["readerFeatures"]
    assert "geospatial" in after["writerFeatures"]


@pytest.mark.parametrize("name", ["geospatial", "geospatial-dev"])
def test_geospatial_in_both_lists_is_right(tmp_path, name):
    listed = findings(table_of(tmp_path, GEOM, readers=[name], writers=[name]))
    assert set(listed) <= {"protocol.geo_preview"}


def test_reader_1_has_no_list_for_readers_and_the_version_is_the_error(tmp_path):
    table = table_of(tmp_path, GEOM, readers=None, writers=["geospatial"], reader=1)
    assert lists_of(table) == {"geospatial": (False, True)}
    assert set(findings(table)) == {"protocol.geo_version", "protocol.geo_feature"}
    after = protocol_of(table.plan_enable({}).change)
    assert (after["minReaderVersion"], after["readerFeatures"]) == (3, ["geospatial"])


@pytest.mark.parametrize("name", ["collations", "collations-preview"])
def test_collations_among_the_readers_alone_is_an_error_that_enable_fixes(tmp_path, name):
    table = table_of(tmp_path, NAME, readers=[name], writers=["domainMetadata"])
    finding = findings(table)["protocol.collations_feature"]
    assert repr(name) in finding.what
    assert "writerFeatures" in finding.what
    after = protocol_of(table.plan_collations().change)
    assert after["readerFeatures"] == []
    assert set(after["writerFeatures"]) >= {"collations", "domainMetadata"}


def test_collations_among_the_readers_too_is_an_error_that_enable_fixes(tmp_path):
    # Spark does not open such a table, as the test below shows.
    table = table_of(tmp_path, NAME, readers=["collations"], writers=["collations", "domainMetadata"])
    finding = findings(table)["protocol.collations_feature"]
    assert "readerFeatures" in finding.what
    after = protocol_of(table.plan_collations().change)
    assert after["readerFeatures"] == []
    assert after["writerFeatures"] == ["collations", "domainMetadata"]


def test_domain_metadata_among_the_readers_alone_is_an_error_that_enable_fixes(tmp_path):
    table = table_of(tmp_path, NAME, readers=["domainMetadata"], writers=["collations"])
    assert "writerFeatures" in findings(table)["protocol.domain_metadata"].what
    after = protocol_of(table.plan_collations().change)
    assert (after["readerFeatures"], after["writerFeatures"]) == ([], ["collations", "domainMetadata"])


def test_collations_where_they_belong_are_right(tmp_path):
    assert not findings(table_of(tmp_path, NAME, readers=[], writers=["collations", "domainMetadata"]))
    assert not findings(
        table_of(tmp_path / "r1", NAME, readers=None, writers=["collations", "domainMetadata"], reader=1)
    )


def test_spark_does_not_open_a_table_with_collations_among_the_readers(tmp_path, spark):
    table_of(tmp_path, NAME, readers=["collations"], writers=["collations", "domainMetadata"])
    with pytest.raises(Exception, match=r"(?i)unsupported.*feature.*collations"):
        spark.read.format("delta").load(str(tmp_path)).schema  # noqa: B018
    ours = tmp_path / "right"
    table_of(ours, NAME, readers=[], writers=["collations", "domainMetadata"])
    assert (
        spark.read.format("delta").load(str(ours)).schema["name"].dataType.simpleString().lower().startswith("string")
    )


def test_a_change_of_the_schema_keeps_the_lists_of_features_that_it_does_not_concern(tmp_path):
    # An unknown feature stays in the list that named it; a known one gets into the lists that its definition asks for.
    table = table_of(tmp_path, NAME, readers=["columnMapping"], writers=["columnMapping", "collations"])
    after = protocol_of(table.plan_collations().change)
    assert (after["readerFeatures"], after["writerFeatures"]) == (
        ["columnMapping"],
        ["collations", "columnMapping", "domainMetadata"],
    )


@pytest.mark.parametrize("name", GEOSPATIAL_PREVIEWS)
def test_a_table_with_any_preview_of_geospatial_opens_and_is_reported(tmp_path, name):
    table = table_of(tmp_path, GEOM, readers=[name], writers=[name])
    assert list(findings(table)) == ["protocol.geo_preview"]
    assert [feature.known for feature in table.protocol.features] == [True]
    without_columns = table_of(tmp_path / "other", field("id", "long"), readers=[name], writers=[name])
    assert engine_facts(without_columns.snapshot) == engine_facts(
        table_of(tmp_path / "dev", field("id", "long"), readers=["geospatial-dev"], writers=["geospatial-dev"]).snapshot
    )
