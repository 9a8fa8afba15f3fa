"""New Iceberg tables and new rows, with the metrics that Iceberg itself would write, and bounds of shapes."""

from __future__ import annotations

import datetime as dt
import decimal
import struct

import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.checks.finding import Severity
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.geo.bounds import BadValueWarning
from tests.spark.named_iceberg import doubles, named

__all__ = ["named"]

pytestmark = pytest.mark.spark

METRICS = "value_counts, null_value_counts, nan_value_counts, lower_bounds, upper_bounds"


def iso(text):
    return shapely.to_wkb(shapely.from_wkt(text), output_dimension=4, flavor="iso")


def one_file(spark, rows):
    return spark.createDataFrame(rows).coalesce(1)


def table_path(named, name):
    return str(named.warehouse / "db" / name)


PLAIN = pa.table(
    {
        "id": pa.array([3, None, 1], pa.int32()),
        "n": pa.array([-1, 2**40, 5], pa.int64()),
        "f": pa.array([1.5, float("nan"), -0.0], pa.float64()),
        "e": pa.array([float("nan")] * 3, pa.float32()),
        "t": ["é" * 20, "zz", "\U0010ffff" * 20],
        "b": [b"\xff" * 20, b"\x00", None],
        "d": [dt.date(1969, 12, 31), None, dt.date(2024, 2, 29)],
        "w": pa.array([dt.datetime(2024, 1, 1), None, dt.datetime(1960, 1, 1)], pa.timestamp("us", "UTC")),
        "m": pa.array([decimal.Decimal("-1.28"), None, decimal.Decimal("7.00")], pa.decimal128(9, 2)),
        "o": [True, False, None],
        "s": [{"x": 1, "y": None}, None, {"x": 3, "y": "q" * 40}],
        "l": [[1, None], [], None],
    }
)


def test_the_metrics_of_plain_columns_are_those_that_iceberg_writes(named, spark):
    gl.write(one_file(spark, PLAIN), table_path(named, "ours"), format="iceberg")
    columns = named.sql("DESCRIBE TABLE ice.db.ours")
    typed = ", ".join(f"{column['col_name']} {column['data_type']}" for column in columns if column["data_type"])
    named.sql(f"CREATE TABLE ice.db.theirs ({typed}) USING iceberg")
    named.sql("INSERT INTO ice.db.theirs SELECT /*+ COALESCE(1) */ * FROM ice.db.ours")
    (ours,) = named.sql(f"SELECT {METRICS} FROM ice.db.ours.files")
    (theirs,) = named.sql(f"SELECT {METRICS} FROM ice.db.theirs.files")
    differing = {
        (name, id_): (ours[name].get(id_), theirs[name].get(id_))
        for name in ours
        for id_ in ours[name] | theirs[name]
        if ours[name].get(id_) != theirs[name].get(id_)
    }
    assert differing == {}
    sizes = [
        named.sql(f"SELECT column_sizes FROM ice.db.{name}.files")[0]["column_sizes"] for name in ("ours", "theirs")
    ]
    assert sizes[0].keys() == sizes[1].keys()
    assert named.sql("SELECT * FROM ice.db.ours ORDER BY n") == named.sql("SELECT * FROM ice.db.theirs ORDER BY n")


def test_a_new_table_has_the_bounds_of_its_shapes(named, spark):
    rows = pa.table(
        {
            "id": [1, 2],
            "g": [iso("POINT (1 2)"), iso("LINESTRING (3 4, 5 6)")],
            "z": [iso("POINT Z (1 2 3)"), None],
            "m": ["POINT M (1 2 3)", "POINT M (0 2 9)"],
            "zm": [iso("POINT ZM (1 2 3 4)")] * 2,
            "h": [iso("POINT (179 0)"), iso("POINT (-179 1)")],
        }
    )
    report = gl.write(
        one_file(spark, rows),
        table_path(named, "shapes"),
        format="iceberg",
        columns={
            **dict.fromkeys(("g", "m", "zm"), gl.geometry()),
            "z": gl.geometry("EPSG:3857"),
            "h": gl.geography(),
        },
        properties={"write.metadata.metrics.column.id": "none"},
    )
    assert report.metrics["rows_written"] == 2
    (file,) = named.sql(f"SELECT {METRICS} FROM ice.db.shapes.files")
    assert file["lower_bounds"] == {
        "2": doubles(1, 2),
        "3": doubles(1, 2, 3),
        "4": doubles(0, 2, float("nan"), 3),
        "5": doubles(1, 2, 3, 4),
        "6": doubles(179, 0),
    }
    assert file["upper_bounds"] == {
        "2": doubles(5, 6),
        "3": doubles(1, 2, 3),
        "4": doubles(1, 2, float("nan"), 9),
        "5": doubles(1, 2, 3, 4),
        "6": doubles(-179, 1),
    }
    assert file["null_value_counts"] == {"2": 0, "3": 1, "4": 0, "5": 0, "6": 0}
    types = {row["col_name"]: row["data_type"] for row in named.sql("DESCRIBE TABLE ice.db.shapes")}
    assert (types["g"], types["z"]) == ("geometry(4326)", "geometry(3857)")
    opened = gl.open(table_path(named, "shapes"))
    assert opened.protocol.summary == "format version 3"
    assert not opened.check().counts.get(Severity.ERROR)
    with pytest.raises(RefusedError, match="an Iceberg table already exists here"):
        gl.write(rows, table_path(named, "shapes"), format="iceberg", spark=spark)
    with pytest.raises(RefusedError, match="geo columns need format version 3"):
        gl.write(
            rows,
            table_path(named, "old"),
            format="iceberg",
            columns={"g": gl.geometry()},
            properties={"format-version": "2"},
            spark=spark,
        )


