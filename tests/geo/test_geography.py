from __future__ import annotations

import math
import random
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geolake_nb as gl
from geolake_nb.geo.bounds import row_boxes
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import EdgeAlgorithm, GeographyType
from tests.heavy.prop_geography import check, check_columns
from tests.oracle import great_circle as gc
from tests.oracle.wkb_write import Shape, collection, linestring, multi, point, polygon, write
from tests.strategies import geographies, make_geographies, star

NAN, INF = float("nan"), float("inf")
SPHERICAL = gl.geography("OGC:CRS84")
ELLIPSOIDAL = ["andoyer", "karney", "thomas", "vincenty"]
TIGHT = 1e-9


def geography(algorithm: str) -> GeographyType:
    return GeographyType(algorithm=EdgeAlgorithm.parse(algorithm))


def bounds(*shapes: Shape | None, type_=SPHERICAL):
    return gl.bounds(pa.array([None if s is None else write(s) for s in shapes], pa.binary()), type=type_)


def box_of(*shapes: Shape, type_=SPHERICAL):
    return bounds(*shapes, type_=type_).box


def x_of(*shapes: Shape):
    box = box_of(*shapes)
    return box.xmin, box.xmax


def y_is(box, low: float, high: float) -> None:
    """Held, and no more than the margin beyond."""
    assert low - TIGHT <= box.ymin <= low + 1e-13
    assert high - 1e-13 <= box.ymax <= high + TIGHT


def points(*longitudes: float) -> list[Shape]:
    return [point(lon, 0) for lon in longitudes]


def circle(lat: float, step: int = 30, start: float = -180) -> tuple[tuple[float, float], ...]:
    """A closed ring around a pole through vertices on a parallel."""
    lons = [(start + i * step + 180) % 360 - 180 for i in range(360 // step)]
    return tuple((lon, lat) for lon in [*lons, lons[0]])


# ---- the oracle itself


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(-180, 179), st.integers(0, 359)), min_size=1, max_size=6))
def test_the_oracle_covers_like_a_count_of_free_degrees(intervals):
    taken = [False] * 720  # half degrees, so that touching ends are told from overlapping ones
    for start, width in intervals:
        for half in range(2 * start, 2 * (start + width) + 1):
            taken[half % 720] = True
    widest = run = 0
    for half in range(1440):
        run = 0 if taken[half % 720] else run + 1
        widest = max(widest, run)
    free = (widest + 1) / 2 if widest else 0
    expected = 360 - free
    assert gc.cover_width([(float(s), float(w)) for s, w in intervals]) == expected


def test_the_oracle_turns_where_dense_points_turn():
    rng = np.random.default_rng(1)
    starts = np.column_stack([rng.uniform(-180, 180, 500), rng.uniform(-89, 89, 500)])
    ends = np.column_stack([rng.uniform(-180, 180, 500), rng.uniform(-89, 89, 500)])
    low, high = gc.great_circle_latitudes(starts, ends)
    _, lat = gc.arc_points(starts, ends, 2001)
    assert (lat.max(axis=1) <= high + 1e-16).all()
    assert (lat.min(axis=1) >= low - 1e-16).all()
    assert np.quantile(np.asarray(high - lat.max(axis=1), float), 0.9) < 1e-5


# ---- points and longitudes


def test_one_point_is_its_own_box():
    box = box_of(point(-12.5, 34.25))
    assert (box.xmin, box.ymin, box.xmax, box.ymax) == (-12.5, 34.25, -12.5, 34.25)


