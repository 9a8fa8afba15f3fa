"""Small GeoTIFFs made of the storms and countries that ship: many CRSs, one to four bands, dateline and poles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import MissingDependencyError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import numpy.typing as npt
    import pyarrow as pa

    Cells = npt.NDArray[Any]
    Floats = npt.NDArray[np.float64]

__all__ = ["scenes"]

_EARTH = 6371.0088
_SPEED = 12.0
"""Kilometres between two points of a track: a storm leaves no gap in the cells that it passes."""
_NEAR, _FEW = 4.0, 0.004
"""So many cells from its track a storm is still felt, down to such a share of it."""
_SEA, _DEEP, _LAND, _BORDER = (20, 52, 84), (8, 26, 52), (86, 96, 88), (128, 138, 124)
_HEAT = ((0.0, (150, 40, 90)), (0.4, (240, 110, 50)), (0.75, (255, 205, 90)), (1.0, (255, 250, 220)))


def scenes(folder: str | os.PathLike[str]) -> list[str]:
    """Write small GeoTIFFs of storms and countries: many CRSs, one to four bands, dateline and poles.

    The same bytes every time: storm tracks, winds and countries of twelve places, each in a CRS of its own.

    Args:
        folder: where the files are written; it is created where it does not exist.

    Returns:
        The paths of the files, in the order of their names.

    Raises:
        MissingDependencyError: rasterio is not installed.

    Example:
        >>> gl.demo.scenes("tiffs")[:3]
        ['tiffs/aleutians.tif', 'tiffs/antarctica.tif', 'tiffs/arctic.tif']
    """
    try:
        import rasterio  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "GeoTIFFs need rasterio, which is not installed", remedy="run pip install 'geolake-nb[raster]'"
        ) from None
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    world = _World.shipped()
    return [str(_write(scene, world, target / f"{scene.name}.tif")) for scene in _SCENES]


@dataclass(frozen=True, slots=True)
class _Scene:
    """The location of a scene and what its pixels show."""

    name: str
    epsg: int
    middle: tuple[float, float]
    """Longitude and latitude."""
    cell: float
    """The side of a cell, in the unit of the CRS."""
    size: tuple[int, int]
    """Columns and rows."""
    paint: Callable[[_Grid], _Painted]
    turned: float = 0.0
    """Degrees by which its rows are turned, as those of a satellite's path are."""


@dataclass(frozen=True, slots=True)
class _Painted:
    """The cells of a scene, one layer a band."""

    cells: Cells
    bands: tuple[str, ...]
    no_data: float | None


class _World:
    """What the scenes are painted of: the outlines of countries and points along the tracks of storms."""

    def __init__(self, countries: pa.Table, storms: pa.Table) -> None:
        import shapely

        self.shapes = shapely.from_wkb(countries["shape"].to_numpy(zero_copy_only=False))
        shapely.prepare(self.shapes)
        self.outlines = shapely.bounds(self.shapes)
        tracks = shapely.from_wkb(storms["track"].to_numpy(zero_copy_only=False))
        self.storm, self.longitude, self.latitude = _along(tracks)
        self.position = _on_sphere(self.longitude, self.latitude)
        self.wind = storms["wind"].to_numpy().astype(np.float32)
        self.quarter = (storms["began"].to_numpy().astype("datetime64[M]").astype(np.int64) % 12) // 3

    @classmethod
    def shipped(cls) -> _World:
        from geolake_nb.demo.data import countries, storms

        return cls(countries(), storms())


