"""A WKB value of curves or triangles under the type codes of lines and polygons, for readers that know no others.

A circular string is laid out as a line, a triangle as a polygon, and the rest as collections: only the codes change,
so that whoever reads the result finds every vertex by itself.
"""

from __future__ import annotations

import struct

__all__ = ["as_plain"]

_PLAIN = {8: 2, 9: 7, 10: 7, 11: 7, 12: 7, 15: 6, 16: 7, 17: 3}


def as_plain(value: bytes) -> bytes:
    """The value with other type codes."""
    out = bytearray(value)
    if _rename(out, 0) != len(out):
        raise ValueError("bytes are left after the end")
    return bytes(out)


def _rename(out: bytearray, start: int) -> int:
    order = "<" if out[start] else ">"
    (code,) = struct.unpack_from(f"{order}I", out, start + 1)
    flags, base = code & 0xE0000000, code & 0x1FFFFFFF
    thousands, kind = divmod(base, 1000)
    struct.pack_into(f"{order}I", out, start + 1, flags | (thousands * 1000 + _PLAIN.get(kind, kind)))
    here = start + (9 if flags & 0x20000000 else 5)
    width = 2 + (thousands in (1, 3) or bool(flags >> 31)) + (thousands in (2, 3) or bool(flags & 0x40000000))
    if kind == 1:
        return here + 8 * width
    (count,) = struct.unpack_from(f"{order}I", out, here)
    here += 4
    if kind in (2, 8):
        return here + 8 * width * count
    for _ in range(count):
        if kind in (3, 17):
            (points,) = struct.unpack_from(f"{order}I", out, here)
            here += 4 + 8 * width * points
        else:
            here = _rename(out, here)
    return here
