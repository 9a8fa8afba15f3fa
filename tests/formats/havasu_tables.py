"""Writes small Havasu tables for tests: each geometry encoding, rasters, and each fault that a check should find.

The manifests and the metadata come from `iceberg_tables`; values and boxes from shapely and from Havasu's text.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import shapely

from geolake_nb.raster_data.arrow import rasters_to_arrow
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from tests.formats.iceberg_tables import HAVASU_FIELDS, FileEntry, column, make_iceberg_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

ID, GEOM, RASTER = 1, 2, 3

FAULTS: dict[str, Callable[[FileEntry], FileEntry]] = {
    "missing": lambda entry: replace(entry, geom_lower=None, geom_upper=None),
    "lower only": lambda entry: replace(entry, geom_upper=None),
    "swapped": lambda entry: replace(entry, geom_lower=entry.geom_upper, geom_upper=entry.geom_lower),
    "cut off": lambda entry: replace(
        entry, geom_lower={key: value[:-3] for key, value in (entry.geom_lower or {}).items()}
    ),
    "raw doubles": lambda entry: replace(
        entry, geom_lower={key: value[5:] for key, value in (entry.geom_lower or {}).items()}
    ),
    "line": lambda entry: replace(
        entry, geom_lower={key: shapely.to_wkb(shapely.LineString([(0, 0), (1, 1)])) for key in entry.geom_lower or {}}
    ),
    "empty point": lambda entry: replace(
        entry, geom_lower={key: point(float("nan"), float("nan")) for key in entry.geom_lower or {}}
    ),
    "too small": lambda entry: _moved(entry, lambda lower, upper: (lower, (lower + upper) / 2)),
    "too large": lambda entry: _moved(entry, lambda lower, upper: (lower - 10, upper + 10)),
    "wrapped": lambda entry: _moved(
        entry, lambda lower, upper: (np.array([170, lower[1]]), np.array([-170, upper[1]]))
    ),
    "not parquet": lambda entry: replace(entry, format="ORC"),
}
"""What can be wrong with a file, by name: give one to `make_havasu_table(fault=...)`."""


def point(x: float, y: float, *, big_endian: bool = False, srid: int | None = None) -> bytes:
    """A WKB or EWKB point."""
    order = ">" if big_endian else "<"
    code = 1 | (0x20000000 if srid is not None else 0)
    head = struct.pack(f"{order}BI", 0 if big_endian else 1, code)
    return head + (b"" if srid is None else struct.pack(f"{order}I", srid)) + struct.pack(f"{order}dd", x, y)


def encode(shapes: Sequence[Any], encoding: str, *, srid: int = 4326) -> pa.Array:
    """Shapes as a Havasu column stores them; `None` is null."""
    geometries = np.array(list(shapes), object)
    if encoding == "ewkb":
        with_srid = shapely.set_srid(geometries, srid)
        return pa.array(shapely.to_wkb(with_srid, include_srid=True, flavor="extended"), pa.binary())
    if encoding == "wkb":
        return pa.array(shapely.to_wkb(geometries, flavor="iso"), pa.binary())
    if encoding == "wkt":
        return pa.array(shapely.to_wkt(geometries, rounding_precision=-1), pa.string())
    return pa.array(shapely.to_geojson(geometries), pa.string())


def raster_at(x: float, y: float, *, size: int = 4, pixel: float = 0.5, bands: int = 1) -> Raster:
    """A raster in WGS84 whose upper left *corner* is at x, y."""
    data = bytes(range(size * size))
    band = Band(PixelType.PT_8BUI, data=data)
    # Havasu, Raster data model: the upper left is the centre of a pixel; an affine transform has its corner.
    reference = GeoReference.from_affine((pixel, 0.0, x, 0.0, -pixel, y))
    return Raster(size, size, (band,) * bands, _WGS84, reference)


_WGS84 = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]]'
)


def geometry_entry(name: str, shapes: Sequence[Any], *, encoding: str = "ewkb") -> FileEntry:
    """A data file of geometries with the box that Havasu's pseudo-code gives them; none for null or empty ones."""
    table = pa.table({"id": pa.array(range(len(shapes)), pa.int64()), "geom": encode(shapes, encoding)})
    placed = [shape for shape in shapes if shape is not None and not shape.is_empty]
    bounds = {GEOM: shapely.total_bounds(np.array(placed, object))} if placed else {}
    return FileEntry(
        f"data/{name}.parquet",
        rows=len(shapes),
        nulls={ID: 0, GEOM: sum(shape is None for shape in shapes)},
        geom_lower={key: point(*box[:2]) for key, box in bounds.items()},
        geom_upper={key: point(*box[2:]) for key, box in bounds.items()},
        table=_with_ids(table, {"id": ID, "geom": GEOM}),
    )