@pytest.mark.parametrize(
    ("longitudes", "expected"),
    [
        ((170, -175), (170, -175)),
        ((-10, 10), (-10, 10)),
        ((-90, 90), (-90, 90)),  # a tie: not wrapping is preferred
        ((-90.5, 90), (90, -90.5)),
        ((-10, 170, 100), (-10, 170)),
        ((-170, 170, 0), (0, -170)),
        ((180, 175), (175, 180)),
        ((-180, -175), (-180, -175)),
        ((-120, 0, 120), (-120, 120)),  # a tie of three
    ],
)
def test_points_get_the_smallest_cover(longitudes, expected):
    rng = random.Random(0)
    for _ in range(3):
        shapes = points(*longitudes)
        rng.shuffle(shapes)
        if longitudes == (-170, 170, 0):
            xmin, xmax = x_of(*shapes)
            assert gc.width_of(xmin, xmax) == 190  # two covers are as short
        else:
            assert x_of(*shapes) == expected
        assert x_of(multi(4, *shapes)) == x_of(*shapes)


def test_both_names_of_the_antimeridian_stay_inside():
    box = box_of(*points(-180, 180))
    for lon in (-180.0, 180.0):
        inside = box.xmin <= lon <= box.xmax if box.xmin <= box.xmax else lon >= box.xmin or lon <= box.xmax
        assert inside


@pytest.mark.parametrize("gap_start", [-180, -170, -10, 0, 100, 175])
def test_the_one_gap_of_a_full_column_is_found(gap_start):
    lons = [(gap_start + 5 + i * 0.25 + 180) % 360 - 180 for i in range(int(355 / 0.25) + 1)]
    xmin, xmax = x_of(*points(*lons))
    assert gc.width_of(xmin, xmax) == pytest.approx(355, abs=1e-9)


@pytest.mark.parametrize("gap", [0.11, 0.15, 0.3])
def test_a_gap_a_little_over_a_tenth_of_a_degree_is_found(gap):
    rng = random.Random(4)
    for _ in range(20):
        start = rng.uniform(-180, 180)
        lons = [start, start + 360 - gap] + [start + rng.uniform(0, 360 - gap) for _ in range(3)]
        lons += [start + i * 0.05 for i in range(int((360 - gap) / 0.05))]
        lons = [(lon + 180) % 360 - 180 for lon in lons]
        xmin, xmax = x_of(*points(*lons))
        assert gc.width_of(xmin, xmax) <= 360 - gap + 1e-9


def test_points_all_around_may_take_the_whole_circle():
    xmin, xmax = x_of(*points(*[i / 20 for i in range(-3600, 3600)]))
    assert gc.width_of(xmin, xmax) >= 359.95


def test_latitudes_and_longitudes_at_the_ends_of_their_ranges_are_in_range():
    box = box_of(point(-180, -90), point(180, 90))
    assert (box.ymin, box.ymax) == (-90, 90)


@pytest.mark.parametrize(
    "shape",
    [
        point(180.00000000000003, 0),
        point(-181, 0),
        point(360, 0),
        point(0, 90.00000000000001),
        point(0, -91),
        point(INF, 0),
        point(0, -INF),
        linestring((0, 0), (200, 0)),
        multi(4, point(1, 2), point(1, 200)),
        polygon(((0, 0), (1, 0), (1, 91), (0, 0))),
        collection(point(1, 2), collection(point(-1000, 0))),
    ],
)
def test_out_of_range_means_no_box_and_known_types(shape):
    for algorithm in ("spherical", "karney"):
        stats = bounds(point(1, 2), shape, type_=geography(algorithm))
        assert stats.box is None
        assert stats.empty_count == 0
        assert stats.rows == 2


def test_nulls_and_empties_add_nothing():
    stats = bounds(None, point(), point(3, 4), polygon(), collection(multi(4, point())))
    assert (stats.box.xmin, stats.box.ymin, stats.box.xmax, stats.box.ymax) == (3, 4, 3, 4)
    assert (stats.rows, stats.null_count, stats.empty_count, stats.bad) == (5, 1, 3, 0)
    assert stats.types == (1, 3, 7)
    stats = bounds(None, point())
    assert (stats.box, stats.null_count, stats.empty_count) == (None, 1, 1)
    assert bounds().box is None


