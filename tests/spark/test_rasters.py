"""GeoTIFF files through Spark into Havasu's rasters and back."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.errors import MissingFileError, RasterError, RefusedError
from geolake_nb.raster_data.arrow import RASTER_V1, metadata_columns, metadata_from_arrow, rasters_from_arrow
from geolake_nb.raster_data.footprint import wgs84_bounds
from tests.raster_data.test_footprint import assert_holds, points

rasterio = pytest.importorskip("rasterio")
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def index(corpus):
    with (corpus / "rasters" / "INDEX.csv").open() as file:
        return {(corpus / "rasters" / row["file"]).as_uri(): row for row in csv.DictReader(file)}


def loaded(frame):
    """The rasters of a frame as Spark gives them back, by path and tile."""
    table = frame.toArrow()
    rasters = rasters_from_arrow(table["raster"])
    keys = zip(*(table[name].to_pylist() for name in ("path", "tile_x", "tile_y")), strict=True)
    return dict(zip(keys, rasters, strict=True))


@pytest.fixture(scope="module")
def in_db(spark, corpus):
    return loaded(gl.rasters.load(spark, corpus / "rasters"))


@pytest.fixture(scope="module")
def out_db(spark, corpus):
    return loaded(gl.rasters.load(spark, corpus / "rasters", out_db=True))


def same_cells(left, other):
    return np.array_equal(left, other, equal_nan=left.dtype.kind == "f")


def local(url):
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(url).path))


def test_every_geotiff_is_loaded_in_db_with_the_cells_that_rasterio_reads(in_db, index):
    assert {path for path, _, _ in in_db} == set(index)
    assert len(index) == 24
    for (path, tile_x, tile_y), raster in in_db.items():
        assert (tile_x, tile_y) == (0, 0)
        with rasterio.open(local(path)) as source:
            assert (raster.width, raster.height, raster.num_bands) == (source.width, source.height, source.count)
            for band in range(source.count):
                assert raster.bands[band].in_db
                assert same_cells(raster.array(band), source.read(band + 1)), path
            # Havasu anchors at the centre of the first pixel, and so does `xy` of rasterio.
            here = raster.geo_reference
            assert (here.upperleft_x, here.upperleft_y) == pytest.approx(source.xy(0, 0), rel=1e-14)


def test_every_geotiff_comes_back_as_a_file_with_the_same_cells(in_db, out_db, corpus, tmp_path):
    for rasters in (in_db, out_db):
        for (path, _, _), raster in rasters.items():
            written = gl.rasters.to_geotiff(raster, tmp_path / "back.tif", roots=corpus)
            with rasterio.open(local(path)) as source, rasterio.open(written) as copy:
                assert same_cells(copy.read(), source.read()), path
                assert (copy.dtypes, copy.shape, copy.crs) == (source.dtypes, source.shape, source.crs), path
                assert [str(no_data) for no_data in copy.nodatavals] == [
                    str(no_data) for no_data in source.nodatavals
                ], path
                assert np.allclose(tuple(copy.transform), tuple(source.transform), rtol=1e-14, atol=1e-13), path


def test_out_db_bands_are_counted_from_0_and_point_to_the_file(out_db, in_db):
    for key, raster in out_db.items():
        assert [band.out_db_band_no for band in raster.bands] == list(range(raster.num_bands))
        assert {(band.data, band.out_db_url) for band in raster.bands} == {(None, key[0])}
        assert raster.metadata == in_db[key].metadata


def test_the_wgs84_bounds_of_loaded_rasters_hold_their_outlines(in_db, index):
    without = []
    for (path, _, _), raster in in_db.items():
        box = wgs84_bounds(raster).box
        if box is None:
            without.append(index[path]["file"])
            continue
        affine = tuple(float(index[path][name]) for name in "abcdef")
        lon, lat = points(raster, affine)
        assert_holds(box, lon, lat)
    assert without == ["rasterio/rotated.tif"]  # it has no CRS


@pytest.mark.parametrize("kept_out", [False, True])
def test_tiles_make_up_the_file(spark, corpus, kept_out):
    folder = corpus / "rasters"
    files = [
        folder / "rasterio/rgb-byte-tenth.tif",
        folder / "rio-tiler/lowres.tif",
        folder / "derived/utm60_rotated30.tif",
    ]
    tiles = loaded(gl.rasters.load(spark, files, tile=(32, 25), out_db=kept_out))
    for path in files:
        with rasterio.open(path) as source:
            cells, seen = source.read(), np.zeros(source.shape, np.int64)
            for (url, tile_x, tile_y), tile in tiles.items():
                if url != path.as_uri():
                    continue
                left, top = 32 * tile_x, 25 * tile_y
                index = np.s_[top : top + tile.height, left : left + tile.width]
                assert (tile.width, tile.height) == (min(32, source.width - left), min(25, source.height - top))
                here = tile.geo_reference
                assert (here.upperleft_x, here.upperleft_y) == pytest.approx(source.xy(top, left), rel=1e-12)
                stored = gl.rasters.statistics(tile, roots=folder)  # reads the cells, wherever they are
                assert [band_.count + band_.no_data for band_ in stored] == [tile.width * tile.height] * source.count
                if not kept_out:
                    assert all(same_cells(tile.array(band), cells[band][index]) for band in range(source.count))
                seen[index] += 1
            assert (seen == 1).all(), path


def test_tiles_out_of_the_table_are_the_same_cells(spark, corpus, tmp_path):
    path = corpus / "rasters/rasterio/rgb-byte-tenth.tif"
    inside = loaded(gl.rasters.load(spark, path, tile=(32, 25)))
    outside = loaded(gl.rasters.load(spark, path, tile=(32, 25), out_db=True))
    for key, tile in inside.items():
        with rasterio.open(gl.rasters.to_geotiff(outside[key], tmp_path / "tile.tif", roots=corpus)) as copy:
            assert np.array_equal(copy.read(), [tile.array(band) for band in range(3)])


def test_statistics_on_spark_are_those_of_gdal(spark, corpus, index):
    frame = gl.rasters.load(spark, corpus / "rasters")
    compared = 0
    for row in gl.rasters.statistics(frame).collect():
        with rasterio.open(local(row.path)) as source:
            cells = source.read(row.band + 1)
            no_data = source.nodatavals[row.band]
        there = np.ones(cells.shape, bool) if no_data is None else ~((cells == no_data) | np.isnan(cells * 1.0))
        assert (row["count"], row.no_data) == (there.sum(), (~there).sum()), row.path
        if there.any():
            stored = cells[there]
            assert (row.min, row.max) == (stored.min(), stored.max())
            assert row.mean == pytest.approx(stored.mean(dtype=np.float64), rel=1e-12)
        compared += 1
    assert compared == sum(int(row["bands"]) for row in index.values())


def test_statistics_of_out_db_rasters_need_a_root(spark, corpus):
    path = corpus / "rasters/sedona/test3.tif"
    frame = gl.rasters.load(spark, path, out_db=True)
    inside = gl.rasters.statistics(gl.rasters.load(spark, path)).toArrow()
    assert gl.rasters.statistics(frame, roots=[path.parent]).toArrow() == inside
    with pytest.raises(Exception, match="not below an allowed root"):
        gl.rasters.statistics(frame).toArrow()


@pytest.mark.parametrize("kept_out", [False, True])
def test_a_havasu_table_holds_every_geotiff(spark, corpus, index, tmp_path, kept_out):
    frame = gl.rasters.load(spark, corpus / "rasters", out_db=kept_out)
    with pytest.warns(UserWarning, match="crs_wkt is absent"):  # of rotated.tif
        gl.write(frame, tmp_path / "t", format="havasu", spark=spark)
    table = gl.open(str(tmp_path / "t"))
    result, unbounded = [], 0
    for row in table.files.table.to_pylist():
        file, sides = row["path"], [row[f"raster.{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
        box = None if None in sides else gl.Box(*sides)
        unbounded += box is None
        names = pq.read_table(tmp_path / "t" / "data" / Path(file).name, columns=["path"])["path"].to_pylist()
        for number, path in enumerate(names):
            raster = gl.rasters.read(table, file, number)
            back = gl.rasters.to_geotiff(raster, tmp_path / "back.tif", roots=corpus)
            with rasterio.open(back) as copy, rasterio.open(local(path)) as source:
                assert same_cells(copy.read(), source.read()), path
            if box is not None:
                affine = tuple(float(index[path][name]) for name in "abcdef")
                assert_holds(box, *points(raster, affine, per_edge=200))
        result += names
    assert sorted(result) == sorted(index)
    assert unbounded == 1
    states = gl.rasters.check(table, roots=corpus)["state"].to_pylist()
    assert states == (["ok"] * sum(int(row["bands"]) for row in index.values()) if kept_out else [])


def test_a_row_of_spark_is_a_raster_too(spark, corpus, tmp_path):
    path = corpus / "rasters/rio-tiler/cog_uint8_rgba.tif"
    row = gl.rasters.load(spark, path).first()
    with rasterio.open(gl.rasters.to_geotiff(row, tmp_path / "a.tif")) as copy, rasterio.open(path) as source:
        assert np.array_equal(copy.read(), source.read())
    assert gl.rasters.thumbnail(row.raster, size=16)[1:4] == b"PNG"


def test_what_spark_holds_is_havasus_group(spark, corpus, tmp_path):
    """Written by Spark itself, the group has all fields; metadata is read without the bands."""
    frame = gl.rasters.load(spark, corpus / "rasters/sedona", tile=(64, 64))
    frame.coalesce(1).write.parquet(str(tmp_path / "t"))
    (file,) = (tmp_path / "t").glob("*.parquet")
    stored = pq.ParquetFile(file).read(columns=metadata_columns("raster"))["raster"]
    assert [field.name for field in pq.read_schema(file).field("raster").type] == [field.name for field in RASTER_V1]
    assert {(raster.width, raster.height) for raster in metadata_from_arrow(stored)} >= {(64, 64), (64, 5)}


def test_what_cannot_be_loaded_says_why(spark, corpus, tmp_path):
    with pytest.raises(MissingFileError, match="no GeoTIFF found"):
        gl.rasters.load(spark, tmp_path)
    with pytest.raises(RasterError, match=r"expected a tile size, got \(0, 5\); give its columns and rows"):
        gl.rasters.load(spark, corpus / "rasters", tile=(0, 5))
    with pytest.raises(RefusedError, match="not below an allowed root"):
        gl.rasters.load(spark, corpus / "rasters", roots=[tmp_path])
    (tmp_path / "bad.tif").write_bytes(b"II*\0 and no more")
    with pytest.raises(Exception, match=r"bad.tif: not a valid GeoTIFF"):
        gl.rasters.load(spark, tmp_path / "bad.tif").collect()
