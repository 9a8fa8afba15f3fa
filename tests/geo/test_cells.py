"""The names of cells, against the definitions of their systems."""

from __future__ import annotations

import math

import numpy as np
import pytest

from geolake_nb.geo.cells import cell_names
from geolake_nb.model.cells import CellSystem

BASE_32 = "0123456789bcdefghjkmnpqrstuvwxyz"


def geohash(x: float, y: float, length: int) -> str:
    """By halving, as the definition has it: one bit of longitude, one of latitude, five in a letter."""
    sides = {0: [-180.0, 180.0], 1: [-90.0, 90.0]}
    bits = ""
    for number in range(5 * length):
        low, high = sides[number % 2]
        middle = (low + high) / 2
        upper = (x, y)[number % 2] >= middle
        sides[number % 2] = [middle, high] if upper else [low, middle]
        bits += str(int(upper))
    return "".join(BASE_32[int(bits[start : start + 5], 2)] for start in range(0, len(bits), 5))


def quadkey(x: float, y: float, level: int) -> str:
    """By the formulas of Bing Maps, digit by digit."""
    sine = math.sin(math.radians(min(max(y, -85.05112878), 85.05112878)))
    size = 2**level
    column = min(size - 1, int((x + 180) / 360 * size))
    row = min(size - 1, int((0.5 - math.log((1 + sine) / (1 - sine)) / (4 * math.pi)) * size))
    return "".join(str((column >> shift & 1) + 2 * (row >> shift & 1)) for shift in reversed(range(level)))


def names(system: CellSystem, level: int, *points: tuple[float, float]) -> list[str | None]:
    x, y = np.array(points, np.float64).T
    result: list[str | None] = cell_names(system, level, x, y).to_pylist()
    return result


@pytest.mark.parametrize(
    ("system", "point", "expected"),
    [
        (CellSystem.GEOHASH, (-5.603, 42.605), "ezs42"),  # Wikipedia, Geohash
        (CellSystem.GEOHASH, (10.40744, 57.64911), "u4pruydqqvj"),  # geohash.org
        (CellSystem.QUADKEY, (-20.0, -50.0), "213"),  # Bing Maps, Tile System: the tile (3, 5) of level 3
        (CellSystem.QUADKEY, (-122.1350, 47.6436), "02123003021223122"),  # mercantile 1.2.1
        (CellSystem.H3, (-122.388903, 37.769377), "89283082e73ffff"),  # the README of h3-py
    ],
)
def test_known_places_have_their_published_cell(system, point, expected):
    level = 9 if system is CellSystem.H3 else len(expected)
    assert names(system, level, point) == [expected]


@pytest.mark.parametrize("level", [1, 2, 5, 12])
def test_cells_are_those_that_halving_gives(level):
    draw = np.random.default_rng(level)
    points = list(zip(draw.uniform(-180, 180, 500).tolist(), draw.uniform(-90, 90, 500).tolist(), strict=True))
    points += [(-180.0, -90.0), (0.0, 0.0), (179.999999, 89.999999), (45.0, 45.0)]
    assert names(CellSystem.GEOHASH, level, *points) == [geohash(x, y, level) for x, y in points]
    assert names(CellSystem.QUADKEY, level, *points) == [quadkey(x, y, level) for x, y in points]


def test_the_eastern_and_northern_ends_belong_to_the_last_cell():
    assert names(CellSystem.GEOHASH, 3, (180, 90), (-180, -90)) == ["zzz", "000"]
    assert names(CellSystem.QUADKEY, 3, (180, 90), (-180, -90)) == ["111", "222"]


@pytest.mark.parametrize("system", list(CellSystem))
def test_points_that_are_not_on_the_earth_have_no_cell(system):
    nowhere = [(math.nan, 0), (0, math.nan), (math.inf, 0), (200, 0), (0, 91), (-180.001, 0)]
    assert names(system, 4, *nowhere) == [None] * 6
    assert [name is None for name in names(system, 4, (0, 91), (1, 2), (math.nan, 3), (3, 4))] == [
        True,
        False,
        True,
        False,
    ]
    assert cell_names(system, 4, np.array([]), np.array([])).to_pylist() == []
