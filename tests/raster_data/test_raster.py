from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import RasterError
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster, RasterMetadata

HERE = GeoReference.from_affine((10.0, 0.0, 100.0, 0.0, -10.0, 200.0))

# Havasu, Parquet data type mappings, Raster: code, bytes per pixel and struct's format for one pixel.
SPEC_PIXELS = {
    "PT_8BSI": (3, 1, "<b"),
    "PT_8BUI": (4, 1, "<B"),
    "PT_16BSI": (5, 2, "<h"),
    "PT_16BUI": (6, 2, "<H"),
    "PT_32BSI": (7, 4, "<i"),
    "PT_32BUI": (8, 4, "<I"),
    "PT_32BF": (10, 4, "<f"),
    "PT_64BF": (11, 8, "<d"),
}


def test_pixel_types_are_those_of_the_spec():
    assert {member.name: member.value for member in PixelType} == {
        name: code for name, (code, _, _) in SPEC_PIXELS.items()
    }


@pytest.mark.parametrize(("name", "spec"), SPEC_PIXELS.items())
def test_pixels_are_little_endian_and_row_major(name, spec):
    code, size, form = spec
    pixel_type = PixelType.parse(code)
    assert pixel_type.name == name
    assert pixel_type.size == size
    data = b"".join(struct.pack(form, value) for value in (1, 2, 3, 4, 5, 6))
    raster = Raster(3, 2, (Band(pixel_type, data=data, no_data=struct.pack(form, 100)),), None, HERE)
    assert raster.array(0).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert raster.bands[0].no_data_value == 100
    assert PixelType.from_dtype(pixel_type.dtype) is pixel_type
    assert PixelType.from_dtype(pixel_type.dtype.newbyteorder(">")) is pixel_type


@pytest.mark.parametrize("code", [-1, 0, 1, 2, 9, 12])
def test_other_pixel_codes_are_errors(code):
    with pytest.raises(RasterError, match=f"unknown pixel type {code}; use one of: 3, 4, 5, 6, 7, 8, 10, 11"):
        PixelType.parse(code)


@pytest.mark.parametrize("dtype", ["bool", "complex64", "complex_int16", "float16", "int64", "uint64"])
def test_types_without_a_pixel_type_are_errors(dtype):
    with pytest.raises(RasterError, match="no pixel type holds"):
        PixelType.from_dtype(dtype)


def test_a_band_is_in_db_when_it_has_data_even_beside_a_url():
    band = Band(PixelType.PT_8BUI, data=b"", out_db_band_no=0, out_db_url="a.tif")
    assert band.in_db


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "no data, no out_db_band_no, no out_db_url"),
        ({"out_db_url": "a.tif"}, "no data, no out_db_band_no"),
        ({"out_db_band_no": 0}, "no data, no out_db_url"),
        ({"out_db_band_no": -1, "out_db_url": "a.tif"}, "out_db_band_no -1; count from 0"),
        ({"data": b"", "no_data": b"12"}, "no_data has 2 bytes where PT_8BUI has 1"),
    ],
)
def test_a_band_that_breaks_the_rules_is_an_error(fields, message):
    with pytest.raises(RasterError, match=message):
        Band(PixelType.PT_8BUI, **fields)


def test_the_cells_of_a_band_do_not_flood_its_repr():
    assert "data=b" not in repr(Band(PixelType.PT_8BUI, data=bytes(1000)))


@pytest.mark.parametrize("size", [0, 5, 7, 12])
def test_data_of_another_size_than_the_grid_is_an_error(size):
    with pytest.raises(RasterError, match=f"band 1: data has {size} bytes, 3 x 2 pixels of PT_8BUI need 6"):
        Raster(3, 2, (_band(6), _band(size)), None, HERE)


def test_bands_may_mix_in_db_out_db_and_pixel_types():
    outside = Band(PixelType.PT_64BF, out_db_band_no=2, out_db_url="s3://bucket/a.tif")
    raster = Raster(3, 2, (_band(6), outside), None, HERE)
    assert raster.num_bands == 2
    with pytest.raises(RasterError, match="band 1: its pixels are in an external file; open band 2"):
        raster.array(1)


@pytest.mark.parametrize("sides", [(-1, 2), (2, -1), (2**31, 1)])
def test_sides_outside_int32_are_errors(sides):
    with pytest.raises(RasterError, match=r"a raster has (width|height)"):
        Raster(*sides, (), None, HERE)
    with pytest.raises(RasterError, match=r"a raster has (width|height)"):
        RasterMetadata(*sides, 0, None, HERE)


def test_a_raster_without_cells_has_empty_arrays():
    assert Raster(0, 0, (_band(0),), None, HERE).array(0).shape == (0, 0)


def test_metadata_is_the_raster_without_its_bands():
    assert Raster(3, 2, (_band(6),), "wkt", HERE).metadata == RasterMetadata(3, 2, 1, "wkt", HERE)


def test_the_anchor_is_the_centre_of_the_upper_left_pixel_also_with_skew():
    # GDAL: the centre of pixel (0, 0) is the transform of (0.5, 0.5).
    a, b, c, d, e, f = 17.3, 5.1, 100.0, 10.2, -8.6, 200.0
    reference = GeoReference.from_affine((a, b, c, d, e, f))
    assert (reference.scale_x, reference.skew_x, reference.skew_y, reference.scale_y) == (a, b, d, e)
    assert reference.upperleft_x == pytest.approx(c + 0.5 * a + 0.5 * b, rel=1e-15)
    assert reference.upperleft_y == pytest.approx(f + 0.5 * d + 0.5 * e, rel=1e-15)


finite = st.floats(-1e7, 1e7)
affines = st.tuples(finite, finite, finite, finite, finite, finite)


@settings(max_examples=300, deadline=None)
@given(affines)
def test_affines_come_back_to_within_a_rounding(affine):
    for there, back in (
        (GeoReference.from_affine, GeoReference.to_affine),
        (GeoReference.from_gdal, GeoReference.to_gdal),
    ):
        again = back(there(affine))
        ulp = float(np.spacing(max(map(abs, affine))))
        assert np.allclose(again, affine, rtol=0, atol=2 * ulp)


def test_a_geo_reference_may_hold_nan_as_a_table_may():
    broken = GeoReference(math.nan, 1.0, 0.0, 0.0, math.inf, 0.0)
    assert not broken.is_finite
    assert math.isnan(broken.to_affine()[0])


def _band(size):
    return Band(PixelType.PT_8BUI, data=bytes(size))
