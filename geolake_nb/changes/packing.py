"""How rows are packed into new files: in which order, and in what sizes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.changes.clustering import Ordering
from geolake_nb.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

    from geolake_nb.model.schema import Schema

__all__ = ["ROW_GROUP_ROWS", "TARGET_BYTES", "Packing", "size_of"]

ROW_GROUP_ROWS = 65_536
"""The default number of rows in a row group."""
TARGET_BYTES = 128_000_000
"""The default size of a file."""
_MAX_GROUP_ROWS = 1 << 20

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB|TB|KIB|MIB|GIB|TIB)?\s*", re.IGNORECASE)
_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


@dataclass(frozen=True, slots=True)
class Packing:
    """The options of a user for new files."""

    cluster_by: tuple[str, ...] = ()
    curve: str = "hilbert"
    target_bytes: int = TARGET_BYTES
    row_group_rows: int = ROW_GROUP_ROWS

    @classmethod
    def of(
        cls,
        *,
        cluster_by: str | Sequence[str] = (),
        curve: str = "hilbert",
        target_file_size: int | str = TARGET_BYTES,
        row_group_rows: int | None = None,
        where: str | None = None,
    ) -> Self:
        """The packing from a user's options; `where` names the table in errors.

        >>> Packing.of(cluster_by="geom", target_file_size="1MB")
        Packing(cluster_by=('geom',), curve='hilbert', target_bytes=1000000, row_group_rows=65536)
        >>> Packing.of(row_group_rows=0)
        Traceback (most recent call last):
        geolake_nb.errors.RefusedError: a row group has 1 to 1,048,576 rows, not 0
        """
        rows = ROW_GROUP_ROWS if row_group_rows is None else row_group_rows
        if not 1 <= rows <= _MAX_GROUP_ROWS:
            raise RefusedError(f"a row group has 1 to {_MAX_GROUP_ROWS:,} rows, not {rows:,}", where=where)
        columns = (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by)
        return cls(columns, curve, size_of(target_file_size), rows)

    def ordering(self, schema: Schema, partition_by: Collection[str] = ()) -> Ordering | None:
        """The order of the rows of a table with these columns; `None` keeps their order."""
        return Ordering.of(self.cluster_by, self.curve, schema, partition_by=tuple(partition_by))

    def parameters(self, ordering: Ordering | None, where: str | None) -> dict[str, str]:
        """The parameters of a rewrite for the history of the table."""
        return {
            "clusterBy": json.dumps([] if ordering is None else list(ordering.columns)),
            "curve": json.dumps(None if ordering is None else ordering.curve.value),
            "targetFileSize": str(self.target_bytes),
            "rowGroupRows": str(self.row_group_rows),
            "predicate": json.dumps(where),
        }


def size_of(size: int | str) -> int:
    """A size in bytes, from a number or a text such as `128MB`.

    >>> size_of("128MB"), size_of("1 MiB"), size_of(7)
    (128000000, 1048576, 7)
    >>> size_of("big")
    Traceback (most recent call last):
    geolake_nb.errors.RefusedError: 'big' is not a valid file size; write one such as 128MB
    """
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    count = size if isinstance(size, int) else 0
    if match:
        count = int(float(match[1]) * _UNITS[(match[2] or "B").upper()])
    if count < 1:
        raise RefusedError(f"{size!r} is not a valid file size", remedy="write one such as 128MB")
    return count
