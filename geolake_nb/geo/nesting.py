"""Whether GEOS can be given a geometry from outside: it follows nesting with its stack, and reads text as C does."""

from __future__ import annotations

import re
import struct

import numpy as np

from geolake_nb.errors import GeolakeError, PredicateError

__all__ = ["MAX_NESTING", "check_text_nesting", "may_nest_deeply", "readable_geometry_text"]

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
