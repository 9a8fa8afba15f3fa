"""The bounds of a table's files as a folium map that works offline."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.export import cut_at_antimeridian, feature_collection
from geolake_nb.jupyter.html import visible
from geolake_nb.scan.coverage import mapped_column

if TYPE_CHECKING:
    import folium

    from geolake_nb.model.snapshot import Snapshot

__all__ = ["MAX_FEATURES", "to_folium"]

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
