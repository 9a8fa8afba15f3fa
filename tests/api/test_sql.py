"""SQL over tables: the rows are those of SedonaDB on the plain files, and conditions skip row groups."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pytest
import sedonadb
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError

WINDOW = "ST_SetSRID(ST_GeomFromText('POLYGON((1 0,5 0,5 5,1 5,1 0))'), 4326)"
POINT = "ST_SetSRID(ST_Point(3, 3), 4326)"
FILES, GROUPS = 6, 60

CONDITIONS = [
    (f"ST_Intersects(geometry, {WINDOW})", True),
    (f"NOT ST_Intersects(geometry, {WINDOW})", False),
    (f"ST_Disjoint(geometry, {WINDOW})", False),
    (f"ST_Contains({WINDOW}, geometry)", True),
    (f"ST_Within(geometry, {WINDOW})", True),
    (f"ST_Covers(geometry, {POINT})", True),
    (f"ST_Overlaps(geometry, {WINDOW})", True),
    (f"ST_DWithin(geometry, {POINT}, 4)", True),
    (f"ST_Distance(geometry, {POINT}) < 4", True),
    (f"ST_Intersects(geometry, {WINDOW}) OR id = 700", False),
    (f"ST_Intersects(geometry, {WINDOW}) AND v > 0.5", True),
    (f"ST_Intersects(ST_Buffer(geometry, 3), {WINDOW})", False),
    ("ST_XMin(geometry) > 15", False),
    ("ID = 3", True),
    ("t.id BETWEEN 3 AND 5 AND v < 9", True),
    ("id IN (3, 1100)", True),
    ("v < 0 AND NOT (v > -1)", False),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    draw = np.random.default_rng(3)
    for number in range(FILES):
        x, y = np.sort(draw.uniform(-20, 20, 200)), draw.uniform(-20, 20, 200)
        shapes = shapely.box(x, y, x + np.abs(draw.normal(size=200)), y + np.abs(draw.normal(size=200)))
        columns = {"id": np.arange(200) + 200 * number, "v": draw.normal(size=200)}
        frame = gpd.GeoDataFrame(columns, geometry=shapes, crs=4326)
        frame.to_parquet(folder / f"{number}.parquet", row_group_size=20, write_covering_bbox=True)
    return folder


@pytest.fixture(scope="module")
def plain(folder):
    session = sedonadb.connect()
    session.read_parquet([str(path) for path in sorted(folder.glob("*.parquet"))]).to_view("t")
    return session


def ids(rows):
    return sorted(rows["id"].to_pylist())


@pytest.mark.parametrize(("condition", "skips"), CONDITIONS)
def test_the_rows_are_those_of_the_plain_files(folder, plain, condition, skips):
    query = f"SELECT id FROM t WHERE {condition}"
    result = gl.sql(query, t=gl.open(str(folder)))
    assert ids(result.to_arrow()) == ids(plain.sql(query).to_arrow_table())
    (read,) = result.reads
    groups = read.metrics.row_groups
    assert groups < GROUPS if skips else groups == GROUPS


def test_joins_and_aggregates_read_each_table_once(folder, plain):
    query = "SELECT count(*) AS n FROM t a JOIN t b ON ST_Intersects(a.geometry, b.geometry) WHERE a.id > b.id"
    result = gl.sql(query, t=gl.open(str(folder)))
    assert result.to_arrow() == plain.sql(query).to_arrow_table()
    assert [read.metrics.row_groups for read in result.reads] == [GROUPS, GROUPS]


def test_a_location_in_quotes_is_a_table(folder):
    result = gl.sql(f"SELECT count(*) AS n FROM '{folder}' WHERE id < 10 AND 'x' = 'x'")
    assert result.to_arrow()["n"].to_pylist() == [10]
    assert "from 1 of 6 files" in str(result)


def test_the_rows_keep_their_crs(folder):
    frame = gl.sql("SELECT * FROM t LIMIT 3", t=gl.open(str(folder))).to_geopandas()
    assert len(frame) == 3
    assert frame.crs == "EPSG:4326"


def test_a_query_that_cannot_run_is_one_sentence(folder):
    table = gl.open(str(folder))
    with pytest.raises(GeolakeError, match=r"SedonaDB cannot run the query: .*No field named nme"):
        gl.sql("SELECT nme FROM t", t=table)
    with pytest.raises(GeolakeError, match=r"SedonaDB cannot run the query"):
        gl.sql("SELEC 1")


def test_a_fault_of_a_table_is_named(folder, tmp_path):
    for path in folder.glob("*.parquet"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table = gl.open(str(tmp_path))
    (tmp_path / "3.parquet").unlink()
    with pytest.raises(GeolakeError, match=r"3\.parquet"):
        gl.sql("SELECT sum(v) AS v FROM t", t=table).to_arrow()
