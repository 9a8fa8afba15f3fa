"""Well-known binary: the contents of a value, the fault of one that cannot be read, and its nesting.

ISO and EWKB are read everywhere, mixed byte orders and mixed dimensions inside a collection included. Where
readers of this world disagree, these are the rules here:

- bytes after the geometry are a fault: what they hold is unknown, so a bound would be a guess;
- a byte order other than 0 or 1 is a fault at every level;
- a member may have other dimensions than its collection and adds the axes that it has;
- a ring need not be closed, a polygon need not be valid: its vertices are bounded as they are;
- a coordinate that is NaN adds nothing on its axis; a geometry without any X and Y is empty.
"""

from __future__ import annotations

import enum
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from geolake_nb.errors import GeolakeError, PredicateError

if TYPE_CHECKING:
    from geolake_nb.model.box import Box

__all__ = [
    "MAX_NESTING",
    "MalformedWkbError",
    "UnsupportedWkbError",
    "WkbError",
    "WkbFault",
    "WkbInfo",
    "check_text_nesting",
    "may_nest_deeply",
    "read_wkb",
    "readable_geometry_text",
    "type_name",
]

MAX_NESTING = 300
"""Brackets inside each other; 128 collections, as many as WKB may have here, take 261 of them in GeoJSON."""

_MAX_COLLECTIONS = 128
_COLLECTION_BYTES = 9
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def readable_geometry_text(text: str) -> str | None:
    """Why a text cannot be read as WKT or GeoJSON without harm, `None` where it can be given to a parser.

    >>> readable_geometry_text("POINT (1 2)") is None, readable_geometry_text("") is None
    (True, True)
    >>> readable_geometry_text("POINT (1 2)\\0 and more")
    'the text contains a NUL character'
    >>> readable_geometry_text("GEOMETRYCOLLECTION(" * 100_000)
    'brackets are nested more than 300 deep'
    """
    if "\0" in text:
        return "the text contains a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "the text contains a lone surrogate"
    try:
        check_text_nesting(text)
    except GeolakeError as problem:
        return problem.what
    return None


def check_text_nesting(
    text: str,
    *,
    opening: str = "([{",
    limit: int = MAX_NESTING,
    where: str | None = None,
    error: type[GeolakeError] = PredicateError,
) -> None:
    """Refuse a text whose brackets are nested more deeply than a parser should follow; strings of JSON do not count.

    >>> check_text_nesting("[[1, 2], [3, 4]]", limit=2)
    >>> check_text_nesting("[[[1]]]", limit=2)
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: brackets are nested more than 2 deep; write it flatter
    """
    if sum(map(text.count, opening)) <= limit:
        return
    closing = opening.translate(str.maketrans("([{", ")]}"))
    # Brackets in a string would otherwise hide as many that open.
    codes = np.frombuffer(_JSON_STRING.sub("", text).encode("ascii", "replace"), np.uint8)
    steps = np.zeros(256, np.int8)
    steps[list(opening.encode())], steps[list(closing.encode())] = 1, -1
    if np.cumsum(steps[codes], dtype=np.int64).max(initial=0) > limit:
        raise error(f"brackets are nested more than {limit} deep", where=where, remedy="write it flatter")


def may_nest_deeply(wkb: bytes) -> bool:
    """Whether WKB has room for more collections inside each other than 128, so that it has to be read to know.

    >>> may_nest_deeply(b""), may_nest_deeply(bytes.fromhex("010700000001000000") * 200)
    (False, True)
    """
    if len(wkb) <= _COLLECTION_BYTES * _MAX_COLLECTIONS:
        return False
    (code,) = struct.unpack_from("<I" if wkb[0] == 1 else ">I", wkb, 1)
    # Points, lines and polygons hold nothing but numbers; the upper bits are the flags of EWKB.
    return (code & 0x1FFFFFFF) % 1000 not in (1, 2, 3)


