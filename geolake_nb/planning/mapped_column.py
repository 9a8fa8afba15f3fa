"""Which geo column a map or an export of boxes is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.core.message_text import printable
from geolake_nb.core.predicate_binding import bind
from geolake_nb.core.schema import join_path
from geolake_nb.core.types import GeographyType, GeometryType, RasterType
from geolake_nb.errors import GeolakeError
from geolake_nb.planning.scan.file_pruning import leaves

if TYPE_CHECKING:
    from geolake_nb.core.predicate import Predicate
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["filtered_column", "geo_type_of", "mapped_column"]


def mapped_column(snapshot: Snapshot, column: str | None = None) -> str:
    """The column that is named, or the only one there is.

    >>> import pyarrow as pa
    >>> from geolake_nb.core.schema import Schema
    >>> from geolake_nb.core.types import Field, StructType
    >>> from geolake_nb.formats.file_table import FileTable, GeoStatsColumns, sides_of
    >>> from geolake_nb.formats.snapshot import Protocol, Snapshot, TableFormat
    >>> files = FileTable.of(path=pa.array(["a"]), bytes=pa.array([1]), rows=pa.array([1]),
    ...     geo={name: GeoStatsColumns(sides_of([None])) for name in ("a", "b")})
    >>> schema = Schema(StructType(tuple(Field(name, GeometryType()) for name in ("a", "b"))))
    >>> mapped_column(Snapshot(TableFormat.DELTA, "/t", 0, None, schema, Protocol(""), files))
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: /t: the table has several geo columns; give column=, one of: a, b
    """
    known = snapshot.files.geo_columns
    options = ", ".join(sorted(printable(one, 100) for one in known))
    if not known:
        raise GeolakeError("the table has no geo column to draw", where=snapshot.location)
    if column is None:
        if len(known) > 1:
            what = "the table has several geo columns"
            raise GeolakeError(what, where=snapshot.location, remedy=f"give column=, one of: {options}")
        return known[0]
    if column not in known:
        what = f"no geo column {printable(column, 100)!r}"
        raise GeolakeError(what, where=snapshot.location, remedy=f"use one of: {options}")
    return column


def filtered_column(snapshot: Snapshot, where: Predicate) -> str:
    """The geo column to draw a filter on: the first that it asks about, else the first of the table by its name."""
    known = snapshot.files.geo_columns
    asked = [join_path(leaf.column) for leaf in leaves(bind(where, snapshot.schema))]
    found = [one for one in asked if one in known] or sorted(known)
    return mapped_column(snapshot, found[0] if found else None)


def geo_type_of(snapshot: Snapshot, column: str) -> GeometryType | GeographyType | RasterType:
    """The type of a geo column."""
    type_ = snapshot.schema.find(column).type
    if not isinstance(type_, GeometryType | GeographyType | RasterType):
        raise GeolakeError(f"{printable(column, 100)!r} is no geo column", where=snapshot.location)
    return type_
