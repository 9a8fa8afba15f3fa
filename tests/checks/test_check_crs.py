"""Coordinate reference systems and Parquet's geo types in all the places that name them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyproj
import pytest

from geolake_nb.checks.finding import Severity
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import Field, GeographyType, geography, geometry
from tests.checks.check_tables import (
    BOXES,
    COUNT,
    PATHS,
    delta,
    footers_of,
    havasu,
    iceberg,
    parquet,
    the_finding,
    truth,
)

TRACK = {"logical_type": "GEOGRAPHY", "algorithm": "spherical"}


def with_crs(crs):
    """A Delta table whose geometries have this CRS, and from which nothing else was read."""
    table = delta().with_fields(Field("geom", geometry(crs)))
    return replace(table, row_groups=None, footers=None, deep=None)


def test_a_crs_in_a_property_that_is_missing():
    finding = the_finding(with_crs("projjson:local").check(), "crs.property_missing")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.count) == ("geom", 0)
    assert "no property 'local'" in finding.what
    assert finding.fix is None


def test_a_crs_in_a_property_that_is_there():
    definition = pyproj.CRS("EPSG:4326").to_json()
    assert not with_crs(Crs("projjson:local", definition)).check()


@pytest.mark.parametrize("crs", ["NOBODY:1", "EPSG:99999999", "srid:999999"])
def test_a_crs_that_cannot_be_resolved(crs):
    finding = the_finding(with_crs(crs).check(), "crs.unresolved")
    assert finding.severity is Severity.WARNING
    assert finding.scope.column == "geom"
    assert crs in finding.what
    assert finding.fix is None


def test_a_crs_that_is_declared_unknown_is_good():
    assert not with_crs("SRID:0").check()


def test_a_geography_on_a_projection():
    table = delta().with_fields(Field("track", GeographyType(Crs("EPSG:3857"))))
    table = replace(table, row_groups=None, footers=None, deep=None)
    finding = the_finding(table.check(), "crs.projected_geography")
    assert finding.severity is Severity.ERROR
    assert finding.scope.column == "track"
    assert finding.fix is None
    assert "transform them" in finding.no_command


@pytest.mark.parametrize("table", [delta, iceberg], ids=["delta", "iceberg"])
def test_a_geo_column_without_a_parquet_type(table):
    made = table()
    rows = made.footers.to_pylist()
    for row in rows:
        if row["column"] == "geom" and row["path"] in PATHS[:4]:
            row["logical_type"] = row["crs"] = None
    finding = the_finding(made.check(footers=pa.Table.from_pylist(rows, made.footers.schema)), "crs.no_logical_type")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", tuple(PATHS[:3]), 4)
    assert finding.fix == f"geolake rewrite {made.snapshot.location} --cluster geom"


def test_geoparquet_and_havasu_need_no_parquet_type():
    assert not parquet().check(footers=footers_of(geom={}, track={}))
    assert not havasu().check(footers=footers_of(geom={}))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("geom", {"logical_type": "GEOGRAPHY"}),
        ("track", {"logical_type": "GEOMETRY"}),
        ("track", {"logical_type": "GEOGRAPHY", "algorithm": "karney"}),
        ("track", {"logical_type": "GEOGRAPHY", "algorithm": "no such thing"}),
    ],
)
def test_a_parquet_type_that_is_not_the_schemas(column, expected):
    footers = footers_of(**({"geom": {"logical_type": "GEOMETRY"}, "track": TRACK} | {column: expected}))
    finding = the_finding(delta().check(footers=footers), "crs.logical_type_differs")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.count) == (column, COUNT)
    assert finding.fix == f"geolake rewrite /data/roads --cluster {column}"


def test_a_geography_without_an_algorithm_in_parquet_is_spherical():
    footers = footers_of(geom={"logical_type": "GEOMETRY"}, track={"logical_type": "GEOGRAPHY"})
    assert not delta().check(footers=footers)
    table = delta().with_fields(Field("track", geography(algorithm="karney")))
    assert the_finding(replace(table, deep=None).check(footers=footers), "crs.logical_type_differs")


@pytest.mark.parametrize("crs", ["EPSG:3857", "SRID:0", "NOBODY:1", "what is this"])
def test_another_crs_in_the_parquet_type(crs):
    footers = footers_of(geom={"logical_type": "GEOMETRY", "crs": crs}, track=TRACK)
    finding = the_finding(delta().check(footers=footers), "crs.differs_in_parquet")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", tuple(PATHS[:3]), COUNT)
    assert "OGC:CRS84" in finding.what
    assert crs in finding.what
    assert finding.fix == "geolake rewrite /data/roads --cluster geom"


def test_the_default_crs_of_parquet_is_not_every_schemas():
    footers = footers_of(geom={"logical_type": "GEOMETRY"}, track=TRACK)
    finding = the_finding(iceberg().check(footers=footers), "crs.differs_in_parquet")
    assert "EPSG:3857" in finding.what
    assert "OGC:CRS84" in finding.what


@pytest.mark.parametrize("crs", ["EPSG:4326", "srid:4326", "ogc:crs84", pyproj.CRS("OGC:CRS84").to_json()])
def test_other_names_of_the_same_crs(crs):
    footers = footers_of(geom={"logical_type": "GEOMETRY", "crs": crs, "geoparquet_crs": crs}, track=TRACK)
    assert not delta().check(footers=footers)


def test_each_other_crs_is_a_finding_with_its_files():
    made = delta().footers.to_pylist()
    for index, row in enumerate(made[:COUNT]):
        row["crs"] = ["EPSG:3857", "EPSG:27700"][index % 2] if index < 5 else None
    findings = delta().check(footers=pa.Table.from_pylist(made, delta().footers.schema))
    assert [(finding.rule, finding.scope.count) for finding in findings] == [
        ("crs.differs_in_parquet", 3),
        ("crs.differs_in_parquet", 2),
    ]


@pytest.mark.parametrize(
    ("crs", "severity"), [(pyproj.CRS("EPSG:3857").to_json(), Severity.ERROR), ("SRID:0", Severity.WARNING)]
)
def test_another_crs_in_geoparquet(crs, severity):
    footers = footers_of(geom={"geoparquet_crs": crs}, track={})
    finding = the_finding(parquet().check(footers=footers), "crs.differs_in_geoparquet")
    assert finding.severity is severity
    assert (finding.scope.column, finding.scope.count) == ("geom", COUNT)
    assert finding.fix == "geolake rewrite /data/lakes --column 'geom=geometry(OGC:CRS84)'"


def scanned(numbers, column="geom"):
    return truth({column: BOXES}, **{f"{column}.srids": pa.array(numbers, pa.list_(pa.int64()))})


def test_values_with_another_srid():
    deep = scanned([[4326, 0], [3857], [4326, 3857], *[[4326]] * 6, None])
    finding = the_finding(delta().check(deep=deep), "crs.differs_in_values")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[1], PATHS[2]), 2)
    assert "SRID 3857" in finding.what
    assert finding.fix is None
    assert "no command changes coordinates" in finding.no_command


def test_havasu_values_with_different_srids():
    deep = scanned([[4326], [3857], *[[]] * 8])
    finding = the_finding(havasu().check(deep=deep), "crs.mixed_srids")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0], PATHS[1]), 2)
    assert "3857, 4326" in finding.what
    assert finding.fix is None
    assert "no command changes coordinates" in finding.no_command


def test_a_scan_without_srids_leaves_their_rules_open():
    deep = truth({"geom": BOXES}).drop_columns(["geom.srids"])
    findings = delta().check(deep=deep)
    assert not findings
    assert [(check.rule, check.why) for check in findings.skipped_checks] == [
        (rule, "the scan did not read the SRIDs of the values") for rule in ("crs.differs_in_values", "crs.mixed_srids")
    ]


def test_havasu_values_of_one_srid_are_good():
    assert not havasu().check(deep=scanned([[3857, 0]] * COUNT))
