"""Shapes of all sorts and the windows that ask for them: what tests of written tables share."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["SHAPES", "assert_bounds_are_sound", "iso", "logical_types", "rows_of", "wkb"]

SHAPES = [
    "POINT (10 20)",
    "POINT Z (-170 5 100)",
    "LINESTRING M (0 0 1, 5 7 2)",
    "POLYGON ((0 0, 4 0, 4 3, 0 0), (1 0.5, 1.2 0.5, 1.2 0.6, 1 0.5))",
    "MULTIPOINT ZM ((1 2 3 4), (-5 -6 -7 -8))",
    "GEOMETRYCOLLECTION (POINT (50 60), LINESTRING (51 61, 52 62))",
    "MULTIPOLYGON (((100 -40, 110 -40, 105 -30, 100 -40)))",
    "POINT EMPTY",
    "POLYGON EMPTY",
    None,
]


def iso(text: str | None) -> bytes | None:
    return None if text is None else shapely.to_wkb(shapely.from_wkt(text), flavor="iso", output_dimension=4)


def wkb(text: str | None, *, srid: int | None = None) -> bytearray | None:
    """As ISO WKB, or as EWKB with that SRID."""
    if text is None or srid is None:
        return None if text is None else bytearray(iso(text) or b"")
    shape = shapely.set_srid(shapely.from_wkt(text), srid)
    return bytearray(shapely.to_wkb(shape, flavor="extended", include_srid=True, output_dimension=4))


def rows_of(
    spark: SparkSession,
    path: Path | str,
    *columns: str,
    geo: Sequence[str] = ("geom",),
    version: int | None = None,
) -> Counter[tuple[object, ...]]:
    """The rows as Spark reads them, as a multiset; shapes as bytes."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    chosen = [f"st_asbinary({name})" if name in geo else name for name in columns]
    rows = reader.load(str(path)).selectExpr(*chosen).collect()
    return Counter(tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in rows)


def logical_types(path: Path | str, column: str = "geom") -> set[str]:
    """The logical types of a column in the live files, by pyarrow."""
    files = map(unquote, gl.open(str(path)).files.table["path"].to_pylist())
    names = set()
    for file in files:
        schema = pq.read_metadata(f"{path}/{file}").schema
        leaf = next(schema.column(index) for index in range(len(schema)) if schema.column(index).path == column)
        names.add(json.dumps(json.loads(leaf.logical_type.to_json()), sort_keys=True))
    return names


def assert_bounds_are_sound(
    path: Path | str, column: str = "geom", *, windows: int = 50, complete: bool = True
) -> None:
    """Every file has a bound that holds all of its shapes, and a window never misses the file of a shape in it."""
    table = gl.open(str(path))
    names = table.files.table["path"].to_pylist()
    shapes = [_shapes(f"{path}/{unquote(name)}", column) for name in names]
    facts = table.files.to_pandas().set_index("path")
    for name, result in zip(names, shapes, strict=True):
        placed = result[~shapely.is_empty(result) & ~shapely.is_missing(result)]
        assert facts.loc[name, f"{column}.null_count"] == shapely.is_missing(result).sum()
        if not len(placed) or not complete:
            continue
        west, south, east, north = shapely.total_bounds(placed)
        low_x, low_y, high_x, high_y = (
            facts.loc[name, f"{column}.{side}"] for side in ("xmin", "ymin", "xmax", "ymax")
        )
        assert low_x <= west <= east <= high_x
        assert low_y <= south <= north <= high_y
    draw = np.random.default_rng(5)
    every = np.concatenate(shapes)
    west, south, east, north = shapely.total_bounds(every)
    for _ in range(windows):
        x, y = draw.uniform(west, east), draw.uniform(south, north)
        size = (east - west) / 20
        window = shapely.box(x, y, x + size, y + size)
        read = _read(table, column, window.bounds)
        for name, result in zip(names, shapes, strict=True):
            if shapely.intersects(shapely.force_2d(result), window).any():
                assert name in read


def _read(table: gl.Table, column: str, bounds: tuple[float, ...]) -> set[str]:
    files = table.explain(gl.Box(*bounds), column=column).files
    return set(files.filter(files["kept"])["path"].to_pylist())


def _shapes(file: str, column: str) -> np.ndarray:
    table = pq.ParquetFile(file, arrow_extensions_enabled=False).read()
    values = table[column.split(".", maxsplit=1)[0]].combine_chunks()
    for part in column.split(".")[1:]:
        values = values.flatten()[values.type.get_field_index(part)]
    return shapely.from_wkb(np.array(values.to_pylist(), object))
