"""Notebook 03: what it says of the scenes, against GDAL, PROJ and numpy on the GeoTIFFs themselves."""

from __future__ import annotations

import base64
import re
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyproj import Transformer

from tests.notebooks.html_tables import rows_of

if TYPE_CHECKING:
    from pathlib import Path

rasterio = pytest.importorskip("rasterio", reason="rasterio is not installed")
pytestmark = pytest.mark.spark

TILE = 128
READS = re.compile(r"reads ([\d,]+) of ([\d,]+) files, ([\d,]+) of ([\d,]+) rows")


@pytest.fixture(scope="module")
def geotiffs(ran) -> list[Path]:
    return sorted((ran.path.parent / "tables" / "geotiffs").glob("*.tif"))


def tiles(path: Path) -> int:
    with rasterio.open(path) as dataset:
        return -(-dataset.width // TILE) * -(-dataset.height // TILE)


def places(path: Path, every: int = 4) -> np.ndarray:
    """Longitudes and latitudes of corners of cells all over a scene, its outer edge among them."""
    with rasterio.open(path) as dataset:
        columns, rows = np.meshgrid(
            np.union1d(np.arange(0, dataset.width, every), dataset.width),
            np.union1d(np.arange(0, dataset.height, every), dataset.height),
        )
        a, b, c, d, e, f = tuple(dataset.transform)[:6]
        to_degrees = Transformer.from_crs(dataset.crs, "OGC:CRS84", always_xy=True)
    x, y = a * columns + b * rows + c, d * columns + e * rows + f
    return np.stack([part.ravel() for part in to_degrees.transform(x, y)])


def box_of(path: Path) -> tuple[float, float, float, float]:
    """The box of a scene: it begins east of the widest gap between longitudes, and ends west of it."""
    longitudes, latitudes = places(path)
    south, north = latitudes.min(), latitudes.max()
    if max(-south, north) > 89.9:
        return -180, south, 180, north
    around = np.unique(longitudes)
    gaps = np.diff(np.append(around, around[0] + 360))
    widest = int(gaps.argmax())
    return around[(widest + 1) % len(around)], south, around[widest], north


def meets(path: Path, window: np.ndarray) -> bool:
    """Whether the box of a scene meets that of these places, on the circle of longitudes."""
    west, south, east, north = box_of(path)
    inside = (window[1] >= south) & (window[1] <= north)
    return bool((inside & ((window[0] - west) % 360 <= (east - west or 360) % 360.0001)).any())


def window(west: float, south: float, east: float, north: float) -> np.ndarray:
    """Places all over a window in degrees; east below west is past 180."""
    across, up = np.meshgrid(np.linspace(west, east + 360 * (east < west), 50), np.linspace(south, north, 50))
    return np.stack([across.ravel(), up.ravel()])


def message(ran, cell: str) -> tuple[int, ...]:
    match = READS.search(ran.text(cell))
    assert match, ran.text(cell)
    return tuple(int(number.replace(",", "")) for number in match.groups())


def expected(geotiffs: list[Path], window: np.ndarray) -> tuple[int, ...]:
    """One file holds one scene, and one row a tile of it."""
    read = [path for path in geotiffs if meets(path, window)]
    return len(read), len(geotiffs), sum(map(tiles, read)), sum(map(tiles, geotiffs))


def test_it_looks_good(ran, looks_good):
    looks_good(ran)


def test_the_table_has_every_tile(ran, geotiffs):
    rows = sum(map(tiles, geotiffs))
    assert (len(geotiffs), rows) == (12, 71)
    assert f"{rows} rows written" in ran.text("write")
    assert "bounds of raster: 12 of 12 files, 100% of the bytes" in ran.text("open")
    assert f"{rows} rasters" in ran.text("browse")


def test_the_bounds_are_those_of_proj(ran, geotiffs):
    _, names, *rows = rows_of(ran.html("bounds"))
    assert names[0] == "partition.scene"
    output = {row[0]: [float(value) for value in row[3:]] for row in rows}
    assert list(output) == [path.stem for path in geotiffs]
    for path in geotiffs:
        # Of a sample of places, in the digits that are shown; a bound may be a little loose.
        assert output[path.stem] == pytest.approx(box_of(path), abs=0.3), path.stem
    crossing = {name for name, (west, _, east, _) in output.items() if west > east}
    assert crossing == {"aleutians", "fiji", "pacific"}


def test_a_window_over_the_dateline_reads_what_lies_there(ran, geotiffs):
    assert message(ran, "window") == expected(geotiffs, window(177, -19, -178, -16))
    assert message(ran, "window")[0] == 2
    assert re.search(r"wrapped +2 files", ran.text("window"))


def test_a_window_in_metres_reads_what_lies_there(ran, geotiffs):
    square = np.stack([part.ravel() for part in np.meshgrid(*[np.linspace(0, 500_000, 50)] * 2)])
    to_degrees = Transformer.from_crs("EPSG:3035", "OGC:CRS84", always_xy=True)
    window = np.stack(to_degrees.transform(square[0] + 4_000_000, square[1] + 2_500_000))
    assert message(ran, "other-crs") == expected(geotiffs, window)
    assert [path.stem for path in geotiffs if meets(path, window)] == ["arctic", "europe"], "as the text says"


def test_statistics_are_those_of_numpy(ran, geotiffs):
    _, *rows = rows_of(ran.html("statistics"))
    output = {(scene, int(band)): [float(value) for value in values] for _, scene, band, *values in rows}
    bands = 0
    for path in geotiffs:
        with rasterio.open(path) as dataset:
            cells = dataset.read(masked=True)
        for band, pixels in enumerate(np.ma.masked_invalid(cells)):
            stored = pixels.compressed().astype(np.float64)
            wanted = [stored.min(), stored.max(), stored.mean(), stored.size, pixels.size - stored.size]
            assert output[path.stem, band] == pytest.approx(wanted, abs=0.006), (path.stem, band)
            bands += 1
    assert len(output) == bands == 28


def test_pictures_have_the_shapes_of_the_scenes(ran, geotiffs):
    models = ran.notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    pictures = [
        base64.b64decode(buffer["data"])
        for model in models
        if model["model_name"] == "ImageModel"
        for buffer in model["buffers"]
    ]
    # PNG: the width and the height come first, after the signature and the head of the first chunk.
    shown = [struct.unpack_from(">II", picture, 16) for picture in pictures]
    for path in geotiffs:
        with rasterio.open(path) as dataset:
            scale = 190 / max(dataset.shape)
            assert (round(dataset.width * scale), round(dataset.height * scale)) in shown


def test_pixels_outside_cost_a_fraction(ran):
    folder = ran.path.parent / "tables"
    inside, outside = (
        sum(path.stat().st_size for path in (folder / name / "data").rglob("*.parquet"))
        for name in ("scenes", "outside")
    )
    assert ran.text("outside") == f"{inside:,} bytes with pixels, {outside:,} without"
    assert outside < inside / 10


def test_files_outside_are_checked_below_the_roots_alone(ran, geotiffs):
    assert re.search(r"^ok +28$", ran.text("check"), re.MULTILINE)
    (fiji,) = [path for path in geotiffs if path.stem == "fiji"]
    missing = ran.text("missing").splitlines()
    assert len(missing) == 3, "it has three bands"
    assert all(fiji.as_uri() in line for line in missing)
    assert "is not below an allowed root" in ran.text("refused")


def test_the_way_back_is_exact(ran, geotiffs):
    (fiji,) = [path for path in geotiffs if path.stem == "fiji"]
    with rasterio.open(fiji) as dataset:
        shape, affine = (dataset.count, *dataset.shape), tuple(dataset.transform)[:6]
    assert ran.text("back") == f"pixels {shape} all the same: True\ntransform {affine} the same: True"
