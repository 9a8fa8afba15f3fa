"""`gl.rasters` on tables and single rasters; Spark has its own tests."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely
from pyproj import CRS, Transformer

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, RasterError
from geolake_nb.expressions.predicate import st_intersects
from geolake_nb.raster_data.footprint import wgs84_bounds
from geolake_nb.raster_data.geotiff import in_db_from_dataset, out_db_from_dataset
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_tables import ID, RASTER, make_havasu_table, raster_at, raster_entry
from tests.formats.iceberg_tables import HAVASU_FIELDS, column, make_iceberg_table
from tests.raster_data.test_footprint import points

rasterio = pytest.importorskip("rasterio")


@pytest.fixture(scope="module")
def index(corpus):
    with (corpus / "rasters" / "INDEX.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def scenes(corpus, index, tmp_path_factory):
    """A Havasu table with a file for each GeoTIFF of the corpus that has a place, out-db, and their outlines."""
    folder = tmp_path_factory.mktemp("scenes")
    entries, outlines = [], {}
    for number, row in enumerate(index):
        path = corpus / "rasters" / row["file"]
        with rasterio.open(path) as dataset:
            raster = out_db_from_dataset(dataset, url=path.as_uri())
            affine = tuple(dataset.transform)[:6]
        box = wgs84_bounds(raster).box
        if box is not None:
            entries.append(raster_entry(f"f{number}", [raster], (box.xmin, box.ymin, box.xmax, box.ymax)))
            outlines[f"f{number}.parquet"] = (raster, affine, *points(raster, affine, per_edge=100, inside=40))
    make_havasu_table(folder, entries, encoding=None, rasters=True)
    return gl.open(str(folder)), outlines


# The window of a query is in any CRS, the bounds of rasters in WGS84

WINDOWS = {
    "UTM 11 north, by GDAL's byte.tif": ("EPSG:32611", (440000, 3750000, 442000, 3752000)),
    "Web Mercator, California": ("EPSG:3857", (-13100000, 3980000, -13050000, 4030000)),
    "UTM 60 north, over the antimeridian": ("EPSG:32660", (560000, 5600000, 810000, 5850000)),
    "polar stereographic, over the pole": ("EPSG:3413", (-200000, -200000, 200000, 200000)),
    "UTM 60 south, west and east of 180": ("EPSG:32760", (700000, 8000000, 900000, 8150000)),
    "Lambert azimuthal, Ukraine": ("EPSG:3035", (6300000, 3300000, 6310000, 3320000)),
    "degrees": ("OGC:CRS84", (-59.0, -35.0, -58.0, -34.0)),
    "nowhere near": ("EPSG:3857", (16000000, -5000000, 16000100, -4999900)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_in_any_crs_keeps_each_file_with_a_point_in_it(scenes, name):
    table, outlines = scenes
    crs, (west, south, east, north) = WINDOWS[name]
    explanation = table.explain(st_intersects("rast", shapely.box(west, south, east, north), crs=crs))
    kept = {Path(path).name for path in explanation.kept["path"].to_pylist()}
    corners = np.meshgrid(np.linspace(west, east, 21), np.linspace(south, north, 21))
    inside = {path for path, scene in outlines.items() if has_common_point(crs, WINDOWS[name][1], corners, scene)}
    assert inside <= kept
    # The box of a raster is larger than the raster: one file may be read for nothing.
    assert len(kept) <= len(inside) + 1 < len(outlines)


def has_common_point(crs, window, corners, scene):
    """By pyproj and rasterio: whether a point of the raster is in the window, or one of the window in the raster."""
    west, south, east, north = window
    raster, affine, lon, lat = scene
    x, y = Transformer.from_crs("OGC:CRS84", CRS(crs), always_xy=True).transform(lon, lat, errcheck=False)
    if ((west <= x) & (x <= east) & (south <= y) & (y <= north)).any():
        return True
    there = Transformer.from_crs(CRS(crs), CRS.from_wkt(raster.crs_wkt), always_xy=True)
    x, y = there.transform(*(side.ravel() for side in corners), errcheck=False)
    known = np.isfinite(x) & np.isfinite(y)
    columns, rows = ~rasterio.Affine(*affine) @ (x[known], y[known])
    return bool(((columns >= 0) & (columns <= raster.width) & (rows >= 0) & (rows <= raster.height)).any())


# What is read


def file_of(table):
    (path,) = table.files.table["path"].to_pylist()
    return path


class CountingFile(io.BytesIO):
    """The bytes of a file, which notes how many of them were read."""

    def __init__(self, path, seen):
        super().__init__(Path(path).read_bytes())
        self._seen = seen

    def read(self, size=-1):
        data = super().read(size)
        self._seen.append(len(data))
        return data


def heavy_table(folder, **more):
    """Two rasters with a megabyte of noise each."""
    draw = np.random.default_rng(1)
    heavy = [
        replace(raster_at(x, 20, pixel=0.01), width=1024, height=1024, bands=(Band(PixelType.PT_8BUI, data=noise),))
        for x, noise in ((1, draw.bytes(1 << 20)), (2, draw.bytes(1 << 20)))
    ]
    entry = raster_entry("a", heavy, (1.0, 9.76, 12.24, 20.0))
    make_havasu_table(folder, [entry], encoding=None, rasters=True, **more)


def assert_no_band(seen):
    """The end of a file may be read as 64 KiB, whatever lies there; nothing else is large."""
    footers = seen.count(1 << 16)
    assert seen
    assert footers <= 5
    assert sum(seen) < footers * (1 << 16) + 20_000


def look(table):
    """Footprints, metadata, bands and a query."""
    assert table.rasters()["width"].to_pylist() == [1024, 1024]
    assert table.raster_bands(file_of(table))["pixel_type"].to_pylist() == [4, 4]
    assert table.explain(gl.Box(0, 0, 1, 1), column="rast").files.num_rows == 1
    assert not list(gl.rasters.check(table)["state"])


def test_metadata_and_footprints_read_no_band(tmp_path, monkeypatch):
    heavy_table(tmp_path)
    size = (tmp_path / "data" / "a.parquet").stat().st_size
    seen = []
    table = gl.open(str(tmp_path))
    monkeypatch.setattr(
        Storage, "open", lambda self, path: pa.PythonFile(CountingFile(f"{self.location}/{path}", seen), mode="r")
    )
    look(table)
    assert size > 2 << 20
    assert_no_band(seen)
    seen.clear()
    raster = gl.rasters.read(table, file_of(table), 1)  # the count counts
    assert len(raster.bands[0].data) == 1 << 20 < sum(seen)


def test_metadata_in_a_bucket_reads_no_band(tmp_path, monkeypatch, s3):
    url = "s3://lake/heavy"
    heavy_table(tmp_path, location=url)
    s3.upload(tmp_path, "lake", "heavy")
    table = gl.open(url, storage_options=s3.options)
    seen = []
    parts, whole = Storage.read_range, Storage.read

    def counted(read):
        def count(self, *window):
            data = read(self, *window)
            seen.append(len(data))
            return data

        return count

    monkeypatch.setattr(Storage, "read_range", counted(parts))
    monkeypatch.setattr(Storage, "read", counted(whole))
    look(table)
    assert_no_band(seen)


# One raster of a table, and its picture


@pytest.fixture
def mixed(tmp_path, corpus):
    """Rasters in-db and out-db in several row groups, with nulls between."""
    path = corpus / "rasters/rasterio/rgb-byte-tenth.tif"
    with rasterio.open(path) as dataset:
        inside, outside = in_db_from_dataset(dataset), out_db_from_dataset(dataset, url=path.as_uri())
    rasters = [None, inside, None, outside, raster_at(1, 2)]
    make_havasu_table(tmp_path, [raster_entry("a", rasters, None)], encoding=None, rasters=True)
    return gl.open(str(tmp_path)), [raster for raster in rasters if raster is not None], path


def test_a_raster_is_read_by_its_place_in_the_file(mixed):
    table, rasters, _ = mixed
    assert [gl.rasters.read(table, file_of(table), number) for number in range(3)] == rasters
    for number in (3, -1):
        with pytest.raises(GeolakeError, match=f"there is no raster {number}; the file has 3, numbered from 0"):
            gl.rasters.read(table, file_of(table), number)
    with pytest.raises(GeolakeError, match=r"no file 'b'; see the paths in t.files"):
        gl.rasters.read(table, "b")
    with pytest.raises(GeolakeError, match="no raster column 'id'; give column=, one of: rast"):
        gl.rasters.read(table, file_of(table), column="id")


def test_rasters_go_by_the_id_of_their_column_whatever_its_name_was(tmp_path):
    # Iceberg, Column Projection: files keep the names that columns had, and lack those that came later.
    rasters = [raster_at(10, 50), None, raster_at(20, 40)]
    empty = {"type": "struct", "fields": []}
    marked = {"havasu.raster-encoding": "v1"}
    columns = [column(ID, "id", "long"), column(RASTER, "image", empty, **marked), column(99, "rast", empty, **marked)]
    make_iceberg_table(tmp_path, columns, [raster_entry("a", rasters, None)], extra_file_fields=HAVASU_FIELDS)
    table = gl.open(str(tmp_path))
    assert table.rasters()["column"].to_pylist() == ["image"] * 2
    assert gl.rasters.read(table, file_of(table), 1, column="image") == rasters[2]
    assert table.raster_bands(file_of(table), column="image")["raster"].to_pylist() == [0, 1]
    assert gl.rasters.check(table, roots=[tmp_path]).num_rows == 0
    assert table.raster_bands(file_of(table), column="rast").num_rows == 0
    with pytest.raises(GeolakeError, match="there is no raster 0; the file has 0"):
        gl.rasters.read(table, file_of(table), column="rast")


def test_a_column_without_rasters_is_reported(tmp_path):
    entry = raster_entry("a", [raster_at(1, 2)], None)
    schema = pa.schema([pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(id_)}) for name, id_ in
                        (("id", ID), ("rast", RASTER))])  # fmt: skip
    wrong = replace(entry, table=pa.table([[1], [2]], schema=schema))
    make_havasu_table(tmp_path, [wrong], encoding=None, rasters=True)
    with pytest.raises(RasterError, match="the column 'rast' does not hold rasters of version 1"):
        gl.open(str(tmp_path)).rasters()


def pixels(png):
    """The picture as GDAL's own reader sees it."""
    with rasterio.MemoryFile(png) as memory, memory.open(driver="PNG") as dataset:
        return dataset.read()


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_the_browser_shows_pictures_and_opens_files_below_the_roots_alone(mixed):
    table, _, path = mixed
    closed, opened = table.browse_rasters(), table.browse_rasters(roots=path.parent)
    for browser in (closed, opened):
        browser.choose(0)
        assert pixels(browser.picture.value).shape == (4, 71, 79)
        browser.choose(1)
    assert closed.picture.value == b""
    assert pixels(opened.picture.value).shape == (4, 71, 79)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("out_db", [False, True])
