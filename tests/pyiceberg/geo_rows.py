"""Small tables of shapes in PyIceberg, and their rows."""

from __future__ import annotations

import pyarrow as pa
import shapely
from pyiceberg.schema import Schema
from pyiceberg.types import GeographyType, GeometryType, LongType, NestedField, StringType

__all__ = ["SCHEMA", "V3", "make_table", "rows", "wkb"]

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "geom", GeometryType()),
    NestedField(4, "geog", GeographyType()),
)
V3 = {"format-version": "3"}


def wkb(text: str) -> bytes:
    return shapely.to_wkb(shapely.from_wkt(text), output_dimension=4, flavor="iso")


def rows(start: int, *, count: int = 3) -> pa.Table:
    """Points from `start` eastwards, as longitudes, and the same in the south."""
    ids = list(range(start, start + count))
    return pa.table({
        "id": ids,
        "name": [f"n{id_}" for id_ in ids],
        "geom": [wkb(f"POINT ({id_ % 180} {id_ - start})") for id_ in ids],
        "geog": [wkb(f"POINT ({id_ % 180} {start - id_})") for id_ in ids],
    })  # fmt: skip


def make_table(catalog, name="ns.places", *, schema=SCHEMA, **properties):
    return catalog.create_table(name, schema=schema, properties={**V3, **properties})
