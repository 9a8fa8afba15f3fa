"""The bands of rasters, from the leaf columns that hold no cell."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.errors import GeolakeError
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from tests import small_tables
from tests.formats.havasu_tables import make_havasu_table, raster_at, raster_entry

HERE = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
IN_DB = Band(PixelType.PT_16BSI, b"\x01\x80", bytes(8))
OUT_DB = Band(PixelType.PT_32BF, None, None, 2, "s3://elsewhere/a.tif")
# Havasu, Raster: with data the band is in-db, whatever else it has.
BOTH = Band(PixelType.PT_8BUI, None, bytes(4), 0, "/old/place.tif")


def raster(*bands: Band) -> Raster:
    return Raster(2, 2, bands, None, HERE)


def facts(band: Band) -> tuple:
    return band.pixel_type.value, band.no_data, band.in_db, band.out_db_band_no, band.out_db_url


@pytest.fixture
def opened(tmp_path):
    def make(*files):
        entries = [raster_entry(f"r{number}", list(rasters_), None) for number, rasters_ in enumerate(files)]
        make_havasu_table(tmp_path / "t", entries, encoding=None, rasters=True)
        return gl.open(tmp_path / "t")

    return make


def bands_of(table, index=0):
    path = table.files.table["path"][index].as_py()
    rows = table.raster_bands(path).to_pylist()
    keys = ("pixel_type", "no_data", "in_db", "out_db_band_no", "out_db_url")
    return {(row["raster"], row["band"]): tuple(row[key] for key in keys) for row in rows}


@pytest.mark.parametrize(
    "rasters",
    [
        [raster(IN_DB)],
        [raster(OUT_DB)],
        [raster(IN_DB, OUT_DB), raster(OUT_DB, IN_DB)],
        [raster(BOTH), raster(OUT_DB)],
        [None, raster(IN_DB), None, raster(), raster(OUT_DB, OUT_DB)],
        [raster(IN_DB, OUT_DB, BOTH, IN_DB, OUT_DB, BOTH, IN_DB), raster(IN_DB), raster(*[OUT_DB] * 6)],
        [None],
    ],
    ids=["in-db", "out-db", "mixed", "both", "nulls", "seven bands", "no raster"],
)
def test_bands_are_those_that_were_written(opened, rasters):
    known = [known_raster for known_raster in rasters if known_raster is not None]
    expected = {
        (number, index): facts(band)
        for number, known_raster in enumerate(known)
        for index, band in enumerate(known_raster.bands)
    }
    assert bands_of(opened(rasters)) == expected


def test_no_cell_is_read_where_it_need_not_be(opened, monkeypatch):
    table = opened([raster(IN_DB, IN_DB), raster(IN_DB)], [raster(OUT_DB)])
    columns_read = []
    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda self, *sizes, columns, **options: (
            columns_read.extend(columns) or read(self, *sizes, columns=columns, **options)
        ),
    )
    assert bands_of(table, 0) != bands_of(table, 1)
    assert columns_read
    assert not [name for name in columns_read if name.endswith(".data")]


def test_a_url_that_is_not_valid_utf8_is_shown_anyway(opened, tmp_path):
    table = opened([raster(OUT_DB)])
    file = next((tmp_path / "t").rglob("*.parquet"))
    written = file.read_bytes()
    assert b"s3://elsewhere" in written
    file.write_bytes(written.replace(b"s3://elsewhere", b"s3://\xff\xfesewhere"))
    path = table.files.table["path"][0].as_py()
    assert table.raster_bands(path)["out_db_url"].to_pylist() == ["s3://\\xff\\xfesewhere/a.tif"]


def test_a_column_or_a_file_that_is_not_there(opened, tmp_path):
    table = opened([raster_at(1, 2)])
    with pytest.raises(GeolakeError, match="no file 'nothing'"):
        table.raster_bands("nothing")
    delta = gl.open(small_tables.make_havasu(tmp_path / "shapes"))
    with pytest.raises(GeolakeError, match="expected a raster column, got geom"):
        delta.raster_bands(delta.files.table["path"][0].as_py())