class WkbFault(enum.Enum):
    """Why a value cannot be read."""

    TRUNCATED = "the value ends inside a geometry"
    """A header, a count or a point is truncated."""
    BYTE_ORDER = "byte order {detail} is neither 0 nor 1"
    """The first byte of a geometry is unknown."""
    TYPE = "unknown geometry type {detail}"
    """The type number is none of ISO's or EWKB's that this package reads."""
    COUNT = "a count of {detail} needs more bytes than are left"
    """The number of points, rings or members is impossible."""
    NESTING = "collections are nested more than 128 deep"
    """Deeper than any real data; shallower than the stack of most readers."""
    CHILD_TYPE = "a member of type {detail} does not belong in its collection"
    """For example a polygon in a multipoint."""
    ARC_POINTS = "a circular string of {detail} points"
    """ISO 13249-3 requires an odd number, three at least, or none."""
    TRAILING = "{detail} bytes follow the geometry"
    """What they hold is unknown."""

    def describe(self, detail: int) -> str:
        """The reason in words, with the number that was found.

        >>> WkbFault.BYTE_ORDER.describe(7)
        'byte order 7 is neither 0 nor 1'
        """
        return self.value.format(detail=detail)


class WkbError(GeolakeError, ValueError):
    """A WKB value that cannot be read, with the fault and the offset of the byte where it shows."""

    advice: ClassVar[str] = "Rewrite the value as ISO WKB, or leave its row out."

    def __init__(self, fault: WkbFault, offset: int, detail: int) -> None:
        self.fault = fault
        self.offset = offset
        super().__init__(f"{fault.describe(detail)} (at byte {offset})", remedy="rewrite the value as ISO WKB")


class MalformedWkbError(WkbError):
    """The bytes are not valid WKB."""

    advice: ClassVar[str] = "Look at the byte that the message names: the value is truncated, or not WKB at all."


class UnsupportedWkbError(WkbError):
    """The bytes may be right, but the type is not one that this package reads."""

    advice: ClassVar[str] = "Turn the shape into points, lines or polygons, and write these."


@dataclass(frozen=True, slots=True)
class WkbInfo:
    """The contents of one value."""

    type_code: int
    """The ISO code, such as 1 for a point or 3003 for a polygon with Z and M."""
    srid: int | None
    """The SRID of an EWKB value."""
    box: Box | None
    """The bounding box on a plane; `None` when X or Y has no value, or an arc cannot be bounded."""
    empty: bool
    """Whether there is no X and no Y at all."""


_NAMES = [
    "Geometry",
    "Point",
    "LineString",
    "Polygon",
    "MultiPoint",
    "MultiLineString",
    "MultiPolygon",
    "GeometryCollection",
    "CircularString",
    "CompoundCurve",
    "CurvePolygon",
    "MultiCurve",
    "MultiSurface",
    "Curve",
    "Surface",
    "PolyhedralSurface",
    "TIN",
    "Triangle",
]


def type_name(code: int) -> str:
    """The name of an ISO type code.

    >>> type_name(3), type_name(1001), type_name(3007)
    ('Polygon', 'Point Z', 'GeometryCollection ZM')
    """
    dimensions, basic = divmod(code, 1000)
    if not (0 <= dimensions < 4 and 0 <= basic < len(_NAMES)):
        return f"type {code}"
    return _NAMES[basic] + ("", " Z", " M", " ZM")[dimensions]


def read_wkb(value: bytes | memoryview) -> WkbInfo:
    """Read one value, or raise a `WkbError` with the fault and its offset.

    >>> read_wkb(bytes.fromhex("0101000000000000000000F03F0000000000000040")).box.xmax
    1.0
    >>> read_wkb(b"")
    Traceback (most recent call last):
        ...
    geolake_nb.geo.wkb.MalformedWkbError: the value ends inside a geometry (at byte 0); rewrite the value as ISO WKB
    """
    import numpy as np
    import pyarrow as pa

    from geolake_nb.geo.wkb_scan import Scan

    offsets = pa.py_buffer(np.array([0, len(value)], np.int64))
    scan = Scan()
    scan.add(pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(value)]))
    if scan.first_bad is not None:
        _, fault, offset, detail = scan.first_bad
        error = UnsupportedWkbError if fault is WkbFault.TYPE else MalformedWkbError
        raise error(fault, offset, detail)
    return WkbInfo(scan.types[0], next(iter(scan.srids), None), scan.box, empty=scan.empty_count == 1)
