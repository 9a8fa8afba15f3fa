"""The compiled walk that turns EWKB into ISO WKB: flags become thousands, SRIDs are removed.

It reads values that `wkb_kernel.scan` has found readable, and checks nothing again. As there, importing this module
loads numba and the machine code that is cached on disk, and everything is reached by address.
"""

import numpy as np
from numba import njit

from geolake_nb.geo.wkb_kernel import NO_SRID, _load_i64, _load_u8, _load_u32, _set_byte, _set_int

__all__ = ["MIXED_SRIDS", "NO_SRID", "measure", "rewrite", "simple"]

MIXED_SRIDS = -(2**41)
"""The SRID of a value whose parts have different ones."""

_jit = njit(nogil=True, error_model="numpy")


@_jit
def _code(raw):
    """The ISO code of a type number with or without the flags of EWKB."""
    plain = np.int64(raw & 0x1FFFFFFF)
    dimensions = plain // 1000
    has_z = (raw & 0x80000000) != 0 or dimensions == 1 or dimensions == 3
    has_m = (raw & 0x40000000) != 0 or dimensions >= 2
    return plain % 1000 + (1000 if has_z else 0) + (2000 if has_m else 0)


@_jit
def _body(address, code, swap):
    """How many bytes follow the header of a geometry up to the next header, and how many geometries it holds."""
    basic, dimensions = code % 1000, code // 1000
    stride = 16 + (8 if dimensions == 1 or dimensions == 3 else 0) + (8 if dimensions >= 2 else 0)
    if basic == 1:
        return stride, 0
    count = np.int64(_load_u32(address, swap))
    if basic == 2 or basic == 8:
        return 4 + count * stride, 0
    if basic == 3 or basic == 17:
        size = np.int64(4)
        for _ in range(count):
            size += 4 + np.int64(_load_u32(address + size, swap)) * stride
        return size, 0
    return np.int64(4), count


@_jit
def _edge(offsets, wide, index):
    if wide:
        return _load_i64(offsets + 8 * index, False)
    return np.int64(_load_u32(offsets + 4 * index, False))


@_jit
def _is_null(validity, index):
    return validity != 0 and not (_load_u8(validity + (index >> 3), False) >> (index & 7)) & 1


@njit("int64(int64, int64, boolean, int64, int64, int64, int64, int64)", nogil=True, error_model="numpy", cache=True)
def measure(data, offsets, wide, validity, first, rows, sizes, srids):
    """Write the size of each value in ISO WKB and its SRID, and give the number of values that would change.

    `data`, `offsets` (64-bit if `wide`) and `validity` (0: none) are the addresses of an Arrow array's buffers, of
    which `rows` values from `first` on count; `sizes` and `srids` those of as many 64-bit numbers. An SRID of 0
    counts as none.
    """
    changed = 0
    for row in range(rows):
        index = first + row
        _set_int(srids, row, NO_SRID)
        _set_int(sizes, row, 0)
        if _is_null(validity, index):
            continue
        at, end = _edge(offsets, wide, index), _edge(offsets, wide, index + 1)
        size, srid, left, flagged = end - at, np.int64(NO_SRID), np.int64(1), False
        while left > 0:
            swap = _load_u8(data + at, False) == 0
            raw = np.int64(_load_u32(data + at + 1, swap))
            at += 5
            if raw & 0xE0000000:
                flagged = True
            if raw & 0x20000000:
                number = np.int64(np.int32(_load_u32(data + at, swap)))
                if number != 0:
                    srid = number if srid in (NO_SRID, number) else np.int64(MIXED_SRIDS)
                at += 4
                size -= 4
            body, parts = _body(data + at, _code(raw), swap)
            at += body
            left += parts - 1
        _set_int(srids, row, srid)
        _set_int(sizes, row, size)
        changed += 1 if flagged else 0
    return changed


@njit("boolean(int64, int64, boolean, int64, int64, int64)", nogil=True, error_model="numpy", cache=True)
def simple(data, offsets, wide, validity, first, rows):
    """Whether every value starts as a point, a line or a polygon without flags; values need not be readable."""
    for row in range(rows):
        index = first + row
        if _is_null(validity, index):
            continue
        at = _edge(offsets, wide, index)
        if _edge(offsets, wide, index + 1) - at < 5:
            return False
        raw = np.int64(_load_u32(data + at + 1, _load_u8(data + at, False) == 0))
        if raw & 0xE0000000 or not 1 <= raw % 1000 <= 3:
            return False
    return True


@njit("void(int64, int64, boolean, int64, int64, int64, int64)", nogil=True, error_model="numpy", cache=True)
def rewrite(data, offsets, wide, validity, first, rows, out):
    """Write the values one after the other as ISO WKB to the address `out`, which has room for all of `sizes`."""
    for row in range(rows):
        index = first + row
        if _is_null(validity, index):
            continue
        at, left = _edge(offsets, wide, index), np.int64(1)
        while left > 0:
            order = _load_u8(data + at, False)
            swap = order == 0
            raw = np.int64(_load_u32(data + at + 1, swap))
            code = _code(raw)
            _set_byte(out, 0, order)
            for byte in range(4):
                _set_byte(out, 1 + byte, np.uint8((code >> (8 * (3 - byte if swap else byte))) & 0xFF))
            out += 5
            at += 9 if raw & 0x20000000 else 5
            body, parts = _body(data + at, code, swap)
            for byte in range(body):
                _set_byte(out, byte, _load_u8(data + at + byte, False))
            out += body
            at += body
            left += parts - 1