def test_a_picture_has_the_cells_as_colours_and_no_data_is_transparent(corpus, out_db):
    path = corpus / "rasters/rasterio/rgb-byte-tenth.tif"
    with rasterio.open(path) as dataset:
        cells, no_data = dataset.read(), dataset.nodata
        raster = out_db_from_dataset(dataset, url=path.as_uri()) if out_db else in_db_from_dataset(dataset)
    picture = pixels(gl.rasters.thumbnail(raster, roots=corpus))
    assert np.array_equal(picture[:3], cells)
    assert np.array_equal(picture[3] == 0, (cells == no_data).all(axis=0))
    small = pixels(gl.rasters.thumbnail(raster, roots=corpus, size=20))
    assert small.shape == (4, 18, 20)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_every_geotiff_has_a_picture(corpus, index):
    for row in index:
        path = corpus / "rasters" / row["file"]
        with rasterio.open(path) as dataset:
            both = [in_db_from_dataset(dataset), out_db_from_dataset(dataset, url=path.as_uri())]
        for raster in both:
            shape = pixels(gl.rasters.thumbnail(raster, size=64, roots=corpus)).shape
            assert shape[0] == 4
            assert max(shape[1:]) == min(64, max(raster.width, raster.height)), path


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_north_is_up_in_pictures_of_rasters_whose_rows_run_north():
    cells = bytes([1, 2, 3, 4, 5, 6])
    for scale_y, first in ((-1.0, 1), (1.0, 5)):
        here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, scale_y, 0.0))
        raster = Raster(2, 3, (Band(PixelType.PT_8BUI, data=cells),), None, here)
        assert pixels(gl.rasters.thumbnail(raster))[0, 0, 0] == first


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize(
    "values", [[np.nan, 1, np.inf, -np.inf], [np.nan] * 4, [7, 7, 7, 7], [-1.7e308, 1.7e308, 0, 1]]
)
def test_odd_numbers_make_a_picture_too(values):
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    raster = Raster(2, 2, (Band(PixelType.PT_64BF, data=np.array(values, "<f8").tobytes()),), None, here)
    picture = pixels(gl.rasters.thumbnail(raster))
    assert np.array_equal((picture[3] == 0).ravel(), np.isnan(values))


