"""Boxes of rows as a column: never smaller than the shapes, whatever 32 bits can hold of them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

import geolake_nb as gl
from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, GeographyType, GeometryType, StructType
from geolake_nb.parquet.geo_property import CoveringColumn, add_coverings, with_coverings

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


def test_null_and_empty_geometries_have_no_box_and_those_without_a_valid_one_have_an_infinite_box():
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
    with pytest.raises(SchemaError, match="the column 'bbox' already exists"):
        with_coverings(schema, [CoveringColumn("bbox")])


ROWS = [
    (shapely.box(166, -47, 178.5, -34), (166, -47, 178.5, -34)),
    (shapely.box(-179, 51, -165, 54), (-179, 51, -165, 54)),
    # RFC 7946, 5.2: a box over the antimeridian has its western side first.
    (shapely.MultiPolygon([shapely.box(177, -19, 180, -16), shapely.box(-180, -19, -178, -16)]), (177, -19, -178, -16)),
]


@pytest.mark.parametrize("bbox", [None, [-180, -47, 180, 54], [166, -47, -165, 54]])
def test_a_row_over_the_antimeridian_is_not_hidden_by_others(tmp_path, bbox):
    sides = ("xmin", "ymin", "xmax", "ymax")
    geo = {
        "version": "1.1.0",
        "primary_column": "geometry",
        "columns": {
            "geometry": {
                "encoding": "WKB",
                "geometry_types": [],
                "covering": {"bbox": {side: ["bbox", side] for side in sides}},
                **({} if bbox is None else {"bbox": bbox}),
            }
        },
    }
    written = pa.table(
        {
            "geometry": [shapely.to_wkb(shape) for shape, _ in ROWS],
            "bbox": [dict(zip(sides, map(float, box), strict=True)) for _, box in ROWS],
        }
    )
    pq.write_table(written.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / "a.parquet")
    explanation = gl.open(str(tmp_path)).explain("ST_Intersects(geometry, 'POINT (179 -17)')", row_groups=True)
    assert (explanation.read.files, [row["kept"] for row in explanation.row_groups.to_pylist()]) == (1, [True])
    away = gl.open(str(tmp_path)).explain("ST_Intersects(geometry, 'POINT (179 70)')", row_groups=True)
    assert away.read.files == 0


def test_a_file_that_ends_before_the_antimeridian_has_rows_with_boxes_as_stored(tmp_path):
    """Its own bbox rules out that a row runs over it: west and east are apart, and a window between them is empty."""
    rows = [(-30.0, 0.0, -29.0, 1.0), (40.0, 0.0, 41.0, 1.0)]
    sides = ("xmin", "ymin", "xmax", "ymax")
    covering = {"bbox": {side: ["bbox", side] for side in sides}}
    for name, bbox in (("known.parquet", [-30, 0, 41, 1]), ("unknown.parquet", None)):
        column = {"encoding": "WKB", "geometry_types": [], "covering": covering}
        geo = {
            "version": "1.1.0",
            "primary_column": "geometry",
            "columns": {"geometry": column if bbox is None else {**column, "bbox": bbox}},
        }
        written = pa.table(
            {
                "geometry": [shapely.to_wkb(shapely.box(*box)) for box in rows],
                "bbox": [dict(zip(sides, box, strict=True)) for box in rows],
            }
        )
        pq.write_table(written.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / name)
    explanation = gl.open(str(tmp_path)).explain("ST_Intersects(geometry, 'POINT (100 0.5)')")
    assert [(row["path"], row["kept"]) for row in explanation.files.to_pylist()] == [
        ("known.parquet", False),
        ("unknown.parquet", True),
    ]