def test_rows_are_added_to_partitions_of_a_table_of_spark(named, spark):
    table = "ice.db.grown"
    named.sql(
        f"CREATE TABLE {table} (id INT NOT NULL, k STRING, g GEOMETRY(4326)) USING iceberg PARTITIONED BY (k)"
        " TBLPROPERTIES('format-version'='3')"
    )
    frame = spark.sql(
        "SELECT id, k, st_setsrid(st_geomfromwkb(unhex(w)), 4326) AS g FROM VALUES"
        f" (1, 'a', '{iso('POINT (1 1)').hex()}'), (2, NULL, NULL), (3, '', '{iso('POINT (3 3)').hex()}') t(id, k, w)"
    )
    report = gl.write(frame.where("id <> 3"), table_path(named, "grown"), format="iceberg", mode="append", spark=spark)
    gl.write(frame.where("id = 3"), table_path(named, "grown"), format="iceberg", mode="append", spark=spark)
    assert report.metrics["rows_written"] == 2
    rows = named.sql(f"SELECT id, k, st_asbinary(g) AS g, _row_id AS r FROM {table} ORDER BY id")
    assert [row["k"] for row in rows] == ["a", None, ""]
    assert rows[0]["g"] == iso("POINT (1 1)").hex()
    assert sorted(row["r"] for row in rows) == [0, 1, 2]
    assert [row["id"] for row in named.sql(f"SELECT id FROM {table} WHERE k IS NULL")] == [2]
    assert [row["id"] for row in named.sql(f"SELECT id FROM {table} WHERE k = ''")] == [3]
    files = named.sql(f"SELECT partition, lower_bounds FROM {table}.files ORDER BY 1")
    assert {tuple(file["partition"]): file["lower_bounds"].get("3") for file in files} == {
        ("a",): doubles(1, 1),
        (None,): None,
        ("",): doubles(3, 3),
    }
    wrong = pa.table({"id": ["1"]})
    with pytest.raises(SchemaError, match="the rows have string, and the table has int32; cast it"):
        gl.write(wrong, table_path(named, "grown"), format="iceberg", mode="append", spark=spark)


def test_a_shape_that_cannot_be_read_is_written_and_leaves_its_file_without_bounds(named, spark):
    rows = pa.table({"id": [1, 2], "g": [iso("POINT (1 2)"), b"\x01\x02"]})
    with pytest.warns(BadValueWarning, match=r"data/.*: g gets no bounds, first row 1: "):
        report = gl.write(
            one_file(spark, rows), table_path(named, "bad"), format="iceberg", columns={"g": gl.geometry()}
        )
    assert report.metrics["files_without_bound"] == 1
    (file,) = named.sql("SELECT lower_bounds FROM ice.db.bad.files")
    assert file["lower_bounds"] == {"1": struct.pack("<q", 1).hex()}
    assert named.sql("SELECT count(g) AS n FROM ice.db.bad") == [{"n": 2}]


def test_parquet_files_become_a_clustered_table(named, spark, tmp_path):
    import pyarrow.parquet as pq

    points = [iso(f"POINT ({i} {i})") for i in range(100)]
    pq.write_table(pa.table({"id": list(range(100)), "g": points}), tmp_path / "a.parquet")
    plan = gl.open(str(tmp_path)).plan_convert(
        table_path(named, "converted"),
        format="iceberg",
        columns={"g": gl.geometry()},
        cluster_by="g",
        target_file_size="1kB",
        row_group_rows=10,
    )
    report = plan.apply(spark=spark)
    assert report.metrics["rows_written"] == 100
    opened = gl.open(table_path(named, "converted"))
    assert len(opened.files) > 1
    assert opened.files.table["g.xmin"].null_count == 0
    assert named.sql("SELECT count(*) AS n, sum(id) AS s FROM ice.db.converted") == [{"n": 100, "s": 4950}]
