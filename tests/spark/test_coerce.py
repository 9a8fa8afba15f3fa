"""What tasks make of WKB, EWKB, WKT and coordinates; no session is needed."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.changes.write_job import GeoInput
from geolake_nb.errors import SchemaError
from geolake_nb.model.types import GeometryEncoding
from geolake_nb.parquet.geoparquet import GeoEncoding
from geolake_nb.spark.coerce import SHOWN, GeoReader

WKB, WKT, GEOARROW = GeometryEncoding.WKB, GeometryEncoding.WKT, GeometryEncoding.GEOARROW


def ewkb(text: str, srid: int) -> bytes:
    shape = shapely.set_srid(shapely.from_wkt(text), srid)
    return shapely.to_wkb(shape, flavor="extended", include_srid=True, output_dimension=4)


def iso(text: str) -> bytes:
    with np.errstate(invalid="ignore"):  # of NaN, of which NumPy warns
        return shapely.to_wkb(shapely.from_wkt(text), flavor="iso", output_dimension=4)


def read(values, type_, encoding=WKB, **options):
    reader = GeoReader({"g": GeoInput(type_, encoding)}, **options)
    column = values if isinstance(values, pa.Array) else pa.array(values)
    return reader.read(pa.record_batch({"g": column}))["g"], reader


@pytest.mark.parametrize(
    ("crs", "srid", "good"),
    [
        ("OGC:CRS84", 4326, True),
        ("EPSG:4326", 4326, True),
        ("OGC:CRS84", 0, True),
        ("EPSG:3857", 3857, True),
        ("EPSG:32633", 32633, True),
        ("EPSG:3857", 4326, False),
        ("OGC:CRS84", 4269, False),
        ("SRID:0", 4326, False),
        ("SRID:0", 0, True),
        ("EPSG:3857", 999999, False),
    ],
)
def test_an_srid_has_to_name_the_crs_of_the_column(crs, srid, good):
    parsed, reader = read([ewkb("POINT Z (1 2 3)", srid), iso("POINT (1 2)")], gl.geometry(crs))
    assert parsed.to_pylist() == [iso("POINT Z (1 2 3)") if good else None, iso("POINT (1 2)")]
    assert [values_.count for values_ in reader.bad] == ([] if good else [1])
    if not good:
        assert f"SRID {srid} is not the column's {crs}" in reader.bad[0].first[0]


def test_texts_are_read_with_all_their_axes_and_with_an_srid():
    texts = ["POINT ZM (1 2 3 4)", " linestring (0 0, 1 1)", "SRID=4326; POINT M (1 2 3)", "POLYGON EMPTY", None]
    parsed, reader = read(texts, gl.geometry(), WKT)
    wanted = ["POINT ZM (1 2 3 4)", "LINESTRING (0 0, 1 1)", "POINT M (1 2 3)", "POLYGON EMPTY"]
    assert parsed.to_pylist() == [*map(iso, wanted), None]
    assert not reader.bad


def test_bad_values_are_counted_and_the_first_few_named():
    values = [b"\1\1"] * 20 + [iso("POINT (1 2)")]
    reader = GeoReader({"g": GeoInput(gl.geometry(), WKB)})
    for start in (0, 7):
        reader.read(pa.record_batch({"g": values[start:]}), row_name=lambda row, start=start: f"row {start + row}")
    (bad,) = reader.bad
    assert (bad.count, len(bad.first)) == (33, SHOWN)
    assert bad.first[0] == "row 0: not valid WKB: the value ends inside a geometry: X'0101'"


@pytest.mark.parametrize("text", ["POINT (1", "nothing", "", "POINT (1 2)\0", "GEOMETRYCOLLECTION(" * 500])
def test_a_text_that_is_no_shape_is_bad_and_others_are_not(text):
    parsed, reader = read(["POINT (1 2)", text], gl.geometry(), WKT)
    assert parsed.to_pylist() == [iso("POINT (1 2)"), None]
    assert reader.bad[0].count == 1
    assert reader.bad[0].first[0].startswith("not valid WKT: ")


def test_a_geography_has_longitudes_and_latitudes():
    values = [iso("POINT (181 0)"), iso("POINT (0 -91)"), iso("POINT (180 90)"), iso("POINT EMPTY"), None]
    parsed, reader = read(values, gl.geography())
    assert parsed.to_pylist() == [None, None, iso("POINT (180 90)"), iso("POINT EMPTY"), None]
    assert reader.bad[0].count == 2
    parsed, reader = read(values, gl.geometry())
    assert not reader.bad


def test_shapes_in_structs_are_read_and_the_rest_stays():
    rows = pa.array([{"x": 1, "g": "POINT (1 2)"}, None, {"x": None, "g": None}, {"x": 3, "g": "no"}])
    reader = GeoReader({"s.g": GeoInput(gl.geometry(), WKT)})
    result = reader.read(pa.record_batch({"s": rows, "id": [1, 2, 3, 4]}))
    wanted = [{"x": 1, "g": iso("POINT (1 2)")}, None, {"x": None, "g": None}, {"x": 3, "g": None}]
    assert result["s"].to_pylist() == wanted
    assert result["id"].to_pylist() == [1, 2, 3, 4]
    assert reader.bad[0].count == 1


def test_a_slice_of_a_column_is_read_from_its_start():
    column = pa.array([b"bad", ewkb("POINT (1 2)", 4326), None, iso("POINT (3 4)")])[1:]
    parsed, reader = read(column, gl.geometry())
    assert parsed.to_pylist() == [iso("POINT (1 2)"), None, iso("POINT (3 4)")]
    assert not reader.bad


@pytest.mark.parametrize("encoding", ["wkt", "geojson"])
def test_texts_are_written_with_every_bit_of_their_coordinates(encoding):
    draw = np.random.default_rng(5)
    numbers = draw.integers(-(2**63), 2**63, 4000).view(np.float64)
    numbers = np.concatenate([numbers[np.isfinite(numbers)], draw.uniform(-180, 180, 4000), [-0.0, 5e-324, 0.1, 1e22]])
    values = [
        *shapely.to_wkb(shapely.points(numbers, -numbers), byte_order=1).tolist(),
        *map(
            iso,
            (
                "POINT Z (-0.0 0.37735211368763544 1e-7)",
                "POLYGON EMPTY",
                "MULTILINESTRING (EMPTY, (1 2, -0.0 4))",
                "GEOMETRYCOLLECTION (POLYGON ((-0.0 0, 9 0, 9 9, -0.0 0), (1 1, 2 1, 2 2, 1 1)), POINT EMPTY)",
            ),
        ),
        None,
    ]
    parsed, reader = read(values, gl.geometry(encoding=encoding))
    assert not reader.bad
    back = {"wkt": shapely.from_wkt, "geojson": shapely.from_geojson}[encoding](np.array(parsed.to_pylist(), object))
    assert shapely.to_wkb(back, flavor="iso", byte_order=1, output_dimension=4).tolist() == values


def test_wkt_holds_m_and_what_is_no_number():
    texts = ["POINT M (1 2 3)", "POINT ZM (-0.0 2 3 4)", "LINESTRING (1 NaN, 2 Infinity)", "MULTIPOINT ((1 2), EMPTY)"]
    parsed, reader = read([iso(text) for text in texts], gl.geometry(encoding="wkt"))
    assert not reader.bad
    assert [iso(text) for text in parsed.to_pylist()] == [iso(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("POINT M (1 2 3)", "GeoJSON cannot store M values"),
        ("GEOMETRYCOLLECTION ZM (LINESTRING ZM (1 2 3 4, 5 6 7 8))", "GeoJSON cannot store M values"),
        ("MULTIPOINT ((1 2), EMPTY)", "GeoJSON cannot store such an empty part"),
        ("POINT Z EMPTY", "GeoJSON cannot store such an empty part"),
        ("LINESTRING (1 NaN, 2 3)", "GeoJSON cannot store non-finite coordinates"),
    ],
)
def test_a_value_that_geojson_cannot_hold_is_bad_and_others_are_not(text, reason):
    reader = GeoReader({"g": GeoInput(gl.geometry(encoding="geojson"), WKB)})
    values = pa.record_batch({"g": [iso("POINT (1 2)"), iso(text)]})
    texts = reader.read(values, row_name=lambda row: f"row {row}")["g"].to_pylist()
    assert texts == ['{"type":"Point","coordinates":[1.0,2.0]}', None]
    (bad,) = reader.bad
    assert bad.count == 1
    assert bad.first[0].startswith(f"row 1: {reason}: X'")


@pytest.mark.parametrize("encoding", ["wkt", "geojson"])
def test_an_arc_and_an_open_ring_are_bad_where_text_is_written(encoding):
    arc = struct.pack("<BII6d", 1, 8, 3, 0, 0, 1, 1, 2, 0)
    ring = struct.pack("<BIII6d", 1, 3, 1, 3, 0, 0, 1, 0, 1, 1)
    parsed, reader = read([arc, iso("POINT (1 2)"), ring, None], gl.geometry(encoding=encoding))
    assert [value is None for value in parsed.to_pylist()] == [True, False, True, True]
    assert reader.bad[0].count == 2
    assert "cannot be written as" in reader.bad[0].first[0]


def test_sparks_own_shapes_come_with_their_srid():
    kind = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    rows = [{"srid": 4326, "wkb": iso("POINT (1 2)")}, None, {"srid": 3857, "wkb": iso("POINT (3 4)")}]
    parsed, reader = read(pa.array(rows, kind), gl.geometry())
    assert parsed.to_pylist() == [iso("POINT (1 2)"), None, None]
    assert "SRID 3857" in reader.bad[0].first[0]


@pytest.mark.parametrize("kind", [encoding for encoding in GeoEncoding if encoding.value.islower()])
def test_coordinates_are_those_of_the_corpus(corpus, kind):
    import pyarrow.parquet as pq

    folder = corpus / "geoparquet" / "test_data_1.1.0"
    native = pq.read_table(folder / f"data-{kind.value}-encoding_native.parquet")["geometry"].combine_chunks()
    wanted = pq.read_table(folder / f"data-{kind.value}-encoding_wkb.parquet")["geometry"].combine_chunks()
    wanted = getattr(wanted, "storage", wanted)
    parsed, reader = read(native, gl.geometry(), GEOARROW, native={"g": kind})
    assert not reader.bad
    shapes, others = (shapely.from_wkb(np.array(wkb.to_pylist(), object)) for wkb in (parsed, wanted))
    assert [str(shape) for shape in shapes] == [str(shape) for shape in others]


@pytest.mark.parametrize("values", [[1, 2], [[b"a"]]])
def test_a_column_of_another_type_is_refused(values):
    with pytest.raises(SchemaError, match="expected WKB, got values of type"):
        read(values, gl.geometry())
