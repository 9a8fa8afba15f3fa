import functools

import numpy as np
import pyproj
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from geolake_nb.geo.box_transform import BoxMover, CannotMoveError
from geolake_nb.model.box import Box

LONLAT = ["EPSG:4267", "EPSG:4326"]
POLAR = ["EPSG:3031", "EPSG:3413", "EPSG:3995"]
# Cut open at 180 degrees, at 30 west, nowhere, and along several meridians; with and without a pole that is a line.
OTHERS = ["EPSG:27572", "EPSG:32633", "EPSG:3035", "EPSG:3832", "EPSG:3857", "EPSG:6933"]
OTHERS += ["ESRI:54009", "ESRI:54012", "ESRI:54052"]
PAIRS = [(source, target) for source in LONLAT + POLAR for target in LONLAT + POLAR + OTHERS if source != target]
PAIRS += [
    ("EPSG:3857", "EPSG:3832"),
    ("EPSG:3832", "EPSG:3857"),
    ("EPSG:3857", "EPSG:3413"),
    ("EPSG:3857", "EPSG:4326"),
]


@functools.cache
def mover_between(source, target):
    return BoxMover.between(pyproj.CRS(source), pyproj.CRS(target))


@functools.cache
def way_between(source, target):
    return pyproj.Transformer.from_crs(source, target, always_xy=True)


def outside(source, target, box):
    """How many points of the box PROJ places outside of where we move it."""
    result = mover_between(source, target).move_box(box)
    moved, (margin_x, margin_y) = result.box, result.margin
    random = np.random.default_rng(0)
    along = np.linspace(0, 1, 300)
    zeros, ones = np.zeros_like(along), np.ones_like(along)
    u = np.concatenate([along, along, zeros, ones, random.random(3000)])
    v = np.concatenate([zeros, ones, along, along, random.random(3000)])
    x, y = way_between(source, target).transform(
        box.xmin + u * (box.xmax - box.xmin), box.ymin + v * (box.ymax - box.ymin)
    )
    placed = np.isfinite(x) & np.isfinite(y)
    x, y = x[placed], y[placed]
    in_y = (moved.ymin - margin_y <= y) & (y <= moved.ymax + margin_y)
    beyond, before = x >= moved.xmin - margin_x, x <= moved.xmax + margin_x
    in_x = beyond | before if moved.wraps else beyond & before
    if pyproj.CRS(target).is_geographic:
        in_x |= np.abs(x) >= 180.0 - margin_x
    return int(np.count_nonzero(~(in_x & in_y)))


@pytest.mark.parametrize("target", ["EPSG:3395", "EPSG:3857", "EPSG:3995", "EPSG:4326", "EPSG:6933", "ESRI:54009"])
def test_a_box_around_a_pole_keeps_what_lies_beside_the_pole(target):
    box = Box(-5e5, -5e5, 5.2e5, 5.2e5)
    try:
        moved = mover_between("EPSG:3413", target).move_box(box).box
    except CannotMoveError:
        return
    x, y = way_between("EPSG:3413", target).transform(1000.0, 1000.0)
    assert moved.xmin <= x <= moved.xmax
    assert moved.ymin <= y <= moved.ymax


@pytest.mark.parametrize(
    ("source", "target", "box"),
    [
        ("EPSG:3413", "EPSG:6933", Box(-27903.1, -338733.3, 518044.8, 1551393.6)),
        ("EPSG:3413", "EPSG:3857", Box(-157008.1, -180358.2, 296543.3, 1268725.4)),
        ("EPSG:3413", "EPSG:3857", Box(10, -5e5, 5e5, 5e5)),
        ("EPSG:4326", "EPSG:3832", Box(-31, 10, 5, 20)),
    ],
)
def test_nothing_is_lost_near_a_pole_or_where_a_map_is_cut_open(source, target, box):
    assert outside(source, target, box) == 0


def test_a_pole_is_a_place_like_any_other_for_polar_maps():
    moved = mover_between("EPSG:3413", "EPSG:3995").move_box(Box(-5e5, -5e5, 5e5, 5e5)).box
    assert max(map(abs, moved.values)) < 1.5e6


def test_a_map_that_is_cut_open_still_bounds_the_other_axis():
    moved = mover_between("EPSG:4326", "EPSG:3832").move_box(Box(-31, 10, 5, 20)).box
    assert moved.xmin < -20037508.0
    assert moved.xmax > 20037508.0
    assert (round(moved.ymin, -4), round(moved.ymax, -4)) == (1_110_000, 2_260_000)


def test_longitudes_that_are_not_in_degrees_are_left_alone():
    with pytest.raises(CannotMoveError, match="not in degrees"):
        mover_between("EPSG:3857", "EPSG:4807")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PAIRS), st.data())
def test_a_moved_box_holds_every_point_that_proj_places(pair, data):
    source, target = pair
    if source in LONLAT:
        x, y, size = data.draw(st.tuples(st.floats(-180, 179), st.floats(-90, 89), st.floats(-2, 2)))
    else:
        x, y, size = data.draw(st.tuples(st.floats(-4e6, 3e6), st.floats(-4e6, 3e6), st.floats(3, 7)))
    wide, high = (10**size * data.draw(st.floats(0.05, 1)) for _ in "xy")
    if source in LONLAT:
        wide, high = min(wide, 180 - x), min(high, 90 - y)
    try:
        missed = outside(source, target, Box(x, y, x + wide, y + high))
    except CannotMoveError:
        assume(False)
    assert missed == 0
