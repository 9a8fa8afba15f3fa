"""Boxes of rows as a column: never smaller than the shapes, whatever 32 bits can hold of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from geolake_nb.core.schema import Schema
from geolake_nb.core.types import Field, GeographyType, GeometryType, StructType
from geolake_nb.errors import SchemaError
from geolake_nb.formats.parquet.covering import CoveringColumn, add_coverings, with_coverings

NUMBERS = st.floats(-1e300, 1e300, allow_nan=False)


def covered(values, type_=None, *, narrow: bool = True) -> list:
    schema = Schema(StructType((Field("geom", type_ or GeometryType()),)))
    batch = pa.record_batch({"geom": pa.array(values, pa.binary())})
    made = add_coverings(batch, schema, [CoveringColumn("geom", "box", narrow)])
    assert made.schema.field("box").type.field(0).type == (pa.float32() if narrow else pa.float64())
    return made.column("box").to_pylist()


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_sides_are_rounded_outward(points):
    for narrow in (True, False):
        (box,) = covered([shapely.to_wkb(shapely.MultiPoint(points))], narrow=narrow)
        xs, ys = np.array(points).T
        assert box["xmin"] <= xs.min()
        assert box["xmax"] >= xs.max()
        assert box["ymin"] <= ys.min()
        assert box["ymax"] >= ys.max()
        if not narrow:
            assert (box["xmin"], box["ymax"]) == (xs.min(), ys.max())


def test_shapes_without_a_place_have_no_box_and_those_without_a_sound_one_have_all_there_is():
    values = [None, shapely.to_wkb(shapely.Point()), shapely.to_wkb(shapely.Point(1, 2))]
    assert covered(values)[:2] == [None, None]
    assert covered(values)[2] == {"xmin": 1, "ymin": 2, "xmax": 1, "ymax": 2}
    everything = {"xmin": -np.inf, "ymin": -np.inf, "xmax": np.inf, "ymax": np.inf}
    assert covered([b"no WKB", None]) == [everything, None]


def test_a_box_over_the_antimeridian_has_all_longitudes():
    ring = shapely.Polygon([(170, 10), (-170, 10), (-170, 20), (170, 20)])
    (box,) = covered([shapely.to_wkb(ring)], GeographyType())
    assert (box["xmin"], box["xmax"]) == (-180, 180)


def test_a_name_that_is_taken_is_refused():
    schema = Schema(StructType((Field("bbox", GeometryType()),)))
    with pytest.raises(SchemaError, match="there is a column 'bbox' already"):
        with_coverings(schema, [CoveringColumn("bbox")])
