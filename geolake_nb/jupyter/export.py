"""The bounds of a table's files for other tools: GeoJSON, GeoParquet, folium and a page with the map."""

from __future__ import annotations

import base64
import html
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from geolake_nb.errors import GeolakeError, RefusedError, StorageError
from geolake_nb.jupyter.html import visible
from geolake_nb.jupyter.map_layers import place_boxes
from geolake_nb.model.file_table import plain_values
from geolake_nb.scan.coverage import geo_type_of, mapped_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import folium
    from numpy.typing import NDArray

    from geolake_nb.api.table import Table
    from geolake_nb.jupyter.map_layers import PlacedBoxes
    from geolake_nb.model.snapshot import Snapshot

    Target = str | os.PathLike[str]

__all__ = [
    "MAX_FEATURES",
    "box_shapes",
    "cut_at_antimeridian",
    "export",
    "feature_collection",
    "file_facts",
    "to_folium",
    "to_geojson",
    "to_geoparquet",
    "written_file",
]


@contextmanager
def written_file(path: str | os.PathLike[str], snapshot: Snapshot) -> Iterator[Path]:
    """The path to write an export of a table; `~` is the home folder, as where a table is opened.

    An earlier file of that name is replaced, unless the table has it.
    """
    try:
        target = Path(path).expanduser()
        if _is_in_table(target.resolve(), snapshot):
            what = "this is a file of the table"
            raise RefusedError(what, where=str(path), remedy="give another path")
        yield target
    except (OSError, RuntimeError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        # Arrow puts the path into its text, and the reason after it.
        why = why.rpartition("] ")[2]
        raise StorageError(f"cannot be written: {why}", where=str(path) or "''", remedy="give another path") from None


def _is_in_table(target: Path, snapshot: Snapshot) -> bool:
    """Whether the table has the file, or would take it for one of its own."""
    if snapshot.format.has_versions:
        return target.exists() and target.is_relative_to(Path(snapshot.location).resolve())
    if snapshot.details is None:  # boxes without a location
        return False
    root = Path(snapshot.details.storage.location).resolve()
    if not target.is_relative_to(root):
        return False
    data_files = {(root / path).resolve() for path in snapshot.files.table["path"].to_pylist()}
    is_folder = snapshot.location == snapshot.details.storage.location
    return target in data_files or (is_folder and target.suffix == ".parquet")


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


MAX_FEATURES: Final = 10_000
"""Beyond, a page of folium takes many seconds to open: our own map holds a hundred times more."""

# folium renders what it made as a template once more: a brace that reaches it would be run as code.
_BRACES = str.maketrans({"{": "&#123;", "}": "&#125;"})
_STATIC = Path(__file__).parent / "static"
_BOX = {"color": "#2b7d9c", "weight": 1, "fillOpacity": 0.15}
_LAND = {"color": "#9aa3ad", "weight": 0.5, "fillColor": "#fbfaf7", "fillOpacity": 1.0}


def to_folium(snapshot: Snapshot, column: str | None = None) -> folium.Map:
    """The map; files that cannot be drawn are counted in its attribution."""
    try:
        import folium
    except ImportError:
        from geolake_nb.errors import MissingDependencyError

        raise MissingDependencyError("folium is not installed", remedy="pip install folium") from None
    name = mapped_column(snapshot, column)
    count = len(snapshot.files)
    if count > MAX_FEATURES:
        what = f"{count:,} files are too many for folium (at most {MAX_FEATURES:,})"
        raise GeolakeError(what, where=snapshot.location, remedy="use t.map().to_html(path), or t.to_geoparquet(path)")
    features = feature_collection(snapshot, name)["features"]
    drawn = [_escaped(feature) for feature in features if feature["geometry"] is not None]
    page = folium.Map(tiles=None, prefer_canvas=True, location=(0, 0), zoom_start=1, world_copy_jump=True)
    # folium's own lists name four hosts; only Leaflet is used here.
    page.default_js = [("leaflet", _data_uri("leaflet.js", "text/javascript"))]
    page.default_css = [("leaflet_css", _data_uri("leaflet.css", "text/css"))]
    folium.GeoJson(_land(), name="land", style_function=lambda _: _LAND, interactive=False).add_to(page)
    if drawn:
        fields = list(drawn[0]["properties"])
        folium.GeoJson(
            {"type": "FeatureCollection", "features": drawn},
            name="files",
            style_function=lambda _: _BOX,
            marker=folium.CircleMarker(radius=4),
            tooltip=folium.GeoJsonTooltip(fields=fields, sticky=True),
        ).add_to(page)
        page.fit_bounds(_corners(drawn))
    return page


def _escaped(feature: dict[str, Any]) -> dict[str, Any]:
    """The feature with properties that folium may put into HTML as they are, which it does."""

    def text(value: Any) -> Any:
        return html.escape(visible(value)).translate(_BRACES) if isinstance(value, str) else value

    properties = {text(key): text(value) for key, value in feature["properties"].items()}
    return {"type": "Feature", "geometry": feature["geometry"], "properties": properties}


def _land() -> dict[str, Any]:
    import shapely

    land = shapely.from_geojson((_STATIC / "land.json").read_text(encoding="utf-8"))
    cut = shapely.union_all(shapely.get_parts(cut_at_antimeridian(land)), grid_size=0.01)
    geojson: dict[str, Any] = json.loads(shapely.to_geojson(cut))
    return geojson


def _corners(features: list[dict[str, Any]]) -> list[list[float]]:
    import numpy as np
    import shapely

    shapes = shapely.from_geojson([json.dumps(feature["geometry"]) for feature in features])
    west, south, east, north = shapely.total_bounds(np.asarray(shapes, object)).tolist()
    return [[max(south, -85.0), west], [min(north, 85.0), east]]


def _data_uri(name: str, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode((_STATIC / name).read_bytes()).decode()}"
