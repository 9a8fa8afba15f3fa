"""The compiled walk over WKB values: boxes, type codes and faults of a whole column in one pass.

Importing this module loads numba and the machine code, which is cached on disk next to this file (or in the
user's cache folder); the first import on a machine compiles it. Everything is in one file because numba
notices a change in the file of the cached function only.

Nothing here allocates by a number read from the data: counts are compared with the bytes left first.
"""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = [
    "CELLS",
    "FAULT_ARC_POINTS",
    "FAULT_BYTE_ORDER",
    "FAULT_CHILD_TYPE",
    "FAULT_COUNT",
    "FAULT_NESTING",
    "FAULT_NONE",
    "FAULT_TRAILING",
    "FAULT_TRUNCATED",
    "FAULT_TYPE",
    "MAX_NESTING",
    "NO_SRID",
    "OPEN_ARC",
    "OPEN_CURVE",
    "OPEN_NONE",
    "OPEN_RANGE",
    "WORK_WORDS",
    "new_circle",
    "scan",
]

MAX_NESTING = 128
"""How many collections may lie around a geometry."""
WORK_WORDS = 8 + 6 + 5 + 2 + 2 * MAX_NESTING
"""How many words of scratch memory `scan` needs."""
NO_SRID = -(2**40)
"""Stands for the SRID of a value that has none: no 32-bit number."""

# Why a value cannot be read. The column has no bound.
FAULT_NONE = 0
FAULT_TRUNCATED = 1
FAULT_BYTE_ORDER = 2
FAULT_TYPE = 3
FAULT_COUNT = 4
FAULT_NESTING = 5
FAULT_CHILD_TYPE = 6
FAULT_ARC_POINTS = 7
FAULT_TRAILING = 8

# Why a value that can be read has no bound.
OPEN_NONE = 0
OPEN_ARC = 1
OPEN_CURVE = 2
OPEN_RANGE = 3

CELLS = 4096
"""The circle of longitudes is cut into this many cells: gaps narrower than one are not looked for."""

# Rounding of sines, cosines and cross products stays below 1e-14 degrees; this is outward and generous.
_PAD = 1e-10
_NEARLY_ANTIPODAL = 1e-12

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)

_X, _Y, _X2, _Y2, _Z, _Z2, _M, _M2 = range(8)


_jit = njit(nogil=True, error_model="numpy")
_inlined = njit(nogil=True, error_model="numpy", inline="always")


# ---- memory -------------------------------------------------------------------------------------
#
# Everything is reached by address, inputs and results alike. An array argument would cost two atomic
# reference counts in every call, which is more than the walk over a small polygon.


def _load(bits, llvm_type, result):
    """Make an intrinsic that loads an unaligned little-endian word, or a big-endian one with `swap`."""

    @intrinsic
    def load(typing_context, address, swap):
        def generate(context, builder, signature, arguments):
            word = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], word.as_pointer()), align=1)
            if bits > 8:
                function = builder.module.declare_intrinsic("llvm.bswap", [word])
                value = builder.select(arguments[1], builder.call(function, [value]), value)
            return builder.bitcast(value, llvm_type)

        return result(types.int64, types.boolean), generate

    return load


