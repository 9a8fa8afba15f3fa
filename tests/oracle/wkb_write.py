"""Write any tree of shapes as WKB: dialect and byte order per level, SRID, NaN, empties, curves."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

__all__ = [
    "CHILD_KINDS",
    "NAMES",
    "Shape",
    "collection",
    "linestring",
    "multi",
    "point",
    "polygon",
    "with_dialect",
    "write",
]

NAN = float("nan")
AXES = {"XY": 2, "XYZ": 3, "XYM": 3, "XYZM": 4}

NAMES = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
    8: "CIRCULARSTRING",
    9: "COMPOUNDCURVE",
    10: "CURVEPOLYGON",
    11: "MULTICURVE",
    12: "MULTISURFACE",
    15: "POLYHEDRALSURFACE",
    16: "TIN",
    17: "TRIANGLE",
}

# OGC 06-103r4 and ISO 13249-3: what each kind of collection may hold.
CHILD_KINDS = {
    4: (1,),
    5: (2,),
    6: (3,),
    7: tuple(NAMES),
    9: (2, 8),
    10: (2, 8, 9),
    11: (2, 8, 9),
    12: (3, 10),
    15: (3,),
    16: (17,),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """One geometry: `points` of a point or line, `rings` of a polygon, or `children` of the rest."""

    kind: int
    dims: str = "XY"
    points: tuple[tuple[float, ...], ...] = ()
    rings: tuple[tuple[tuple[float, ...], ...], ...] = ()
    children: tuple[Shape, ...] = ()
    big: bool = False
    ewkb: bool = False
    srid: int | None = None


def point(*xy: float, dims: str = "XY", **level: object) -> Shape:
    """A point; without numbers the empty one."""
    return Shape(1, dims, points=(tuple(xy),) if xy else (), **level)


def linestring(*points: tuple[float, ...], dims: str = "XY", kind: int = 2, **level: object) -> Shape:
    return Shape(kind, dims, points=tuple(points), **level)


def polygon(*rings, dims: str = "XY", kind: int = 3, **level: object) -> Shape:
    return Shape(kind, dims, rings=tuple(tuple(ring) for ring in rings), **level)


def multi(kind: int, *children: Shape, dims: str = "XY", **level: object) -> Shape:
    return Shape(kind, dims, children=tuple(children), **level)


def collection(*children: Shape, dims: str = "XY", **level: object) -> Shape:
    return Shape(7, dims, children=tuple(children), **level)


def with_dialect(shape: Shape, *, big: bool = False, ewkb: bool = False, srid: int | None = None) -> Shape:
    """The same tree with one byte order and dialect at every level, and the SRID at the top."""
    children = tuple(with_dialect(child, big=big, ewkb=ewkb) for child in shape.children)
    return replace(shape, big=big, ewkb=ewkb, srid=srid, children=children)


def type_code(shape: Shape) -> int:
    """The number that the header holds."""
    has_z, has_m = "Z" in shape.dims, "M" in shape.dims
    if shape.ewkb or shape.srid is not None:
        flags = (0x80000000 if has_z else 0) | (0x40000000 if has_m else 0)
        return shape.kind | flags | (0x20000000 if shape.srid is not None else 0)
    return shape.kind + 1000 * has_z + 2000 * has_m


def write(shape: Shape) -> bytes:
    """The bytes of the tree. Nothing is checked, so that wrong trees can be written too."""
    out = bytearray()
    _write(shape, out)
    return bytes(out)


def _write(shape: Shape, out: bytearray) -> None:
    order = ">" if shape.big else "<"
    out += struct.pack(order + "BI", 0 if shape.big else 1, type_code(shape))
    if shape.srid is not None:
        out += struct.pack(order + "I", shape.srid & 0xFFFFFFFF)
    width = AXES[shape.dims]
    if shape.kind == 1:
        # There is no count to say that a point is empty: all of its ordinates are NaN.
        out += struct.pack(f"{order}{width}d", *(shape.points[0] if shape.points else (NAN,) * width))
    elif shape.kind in (2, 8):
        _write_points(shape.points, width, order, out)
    elif shape.kind in (3, 17):
        out += struct.pack(order + "I", len(shape.rings))
        for ring in shape.rings:
            _write_points(ring, width, order, out)
    else:
        out += struct.pack(order + "I", len(shape.children))
        for child in shape.children:
            _write(child, out)


def _write_points(points, width: int, order: str, out: bytearray) -> None:
    flat = [ordinate for vertex in points for ordinate in vertex]
    out += struct.pack(f"{order}I{len(points) * width}d", len(points), *flat)
