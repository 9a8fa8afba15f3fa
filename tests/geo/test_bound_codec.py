import json
import math
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import (
    from_delta_wkt,
    from_geoparquet_bbox,
    from_havasu_wkb,
    from_iceberg_bytes,
    from_parquet_statistics,
    outward_float32,
    parquet_type_codes,
    to_delta_wkt,
    to_geoparquet_bbox,
    to_havasu_wkb,
    to_iceberg_bytes,
    to_parquet_fields,
    widened_float32,
)
from geolake_nb.model.box import Box

doubles = st.floats(allow_nan=False, allow_infinity=False)
ranges = st.tuples(doubles, doubles).map(sorted)
longitudes = st.floats(-180, 180)


@st.composite
def boxes(draw, xs=ranges, ys=ranges, others=ranges):
    (xmin, xmax), (ymin, ymax) = draw(xs), draw(ys)
    zmin, zmax = draw(st.none() | others) or (None, None)
    mmin, mmax = draw(st.none() | others) or (None, None)
    return Box(xmin, ymin, xmax, ymax, zmin, zmax, mmin, mmax)


earthly = boxes(xs=st.tuples(longitudes, longitudes), ys=st.tuples(*[st.floats(-90, 90)] * 2).map(sorted))
extreme = Box(-1e308, -0.0, 1e308, 5e-324, -5e-324, 2.2250738585072014e-308, 0.1, 1.7976931348623157e308)


def bits(box):
    return struct.pack(f"<{len(box.values)}d", *box.values)


def same(left, other):
    return bits(left) == bits(other) and (left.has_z, left.has_m) == (other.has_z, other.has_m)


