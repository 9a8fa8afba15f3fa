"""`gl.write` to tables in catalogs, committed by PyIceberg: what it writes, when it is used, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    Not,
    NotNull,
    StartsWith,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

import geolake_nb as gl
import geolake_nb.pyiceberg as geo
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import JobError, PredicateError, RefusedError
from geolake_nb.geo.bounds import BadValueWarning
from tests.pyiceberg.geo_rows import make_table, rows, wkb


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch):
    """Nothing here may start a session."""

    def refuse(*_):
        raise AssertionError("a session was asked for")

    monkeypatch.setattr("geolake_nb.spark.session.session_for", refuse)


def files_of(table):
    listed = table.current_snapshot().manifests(table.io)
    return [entry.data_file for manifest in listed for entry in manifest.fetch_manifest_entry(table.io)]


def test_a_new_table_has_its_rows_in_one_commit(catalog):
    report = gl.write(rows(0), "lake.ns.t", format="iceberg", columns={"geom": "geometry", "geog": "geography"})
    table = catalog_table(catalog, "ns.t")
    assert [snapshot.snapshot_id for snapshot in table.metadata.snapshots] == [report.version]
    assert len(list(Path(table.location().removeprefix("file://"), "metadata").glob("*.metadata.json"))) == 1
    assert (table.metadata.format_version, table.metadata.next_row_id) == (3, 3)
    assert report.metrics["rows_written"] == 3
    assert gl.open("lake.ns.t").scan("id > 0").to_arrow()["id"].to_pylist() == [1, 2]
    assert not geo.is_enabled()


def catalog_table(catalog, name):
    geo.enable()
    try:
        return catalog.load_table(name)
    finally:
        geo.disable()


def test_rows_without_shapes_make_a_table_of_version_2(catalog):
    gl.write(pa.table({"id": [1, 2]}), "lake.ns.t", format="iceberg")
    table = catalog.load_table("ns.t")
    assert table.metadata.format_version == 2
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 2]


def test_no_rows_make_an_empty_table(catalog):
    gl.write(pa.table({"id": pa.array([], pa.int64())}), "lake.ns.t", format="iceberg")
    assert gl.open("lake.ns.t").scan().count() == 0


def test_rows_are_clustered_into_files_of_the_wanted_size(catalog):
    points = [shapely.to_wkb(shapely.Point(x, y)) for x in range(60) for y in range(60)]
    table = pa.table({"id": range(len(points)), "g": pa.array(points)})
    report = gl.write(
        table, "lake.ns.t", format="iceberg", columns={"g": gl.geometry()}, cluster_by="g", target_file_size="20KB"
    )
    opened = gl.open("lake.ns.t")
    assert report.metrics["files_added"] == len(opened.files) > 3
    near = opened.explain((0, 0, 5, 5))
    assert near.read.files <= len(opened.files) / 2
    assert opened.scan((0, 0, 5, 5)).count() == 36
    assert sorted(opened.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == list(range(len(points)))


def test_partitions_are_those_that_pyiceberg_computes(catalog):
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "t", TimestampType())
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, BucketTransform(4), "id_bucket"),
        PartitionField(2, 1001, TruncateTransform(1), "start"),
        PartitionField(3, 1002, DayTransform(), "day"),
        PartitionField(2, 1003, IdentityTransform(), "name"),
    )
    micros = [-3_600_000_000, 1_709_164_800_000_000, None, 0]
    given = {"id": [7, None, 2**40, -1], "name": ["ab", "é", None, "b"], "t": micros}
    catalog.create_table("ns.t", schema=schema, partition_spec=spec)
    times = pa.array(micros, pa.int64()).cast(pa.timestamp("us"))
    gl.write(pa.table({**given, "t": times}), "lake.ns.t", format="iceberg", mode="append")
    table = catalog.load_table("ns.t")
    expected = [
        [
            field.transform.transform(schema.find_type(field.source_id))(row[field.source_id - 1])
            for field in spec.fields
        ]
        for row in zip(*given.values(), strict=True)
    ]
    assert sorted(map(repr, expected)) == sorted(repr(file.partition._data) for file in files_of(table))
    assert table.scan("name = 'b'").to_arrow()["id"].to_pylist() == [-1]


def test_the_files_are_those_of_the_one_writer(catalog):
    """Field ids, logical types, a page index, and bounds that a check finds nothing wrong with."""
    gl.write(rows(0), "lake.ns.t", format="iceberg", columns={"geom": "geometry(EPSG:3857)", "geog": "geography"})
    (file,) = files_of(catalog_table(catalog, "ns.t"))
    footer = pq.read_metadata(file.file_path.removeprefix("file://"))
    assert str(footer.schema.column(2).logical_type) == "Geometry(crs=EPSG:3857)"
    assert footer.row_group(0).column(0).has_offset_index
    assert [field_id(footer, index) for index in range(4)] == [1, 2, 3, 4]
    names = [finding.rule.id for finding in gl.open("lake.ns.t").check(deep=True)]
    assert [name for name in names if name.startswith(("bounds", "crs"))] == []


def field_id(footer, index):
    return int(footer.schema.to_arrow_schema().field(index).metadata[b"PARQUET:field_id"])


def test_a_table_of_pyiceberg_is_appended_to(bridge, catalog):
    table = make_table(catalog)
    report = gl.write(rows(0), table, format="iceberg", mode="append")
    assert table.refresh().current_snapshot().snapshot_id == report.version
    assert table.scan().to_arrow().num_rows == 3
    with pytest.raises(RefusedError, match="already exists"):
        gl.write(rows(0), table, format="iceberg")
    with pytest.raises(gl.GeolakeError, match="use format='iceberg'"):
        gl.write(rows(0), table, mode="append")


def test_commits_of_others_in_between_are_reported(bridge, catalog):
    table = make_table(catalog)
    table.append(rows(0))
    plan = plan_write(rows(10), "lake.ns.places", format="iceberg", mode="append")
    table.append(rows(20))
    from geolake_nb.pyiceberg.writing import apply_write

    report = apply_write(plan)
    assert report.rebased_over == (table.current_snapshot().snapshot_id,)
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_malformed_shapes_are_written_with_one_warning(catalog):
    table = pa.table({"g": [wkb("POINT (1 2)"), b"no WKB"]})
    with pytest.warns(BadValueWarning, match=r"\.parquet: g gets no bounds, first row 1"):
        report = gl.write(table, "lake.ns.t", format="iceberg", columns={"g": gl.geometry()})
    assert report.metrics["files_without_bound"] == 1


def test_texts_that_are_not_wkt_are_refused_and_nothing_is_left(catalog):
    table = pa.table({"g": ["POINT (1 2)", "POINT"]})
    with pytest.raises(JobError, match="invalid values: g: 1 value"):
        gl.write(table, "lake.ns.t", format="iceberg", columns={"g": gl.geometry()})
    assert catalog.list_tables("ns") == []
    assert list(Path(catalog.properties["warehouse"].removeprefix("file://")).rglob("*.parquet")) == []


def test_a_missing_namespace_and_an_existing_table_are_refused(catalog):
    with pytest.raises(RefusedError, match="'lake' has no namespace 'other'; create the namespace first"):
        gl.write(rows(0).select(["id"]), "lake.other.t", format="iceberg")
    gl.write(rows(0).select(["id"]), "lake.ns.t", format="iceberg")
    with pytest.raises(RefusedError, match="already exists"):
        gl.write(rows(0).select(["id"]), "lake.ns.t", format="iceberg")


def test_a_path_is_written_by_spark(tmp_path):
    with pytest.raises(AssertionError, match="a session was asked for"):
        gl.write(rows(0).select(["id"]), str(tmp_path / "t"), format="iceberg")


def test_without_pyiceberg_spark_is_asked(catalog, monkeypatch):
    monkeypatch.setattr("geolake_nb.pyiceberg.bridge.TESTED_VERSIONS", ())
    with pytest.raises(AssertionError, match="a session was asked for"):
        gl.write(rows(0).select(["id"]), "lake.ns.t", format="iceberg")


@pytest.mark.parametrize("name", ["explain", "scan"])
def test_tables_take_expressions_of_pyiceberg(catalog, name):
    gl.write(rows(0, count=12), "lake.ns.t", format="iceberg", columns={"geom": "geometry", "geog": "geography"})
    table = gl.open("lake.ns.t")
    answers = [
        (EqualTo("id", 3), [3]),
        (And(GreaterThanOrEqual("id", 3), Not(In("id", [4, 5]))), [3, 6, 7, 8, 9, 10, 11]),
        (StartsWith("name", "n1"), [1, 10, 11]),
        (Not(StartsWith("name", "n")), []),
        (And(NotNull("name"), geo.STWithin("geom", gl.Box(0, 0, 4, 4))), [1, 2, 3]),
        (And(IsNull("name"), geo.STWithin("geom", gl.Box(0, 0, 4, 4))), []),
        (~geo.STIntersects("geom", gl.Box(0, 0, 9, 9)), [10, 11]),
        (AlwaysTrue(), list(range(12))),
        (AlwaysFalse(), []),
    ]
    for expression, ids in answers:
        if name == "scan":
            assert table.scan(expression).to_arrow()["id"].to_pylist() == ids
        else:
            assert table.explain(expression).read.files >= bool(ids)
    with pytest.raises(PredicateError, match="IsNaN is not supported in a filter"):
        getattr(table, name)(IsNaN("id"))
