"""Cells of the Earth by which a table is partitioned: a plain column of names, and what a table says about it.

A cell is that of one point of a row's geometry. A polygon may leave its cell, so a cell never says where rows lie:
bounds do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from geolake_nb.errors import GeolakeError, RefusedError, SchemaError
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.model.types import Field, GeographyType, GeometryType, StringType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from geolake_nb.model.schema import Schema

__all__ = [
    "Cell",
    "CellSystem",
    "PartitionBy",
    "cell",
    "cell_column_names",
    "cells_of_properties",
    "partition_columns",
    "properties_of_cells",
    "with_cell_columns",
    "with_crs_of",
]

_PREFIX = "geolake.cell."
_SPEC = re.compile(r"\s*([A-Za-z0-9]+)\s*:\s*([0-9]{1,3})\s*")


class CellSystem(Enum):
    """How the Earth is divided; a cell of a level lies in one of the level below, except in H3."""

    H3 = "h3"
    """Hexagons; cells are named as in the H3 library, such as `85283473fffffff`."""
    QUADKEY = "quadkey"
    """Squares of the web mercator map, named as by Bing Maps, such as `0231`."""
    GEOHASH = "geohash"
    """Rectangles of longitude and latitude, such as `u0nd`."""

    @property
    def levels(self) -> range:
        """The levels that cells may have."""
        return {CellSystem.H3: range(16), CellSystem.QUADKEY: range(1, 24), CellSystem.GEOHASH: range(1, 13)}[self]


@dataclass(frozen=True, slots=True)
class Cell:
    """A column with the cell of each row's geometry.

    Example:
        >>> gl.cell("geom", "h3:5").name
        'geom_h3_5'
    """

    column: str
    """The path of the geometry or geography."""
    system: CellSystem
    level: int
    name: str
    """The name of the new column."""
    crs: str | None = None
    """The CRS of the geometries, for a table that does not keep it with its columns."""

    def __str__(self) -> str:
        return f"{self.system.value}:{self.level} of {self.column}"

    @property
    def field(self) -> Field:
        """The new column: a string that may be null."""
        return Field(self.name, StringType())

    @property
    def properties(self) -> dict[str, str]:
        """The property of the table that keeps what the column has.

        Example:
            >>> gl.cell("geom", "quadkey:8", name="tile").properties
            {'geolake.cell.tile': '{"column": "geom", "level": 8, "system": "quadkey"}'}
        """
        kept: dict[str, Any] = {"column": self.column, "level": self.level, "system": self.system.value}
        if self.crs is not None:
            kept["crs"] = self.crs
        return {f"{_PREFIX}{self.name}": json.dumps(kept, sort_keys=True, ensure_ascii=False)}


PartitionBy: TypeAlias = str | Cell | Sequence[str | Cell]
"""The columns that partition a table: names, and cells that are computed."""


def cell(column: str, cells: str, *, name: str | None = None) -> Cell:
    """A partition by place: a plain column with the cell of each row, for `partition_by=`.

    The cell is that of the centre of a geometry's bounding box, of a point the point itself. Null and empty geometries,
    those without finite coordinates, and those beyond longitudes and latitudes have none. A CRS of other coordinates is
    transformed.

    Args:
        column: the geometry or geography.
        cells: the system and the level: `h3:0` to `h3:15`, `quadkey:1` to `quadkey:23`, `geohash:1` to `geohash:12`.
            H3 needs the package `h3`.
        name: the name of the new column; by default that of the column, the system and the level.

    Returns:
        A partition for `gl.write` and `plan_convert`.

    Raises:
        GeolakeError: a system or a level that does not exist.

    Example:
        >>> cell = gl.cell("geom", "h3:5")
        >>> str(cell), cell.name
        ('h3:5 of geom', 'geom_h3_5')
        >>> gl.cell("geom", "h3:16")
        Traceback (most recent call last):
        geolake_nb.errors.GeolakeError: h3:16: h3 has the levels 0 to 15, not 16
    """
    match = _SPEC.fullmatch(cells)
    systems = {system.value: system for system in CellSystem}
    system = None if match is None else systems.get(match[1].lower())
    if match is None or system is None:
        remedy = "write one such as h3:5, quadkey:8 or geohash:4"
        raise GeolakeError(f"{cells[:60]!r} is not a system of cells", remedy=remedy)
    level = int(match[2])
    if level not in system.levels:
        what = f"{system.value} has the levels {system.levels[0]} to {system.levels[-1]}, not {level}"
        raise GeolakeError(what, where=cells.strip())
    plain = "_".join(split_path(column))
    return Cell(column, system, level, f"{plain}_{system.value}_{level}" if name is None else name)


def partition_columns(partition_by: PartitionBy) -> tuple[tuple[str, ...], tuple[Cell, ...]]:
    """The names of the columns that partition a table, and those of them that are cells.

    >>> partition_columns(["day", cell("geom", "h3:5")])[0], partition_columns("day")
    (('day', 'geom_h3_5'), (('day',), ()))
    """
    listed = [partition_by] if isinstance(partition_by, str | Cell) else list(partition_by)
    cells = tuple(entry for entry in listed if isinstance(entry, Cell))
    return tuple(entry.name if isinstance(entry, Cell) else entry for entry in listed), cells


def properties_of_cells(cells: Iterable[Cell]) -> dict[str, str]:
    """The properties of a table that has these columns.

    >>> list(properties_of_cells([cell("geom", "h3:5")]))
    ['geolake.cell.geom_h3_5']
    """
    return {key: text for made in cells for key, text in made.properties.items()}


def cells_of_properties(properties: Mapping[str, str], *, where: str) -> tuple[Cell, ...]:
    """The cell columns that a table says it has, by their names.

    Raises:
        RefusedError: a property that cannot be read.

    >>> made = cell("geom", "h3:5")
    >>> cells_of_properties({**made.properties, "other": "1"}, where="/t") == (made,)
    True
    """
    cells = []
    for key in sorted(properties):
        if key.startswith(_PREFIX):
            read = _read(key.removeprefix(_PREFIX), properties[key])
            if read is None:
                what = f"the property {key[:80]!r} does not say which cells its column has"
                raise RefusedError(what, where=where, remedy="remove the property, and fill the column yourself")
            cells.append(read)
    return tuple(cells)


def cell_column_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that a table says have cells, whether or not it is known which.

    >>> cell_column_names({"geolake.cell.tile": "?", "other": "1"})
    ('tile',)
    """
    return tuple(key.removeprefix(_PREFIX) for key in sorted(properties) if key.startswith(_PREFIX))