class TestDelta:
    def test_the_example_of_the_text_reads_and_is_written_as_it_stands(self):
        stats = json.loads(
            '{"minValues": {"geometryCol": "POINT(-122.419 37.774)"},'
            ' "maxValues": {"geometryCol": "POINT(-120.503 38.021)"}}'
        )
        ends = stats["minValues"]["geometryCol"], stats["maxValues"]["geometryCol"]
        box = from_delta_wkt(*ends)
        assert box == Box(-122.419, 37.774, -120.503, 38.021)
        assert to_delta_wkt(box) == ends

    @pytest.mark.parametrize(
        ("box", "texts"),
        [
            (Box(1, 2, 3, 4), ("POINT(1 2)", "POINT(3 4)")),
            (Box(1, 2, 3, 4, zmin=5, zmax=6), ("POINT Z(1 2 5)", "POINT Z(3 4 6)")),
            (Box(1, 2, 3, 4, mmin=5, mmax=6), ("POINT M(1 2 5)", "POINT M(3 4 6)")),
            (Box(1, 2, 3, 4, 5, 6, 7, 8), ("POINT ZM(1 2 5 7)", "POINT ZM(3 4 6 8)")),
        ],
    )
    def test_each_dimension_has_its_tag(self, box, texts):
        assert to_delta_wkt(box) == texts

    @given(boxes())
    @example(extreme)
    @settings(max_examples=300)
    def test_doubles_survive_bit_for_bit(self, box):
        assert same(from_delta_wkt(*to_delta_wkt(box)), box)

    @given(boxes())
    @example(extreme)
    @settings(max_examples=200)
    def test_geos_reads_what_is_written(self, box):
        for text, side in zip(to_delta_wkt(box), ("min", "max"), strict=True):
            point = shapely.from_wkt(text)
            assert (point.x, point.y) == (getattr(box, f"x{side}"), getattr(box, f"y{side}"))
            assert (point.has_z, shapely.has_m(point)) == (box.has_z, box.has_m)

    @pytest.mark.parametrize("tag", ["Z", "M", "ZM", ""])
    def test_reads_what_geos_writes(self, tag):
        text = f"POINT {tag} ({' '.join(['0.1', '-20', '3e5', '7'][: 2 + len(tag)])})"
        written = shapely.to_wkt(shapely.from_wkt(text), rounding_precision=-1)
        box = from_delta_wkt(written, written)
        assert (box.xmin, box.ymax) == (0.1, -20)
        assert (box.has_z, box.has_m) == ("Z" in tag, "M" in tag)

    # Delta Kernel's own reader takes all of these.
    @pytest.mark.parametrize(
        ("text", "axes"),
        [
            ("POINT (1.0 2.0)", 2),
            ("POINT(1.0 2.0)", 2),
            ("POINT (  1.0   2.0  )", 2),
            ("point (1.0 2.0)", 2),
            ("POINT Z(1.0 2.0 3.0)", 3),
            ("Point Z (1.0 2.0 3.0)", 3),
            ("POINTZ(1 2 3)", 3),
            ("POINT M(1.0 2.0 4.0)", 3),
            ("POINT  ZM(1.0 2.0 3.0 4.0)", 4),
            ("POINT zm(1.0 2.0 3.0 4.0)", 4),
            (" \tPOINT\n(1 2) ", 2),
            ("POINT(1 2 3)", 3),
            ("POINT(1 2 3 4)", 4),
            ("POINT(+1. 0.2E1)", 2),
            ("POINT(1" + "0" * 300 + "e-300 2)", 2),
        ],
    )
    def test_reads_every_spelling(self, text, axes):
        box = from_delta_wkt(text, text)
        assert (box.xmin, box.ymin) == (1.0, 2.0)
        assert len(box.values) == 2 * axes

    @pytest.mark.parametrize(
        ("low", "high", "what"),
        [
            ("POINT EMPTY", "POINT(1 2)", "the min 'POINT EMPTY' is an empty point"),
            ("POINT(1 2)", "POINT Z EMPTY", "the max 'POINT Z EMPTY' is an empty point"),
            ("POINT(NaN 2)", "POINT(1 2)", "'NaN', expected a number"),
            ("POINT(1 2)", "POINT(1 inf)", "'inf', expected a number"),
            ("POINT(1 2)", "POINT(1e999 2)", "outside the range of a double"),
            ("POINT(1 2)", "POINT(1_0 2)", "'1_0', expected a number"),
            ("POINT(1 2)", "POINT(\u0661 2)", "expected a number"),
            ("POINT(1 2)", "POINT(1, 2)", "'1,', expected a number"),
            ("POINT(1 2)", "POINT Z(1 2)", "2 numbers, expected 3"),
            ("POINT(1 2)", "POINT(1)", "1 numbers, expected 2"),
            ("POINT(1 2)", "POINT(1 2", "not a WKT point"),
            ("POINT(1 2)", "POINT 1 2", "not a WKT point"),
            ("POINT(1 2)", "POINT((1 2))", "expected a number"),
            ("LINESTRING(0 0, 1 1)", "POINT(1 2)", "the min 'LINESTRING"),
            ("0101000000", "POINT(1 2)", "not a WKT point"),
            ("SRID=4326;POINT(1 2)", "POINT(1 2)", "not a WKT point"),
            ("", "POINT(1 2)", "the min '' is not a WKT point"),
            ("POINT(1 2)", "POINT Z(1 2 3)", "lower end of a box has XY, its upper end XYZ"),
            ("POINT Z(1 2 3)", "POINT M(1 2 3)", "XYZ, its upper end XYM"),
            ("POINT(1 3)", "POINT(1 2)", "ymin 3.0 > ymax 2.0"),
            ("POINT Z(1 2 4)", "POINT Z(1 2 3)", "zmin"),
            ("POINT(1000 5)", "POINT(200 6)", "ordered as text"),
            ("POINT(" + "1" * 10_000 + " 2)", "POINT(1 2)", "10009 characters"),
            (None, "POINT(1 2)", "NoneType"),
            (17, "POINT(1 2)", "int"),
        ],
    )
    def test_what_is_no_box_is_refused_with_the_reason(self, low, high, what):
        with pytest.raises(BoundError) as caught:
            from_delta_wkt(low, high)
        assert what in str(caught.value)
        assert len(str(caught.value)) < 250

    def test_a_wrapped_box_is_written_over_the_whole_circle(self):
        # specs/README: in Delta statistics x is in [-180, 180] across the antimeridian, never xmin > xmax
        assert to_delta_wkt(Box(170, -20, -170, -10)) == ("POINT(-180 -20)", "POINT(180 -10)")

    @given(earthly)
    @settings(max_examples=200)
    def test_what_is_written_never_wraps_and_always_contains(self, box):
        written = from_delta_wkt(*to_delta_wkt(box))
        assert not written.wraps
        assert written.contains(box)

    def test_a_foreign_wrapped_box_is_read_as_wrapped(self):
        assert from_delta_wkt("POINT(170 0)", "POINT(-170 1)").wraps

    def test_a_wrapped_box_beyond_the_degrees_is_refused(self):
        with pytest.raises(BoundError, match="beyond"):
            to_delta_wkt(Box(200, 0, -200, 1))

    @pytest.mark.parametrize("box", [Box(0, 0, math.inf, 1), Box(0, 0, 1, 1, zmin=-math.inf, zmax=0)])
    def test_an_infinite_side_is_refused(self, box):
        with pytest.raises(BoundError, match="infinite"):
            to_delta_wkt(box)


