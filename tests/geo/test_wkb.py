from __future__ import annotations

import csv
import enum
import math
import struct
import time
import tracemalloc
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import shapely
from hypothesis import given, settings

from geolake_nb.errors import GeolakeError
from geolake_nb.geo.wkb import MalformedWkbError, UnsupportedWkbError, WkbError, read_wkb
from tests.heavy.fuzz_wkb import difference
from tests.oracle import wkb_walk
from tests.oracle.wkb_write import (
    AXES,
    CHILD_KINDS,
    NAMES,
    Shape,
    collection,
    linestring,
    multi,
    point,
    polygon,
    with_dialect,
    write,
)
from tests.strategies import geometries, make_geometries

NAN, INF = float("nan"), float("inf")
SQUARE = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0), (0.0, 0.0))


def sides(box):
    if box is None:
        return None
    return box.xmin, box.ymin, box.xmax, box.ymax, box.zmin, box.zmax, box.mmin, box.mmax


def fault_of(value) -> WkbError:
    with pytest.raises((MalformedWkbError, UnsupportedWkbError)) as caught:
        read_wkb(value)
    error = caught.value
    assert isinstance(error, WkbError)
    assert isinstance(error, GeolakeError)
    assert isinstance(error, ValueError)
    assert isinstance(error.fault, enum.Enum)
    assert isinstance(error.offset, int)
    assert 0 <= error.offset <= len(value)
    assert str(error)
    return error


def agrees(value: bytes) -> None:
    assert difference(value, read_wkb(value)) is None


# ---- the seven types, their dimensions, dialects and byte orders


def one_of_each(dims: str) -> dict[int, Shape]:
    width = AXES[dims]

    def vertex(x: float, y: float):
        return (x, y, *((x + y, (x + y) * y)[: width - 2]))

    spot = point(*vertex(30, 10), dims=dims)
    line = linestring(vertex(30, 10), vertex(10, 30), vertex(40, 40), dims=dims)
    ring = tuple(vertex(x, y) for x, y in SQUARE)
    area = polygon(ring, tuple(vertex(x, y) for x, y in ((1, 1), (2, 1), (2, 2), (1, 1))), dims=dims)
    triangle = polygon(tuple(vertex(x, y) for x, y in ((0, 0), (7, 0), (0, 5), (0, 0))), dims=dims, kind=17)
    return {
        1: spot,
        2: line,
        3: area,
        4: multi(4, spot, point(*vertex(1, 2), dims=dims), dims=dims),
        5: multi(5, line, line, dims=dims),
        6: multi(6, area, dims=dims),
        7: collection(spot, line, collection(area, dims=dims), dims=dims),
        15: multi(15, area, area, dims=dims),
        16: multi(16, triangle, dims=dims),
        17: triangle,
    }


EACH = [(dims, kind) for dims in AXES for kind in one_of_each(dims)]


@pytest.mark.parametrize(("dims", "kind"), EACH, ids=lambda value: NAMES.get(value, value))
def test_every_type_reads_alike_in_every_dialect_and_byte_order(dims, kind):
    shape = one_of_each(dims)[kind]
    code = kind + {"XY": 0, "XYZ": 1000, "XYM": 2000, "XYZM": 3000}[dims]
    for big, ewkb, srid in product((False, True), (False, True), (None, 4326)):
        if srid is not None and not ewkb:
            continue
        value = write(with_dialect(shape, big=big, ewkb=ewkb, srid=srid))
        info = read_wkb(value)
        assert (info.type_code, info.srid, info.empty) == (code, srid, False)
        assert sides(info.box) == wkb_walk.walk(value).sides


def test_sides_of_a_polygon_with_z_and_m_are_those_of_its_vertices():
    ring = ((1, 2, 30, -4), (5, 6, 7, 8), (9, -10, 11, 12), (1, 2, 30, -4))
    assert sides(read_wkb(write(polygon(ring, dims="XYZM"))).box) == (1, -10, 9, 6, 7, 30, -4, 12)


def test_m_is_not_taken_for_z():
    box = read_wkb(write(point(1, 2, 3, dims="XYM"))).box
    assert (box.zmin, box.zmax, box.mmin, box.mmax) == (None, None, 3, 3)


