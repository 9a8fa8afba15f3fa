"""Space-filling curves against their defining properties and a bit-by-bit oracle."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import RefusedError
from geolake_nb.geo.curves import KEY_BITS, Curve, bits_per_axis, curve_keys


def grid(axes: int, bits: int) -> list[np.ndarray]:
    """The middles of all cells of a grid, one array an axis."""
    middles = (np.arange(1 << bits) + 0.5) / (1 << bits)
    return [axis.ravel() for axis in np.meshgrid(*[middles] * axes, indexing="ij")]


def walk(axes: list[np.ndarray], curve: Curve) -> np.ndarray:
    """The cells in the order of their keys, one row a cell."""
    keys = curve_keys(axes, curve)
    assert len(np.unique(keys)) == len(keys)
    return np.stack(axes, axis=1)[np.argsort(keys)]


@pytest.mark.parametrize(("axes", "bits"), [(2, 1), (2, 5), (3, 3), (4, 2), (5, 2)])
def test_each_step_of_a_hilbert_curve_goes_to_a_neighbour(axes, bits):
    steps = np.abs(np.diff(walk(grid(axes, bits), Curve.HILBERT), axis=0)) * (1 << bits)
    assert np.allclose(steps.sum(axis=1), 1.0)


@pytest.mark.parametrize("curve", list(Curve))
@pytest.mark.parametrize("axes", [2, 3])
def test_a_curve_leaves_each_quarter_before_it_enters_the_next(axes, curve):
    walked = walk(grid(axes, 3), curve)
    quarter = ((walked >= 0.5) * (1 << np.arange(axes))).sum(axis=1)
    assert len(list(itertools.groupby(quarter.tolist()))) == 1 << axes


def interleaved(cells: list[int], bits: int) -> int:
    """Bit by bit, with Python's own integers."""
    key = 0
    for bit in reversed(range(bits)):
        for cell in cells:
            key = key << 1 | (cell >> bit & 1)
    return key


@given(st.integers(2, 6).flatmap(lambda axes: st.tuples(*[st.floats(0, 1, exclude_max=True)] * axes)))
@settings(max_examples=100)
def test_z_order_interleaves_the_bits(point):
    bits = bits_per_axis(len(point))
    cells = [int(side * (1 << bits)) for side in point]
    [key] = curve_keys([np.array([side]) for side in point], Curve.ZORDER)
    assert key == interleaved(cells, bits)


@pytest.mark.parametrize("curve", list(Curve))
@pytest.mark.parametrize("axes", range(1, 17))
def test_keys_stay_below_their_bits_in_any_number_of_dimensions(axes, curve):
    draw = np.random.default_rng(axes)
    points = [np.concatenate([draw.random(100), [0.0, 1.0]]) for _ in range(axes)]
    keys = curve_keys(points, curve)
    assert keys.min() >= 0
    assert keys.max() < 1 << KEY_BITS


def test_points_in_one_dimension_keep_their_order():
    values = np.sort(np.random.default_rng(1).random(1000))
    assert (np.diff(curve_keys([values])) >= 0).all()


def test_coordinates_beyond_the_rim_count_as_at_the_rim():
    odd, rim = [np.array([-1.0, 2.0, np.nan, np.inf, -np.inf])], [np.array([0.0, 1.0, 1.0, 1.0, 0.0])]
    assert curve_keys(odd).tolist() == curve_keys(rim).tolist()


def test_the_input_is_left_alone():
    x, y = np.array([0.3, 0.7]), np.array([0.1, 0.9])
    curve_keys([x, y])
    assert x.tolist() == [0.3, 0.7]
    assert y.tolist() == [0.1, 0.9]


@pytest.mark.parametrize("axes", [0, 17])
def test_no_curve_runs_through_that_many_dimensions(axes):
    with pytest.raises(RefusedError, match="1 to 16 dimensions"):
        curve_keys([np.array([0.0])] * axes)


def test_an_unknown_curve_names_the_known_ones():
    with pytest.raises(RefusedError, match="unknown curve 'peano'; use one of: hilbert, zorder"):
        Curve.parse("peano")