class TestIceberg:
    @pytest.mark.parametrize(
        ("box", "low"),
        [
            (Box(1, 2, 3, 4), [1, 2]),
            (Box(1, 2, 3, 4, zmin=5, zmax=6), [1, 2, 5]),
            (Box(1, 2, 3, 4, mmin=5, mmax=6), [1, 2, math.nan, 5]),
            (Box(1, 2, 3, 4, 5, 6, 7, 8), [1, 2, 5, 7]),
        ],
    )
    def test_layout_is_that_of_the_plan(self, box, low):
        assert to_iceberg_bytes(box)[0] == np.array(low, dtype="<f8").tobytes()

    @given(boxes(xs=st.tuples(doubles, doubles).map(sorted)))
    @example(extreme)
    @example(Box(-math.inf, 0, math.inf, math.inf))
    @settings(max_examples=300)
    def test_geometry_survives_bit_for_bit(self, box):
        assert same(from_iceberg_bytes(*to_iceberg_bytes(box)), box)

    @given(earthly)
    @settings(max_examples=200)
    def test_geography_survives_bit_for_bit_wrapped_or_not(self, box):
        assert same(from_iceberg_bytes(*to_iceberg_bytes(box, circular=True)), box)

    def test_a_geometry_never_wraps_and_a_geography_keeps_to_the_degrees(self):
        with pytest.raises(BoundError, match="antimeridian"):
            to_iceberg_bytes(Box(170, 0, -170, 1))
        with pytest.raises(BoundError, match="beyond"):
            to_iceberg_bytes(Box(0, 0, 181, 1), circular=True)
        with pytest.raises(BoundError, match="beyond"):
            to_iceberg_bytes(Box(0, 0, 1, 91), circular=True)

    @pytest.mark.parametrize("flavor", ["iso", "extended"])
    @pytest.mark.parametrize("byte_order", [0, 1])
    @pytest.mark.parametrize("text", ["POINT(1 2)", "POINT Z(1 2 3)", "POINT ZM(1 2 3 4)", "LINESTRING(0 0, 1 1)"])
    def test_wkb_is_named_as_such(self, text, byte_order, flavor):
        data = shapely.to_wkb(shapely.from_wkt(text), byte_order=byte_order, flavor=flavor, output_dimension=4)
        with pytest.raises(BoundError, match="look like WKB"):
            from_iceberg_bytes(data, data)

    @pytest.mark.parametrize("length", [*range(16), 17, 23, 25, 31, 33, 40, 64])
    def test_a_wrong_length_is_refused(self, length):
        with pytest.raises(BoundError, match=f"{length} bytes"):
            from_iceberg_bytes(b"\xff" * length, b"\xff" * length)

    @pytest.mark.parametrize(
        ("low", "high", "what"),
        [
            ([1, 2], [3, 4, 5], "XY, its upper end XYZ"),
            ([1, 2, math.nan, 4], [1, 2, 3, 4], "XYM, its upper end XYZM"),
            ([math.nan, 2], [3, 4], "lower bound has a NaN"),
            ([1, 2], [3, math.nan], "upper bound has a NaN"),
            ([1, 5], [3, 4], "ymin"),
            ([math.inf, 0], [-math.inf, 1], "neither a range"),
        ],
    )
    def test_what_is_no_box_is_refused(self, low, high, what):
        with pytest.raises(BoundError, match=what):
            from_iceberg_bytes(struct.pack(f"<{len(low)}d", *low), struct.pack(f"<{len(high)}d", *high))

    def test_nan_stands_for_an_axis_that_is_not_there(self):
        box = from_iceberg_bytes(struct.pack("<4d", 1, 2, math.nan, math.nan), struct.pack("<3d", 3, 4, math.nan))
        assert box == Box(1, 2, 3, 4)


