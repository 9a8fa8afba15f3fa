"""WKB as WKT and GeoJSON: only where the round trip is exact, coordinates bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.model.types import GeometryEncoding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import shapely
    from numpy.typing import NDArray

__all__ = ["to_text"]


def to_text(values: Sequence[bytes | None], encoding: GeometryEncoding) -> tuple[list[str | None], dict[int, str]]:
    """The texts of ISO WKB, `None` for null, and by row why a value has no text.

    >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> to_text([point, None], GeometryEncoding.WKT)
    (['POINT (1 2)', None], {})
    >>> with_m = bytes.fromhex("01D1070000000000000000F03F00000000000000400000000000000840")
    >>> to_text([with_m], GeometryEncoding.GEOJSON)
    ([None], {0: 'GeoJSON cannot store M values'})
    """
    import shapely

    # GEOS raises a flag of the processor where it reads NaN, of which NumPy warns.
    with np.errstate(all="ignore"):
        shapes = _shapes(values)
        if encoding is GeometryEncoding.GEOJSON:
            texts, read = shapely.to_geojson(shapes), shapely.from_geojson
        else:
            texts, read = shapely.to_wkt(shapes, rounding_precision=-1), shapely.from_wkt
        written: list[str | None] = texts.tolist()
        back = read(texts, on_invalid="ignore")
        given, got = (shapely.to_wkb(some, flavor="iso", byte_order=1, output_dimension=4) for some in (shapes, back))
        faults: dict[int, str] = {}
        for row in range(len(values)):
            if values[row] is None or (given[row] is not None and given[row] == got[row]):
                continue
            written[row] = _exact(shapes[row], back[row], written[row], encoding, read)
            if written[row] is None:
                faults[row] = _why(shapes[row], encoding)
    return written, faults


def _shapes(values: Sequence[bytes | None]) -> NDArray[np.object_]:
    """The values as shapely's, `None` for one that it does not take."""
    import shapely

    wkb = np.empty(len(values), object)
    wkb[:] = values
    try:
        return np.asarray(shapely.from_wkb(wkb, on_invalid="ignore"), object)
    except NotImplementedError:  # raised for arcs
        shapes = np.empty(len(values), object)
        for row, value in enumerate(values):
            try:
                shapes[row] = shapely.from_wkb(value, on_invalid="ignore")
            except NotImplementedError:
                shapes[row] = None
        return shapes


def _exact(
    shape: shapely.Geometry | None,
    back: shapely.Geometry | None,
    text: str | None,
    encoding: GeometryEncoding,
    read: Callable[..., shapely.Geometry | None],
) -> str | None:
    """A text with an exact round trip, although the first try was not exact; `None` if there is none."""
    if shape is None:
        return None
    if _same(shape, back):
        return text
    if encoding is not GeometryEncoding.WKT:
        return None
    # The shortest text of GEOS has 16 digits, which is one too few for some doubles, and no sign of a zero.
    longer = _wkt(shape)
    return longer if _same(shape, read(longer, on_invalid="ignore")) else None


def _same(shape: shapely.Geometry, other: shapely.Geometry | None) -> bool:
    """Whether two shapes have the same parts, axes and coordinates; one NaN is as good as another."""
    import shapely

    return other is not None and bool(shapely.equals_identical(shape, other)) and _plain(shape) == _plain(other)


def _plain(shape: shapely.Geometry) -> bytes:
    import shapely

    coordinates = shapely.get_coordinates(shape, include_z=True, include_m=True)
    return np.where(np.isnan(coordinates), np.nan, coordinates).tobytes()


def _why(shape: shapely.Geometry | None, encoding: GeometryEncoding) -> str:
    import shapely

    name = "GeoJSON" if encoding is GeometryEncoding.GEOJSON else "WKT"
    if shape is None:
        return f"this geometry type cannot be written as {name}"
    if encoding is not GeometryEncoding.GEOJSON:
        return "it does not survive a round trip through WKT"
    # RFC 7946, Position: longitude, latitude and altitude; JSON has no number for NaN and infinity.
    if shapely.has_m(shape):
        return "GeoJSON cannot store M values"
    if not np.isfinite(shapely.get_coordinates(shape, include_z=True)[:, : 3 if shapely.has_z(shape) else 2]).all():
        return "GeoJSON cannot store non-finite coordinates"
    return "GeoJSON cannot store such an empty part"


def _wkt(shape: shapely.Geometry) -> str:
    """WKT with numbers as Python writes them, the shortest that come back."""
    axes = ("Z" if shape.has_z else "") + ("M" if shape.has_m else "")
    return " ".join(filter(None, (shape.geom_type.upper(), axes, _inside(shape))))


def _inside(shape: shapely.Geometry) -> str:
    if shape.geom_type == "GeometryCollection":
        parts = [_wkt(part) for part in shape.geoms]
    elif hasattr(shape, "geoms"):
        parts = [_inside(part) for part in shape.geoms]
    elif shape.geom_type == "Polygon":
        parts = [] if shape.is_empty else [_inside(ring) for ring in (shape.exterior, *shape.interiors)]
    else:
        import shapely

        rows = shapely.get_coordinates(shape, include_z=shape.has_z, include_m=shape.has_m).tolist()
        parts = [" ".join(map(repr, row)) for row in rows]
    return f"({', '.join(parts)})" if parts else "EMPTY"
