"""The scenes, against GDAL's rasterising, PROJ and GEOS on the data that they are painted of."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import shapely
from pyproj import Transformer

from geolake_nb import demo

geopandas = pytest.importorskip("geopandas", reason="geopandas is not installed")
rasterio = pytest.importorskip("rasterio", reason="rasterio is not installed")
features = pytest.importorskip("rasterio.features")

# CRS, bands and type of a cell.
SCENES = {
    "aleutians": (32601, 3, "uint8"),
    "antarctica": (3031, 1, "int16"),
    "arctic": (3413, 3, "uint8"),
    "australia": (3577, 1, "float32"),
    "bengal": (3857, 2, "float32"),
    "caribbean": (4326, 3, "uint8"),
    "europe": (3035, 1, "uint16"),
    "fiji": (32760, 3, "uint8"),
    "gulf": (32616, 1, "float32"),
    "japan": (32654, 3, "uint8"),
    "madagascar": (32738, 3, "uint8"),
    "pacific": (3832, 4, "int16"),
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return [Path(path) for path in demo.scenes(tmp_path_factory.mktemp("scenes"))]


@pytest.fixture(scope="module")
def scene(paths):
    """Opens a scene: its cells as a masked array, and the dataset."""
    stored = {path.stem: path for path in paths}

    def opened(name):
        with rasterio.open(stored[name]) as dataset:
            return dataset.read(masked=True), dataset

    return opened


def shapes(table, column, epsg):
    wkb = geopandas.GeoSeries.from_wkb(table[column].to_pylist(), crs="OGC:CRS84")
    return wkb.to_crs(epsg)


def middles(dataset):
    """x and y of the middles of all cells."""
    columns, rows = np.meshgrid(np.arange(dataset.width) + 0.5, np.arange(dataset.height) + 0.5)
    a, b, c, d, e, f = tuple(dataset.transform)[:6]
    return a * columns + b * rows + c, d * columns + e * rows + f


def cell_at(dataset, longitude, latitude):
    """The row and the column of the cell in which a place lies; they may be outside."""
    x, y = Transformer.from_crs("OGC:CRS84", dataset.crs, always_xy=True).transform(longitude, latitude)
    a, b, c, d, e, f = tuple(dataset.transform)[:6]
    column, row = np.linalg.solve([[a, b], [d, e]], [x - c, y - f])
    return int(np.floor(row)), int(np.floor(column))


def is_inside(dataset, longitude, latitude):
    row, column = cell_at(dataset, longitude, latitude)
    return 0 <= row < dataset.height and 0 <= column < dataset.width


def test_they_are_small_tiled_and_of_many_crss(paths):
    assert [path.stem for path in paths] == sorted(SCENES)
    assert sum(path.stat().st_size for path in paths) < 2_000_000
    for path in paths:
        with rasterio.open(path) as dataset:
            output = dataset.crs.to_epsg(), dataset.count, dataset.dtypes[0]
            assert output == SCENES[path.stem]
            assert dataset.profile["tiled"]
            assert all(dataset.descriptions)


def test_they_are_the_same_bytes_every_time(paths, tmp_path):
    again = [Path(path) for path in demo.scenes(tmp_path)]
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_they_reach_over_the_dateline_and_the_poles(scene):
    for name, latitude in (("aleutians", 57), ("fiji", -17), ("pacific", 0)):
        _, dataset = scene(name)
        assert all(is_inside(dataset, longitude, latitude) for longitude in (179, 180, -179)), name
    for name, pole in (("arctic", 90), ("antarctica", -90)):
        _, dataset = scene(name)
        assert is_inside(dataset, 0, pole), name
    _, dataset = scene("madagascar")
    assert dataset.transform.b != 0, "its rows are turned"


def test_countries_lie_where_gdal_puts_them(scene):
    cells, dataset = scene("europe")
    outlines = shapes(demo.countries(), "shape", 3035)
    # What runs round the Earth, as Russia does, the projection tears.
    whole = outlines[outlines.is_valid & outlines.intersects(shapely.box(*dataset.bounds))]
    painted = features.rasterize(
        [(shape, number + 1) for number, shape in whole.items()], out_shape=dataset.shape, transform=dataset.transform
    )
    country = cells.filled(0)[0]
    torn = np.isin(country, whole.index + 1, invert=True) & (country > 0)
    # Edges are straight in degrees here and in metres there: the cells at borders may differ.
    assert np.mean((country == painted)[~torn]) > 0.98
    assert len(whole) > 40
    assert torn.mean() < 0.2


def test_the_middle_of_antarctica_is_as_far_from_the_sea_as_geos_says(scene):
    cells, dataset = scene("antarctica")
    (land,) = [row for row in demo.countries().to_pylist() if row["name"] == "Antarctica"]
    # The outline runs along 180 degrees to the pole and back, which is not a coast.
    seam = (
        shapely.box(-180, -90, -179.9, 90)
        .union(shapely.box(179.9, -90, 180, 90))
        .union(shapely.box(-180, -90, 180, -89.9))
    )
    coast = geopandas.GeoSeries([shapely.from_wkb(land["shape"]).boundary.difference(seam)], crs="OGC:CRS84")
    inland = ~cells.mask[0]
    places = shapely.points(*(part[inland] for part in middles(dataset)))
    distance = shapely.distance(places, coast.to_crs(3031)[0]) / 1000
    assert np.abs(distance - cells.data[0][inland]).max() < 1.5 * 20
    assert inland[cell_at(dataset, 0, -90)]


def test_storms_are_felt_near_their_tracks_and_nowhere_else(scene):
    cells, dataset = scene("gulf")
    tracks = shapes(demo.storms(), "track", 32616)
    # On the other side of the Earth the projection has no place for them.
    here = tracks[np.isfinite(tracks.bounds).all(axis=1)]
    here = here.intersection(shapely.box(*dataset.bounds))
    places = shapely.points(*(part.ravel() for part in middles(dataset)))
    distance = shapely.distance(places, here.union_all()).reshape(dataset.shape) / dataset.res[0]
    felt = ~cells.mask[0]
    assert felt[distance < 4].all()
    assert not felt[distance > 14].any()


def test_storms_pass_the_dateline_without_a_gap(scene):
    cells, dataset = scene("pacific")
    storms = cells.filled(0).sum(axis=0)
    crossings = 0
    for track in shapely.from_wkb(demo.storms()["track"].to_numpy(zero_copy_only=False)):
        points = shapely.get_coordinates(track)
        for (x, y), (next_x, next_y) in pairwise(points):
            if abs(next_x - x) < 180:
                continue
            whole = (next_x - x + 180) % 360 - 180
            latitude = y + (next_y - y) * (np.copysign(180, x) - x) / whole
            if is_inside(dataset, 180, latitude):
                row, column = cell_at(dataset, 180, latitude)
                assert storms[row - 1 : row + 2, column - 1 : column + 2].any(), latitude
                crossings += 1
    assert crossings > 40