class TestHavasu:
    @given(boxes())
    @settings(max_examples=100)
    def test_shapely_writes_the_same_bytes(self, box):
        low = shapely.to_wkb(shapely.Point(box.xmin, box.ymin), byte_order=1)
        high = shapely.to_wkb(shapely.Point(box.xmax, box.ymax), byte_order=1)
        assert to_havasu_wkb(box) == (low, high)

    @given(boxes(others=st.nothing()) | boxes())
    @settings(max_examples=200)
    def test_x_and_y_survive_bit_for_bit(self, box):
        flat = Box(box.xmin, box.ymin, box.xmax, box.ymax)
        assert same(from_havasu_wkb(*to_havasu_wkb(box)), flat)

    def test_a_raster_may_wrap_as_in_the_example_of_the_text(self):
        # Havasu, Raster bounds: POINT (170, 10) to POINT (-170, 20)
        box = from_havasu_wkb(*to_havasu_wkb(Box(170, 10, -170, 20), circular=True))
        assert box.intersects(Box(175, 15, 180, 15))
        assert box.intersects(Box(-180, 15, -175, 15))
        assert not box.intersects(Box(-160, 15, 160, 15))
        with pytest.raises(BoundError, match="raster"):
            to_havasu_wkb(Box(170, 10, -170, 20))

    @pytest.mark.parametrize(("flavor", "srid"), [("iso", 0), ("extended", 0), ("extended", 4326)])
    @pytest.mark.parametrize("byte_order", [0, 1])
    @pytest.mark.parametrize("text", ["POINT(1 2)", "POINT Z(1 2 3)", "POINT M(1 2 3)", "POINT ZM(1 2 3 4)"])
    def test_reads_every_flavour_of_point(self, text, byte_order, flavor, srid):
        point = shapely.set_srid(shapely.from_wkt(text), srid)
        data = shapely.to_wkb(point, byte_order=byte_order, flavor=flavor, include_srid=bool(srid), output_dimension=4)
        assert from_havasu_wkb(data, data) == Box(1, 2, 1, 2)

    @pytest.mark.parametrize(
        ("data", "what"),
        [
            (b"", "0 bytes is not a WKB point"),
            (b"\x02" + bytes(20), "not a WKB point"),
            (bytes(21), "not a WKB point"),
            (b"\x01\x01\x00\x00\x00" + bytes(15), "20 bytes, expected 21 for its WKB point"),
            (b"\x01\x01\x00\x00\x00" + bytes(17), "22 bytes, expected 21 for its WKB point"),
            (shapely.to_wkb(shapely.LineString([(0, 0), (1, 1)])), "type 2"),
            (shapely.to_wkb(shapely.Point()), "NaN"),
        ],
    )
    def test_what_is_no_point_is_refused(self, data, what):
        with pytest.raises(BoundError, match=what):
            from_havasu_wkb(data, data)