def test_byte_order_may_change_at_every_level():
    inner = collection(point(1, 2, big=True), linestring((5, 6), (7, 8)), big=False)
    outer = collection(inner, multi(4, point(-9, 3, big=True), big=False), big=True)
    assert sides(read_wkb(write(outer)).box) == (-9, 2, 7, 8, None, None, None, None)


def test_dialect_and_srid_may_change_at_every_level():
    shape = collection(
        point(1, 2, 3, dims="XYZ", ewkb=True, srid=3857), point(4, 5, 6, dims="XYZ"), dims="XYZ", srid=4326
    )
    info = read_wkb(write(shape))
    assert (info.type_code, info.srid) == (1007, 4326)
    assert sides(info.box) == (1, 2, 4, 5, 3, 6, None, None)


def test_children_with_other_dimensions_add_their_own_axes():
    shape = collection(point(1, 2, 3, dims="XYZ"), point(4, 5, 6, dims="XYM"), point(7, 8))
    info = read_wkb(write(shape))
    assert info.type_code == 7
    assert sides(info.box) == (1, 2, 7, 8, 3, 3, 6, 6)


def test_a_memoryview_and_a_bytearray_read_like_bytes():
    value = write(point(1, 2))
    assert read_wkb(memoryview(value)) == read_wkb(value)
    padded = memoryview(b"xx" + value + b"yy")[2:-2]
    assert sides(read_wkb(padded).box)[:4] == (1, 2, 1, 2)


def test_an_open_ring_is_read():
    assert sides(read_wkb(write(polygon(((0, 0), (1, 5))))).box)[:4] == (0, 0, 1, 5)


# ---- empties and NaN


@pytest.mark.parametrize("dims", AXES)
@pytest.mark.parametrize("kind", NAMES, ids=NAMES.get)
def test_empty_of_every_type_has_no_box(kind, dims):
    info = read_wkb(write(Shape(kind, dims)))
    assert info.empty
    assert info.box is None
    assert info.type_code % 1000 == kind


@pytest.mark.parametrize(
    "shape",
    [
        collection(point(), collection(linestring(), polygon())),
        multi(4, point(), point()),
        polygon(()),
        linestring((NAN, NAN), (NAN, NAN)),
        point(NAN, NAN, 5.0, dims="XYZ"),
    ],
)
def test_no_x_and_no_y_means_empty(shape):
    info = read_wkb(write(shape))
    assert info.empty
    assert info.box is None


@pytest.mark.parametrize("shape", [point(1, NAN), point(NAN, 1), linestring((NAN, 3), (NAN, 4))])
def test_x_without_y_has_no_box_and_is_not_empty(shape):
    info = read_wkb(write(shape))
    assert info.box is None
    assert not info.empty


def test_nan_is_skipped_per_axis():
    line = linestring((1, NAN, 5, NAN), (NAN, 2, NAN, NAN), (3, 4, -1, NAN), dims="XYZM")
    assert sides(read_wkb(write(line)).box) == (1, 2, 3, 4, -1, 5, None, None)


@pytest.mark.parametrize("bits", [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF])
def test_every_nan_is_a_nan(bits):
    value = struct.pack("<BIIQddd", 1, 2, 2, bits, 1.0, 2.0, 3.0)
    assert sides(read_wkb(value).box)[:4] == (2, 1, 2, 3)


def test_infinities_are_values():
    assert sides(read_wkb(write(linestring((-INF, 1), (2, INF)))).box)[:4] == (-INF, 1, 2, INF)


def test_the_largest_and_smallest_doubles_survive_bit_for_bit():
    tiny, huge = 5e-324, 1.7976931348623157e308
    box = read_wkb(write(linestring((tiny, -huge), (huge, -tiny)))).box
    assert struct.pack("<4d", *sides(box)[:4]) == struct.pack("<4d", tiny, -huge, huge, -tiny)


# ---- faults


FULL = [
    write(with_dialect(shape, big=big, ewkb=ewkb, srid=srid))
    for shape in one_of_each("XYZ").values()
    for big, ewkb, srid in ((False, False, None), (True, False, None), (False, True, 4326))
]


