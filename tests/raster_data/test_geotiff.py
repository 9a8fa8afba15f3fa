from __future__ import annotations

import csv
import math
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geolake_nb.errors import MissingDependencyError, RasterError
from geolake_nb.raster_data.arrow import rasters_from_arrow, rasters_to_arrow
from geolake_nb.raster_data.geotiff import in_db_from_dataset, open_raster, out_db_from_dataset, raster_profile
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster

rasterio = pytest.importorskip("rasterio")

HERE = GeoReference.from_affine((10.0, 0.0, 500000.0, 0.0, -10.0, 4500000.0))


@pytest.fixture(scope="session")
def files(corpus):
    with (corpus / "rasters" / "INDEX.csv").open() as file:
        return [corpus / "rasters" / row["file"] for row in csv.DictReader(file)]


def through_parquet(raster):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"rast": rasters_to_arrow([raster])}), sink)
    return rasters_from_arrow(pq.read_table(pa.BufferReader(sink.getvalue())).column("rast"))[0]


def test_every_geotiff_survives_arrow_and_parquet_pixel_for_pixel(files):
    for path in files:
        with rasterio.open(path) as source:
            raster = in_db_from_dataset(source)
            again = through_parquet(raster)
            assert again == raster
            with open_raster(again) as copy:
                assert np.array_equal(copy.read(), source.read(), equal_nan=source.dtypes[0] == "float32"), path
                assert copy.dtypes == source.dtypes
                assert copy.crs == source.crs, path
                assert copy.shape == source.shape
                assert same(copy.nodatavals, source.nodatavals), path
                assert np.allclose(tuple(copy.transform), tuple(source.transform), rtol=1e-14, atol=1e-13)


def test_out_db_rasters_of_every_geotiff_find_their_bands_again(files):
    for path in files:
        with rasterio.open(path) as source:
            raster = through_parquet(out_db_from_dataset(source, url=path.as_uri()))
            assert raster.metadata == in_db_from_dataset(source).metadata
            for index, band in enumerate(raster.bands):
                assert not band.in_db
                assert (band.out_db_band_no, band.out_db_url) == (index, path.as_uri())
                assert np.dtype(source.dtypes[index]) == band.pixel_type.dtype


def test_the_anchor_is_the_centre_of_the_first_pixel_as_rasterio_sees_it(files):
    for path in files:
        with rasterio.open(path) as source:
            geo = in_db_from_dataset(source).geo_reference
            assert source.xy(0, 0) == pytest.approx((geo.upperleft_x, geo.upperleft_y), rel=1e-14)


def test_a_window_takes_its_pixels_and_its_georeference():
    cells = np.arange(48, dtype=np.int16).reshape(6, 8)
    raster = Raster(8, 6, (Band(PixelType.PT_16BSI, data=cells.astype("<i2").tobytes()),), None, HERE)
    with open_raster(raster) as dataset:
        part = in_db_from_dataset(dataset, window=rasterio.windows.Window(2, 1, 3, 4))
        assert part.array(0).tolist() == cells[1:5, 2:5].tolist()
        assert (part.width, part.height) == (3, 4)
        assert dataset.xy(1, 2) == (part.geo_reference.upperleft_x, part.geo_reference.upperleft_y)


@pytest.mark.parametrize("sides", [(-1, 0, 2, 2), (7, 0, 2, 2), (0, 5, 2, 2), (0.5, 0, 2, 2), (0, 0, 0, 2)])
def test_a_window_beyond_the_dataset_or_between_pixels_is_an_error(sides):
    raster = Raster(8, 6, (Band(PixelType.PT_8BUI, data=bytes(48)),), None, HERE)
    window = rasterio.windows.Window(*sides)
    with open_raster(raster) as dataset, pytest.raises(RasterError, match="not of whole pixels inside 8 x 6"):
        in_db_from_dataset(dataset, window=window)


