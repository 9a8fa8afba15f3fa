"""`spark.read.format("geolake")`: the rows of tables of all formats, and which files Spark does not need."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl

pytestmark = pytest.mark.spark

FORMATS = ["delta", "iceberg", "havasu", "parquet"]
COUNT = 400
START = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC)
WINDOW = "geom_bbox.xmin <= 20 AND geom_bbox.xmax >= 10 AND geom_bbox.ymin <= 20 AND geom_bbox.ymax >= 0"


def points():
    draw = np.random.default_rng(4)
    return draw.uniform(-60, 60, (COUNT, 2))


def rows():
    wkb = [None if number % 50 == 49 else shapely.to_wkb(shapely.Point(x, y)) for number, (x, y) in enumerate(points())]
    return pa.table(
        {
            "id": pa.array(range(COUNT), pa.int64()),
            "name": pa.array([f"row {number}" for number in range(COUNT)]),
            "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(days=number) for number in range(COUNT)]),
            "at": pa.array([START + dt.timedelta(hours=number) for number in range(COUNT)], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(number) / 4 for number in range(COUNT)], pa.decimal128(9, 2)),
            "tags": pa.array([[f"t{number % 3}", None] for number in range(COUNT)]),
            "geom": pa.array(wkb, pa.binary()),
        }
    )


@pytest.fixture(scope="module", params=FORMATS)
def table(request, spark, tmp_path_factory):
    """A table with many small files along a Hilbert curve."""
    path = tmp_path_factory.mktemp("tables") / request.param
    gl.write(
        rows(),
        str(path),
        format=request.param,
        columns={"geom": gl.geometry()},
        cluster_by="geom",
        target_file_size=1500,
        spark=spark,
    )
    opened = gl.open(str(path))
    assert len(opened.files) > 4
    return opened


def load(spark, table, *, pushdown=False, **options):
    gl.spark_source.register(spark, pushdown=pushdown)
    return spark.read.format("geolake").options(**options).load(table.location)


def in_window(x, y):
    return 10 <= x <= 20 and 0 <= y <= 20


def expected_ids():
    return [number for number, (x, y) in enumerate(points()) if number % 50 != 49 and in_window(x, y)]


def without_other_files(table, kept):
    """Remove the data files that a window does not need: who reads them fails."""
    from geolake_nb.scan.data_files import data_keys

    root = Path(table._storage.location)
    for key, path in zip(data_keys(table.snapshot), table.files.table["path"].to_pylist(), strict=True):
        if path not in kept:
            (root / key).rename(root / f"{key}.away")
            yield root / key


def test_every_column_is_as_it_was_written(spark, table):
    frame = load(spark, table, geometry="wkb", bbox="false")
    assert Counter(map(repr, frame.toArrow().to_pylist())) == Counter(map(repr, rows().to_pylist()))


def test_a_geometry_is_spark_s_own_type_with_its_box_beside_it(spark, table):
    frame = load(spark, table)
    # Havasu: a geometry without a CRS of its own has none.
    srid = 0 if table.snapshot.format.name == "havasu" else 4326
    assert frame.schema["geom"].dataType.simpleString() == f"geometry({srid})"
    stored = frame.selectExpr("id", "st_asbinary(geom) AS wkb", "geom_bbox.*").orderBy("id").toArrow().to_pylist()
    for number, ((x, y), row) in enumerate(zip(points().tolist(), stored, strict=True)):
        if number % 50 == 49:
            assert row == {"id": number, "wkb": None, "xmin": None, "ymin": None, "xmax": None, "ymax": None}
        else:
            assert [row[side] for side in ("xmin", "ymin", "xmax", "ymax")] == [x, y, x, y]
            assert shapely.from_wkb(bytes(row["wkb"])) == shapely.Point(x, y)


def test_conditions_on_the_box_read_only_the_files_of_the_window(spark, table):
    kept = table.explain((10, 0, 20, 20)).kept["path"].to_pylist()
    assert 0 < len(kept) < len(table.files)
    gone = list(without_other_files(table, kept))
    try:
        read = load(spark, table, pushdown=True).where(WINDOW).select("id").toArrow()["id"].to_pylist()
        tested = load(spark, table, where="POLYGON ((10 0, 20 0, 20 20, 10 20, 10 0))").toArrow()["id"].to_pylist()
    finally:
        for path in gone:
            Path(f"{path}.away").rename(path)
    assert sorted(read) == sorted(tested) == expected_ids()


def test_a_frame_that_is_used_twice_keeps_all_rows(spark, table):
    # Spark 4 plans a data source in Python once for all queries on a DataFrame: see PythonDataSourceV2 in its sources.
    load(spark, table, pushdown=True)  # which turns pushdown on in the session
    frame = load(spark, table)
    assert frame.where(WINDOW).count() == len(expected_ids())
    assert frame.count() == COUNT
    joined = frame.where("id < 5").join(frame.where("id >= 5").select("name"), "name", "left")
    assert joined.count() == 5


def test_plain_conditions_that_are_pushed_down_keep_their_rows(spark, table):
    def ids(where):
        return sorted(load(spark, table, pushdown=True).where(where).toArrow()["id"].to_pylist())

    assert ids("id < 5 OR id IS NULL") == [0, 1, 2, 3, 4]
    assert ids("day = DATE'2024-01-03' AND name LIKE 'row%'") == [2]
    assert ids("price IN (1.25, 2.5)") == [5, 10]
    assert ids("NOT (id >= 3)") == [0, 1, 2]


def test_the_option_where_is_tested_exactly_in_the_tasks(spark, table):
    wkt = "POLYGON ((10 0, 20 0, 20 20, 10 20, 10 0))"
    frame = load(spark, table, where=wkt, columns="id,name")
    assert frame.columns == ["id", "name"]
    assert sorted(frame.toArrow()["id"].to_pylist()) == expected_ids()
    mixed = load(spark, table, where=f"ST_Within(geom, ST_GeomFromText('{wkt}')) AND id > 100")
    assert sorted(mixed.toArrow()["id"].to_pylist()) == [number for number in expected_ids() if number > 100]


def test_a_scan_becomes_a_frame_with_the_same_rows(spark, table):
    scan = table.scan((10, 0, 20, 20), columns=["name", "id"])
    frame = scan.to_spark(spark)
    assert frame.columns == ["name", "id"]
    assert Counter(map(repr, frame.toArrow().to_pylist())) == Counter(map(repr, scan.to_arrow().to_pylist()))
    assert table.scan(limit=7).to_spark(spark).count() == 7


def test_an_older_version_is_read(spark, tmp_path):
    path = str(tmp_path / "t")
    gl.write(rows().slice(0, 10), path, columns={"geom": gl.geometry()}, spark=spark)
    gl.write(rows().slice(10, 5), path, mode="append", spark=spark)
    gl.spark_source.register(spark)
    read = spark.read.format("geolake")
    assert (read.load(path).count(), read.option("version", "0").load(path).count()) == (15, 10)


def test_mistakes_are_one_sentence(spark, tmp_path, table):
    with pytest.raises(Exception, match=r"unknown option 'colums' of the format geolake; use one of: path"):
        load(spark, table, colums="id").count()
    with pytest.raises(Exception, match=r"there is nothing at this path; check the path"):
        spark.read.format("geolake").load(str(tmp_path / "nowhere"))
    with pytest.raises(Exception, match=r"no column 'nme'; use one of: name"):
        load(spark, table, where="nme = 'x'").count()


_CONNECT = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[2]).config("spark.ui.enabled", "false").getOrCreate()
import geolake_nb as gl
gl.spark_source.register(spark)
frame = spark.read.format("geolake").load(sys.argv[1])
rows = frame.where(sys.argv[3]).select("id").toArrow()["id"].to_pylist()
print(json.dumps({"session": type(spark).__module__, "ids": sorted(rows), "rows": frame.count()}))
spark.stop()
"""


def run(script, path, url):
    command = [sys.executable, "-c", script, path, url, WINDOW]
    process = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def delta_table(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("cluster") / "t")
    gl.write(rows(), path, columns={"geom": gl.geometry()}, cluster_by="geom", target_file_size=1500, spark=spark)
    return path


def test_the_data_source_runs_over_spark_connect(delta_table):
    answer = run(_CONNECT, delta_table, "local[2]")
    assert answer == {"session": "pyspark.sql.connect.session", "ids": expected_ids(), "rows": COUNT}
