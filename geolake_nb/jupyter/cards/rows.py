"""The card of a table of results, such as row groups: how many, and the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.jupyter.card_parts import card, grid, left_out, name
from geolake_nb.jupyter.html import tag
from geolake_nb.jupyter.table_rows import SHOWN_ROWS

if TYPE_CHECKING:
    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.jupyter.table_rows import TableRows

__all__ = ["show"]

_SHOWN_COLUMNS = 16


def show(rows: TableRows) -> Markup:
    """The card."""
    table = rows.table
    known = [
        field.name for field in table.schema if _readable(field.type) and table[field.name].null_count < table.num_rows
    ]
    columns = known[:_SHOWN_COLUMNS]
    shown = table.select(columns).slice(0, SHOWN_ROWS).to_pylist()
    first = [[_cell(row[column]) for column in columns] for row in shown]
    hidden = len(table.column_names) - len(columns)
    return card(
        rows.what.capitalize(),
        tag("p", tag("strong", f"{rows.what.capitalize()} "), table.num_rows),
        grid(columns, first),
        left_out(SHOWN_ROWS, table.num_rows, "use .table or .to_pandas()"),
        tag("p", f"{hidden:,} columns not shown", class_="faint") if hidden else None,
    )


def _readable(type_: pa.DataType) -> bool:
    """Outlines as WKB are not readable."""
    return not pa.types.is_binary(type_)


def _cell(value: Any) -> Child:
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return str(value)
    return name(value if isinstance(value, str) else repr(value), 120)
