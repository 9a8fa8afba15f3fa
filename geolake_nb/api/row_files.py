"""The rows of a scan as a file: GeoParquet, CSV, GeoJSON or an Arrow stream, some batches in memory at a time."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa

from geolake_nb.errors import GeolakeError
from geolake_nb.model.crs import CRS84
from geolake_nb.model.file_table import plain_rows
from geolake_nb.model.types import GeographyType, GeometryType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from geolake_nb.model.types import Field

    Batches = Iterable[pa.RecordBatch]

__all__ = ["ROW_FORMATS", "row_format", "write_rows"]

_EXTENSIONS = {
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".csv": "csv",
    ".geojson": "geojson",
    ".geoparquet": "parquet",
    ".json": "geojson",
    ".parquet": "parquet",
}


def row_format(path: str | os.PathLike[str], format_: str | None = None) -> str:
    """The format that is named, else the one of the extension.

    >>> row_format("rows.geojson"), row_format("rows.txt", "csv")
    ('geojson', 'csv')
    """
    name = format_ or _EXTENSIONS.get(Path(path).suffix.lower())
    if name not in ROW_FORMATS:
        shown = repr(format_ or Path(path).suffix)
        raise GeolakeError(
            f"rows cannot be written as {shown}",
            where=os.fspath(path),
            remedy=f"use one of: {', '.join(ROW_FORMATS)}, or an extension such as .parquet or .geojson",
        )
    return name


def write_rows(format_: str, target: Path, schema: pa.Schema, fields: Sequence[Field], batches: Batches) -> None:
    """Write the batches to a file, which is complete or does not exist."""
    part = target.with_name(f".{target.name}.part")
    try:
        ROW_FORMATS[format_](part, schema, fields, batches)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _write_parquet(target: Path, schema: pa.Schema, fields: Sequence[Field], batches: Batches) -> None:
    import pyarrow.parquet as pq

    from geolake_nb.parquet.geoparquet import GeoColumn, GeoMetadata, to_geo_metadata

    columns: dict[str, GeoColumn] = {}
    for field in fields:
        if isinstance(field.type, GeometryType | GeographyType):
            algorithm = field.type.algorithm if isinstance(field.type, GeographyType) else None
            columns[field.name] = GeoColumn(crs=field.type.crs, algorithm=algorithm)
    metadata = {"geo": to_geo_metadata(GeoMetadata(next(iter(columns)), columns))} if columns else None
    # The marks of GeoArrow would make the types of geo columns depend on the packages of a reader.
    plain = pa.schema([field.remove_metadata() for field in schema], metadata)
    with pq.ParquetWriter(target, plain, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=plain))


def _write_arrow(target: Path, schema: pa.Schema, fields: Sequence[Field], batches: Batches) -> None:
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(target: Path, schema: pa.Schema, fields: Sequence[Field], batches: Batches) -> None:
    import shapely

    geo = _geo_names(fields)
    with target.open("w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink)
        writer.writerow(schema.names)
        for batch in batches:
            rows = plain_rows(pa.Table.from_batches([batch]))
            for name in geo:
                shapes = shapely.from_wkb(batch.column(name).to_pylist(), on_invalid="ignore")
                for row, text in zip(rows, shapely.to_wkt(shapes, rounding_precision=17), strict=True):
                    row[name] = text
            writer.writerows([["" if value is None else _text(value) for value in row.values()] for row in rows])


def _write_geojson(target: Path, schema: pa.Schema, fields: Sequence[Field], batches: Batches) -> None:
    geo = _geo_names(fields)
    if not geo:
        raise GeolakeError("GeoJSON needs a geometry column", where=str(target), remedy="write CSV or Parquet")
    shape = next(field for field in fields if field.name == geo[0])
    with target.open("w", encoding="utf-8") as sink:
        sink.write('{"type": "FeatureCollection", "features": [')
        separator = "\n"
        for batch in batches:
            for feature in _features(batch, shape, geo):
                sink.write(f"{separator}{json.dumps(feature, default=_text, ensure_ascii=False)}")
                separator = ",\n"
        _end(sink)


def _end(sink: TextIO) -> None:
    sink.write("\n]}\n")


def _features(batch: pa.RecordBatch, shape: Field, geo: Sequence[str]) -> Iterable[dict[str, Any]]:
    """The rows as features in longitude and latitude (RFC 7946)."""
    import shapely

    assert isinstance(shape.type, GeometryType | GeographyType)
    shapes = shapely.from_wkb(batch.column(shape.name).to_pylist(), on_invalid="ignore")
    if not shape.type.crs.same_as(CRS84) and shape.type.crs.is_resolvable:
        import pyproj

        to_degrees = pyproj.Transformer.from_crs(shape.type.crs.to_pyproj(), "OGC:CRS84", always_xy=True)
        shapes = shapely.transform(shapes, to_degrees.transform, interleaved=False)
    texts = shapely.to_geojson(shapes)
    others = [name for name in batch.schema.names if name not in geo]
    rows = plain_rows(pa.Table.from_batches([batch.select(others)])) if others else [{}] * len(batch)
    for row, text in zip(rows, texts, strict=True):
        yield {"type": "Feature", "properties": row, "geometry": None if text is None else json.loads(text)}


def _geo_names(fields: Sequence[Field]) -> list[str]:
    return [field.name for field in fields if isinstance(field.type, GeometryType | GeographyType)]


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


ROW_FORMATS: dict[str, Callable[[Path, pa.Schema, Sequence[Field], Batches], None]] = {
    "arrow": _write_arrow,
    "csv": _write_csv,
    "geojson": _write_geojson,
    "parquet": _write_parquet,
}
"""What writes each format."""
