"""Round trips and schema evolution over SQL and REST catalogs, with Spark 4.1.4 + Iceberg 1.12.0 on the other side."""

from __future__ import annotations

import pyarrow as pa
import pytest
import shapely
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import GeographyType, GeometryType, IntegerType, LongType, NestedField, StringType

import geolake_nb as gl
import geolake_nb.pyiceberg as geo
from tests.pyiceberg.geo_rows import V3, rows, wkb

pytestmark = pytest.mark.spark

COLUMNS = "id, name, hex(st_asbinary(geom)) AS geom, hex(st_asbinary(geog)) AS geog"


@pytest.fixture(params=["rest", "jdbc"])
def lake(request, bridge, iceberg_spark, monkeypatch, tmp_path):
    """A catalog of PyIceberg and the same in Spark, as its name, the catalog and what asks Spark."""
    name = request.param
    if name == "rest":
        properties = {"type": "rest", "uri": iceberg_spark.rest}
    else:
        warehouse = f"file://{iceberg_spark.warehouse}/jdbc"
        properties = {"type": "sql", "uri": f"sqlite:///{iceberg_spark.database}", "warehouse": warehouse}
    monkeypatch.setenv("HOME", str(tmp_path))
    for key, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{key.upper()}", value)
    iceberg_spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.py")
    return name, load_catalog(name, **properties), iceberg_spark.sql


def as_spark(table: pa.Table):
    """Rows as Spark's answers have them."""

    def digits(values):
        return [None if value is None else value.hex().upper() for value in values]

    plain = [column.combine_chunks() for column in table.columns]
    values = [
        digits(column.storage.to_pylist() if isinstance(column, pa.ExtensionArray) else column.to_pylist())
        if name in ("geom", "geog")
        else column.to_pylist()
        for name, column in zip(table.column_names, plain, strict=True)
    ]
    return sorted(
        (dict(zip(table.column_names, row, strict=True)) for row in zip(*values, strict=True)),
        key=lambda row: row["id"],
    )


def by_id(answer):
    return sorted(answer, key=lambda row: row["id"])


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "geom", GeometryType("EPSG:3857")),
    NestedField(4, "geog", GeographyType()),
)


def test_what_pyiceberg_writes_others_read(lake):
    name, catalog, sql = lake
    table = catalog.create_table("py.ours", schema=SCHEMA, properties=dict(V3))
    for start in (0, 100):
        table.append(rows(start))
    table.append(
        pa.table({"id": [200], "name": pa.array([None], pa.string()), "geom": [None], "geog": [wkb("POINT (179 1)")]})
    )
    full = f"{name}.py.ours"
    assert by_id(sql(f"SELECT {COLUMNS} FROM {full}")) == as_spark(table.scan().to_arrow())
    types = {row["col_name"]: row["data_type"] for row in sql(f"DESCRIBE TABLE {full}")}
    assert (types["geom"], types["geog"]) == ("geometry(3857)", "geography(4326)")
    ids = sql(f"SELECT id, _row_id, _last_updated_sequence_number AS seq FROM {full}")
    assert [(row["id"], row["_row_id"], row["seq"]) for row in by_id(ids)] == [
        (0, 0, 1), (1, 1, 1), (2, 2, 1), (100, 3, 2), (101, 4, 2), (102, 5, 2), (200, 6, 3)
    ]  # fmt: skip
    # Bounds, counts and partition summaries as Spark sees them are those that PyIceberg wrote.
    metrics = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    theirs = sql(f"SELECT file_path, {', '.join(metrics)}, first_row_id FROM {full}.files")
    ours = {row["file_path"]: row for row in table.inspect.files().to_pylist()}
    for row in theirs:
        for metric in metrics:
            values = {str(key): value.hex() if isinstance(value, bytes) else value for key, value in
                      ours[row["file_path"]][metric]}  # fmt: skip
            assert row[metric] == values
    assert sorted(row["first_row_id"] for row in theirs) == [0, 3, 6]
    opened = gl.open(full)
    result = opened.scan(columns=["id", "name", "geom", "geog"]).to_arrow()
    assert as_spark(result) == as_spark(table.scan().to_arrow())
    assert opened.schema.find("geom").type == gl.geometry("EPSG:3857")
    assert [finding.rule.id for finding in opened.check() if finding.rule.id.startswith("bounds")] == []
    assert opened.explain(gl.st_intersects("geog", "POINT (101 -1)")).read.files == 1
    # Others go on where PyIceberg has stopped.
    sql(f"INSERT INTO {full} SELECT id + 1000, name, geom, geog FROM {full} WHERE id = 0")
    table.refresh()
    assert table.metadata.next_row_id == 8
    result = geo.scan(table, geo.STIntersects("geog", "POINT (0 0)"), selected_fields=["id"]).to_arrow()
    assert sorted(result["id"].to_pylist()) == [0, 1000]


def test_duckdb_reads_the_files_that_pyiceberg_writes(bridge, catalog):
    duckdb = pytest.importorskip("duckdb")
    table = catalog.create_table("ns.t", schema=SCHEMA, properties=dict(V3))
    table.append(rows(0))
    path = table.inspect.files()["file_path"][0].as_py().removeprefix("file://")
    result = duckdb.sql(f"SELECT id, geom FROM '{path}' ORDER BY id")
    assert [str(kind).startswith("GEOMETRY") for kind in result.types] == [False, True]
    assert [row[0] for row in result.fetchall()] == [0, 1, 2]


