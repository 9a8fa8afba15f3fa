"""Columns of cells while rows are written: which geometry each is computed from, and its values for some rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from geolake_nb.changes.clustering import centres
from geolake_nb.errors import CrsError, RefusedError, SchemaError
from geolake_nb.geo.cells import cell_names, require_cells
from geolake_nb.model.cells import cells_of_properties
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.schema import join_path, split_path, type_name
from geolake_nb.model.types import GeographyType, GeometryType, StructType
from geolake_nb.scan.data_files import inside_structs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from geolake_nb.model.cells import Cell
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["CellColumn", "appended_cells", "cell_columns", "cell_sentence", "with_cells"]

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class CellColumn:
    """A cell, and the type of the geometries that it is computed from."""

    cell: Cell
    type: GeometryType | GeographyType

    def values(self, shapes: pa.Array) -> pa.Array:
        """The cells of geometries in WKB.

        >>> import shapely
        >>> from geolake_nb.model.cells import cell
        >>> shapes = pa.array([shapely.Point(-5.603, 42.605).wkb, shapely.Point().wkb, None])
        >>> CellColumn(cell("g", "geohash:5"), GeometryType()).values(shapes).to_pylist()
        ['ezs42', None, None]
        """
        x, y = centres(shapes, self.type)
        if not self.type.crs.same_as(CRS84):
            x, y = _degrees(self.type.crs, x, y)
        return cell_names(self.cell.system, self.cell.level, x, y)


def cell_columns(cells: Iterable[Cell], schema: Schema, *, where: str) -> dict[str, CellColumn]:
    """The columns by their names, where the geometries of a table have a place on the Earth.

    Raises:
        SchemaError: no geo column of that name, or one with many values in a row.
        RefusedError: a CRS that is unknown, or cannot be transformed to longitudes and latitudes.
        MissingDependencyError: the package of these cells is not installed.
    """
    columns = {}
    for made in cells:
        type_ = schema.find(made.column).type
        there = f"{where}, column {made.column}"
        if not isinstance(type_, GeometryType | GeographyType):
            remedy = f"declare its type with columns=, such as {{{made.column!r}: gl.geometry()}}"
            raise SchemaError(
                f"cells need a geometry or geography, not a {type_name(type_)}", where=there, remedy=remedy
            )
        parts = split_path(made.column)
        if not all(isinstance(schema.find(join_path(parts[:end])).type, StructType) for end in range(1, len(parts))):
            raise SchemaError("cells need one geometry in a row, and it is inside a list or a map", where=there)
        if type_.crs.is_unknown and made.crs is not None:
            type_ = replace(type_, crs=Crs.parse(made.crs))
        if type_.crs.is_unknown:
            remedy = f"declare it with columns=, such as {{{made.column!r}: gl.geometry('EPSG:4326')}}"
            raise RefusedError("its CRS is unknown, so its cells are too", where=there, remedy=remedy)
        try:
            _transformer(type_.crs)
        except CrsError as problem:
            what = f"its cells need longitudes and latitudes: {problem.what}"
            raise RefusedError(what, where=there, remedy=problem.remedy) from None
        require_cells(made.system)
        columns[made.name] = CellColumn(made, type_)
    return columns


def appended_cells(snapshot: Snapshot) -> dict[str, CellColumn]:
    """The cell columns of a table, which new rows get as those have that are there."""
    known = {field.name for field in snapshot.schema.fields}
    cells = [made for made in cells_of_properties(snapshot.properties, where=snapshot.location) if made.name in known]
    return cell_columns(cells, snapshot.schema, where=snapshot.location)


def cell_sentence(made: Cell) -> str:
    """What a plan says of a new column of cells."""
    return (
        f"The new column {made.name!r} has the cell ({made.system.value}, level {made.level}) of the centre of each"
        f" {made.column}. Rows may leave their cell: bounds say where they lie."
    )


def with_cells(rows: _Rows, cells: Mapping[str, CellColumn]) -> _Rows:
    """Rows, of which geometries are WKB, with their cells as more columns."""
    for name, column in cells.items():
        path = split_path(column.cell.column)
        shapes = rows.column(path[0])
        if isinstance(shapes, pa.ChunkedArray):
            shapes = pa.concat_arrays(shapes.chunks) if shapes.num_chunks else pa.array([], shapes.type)
        rows = rows.append_column(name, column.values(inside_structs(shapes, path)))
    return rows


@cache
def _transformer(crs: Crs) -> Any:
    import pyproj

    return pyproj.Transformer.from_crs(crs.to_pyproj(), CRS84.to_pyproj(), always_xy=True)


def _degrees(crs: Crs, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """The points as longitudes and latitudes, infinite where they cannot be."""
    known = np.isfinite(x) & np.isfinite(y)
    longitude, latitude = np.full(len(x), np.nan), np.full(len(y), np.nan)
    longitude[known], latitude[known] = _transformer(crs).transform(x[known], y[known])
    return longitude, latitude