def test_z_and_m_are_kept():
    box = box_of(linestring((0, 1, 5, -7), (1, 1, -6, 8), dims="XYZM"), point(3, 4, 50, dims="XYM"))
    assert (box.zmin, box.zmax, box.mmin, box.mmax) == (-6, 5, -7, 50)


def test_x_without_y_has_no_box():
    assert box_of(point(1, NAN)) is None
    box = box_of(point(1, NAN), point(5, 3))
    assert box is None or (box.xmin, box.xmax, box.ymin, box.ymax) == (1, 5, 3, 3)


@pytest.mark.parametrize("line", [((0, 10), (NAN, NAN), (90, 10)), ((0, 10), (45, NAN), (90, 10))])
def test_a_line_with_a_nan_vertex_holds_the_others_or_has_no_box(line):
    box = box_of(linestring(*line))
    if box is not None:
        assert box.xmin <= 0
        assert box.xmax >= 90
        assert box.ymin <= 10 <= box.ymax


# ---- edges on the sphere


def test_the_great_circle_of_the_readme_reaches_above_67_degrees():
    box = box_of(linestring((0, 60), (90, 60)))
    top = math.degrees(math.atan(math.tan(math.radians(60)) / math.cos(math.radians(45))))
    assert 67.79 < top < 67.80
    y_is(box, 60, top)
    assert (box.xmin, box.xmax) == (0, 90)
    planar = gl.bounds(pa.array([write(linestring((0, 60), (90, 60)))]))
    assert planar.box.ymax == 60


def test_southern_edges_bulge_south():
    bottom = -math.degrees(math.atan(math.tan(math.radians(60)) / math.cos(math.radians(45))))
    y_is(box_of(linestring((0, -60), (90, -60))), bottom, -60)


def test_an_edge_over_the_antimeridian_goes_the_short_way():
    box = box_of(linestring((170, 10), (-170, 10)))
    assert (box.xmin, box.xmax) == (170, -170)
    top = math.degrees(math.atan(math.tan(math.radians(10)) / math.cos(math.radians(10))))
    y_is(box, 10, top)


def test_the_equator_and_meridians_are_their_own_boxes():
    box = box_of(linestring((-30, 0), (100, 0)))
    assert (box.xmin, box.xmax) == (-30, 100)
    y_is(box, 0, 0)
    box = box_of(linestring((12, -40), (12, 70)))
    assert (box.xmin, box.xmax) == (12, 12)
    y_is(box, -40, 70)


def test_an_edge_without_a_turning_point_has_the_latitudes_of_its_ends():
    y_is(box_of(linestring((0, 0), (30, 50))), 0, 50)


def test_an_edge_without_length_is_a_point():
    box = box_of(linestring((5, 6), (5, 6)))
    assert (box.xmin, box.xmax) == (5, 5)
    y_is(box, 6, 6)


@pytest.mark.parametrize("algorithm", ["spherical", *ELLIPSOIDAL])
@pytest.mark.parametrize(
    ("start", "end", "low", "high"),
    [
        ((0, 60), (180, 60), 60, 90),
        ((-90, 60), (90, 10), 10, 90),
        ((-180, 1), (0, 1), 1, 90),
        ((30, -60), (-150, -70), -90, -60),
        ((0, 80), (180, -30), -30, 90),
        ((0, 30), (180, -80), -90, 30),
    ],
)
def test_an_edge_of_half_the_longitudes_goes_over_the_nearer_pole(start, end, low, high, algorithm):
    for line in ((start, end), (end, start)):
        box = box_of(linestring(*line), type_=geography(algorithm))
        assert (box.xmin, box.xmax) == (-180, 180)
        assert box.ymin <= low
        assert box.ymax >= high
        if algorithm == "spherical":
            y_is(box, low, high)


