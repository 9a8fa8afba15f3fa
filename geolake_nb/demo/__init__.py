"""Small real data sets that ship with the package, to start from; README.md beside this file names their licences."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["storms"]


def storms() -> pa.Table:
    """Tracks of the tropical storms of 2010 to 2024: WKB lines with M, the hours since the storm began.

    >>> storms().schema.names
    ['storm', 'season', 'basin', 'began', 'wind', 'track']
    """
    import pyarrow.parquet as pq

    with resources.as_file(resources.files(__name__) / "storms.parquet") as path:
        return pq.read_table(path)