class _Grid:
    """The cells of a scene: where their middles lie, in which country, and which storms passed them."""

    def __init__(self, scene: _Scene, world: _World) -> None:
        from pyproj import Transformer

        self.world = world
        self.width, self.height = scene.size
        self.cell = scene.cell
        self._to = Transformer.from_crs("OGC:CRS84", f"EPSG:{scene.epsg}", always_xy=True)
        # The middle on a whole cell, so that no digit depends on the last bit of a projection.
        middle = [round(value / scene.cell) * scene.cell for value in self._to.transform(*scene.middle)]
        across, up = np.cos(np.radians(scene.turned)), np.sin(np.radians(scene.turned))
        self.axes = scene.cell * np.array([[across, up], [up, -across]])
        """What one column and one row to the next amount to in x and y."""
        self.corner = np.array(middle) - self.axes @ (np.array(scene.size) / 2)
        columns, rows = np.meshgrid(np.arange(self.width) + 0.5, np.arange(self.height) + 0.5)
        x, y = np.tensordot(self.axes, np.stack([columns, rows]), 1) + self.corner[:, None, None]
        self.longitude, self.latitude = self._to.transform(x, y, direction="INVERSE")

    @cached_property
    def country(self) -> npt.NDArray[np.int64]:
        """The row of the country in which a cell lies, counted from 1; 0 at sea."""
        import shapely

        countries = np.zeros((self.height, self.width), np.int64)
        for number, (shape, box) in enumerate(zip(self.world.shapes, self.world.outlines, strict=True), start=1):
            near = (box[0] <= self.longitude) & (self.longitude <= box[2])
            near &= (box[1] <= self.latitude) & (self.latitude <= box[3])
            if near.any():
                inside = shapely.contains_xy(shape, self.longitude[near], self.latitude[near])
                countries[near] = np.where(inside, number, countries[near])
        return countries

    @cached_property
    def passed(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Storms and cells: one pair for each cell that a storm passed, in the order of the storms."""
        world = self.world
        here = _on_sphere(self.longitude, self.latitude)
        middle = here.reshape(3, -1).mean(axis=1)
        middle /= np.linalg.norm(middle)
        farthest = np.min(middle @ here.reshape(3, -1))
        near = np.flatnonzero(middle @ world.position >= farthest - 0.01)
        points = np.stack(self._to.transform(world.longitude[near], world.latitude[near]))
        columns, rows = np.floor(np.linalg.solve(self.axes, points - self.corner[:, None]))
        inside = (columns >= 0) & (columns < self.width) & (rows >= 0) & (rows < self.height)
        cells = (rows[inside] * self.width + columns[inside]).astype(np.int64)
        pairs = np.unique(np.stack([world.storm[near][inside], cells]), axis=1)
        return pairs[0], pairs[1]

    def storms(self, quarter: int | None = None) -> Floats:
        """How many storms passed each cell, of one quarter of the year or of all."""
        storm, cell = self.passed
        return self._summed(cell if quarter is None else cell[self.world.quarter[storm] == quarter])

    def wind(self) -> Floats:
        """The mean of the greatest winds, in knots, of the storms that passed near; NaN where none did."""
        storm, cell = self.passed
        wind = self.world.wind[storm]
        known = np.isfinite(wind)
        near = _smooth(self._summed(cell[known]), _NEAR)
        total = _smooth(self._summed(cell[known], wind[known]), _NEAR)
        return np.where(near > _FEW, np.round(total / np.maximum(near, _FEW)), np.nan)

    def _summed(self, cells: npt.NDArray[np.int64], weights: Floats | None = None) -> Floats:
        sums = np.bincount(cells, weights, minlength=self.width * self.height)
        return sums.reshape(self.height, self.width).astype(np.float64)


def _along(tracks: Cells) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Points along each track, at most `_SPEED` kilometres apart: the number of the storm, longitude and latitude."""
    import shapely

    points, owner = shapely.get_coordinates(tracks, return_index=True)
    ends = np.flatnonzero(owner[1:] == owner[:-1])
    start, step = points[ends], points[ends + 1] - points[ends]
    # A track takes the short way round, over the antimeridian where that is shorter.
    step[:, 0] = (step[:, 0] + 180) % 360 - 180
    flat = np.hypot(step[:, 0] * np.cos(np.radians(start[:, 1])), step[:, 1])
    parts = np.maximum(1, np.ceil(np.radians(flat) * _EARTH / _SPEED)).astype(np.int64)
    leg = np.repeat(np.arange(len(ends)), parts)
    share = (np.arange(len(leg)) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[leg]
    points = start[leg] + step[leg] * share[:, None]
    return owner[ends][leg], (points[:, 0] + 180) % 360 - 180, points[:, 1]


def _on_sphere(longitude: Floats, latitude: Floats) -> Floats:
    """Points of the unit sphere: nearness without a dateline or a pole in the way."""
    across, up = np.radians(longitude), np.radians(latitude)
    return np.stack([np.cos(up) * np.cos(across), np.cos(up) * np.sin(across), np.sin(up)])


def _moved(field: Cells, step: int, axis: int) -> Cells:
    """The field moved by so many cells; zeros come in at the edge."""
    moved = np.roll(field, step, axis)
    edge = [slice(None)] * field.ndim
    edge[axis] = slice(0, step) if step >= 0 else slice(step, None)
    moved[tuple(edge)] = 0
    return moved


def _smooth(field: Floats, reach: float) -> Floats:
    """The field blurred by a bell of that many cells."""
    steps = np.arange(-int(3 * reach), int(3 * reach) + 1)
    weights = np.exp(-((steps / reach) ** 2) / 2)
    weights /= weights.sum()
    for axis in (0, 1):
        moved = (weight * _moved(field, int(step), axis) for step, weight in zip(steps, weights, strict=True))
        field = sum(moved, np.zeros_like(field))
    return field


def _picture(grid: _Grid) -> _Painted:
    """Land, borders and the glow of storm tracks, in red, green and blue."""
    depth = np.abs(grid.latitude)[..., None] / 90
    pixels = np.array(_SEA) * (1 - depth) + np.array(_DEEP) * depth
    pixels[grid.country > 0] = _LAND
    border = (grid.country != _moved(grid.country, 1, 0)) | (grid.country != _moved(grid.country, 1, 1))
    pixels[border & (grid.country > 0)] = _BORDER
    glow = _smooth(grid.storms(), 1.2)
    strength = (glow / max(float(glow.max()), 1.0)) ** 0.75
    at, colours = [position for position, _ in _HEAT], np.array([colour for _, colour in _HEAT])
    heat = np.stack([np.interp(strength, at, colours[:, channel]) for channel in range(3)], axis=-1)
    share = np.clip(strength * 1.5, 0, 0.95)[..., None]
    pixels = pixels * (1 - share) + heat * share
    return _Painted(np.moveaxis(np.rint(pixels).astype(np.uint8), -1, 0), ("red", "green", "blue"), None)


def _round_picture(grid: _Grid) -> _Painted:
    """A picture inside a circle; outside of it, black means no data."""
    painted = _picture(grid)
    rows, columns = np.ogrid[: grid.height, : grid.width]
    reach = np.hypot(rows + 0.5 - grid.height / 2, columns + 0.5 - grid.width / 2)
    outside = reach > min(grid.width, grid.height) / 2
    return _Painted(np.where(outside, 0, painted.cells).astype(np.uint8), painted.bands, 0)


def _winds(grid: _Grid) -> _Painted:
    wind = np.nan_to_num(grid.wind(), nan=-1)
    return _Painted(wind.astype(np.float32)[None], ("mean greatest wind, knots",), -1)


def _storms(grid: _Grid) -> _Painted:
    near = np.round(_smooth(grid.storms(), _NEAR), 2)
    return _Painted(np.where(near > 0, near, np.nan).astype(np.float32)[None], ("storms, smoothed",), float("nan"))


def _storms_and_winds(grid: _Grid) -> _Painted:
    storms, winds = _storms(grid), grid.wind().astype(np.float32)
    return _Painted(np.stack([storms.cells[0], winds]), (*storms.bands, "mean greatest wind, knots"), float("nan"))


def _quarters(grid: _Grid) -> _Painted:
    """Storms of each quarter of the year; land has no data."""
    layers = [np.rint(100 * _smooth(grid.storms(quarter), 1.2)) for quarter in (2, 3, 0, 1)]
    cells = np.where(grid.country > 0, -1, np.array(layers)).astype(np.int16)
    months = ("July to September", "October to December", "January to March", "April to June")
    return _Painted(cells, tuple(f"storms of {name}, hundredths" for name in months), -1)


def _countries(grid: _Grid) -> _Painted:
    return _Painted(grid.country.astype(np.uint16)[None], ("row of the country, from 1",), 0)


def _from_the_coast(grid: _Grid) -> _Painted:
    """How far inland a cell is, in kilometres; the sea has no data."""
    import shapely

    land = grid.country > 0
    edge = land & ~np.logical_and.reduce([_moved(land, step, axis) for step in (-1, 1) for axis in (0, 1)])
    rows, columns = np.nonzero(land)
    coast = shapely.STRtree(shapely.points(np.argwhere(edge)[:, ::-1]))
    _, distance = coast.query_nearest(shapely.points(columns, rows), return_distance=True, all_matches=False)
    cells = np.full(land.shape, -1, np.int16)
    cells[land] = np.rint(distance * grid.cell / 1000)
    return _Painted(cells[None], ("kilometres from the coast",), -1)


_SCENES = (
    _Scene("aleutians", 32601, (-177.0, 57.0), 8_000, (288, 224), _picture),
    _Scene("antarctica", 3031, (0.0, -90.0), 20_000, (288, 256), _from_the_coast),
    _Scene("arctic", 3413, (0.0, 90.0), 25_000, (288, 288), _round_picture),
    _Scene("australia", 3577, (133.0, -20.0), 16_000, (320, 224), _winds),
    _Scene("bengal", 3857, (86.0, 15.0), 12_000, (256, 256), _storms_and_winds),
    _Scene("caribbean", 4326, (-72.0, 21.0), 0.125, (320, 208), _picture),
    _Scene("europe", 3035, (14.0, 53.0), 16_000, (288, 256), _countries),
    _Scene("fiji", 32760, (179.0, -17.5), 5_000, (256, 224), _picture),
    _Scene("gulf", 32616, (-88.0, 27.0), 6_000, (288, 224), _storms),
    _Scene("japan", 32654, (138.0, 34.0), 7_000, (256, 288), _picture),
    _Scene("madagascar", 32738, (46.0, -18.5), 7_000, (224, 320), _picture, turned=14.0),
    _Scene("pacific", 3832, (-178.0, 2.0), 32_000, (320, 192), _quarters),
)


def _write(scene: _Scene, world: _World, path: Path) -> Path:
    import rasterio
    from rasterio.transform import Affine

    grid = _Grid(scene, world)
    painted = scene.paint(grid)
    profile = {
        "driver": "GTiff",
        "width": grid.width,
        "height": grid.height,
        "count": len(painted.cells),
        "dtype": painted.cells.dtype,
        "crs": f"EPSG:{scene.epsg}",
        "transform": Affine(*np.column_stack([grid.axes, grid.corner]).ravel().tolist()),
        "nodata": painted.no_data,
        "tiled": True,
        "blockxsize": 128,
        "blockysize": 128,
        "compress": "deflate",
    }
    if len(painted.cells) == 3:
        profile["photometric"] = "RGB"
    with rasterio.open(path, "w", **profile) as dataset:
        dataset.write(painted.cells)
        dataset.descriptions = painted.bands
    return path