def test_what_has_no_picture_says_why():
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    empty = Raster(0, 0, (Band(PixelType.PT_8BUI, data=b""),), None, here)
    for raster, why in (
        (Raster(2, 2, (), None, here), "no bands"),
        (empty, "no pixels"),
        ("a", "expected a raster, got a str"),
    ):
        with pytest.raises(RasterError, match=why):
            gl.rasters.thumbnail(raster)


# Statistics


@pytest.mark.parametrize("pixel_type", PixelType)
def test_statistics_leave_out_no_data_and_nan(pixel_type):
    dtype = pixel_type.dtype
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    values = [limits.max, 0, 3, 5, 3, 3 if dtype.kind != "f" else np.nan]
    cells = np.array(values, dtype)
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    band = Band(pixel_type, np.array([3], dtype).tobytes(), cells.tobytes())
    (stats,) = gl.rasters.statistics(Raster(3, 2, (band,), None, here))
    known = [float(limits.max), 0.0, 5.0]
    assert (stats.min, stats.max, stats.count, stats.no_data) == (0.0, max(known), 3, 3)
    assert stats.mean == pytest.approx(sum(known) / 3, rel=1e-12)


def test_statistics_of_a_band_without_data_are_none():
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    band = Band(PixelType.PT_8BUI, b"\x07", bytes([7, 7]))
    (stats,) = gl.rasters.statistics(Raster(2, 1, (band,), None, here))
    assert (stats.min, stats.max, stats.mean, stats.count, stats.no_data) == (None, None, None, 0, 2)
