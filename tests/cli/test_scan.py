"""`geolake scan`, `head` and `count`: the rows of a query in a shell, and as files that others read."""

from __future__ import annotations

import json

import geopandas as gpd
import numpy as np
import pyarrow as pa
import pytest
import shapely

from geolake_nb.cli import main

COUNT = 60
BOX = (10.0, 5.0, 20.0, 15.0)


@pytest.fixture(scope="module")
def points():
    draw = np.random.default_rng(8)
    shapes = shapely.points(draw.uniform(0, 30, (COUNT, 2)))
    names = [f"n{number}" if number % 7 else None for number in range(COUNT)]
    return gpd.GeoDataFrame({"id": np.arange(COUNT), "name": names}, geometry=shapes, crs=4326)


@pytest.fixture(scope="module")
def folder(points, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "t"
    folder.mkdir()
    for number in range(3):
        points.iloc[20 * number : 20 * number + 20].to_parquet(folder / f"{number}.parquet")
    return str(folder)


@pytest.fixture
def run(capsys):
    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def inside(points):
    return points[points.intersects(shapely.box(*BOX))]


def box():
    return f"--box={','.join(map(str, BOX))}"


def test_count_gives_the_number_of_a_table_and_of_a_query(run, folder, points):
    assert run("count", folder) == (0, f"{COUNT} rows\n", "")
    code, out, _ = run("count", folder, box(), "--json")
    assert (code, json.loads(out)["count"]) == (0, len(inside(points)))
    assert run("count", folder, "--where", "name IS NULL")[1] == f"{int(points.name.isna().sum())} rows\n"


def test_head_shows_the_first_rows_as_text_and_json(run, folder):
    code, out, _ = run("head", folder, "--rows", "2", "--json")
    rows = json.loads(out)["rows"]
    assert (code, [row["id"] for row in rows], rows[0]["geometry"].startswith("POINT (")) == (0, [0, 1], True)
    assert "id=0" in run("head", folder, "--rows", "1")[1]


def test_scan_prints_rows_and_what_was_read(run, folder, points):
    code, out, _ = run("scan", folder, box(), "--columns", "id,name", "--json")
    answer = json.loads(out)
    wanted = [
        {"id": row.id, "name": row.name_} for row in inside(points).rename(columns={"name": "name_"}).itertuples()
    ]
    assert (code, answer["rows"]) == (0, json.loads(json.dumps(wanted)))
    assert answer["metrics"]["rows"] == len(wanted)
    assert "rows read" in run("scan", folder, "--limit", "3")[1]


@pytest.mark.parametrize("extension", ["parquet", "csv", "geojson", "arrow"])
def test_a_file_of_rows_is_read_by_others(run, folder, points, tmp_path, extension):
    target = tmp_path / f"rows.{extension}"
    code, out, error = run("scan", folder, box(), "-o", target)
    assert (code, error, out.startswith(str(target))) == (0, "", True)
    wanted = inside(points)
    if extension == "arrow":
        frame = gpd.GeoDataFrame.from_arrow(pa.ipc.open_stream(target).read_all())
    elif extension == "parquet":
        frame = gpd.read_parquet(target)
    elif extension == "geojson":
        frame = gpd.read_file(target)
    else:
        import pandas as pd

        rows = pd.read_csv(target)
        frame = gpd.GeoDataFrame(rows, geometry=gpd.GeoSeries.from_wkt(rows.geometry), crs=4326)
    assert frame.id.tolist() == wanted.id.tolist()
    assert shapely.equals_exact(frame.geometry.to_numpy(), wanted.geometry.to_numpy()).all()
    assert frame.crs.equals(wanted.crs, ignore_axis_order=True)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_mistakes_are_one_sentence_and_leave_no_file(run, folder, tmp_path):
    code, _, error = run("scan", folder, "--columns", "nme")
    assert (code, error) == (3, "geolake: no column 'nme'; use one of: geometry, id, name\n")
    code, _, error = run("scan", folder, "-o", tmp_path / "rows.xls")
    assert code == 3
    assert "rows cannot be written as '.xls'; use one of: arrow, csv, geojson, parquet" in error
    code, _, error = run("scan", folder, "--columns", "id", "-o", tmp_path / "rows.geojson")
    assert code == 3
    assert "GeoJSON needs a geometry column" in error
    assert list(tmp_path.iterdir()) == []
