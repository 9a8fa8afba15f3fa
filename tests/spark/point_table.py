"""A Delta table of points, made by Spark alone: geo types, and no bounds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import shapely

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["make_points", "points_of", "rows_of"]


def make_points(spark: SparkSession, path: str, *, rows: int, files: int, seed: int = 7) -> None:
    """`id, name, geom`: points all over the Earth, in no order, a null in every hundred."""
    data = [
        (number, f"name {number}", None if point is None else bytearray(shapely.to_wkb(point)))
        for number, point in enumerate(points_of(rows, seed=seed))
    ]
    frame = spark.createDataFrame(data, "id long, name string, wkb binary").repartition(files)
    geo = frame.selectExpr("id", "name", "st_geomfromwkb(wkb, 4326) AS geom")
    geo.write.format("delta").mode("append").save(path)


def points_of(rows: int, *, seed: int = 7) -> list[shapely.Point | None]:
    """The points of these rows."""
    draw = random.Random(seed)
    points = [shapely.Point(draw.uniform(-180, 180), draw.uniform(-90, 90)) for _ in range(rows)]
    return [None if number % 100 == 99 else point for number, point in enumerate(points)]


def rows_of(spark: SparkSession, path: str, *, version: int | None = None) -> list[tuple[int, str, bytes | None]]:
    """The rows as Spark reads them, in the order of their ids."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    rows = reader.load(path).selectExpr("id", "name", "st_asbinary(geom) AS wkb").orderBy("id").collect()
    return [(row.id, row.name, None if row.wkb is None else bytes(row.wkb)) for row in rows]
