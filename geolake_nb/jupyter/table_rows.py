"""A table of results with a name, which shows its first rows and is Arrow for everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.model.display import Displayable
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["SHOWN_ROWS", "TableRows"]

SHOWN_ROWS = 20
"""How many rows a card or a terminal shows."""
_WIDTH = 400


@dataclass(frozen=True, slots=True, eq=False)
class TableRows(Displayable):
    """The rows of a result: `what` names them, `table` has them.

    >>> import pyarrow as pa
    >>> rows = TableRows("row groups", pa.table({"path": ["a", "b"], "rows": [4, None]}))
    >>> print(rows)
    2 row groups
      path=a  rows=4
      path=b
    >>> len(rows), pa.table(rows).num_rows
    (2, 2)
    """

    what: str
    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        first = self.table.slice(0, SHOWN_ROWS).to_pylist()
        known = ["  ".join(f"{key}={value}" for key, value in row.items() if value is not None) for row in first]
        more = [f"  and {len(self) - SHOWN_ROWS:,} more"] if len(self) > SHOWN_ROWS else []
        return "\n".join([f"{len(self):,} {self.what}", *(f"  {printable(text, _WIDTH)}" for text in known), *more])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.table.to_pandas()
