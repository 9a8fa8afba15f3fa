from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import shapely

from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.predicate import Spatial
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.operators import SpatialOp
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, GeometryType, PrimitiveType, StructType
from geolake_nb.scan.shapely_filter import ShapelyFilter

SCHEMA = Schema(StructType((Field("id", PrimitiveType("int64")), Field("geom", GeometryType()))))
SHAPES = [
    shapely.Point(1, 1),
    shapely.Point(0, 0.5),
    shapely.box(0, 0, 3, 3),
    shapely.box(1, 1, 1.5, 1.5),
    shapely.LineString([(-1, 1), (4, 1)]),
    shapely.box(3, 0, 4, 3),
    shapely.Point(),
    None,
]
QUERY = shapely.box(0, 0, 3, 3)


def batch(values):
    return pa.record_batch({"id": pa.array(range(len(values)), pa.int64()), "geom": pa.array(values, pa.binary())})


def wkb(shapes):
    return [None if shape is None else shapely.to_wkb(shape) for shape in shapes]


@pytest.mark.parametrize("op", SpatialOp)
def test_rows_are_those_of_shapely(op):
    expected = [shape is not None and bool(getattr(shapely, op.name.lower())(shape, QUERY)) for shape in SHAPES]
    test = ShapelyFilter(bind(Spatial.of(op, "geom", QUERY), SCHEMA))
    assert test.keep(batch(wkb(SHAPES))).tolist() == expected


def test_null_is_neither_true_nor_false():
    inside = "ST_Intersects(geom, ST_MakeEnvelope(0, 0, 3, 3))"
    kept = ShapelyFilter(bind(parse_predicate(f"NOT {inside} OR id = 0"), SCHEMA)).keep(batch(wkb(SHAPES)))
    assert np.flatnonzero(kept).tolist() == [0, 6]


def test_a_value_that_shapely_cannot_read_is_left_out_and_counted():
    test = ShapelyFilter(bind(Spatial.of(SpatialOp.INTERSECTS, "geom", QUERY), SCHEMA))
    assert test.keep(batch([b"\x01\x02", *wkb(SHAPES[:1])])).tolist() == [False, True]
    assert test.unreadable == {"geom": 1}