def _read(name: str, text: str) -> Cell | None:
    try:
        kept: Any = json.loads(text)
        column, system, level = kept["column"], kept["system"], kept["level"]
        crs = kept.get("crs")
        known = isinstance(column, str) and name and isinstance(crs, str | None)
        return replace(cell(column, f"{system}:{level}", name=name), crs=crs) if known else None
    except (AttributeError, GeolakeError, KeyError, RecursionError, TypeError, ValueError):
        return None


def with_crs_of(cells: Iterable[Cell], schema: Schema, columns: Mapping[str, Any]) -> tuple[Cell, ...]:
    """The cells with the CRS that a user declared for their geometries, else that of the rows."""
    declared = {join_path(split_path(name)).casefold(): type_ for name, type_ in columns.items()}
    known = []
    for made in cells:
        type_ = declared.get(join_path(split_path(made.column)).casefold()) or schema.find(made.column).type
        crs = type_.crs if isinstance(type_, GeographyType | GeometryType) else None
        known.append(made if crs is None or crs.is_unknown else replace(made, crs=crs.text))
    return tuple(known)


def with_cell_columns(schema: Schema, cells: Iterable[Cell], *, where: str) -> Schema:
    """The schema with the new columns at its end.

    Raises:
        SchemaError: a column of that name exists.
    """
    fields = list(schema.fields)
    for made in cells:
        if made.name.casefold() in {field.name.casefold() for field in fields}:
            remedy = "give another one with gl.cell(..., name=...)"
            raise SchemaError(f"a column {made.name!r} exists already", where=where, remedy=remedy)
        fields.append(made.field)
    return replace(schema, root=StructType(tuple(fields)))
