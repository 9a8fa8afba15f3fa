"""The bounds of a table's files for other tools: GeoJSON, GeoParquet and a page with the map."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.map_layers import place_boxes
from geolake_nb.jupyter.written_file import written_file
from geolake_nb.model.file_table import plain_values
from geolake_nb.scan.coverage import geo_type_of, mapped_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from geolake_nb.api.table import Table
    from geolake_nb.jupyter.map_layers import PlacedBoxes
    from geolake_nb.model.snapshot import Snapshot

    Target = str | os.PathLike[str]

__all__ = [
    "box_shapes",
    "cut_at_antimeridian",
    "export",
    "feature_collection",
    "file_facts",
    "to_geojson",
    "to_geoparquet",
]

_WORLD = (-180.0, -90.0, 180.0, 90.0)


def export(table: Table, path: Target, column: str | None = None) -> Path:
    """Write the format of the file extension."""
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        what = f"unsupported file extension {suffix!r}" if suffix else "the path has no file extension"
        raise GeolakeError(what, where=os.fspath(path), remedy=f"use one of: {', '.join(sorted(_WRITERS))}")
    return _WRITERS[suffix](table, path, column)


def to_geojson(snapshot: Snapshot, path: Target | None = None, column: str | None = None) -> dict[str, Any] | Path:
    """The boxes as an object, or as a file where a path is given."""
    collection = feature_collection(snapshot, column)
    if path is None:
        return collection
    with written_file(path, snapshot) as target:
        target.write_text(json.dumps(collection, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return target


def feature_collection(snapshot: Snapshot, column: str | None = None) -> dict[str, Any]:
    """One feature a file, in WGS84; a file whose bounds are missing or invalid has a null geometry."""
    import shapely

    name = mapped_column(snapshot, column)
    placed = place_boxes(snapshot.files.boxes(name), geo_type_of(snapshot, name))
    shapes = box_shapes(placed)
    facts = file_facts(snapshot, name, placed).to_pylist()
    texts = shapely.to_geojson(shapes)
    features = []
    for text, row, box in zip(texts.tolist(), facts, placed.boxes.tolist(), strict=True):
        # RFC 7946, 5.2: the first longitude of a bbox is the western one, so one across 180 has west > east.
        bbox = {} if text is None else {"bbox": box}
        geometry = None if text is None else json.loads(text)
        features.append({"type": "Feature", **bbox, "geometry": geometry, "properties": row})
    return {"type": "FeatureCollection", "features": features}


def to_geoparquet(snapshot: Snapshot, path: Target, column: str | None = None) -> Path:
    """The boxes as GeoParquet 1.1 in WGS84, with a covering column that other readers skip by."""
    import pyarrow.parquet as pq
    import shapely

    from geolake_nb.parquet.geoparquet import Covering, GeoColumn, GeoMetadata, to_geo_metadata

    name = mapped_column(snapshot, column)
    placed = place_boxes(snapshot.files.boxes(name), geo_type_of(snapshot, name))
    shapes = box_shapes(placed)
    sides = shapely.bounds(shapes)
    known = ~shapely.is_missing(shapes)
    fields = ("xmin", "ymin", "xmax", "ymax")
    covering = pa.StructArray.from_arrays(
        [pa.array(sides[:, index]) for index in range(4)], names=list(fields), mask=pa.array(~known)
    )
    wkb = [None if shape is None else bytes(shape) for shape in shapely.to_wkb(shapes, byte_order=1).tolist()]
    table = file_facts(snapshot, name, placed)
    table = table.append_column("bbox", covering).append_column("geometry", pa.array(wkb, pa.binary()))
    kinds = tuple(sorted({shape.geom_type for shape in shapes[known].tolist()}))
    whole = (*sides[known, :2].min(axis=0).tolist(), *sides[known, 2:].max(axis=0).tolist()) if known.any() else None
    about = GeoColumn(
        geometry_types=kinds, bbox=whole, covering=Covering(*(("bbox", side) for side in fields))
    )  # fmt: skip
    metadata = {"geo": to_geo_metadata(GeoMetadata("geometry", {"geometry": about}))}
    with written_file(path, snapshot) as target:
        pq.write_table(table.replace_schema_metadata(metadata), target, compression="zstd")
    return target


def file_facts(snapshot: Snapshot, column: str, placed: PlacedBoxes) -> pa.Table:
    """`path, rows, bytes, partition.…, problem`: the properties of each box."""
    table = snapshot.files.table
    names = ["path", "rows", "bytes", *(column for column in table.column_names if column.startswith("partition."))]
    facts = table.select(names)
    for index, name in enumerate(names[3:], start=3):
        texts = [None if value is None else str(value) for value in plain_values(facts[name])]
        facts = facts.set_column(index, name, pa.array(texts, pa.string()))
    stored = table[f"{column}.problem"].to_pylist()
    problems = [
        placed.reasons[flag - 1] if flag else problem
        for flag, problem in zip(placed.flags.tolist(), stored, strict=True)
    ]
    return facts.append_column("problem", pa.array(problems, pa.string()))


def box_shapes(placed: PlacedBoxes) -> NDArray[np.object_]:
    """The boxes as shapely's: cut at 180 degrees where they cross it, points and lines where they have no area.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.statistics import BoxColumn
    >>> from geolake_nb.model.crs import CRS84
    >>> boxes = BoxColumn.from_boxes([Box(170, 0, -170, 1), Box(1, 2, 1, 2), None])
    >>> [shape and shape.wkt for shape in box_shapes(place_boxes(boxes, CRS84))]  # doctest: +ELLIPSIS
    ['MULTIPOLYGON (((180 0, 180 1, ...', 'POINT (1 2)', None]
    """
    import shapely

    shapes: NDArray[np.object_] = np.full(len(placed), None, object)
    drawn = placed.drawn
    west, south, east, north = placed.boxes.T
    plain = drawn & (west <= east)
    shapes[plain] = shapely.box(west[plain], south[plain], east[plain], north[plain])
    for item in np.flatnonzero(plain & ((west == east) | (south == north))).tolist():
        ends = [(west[item], south[item]), (east[item], north[item])]
        shapes[item] = shapely.Point(ends[0]) if ends[0] == ends[1] else shapely.LineString(ends)
    for item in np.flatnonzero(drawn & (west > east)).tolist():
        parts = [(west[item], 180.0), (-180.0, east[item])]
        shapes[item] = shapely.MultiPolygon([shapely.box(low, south[item], high, north[item]) for low, high in parts])
    for item, ring in placed.outlines:
        if west[item] <= east[item]:
            shapes[item] = shapely.Polygon(ring)
            continue
        lon = np.where(ring[:, 0] < (west[item] + east[item]) / 2.0, ring[:, 0] + 360.0, ring[:, 0])
        shapes[item] = cut_at_antimeridian(shapely.Polygon(np.column_stack([lon, ring[:, 1]])))
    return shapes


def cut_at_antimeridian(shape: Any) -> Any:
    """Polygons that run past 180 degrees on either side, as parts within it.

    >>> import shapely
    >>> [part.bounds for part in cut_at_antimeridian(shapely.box(170, 0, 190, 1)).geoms]
    [(-180.0, 0.0, -170.0, 1.0), (170.0, 0.0, 180.0, 1.0)]
    """
    import shapely
    from shapely import affinity

    whole, world = shapely.make_valid(shape), shapely.box(*_WORLD)
    turned = [affinity.translate(whole, xoff=turn) for turn in (-360.0, 0.0, 360.0)]
    parts = shapely.get_parts(shapely.get_parts(shapely.intersection(turned, world)))
    return shapely.MultiPolygon([part for part in parts if part.geom_type == "Polygon"])


def _html(table: Table, path: Target, column: str | None) -> Path:
    return table.map(column=column).to_html(path)


def _geojson(table: Table, path: Target, column: str | None) -> Path:
    written: Path = to_geojson(table.snapshot, path, column)  # type: ignore[assignment]
    return written


def _geoparquet(table: Table, path: Target, column: str | None) -> Path:
    return to_geoparquet(table.snapshot, path, column)


_WRITERS: dict[str, Callable[[Table, Target, str | None], Path]] = {
    ".geojson": _geojson,
    ".geoparquet": _geoparquet,
    ".htm": _html,
    ".html": _html,
    ".json": _geojson,
    ".parquet": _geoparquet,
}
