"""More layers for the map of a table: row groups, sampled geometries, and true outlines of rasters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from geolake_nb.errors import CrsError, GeolakeError
from geolake_nb.expressions.binding import BoundSpatial, bind, leaves
from geolake_nb.expressions.query_window import WhyNoWindow, query_window
from geolake_nb.jupyter.map_layers import place_boxes
from geolake_nb.jupyter.map_widget import pack_parts, pack_rings
from geolake_nb.model.box import Box, union_all
from geolake_nb.model.crs import CRS84
from geolake_nb.model.schema import join_path
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.model.types import RasterType
from geolake_nb.scan.coverage import geo_type_of
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geolake_nb.api.table import Table
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.jupyter.map_layers import PlacedBoxes
    from geolake_nb.model.crs import Crs
    from geolake_nb.model.snapshot import Snapshot

__all__ = [
    "FILTER",
    "filter_overlays",
    "geometry_overlays",
    "placed_rings",
    "raster_layers",
    "row_group_overlay",
    "to_degrees",
    "unrolled",
]

FILTER = "filter"
"""How the names of the layers of a filter begin."""
_Layer = tuple[dict[str, Any], bytes]
_PARTS_OF_A_SIDE = 32


def row_group_overlay(table: Table, column: str, files: Sequence[int]) -> _Layer:
    """The boxes of the row groups in some files."""
    type_ = geo_type_of(table.snapshot, column)
    if isinstance(type_, RasterType):
        raise GeolakeError("row groups have no bounds for rasters", where=table.location)
    groups = table.row_groups(files=files)
    sides = (groups[f"{column}.{side}"].to_numpy() for side in ("xmin", "ymin", "xmax", "ymax"))
    placed = place_boxes(BoxColumn.from_sides(*sides), type_)
    name = f"row groups ({int(placed.drawn.sum()):,} of {len(placed):,} have bounds)"
    return _layer(name, "rings"), pack_parts(placed_rings(placed))


def placed_rings(placed: PlacedBoxes) -> Iterator[NDArray[np.float64]]:
    """The rings of all boxes that are drawn, with longitudes that run on past 180.

    >>> from geolake_nb.model.crs import CRS84
    >>> boxes = BoxColumn.from_boxes([Box(170, 0, -170, 1), None])
    >>> [ring.tolist() for ring in placed_rings(place_boxes(boxes, CRS84))]
    [[[170.0, 0.0], [190.0, 0.0], [190.0, 1.0], [170.0, 1.0], [170.0, 0.0]]]
    """
    drawn = placed.drawn
    bent = dict.fromkeys(placed.outlines.items.tolist())
    for item, ring in placed.outlines:
        west, _, east, _ = placed.boxes[item]
        lon = np.where((west > east) & (ring[:, 0] < (west + east) / 2.0), ring[:, 0] + 360.0, ring[:, 0])
        yield np.column_stack([np.append(lon, lon[0]), np.append(ring[:, 1], ring[0, 1])])
    for item in np.flatnonzero(drawn).tolist():
        if item not in bent:
            west, south, east, north = placed.boxes[item].tolist()
            east = east + 360.0 if west > east else east
            yield np.array([(west, south), (east, south), (east, north), (west, north), (west, south)])


def geometry_overlays(table: Table, column: str, path: str, limit: int) -> list[_Layer]:
    """The geometries of one file: its points, its lines and its areas, each a layer."""
    import shapely

    type_ = geo_type_of(table.snapshot, column)
    if isinstance(type_, RasterType):
        raise GeolakeError(
            "expected a geometry or geography column, got a raster column", remedy="call m.show_footprints()"
        )
    if limit < 1:
        raise GeolakeError(f"limit is {limit}", remedy="use 1 or more")
    shapes = shapely.force_2d(table.geometries(path, column=column, limit=limit))
    shapes = _drawable(shapes, type_.crs)
    layers = _shape_layers(f"{len(shapes):,} geometries of {printable(path.rpartition('/')[2], 200)}", shapes)
    if not layers:
        raise GeolakeError("the file has no geometry to draw", where=path)
    return layers


def filter_overlays(snapshot: Snapshot, column: str, where: Predicate) -> list[_Layer]:
    """The geometries of a filter on this column, where they can be drawn on the map."""
    import shapely

    layers: list[_Layer] = []
    for leaf in leaves(bind(where, snapshot.schema)):
        if not isinstance(leaf, BoundSpatial) or join_path(leaf.column) != column:
            continue
        if isinstance(query_window(leaf), WhyNoWindow):
            continue  # the explanation has the reason
        shapes = shapely.force_2d(np.array([shapely.from_wkb(leaf.geometry)], object))
        west, south, east, north = shapely.total_bounds(shapes).tolist()
        if not (leaf.crs.is_unknown or leaf.crs.same_as(CRS84)) and max(east - west, north - south) > 0:
            # A side that is straight in its own CRS bends on the map.
            shapes = shapely.segmentize(shapes, max(east - west, north - south) / _PARTS_OF_A_SIDE)
        try:
            placed = _drawable(shapes, leaf.crs)
        except GeolakeError:
            continue  # the boxes of the column cannot be drawn either
        number = f" {len(layers) + 1}" if layers else ""
        layers += _shape_layers(f"{FILTER}{number}: {leaf.op.sql}", placed)
    return layers


def raster_layers(
    table: Table, column: str, placed: PlacedBoxes
) -> tuple[dict[str, bytes], NDArray[np.float64], dict[str, Any], bytes]:
    """The outlines of the rasters in each file as rings, boxes around them, and the stored bounds as an overlay."""
    import shapely

    rows = table.rasters()
    rows = rows.filter(pc.equal(rows["column"], column))
    paths = table.files.table["path"].combine_chunks()
    files = pc.index_in(rows["path"], value_set=paths).to_numpy()
    boxes = placed.boxes.copy()
    rings: list[tuple[int, NDArray[np.float64]]] = []
    boxes_by_item: dict[int, list[Box]] = {}
    drawn = rows.select(["xmin", "ymin", "xmax", "ymax", "footprint"])
    for item, row in zip(files.tolist(), drawn.to_pylist(), strict=True):
        if row["xmin"] is not None:
            boxes_by_item.setdefault(item, []).append(Box(row["xmin"], row["ymin"], row["xmax"], row["ymax"]))
        if row["footprint"] is not None:
            shape = shapely.get_parts(shapely.from_wkb(row["footprint"]))
            rings += [(item, shapely.get_coordinates(part)) for part in shape if part.geom_type == "Polygon"]
    for item, own in boxes_by_item.items():
        # The map frames and finds an item by its box, which has to hold its outlines.
        stored = [Box(*boxes[item])] if placed.drawn[item] and placed.flags[item] == 0 else []
        whole = union_all([*own, *stored], circular=True)
        if whole is not None:
            boxes[item] = whole.xmin, whole.ymin, whole.xmax, whole.ymax
    overlay = _layer(f"stored bounds ({plural(int(placed.drawn.sum()), 'file')})", "rings")
    return pack_rings(rings), boxes, overlay, pack_parts(placed_rings(placed))


def _shape_layers(name: str, shapes: NDArray[np.object_]) -> list[_Layer]:
    """The points, the lines and the areas of shapes in degrees, each a layer."""
    import shapely

    parts = shapely.get_parts(shapes)
    while len(parts) and (shapely.get_type_id(parts) > 3).any():
        parts = shapely.get_parts(parts)
    kinds = shapely.get_type_id(parts)
    coordinates = {
        "points": [shapely.get_coordinates(part) for part in parts[kinds == 0]],
        "lines": [shapely.get_coordinates(part) for part in parts[np.isin(kinds, (1, 2))]],
        "rings": [shapely.get_coordinates(ring) for ring in shapely.get_rings(parts[kinds == 3])],
    }
    return [
        (_layer(f"{name}, {kind}", kind), pack_parts(unrolled(line) for line in lines))
        for kind, lines in coordinates.items()
        if lines
    ]


def _layer(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "visible": True}


def _drawable(shapes: NDArray[np.object_], crs: Crs) -> NDArray[np.object_]:
    """The shapes in WGS84, without those that cannot be transformed."""
    import shapely

    placed = to_degrees(shapes, crs)
    drawable: NDArray[np.object_] = placed[~shapely.is_missing(placed)]
    return drawable


def to_degrees(shapes: NDArray[np.object_], crs: Crs) -> NDArray[np.object_]:
    """The shapes in WGS84; a shape that cannot be transformed becomes `None`."""
    import shapely

    from geolake_nb.jupyter.map_layers import way_to_wgs84

    try:
        way = None if crs.is_unknown else way_to_wgs84(crs)
    except CrsError as problem:
        raise GeolakeError(f"the geometries cannot be drawn on the map: {problem.what}") from None
    if way is not None:
        shapes = shapely.transform(
            shapes, lambda xy: np.column_stack(way.transform(xy[:, 0], xy[:, 1], errcheck=False))
        )
    placed: NDArray[np.object_] = np.array(shapes, object)
    placed[~np.logical_and.reduce(np.isfinite(shapely.bounds(placed)), axis=1)] = None
    return placed


def unrolled(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points of one part, none of which jumps over the map at 180 degrees."""
    if len(points) < 2 or np.abs(np.diff(points[:, 0])).max() <= 180.0:
        return points
    return np.column_stack([np.unwrap(points[:, 0], period=360.0), points[:, 1]])