def _store(llvm_type, kind):
    """Make an intrinsic that stores the word number `index` behind an address."""

    @intrinsic
    def store(typing_context, address, index, value):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], llvm_type.as_pointer())
            builder.store(arguments[2], builder.gep(pointer, [arguments[1]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, kind), generate

    return store


_load_u8 = _load(8, ir.IntType(8), types.uint8)
_load_u32 = _load(32, ir.IntType(32), types.uint32)
_load_i64 = _load(64, ir.IntType(64), types.int64)
_load_f64 = _load(64, ir.DoubleType(), types.float64)
_set = _store(ir.DoubleType(), types.float64)
_set_int = _store(ir.IntType(64), types.int64)
_set_byte = _store(ir.IntType(8), types.uint8)


@_inlined
def _get(address, index):
    return _load_f64(address + 8 * index, False)


@_inlined
def _get_int(address, index):
    return _load_i64(address + 8 * index, False)


# ---- coordinates on a plane ---------------------------------------------------------------------


@_inlined
def _extend_axis(address, count, stride, swap, box, low, high):
    """Widen one axis of the box by a coordinate sequence; a NaN compares false and so is skipped."""
    least, most = _get(box, low), _get(box, high)
    for _ in range(count):
        value = _load_f64(address, swap)
        least = value if value < least else least
        most = value if value > most else most
        address += stride
    _set(box, low, least)
    _set(box, high, most)


@_inlined
def _extend_x_and_y(address, count, stride, swap, box):
    xmin, ymin, xmax, ymax = _get(box, _X), _get(box, _Y), _get(box, _X2), _get(box, _Y2)
    for _ in range(count):
        x, y = _load_f64(address, swap), _load_f64(address + 8, swap)
        xmin = x if x < xmin else xmin
        xmax = x if x > xmax else xmax
        ymin = y if y < ymin else ymin
        ymax = y if y > ymax else ymax
        address += stride
    _set(box, _X, xmin)
    _set(box, _Y, ymin)
    _set(box, _X2, xmax)
    _set(box, _Y2, ymax)


@_jit
def _extend_plane(address, count, stride, swap, box):
    # One loop for each byte order: the usual one then has no trace of swapping.
    if swap:
        _extend_x_and_y(address, count, stride, True, box)
    else:
        _extend_x_and_y(address, count, stride, False, box)


@_jit
def _extend_z_m(address, count, stride, swap, has_z, has_m, box):
    if has_z:
        _extend_axis(address + 16, count, stride, swap, box, _Z, _Z2)
    if has_m:
        _extend_axis(address + (24 if has_z else 16), count, stride, swap, box, _M, _M2)


@_inlined
def _extend_x(x, box):
    _set(box, _X, min(_get(box, _X), x))
    _set(box, _X2, max(_get(box, _X2), x))


@_inlined
def _extend_y(y, box):
    _set(box, _Y, min(_get(box, _Y), y))
    _set(box, _Y2, max(_get(box, _Y2), y))


@_inlined
def _reset(box):
    for low in (_X, _Y, _Z, _M):
        _set(box, low, math.inf)
    for high in (_X2, _Y2, _Z2, _M2):
        _set(box, high, -math.inf)


# ---- circular arcs ------------------------------------------------------------------------------


@_jit
def _extend_arc(x0, y0, x1, y1, x2, y2, box):
    """Widen the box, which holds the three points, by the circular arc through them; false if it cannot.

    Positions are taken relative to point 1, so that rounding is relative to the size of the arc.
    """
    ax, ay, bx, by = x0 - x1, y0 - y1, x2 - x1, y2 - y1
    a2, b2 = ax * ax + ay * ay, bx * bx + by * by
    if not (math.isfinite(a2) and math.isfinite(b2)):
        return False
    if (ax == 0.0 and ay == 0.0) or (bx == 0.0 and by == 0.0):
        return True  # two points are one: a straight line between points of the box
    if min(a2, b2) < 1e-280:
        return False  # products of the differences would vanish
    # Coordinates are rounded to their last digit, differences of them lose no more than that.
    grain = 4e-16 * (max(abs(x0), abs(x1), abs(x2)) + max(abs(y0), abs(y1), abs(y2)))
    if x0 == x2 and y0 == y2:  # a whole circle: point 1 is opposite
        radius = math.sqrt(a2) / 2.0 * (1.0 + 1e-14) + grain
        _extend_x(x1 + ax / 2.0 - radius, box)
        _extend_x(x1 + ax / 2.0 + radius, box)
        _extend_y(y1 + ay / 2.0 - radius, box)
        _extend_y(y1 + ay / 2.0 + radius, box)
        return True
    size = math.sqrt(a2) * math.sqrt(b2)
    cross = ax * by - ay * bx
    bend = abs(cross) / size  # the sine of the angle at point 1
    if bend < 1e-5:
        if ax * bx + ay * by > 0.0:
            return False  # point 1 is not between the others: the circle is as good as infinite
        # The arc turns by twice the bend. It strays from its chord by at most the chord times half of that.
        reach = math.hypot(bx - ax, by - ay) * (bend + 1e-15) + grain
        _extend_x(min(x0, x2) - reach, box)
        _extend_x(max(x0, x2) + reach, box)
        _extend_y(min(y0, y2) - reach, box)
        _extend_y(max(y0, y2) + reach, box)
        return True
    cx, cy = (by * a2 - ay * b2) / (2.0 * cross), (ax * b2 - bx * a2) / (2.0 * cross)
    radius = math.hypot(cx, cy)
    slack = (1e-14 * radius + grain) / bend
    # A place on the circle is on the arc when it is on point 1's side of the chord; in doubt it is.
    side_of_1 = (by - ay) * ax - (bx - ax) * ay
    doubt = (math.hypot(bx - ax, by - ay) + slack) * (1e-12 * radius + slack)
    for quarter in range(4):
        dx = radius if quarter == 0 else -radius if quarter == 1 else 0.0
        dy = radius if quarter == 2 else -radius if quarter == 3 else 0.0
        side = (bx - ax) * (cy + dy - ay) - (by - ay) * (cx + dx - ax)
        if side * side_of_1 > 0.0 or abs(side) <= doubt:
            if quarter < 2:
                _extend_x(x1 + (cx + dx) + math.copysign(slack, dx), box)
            else:
                _extend_y(y1 + (cy + dy) + math.copysign(slack, dy), box)
    return True


@_jit
def _extend_arcs(address, count, stride, swap, box):
    """Widen the box by every arc of a circular string: points 0 1 2, then 2 3 4, and so on."""
    bounded = True
    for first in range(0, count - 2, 2):
        p0 = address + first * stride
        p1, p2 = p0 + stride, p0 + 2 * stride
        bounded &= _extend_arc(
            _load_f64(p0, swap),
            _load_f64(p0 + 8, swap),
            _load_f64(p1, swap),
            _load_f64(p1 + 8, swap),
            _load_f64(p2, swap),
            _load_f64(p2 + 8, swap),
            box,
        )
    return bounded


# ---- longitudes on a circle ---------------------------------------------------------------------
#
# A circle is a block of words: how many intervals it holds, the ends of the first (most values have one, which
# then never touches the cells), and for each cell the westernmost and the easternmost end in it and how many
# intervals begin there less how many end: while that sum is positive there is no gap.

_WEST, _EAST, _LOWS = 1, 2, 3
_HIGHS, _LINKS = _LOWS + CELLS, _LOWS + 2 * CELLS


def new_circle() -> NDArray[np.float64]:
    """A circle with no interval on it."""
    circle = np.zeros(_LINKS + CELLS)
    circle[_LOWS:_HIGHS] = math.inf
    circle[_HIGHS:_LINKS] = -math.inf
    return circle


@_inlined
def _widen_cell(circle, cell, x):
    _set(circle, _LOWS + cell, min(_get(circle, _LOWS + cell), x))
    _set(circle, _HIGHS + cell, max(_get(circle, _HIGHS + cell), x))


@_jit
def _mark_flat(west, east, circle):
    first = min(CELLS - 1, int((west + 180.0) * (CELLS / 360.0)))
    last = min(CELLS - 1, int((east + 180.0) * (CELLS / 360.0)))
    _widen_cell(circle, first, west)
    _widen_cell(circle, last, east)
    _set(circle, _LINKS + first, _get(circle, _LINKS + first) + 1.0)
    _set(circle, _LINKS + last, _get(circle, _LINKS + last) - 1.0)


@_jit
def _mark(west, east, circle):
    if west > east:
        _mark_flat(west, 180.0, circle)
        _mark_flat(-180.0, east, circle)
    else:
        _mark_flat(west, east, circle)


@_jit
def _add_interval(west, east, circle):
    count = _get(circle, 0)
    if count == 0.0:
        _set(circle, _WEST, west)
        _set(circle, _EAST, east)
    else:
        if count == 1.0:
            _mark(_get(circle, _WEST), _get(circle, _EAST), circle)
        _mark(west, east, circle)
    _set(circle, 0, count + 1.0)


@_jit
def _cover(circle, box):
    """Set x of the box to the shortest interval over all that were added: all but the widest gap."""
    if _get(circle, 0) == 1.0:
        _set(box, _X, _get(circle, _WEST))
        _set(box, _X2, _get(circle, _EAST))
        return
    west, reached, widest, gap_from, gap_to, running = math.inf, -math.inf, 0.0, 0.0, 0.0, 0.0
    for cell in range(CELLS):
        low, high = _get(circle, _LOWS + cell), _get(circle, _HIGHS + cell)
        if low <= high:
            if west == math.inf:
                west = low
            elif running == 0.0 and low - reached > widest:
                widest, gap_from, gap_to = low - reached, reached, low
            reached = max(reached, high)
        running += _get(circle, _LINKS + cell)
    around = widest > (west + 180.0) + (180.0 - reached)
    _set(box, _X, gap_to if around else west)
    _set(box, _X2, gap_from if around else reached)


@_jit
def _clear(circle):
    if _get(circle, 0) > 1.0:
        for cell in range(CELLS):
            _set(circle, _LOWS + cell, math.inf)
            _set(circle, _HIGHS + cell, -math.inf)
            _set(circle, _LINKS + cell, 0.0)
    _set(circle, 0, 0.0)


# ---- edges over the Earth -----------------------------------------------------------------------

_FLATTENING, _MARGIN, _WIDEST = range(3)


@_jit
def _turn(x1, x2):
    """Degrees of longitude from x1 to x2 by the shorter way, east positive."""
    turn = x2 - x1
    return turn - 360.0 if turn > 180.0 else turn + 360.0 if turn < -180.0 else turn


@_inlined
def _all_latitudes(box):
    _set(box, _Y, -90.0)
    _set(box, _Y2, 90.0)


@_jit
def _great_circle(w, b1, b2):
    """How the great circle between two latitudes, `w` of longitude apart, runs; everything in radians.

    Returns its length, the distance of one end from the antipode of the other, whether it has its greatest
    latitude (1), its least (-1) or neither (0) between its ends, and how far from the equator that is.
    """
    ax, az = math.cos(b1), math.sin(b1)
    bx, by, bz = math.cos(b2) * math.cos(w), math.cos(b2) * math.sin(w), math.sin(b2)
    # The normal: (a - b) x (a + b) = 2 a x b, and a - b by half angles, so that ends which are close together
    # lose no digits.
    half = 0.5 * (b1 - b2)
    dx = 2.0 * math.cos(b2) * math.sin(0.5 * w) ** 2 - 2.0 * math.sin(half) * math.sin(0.5 * (b1 + b2))
    dy, dz = -by, 2.0 * math.sin(half) * math.cos(0.5 * (b1 + b2))
    sx, sy, sz = ax + bx, by, az + bz
    nx, ny, nz = dy * sz - dz * sy, dz * sx - dx * sz, dx * sy - dy * sx
    from_antipode = math.sqrt(sx * sx + sy * sy + sz * sz)
    length = 2.0 * math.atan2(math.sqrt(dx * dx + dy * dy + dz * dz), from_antipode)
    # The northward speed at both ends: it turns from one sign to the other where the crest lies.
    speed_a, speed_b = -ny * ax, nx * by - ny * bx
    bend = 1 if speed_a > 0.0 > speed_b else -1 if speed_a < 0.0 < speed_b else 0
    return length, from_antipode, bend, math.atan2(math.hypot(nx, ny), abs(nz))


@_jit
def _auxiliary_longitude(turn, widest, b1, b2, f):
    """The longitude that a geodesic takes on the auxiliary sphere, rounded up but not beyond `widest`.

    Karney 2013, eq. 8: w = turn + f sin(a0) I3, with I3 the integral along the great circle of
    (2 - f) / (1 + (1 - f) sqrt(1 + e'**2 sin(b)**2)). While a step is less than half of the one before, it bounds
    all that follow; where steps do not shrink, close to the antipode, `widest` is the answer.
    """
    eccentricity = f * (2.0 - f) / ((1.0 - f) * (1.0 - f))
    z1, z2 = math.sin(b1), math.sin(b2)
    w, step = widest, math.inf
    for _ in range(30):
        length, _, _, top = _great_circle(w, b1, b2)
        integral = 0.0
        for node in range(len(_NODES)):
            s = 0.5 * length * (1.0 + _NODES[node])
            z = (math.sin(length - s) * z1 + math.sin(s) * z2) / math.sin(length)
            integral += _WEIGHTS[node] / (1.0 + (1.0 - f) * math.sqrt(1.0 + eccentricity * z * z))
        better = turn + f * math.cos(top) * (2.0 - f) * 0.5 * length * integral
        before, step, w = step, abs(better - w), better
        if step < 1e-13:
            return min(widest, w + 1e-12)
        if not step < 0.5 * before:
            break
    return widest


@_jit
def _extend_edge(turn, lat1, lat2, edges, box):
    """Widen the latitudes by the edge between two vertices that are `turn` < 180 degrees of longitude apart.

    Returns the length of the edge in radians. On a sphere the edge is a great circle. On an ellipsoid a geodesic is
    a great circle between the reduced latitudes on an auxiliary sphere, over a longitude w with
    turn <= w <= turn / (1 - f) and w <= pi. Its greatest latitude grows with w, so that an upper bound of w bounds it.
    """
    f = _get(edges, _FLATTENING)
    w = min(math.radians(turn) / (1.0 - f), math.pi)
    b1, b2 = math.radians(lat1), math.radians(lat2)
    if f > 0.0:
        b1, b2 = math.atan((1.0 - f) * math.tan(b1)), math.atan((1.0 - f) * math.tan(b2))
    length, from_antipode, bend, top = _great_circle(w, b1, b2)
    if from_antipode < _NEARLY_ANTIPODAL or math.degrees(length) > _get(edges, _WIDEST):
        _all_latitudes(box)
        return length
    south, north = min(lat1, lat2), max(lat1, lat2)
    if bend != 0:
        if f > 0.0:
            if math.degrees(length) < 178.0:  # further on there is more than one geodesic
                w = _auxiliary_longitude(math.radians(turn), w, b1, b2, f)
                length, from_antipode, bend, top = _great_circle(w, b1, b2)
            top = math.atan(math.tan(top) / (1.0 - f))
        pad = _PAD + math.degrees(1e-15 / from_antipode)
        # No place of an edge is more than half its length beyond its ends: a guard for tiny edges.
        reach = math.degrees(0.5 * length) * (1.0 + 2.0 * f) + pad
        if bend > 0:
            north = max(north, min(math.degrees(top) + pad, north + reach))
        elif bend < 0:
            south = min(south, max(-math.degrees(top) - pad, south - reach))
    slack = _get(edges, _MARGIN) * length
    _extend_y(max(-90.0, south - slack), box)
    _extend_y(min(90.0, north + slack), box)
    return length


# What `_extend_path` returns for a ring.
_TURNS, _TOUCHES_POLE, _SOUTH, _NORTH, _SPAN = range(5)


@_jit
def _extend_path(address, count, stride, swap, is_ring, edges, circle, box, ring):
    """Widen box and circle by a path of edges; false when a coordinate is off the Earth.

    A path covers one interval of longitude. Its ends are kept as (turns around the Earth, longitude), so that
    they are the exact longitudes of vertices however often 180 degrees is crossed.
    """
    started, touches_pole = False, False
    x = y = first_x = first_y = west = east = 0.0
    turns = west_turns = east_turns = 0
    south, north, longest = math.inf, -math.inf, 0.0
    # A ring is closed even where its last vertex does not repeat the first.
    for step in range(count + 1 if is_ring and count > 1 else count):
        if step < count:
            at = address + step * stride
            next_x, next_y = _load_f64(at, swap), _load_f64(at + 8, swap)
        else:
            next_x, next_y = first_x, first_y
        if abs(next_x) > 180.0 or abs(next_y) > 90.0:
            return False
        if not math.isnan(next_y):
            _extend_y(next_y, box)
            south, north = min(south, next_y), max(north, next_y)
        if math.isnan(next_x) or math.isnan(next_y):
            # Parquet, Bounding Box: NaN is skipped per axis. The edge goes on to the next vertex that has a place.
            if not math.isnan(next_x):
                _add_interval(next_x, next_x, circle)
            continue
        touches_pole |= abs(next_y) == 90.0
        if not started:
            started, first_x, first_y, west, east = True, next_x, next_y, next_x, next_x
        else:
            apart = abs(next_x - x)
            if abs(y) == 90.0 or abs(next_y) == 90.0:  # along a meridian; between the poles, along any
                pass
            elif apart == 180.0:  # over a pole
                touches_pole = True
                if y + next_y >= 0.0:
                    _set(box, _Y2, 90.0)
                if y + next_y <= 0.0:
                    _set(box, _Y, -90.0)
            else:
                if apart > 180.0:
                    turns += 1 if next_x < x else -1
                longest = max(longest, _extend_edge(abs(_turn(x, next_x)), y, next_y, edges, box))
            if turns < west_turns or (turns == west_turns and next_x < west):
                west_turns, west = turns, next_x
            if turns > east_turns or (turns == east_turns and next_x > east):
                east_turns, east = turns, next_x
        x, y = next_x, next_y
    if started:
        span = 360.0 * (east_turns - west_turns) + (east - west)
        stray = _get(edges, _MARGIN) * longest
        _add_path(touches_pole, span, west, east, stray, max(abs(south), abs(north)), circle)
        _set(ring, _SPAN, span)
    else:
        _set(ring, _SPAN, 0.0)
    _set(ring, _TURNS, turns)
    _set(ring, _TOUCHES_POLE, touches_pole)
    _set(ring, _SOUTH, south)
    _set(ring, _NORTH, north)
    return True


@_jit
def _add_path(touches_pole, span, west, east, stray, latitude, circle):
    """Add the longitudes of a path that reaches `latitude` and whose edges may stray sideways by some degrees."""
    if stray > 0.0 and latitude + stray < 90.0:
        aside = stray / math.cos(math.radians(latitude + stray))
        span += 2.0 * aside
        west = west - aside if west - aside >= -180.0 else west - aside + 360.0
        east = east + aside if east + aside <= 180.0 else east + aside - 360.0
    elif stray > 0.0:
        touches_pole = True
    if touches_pole or span >= 360.0:  # a pole has every longitude
        _add_interval(-180.0, 180.0, circle)
    else:
        _add_interval(west, east, circle)


@_jit
def _ring_area(address, count, stride, swap):
    """The signed area on the unit sphere between a ring that winds around no pole and the equator."""
    area = 0.0
    for step in range(count):
        at, to = address + step * stride, address + (step + 1 if step + 1 < count else 0) * stride
        turn = math.radians(_turn(_load_f64(at, swap), _load_f64(to, swap)))
        t1 = math.tan(math.radians(_load_f64(at + 8, swap)) / 2.0)
        t2 = math.tan(math.radians(_load_f64(to + 8, swap)) / 2.0)
        area += 2.0 * math.atan2(math.tan(turn / 2.0) * (t1 + t2), 1.0 + t1 * t2)
    return area


# What the rings of a polygon have in common: how many wind around the Earth, and on which hemispheres.
_WINDING, _HEMISPHERES = range(2)
_NORTHERN, _SOUTHERN = 1, 2


@_jit
def _extend_inside(address, count, stride, swap, ring, inside, circle, box):
    """Widen by what a ring encloses beyond its own edges.

    WKB does not define which side of a ring is inside. A ring that keeps to one hemisphere encloses the part
    of it there; one that winds around the Earth encloses that hemisphere's pole. Where neither side is a
    clear choice (a ring that touches a pole or winds, on both hemispheres; more than half of the Earth
    within the meridians of the ring) both sides are covered.
    """
    northern, southern = _get(ring, _SOUTH) >= 0.0, _get(ring, _NORTH) <= 0.0
    if _get(ring, _TOUCHES_POLE) != 0.0:
        if not northern and not southern:
            _all_latitudes(box)
    elif _get(ring, _TURNS) != 0.0:
        _set_int(inside, _WINDING, _get_int(inside, _WINDING) + 1)
        here = _NORTHERN if northern else _SOUTHERN if southern else _NORTHERN | _SOUTHERN
        _set_int(inside, _HEMISPHERES, _get_int(inside, _HEMISPHERES) | here)
    elif _get(ring, _SPAN) > 180.0 and not northern and not southern:
        # A NaN area, from a NaN vertex, is not known to be small.
        if not abs(_ring_area(address, count, stride, swap)) < 2.0 * math.pi - 1e-9:
            _all_latitudes(box)
            _add_interval(-180.0, 180.0, circle)


@_jit
def _close_polygon(inside, box):
    """A pole is inside when an odd number of rings wind around it: a shell and a hole leave a band."""
    if _get_int(inside, _WINDING) % 2 == 1:
        if _get_int(inside, _HEMISPHERES) & _NORTHERN:
            _set(box, _Y2, 90.0)
        if _get_int(inside, _HEMISPHERES) & _SOUTHERN:
            _set(box, _Y, -90.0)


# ---- geometries ---------------------------------------------------------------------------------


@_jit
def _may_hold(parent, child):
    if parent == 7:  # GeometryCollection
        return True
    if parent == 4:  # MultiPoint
        return child == 1
    if parent == 5:  # MultiLineString
        return child == 2
    if parent == 6 or parent == 15:  # MultiPolygon, PolyhedralSurface
        return child == 3
    if parent == 9:  # CompoundCurve
        return child == 2 or child == 8
    if parent == 10 or parent == 11:  # CurvePolygon, MultiCurve
        return child == 2 or child == 8 or child == 9
    if parent == 12:  # MultiSurface
        return child == 3 or child == 10
    return child == 17  # TIN


# What `_walk` returns for a value.
_DIMENSIONS, _BASIC, _SRID, _OFFSET, _DETAIL, _OPEN = range(6)


@_inlined
def _set_fault(about, offset, detail):
    _set_int(about, _OFFSET, offset)
    _set_int(about, _DETAIL, detail)


@_jit
def _walk(address, size, geographic, edges, circle, box, stack, ring, inside, about):
    """Read one value and widen box and circle by it; returns the fault, `about` the rest."""
    at, depth = 0, 0
    _set_int(about, _SRID, NO_SRID)
    _set_int(about, _OPEN, OPEN_NONE)
    while True:
        _set_fault(about, at, 0)
        if size - at < 5:
            return FAULT_TRUNCATED
        order = np.int64(_load_u8(address + at, False))
        if order > 1:
            _set_fault(about, at, order)
            return FAULT_BYTE_ORDER
        swap = order == 0
        raw = np.int64(_load_u32(address + at + 1, swap))
        _set_fault(about, at + 1, raw)
        plain = raw & 0x1FFFFFFF
        # ISO adds 1000 for Z, 2000 for M; compared rather than divided, which would cost as much as a ring.
        dimensions = 0 if plain < 1000 else 1 if plain < 2000 else 2 if plain < 3000 else 3
        basic = plain - 1000 * dimensions
        if basic < 1 or basic > 17 or basic == 13 or basic == 14:
            return FAULT_TYPE
        has_z = (raw & 0x80000000) != 0 or dimensions == 1 or dimensions == 3
        has_m = (raw & 0x40000000) != 0 or dimensions >= 2
        if depth > 0 and not _may_hold(_get_int(stack, 2 * depth - 1), basic):
            return FAULT_CHILD_TYPE
        at += 5
        if raw & 0x20000000:
            _set_fault(about, at, 0)
            if size - at < 4:
                return FAULT_TRUNCATED
            if depth == 0:
                _set_int(about, _SRID, np.int32(_load_u32(address + at, swap)))
            at += 4
        if depth == 0:
            _set_int(about, _DIMENSIONS, (1 if has_z else 0) + (2 if has_m else 0))
            _set_int(about, _BASIC, basic)
        stride = 16 + (8 if has_z else 0) + (8 if has_m else 0)

        _set_fault(about, at, 0)
        count = 1
        if basic != 1:
            if size - at < 4:
                return FAULT_TRUNCATED
            count = np.int64(_load_u32(address + at, swap))
            _set_int(about, _DETAIL, count)
            at += 4
        if basic == 1 or basic == 2 or basic == 8:
            if count * stride > size - at:
                return FAULT_TRUNCATED if basic == 1 else FAULT_COUNT
            here = address + at
            if not geographic:
                _extend_plane(here, count, stride, swap, box)
            elif not _extend_path(here, count, stride, swap, False, edges, circle, box, ring):
                _set_int(about, _OPEN, OPEN_RANGE)
            _extend_z_m(here, count, stride, swap, has_z, has_m, box)
            if basic == 8 and count > 0:
                # ISO 13249-3: a circular string has an odd number of points, three at least, or none.
                if count < 3 or count % 2 == 0:
                    return FAULT_ARC_POINTS
                if geographic:
                    _set_int(about, _OPEN, OPEN_CURVE)
                elif not _extend_arcs(here, count, stride, swap, box):
                    _set_int(about, _OPEN, OPEN_ARC)
            at += count * stride
        elif basic == 3 or basic == 17:
            if count * 4 > size - at:
                return FAULT_COUNT
            _set_int(inside, _WINDING, 0)
            _set_int(inside, _HEMISPHERES, 0)
            for _ in range(count):
                _set_fault(about, at, 0)
                if size - at < 4:
                    return FAULT_TRUNCATED
                points = np.int64(_load_u32(address + at, swap))
                _set_int(about, _DETAIL, points)
                at += 4
                if points * stride > size - at:
                    return FAULT_COUNT
                here = address + at
                if not geographic:
                    _extend_plane(here, points, stride, swap, box)
                elif _extend_path(here, points, stride, swap, True, edges, circle, box, ring):
                    _extend_inside(here, points, stride, swap, ring, inside, circle, box)
                else:
                    _set_int(about, _OPEN, OPEN_RANGE)
                _extend_z_m(here, points, stride, swap, has_z, has_m, box)
                at += points * stride
            if geographic:
                _close_polygon(inside, box)
        else:
            # The shortest geometry inside, an empty one, has nine bytes.
            if count * 9 > size - at:
                return FAULT_COUNT
            if depth == MAX_NESTING:
                return FAULT_NESTING
            if geographic and basic == 10 and count > 0:  # its rings may be arcs, its inside may hold a pole
                _set_int(about, _OPEN, OPEN_CURVE)
            if count > 0:
                _set_int(stack, 2 * depth, count)
                _set_int(stack, 2 * depth + 1, basic)
                depth += 1
                continue
        while depth > 0:
            left = _get_int(stack, 2 * depth - 2) - 1
            _set_int(stack, 2 * depth - 2, left)
            if left > 0:
                break
            depth -= 1
        if depth == 0:
            break
    _set_fault(about, at, size - at)
    return FAULT_NONE if at == size else FAULT_TRAILING


# ---- columns ------------------------------------------------------------------------------------

COUNT_NULL, COUNT_EMPTY, COUNT_BAD, COUNT_OPEN = range(4)
FIRST_BAD_ROW, FIRST_BAD_FAULT, FIRST_BAD_OFFSET, FIRST_BAD_DETAIL, FIRST_OPEN_ROW, FIRST_OPEN_REASON = range(6)


@_inlined
def _count(counts, what):
    _set_int(counts, what, _get_int(counts, what) + 1)


@njit(
    "void(int64, int64, boolean, int64, int64, int64, boolean, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64)",
    nogil=True,
    error_model="numpy",
    cache=True,
)
def scan(
    data,
    offsets,
    wide,
    validity,
    first,
    rows,
    geographic,
    edges,
    circle,
    box,
    seen,
    counts,
    problems,
    srids,
    row_boxes,
    row_known,
    work,
):
    """Widen `box` by the values of one Arrow binary array and count what it holds.

    All but `wide`, `first`, `rows` and `geographic` are addresses: `data`, `offsets` (64-bit if `wide`) and
    `validity` (0: none) of the array's buffers, of which the slice from `first` on counts; `box` of xmin, ymin,
    xmax, ymax, zmin, zmax, mmin, mmax, infinite where empty; `seen[dimensions, basic type]` of flags;
    `counts` and `problems` as numbered above, the latter from -1 on taking the first of each kind; `srids` of the
    least and the greatest SRID. Unless it is 0, `row_boxes` takes xmin of all rows, then ymin, xmax and ymax, and
    `row_known` which rows have one. The longitudes of geographic values gather on `circle`, chunk after chunk;
    `work` has `WORK_WORDS` words.
    """
    # The box of one value, and the state of it, of its rings and of the collections around.
    value, about, ring, inside, stack = work, work + 8 * 8, work + 8 * 14, work + 8 * 19, work + 8 * 21
    for row in range(rows):
        index = first + row
        if validity != 0 and not (_load_u8(validity + (index >> 3), False) >> (index & 7)) & 1:
            _count(counts, COUNT_NULL)
            continue
        if wide:
            start, end = _get_int(offsets, index), _get_int(offsets, index + 1)
        else:
            start = np.int64(_load_u32(offsets + 4 * index, False))
            end = np.int64(_load_u32(offsets + 4 * index + 4, False))
        address = data + start
        _reset(value)
        intervals = _get(circle, 0)
        if (
            end - start == 21
            and not geographic
            and _load_u8(address, False) == 1
            and _load_u32(address + 1, False) == 1
        ):  # the commonest value by far: a little-endian point in two dimensions
            _extend_x_and_y(address + 5, 1, 16, False, value)
            _set_int(about, _DIMENSIONS, 0)
            _set_int(about, _BASIC, 1)
            _set_int(about, _OPEN, OPEN_NONE)
        else:
            fault = _walk(address, end - start, geographic, edges, circle, value, stack, ring, inside, about)
            if fault != FAULT_NONE:
                if _get_int(problems, FIRST_BAD_ROW) < 0:
                    _set_int(problems, FIRST_BAD_ROW, row)
                    _set_int(problems, FIRST_BAD_FAULT, fault)
                    _set_int(problems, FIRST_BAD_OFFSET, _get_int(about, _OFFSET))
                    _set_int(problems, FIRST_BAD_DETAIL, _get_int(about, _DETAIL))
                _count(counts, COUNT_BAD)
                if row_boxes != 0:
                    _clear(circle)
                continue
            srid = _get_int(about, _SRID)
            if srid != NO_SRID:
                _set_int(srids, 0, min(_get_int(srids, 0), srid))
                _set_int(srids, 1, max(_get_int(srids, 1), srid))
        _set_byte(seen, 18 * _get_int(about, _DIMENSIONS) + _get_int(about, _BASIC), 1)
        reason = _get_int(about, _OPEN)
        if reason != OPEN_NONE:
            if _get_int(problems, FIRST_OPEN_ROW) < 0:
                _set_int(problems, FIRST_OPEN_ROW, row)
                _set_int(problems, FIRST_OPEN_REASON, reason)
            _count(counts, COUNT_OPEN)
        has_x = _get(circle, 0) > intervals if geographic else _get(value, _X) <= _get(value, _X2)
        has_y = _get(value, _Y) <= _get(value, _Y2)
        if not has_x and not has_y and reason == OPEN_NONE:
            _count(counts, COUNT_EMPTY)
        if row_boxes != 0:
            if geographic and has_x:
                _cover(circle, value)
            if has_x and has_y and reason == OPEN_NONE:
                _set_byte(row_known, row, 1)
                _set(row_boxes, row, _get(value, _X))
                _set(row_boxes, rows + row, _get(value, _Y))
                _set(row_boxes, 2 * rows + row, _get(value, _X2))
                _set(row_boxes, 3 * rows + row, _get(value, _Y2))
            if geographic:
                _clear(circle)
        for low in (_X, _Y, _Z, _M):
            _set(box, low, min(_get(box, low), _get(value, low)))
        for high in (_X2, _Y2, _Z2, _M2):
            _set(box, high, max(_get(box, high), _get(value, high)))
    if geographic and _get(circle, 0) > 0.0:
        _cover(circle, box)