class TestParquet:
    @given(boxes())
    @settings(max_examples=100)
    def test_fields_survive_bit_for_bit(self, box):
        assert same(from_parquet_statistics(to_parquet_fields(box)), box)

    def test_a_wrapped_box_is_read_but_written_for_a_geography_only(self):
        fields = {"xmin": 170, "xmax": -170, "ymin": 0, "ymax": 1}
        box = from_parquet_statistics(fields)
        assert box.wraps
        assert to_parquet_fields(box, circular=True) == fields
        with pytest.raises(BoundError, match="geometry"):
            to_parquet_fields(box)

    @pytest.mark.parametrize("missing", ["xmin", "ymin", "xmax", "ymax"])
    def test_without_x_or_y_there_is_no_box(self, missing):
        fields = {"xmin": 0, "ymin": 0, "xmax": 1, "ymax": 1, "zmin": 1, "zmax": 2, missing: None}
        assert from_parquet_statistics(fields) is None

    @pytest.mark.parametrize(
        "changed",
        [
            {"xmin": math.inf, "xmax": -math.inf},
            {"ymin": math.inf, "ymax": -math.inf},
            {"xmin": math.nan},
            {"xmin": "0"},
        ],
    )
    def test_foreign_boxes_that_are_none_are_refused(self, changed):
        with pytest.raises(BoundError):
            from_parquet_statistics({"xmin": 0, "ymin": 0, "xmax": 1, "ymax": 1, **changed})

    # Parquet, Bounding Box: a dimension that has only null or NaN values is omitted.
    @pytest.mark.parametrize(
        "z", [(1, None), (None, 1), (math.nan, math.nan), (1, math.nan), (math.nan, 1), (math.inf, -math.inf), (2, 1)]
    )
    def test_an_axis_without_a_range_takes_no_other_with_it(self, z):
        fields = {"xmin": 0, "ymin": 0, "xmax": 1, "ymax": 1}
        box = from_parquet_statistics({**fields, "zmin": z[0], "zmax": z[1], "mmin": 5, "mmax": 6})
        assert box == Box(0, 0, 1, 1, mmin=5, mmax=6)
        other = from_parquet_statistics({**fields, "zmin": 5, "zmax": 6, "mmin": z[0], "mmax": z[1]})
        assert other == Box(0, 0, 1, 1, zmin=5, zmax=6)

    def test_boxes_and_types_of_parquet_testing(self, corpus: Path):
        metadata = pq.ParquetFile(corpus / "parquet_geo/parquet-testing/geospatial.parquet").metadata
        result = [metadata.row_group(group).column(2).geo_statistics for group in range(3)]
        # Row groups of all types with Z from 30 to 80 and M from 200 to 1600, of empties, and of nulls.
        assert from_parquet_statistics(result[0]) == Box(10, 10, 40, 40, 30, 80, 200, 1600)
        assert from_parquet_statistics(result[1]) is None
        assert from_parquet_statistics(result[2]) is None
        codes = tuple(base + kind for base in (0, 1000, 2000, 3000) for kind in range(1, 8))
        assert parquet_type_codes(result[0]) == codes
        assert parquet_type_codes(result[2]) is None

    def test_every_box_of_the_corpus_contains_its_points(self, corpus: Path):
        wrapped = []
        for path in sorted((corpus / "parquet_geo").rglob("*.parquet")):
            file = pq.ParquetFile(path, arrow_extensions_enabled=False)
            for group in range(file.metadata.num_row_groups):
                for index in range(file.metadata.num_columns):
                    box = from_parquet_statistics(file.metadata.row_group(group).column(index).geo_statistics)
                    if box is None:
                        continue
                    name = file.metadata.schema.column(index).path
                    column = file.read_row_group(group, columns=[name]).column(0).combine_chunks()
                    # An extension array where another test has registered geoarrow's types.
                    storage = getattr(column, "storage", column).drop_null()
                    x, y = shapely.get_coordinates(shapely.from_wkb(storage.to_pylist())).T
                    slack = 1.5e-14  # foreign boxes miss vertices by up to 1.4e-14 degrees, which is rounding
                    west, east = x >= box.xmin - slack, x <= box.xmax + slack
                    assert (west | east if box.wraps else west & east).all()
                    assert ((y >= box.ymin - slack) & (y <= box.ymax + slack)).all()
                    wrapped.append(box.wraps)
        assert len(wrapped) > 10
        assert any(wrapped)


