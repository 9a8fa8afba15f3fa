"""The rows of a PyIceberg table that match a filter, spatial predicates among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.api.opening import open as open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.api.scan import Scan
    from geolake_nb.expressions.filter_input import FilterInput

__all__ = ["scan"]


def scan(
    table: Any,
    row_filter: FilterInput = None,
    *,
    selected_fields: Sequence[str] = ("*",),
    snapshot_id: int | None = None,
    limit: int | None = None,
) -> Scan:
    """The rows of a table that match a filter, spatial predicates tested on every row.

    Files and row groups are skipped by their bounds, deleted rows are left out, and the rows that are left are tested
    exactly. PyIceberg's own `table.scan` refuses spatial predicates on rows.

    Args:
        table: a table of PyIceberg, at the version that it has loaded.
        row_filter: an expression of PyIceberg, or any other filter that `t.scan` takes; all rows by default.
        selected_fields: the top-level columns of the answer, all by default.
        snapshot_id: another snapshot of the table.
        limit: how many rows at the most.

    Returns:
        A `Scan`: `to_arrow`, `to_batches`, `to_pandas`, `to_geopandas` and `count` read the rows.

    Raises:
        PredicateError: a filter that cannot be read, or that names a column which the table does not have.
        GeolakeError: an object that is not a table.

    Example:
        >>> import geolake_nb.pyiceberg as geo
        >>> near = geo.STIntersects("geom", gl.Box(5, 45, 12, 52))
        >>> geo.scan("roads", near, selected_fields=["id"]).count()
        3
    """
    opened = open_table(table, snapshot_id=snapshot_id)
    columns = None if tuple(selected_fields) == ("*",) else list(selected_fields)
    return opened.scan(row_filter, columns=columns, limit=limit)