def test_pyiceberg_reads_and_appends_to_what_spark_writes(lake):
    name, catalog, sql = lake
    full = f"{name}.py.theirs"
    sql(
        f"CREATE TABLE {full} (id BIGINT, name STRING, geom GEOMETRY(4326), geog GEOGRAPHY(4326)) USING iceberg"
        " TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )

    def point(function, x):
        return f"{function}(X'{wkb(f'POINT ({x} 1)').hex()}')"

    values = ", ".join(
        f"({id_}, 'n{id_}', st_setsrid({point('st_geomfromwkb', id_)}, 4326), {point('st_geogfromwkb', id_)})"
        for id_ in range(4)
    )
    sql(f"INSERT INTO {full} VALUES {values}")
    sql(f"DELETE FROM {full} WHERE id = 2")
    before = {row["id"]: row["_row_id"] for row in sql(f"SELECT id, _row_id FROM {full}")}
    table = catalog.load_table("py.theirs")
    assert [str(table.schema().find_type(column)) for column in ("geom", "geog")] == ["geometry", "geography"]
    assert by_id(sql(f"SELECT {COLUMNS} FROM {full}")) == as_spark(geo.scan(table).to_arrow())
    table.append(rows(10))
    answer = by_id(sql(f"SELECT {COLUMNS} FROM {full}"))
    assert [row["id"] for row in answer] == [0, 1, 3, 10, 11, 12]
    assert answer == as_spark(geo.scan(table).to_arrow())
    ids = {row["id"]: row["_row_id"] for row in sql(f"SELECT id, _row_id FROM {full}")}
    assert {id_: ids[id_] for id_ in before} == before
    assert len(set(ids.values())) == len(ids)
    assert geo.scan(table, geo.STIntersects("geom", gl.Box(1, 0, 3, 2))).to_pandas()["id"].tolist() == [1, 3]
    # A delete of Spark's that comes after an append still holds after the next one.
    sql(f"DELETE FROM {full} WHERE id = 11")
    table.refresh()
    table.append(rows(20, count=1))
    assert sorted(geo.scan(table).to_arrow()["id"].to_pylist()) == [0, 1, 3, 10, 12, 20]
    assert [row["id"] for row in by_id(sql(f"SELECT id FROM {full}"))] == [0, 1, 3, 10, 12, 20]
    # The deletion vectors of files that an overwrite removes are of no effect any more.
    with pytest.warns(UserWarning, match="falling back to copy-on-write"):
        table.overwrite(rows(30))
    assert [row["id"] for row in by_id(sql(f"SELECT id FROM {full}"))] == [30, 31, 32]
    assert sorted(geo.scan(table).to_arrow()["id"].to_pylist()) == [30, 31, 32]
    sql(f"DELETE FROM {full} WHERE id = 31")
    assert sorted(geo.scan(table.refresh()).to_arrow()["id"].to_pylist()) == [30, 32]


def test_schemas_evolve(lake):
    name, catalog, sql = lake
    full = f"{name}.py.evolved"
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "geom", GeometryType()))
    table = catalog.create_table("py.evolved", schema=schema, properties=dict(V3))
    table.append(pa.table({"id": pa.array([1], pa.int32()), "geom": [wkb("POINT (1 2)")]}))
    with table.update_schema() as update:
        update.add_column("geog", GeographyType())
        update.add_column("note", StringType())
        update.update_column("id", LongType())
        update.rename_column("geom", "shape")
    point = wkb("POINT (3 4)")
    table.append(pa.table({"id": [2**40], "shape": [point], "geog": [point], "note": ["new"]}))
    with table.update_schema() as update:
        update.delete_column("note")
    answer = by_id(sql(f"SELECT id, hex(st_asbinary(shape)) AS s, hex(st_asbinary(geog)) AS g FROM {full}"))
    first, second = wkb("POINT (1 2)").hex().upper(), point.hex().upper()
    assert answer == [{"id": 1, "s": first, "g": None}, {"id": 2**40, "s": second, "g": second}]
    result = catalog.load_table("py.evolved").scan().to_arrow().sort_by("id")
    assert result.column_names == ["id", "shape", "geog"]
    assert result["geog"].combine_chunks().storage.to_pylist() == [None, point]
    assert geo.scan(table, geo.STIntersects("shape", "POINT (1 2)")).to_pandas()["id"].tolist() == [1]
    with table.update_schema() as update:
        update.delete_column("geog")
    assert [row["col_name"] for row in sql(f"DESCRIBE TABLE {full}")][:2] == ["id", "shape"]
    assert geo.scan(table).to_arrow().column_names == ["id", "shape"]


def test_gl_write_creates_and_appends_without_spark(lake):
    name, catalog, sql = lake
    gpd = pytest.importorskip("geopandas")
    frame = gpd.GeoDataFrame(
        {"id": [1, 2, 3], "kind": ["a", "b", "a"]}, geometry=[shapely.Point(x, x) for x in range(3)], crs="EPSG:3857"
    )
    full = f"{name}.py.written"
    report = gl.write(frame, full, format="iceberg", partition_by="kind", cluster_by="geometry")
    assert (report.metrics["rows_written"], report.metrics["files_added"]) == (3, 2)
    again = gl.write(frame.iloc[:1], full, format="iceberg", mode="append")
    assert again.version == catalog.load_table("py.written").current_snapshot().snapshot_id
    answer = sql(f"SELECT id, kind, hex(st_asbinary(geometry)) AS g, _row_id FROM {full} ORDER BY _row_id")
    assert sorted(row["id"] for row in answer) == [1, 1, 2, 3]
    assert [row["_row_id"] for row in answer] == [0, 1, 2, 3]
    files = sql(f"SELECT partition, record_count, lower_bounds FROM {full}.files")
    assert sorted(row["record_count"] for row in files) == [1, 1, 2]
    assert all(len(row["lower_bounds"]["3"]) == 32 for row in files)
    assert [row["kind"] for row in sql(f"SELECT kind FROM {full} WHERE kind = 'b'")] == ["b"]
