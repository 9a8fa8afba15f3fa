"""The data sets that ship, against the files they come from and what GEOS says of their shapes."""

from __future__ import annotations

import csv
import gzip
import importlib
import inspect
import json
import pkgutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely

from geolake_nb import demo

SHAPES = {"airports": "location", "countries": "shape", "earthquakes": "location", "storms": "track"}


@pytest.fixture(scope="module")
def origin(corpus) -> Path:
    return corpus / "geodata" / "from_registry"


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_shape_is_valid_iso_wkb_of_longitude_and_latitude(name):
    table = getattr(demo, name)()
    column = table[SHAPES[name]]
    assert column.type == pa.binary()
    assert column.null_count == 0
    shapes = shapely.from_wkb(column.to_numpy(zero_copy_only=False))
    # Two storms were seen at one place only, and a line of one point is not valid.
    assert (~shapely.is_valid(shapes)).sum() == (2 if name == "storms" else 0)
    assert not shapely.is_empty(shapes).any()
    xmin, ymin, xmax, ymax = shapely.total_bounds(shapes)
    assert -180 <= xmin < xmax <= 180
    assert -90 <= ymin < ymax <= 90
    assert shapely.to_wkb(shapes, flavor="iso", byte_order=1).tolist() == column.to_pylist()


def test_airports_are_those_of_the_source(origin):
    with gzip.open(origin / "airports.csv.gz", "rt", encoding="utf-8") as file:
        wanted = {row["icao"]: row for row in csv.DictReader(file)}
    table = demo.airports()
    assert table.schema.names == ["code", "name", "city", "country", "elevation", "location"]
    codes = table["code"].to_pylist()
    assert len(codes) == len(wanted) == len(set(codes))
    points = shapely.get_coordinates(shapely.from_wkb(table["location"].to_numpy(zero_copy_only=False)))
    for code, name, city, country, elevation, point in zip(
        codes, *(table[value].to_pylist() for value in ("name", "city", "country", "elevation")), points, strict=True
    ):
        row = wanted[code]
        assert (name, city or "", country) == (row["name"].strip(), row["city"].strip(), row["country"])
        assert abs(elevation - float(row["elevation"])) <= 0.5
        assert tuple(point) == (float(row["lon"]), float(row["lat"]))


def test_countries_are_those_of_the_source(origin):
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.read_file(origin / "geopandas-0.14.4" / "naturalearth_lowres" / "naturalearth_lowres.shp")
    table = demo.countries()
    assert table.schema.names == ["name", "continent", "population", "shape"]
    stored = {row["name"]: row for row in table.to_pylist()}
    assert len(stored) == table.num_rows == len(frame)
    for row in frame.itertuples():
        result = stored[row.name]
        assert (result["continent"], result["population"]) == (row.continent, int(row.pop_est))
        assert shapely.from_wkb(result["shape"]).equals_exact(row.geometry, 1e-9)


def test_earthquakes_are_those_of_the_source(origin):
    features = json.loads((origin / "earthquakes_usgs_2018w5.geojson").read_text())["features"]
    wanted = [feature for feature in features if feature["properties"]["type"] == "earthquake"]
    wanted.sort(key=lambda feature: feature["properties"]["time"])
    table = demo.earthquakes()
    assert table.schema.names == ["place", "magnitude", "time", "depth", "location"]
    assert table["time"].cast(pa.int64()).to_pylist() == [value["properties"]["time"] for value in wanted]
    assert table["magnitude"].to_pylist() == [value["properties"]["mag"] for value in wanted]
    assert table["place"].to_pylist() == [value["properties"]["place"] for value in wanted]
    places = np.array([feature["geometry"]["coordinates"] for feature in wanted], float)
    assert (table["depth"].to_numpy() == places[:, 2]).all()
    points = shapely.from_wkb(table["location"].to_numpy(zero_copy_only=False))
    assert (shapely.get_coordinates(points) == places[:, :2]).all()


def test_what_ships_is_small_and_its_licence_is_named():
    folder = Path(demo.__file__).parent
    files = sorted(folder.glob("*.parquet"))
    assert sum(path.stat().st_size for path in files) < 4_000_000
    text = (folder / "README.md").read_text()
    assert [path.name for path in files if f"| {path.name} |" not in text] == []


def test_functions_are_not_hidden_by_modules_of_their_name():
    for module in pkgutil.iter_modules(demo.__path__, f"{demo.__name__}."):
        importlib.import_module(module.name)
    assert all(inspect.isfunction(getattr(demo, name)) for name in demo.__all__)