@pytest.mark.parametrize("algorithm", ["spherical", *ELLIPSOIDAL])
@pytest.mark.parametrize(("start", "end"), [((0, 0), (180, 0)), ((-120, 33), (60, -33))])
def test_antipodal_ends_may_be_joined_any_way(start, end, algorithm):
    box = box_of(linestring(start, end), type_=geography(algorithm))
    assert box is None or (box.xmin, box.xmax, box.ymin, box.ymax) == (-180, 180, -90, 90)


@pytest.mark.parametrize("pole", [90, -90])
def test_an_edge_to_a_pole_is_a_meridian(pole):
    # The pole has every longitude, so how far the box reaches beyond those written is open.
    box = box_of(linestring((10, 20), (70, pole)))
    assert box.xmin <= 10
    assert box.xmax >= 70
    y_is(box, min(20, pole), max(20, pole))


def test_an_edge_near_a_pole_holds_its_closest_point():
    start, end = (0.0, 89.9), (179.0, 89.9)
    low, high = gc.great_circle_latitudes(start, end)
    y_is(box_of(linestring(start, end)), float(low[0]), float(high[0]))


def test_tiny_edges_are_held_to_the_last_bit():
    rng = random.Random(2)
    shapes = []
    for _ in range(2000):
        lon, lat = rng.uniform(-179, 179), rng.uniform(-89, 89)
        size = 10 ** rng.uniform(-14, -3)
        shapes.append(
            (
                linestring((lon, lat), (lon + rng.uniform(-size, size), lat + rng.uniform(-size, size) / 50)),
                [],
            )
        )
    assert check(shapes) == []


def test_edges_of_different_rows_share_one_cover():
    left, other = linestring((100, 0), (170, 0)), linestring((-170, 0), (-100, 0))
    assert x_of(left, other) == (100, -100)
    assert x_of(linestring((-60, 5), (50, 5)), point(60, 1)) == (-60, 60)


def test_the_cover_is_of_the_edges_and_not_of_the_vertices():
    # The vertices alone leave the widest gap between 0 and 150; the edge fills it.
    xmin, xmax = x_of(linestring((0, 0), (150, 0)), point(-100, 0))
    assert (xmin, xmax) == (-100, 150)


# ---- polygons


def test_a_small_polygon_is_the_box_of_its_edges():
    ring = ((0, 0), (10, 0), (10, 10), (0, 10), (0, 0))
    box = box_of(polygon(ring))
    top = math.degrees(math.atan(math.tan(math.radians(10)) / math.cos(math.radians(5))))
    assert (box.xmin, box.xmax) == (0, 10)
    y_is(box, 0, top)


def test_a_polygon_over_the_antimeridian_wraps():
    box = box_of(polygon(((175, -5), (-175, -5), (-175, 5), (175, 5), (175, -5))))
    assert (box.xmin, box.xmax) == (175, -175)


@pytest.mark.parametrize("step", [30, 45, 90, 120])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("start", [-180, -173.5, 0, 11])
def test_a_ring_around_a_pole_holds_it(step, backwards, start):
    for lat, low, high in ((70, 70, 90), (-70, -90, -70), (5, 5, 90), (-0.5, -90, -0.5)):
        ring = circle(lat, step, start)
        ring = ring[::-1] if backwards else ring
        for kind in (3, 17):
            box = box_of(polygon(ring, kind=kind))
            assert (box.xmin, box.xmax) == (-180, 180)
            y_is(box, low, high)
        assert box_of(multi(6, polygon(ring))) == box_of(polygon(ring))


def test_a_line_around_a_pole_does_not_hold_it():
    box = box_of(linestring(*circle(70)))
    assert gc.width_of(box.xmin, box.xmax) == 360
    assert box.ymax < 72


def test_a_ring_around_that_crosses_the_equator_may_hold_either_pole():
    ring = tuple((lon, 10.0 if i % 2 else -10.0) for i, (lon, _) in enumerate(circle(0, 60)[:-1]))
    box = box_of(polygon((*ring, ring[0])))
    assert (box.xmin, box.ymin, box.xmax, box.ymax) == (-180, -90, 180, 90)


