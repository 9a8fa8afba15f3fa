"""`gl.write`: new tables and new rows, from DataFrames of Spark and from Arrow."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import ConflictError, GeolakeError, JobError, RefusedError, SchemaError
from tests.kernel_reader import kernel_rows
from tests.spark.geo_rows import SHAPES, assert_bounds_are_sound, iso, logical_types, rows_of, wkb

pytestmark = pytest.mark.spark

EVERYTHING = (
    "id long, b boolean, y byte, h short, i int, f float, d double, m decimal(20, 3), s string, x binary, a date, "
    "t timestamp, n timestamp_ntz, l array<string>, k map<string, int>, r struct<u: int, geom: binary>"
)


def test_every_type_of_a_dataframe_is_written_and_read_back(spark, tmp_path):
    moment = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
    row = (
        1, True, -5, 300, 70000, 1.5, -2.25, Decimal("12345.678"), "ä\U0001f600", bytearray(b"\0\1"),
        dt.date(1900, 1, 1), moment, moment, ["a", None], {"k": 1}, (7, wkb("POINT (1 2)")),
    )  # fmt: skip
    frame = spark.createDataFrame([row, (2, *[None] * 15)], EVERYTHING)
    gl.write(frame, tmp_path / "t", columns={"r.geom": gl.geometry()})
    rows = spark.read.format("delta").load(str(tmp_path / "t"))
    plain = rows.selectExpr(*[name for name in frame.columns if name != "r"], "r.u", "st_asbinary(r.geom) AS geom")
    wanted = frame.selectExpr(*[name for name in frame.columns if name != "r"], "r.u", "r.geom")
    assert sorted(map(str, plain.collect())) == sorted(map(str, wanted.collect()))
    stats = json.loads(gl.open(str(tmp_path / "t")).snapshot.details.stats.raw.drop_null().to_pylist()[0])
    assert stats["nullCount"]["r"].keys() == {"u", "geom"}


@pytest.mark.parametrize("kind", ["wkb", "ewkb", "wkt", "spark"])
def test_shapes_come_in_every_form(spark, tmp_path, kind):
    values = {"wkb": wkb, "ewkb": lambda text: wkb(text, srid=4326), "wkt": lambda text: text, "spark": wkb}[kind]
    rows = [(number, values(text)) for number, text in enumerate(SHAPES)]
    frame = spark.createDataFrame(rows, f"id long, geom {'string' if kind == 'wkt' else 'binary'}")
    columns = {"geom": gl.geometry("EPSG:4326")}
    if kind == "spark":
        frame, columns = frame.selectExpr("id", "st_geomfromwkb(geom, 4326) AS geom"), {}
    report = gl.write(frame, tmp_path / "t", columns=columns)
    assert (report.version, report.metrics["rows_written"]) == (0, len(SHAPES))
    assert rows_of(spark, tmp_path / "t", "id", "geom") == Counter((n, iso(text)) for n, text in enumerate(SHAPES))
    assert logical_types(tmp_path / "t") == {json.dumps({"Type": "Geometry"})}
    assert_bounds_are_sound(tmp_path / "t")


def test_a_projected_crs_a_geography_and_partitions(spark, tmp_path):
    draw = np.random.default_rng(3)
    rows = [
        (number, wkb(f"POINT ({x} {y})"), f"LINESTRING ({lon} {lat}, {lon + 1} {lat + 1})", f"p {number % 3}")
        for number, (x, y, lon, lat) in enumerate(
            zip(draw.uniform(3e5, 7e5, 300), draw.uniform(5e6, 6e6, 300), draw.uniform(-179, 178, 300),
                draw.uniform(-80, 80, 300), strict=True)
        )
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, "id long, geom binary, way string, p string").repartition(3)
    columns = {"geom": gl.geometry("EPSG:32633"), "way": gl.geography()}
    gl.write(frame, tmp_path / "t", columns=columns, partition_by="p", properties={"owner": "me"})
    table = gl.open(str(tmp_path / "t"))
    assert table.snapshot.partition_columns == ("p",)
    assert table.properties == {"owner": "me"}
    assert logical_types(tmp_path / "t") == {json.dumps({"Type": "Geometry", "crs": "EPSG:32633"})}
    assert_bounds_are_sound(tmp_path / "t")
    assert_bounds_are_sound(tmp_path / "t", "way", windows=0)
    wanted = Counter((number, bytes(point), iso(way), part) for number, point, way, part in rows)
    assert rows_of(spark, tmp_path / "t", "id", "geom", "way", "p", geo=("geom", "way")) == wanted
    assert not [finding for finding in table.check(deep=True) if finding.severity.name == "ERROR"]


def test_rows_can_be_clustered_as_they_are_written(spark, tmp_path):
    draw = np.random.default_rng(4)
    points = zip(draw.uniform(-180, 180, 4000), draw.uniform(-90, 90, 4000), strict=True)
    rows = [(number, f"POINT ({x} {y})") for number, (x, y) in enumerate(points)]
    frame = spark.createDataFrame(rows, "id long, geom string")
    gl.write(frame, tmp_path / "t", columns={"geom": gl.geometry()}, cluster_by="geom", target_file_size=20_000)
    table = gl.open(str(tmp_path / "t"))
    assert len(table.files) >= 4
    areas = [
        (east - west) * (north - south)
        for west, south, east, north in zip(
            *(table.files.table[f"geom.{side}"].to_pylist() for side in ("xmin", "ymin", "xmax", "ymax")), strict=True
        )
    ]
    assert sum(areas) < 2 * 360 * 180
    assert rows_of(spark, tmp_path / "t", "id", "geom") == Counter((n, iso(text)) for n, text in rows)
    assert_bounds_are_sound(tmp_path / "t")


def test_rows_are_added_to_a_geo_table_that_spark_made_and_spark_goes_on(spark, tmp_path):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, geom GEOMETRY(4326), note STRING, w GEOGRAPHY(4326)) USING delta")
    insert = "SELECT {} AS id, st_geomfromwkb(X'{}', 4326), 'a' AS note, st_geogfromwkb(X'{}') AS w"
    hexed = iso("POINT (1 2)").hex()
    spark.sql(f"INSERT INTO delta.`{path}` " + insert.format(1, hexed, hexed))
    # Names in another order and case, one column that is missing, shapes as EWKB and WKT.
    rows = [("POINT (3 4)", wkb("POINT Z (5 6 7)", srid=4326), 2), (None, None, 3)]
    frame = spark.createDataFrame(rows, "W string, GEOM binary, id int")
    report = gl.write(frame, path, mode="append")
    spark.sql(f"INSERT INTO delta.`{path}` " + insert.format(4, hexed, hexed))
    wanted = [
        (1, iso("POINT (1 2)"), "a", iso("POINT (1 2)")),
        (2, iso("POINT Z (5 6 7)"), None, iso("POINT (3 4)")),
        (3, None, None, None),
        (4, iso("POINT (1 2)"), "a", iso("POINT (1 2)")),
    ]
    assert rows_of(spark, path, "id", "geom", "note", "w", geo=("geom", "w")) == Counter(wanted)
    assert sorted(row[0] for row in kernel_rows(spark, str(path))) == [1, 2, 3, 4]
    written = gl.open(str(path)).at(report.version).files.to_pandas().sort_values("modified").iloc[-1:]
    ours = gl.open(str(path)).files.to_pandas()
    ours = ours[ours["geom.xmin"].notna() & ours["w.xmin"].notna()]
    assert set(zip(ours["geom.xmin"], ours["geom.zmax"], ours["w.ymax"], strict=True)) == {(5.0, 7.0, 4.0)}
    assert len(written)
    history = gl.open(str(path)).history()
    assert (history[1].operation, history[1].details["isBlindAppend"]) == ("GEOLAKE WRITE", True)


def test_rows_that_do_not_fit_are_refused_before_a_job(spark, tmp_path):
    frame = spark.createDataFrame([(1, wkb("POINT (1 2)"))], "id long, geom binary")
    gl.write(frame, tmp_path / "t", columns={"geom": gl.geometry()})
    with pytest.raises(SchemaError, match="column id: the rows have string"):
        gl.write(frame.selectExpr("'x' AS id", "geom"), tmp_path / "t", mode="append")
    with pytest.raises(SchemaError, match="not geometry"):
        gl.write(frame, tmp_path / "t", mode="append", columns={"geom": gl.geometry("EPSG:3857")})
    with pytest.raises(RefusedError, match="already"):
        gl.write(frame, tmp_path / "t", columns={"geom": gl.geometry()})
    with pytest.raises(GeolakeError, match="mode='create' or mode='append'"):
        gl.write(frame, tmp_path / "t", mode="overwrite")
    with pytest.raises(GeolakeError, match="delta, havasu, iceberg, parquet"):
        gl.write(frame, tmp_path / "i", format="avro")
    empty = gl.write(frame.limit(0), tmp_path / "t", mode="append")
    assert empty.version is None
    assert gl.open(str(tmp_path / "t")).version == 0


def test_two_who_create_one_table_do_not_both_succeed(spark, tmp_path):
    from geolake_nb.api.writing import plan_write

    frame = spark.createDataFrame([(1,)], "id long")
    plans = [plan_write(frame, tmp_path / "t") for _ in range(2)]
    assert plans[0].hash == plans[1].hash
    assert plans[0].apply(spark=spark).version == 0
    with pytest.raises(ConflictError):
        plans[1].apply(spark=spark)
    assert plans[0].apply(spark=spark).version == 0
    assert rows_of(spark, tmp_path / "t", "id") == Counter({(1,): 1})


def test_mixed_srids_need_a_crs_and_are_checked(spark, tmp_path):
    frame = spark.sql(
        f"SELECT 1 AS id, st_geomfromwkb(X'{iso('POINT (1 2)').hex()}', 4326) AS geom UNION ALL "
        f"SELECT 2, st_geomfromwkb(X'{iso('POINT (3 4)').hex()}', 3857)"
    )
    with pytest.raises(SchemaError, match="any SRID"):
        gl.write(frame, tmp_path / "t")
    with pytest.raises(JobError, match="SRID 3857 is not the column's OGC:CRS84"):
        gl.write(frame, tmp_path / "t", columns={"geom": gl.geometry()})
    gl.write(frame.where("id = 1"), tmp_path / "u", columns={"geom": gl.geometry()})
    assert rows_of(spark, tmp_path / "u", "id", "geom") == Counter({(1, iso("POINT (1 2)")): 1})


def test_arrow_pandas_and_geopandas_are_welcome(spark, tmp_path):
    geopandas = pytest.importorskip("geopandas")
    shapes = [shapely.Point(500_000, 5e6), None]
    frame = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=shapes, crs="EPSG:32633")
    gl.write(frame, tmp_path / "g", spark=spark)
    assert str(gl.open(str(tmp_path / "g")).schema) == "id: int64\ngeometry: geometry(EPSG:32633)"
    wanted = Counter({(1, shapely.to_wkb(shapes[0])): 1, (2, None): 1})
    assert rows_of(spark, tmp_path / "g", "id", "geometry", geo=("geometry",)) == wanted
    table = pa.table({"id": pa.array([1, 2], pa.uint8()), "geom": ["POINT (1 2)", None], "tags": [["a"], []]})
    gl.write(table, tmp_path / "a", columns={"geom": gl.geometry()}, spark=spark)
    gl.write(table.select(["geom"]), tmp_path / "a", mode="append", spark=spark)
    wanted = Counter({(1, iso("POINT (1 2)")): 1, (2, None): 1, (None, iso("POINT (1 2)")): 1, (None, None): 1})
    assert rows_of(spark, tmp_path / "a", "id", "geom") == wanted
    with pytest.raises(JobError, match="not valid WKT"):
        gl.write(pa.table({"geom": ["POINT 1"]}), tmp_path / "b", columns={"geom": gl.geometry()}, spark=spark)
    gl.write(table.to_pandas()[["id", "geom"]], tmp_path / "p", columns={"geom": gl.geometry()}, spark=spark)
    assert sum(rows_of(spark, tmp_path / "p", "id", "geom").values()) == 2


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_time_of_arrow_has_a_zone_or_none_as_it_was(spark, tmp_path, unit):
    moment = dt.datetime(2024, 2, 29, 12, 30, 15, 123000)
    columns = {
        "local": pa.array([moment], pa.timestamp(unit)),
        "instant": pa.array([moment], pa.timestamp(unit, "UTC")),
    }
    gl.write(pa.table(columns | {"geom": [wkb("POINT (1 2)")]}), tmp_path / "t", columns={"geom": gl.geometry()})
    rows = spark.read.format("delta").load(str(tmp_path / "t"))
    assert [kind for _, kind in rows.drop("geom").dtypes] == ["timestamp_ntz", "timestamp"]
    read = rows.selectExpr("local", "unix_micros(instant) AS instant").first()
    assert read.local == moment
    assert read.instant == moment.replace(tzinfo=dt.UTC).timestamp() * 1e6


def test_rows_are_added_to_a_collated_table_with_its_statistics(spark, tmp_path):
    frame = spark.createDataFrame([("Zebra", "a", wkb("POINT (1 2)"))], "name string, plain string, geom binary")
    gl.write(frame, tmp_path / "t", columns={"geom": gl.geometry()})
    gl.open(str(tmp_path / "t")).plan_collations({"name": "icu.UNICODE_CI"}).apply(spark=spark, consent="collations")
    more = spark.createDataFrame(
        [("banana", "B", wkb("POINT (3 4)")), ("Apple", "a", None), ("cherry", None, None)],
        "name string, plain string, geom binary",
    )
    report = gl.write(more.coalesce(1), tmp_path / "t", mode="append")
    assert report.metrics["files_added"] == 1
    table = gl.open(str(tmp_path / "t"))
    texts = [json.loads(text) for text in table.snapshot.details.stats.raw.to_pylist()]
    (stats,) = [parsed for parsed in texts if parsed["numRecords"] == 3]
    (stored,) = stats["statsWithCollation"].values()
    assert (stored["minValues"]["name"], stored["maxValues"]["name"]) == ("Apple", "cherry")
    assert stats["minValues"]["geom"].replace(" ", "") == "POINT(34)"
    assert not table.collations.is_stale
    rows = spark.read.format("delta").load(str(tmp_path / "t"))
    assert [row.name for row in rows.where("name = 'APPLE'").collect()] == ["Apple"]
