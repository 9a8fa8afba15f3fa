"""The utilities of the plan: bounds are serialized as Iceberg's specification has it, and boxes read from WKB."""

from __future__ import annotations

import math
import random
import struct
import sys

import pyarrow as pa
import pytest
import shapely

import geolake_nb.pyiceberg as geo
from geolake_nb.geo.bounds import column_stats
from geolake_nb.geo.wkb import MalformedWkbError, UnsupportedWkbError
from geolake_nb.model.types import GeographyType
from geolake_nb.pyiceberg.plain_wkb import plain_box
from tests.pyiceberg.geo_rows import wkb


@pytest.fixture(params=["core", "without numba"])
def reader(request, monkeypatch):
    """The functions with the core, and with its kernels missing."""
    if request.param == "without numba":
        monkeypatch.setitem(sys.modules, "geolake_nb.geo.wkb_scan", None)


@pytest.mark.parametrize(
    ("bound", "doubles"),
    [
        (geo.GeospatialBound(10.0, 20.0), (10.0, 20.0)),
        (geo.GeospatialBound(10.0, 20.0, z=30.0), (10.0, 20.0, 30.0)),
        (geo.GeospatialBound(10.0, 20.0, m=40.0), (10.0, 20.0, math.nan, 40.0)),
        (geo.GeospatialBound(10.0, 20.0, z=30.0, m=40.0), (10.0, 20.0, 30.0, 40.0)),
    ],
    ids=["XY", "XYZ", "XYM", "XYZM"],
)
def test_bounds_are_serialized_and_deserialized(bound, doubles):
    raw = geo.serialize_geospatial_bound(bound)
    assert raw == struct.pack(f"<{len(doubles)}d", *doubles)
    assert geo.deserialize_geospatial_bound(raw) == bound


@pytest.mark.parametrize("raw", [b"", bytes(15), bytes(40), struct.pack("<2d", math.nan, 1)])
def test_bytes_that_are_no_bound_are_refused(raw):
    with pytest.raises(ValueError, match="bound"):
        geo.deserialize_geospatial_bound(raw)


@pytest.mark.parametrize(
    "text",
    [
        "POINT (1 2)", "LINESTRING (1 2, 3 -4)", "POLYGON ((0 0, 4 0, 4 5, 0 0))", "MULTIPOINT (1 2, 5 6)",
        "MULTILINESTRING ((0 0, 1 1), (7 8, 9 -3))", "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
        "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (3 4, 5 6))", "POINT Z (1 2 3)", "LINESTRING M (1 2 9, 3 4 -9)",
        "POINT ZM (1 2 3 4)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("byte_order", [0, 1])
@pytest.mark.parametrize("flavor", ["iso", "extended"])
def test_the_envelope_of_a_shape_is_that_of_shapely(reader, text, byte_order, flavor):
    shape = shapely.from_wkt(text)
    value = shapely.to_wkb(shape, output_dimension=4, byte_order=byte_order, flavor=flavor)
    envelope = geo.extract_envelope_from_wkb(value, is_geography=False)
    assert (envelope.x_min, envelope.y_min, envelope.x_max, envelope.y_max) == shape.bounds
    z = shapely.get_coordinates(shape, include_z=True)[:, 2]
    assert (envelope.z_min, envelope.z_max) == ((z.min(), z.max()) if shape.has_z else (None, None))
    m = shapely.get_coordinates(shape, include_m=True)[:, 2]
    assert (envelope.m_min, envelope.m_max) == ((m.min(), m.max()) if shape.has_m else (None, None))


def test_nested_geometries_may_have_other_byte_orders(reader):
    big, little = (shapely.to_wkb(shapely.Point(x, x), byte_order=order) for x, order in ((1, 0), (5, 1)))
    collection = struct.pack("<BII", 1, 7, 2) + big + little
    envelope = geo.extract_envelope_from_wkb(collection)
    assert (envelope.x_min, envelope.x_max) == (1.0, 5.0)


def test_an_ewkb_srid_is_read_over(reader):
    value = shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2), 4326), include_srid=True)
    assert geo.extract_envelope_from_wkb(value).y_max == 2.0


@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("LINESTRING (170 0, -170 0)", (170.0, -170.0)),
        ("MULTIPOINT (179 1, -179 2)", (179.0, -179.0)),
        ("LINESTRING (-10 0, 10 0)", (-10.0, 10.0)),
        ("POLYGON ((175 -1, -175 -1, -175 1, 175 1, 175 -1))", (175.0, -175.0)),
    ],
)
def test_a_geography_over_the_antimeridian_has_wrapped_bounds(reader, text, x):
    envelope = geo.extract_envelope_from_wkb(wkb(text), is_geography=True)
    assert (envelope.x_min, envelope.x_max) == x


def test_the_latitudes_of_a_geography_hold_its_edges(reader):
    # Halfway between two points on the 45th parallel, 90 degrees apart, a great circle is at atan(sqrt(2)).
    envelope = geo.extract_envelope_from_wkb(wkb("LINESTRING (-45 45, 45 45)"), is_geography=True)
    top = math.degrees(math.atan(math.sqrt(2)))
    assert top <= envelope.y_max <= top + 1e-8


