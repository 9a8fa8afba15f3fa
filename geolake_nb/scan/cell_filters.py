"""The cells that a query needs of a table that is partitioned by place, as a filter for engines without bounds.

They are those of the files that the query reads. So they are right for polygons too, which may leave their cell; cells
that are computed from the window alone would be right for points only, and only where every writer gave them theirs.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import RefusedError
from geolake_nb.expressions.filter_input import spatial_parts
from geolake_nb.expressions.predicate import In, IsNull, Or
from geolake_nb.model.cells import cells_of_properties
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.cells import Cell
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["CellFilter", "cell_filters"]

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class CellFilter:
    """The cells of the files that a query reads; it holds for this version of the table.

    >>> needed = CellFilter("tile", ("01", "03"), with_null=False, total=16, boundless=0)
    >>> print(needed)
    the files that are read are in 2 of 16 cells of tile, by their bounds, ... with tile IN ('01', '03')
    >>> str(needed.predicate)
    "tile IN ('01', '03')"
    """

    column: str
    cells: tuple[str, ...]
    with_null: bool
    """Whether files of rows without a cell are read."""
    total: int
    """How many cells the table has."""
    boundless: int
    """How many of the files that are read have no bounds."""

    @property
    def predicate(self) -> Predicate | None:
        """The condition on the plain column; `None` where no file is read."""
        parts: list[Predicate] = [In((self.column,), self.cells)] if self.cells else []
        if self.with_null:
            parts.append(IsNull((self.column,)))
        return Or(tuple(parts)) if len(parts) > 1 else next(iter(parts), None)

    def __str__(self) -> str:
        if self.predicate is None:
            return f"no cell of {self.column} is needed"
        without = f" ({plural(self.boundless, 'file')} without bounds among them)" if self.boundless else ""
        return (
            f"the files that are read{without} are in {len(self.cells):,} of {plural(self.total, 'cell')} of"
            f" {self.column}, by their bounds, for rows may leave their cell; an engine that does not skip by bounds"
            f" skips the others with {printable(str(self.predicate), _SHOWN)}"
        )


def cell_filters(query: Predicate, snapshot: Snapshot, kept: NDArray[np.bool_]) -> Iterator[CellFilter]:
    """For each column of cells that partitions the table and belongs to a geometry of the query."""
    queried = {part.column for part in spatial_parts(query)}
    for made in _cells(snapshot.properties, snapshot.partition_columns):
        name = f"partition.{made.name}"
        if split_path(made.column) not in queried or name not in snapshot.files.table.column_names:
            continue
        values = snapshot.files.table[name]
        read = values.filter(pa.array(kept)).unique()
        boxes = snapshot.files.boxes(join_path(split_path(made.column)))
        boundless = int((kept & ~boxes.known & ~boxes.only_null_or_empty).sum())
        yield CellFilter(
            made.name,
            tuple(sorted(map(str, read.drop_null().to_pylist()))),
            with_null=read.null_count > 0,
            total=len(values.unique().drop_null()),
            boundless=boundless,
        )


def _cells(properties: Mapping[str, str], partition_columns: Sequence[str]) -> Iterator[Cell]:
    """Those that partition files. A property that cannot be read is refused to whoever adds rows, not here."""
    for key, text in properties.items():
        with contextlib.suppress(RefusedError):
            yield from (made for made in cells_of_properties({key: text}, where="") if made.name in partition_columns)