@pytest.mark.parametrize("pixel_type", PixelType)
def test_every_pixel_type_keeps_its_extremes_and_its_no_data(pixel_type):
    dtype = pixel_type.dtype
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    cells = np.array([limits.min, limits.max, 0, 1], dtype)
    no_data = cells[:1].tobytes()
    raster = Raster(2, 2, (Band(pixel_type, no_data, cells.tobytes()),) * 6, None, HERE)
    with open_raster(through_parquet(raster)) as dataset:
        assert dataset.count == 6
        assert dataset.nodata == limits.min
        assert in_db_from_dataset(dataset) == raster


@pytest.mark.parametrize(
    ("no_data", "dtype", "expected"),
    [
        (None, "uint8", None),
        (255, "uint8", 255),
        (-9999, "int16", -9999),
        (math.nan, "float32", math.nan),
        (-3.4028234663852886e38, "float32", float(np.finfo("f4").min)),
        (1e20, "float64", 1e20),
    ],
)
def test_no_data_becomes_a_value_of_the_pixel_type(no_data, dtype, expected):
    with rasterio.MemoryFile() as memory:
        shape = {
            "width": 1,
            "height": 1,
            "count": 1,
            "dtype": dtype,
            "transform": rasterio.Affine(2, 0, 0, 0, -2, 0),
        }
        with memory.open(driver="GTiff", nodata=no_data, **shape) as dataset:
            dataset.write(np.zeros((1, 1, 1), dtype))
        with memory.open() as dataset:
            result = in_db_from_dataset(dataset).bands[0].no_data_value
    assert same([result], [expected])


class Stub:
    """A dataset whose no-data value its cells cannot hold, as drivers other than rasterio's may give."""

    width = height = count = 1
    transform = rasterio.Affine(2, 0, 0, 0, -2, 0)
    crs = None

    def __init__(self, dtype, no_data):
        self.dtypes, self.nodatavals = (dtype,), (no_data,)


@pytest.mark.parametrize("no_data", [-1.0, 256.0, 0.5, math.nan, math.inf])
def test_no_data_that_no_cell_can_equal_is_none(no_data):
    assert out_db_from_dataset(Stub("uint8", no_data), url="a.tif").bands[0].no_data is None


@pytest.mark.parametrize("dtype", ["complex64", "complex_int16", "int64"])
def test_bands_without_a_pixel_type_are_errors_that_name_the_band(dtype):
    with pytest.raises(RasterError, match=f"band 1 of the dataset: no pixel type holds {dtype}; use one of: float32"):
        out_db_from_dataset(Stub(dtype, None), url="a.tif")


def test_what_a_dataset_cannot_hold_is_an_error():
    byte, word = Band(PixelType.PT_8BUI, data=b"a"), Band(PixelType.PT_16BUI, data=b"ab")
    outside = Band(PixelType.PT_8BUI, out_db_band_no=0, out_db_url="a.tif")
    marked = Band(PixelType.PT_8BUI, b"a", b"a")
    for bands, message in (
        ((), "the raster has no pixels"),
        ((byte, word), "the bands have the pixel types PT_16BUI, PT_8BUI"),
        ((byte, marked), "the bands have different no-data values"),
        ((byte, outside), "band 1: its pixels are in an external file"),
    ):
        with pytest.raises(RasterError, match=message):
            raster_profile(Raster(1, 1, bands, None, HERE))
    with pytest.raises(RasterError, match="crs_wkt cannot be read"):
        raster_profile(Raster(1, 1, (byte,), "no WKT", HERE))


def test_without_rasterio_the_message_has_the_command(monkeypatch):
    for name in [name for name in sys.modules if name == "rasterio" or name.startswith("rasterio.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rasterio", None)
    raster = Raster(1, 1, (Band(PixelType.PT_8BUI, data=b"a"),), None, HERE)
    with pytest.raises(MissingDependencyError, match=r"run: pip install 'geolake-nb\[raster\]'"):
        raster_profile(raster)


def test_a_raster_without_georeference_warns_as_rasterio_does():
    nowhere = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    raster = Raster(1, 1, (Band(PixelType.PT_8BUI, data=b"a"),), None, nowhere)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with open_raster(raster) as dataset:
            assert in_db_from_dataset(dataset) == raster


def same(left, other):
    """Equal with None for None and NaN for NaN."""
    return [str(value) for value in left] == [str(value) for value in other]
