"""Where a raster lies in the file of its out-db bands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolake_nb.errors import RasterError
from geolake_nb.raster_data.out_db import RasterFile, offset_in_file
from geolake_nb.raster_data.raster import GeoReference, RasterMetadata

rasterio = pytest.importorskip("rasterio")

SIZES = st.floats(1e-5, 1e4)
PLACES = st.floats(-1e7, 1e7)
OFFSETS = st.tuples(st.integers(0, 3000), st.integers(0, 3000))


@st.composite
def grids(draw):
    """Grids of any rotation and skew, whose coordinates are fine enough to tell their cells apart."""
    c, f = draw(PLACES), draw(PLACES)
    a = max(draw(SIZES), 1e-7 * max(abs(c), abs(f)))
    e, skew, up = a * draw(st.floats(1, 10)), draw(st.floats(-0.4, 0.4)), draw(st.sampled_from([1, -1]))
    return rasterio.Affine(a, skew * e, c, skew * a, up * e, f)


@given(grids(), OFFSETS)
def test_the_offset_of_a_tile_is_where_it_was_cut(grid, offset):
    tile = grid @ rasterio.Affine.translation(*offset)
    file = RasterFile(3050, 3040, ("uint8",), None, GeoReference.from_affine(tuple(grid)[:6]))
    raster = RasterMetadata(50, 40, 1, None, GeoReference.from_affine(tuple(tile)[:6]))
    assert offset_in_file(raster, file) == offset


@pytest.mark.parametrize("affine", [(0.0, 0, 0, 0, 0.0, 0), (1.0, 1.0, 0, 1.0, 1.0, 0), (float("nan"), 0, 0, 0, 1, 0)])
def test_a_grid_without_area_is_refused(affine):
    georeference = GeoReference.from_affine(affine)
    with pytest.raises(RasterError, match=r"no area|not finite"):
        offset_in_file(RasterMetadata(1, 1, 1, None, georeference), RasterFile(1, 1, ("uint8",), None, georeference))


def test_a_raster_far_away_is_not_in_the_file():
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    away = GeoReference.from_affine((1.0, 0.0, 1.7e308, 0.0, -1.0, -1.7e308))
    with pytest.raises(RasterError, match=r"beyond the file|outside of the file"):
        offset_in_file(RasterMetadata(1, 1, 1, None, away), RasterFile(9, 9, ("uint8",), None, here))
