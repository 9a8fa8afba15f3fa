"""`gl.sql(..., engine="spark")` and the spatial functions: Spark answers as SedonaDB and shapely do."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError
from geolake_nb.spark.functions import FUNCTIONS

pytestmark = pytest.mark.spark

WINDOW = "ST_SetSRID(ST_GeomFromText('POLYGON((1 0,5 0,5 5,1 5,1 0))'), 4326)"
POINT = "ST_SetSRID(ST_Point(3, 3), 4326)"
FILES = 5

QUERIES = [
    (f"SELECT id FROM t WHERE ST_Intersects(geom, {WINDOW})", True),
    (f"SELECT id FROM t AS a WHERE ST_Within(a.geom, {WINDOW}) AND a.id > 50", True),
    (f"SELECT count(*) AS n, max(v) AS v FROM t WHERE ST_Contains({WINDOW}, geom)", True),
    (f"SELECT id FROM t WHERE ST_Disjoint(geom, {WINDOW}) AND id < 60", False),
    (f"SELECT id FROM t WHERE ST_Overlaps(geom, {WINDOW}) OR id = 7", False),
    (f"SELECT id FROM t WHERE ST_DWithin(geom, {POINT}, 2.5)", True),
    ("WITH big AS (SELECT * FROM t WHERE ST_Area(geom) > 2) SELECT id FROM big", False),
    (f"SELECT t.id, p.name FROM t JOIN p ON ST_Intersects(t.geom, p.geom) WHERE ST_Intersects(t.geom, {WINDOW})", True),
    (f"SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE ST_Intersects(geom, {WINDOW}))", False),
    ("SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id + 1 WHERE ST_Intersects(a.geom, b.geom)", False),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    draw = np.random.default_rng(3)
    for number in range(FILES):
        x, y = np.sort(draw.uniform(-20, 20, 60)) / FILES + 8 * (number - 2), draw.uniform(-20, 20, 60)
        boxes = shapely.box(x, y, x + np.abs(draw.normal(size=60)), y + np.abs(draw.normal(size=60)))
        columns = {"id": np.arange(60) + 60 * number, "v": draw.normal(size=60)}
        (folder / "t").mkdir(exist_ok=True)
        frame = gpd.GeoDataFrame(columns, geometry=boxes, crs=4326).rename_geometry("geom")
        frame.to_parquet(folder / "t" / f"{number}.parquet", write_covering_bbox=True)
    named = {"name": ["here", "there", None], "geom": [shapely.box(0, 0, 9, 9), shapely.Point(90, 0), None]}
    (folder / "p").mkdir()
    gpd.GeoDataFrame(named, geometry="geom", crs=4326).to_parquet(folder / "p" / "0.parquet")
    return {name: gl.open(str(folder / name)) for name in ("t", "p")}


def rows_of(answer):
    return sorted(map(repr, answer.to_arrow().to_pylist()))


@pytest.mark.parametrize(("query", "skips"), QUERIES)
def test_spark_answers_as_sedonadb(spark, tables, query, skips):
    used = {name: table for name, table in tables.items() if f" {name} " in f"{query} "}
    answer = gl.sql(query, engine="spark", spark=spark, **used)
    expected = rows_of(gl.sql(query, **used))
    assert rows_of(answer) == expected
    assert expected
    [read] = [read for read in answer.reads if read.table == "t"]
    assert (read.metrics.files_planned < FILES) is skips
    assert str(read).endswith("of 5 files, read by Spark")


def test_geometries_keep_their_crs(spark, tables):
    query = f"SELECT geom FROM t WHERE ST_Intersects(geom, {WINDOW})"
    shapes = gl.sql(query, engine="spark", spark=spark, t=tables["t"]).to_geopandas()
    assert shapes.crs.equals("EPSG:4326", ignore_axis_order=True)
    expected = gl.sql(query, t=tables["t"]).to_geopandas()
    assert sorted(shapes.geometry.to_wkt()) == sorted(expected.geometry.to_wkt())


def test_a_view_of_the_session_is_hidden_and_kept(spark, tables):
    spark.range(3).createOrReplaceTempView("t")
    assert gl.sql("SELECT count(*) AS n FROM t", engine="spark", spark=spark, t=tables["t"]).to_pandas()["n"][0] == 300
    assert spark.table("t").count() == 3
    spark.catalog.dropTempView("t")


def test_a_location_in_quotes_and_braces_in_text(spark, tables):
    query = f"SELECT '{{x}}' AS text, count(*) AS n FROM '{tables['t'].location}'"
    answer = gl.sql(query, engine="spark", spark=spark)
    assert answer.to_arrow().to_pylist() == [{"text": "{x}", "n": 300}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nme FROM t", r"Spark cannot run the query: .*nme"),
        ("SELECT ST_Area(v) AS a FROM t", r"ST_Area\(geom\): expected a geometry, got a double"),
        ("SELECT ST_Area(geom, 1) AS a FROM t", r"ST_Area takes \(geom\), got 2 arguments"),
        ("SELECT ST_GeomFromText('POINT') AS a FROM t", r"the WKT cannot be read"),
        (
            "SELECT id FROM t WHERE ST_Intersects(geom, ST_SetSRID(ST_Point(1, 2), 3857))",
            r"geom: the geometry is in WGS 84 / Pseudo-Mercator, and the column in WGS 84; give it in the CRS of",
        ),
        (
            "SELECT ST_Distance(geom, ST_SetSRID(ST_Point(1, 2), 3857)) AS d FROM t",
            r"ST_Distance\(a, b\): the SRIDs differ: 4326 and 3857",
        ),
    ],
)
def test_mistakes_are_one_sentence(spark, tables, query, message):
    with pytest.raises(GeolakeError, match=message) as raised:
        gl.sql(query, engine="spark", spark=spark, t=tables["t"]).to_arrow()
    assert "Traceback" not in str(raised.value)


def test_engines_are_named(tables):
    with pytest.raises(GeolakeError, match="unknown engine 'duckdb'; use one of: sedonadb, spark"):
        gl.sql("SELECT 1", engine="duckdb", t=tables["t"])


SAMPLES = {
    "ST_Area": "ST_Area(a)",
    "ST_AsText": "ST_AsText(ST_GeomFromText(ST_AsText(a))) = ST_AsText(a)",
    "ST_Buffer": "ST_Area(ST_Buffer(a, 0.5)) > ST_Area(a)",
    "ST_Centroid": "ST_X(ST_Centroid(a))",
    "ST_Contains": "ST_Contains(a, b)",
    "ST_CoveredBy": "ST_CoveredBy(a, b)",
    "ST_Covers": "ST_Covers(a, b)",
    "ST_Crosses": "ST_Crosses(a, b)",
    "ST_DWithin": "ST_DWithin(a, b, 1)",
    "ST_Difference": "ST_Area(ST_Difference(a, b))",
    "ST_Disjoint": "ST_Disjoint(a, b)",
    "ST_Distance": "ST_Distance(a, b)",
    "ST_Envelope": "ST_Area(ST_Envelope(a))",
    "ST_Equals": "ST_Equals(a, b)",
    "ST_GeomFromText": "ST_X(ST_GeomFromText('POINT (1 2)'))",
    "ST_GeometryType": "ST_GeometryType(a)",
    "ST_Intersection": "ST_Area(ST_Intersection(a, b))",
    "ST_Intersects": "ST_Intersects(a, b)",
    "ST_IsEmpty": "ST_IsEmpty(a)",
    "ST_IsValid": "ST_IsValid(a)",
    "ST_Length": "ST_Length(a)",
    "ST_MakeEnvelope": "ST_Intersects(a, ST_SetSRID(ST_MakeEnvelope(0, 0, 2, 2), 4326))",
    "ST_NPoints": "ST_NPoints(a)",
    "ST_Overlaps": "ST_Overlaps(a, b)",
    "ST_Point": "ST_Distance(a, ST_SetSRID(ST_Point(1, 2), 4326))",
    "ST_Touches": "ST_Touches(a, b)",
    "ST_Union": "ST_Area(ST_Union(a, b))",
    "ST_Within": "ST_Within(a, b)",
    "ST_X": "ST_X(a)",
    "ST_XMax": "ST_XMax(a)",
    "ST_XMin": "ST_XMin(a)",
    "ST_Y": "ST_Y(a)",
    "ST_YMax": "ST_YMax(a)",
    "ST_YMin": "ST_YMin(a)",
}


def test_each_function_is_sampled():
    assert set(SAMPLES) == set(FUNCTIONS)


def test_each_function_gives_what_that_of_sedonadb_gives(spark, tmp_path):
    texts = [
        "POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))", "POLYGON ((1 1, 3 1, 3 3, 1 3, 1 1))", "POINT (1 2)", None,
        "LINESTRING (0 0, 3 3)", "POLYGON ((2 0, 4 0, 4 2, 2 2, 2 0))", "MULTIPOINT (0 0, 1 2)", "POINT (1.1 2)",
    ]  # fmt: skip
    shapes = shapely.from_wkt(texts)
    left, right = np.repeat(shapes, len(shapes)), np.tile(shapes, len(shapes))
    table = pa.table(
        {
            "id": pa.array(range(len(left))),
            "a": pa.array(shapely.to_wkb(left).tolist(), pa.binary()),
            "b": pa.array(shapely.to_wkb(right).tolist(), pa.binary()),
        }
    )
    geo = gl.geometry()
    gl.write(table, str(tmp_path / "t"), columns={"a": geo, "b": geo}, spark=spark)
    pairs = gl.open(str(tmp_path / "t"))
    # SedonaDB has coordinates of points only; shapely has none of the others.
    points = {name: sample for name, sample in SAMPLES.items() if name in ("ST_X", "ST_Y")}
    others = {name: sample for name, sample in SAMPLES.items() if name not in points}
    for samples, where in ((points, "ST_GeometryType(a) = 'ST_Point'"), (others, "true")):
        columns = ", ".join(f"{sample} AS {name.lower()}" for name, sample in samples.items())
        query = f"SELECT id, {columns} FROM pairs WHERE {where} ORDER BY id"
        ours = gl.sql(query, engine="spark", spark=spark, pairs=pairs).to_arrow()
        theirs = gl.sql(query, pairs=pairs).to_arrow()
        for name in ("id", *map(str.lower, samples)):
            assert ours[name].to_pylist() == pytest.approx(theirs[name].to_pylist(), rel=1e-12), name


def test_geographies_follow_great_circles(spark):
    spark_functions = gl.spark_functions.register(spark)
    assert set(spark_functions) <= set(FUNCTIONS)
    edge = shapely.to_wkb(shapely.LineString([(0, 60), (90, 60)])).hex()
    point = shapely.to_wkb(shapely.Point(45, 67.7)).hex()
    [row] = spark.sql(
        f"SELECT ST_Distance(ST_GeogFromWKB(X'{edge}'), ST_GeogFromWKB(X'{point}')) AS meters,"
        f" ST_DWithin(ST_GeogFromWKB(X'{edge}'), ST_GeogFromWKB(X'{point}'), 20000) AS near,"
        f" ST_Intersects(ST_GeogFromWKB(X'{edge}'), ST_GeogFromWKB(X'{point}')) AS meets"
    ).collect()
    # The great circle between them reaches the latitude atan(tan(60) / cos(45)) = 67.79 degrees.
    top = np.degrees(np.arctan(np.tan(np.radians(60)) / np.cos(np.radians(45))))
    assert row.meters == pytest.approx(np.radians(top - 67.7) * 6_371_010, rel=1e-6)
    assert (row.near, row.meets) == (True, False)
