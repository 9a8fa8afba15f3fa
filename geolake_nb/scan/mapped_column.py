"""Which geo column a map or an export of boxes is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError, NoGeoColumnError
from geolake_nb.expressions.binding import bind, leaves
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import GeographyType, GeometryType, RasterType
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["filtered_column", "geo_type_of", "mapped_column"]


def mapped_column(snapshot: Snapshot, column: str | None = None) -> str:
    """The column that is named, or the only one there is.

    >>> import pyarrow as pa
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, StructType
    >>> from geolake_nb.model.file_table import FileTable, GeoStatsColumns, sides_of
    >>> from geolake_nb.formats.registry import DELTA
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> files = FileTable.of(path=pa.array(["a"]), bytes=pa.array([1]), rows=pa.array([1]),
    ...     geo={name: GeoStatsColumns(sides_of([None])) for name in ("a", "b")})
    >>> schema = Schema(StructType(tuple(Field(name, GeometryType()) for name in ("a", "b"))))
    >>> mapped_column(Snapshot(DELTA, "/t", 0, None, schema, Protocol(""), files))
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: /t: the table has several geo columns; give column=, one of: a, b
    """
    known = snapshot.files.geo_columns
    options = ", ".join(sorted(printable(path, 100) for path in known))
    if not known:
        raise NoGeoColumnError("the table has no geo column to draw", where=snapshot.location)
    if column is None:
        if len(known) > 1:
            what = "the table has several geo columns"
            raise GeolakeError(what, where=snapshot.location, remedy=f"give column=, one of: {options}")
        return known[0]
    if column not in known:
        what = f"no geo column {printable(column, 100)!r}"
        raise NoGeoColumnError(what, where=snapshot.location, remedy=f"use one of: {options}")
    return column


def filtered_column(snapshot: Snapshot, where: Predicate) -> str:
    """The geo column to draw a filter on: the first that it names, else the first of the table by name."""
    known = snapshot.files.geo_columns
    queried = [join_path(leaf.column) for leaf in leaves(bind(where, snapshot.schema))]
    candidates = [path for path in queried if path in known] or sorted(known)
    return mapped_column(snapshot, candidates[0] if candidates else None)


def geo_type_of(snapshot: Snapshot, column: str) -> GeometryType | GeographyType | RasterType:
    """The type of a geo column."""
    type_ = snapshot.schema.find(column).type
    if not isinstance(type_, GeometryType | GeographyType | RasterType):
        raise GeolakeError(f"expected a geo column, got {printable(column, 100)!r}", where=snapshot.location)
    return type_