@pytest.mark.parametrize(("outer", "inner"), [(10, 50), (50, 10), (-80, -60), (-30, 40)])
def test_a_shell_and_a_hole_around_a_pole_are_a_band_without_it(outer, inner):
    box = box_of(polygon(circle(outer, 10), circle(inner, 10)))
    assert (box.xmin, box.xmax) == (-180, 180)
    needs = gc.needs_of(polygon(circle(outer, 10), circle(inner, 10)))
    low, high = gc.great_circle_latitudes(needs.starts, needs.ends)
    y_is(box, float(low.min()), float(high.max()))


def test_a_hole_beside_the_pole_leaves_it_inside():
    hole = ((0, 75), (10, 75), (10, 80), (0, 75))
    box = box_of(polygon(circle(60), hole))
    assert box.ymax == 90
    assert (box.xmin, box.xmax) == (-180, 180)


def test_a_hole_of_one_polygon_does_not_open_another():
    box = box_of(multi(6, polygon(circle(60)), polygon(circle(40, 10), circle(50, 10))))
    assert box.ymax == 90
    low, _ = gc.great_circle_latitudes(circle(40, 10)[:-1], circle(40, 10)[1:])
    assert box.ymin == pytest.approx(float(low.min()), abs=TIGHT)


def test_the_usual_drawing_of_antarctica_holds_the_pole_and_all_longitudes():
    coast = [(lon, -70.0) for lon in range(180, -181, -20)]
    box = box_of(polygon(((-180, -90), (180, -90), *coast, (-180, -90))))
    assert (box.xmin, box.xmax, box.ymin) == (-180, 180, -90)
    assert box.ymax >= -70


def test_an_open_ring_around_a_pole_is_held():
    # Closed or not, the ring says that the pole is inside.
    box = box_of(polygon(circle(70)[:-1]))
    assert box is None or (box.xmin, box.xmax, box.ymax) == (-180, 180, 90)


def test_a_c_shaped_ring_does_not_wind():
    outer = [(lon, 40.0) for lon in range(-170, 171, 10)]
    inner = [(lon, 60.0) for lon in range(170, -171, -10)]
    box = box_of(polygon((*outer, *inner, outer[0])))
    assert (box.xmin, box.xmax) == (-170, 170)
    assert box.ymax < 61


@pytest.mark.parametrize("kind", [15, 16])
def test_surfaces_are_polygons_too(kind):
    face = polygon(circle(70, 120), kind=3 if kind == 15 else 17)
    box = box_of(multi(kind, face))
    assert box is None or (box.xmin, box.xmax, box.ymax) == (-180, 180, 90)


def test_curves_have_no_box():
    arc = linestring((0, 0), (1, 1), (2, 0), kind=8)
    for shape in (
        arc,
        multi(9, arc),
        multi(10, multi(9, arc)),
        multi(11, arc),
        multi(12, multi(10, arc)),
        collection(arc),
    ):
        stats = bounds(point(1, 2), shape)
        assert stats.box is None
        assert stats.types == tuple(sorted({1, shape.kind}))
    assert box_of(point(1, 2), Shape(8)).xmin == 1  # an empty one adds nothing


def test_interiors_of_large_stars_are_held():
    rng = random.Random(6)
    made = []
    for _ in range(1500):
        lat = rng.choice([rng.uniform(-90, 90), 89.9, -89.9, 90.0, -90.0])
        made.append(star(rng, rng.uniform(-180, 180), lat, rng.uniform(1, 80), holes=rng.random() < 0.3))
    assert check(made) == []


# ---- rows


