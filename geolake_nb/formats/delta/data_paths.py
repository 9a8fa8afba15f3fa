"""Where the data files of a Delta table are: the log stores their paths as percent-encoded URIs."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["decoded_path", "decoded_paths"]


def decoded_path(stored: str) -> str:
    """A path as the log stores it, as a path that can be opened; relative to the table or absolute.

    >>> decoded_path("day=2021-09-08%2011%253A11/a.parquet")
    'day=2021-09-08 11%3A11/a.parquet'
    >>> decoded_path("s3://bucket/other%20table/b.parquet")
    's3://bucket/other table/b.parquet'
    """
    # Delta, Add file: the path is a URI as of RFC 2396, which has to be decoded to get the file's path.
    return unquote(stored, errors="strict") if _decodes(stored) else stored


def decoded_paths(stored: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same for a column; only paths with an escape are decoded.

    >>> decoded_paths(pa.array(["a", "b%20c"])).to_pylist()
    ['a', 'b c']
    """
    whole = pa.chunked_array([stored]) if isinstance(stored, pa.Array) else stored
    marked = pc.match_substring(whole, "%")
    if not pc.any(marked).as_py():
        return pa.concat_arrays(whole.chunks) if whole.num_chunks != 1 else whole.chunk(0)
    return pa.array([decoded_path(path) for path in whole.to_pylist()], pa.string())


def _decodes(stored: str) -> bool:
    if "%" not in stored:
        return False
    try:
        unquote(stored, errors="strict")
    except UnicodeDecodeError:
        return False
    return True
