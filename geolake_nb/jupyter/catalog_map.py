"""One map of the tables of a catalog: each item is the extent of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.map_traits import MAX_NAMES
from geolake_nb.jupyter.map_widget import MapWidget, pack_columns, pack_float64, pack_uint32
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.api.catalog import Catalog
    from geolake_nb.api.table import Table

__all__ = ["ExtentMap"]

_COLUMNS = (
    ("coverage", "coverage of bounds", "linear", ""),
    ("files", "files", "log", ""),
    ("rows", "rows", "log", ""),
    ("bytes", "size", "log", "bytes"),
    ("last_change", "last change", "time", ""),
)
_SIDES = ("xmin", "ymin", "xmax", "ymax")


class ExtentMap(MapWidget):
    """The extents of tables. A window that is drawn lists the tables that hold data there.

    Example:
        >>> m = gl.catalog(".").map()
        >>> m.window = [-180, -90, 180, 90]  # as if drawn in the browser
        >>> m.in_window
        ['parcels']
    """

    def __init__(self, catalog: Catalog, details: pa.Table, *, color: str = "coverage", height: int = 420) -> None:
        known = [*(name for name, *_ in _COLUMNS), "format"]
        if color not in known:
            raise GeolakeError(f"no colour {printable(color, 40)!r}", remedy=f"use one of: {', '.join(known)}")
        self.catalog, self.details = catalog, details
        sides = np.column_stack([_floats(details[name]) for name in _SIDES]) if len(details) else np.empty((0, 4))
        labels = [str(name) for name in pc.unique(details["format"]).to_pylist() if name is not None]
        columns: list[dict[str, Any]] = [
            {"key": key, "label": label, "kind": kind, "unit": unit} for key, label, kind, unit in _COLUMNS
        ]
        columns[-1]["origin"] = 0
        columns.append({"key": "format", "label": "format", "kind": "category", "unit": "", "labels": labels})
        codes = [float(labels.index(name)) if name in labels else np.nan for name in details["format"].to_pylist()]
        values = [_floats(details[key]) for key, *_ in _COLUMNS[:-1]]
        seconds = pc.divide(details["last_change"].cast(pa.int64()), 1_000_000)
        super().__init__(
            boxes=pack_float64(sides),
            columns=columns,
            column_data=pack_columns([*values, _floats(seconds), codes]),
            color_by=color,
            noun="tables",
            title=f"tables of {catalog.source.name}",
            height=height,
            names=[printable(name) for name in details["table"].to_pylist()] if len(details) <= MAX_NAMES else [],
            notes={"no_bounds": int(np.isnan(sides[:, 0]).sum()), "flagged": 0, "problems": []},
        )
        self.on_describe(self._describe)
        self.observe(self._list_tables, names="window")

    @property
    def in_window(self) -> list[str]:
        """The tables whose extent overlaps the window; all that have one without a window."""
        window = [-180.0, -90.0, 180.0, 90.0] if self.window is None else self.window
        return self.catalog.tables_in(window)

    @property
    def selected(self) -> list[str]:
        """The names of the selected tables."""
        return [str(name) for name in self.details["table"].take(pa.array(self.selected_ids, pa.int64())).to_pylist()]

    def select(self, names: Sequence[str]) -> None:
        """Select tables, as a click does.

        Args:
            names: names of tables.

        Raises:
            GeolakeError: a name that the catalog does not have.

        Example:
            >>> m = gl.catalog(".").map()
            >>> m.select(["roads"])
            >>> m.selected
            ['roads']
        """
        known = self.details["table"].to_pylist()
        unknown = [name for name in names if name not in known]
        if unknown:
            raise GeolakeError(f"the catalog has no table {printable(unknown[0], 100)!r}")
        self.selected_items = pack_uint32(sorted(known.index(name) for name in names))

    def table(self, name: str | None = None) -> Table:
        """Open a table of the map.

        Args:
            name: its name; by default the one that is selected.

        Returns:
            The table.

        Raises:
            GeolakeError: no name, and not exactly one table is selected.

        Example:
            >>> gl.catalog(".").map().table("roads")
            Table('/.../roads', delta, version 1)
        """
        if name is None:
            if len(self.selected) != 1:
                raise GeolakeError("select one table on the map, or give its name")
            (name,) = self.selected
        return self.catalog.open(name)

    def _describe(self, item: int) -> list[tuple[str, str]]:
        row = self.details.slice(item, 1).to_pylist()[0]
        covered = "no geo column" if row["coverage"] is None else f"{row['coverage']:.0%} of files"
        fields = [("table", row["table"]), ("format", row["format"])]
        if row["files"] is not None:
            fields += [("files", f"{row['files']:,}"), ("size", bytes_text(row["bytes"])), ("bounds", covered)]
        if row["problem"] is not None:
            fields.append(("problem", row["problem"]))
        return [(label, printable(str(value), 200)) for label, value in fields if value is not None]

    def _list_tables(self, _: object) -> None:
        inside = [] if self.window is None else self.in_window
        text = f"{plural(len(inside), 'table')} in the window: {', '.join(inside[:5])}"
        more = f" and {len(inside) - 5:,} more" if len(inside) > 5 else ""
        self.verdict = {} if self.window is None else {"text": printable(text + more), "window": list(self.window)}


def _floats(column: pa.ChunkedArray) -> Any:
    return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy(), np.float64)
