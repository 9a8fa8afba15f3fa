"""`geolake sql` and `%%geolake sql`: SQL in a shell and in a notebook, over tables by location and by variable."""

from __future__ import annotations

import json

import geopandas as gpd
import pytest
import shapely
from IPython.core.interactiveshell import InteractiveShell

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import GeolakeError


@pytest.fixture
def roads(tmp_path):
    points = shapely.points([1, 2, 50], [1, 2, 50])
    frame = gpd.GeoDataFrame({"id": [1, 2, 3]}, geometry=points, crs=4326).rename_geometry("geom")
    frame.to_parquet(tmp_path / "roads.parquet", write_covering_bbox=True)
    return tmp_path / "roads.parquet"


def test_rows_and_what_was_read(roads, capsys):
    assert main(["sql", f"SELECT id FROM '{roads}' WHERE id > 1 ORDER BY id"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines[:3]] == ["id", "2", "3"]
    assert "3 rows read" in lines[-1]


def test_json_of_a_named_table(roads, capsys):
    window = "ST_SetSRID(ST_GeomFromText('POLYGON((0 0,3 0,3 3,0 3,0 0))'), 4326)"
    query = f"SELECT count(*) AS n FROM r WHERE ST_Intersects(geom, {window})"
    assert main(["sql", query, "--table", f"r={roads}", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"] == [{"n": 2}]
    assert answer["reads"]["r"]["files"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["SELECT * FROM 'nowhere'"], "nowhere: there is nothing at this path; check the path"),
        (["SELECT * FROM r"], "SedonaDB cannot run the query: "),
        (
            ["SELECT 1", "--table", "nowhere"],
            "expected NAME=LOCATION, got 'nowhere'; write --table roads=s3://lake/roads",
        ),
        (["SELEC 1"], "SedonaDB cannot run the query: "),
    ],
)
def test_mistakes_are_one_sentence(words, message, capsys):
    assert main(["sql", *words]) == 3
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_cell_queries_the_tables_of_the_notebook(roads):
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "geolake_nb")
    shell.user_ns["roads"] = gl.open(str(roads))
    answer = shell.run_cell_magic("geolake", "sql", "-- how many\nSELECT count(*) AS n FROM roads WHERE id > 1\n")
    assert answer.to_arrow().to_pylist() == [{"n": 2}]
    assert [read.table for read in answer.reads] == ["roads"]
    with pytest.raises(GeolakeError, match="SedonaDB cannot run the query: "):
        shell.run_cell_magic("geolake", "sql", "SELECT * FROM towns")
    shell.user_ns.pop("roads")
