from __future__ import annotations

import numpy as np
import pytest

from geolake_nb.geo.box_transform import patch_box, plane_box
from geolake_nb.model.box import Box


def test_samples_too_far_apart_or_torn_apart_have_no_box():
    lon, lat = np.meshgrid(np.linspace(0, 10, 17), np.linspace(0, 10, 17))
    assert patch_box(lon, lat, pad=0.0) is not None
    torn = np.where(lon > 5, lon + 20, lon)
    assert patch_box(torn, lat, pad=0.0) is None


def test_a_small_jump_between_samples_is_covered_from_both_sides():
    lon, lat = np.meshgrid(np.linspace(0, 10, 17), np.linspace(0, 10, 17))
    jump = np.where(lat > 9.5, -0.5, 0.0)  # as where another datum shift takes over near the last row
    box = patch_box(lon, lat + jump, pad=0.0).box
    # Just before the jump the unsampled latitude comes close to 10, above every sample.
    assert (lat + jump).max() == 9.5
    assert box.ymax >= 10


def test_the_margin_covers_the_bulge_between_samples():
    # A parallel seen along chords: latitude 60 + x * (1 - x) peaks at 60.25, between two of the samples.
    u, v = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 0.01, 4))
    lat = 60 + u * (1 - u) + v
    patch = patch_box(5 * u, lat, pad=0.0)
    assert lat.max() < 60.25 + 0.01
    assert patch.box.ymax >= 60.25 + 0.01
    assert patch.looseness <= 8 * (60.26 - lat.max()) + 1e-9


@pytest.mark.parametrize("pole", [90, -90])
def test_a_pole_between_samples_is_found(pole):
    x, y = np.meshgrid(np.linspace(-1, 1.1, 8), np.linspace(-1.2, 1, 8))
    lat = (90 - np.hypot(x, y)) * np.sign(pole)
    assert np.abs(lat).max() < 90
    box = patch_box(np.degrees(np.arctan2(y, x)), lat, pad=0.0).box
    assert (box.xmin, box.xmax) == (-180, 180)
    assert pole in (box.ymin, box.ymax)


def test_rectangles_in_degrees_are_exact():
    assert plane_box(-180, -10, -170, 10, pad=0.0) == Box(-180, -10, -170, 10)
    assert plane_box(-190, -10, -170, 10, pad=0.0) == Box(170, -10, -170, 10)
    assert plane_box(0, 80, 10, 90, pad=0.0) == Box(-180, 80, 180, 90)