@pytest.mark.parametrize("text", ["POINT EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY"])
def test_an_empty_shape_has_no_envelope(reader, text):
    assert geo.extract_envelope_from_wkb(wkb(text)) is None


def test_a_point_of_nan_has_no_envelope(reader):
    assert geo.extract_envelope_from_wkb(struct.pack("<BIdd", 1, 1, math.nan, math.nan)) is None


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\x01", struct.pack("<BId", 1, 1, 1.0), struct.pack("<BIdd", 7, 1, 1, 2), struct.pack("<BII", 1, 2, 1000),
        struct.pack("<BIdd", 1, 1, 1, 2) + b"x", struct.pack("<BII", 1, 4, 1) + struct.pack("<BII", 1, 2, 0),
        struct.pack("<BII", 1, 7, 1) * 200 + struct.pack("<BIdd", 1, 1, 1, 2),
    ],
)  # fmt: skip
def test_bytes_that_are_no_wkb_are_an_error(reader, value):
    with pytest.raises(MalformedWkbError):
        geo.extract_envelope_from_wkb(value)


def test_an_unsupported_type_is_named(reader):
    with pytest.raises(UnsupportedWkbError, match="type 99"):
        geo.extract_envelope_from_wkb(struct.pack("<BIdd", 1, 99, 1, 2))


def test_a_longitude_that_no_geography_has_is_an_error(reader):
    with pytest.raises(ValueError, match="outside"):
        geo.extract_envelope_from_wkb(wkb("POINT (190 0)"), is_geography=True)


def envelope(x_min, x_max):
    return geo.GeometryEnvelope(x_min, 0, None, 5, x_max, 1, None, 6)


def test_merged_envelopes_hold_both():
    merged = geo.merge_envelopes(envelope(1, 2), geo.GeometryEnvelope(-3, -4, 7, None, 0, 9, 8, None), False)
    assert merged == geo.GeometryEnvelope(-3, -4, 7, 5, 2, 9, 8, 6)


def test_merged_envelopes_of_geographies_wrap_where_that_is_shorter():
    merged = geo.merge_envelopes(envelope(170, 175), envelope(-175, -170), True)
    assert (merged.x_min, merged.x_max) == (170, -170)
    merged = geo.merge_envelopes(envelope(170, -175), envelope(-10, 10), True)
    assert (merged.x_min, merged.x_max) in ((-10, -175), (170, 10))


def test_an_aggregator_takes_values_and_columns(reader):
    aggregator = geo.GeospatialStatsAggregator(is_geography=True)
    aggregator.add(wkb("POINT (170 1)"))
    aggregator.add(None)
    aggregator.update(pa.array([wkb("POINT (-170 2)"), wkb("POINT EMPTY")]))
    assert aggregator.null_count == 1
    assert geo.deserialize_geospatial_bound(aggregator.min_as_bytes()) == geo.GeospatialBound(170.0, 1.0)
    assert geo.deserialize_geospatial_bound(aggregator.max_as_bytes()) == geo.GeospatialBound(-170.0, 2.0)


def test_an_aggregator_without_shapes_has_no_bound(reader):
    aggregator = geo.GeospatialStatsAggregator()
    aggregator.add(None)
    assert aggregator.min_as_bytes() is aggregator.max_as_bytes() is aggregator.min_bound() is None


def test_one_malformed_value_leaves_a_column_without_a_bound(reader):
    aggregator = geo.GeospatialStatsAggregator()
    aggregator.add(wkb("POINT (1 2)"))
    aggregator.add(b"no WKB")
    assert aggregator.min_as_bytes() is None
    assert aggregator.problem.startswith("row 1: ")


def test_boxes_without_numba_hold_those_of_the_core():
    draw = random.Random(7)
    for _ in range(400):
        lon, lat, size = draw.uniform(-180, 180), draw.uniform(-80, 80), draw.choice((0.5, 5, 60))
        points = [
            (
                (lon + draw.uniform(-size, size) + 180) % 360 - 180,
                max(-90, min(90, lat + draw.uniform(-size, size) / 2)),
            )
            for _ in range(draw.choice((1, 2, 4)))
        ]
        if len(points) == 1:
            shape = shapely.Point(points[0])
        elif len(points) == 2:
            shape = shapely.LineString(points)
        else:
            shape = shapely.Polygon(points)
        value = shapely.to_wkb(shape)
        core = column_stats(pa.array([value]), type=GeographyType()).box
        plain = plain_box(value, geography=True)
        if core is None:
            continue
        # The core rounds latitudes outward by 1e-10.
        assert plain.ymin <= core.ymin + 1e-8, shape
        assert plain.ymax >= core.ymax - 1e-8, shape
        inside = plain.union(core, circular=True)
        assert (inside.xmin, inside.xmax) == (plain.xmin, plain.xmax), shape
