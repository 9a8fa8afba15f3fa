"""EWKB to ISO WKB, for whole Arrow columns: what Delta, Iceberg and Parquet hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["IsoWkb", "to_iso_wkb"]


class IsoWkb(NamedTuple):
    """A column as ISO WKB, with the SRIDs of its values."""

    values: pa.Array
    """`binary` or `large_binary` as it came; the same array if no value had to be changed."""
    srids: dict[int | None, NDArray[np.intp]]
    """The rows of each SRID in EWKB values; `None` is for values whose parts have different ones."""


def to_iso_wkb(array: pa.Array) -> IsoWkb:
    """The column without flags and SRIDs; every value has to be readable, see `Scan`, or null.

    Type numbers get ISO's thousands for Z and M, at every depth; byte orders and coordinates stay as they are. An SRID
    of 0 counts as none.

    >>> ewkb = bytes.fromhex("01010000A0E6100000000000000000F03F00000000000000400000000000000840")
    >>> iso = to_iso_wkb(pa.array([ewkb, None]))
    >>> iso.values[0].as_py().hex(), iso.srids
    ('01e9030000000000000000f03f00000000000000400000000000000840', {4326: array([0])})
    >>> to_iso_wkb(pa.array([], pa.binary())).values
    <pyarrow.lib.BinaryArray object at ...>
    []
    """
    from geolake_nb.geo import wkb_iso_kernel as kernel

    rows = len(array)
    if rows == 0:
        return IsoWkb(array, {})
    validity, offsets, data = array.buffers()
    wide = pa.types.is_large_binary(array.type)
    sizes, srids = np.empty(rows, np.int64), np.empty(rows, np.int64)
    buffers_at = (
        0 if data is None else data.address,
        offsets.address,
        wide,
        0 if validity is None else validity.address,
        array.offset,
        rows,
    )
    changed = kernel.measure(*buffers_at, sizes.ctypes.data, srids.ctypes.data)
    if not changed:
        return IsoWkb(array, {})
    rows_by_srid: dict[int | None, NDArray[np.intp]] = {
        None if number == kernel.MIXED_SRIDS else int(number): np.flatnonzero(srids == number)
        for number in np.unique(srids)
        if number != kernel.NO_SRID
    }
    ends = np.zeros(rows + 1, np.int64 if wide else np.int32)
    np.cumsum(sizes, out=ends[1:])
    out = np.empty(int(ends[-1]), np.uint8)
    kernel.rewrite(*buffers_at, out.ctypes.data)
    # The bits of a slice need not start at a byte.
    there = None if not array.null_count else pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
    buffers = [there, pa.py_buffer(ends), pa.py_buffer(out)]
    return IsoWkb(pa.Array.from_buffers(array.type, rows, buffers, null_count=array.null_count), rows_by_srid)