def raster_entry(name: str, rasters: Sequence[Raster | None], box: Sequence[float] | None) -> FileEntry:
    """A data file of rasters with the box in WGS84 that the caller knows."""
    arrays = {"id": pa.array(range(len(rasters)), pa.int64()), "rast": rasters_to_arrow(rasters)}
    return FileEntry(
        f"data/{name}.parquet",
        rows=len(rasters),
        nulls={ID: 0},
        geom_lower={} if box is None else {RASTER: point(*box[:2])},
        geom_upper={} if box is None else {RASTER: point(*box[2:])},
        table=_with_ids(pa.table(arrays), {"id": ID, "rast": RASTER}),
    )


def make_havasu_table(
    folder: Path,
    entries: Sequence[FileEntry],
    *,
    version: int = 2,
    encoding: str | None = "ewkb",
    rasters: bool = False,
    havasu_version: str | None = None,
    fault: str | None = None,
    extra: Mapping[str, Any] | None = None,
    fields: Sequence[Mapping[str, Any]] = HAVASU_FIELDS,
    **more: Any,
) -> Path:
    """Write a Havasu table of these files; the fault, one of `FAULTS`, goes into the first of them.

    `encoding` is that of the column `geom`, `None` for a table without it; `rasters` adds the column `rast`.
    `havasu_version` is what the metadata states, nothing by default; `extra` are more words of it, `fields` those that
    data files have in manifests. Other options are `make_iceberg_table`'s.
    """
    columns = [column(ID, "id", "long")]
    if encoding is not None:
        physical = "string" if encoding in ("wkt", "geojson") else "binary"
        columns.append(column(GEOM, "geom", physical, **{"havasu.geometry-encoding": encoding}))
    if rasters:
        empty = {"type": "struct", "fields": []}
        columns.append(column(RASTER, "rast", empty, **{"havasu.raster-encoding": "v1"}))
    listed = list(entries)
    if fault is not None:
        listed[0] = FAULTS[fault](listed[0])
    stated = {} if havasu_version is None else {"havasu.format-version": havasu_version}
    more.setdefault("extra_metadata", {**stated, **(extra or {})})
    return make_iceberg_table(folder, columns, listed, version=version, extra_file_fields=fields, **more)


def _moved(entry: FileEntry, move: Callable[[Any, Any], tuple[Any, Any]]) -> FileEntry:
    lower, upper = dict[int, bytes](), dict[int, bytes]()
    for key in entry.geom_lower or {}:
        ends = [np.frombuffer((bounds or {})[key][5:], "<f8") for bounds in (entry.geom_lower, entry.geom_upper)]
        low, high = move(*ends)
        lower[key], upper[key] = point(*low), point(*high)
    return replace(entry, geom_lower=lower, geom_upper=upper)


def _with_ids(table: pa.Table, ids: Mapping[str, int]) -> pa.Table:
    fields = [
        pa.field(column.name, column.type, column.nullable, {b"PARQUET:field_id": str(ids[column.name]).encode()})
        for column in table.schema
    ]
    return table.cast(pa.schema(fields))