def test_boxes_of_rows_wrap_and_hold_edges():
    shapes = [linestring((170, 10), (-170, 10)), point(), point(1, 2), point(200, 0), polygon(circle(70))]
    column = pa.array([None, *(write(shape) for shape in shapes)], pa.binary())
    boxes = row_boxes(column, type=SPHERICAL)
    assert boxes.type.extension_name == "geoarrow.box"
    rows = boxes.storage.to_pylist()
    assert [row is None for row in rows] == [True, False, True, False, True, False]
    assert (rows[1]["xmin"], rows[1]["xmax"]) == (170, -170)
    assert rows[1]["ymax"] > 10.1
    assert (rows[5]["xmin"], rows[5]["xmax"], rows[5]["ymax"]) == (-180, 180, 90)


@pytest.mark.parametrize("algorithm", ["spherical", "karney"])
def test_slices_and_chunks_are_their_own_columns(algorithm):
    shapes = [shape for shape, _ in make_geographies(31, 40)]
    values = [write(shape) for shape in shapes]
    whole = pa.array(values, pa.large_binary())
    for start, size in ((0, 1), (3, 5), (10, 30), (39, 1)):
        sliced = gl.bounds(whole.slice(start, size), type=geography(algorithm))
        alone = gl.bounds(pa.array(values[start : start + size]), type=geography(algorithm))
        chunked = gl.bounds(
            pa.chunked_array([whole.slice(start, size // 2), whole.slice(start + size // 2, size - size // 2)]),
            type=geography(algorithm),
        )
        assert sliced == alone == chunked


# ---- many


@settings(max_examples=200, deadline=None)
@given(st.lists(geographies(), min_size=1, max_size=3))
def test_any_lines_and_points_are_held_tightly(shapes):
    made = [(shape, []) for shape in shapes]
    assert check(made) == []
    assert check_columns(made) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(geographies(), min_size=1, max_size=3), st.sampled_from(ELLIPSOIDAL))
def test_any_lines_and_points_are_held_on_the_ellipsoid(shapes, algorithm):
    made = [(shape, []) for shape in shapes]
    assert check(made, algorithm) == []


def test_many_geographies_are_held_tightly_on_the_sphere():
    made = list(make_geographies(41, 8000))
    assert check(made) == []
    assert check_columns(made[:3000]) == []


@pytest.mark.parametrize("algorithm", ELLIPSOIDAL)
def test_many_geographies_are_held_on_the_ellipsoid(algorithm):
    made = list(make_geographies(42, 1500))
    assert check(made, algorithm) == []
    assert check_columns(made[:500], algorithm) == []


@pytest.mark.parametrize("algorithm", ELLIPSOIDAL)
def test_near_antipodal_geodesics_are_held(algorithm):
    # Within some 0.6 degrees of the antipode the shortest way leaves the circle of the sphere altogether.
    rng = random.Random(7)
    made = []
    for _ in range(800):
        lon, lat = rng.uniform(-180, 180), rng.choice([0.0, rng.uniform(-5, 5), rng.uniform(-80, 80)])
        other = lon + 180 - rng.choice([rng.uniform(0, 1), 10 ** rng.uniform(-8, 0)])
        other = other - 360 if other > 180 else other
        aside = rng.choice([0.0, rng.uniform(-1, 1), 10 ** rng.uniform(-8, 0)])
        made.append((linestring((lon, lat), (other, max(-90.0, min(90.0, -lat + aside)))), []))
    assert check(made, algorithm, samples=65) == []


@pytest.mark.parametrize("algorithm", ["spherical", *ELLIPSOIDAL])
@pytest.mark.parametrize("south", [False, True])
@pytest.mark.parametrize("away", [1e-10, 1e-9, 3e-8, 1e-7, 1e-6, 1e-5])
def test_short_edges_beside_a_pole_are_held(algorithm, south, away):
    # So near to a pole the Earth is a plane: two places at one distance, and the middle of the line between.
    lat = 90 - away
    for turn in (20, 90, 150, 172, 179, 179.4):
        line = [(lon, -lat if south else lat) for lon in (30.0, 30.0 - turn)]
        closest = 90 - (90 - lat) * math.cos(math.radians(turn / 2))
        box = box_of(linestring(*line), type_=geography(algorithm))
        reached = -box.ymin if south else box.ymax
        assert reached >= closest - 2e-14 - (90 - lat) * 1e-9
        if algorithm in ("spherical", "karney"):
            assert reached <= closest + (1e-9 if algorithm == "spherical" else 1e-6)


@pytest.mark.parametrize("algorithm", ELLIPSOIDAL)
def test_two_ways_of_the_same_length_are_both_held(algorithm):
    # Along the equator beyond 179.4 degrees the shortest ways run north and south of it, mirrored.
    start, end = (0.0, 0.0), (179.7, 0.0)
    _, lat = gc.geodesic_points(start, end, 129)
    reach = float(np.abs(lat).max())
    assert reach > 30
    box = box_of(linestring(start, end), type_=geography(algorithm))
    assert box is None or (box.ymin <= -reach + 1e-9 and box.ymax >= reach - 1e-9)


def test_a_karney_edge_differs_from_the_great_circle_and_is_tight():
    line = linestring((0, 60), (90, 60))
    low, high = gc.geodesic_latitudes((0, 60), (90, 60))
    box = box_of(line, type_=geography("karney"))
    assert abs(float(high[0]) - box_of(line).ymax) > 1e-3
    assert float(high[0]) - 1e-12 <= box.ymax <= float(high[0]) + 1e-6
    assert float(low[0]) - 1e-6 <= box.ymin <= float(low[0])


def test_points_of_the_parquet_corpus_have_their_cover(corpus):
    table = pq.read_table(corpus / "parquet_geo" / "parquet-testing" / "geography-points.parquet")
    for name in table.column_names:
        column = table[name]
        storage = column.type.storage_type if isinstance(column.type, pa.ExtensionType) else column.type
        if not (pa.types.is_binary(storage) or pa.types.is_large_binary(storage)):
            continue
        stats = gl.bounds(column, type=SPHERICAL)
        assert stats.bad == 0
        assert stats.box is not None


def test_straight_rings_of_a_curve_polygon_have_no_bound():
    ring = write(linestring((0, 80), (90, 80), (180, 80), (-90, 80), (0, 80)))
    for value in (struct.pack("<BII", 1, 10, 1) + ring, struct.pack("<BIIBII", 1, 12, 1, 1, 10, 1) + ring):
        assert gl.bounds(pa.array([value]), type=SPHERICAL).box is None


@pytest.mark.parametrize("lost", [0, 2])
def test_a_ring_goes_on_across_a_vertex_that_is_nan(lost):
    places = [(0, 80), (90, 80), (180, 80), (-90, 80), (0, 80)]
    places[lost:lost] = [(float("nan"), float("nan"))]
    box = box_of(polygon(places))
    assert (box.xmin, box.xmax, box.ymax) == (-180, 180, 90)


@pytest.mark.parametrize("crs", ["EPSG:4807", "EPSG:4978", "EPSG:3857", "SRID:0", "projjson:gone"])
@pytest.mark.parametrize("algorithm", ["spherical", "karney"])
def test_a_crs_without_degrees_gives_no_bound_and_never_stops_a_write(crs, algorithm):
    type_ = GeographyType(Crs(crs), EdgeAlgorithm.parse(algorithm))
    column = pa.array([write(linestring((0, 60), (90, 60))), None])
    stats = gl.bounds(column, type=type_)
    assert (stats.box, stats.unbounded, stats.types, stats.null_count) == (None, 1, (2,), 1)
    assert row_boxes(column, type=type_).null_count == 2


def test_edges_that_may_stray_stray_sideways_too():
    box = box_of(linestring((0, 0), (1e-6, 80)), type_=geography("andoyer"))
    assert box.xmin < -0.3
    assert box.xmax > 0.3
    box = box_of(linestring((0, 0), (0, 89.99)), type_=geography("andoyer"))
    assert (box.xmin, box.xmax, box.ymax) == (-180, 180, 90)
