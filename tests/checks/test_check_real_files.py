"""The check on files and tables that other tools wrote."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.checks.check import check, deep_table
from geolake_nb.checks.finding import Severity
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.delta import open_delta
from geolake_nb.formats.parquet_folder.snapshot import open_parquet
from geolake_nb.formats.rules import RULES
from geolake_nb.geo.bounds import bounds
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, StructType, geography, geometry
from geolake_nb.parquet.footer import FooterReader, read_metadata, row_groups
from geolake_nb.parquet.schema import footer_facts, to_arrow_type
from geolake_nb.storage.storage import Storage
from tests.formats.parquet_sets import make_wide
from tests.growth import growth

POINTS = shapely.points([[1.0, 2.0], [3.0, 4.0], [-5.0, 6.0]])


def write(path, crs="OGC:CRS84", *, type_=None, points=POINTS):
    column = pa.array(shapely.to_wkb(points, flavor="iso"), pa.binary())
    wrapped = to_arrow_type(type_ or geometry(crs)).wrap_array(column)
    pq.write_table(pa.table({"id": range(len(points)), "geom": wrapped}), path)


def checked(location, **more):
    snapshot = open_parquet(str(location))
    groups = row_groups(snapshot.details.storage, snapshot.files.table["path"].to_pylist(), snapshot.schema)
    return check(snapshot, RULES, row_groups=groups, **more)


def scan(folder):
    return {
        path.name: {"geom": bounds(pq.read_table(path, columns=["geom"])["geom"])} for path in folder.glob("*.parquet")
    }


def test_parquet_by_pyarrow_is_good(tmp_path):
    for index in range(3):
        write(tmp_path / f"{index}.parquet")
    findings = checked(tmp_path, deep=scan(tmp_path))
    assert not findings, str(findings)


def test_many_geo_columns_take_as_long_as_they_are_many(tmp_path):
    def checking(count):
        table = gl.open(str(make_wide(tmp_path / f"{count}.parquet", count)))
        return lambda: table.check(deep=True)

    assert growth(checking, 75, 600) < 20


def test_srids_in_the_values_of_a_real_file(tmp_path):
    points = shapely.set_srid(POINTS, 3857)
    column = pa.array(shapely.to_wkb(points, include_srid=True, flavor="extended"), pa.binary())
    table = pa.table({"geom": to_arrow_type(geometry()).wrap_array(column)})
    pq.write_table(table, tmp_path / "a.parquet")
    values = pq.read_table(tmp_path / "a.parquet")["geom"]
    deep = deep_table({"a.parquet": {"geom": bounds(values)}})
    # pyarrow makes no box of values that are not ISO WKB.
    assert [(finding.rule, finding.scope.paths) for finding in checked(tmp_path, deep=deep)] == [
        ("crs.differs_in_values", ("a.parquet",)),
        ("bounds.missing", ("a.parquet",)),
    ]


def test_a_geography_by_pyarrow_has_no_bounds(tmp_path):
    write(tmp_path / "a.parquet", type_=geography())
    [finding] = checked(tmp_path)
    assert (finding.rule, finding.scope.column, finding.what.split(",")[0]) == (
        "bounds.missing",
        "geom",
        "the file has no bounds",
    )


def test_files_of_different_crs_in_one_folder(tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", "EPSG:3857")
    findings = checked(tmp_path)
    assert [finding.rule for finding in findings.of("crs")] == ["crs.differs_in_parquet"]
    assert findings.of("crs")[0].scope.paths == ("b.parquet",)
    assert findings.of("bounds.untrusted")[0].scope.paths == ("b.parquet",)
    assert findings.exit_code() == 2


def test_a_footer_that_is_smaller_than_the_data(tmp_path):
    # The data of one file under the footer of another: what a broken writer leaves.
    write(tmp_path / "a.parquet")
    deep = scan(tmp_path)
    far = shapely.points([[1.0, 2.0], [3.0, 4.0], [-50.0, 6.0]])
    write(tmp_path / "b.parquet", points=far)
    deep["a.parquet"] = scan(tmp_path)["b.parquet"]
    [finding] = checked(tmp_path, deep=deep)
    assert (finding.rule, finding.severity, finding.scope.paths) == (
        "bounds.smaller_than_data",
        Severity.ERROR,
        ("a.parquet",),
    )


def test_geoparquet_with_another_crs_than_the_parquet_type(tmp_path):
    column = to_arrow_type(geometry()).wrap_array(pa.array(shapely.to_wkb(POINTS), pa.binary()))
    table = pa.table({"geom": column})
    geo = {
        "version": "1.1.0",
        "primary_column": "geom",
        "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"], "crs": None}},
    }
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / "a.parquet")
    [finding] = checked(tmp_path).of("crs")
    assert finding.rule == "crs.differs_in_geoparquet"


def views(folder):
    storage = Storage.at(str(folder))
    paths = [entry.path for entry in storage.list()]
    reader = FooterReader()
    return [
        (path, reader.view(footer, where=path))
        for path, footer in zip(paths, read_metadata(storage, paths), strict=True)
    ]


def test_footers_state_types_and_crs(tmp_path):
    write(tmp_path / "a.parquet", "EPSG:32633")
    write(tmp_path / "b.parquet", type_=geography())
    pq.write_table(pa.table({"geom": pa.array([b""])}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "d.parquet")
    table = footer_facts(views(tmp_path), Schema(StructType((Field("geom", geometry()),))))
    assert table.select(["path", "logical_type", "crs", "algorithm", "geoparquet_crs"]).to_pylist() == [
        {
            "path": "a.parquet",
            "logical_type": "GEOMETRY",
            "crs": "EPSG:32633",
            "algorithm": None,
            "geoparquet_crs": None,
        },
        {
            "path": "b.parquet",
            "logical_type": "GEOGRAPHY",
            "crs": "OGC:CRS84",
            "algorithm": "spherical",
            "geoparquet_crs": None,
        },
        {"path": "c.parquet", "logical_type": None, "crs": None, "algorithm": None, "geoparquet_crs": None},
    ]
    assert table["column"].to_pylist() == ["geom"] * 3
    assert "parquet-cpp-arrow" in table["created_by"][0].as_py()


def test_footers_resolve_a_crs_in_a_property_of_the_file(tmp_path):
    projjson = Crs("EPSG:3857").to_projjson()
    column = to_arrow_type(geometry("projjson:local")).wrap_array(pa.array(shapely.to_wkb(POINTS), pa.binary()))
    table = pa.table({"geom": column}).replace_schema_metadata({"local": json.dumps(projjson)})
    pq.write_table(table, tmp_path / "a.parquet")
    facts = footer_facts(views(tmp_path), Schema(StructType((Field("geom", geometry()),))))
    assert json.loads(facts["crs"][0].as_py()) == projjson


def delta_table(folder, *, low, high, protocol=None):
    """A Delta geo table of one file, with these bounds in its log."""
    write(folder / "a.parquet")
    field = {"name": "geom", "type": "geometry(OGC:CRS84)", "nullable": True, "metadata": {}}
    known = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["geospatial"],
        "writerFeatures": ["geospatial"],
    }
    bound = {} if low is None else {"minValues": {"geom": low}, "maxValues": {"geom": high}}
    stats = {"numRecords": len(POINTS), "nullCount": {"geom": 0}, **bound}
    actions = [
        {"protocol": protocol or known},
        {
            "metaData": {
                "id": "1",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": [field]}),
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {
            "add": {
                "path": "a.parquet",
                "partitionValues": {},
                "size": (folder / "a.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
                "stats": json.dumps(stats),
            }
        },
    ]
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize(
    ("low", "high", "rules"),
    [
        ("POINT(-5 2)", "POINT(3 6)", []),
        (None, None, ["bounds.missing"]),
        ("POINT EMPTY", "POINT(3 6)", ["bounds.malformed"]),
        ("POINT(-5 2)", "POINT(2.9 6)", ["bounds.smaller_than_footer"]),
        ("POINT(-50 2)", "POINT(3 6)", ["bounds.looser_than_footer"]),
        ("POINT(3 2)", "POINT(-5 6)", ["bounds.wrapped", "bounds.smaller_than_footer"]),
        ("POINT(0 0)", "POINT(0 0)", ["bounds.smaller_than_footer", "bounds.phantom"]),
    ],
)
def test_a_delta_log_against_its_files(tmp_path, low, high, rules):
    delta_table(tmp_path, low=low, high=high)
    storage = Storage.at(str(tmp_path))
    snapshot = open_delta(storage)
    paths = snapshot.files.table["path"].to_pylist()
    groups = row_groups(storage, paths, snapshot.schema)
    reader = FooterReader()
    footers = zip(paths, (reader.view(footer, where="") for footer in read_metadata(storage, paths)), strict=True)
    findings = check(snapshot, RULES, row_groups=groups, footers=footer_facts(footers, snapshot.schema))
    assert [finding.rule for finding in findings] == rules, str(findings)


def test_a_delta_protocol_without_the_feature(tmp_path):
    delta_table(tmp_path, low="POINT(-5 2)", high="POINT(3 6)", protocol={"minReaderVersion": 1, "minWriterVersion": 2})
    findings = check(open_delta(Storage.at(str(tmp_path))), RULES)
    assert [finding.rule for finding in findings] == ["protocol.geo_version", "protocol.geo_feature"]


def test_every_file_of_the_corpus_can_be_checked(corpus):
    results = set()
    for path in sorted([*(corpus / "parquet_geo").rglob("*.parquet"), *(corpus / "geoparquet").rglob("*.parquet")]):
        try:
            findings = checked(path)
        except GeolakeError:
            continue
        results |= {(path.name, finding.rule, finding.severity) for finding in findings}
    assert ("crs-geography.parquet", "bounds.missing", Severity.WARNING) in results
    # Its bbox is that of a whole continent with the pole, its covering that of the five countries in it.
    assert ("example.parquet", "bounds.looser_than_footer", Severity.WARNING) in results
    assert not [result for result in results if result[2] is Severity.ERROR], results


def test_every_delta_table_of_the_corpus_can_be_checked(corpus):
    rules_of = {}
    for log in sorted((corpus / "delta").rglob("_delta_log")):
        try:
            snapshot = open_delta(Storage.at(str(log.parent)))
        except GeolakeError:
            continue
        rules_of[log.parent.name] = {finding.rule for finding in check(snapshot, RULES)}
    assert rules_of["collations-preview-table"] == {"protocol.collations_preview"}
    assert rules_of["collations-table"] == set()
    assert not [rules for rules in rules_of.values() if any(rule.startswith("bounds") for rule in rules)]