@pytest.mark.parametrize("value", FULL, ids=range(len(FULL)))
def test_every_truncation_is_a_typed_error(value):
    for size in range(len(value)):
        error = fault_of(value[:size])
        assert isinstance(error, MalformedWkbError)


def test_no_bytes_at_all_is_a_typed_error():
    assert fault_of(b"").offset == 0


@pytest.mark.parametrize("extra", [b"\x00", b"\x01\x01\x00\x00\x00", write(point(1, 2))])
def test_trailing_bytes_are_an_error_at_the_end_of_the_geometry(extra):
    value = write(polygon(SQUARE))
    error = fault_of(value + extra)
    assert isinstance(error, MalformedWkbError)
    assert error.offset == len(value)


@pytest.mark.parametrize("order", [2, 0x7F, 0x80, 0xAA, 0xFF])
def test_a_byte_order_that_is_neither_0_nor_1_is_an_error_where_it_stands(order):
    value = bytearray(write(point(1, 2)))
    value[0] = order
    assert fault_of(bytes(value)).offset == 0
    nested = bytearray(write(multi(4, point(1, 2), point(3, 4))))
    nested[9 + 21] = order
    error = fault_of(bytes(nested))
    assert isinstance(error, MalformedWkbError)
    assert error.offset == 30


@pytest.mark.parametrize("count", [3, 1000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize("kind", [k for k in NAMES if k != 1], ids=NAMES.get)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dims", [0, 1000, 3000])
def test_a_count_larger_than_the_bytes_left_is_an_error_at_the_count(kind, count, order, dims):
    value = struct.pack(order + "BII", order == "<", kind + dims, count) + bytes(8)
    error = fault_of(value)
    assert isinstance(error, MalformedWkbError)
    assert 5 <= error.offset <= len(value)


def test_the_offset_of_a_count_in_the_second_ring_points_there():
    value = bytearray(write(polygon(SQUARE, SQUARE)))
    second = 9 + 4 + 5 * 16
    value[second : second + 4] = b"\xff\xff\xff\xff"
    assert second <= fault_of(bytes(value)).offset <= second + 4


UNKNOWN = [
    0,
    13,
    14,
    18,
    31,
    255,
    999,
    4001,
    1000,
    5001,
    3018,
    0x10000001,
    0x01000000,
    0x1FFFFFFF,
    0xFFFFFFFF,
]


@pytest.mark.parametrize("code", UNKNOWN)
@pytest.mark.parametrize("order", ["<", ">"])
def test_an_unknown_type_is_a_typed_error_at_its_header(code, order):
    body = bytes(64)
    error = fault_of(struct.pack(order + "BI", order == "<", code) + body)
    assert isinstance(error, UnsupportedWkbError)
    assert error.offset <= 5
    nested = struct.pack("<BII", 1, 7, 2) + write(point(1, 2)) + struct.pack("<BI", 1, code) + body
    error = fault_of(nested)
    assert isinstance(error, UnsupportedWkbError)
    assert 30 <= error.offset <= 35


def _refused():
    for parent, allowed in CHILD_KINDS.items():
        for child in NAMES:
            if child not in allowed and (parent, child) not in ((15, 17), (16, 3)):
                yield parent, child


@pytest.mark.parametrize(("parent", "child"), list(_refused()), ids=lambda kind: NAMES[kind])
def test_a_child_of_the_wrong_type_is_an_error(parent, child):
    bad = Shape(child) if child != 1 else point(1, 2)
    good = Shape(CHILD_KINDS[parent][0])
    error = fault_of(write(multi(parent, good, bad)))
    first = len(write(good))
    assert 9 + first <= error.offset <= 9 + first + 9


def nested(levels: int) -> bytes:
    return struct.pack("<BII", 1, 7, 1) * (levels - 1) + write(point(1, 2))


@pytest.mark.parametrize("levels", [1, 2, 100, 127, 128])
def test_nesting_of_128_levels_is_read(levels):
    assert sides(read_wkb(nested(levels)).box)[:4] == (1, 2, 1, 2)


@pytest.mark.parametrize("levels", [131, 200, 10_000, 1_000_000])
def test_nesting_beyond_128_levels_is_a_typed_error(levels):
    begun = time.perf_counter()
    error = fault_of(nested(levels))
    assert time.perf_counter() - begun < 5
    assert 9 * 126 <= error.offset <= 9 * 132


def test_many_siblings_are_not_depth():
    shape = collection(*[collection(point(i, i)) for i in range(500)])
    assert sides(read_wkb(write(shape)).box)[:4] == (0, 0, 499, 499)


def test_a_large_count_takes_no_memory_before_it_is_refused():
    value = struct.pack("<BII", 1, 2, 0x7FFFFFFF) + bytes(64)
    fault_of(value)
    tracemalloc.start()
    try:
        fault_of(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_large_value_is_read_where_it_lies():
    value = memoryview(write(linestring((1, 2), (3, 4))) + bytes(40_000_000))
    whole = bytearray(value)
    whole[5:9] = struct.pack("<I", 2 + 40_000_000 // 16)
    read_wkb(memoryview(whole))
    tracemalloc.start()
    try:
        box = read_wkb(memoryview(whole).toreadonly()).box
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sides(box)[:4] == (0, 0, 3, 4)
    assert peak < 1_000_000


# ---- curves


def test_a_circular_string_holds_its_arc_or_has_no_box():
    # A half circle around (1, 0): its top is at (1, 1), which is not a vertex of the second one.
    for middle in ((1.0, 1.0), (1 + math.sqrt(0.5), math.sqrt(0.5))):
        info = read_wkb(write(linestring((0, 0), middle, (2, 0), kind=8)))
        assert (info.type_code, info.empty) == (8, False)
        if info.box is not None:
            assert info.box.xmin <= 0
            assert info.box.xmax >= 2
            assert info.box.ymax >= 1
            assert info.box.ymin <= 0


def test_a_full_circle_has_its_middle_point_opposite_or_no_box():
    info = read_wkb(write(linestring((0, 0), (2, 0), (0, 0), kind=8)))
    if info.box is not None:
        assert info.box.ymin <= -1
        assert info.box.ymax >= 1
        assert info.box.xmin <= 0
        assert info.box.xmax >= 2


def arc_samples(start, middle, end, count: int = 65):
    """Points of the circle through three points, from an exact centre; None for a straight line."""
    (ax, ay), (bx, by), (cx, cy) = [(Fraction(x), Fraction(y)) for x, y in (start, middle, end)]
    towards = 1
    if (ax, ay) == (cx, cy):
        ox, oy = (ax + bx) / 2, (ay + by) / 2
    else:
        d = 2 * ((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))
        if d == 0:
            return None
        towards = 1 if d > 0 else -1  # exact: on a huge circle the angles of near points are the same
        b2, c2 = (bx - ax) ** 2 + (by - ay) ** 2, (cx - ax) ** 2 + (cy - ay) ** 2
        ox, oy = ax + ((cy - ay) * b2 - (by - ay) * c2) / d, ay + ((bx - ax) * c2 - (cx - ax) * b2) / d

    def wide(number: Fraction):
        high = float(number)
        return np.longdouble(high) + np.longdouble(float(number - Fraction(high)))

    center = wide(ox), wide(oy)
    angles = [np.arctan2(wide(y - oy), wide(x - ox)) for x, y in ((ax, ay), (bx, by), (cx, cy))]
    radius = np.hypot(wide(ax - ox), wide(ay - oy))
    turn = 2 * np.longdouble("3.14159265358979323846264338327950288")
    to_middle, to_end = ((towards * (angle - angles[0])) % turn for angle in angles[1:])
    if not 1e-12 < to_end < turn - 1e-12:  # start and end are one as far as angles tell: a whole circle or nothing
        to_end = turn if (ax, ay) == (cx, cy) or 1e-12 < to_middle < turn - 1e-12 else np.longdouble(0)
    swept = angles[0] + towards * np.linspace(0, 1, count, dtype=np.longdouble) * to_end
    return center[0] + radius * np.cos(swept), center[1] + radius * np.sin(swept), radius


def holds_arcs(value: bytes) -> None:
    info = read_wkb(value)
    walked = wkb_walk.walk(value)
    assert (info.type_code, info.empty) == (walked.code, walked.empty)
    if info.box is None:
        return
    for arc in walked.arcs:
        if not all(math.isfinite(n) and abs(n) < 1e100 for p in arc for n in p):
            continue
        result = arc_samples(*arc)
        if result is not None and np.isfinite(result[2]):
            xs, ys, radius = result
            room = radius * np.longdouble(1e-17)
            assert info.box.xmin <= xs.min() + room
            assert info.box.xmax >= xs.max() - room
            assert info.box.ymin <= ys.min() + room
            assert info.box.ymax >= ys.max() - room


def test_boxes_of_many_arcs_hold_them():
    rng = np.random.default_rng(3)
    for scale in (1e-6, 1.0, 180.0, 1e7):
        for _ in range(300):
            spread = scale * 10 ** rng.uniform(-6, 0)
            points = rng.uniform(-scale, scale, 2) + rng.normal(0, spread, (rng.choice([3, 5]), 2))
            if rng.random() < 0.2:
                points = np.round(points)
            holds_arcs(write(linestring(*map(tuple, points.tolist()), kind=8)))


@pytest.mark.parametrize(
    "line",
    [
        ((0, 0), (1, 1), (2, 2)),  # straight
        ((0, 0), (1, 1e-13), (2, 0)),  # nearly straight
        ((0, 0), (5, 0), (2, 0)),  # straight, the middle point beyond the end
        ((0, 0), (0, 0), (0, 0)),
        ((1, 1), (1, 1), (2, 3)),
        ((1e300, 0), (0, 1e300), (-1e300, 0)),
        ((1, 2), (NAN, 4), (5, 6)),
        ((1, 2), (INF, 4), (5, 6)),
    ],
)
def test_odd_arcs_hold_their_vertices_or_have_no_box(line):
    value = write(linestring(*line, kind=8))
    agrees(value)
    holds_arcs(value)


def test_curves_inside_of_other_curves_hold_their_arcs():
    arc = linestring((0, 0), (1, 1), (2, 0), kind=8)
    closed = linestring((0, 0), (2, 0), (0, 0), kind=8)
    compound = multi(9, arc, linestring((2, 0), (0, 0)))
    for shape in (
        compound,
        multi(10, closed),
        multi(10, compound, linestring((0, 0), (1, 0), (0, 0))),
        multi(11, arc, compound, linestring((9, 9), (8, 8))),
        multi(12, multi(10, compound), polygon(SQUARE)),
        collection(point(1, 2), multi(12, multi(10, closed))),
    ):
        for big in (False, True):
            holds_arcs(write(with_dialect(shape, big=big)))
            agrees(write(with_dialect(shape, big=big)))


def test_collections_of_curves_without_an_arc_have_the_box_of_their_vertices():
    for shape in (
        multi(9, linestring((1, 2), (3, 4))),
        multi(10, linestring(*SQUARE)),
        multi(11, linestring((1, 2), (3, 4))),
        multi(12, polygon(SQUARE)),
    ):
        value = write(shape)
        info = read_wkb(value)
        assert info.type_code == shape.kind
        assert info.box is None or sides(info.box) == wkb_walk.walk(value).sides


# ---- against the independent walk


@settings(max_examples=400, deadline=None)
@given(geometries())
def test_any_tree_reads_like_the_independent_walk(shape):
    agrees(write(shape))


@settings(max_examples=200, deadline=None)
@given(geometries(kinds=tuple(NAMES)))
def test_any_tree_with_curves_reads_like_the_independent_walk(shape):
    agrees(write(shape))


def test_many_trees_read_like_the_independent_walk():
    wrong = []
    for shape in make_geometries(seed=20261116, count=40_000):
        value = write(shape)
        problem = difference(value, read_wkb(value))
        if problem:
            wrong.append(problem)
    assert wrong[:5] == []


# ---- the corpus


def cases(corpus):
    csv.field_size_limit(10**9)
    with open(corpus / "wkb" / "wkb_cases_dev.csv", newline="") as rows:
        return list(csv.DictReader(rows))


def expected_sides(row):
    names = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")
    result = tuple(float(row[name]) if row[name] else None for name in names)
    return None if result[0] is None or result[1] is None else result


def test_agreed_cases_of_the_corpus_match_bit_for_bit(corpus):
    rows = [row for row in cases(corpus) if row["verdict"] == "agree"]
    assert len(rows) == 399
    wrong = []
    for row in rows:
        info = read_wkb(bytes.fromhex(row["hex"]))
        result = sides(info.box)
        want = expected_sides(row)
        same = (result is None) == (want is None) and (
            result is None
            or all(
                a is b is None or struct.pack("d", a) == struct.pack("d", b) for a, b in zip(result, want, strict=True)
            )
        )
        srid = int(row["srid"]) if row["srid"] else None
        if not same or info.type_code != int(row["top_type"]) or info.srid != srid:
            wrong.append((row["case_id"], info, want))
    assert wrong == []


def test_malformed_and_unsupported_cases_of_the_corpus_are_typed_errors(corpus):
    rows = [row for row in cases(corpus) if row["verdict"] in ("malformed", "unsupported_type")]
    assert len(rows) == 52
    for row in rows:
        fault_of(bytes.fromhex(row["hex"]))


def test_contested_cases_of_the_corpus_follow_our_rules(corpus):
    """Trailing bytes and other byte orders are errors; mixed dimensions and open rings are read."""
    rows = [row for row in cases(corpus) if row["verdict"] == "contested"]
    assert len(rows) == 91
    seen = set()
    for row in rows:
        value = bytes.fromhex(row["hex"])
        if row["note"].startswith("walker: byte order"):
            seen.add("byte order")
            assert fault_of(value).offset == 9
        elif int(row["trailing_bytes"]) > 0:
            seen.add("trailing")
            assert fault_of(value).offset == len(value) - int(row["trailing_bytes"])
        else:
            seen.add("open ring" if "LinearRing" in row["note"] else "mixed dimensions")
            info = read_wkb(value)
            assert (sides(info.box), info.type_code) == (expected_sides(row), int(row["top_type"]))
    assert seen == {"byte order", "trailing", "open ring", "mixed dimensions"}


def sedona_rows(corpus, name):
    with open(corpus / "wkb" / "sedona-testing" / name, newline="") as rows:
        return list(csv.DictReader(rows, delimiter="\t"))


@pytest.mark.parametrize("dialect", ["wkb-le", "wkb-be", "ewkb-le", "ewkb-be"])
def test_sedona_examples_have_the_box_of_their_text(corpus, dialect):
    texts = sedona_rows(corpus, "example-wkt.tsv")
    values = sedona_rows(corpus, f"example-{dialect}.tsv")
    assert len(texts) == len(values) == 136
    for text, value in zip(texts, values, strict=True):
        if value["geometry"] in ("", "NA"):
            assert text["geometry"] in ("", "NA")
            continue
        same_as_shapely(bytes.fromhex(value["geometry"]), shapely.from_wkt(text["geometry"]))


def same_as_shapely(value: bytes, shape) -> None:
    info = read_wkb(value)
    coordinates = shapely.get_coordinates(shape, include_z=True, include_m=True)
    want = []
    for axis in range(4):
        numbers = coordinates[:, axis][~np.isnan(coordinates[:, axis])]
        want.append((numbers.min(), numbers.max()) if len(numbers) else (None, None))
    (x0, x1), (y0, y1), (z0, z1), (m0, m1) = want
    assert sides(info.box) == (None if x0 is None or y0 is None else (x0, y0, x1, y1, z0, z1, m0, m1))
    assert info.empty == shapely.is_empty(shape)
    kind = {0: 1, 1: 2, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7}[shapely.get_type_id(shape)]
    assert info.type_code % 1000 == kind
    if not shapely.is_empty(shape):  # GEOS forgets the dimensions of some empties
        assert info.type_code // 1000 == shapely.has_z(shape) + 2 * shapely.has_m(shape)


def test_geoarrow_examples_have_the_box_of_their_text(corpus):
    files = [path for path in (corpus / "wkb" / "geoarrow-c").glob("*wkb") if path.with_suffix(".wkt").exists()]
    assert len(files) >= 58
    for file in files:
        texts = [line for line in file.with_suffix(".wkt").read_text().splitlines() if line]
        values = wkb_walk.split(file.read_bytes())
        assert len(values) == len(texts), file.name
        for text, value in zip(texts, values, strict=True):
            same_as_shapely(value, shapely.from_wkt(text))