class TestGeoParquet:
    @given(boxes())
    @settings(max_examples=100)
    def test_arrays_survive_bit_for_bit_and_through_json(self, box):
        flat = Box(box.xmin, box.ymin, box.xmax, box.ymax, box.zmin, box.zmax)
        text = json.dumps(to_geoparquet_bbox(box), allow_nan=False)
        assert same(from_geoparquet_bbox(json.loads(text)), flat)

    def test_z_stands_in_the_middle(self):
        box = Box(1, 2, 4, 5, 3, 6)
        assert to_geoparquet_bbox(box) == [1, 2, 3, 4, 5, 6]
        assert from_geoparquet_bbox([1, 2, 3, 4, 5, 6]) == box

    def test_a_wrapped_box_is_written_where_x_is_a_longitude(self):
        assert to_geoparquet_bbox(Box(170, 0, -170, 1), circular=True) == [170, 0, -170, 1]
        with pytest.raises(BoundError):
            to_geoparquet_bbox(Box(170, 0, -170, 1))

    @pytest.mark.parametrize(
        "bbox",
        [
            [0, 0, 1],
            [0] * 5,
            [0] * 8,
            ["0", "0", "1", "1"],
            [0, 0, None, 1],
            [True, 0, 1, 1],
            "0011",
            {},
            None,
            [0, 2, 1, 1],
            [0, 0, math.nan, 1],
            [0, 0, math.inf, 1],
            [0, 0, 10**400, 1],
            [math.inf, 0, -math.inf, 1],
        ],
    )
    def test_what_is_no_bbox_is_refused(self, bbox):
        with pytest.raises(BoundError):
            from_geoparquet_bbox(bbox)

    def test_an_infinite_side_is_refused(self):
        with pytest.raises(BoundError, match="infinite"):
            to_geoparquet_bbox(Box(0, 0, math.inf, 1))

    def test_the_metadata_cases_of_geoparquet(self, corpus: Path):
        cases = json.loads((corpus / "geoparquet/metadata_cases_1.1.0.json").read_text())
        seen = {True: 0, False: 0}
        for case in cases:
            columns = case["geo"].get("columns", {})
            for column in columns.values() if isinstance(columns, dict) else ():
                if "bbox" in column:
                    seen[case["valid"]] += 1
                    if case["valid"]:
                        from_geoparquet_bbox(column["bbox"])
                    else:
                        with pytest.raises(BoundError):
                            from_geoparquet_bbox(column["bbox"])
        assert min(seen.values()) >= 2


class TestFloat32:
    @given(boxes())
    @example(extreme)
    @example(Box(-1e308, -1e308, -1e308, -1e308, 1e-46, 1e-46))
    @settings(max_examples=300)
    def test_the_outward_box_contains_and_is_the_smallest(self, box):
        outward = outward_float32(box)
        with np.errstate(over="ignore", under="ignore"):
            for side in ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax"):
                exact, rounded = getattr(box, side), getattr(outward, side)
                if exact is None:
                    assert rounded is None
                    continue
                sign = -1 if side.endswith("min") else 1
                assert float(np.float32(rounded)) == rounded
                assert sign * rounded >= sign * exact
                nearer = float(np.nextafter(np.float32(rounded), np.float32(-sign * np.inf)))
                assert sign * nearer < sign * exact

    @given(boxes(xs=st.tuples(*[st.floats(-1e30, 1e30)] * 2).map(sorted)))
    @settings(max_examples=200)
    def test_the_widened_box_contains_what_was_rounded_to_the_nearest(self, box):
        with np.errstate(over="ignore", under="ignore"):
            nearest = [float(np.float32(value)) for value in (box.xmin, box.ymin, box.xmax, box.ymax)]
        assume(all(map(math.isfinite, nearest)))
        assert widened_float32(Box(*nearest)).contains(box)

    @given(earthly)
    @settings(max_examples=200)
    def test_a_wrapped_box_stays_a_cover(self, box):
        outward = outward_float32(box)
        assert outward.contains(box)
        assert -180 <= outward.xmin <= 180
        assert -180 <= outward.xmax <= 180

    def test_a_gap_that_closes_gives_the_whole_circle(self):
        narrow = Box(math.nextafter(0.1, 1), 0, 0.1, 1)
        assert narrow.wraps
        assert outward_float32(narrow) == Box(-180, 0, 180, 1)
        assert outward_float32(Box(math.nextafter(1e6, 2e6), 0, 1e6, 1)).xmin == -math.inf


@pytest.mark.parametrize("read", [from_havasu_wkb, from_iceberg_bytes])
@pytest.mark.parametrize("ends", [(None, b""), ("", b""), (bytes(16), None)])
def test_what_is_no_bytes_is_no_bound(read, ends):
    with pytest.raises(BoundError):
        read(*ends)
