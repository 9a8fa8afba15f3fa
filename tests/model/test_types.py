from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import (
    EdgeAlgorithm,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    from_delta_text,
    from_iceberg_text,
    geography,
    geometry,
    is_geo_text,
    is_quoted_text,
    to_delta_text,
    to_iceberg_text,
)

BOTH = (from_delta_text, from_iceberg_text)
VINCENTY = GeographyType(Crs("EPSG:4267"), EdgeAlgorithm.VINCENTY)


@pytest.mark.parametrize("read", BOTH)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("geometry(OGC:CRS84)", GeometryType()),
        ("GEOMETRY ( OGC:CRS84 )", GeometryType()),
        ("geometry(SRID:0)", GeometryType(Crs("SRID:0"))),
        ("geometry(srid:3857)", GeometryType(Crs("EPSG:3857"))),
        ("geometry(projjson:my.crs)", GeometryType(Crs("projjson:my.crs"))),
        ("geography(OGC:CRS84, SPHERICAL)", GeographyType()),  # Delta 4.4.0
        ("geography(OGC:CRS84, spherical)", GeographyType()),  # Iceberg Java, delta-kernel-rs
        ("Geography(EPSG:4267,Vincenty)", VINCENTY),
        (" geography( EPSG:4267 ,  vincenty ) ", VINCENTY),
        ("geography(srid:4326)", GeographyType(Crs("srid:4326"))),
        ("geometry", GeometryType()),
        ("geography", GeographyType()),
    ],
)
def test_any_case_and_spacing_is_read(read, text, expected):
    assert is_geo_text(text)
    assert not is_quoted_text(text)
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("geometry('EPSG:3857')", GeometryType(Crs("EPSG:3857"))),
        ("geography('OGC:CRS84', 'spherical')", GeographyType()),
        ('geography("EPSG:4267", "vincenty")', VINCENTY),
        ("geography('EPSG:4267', vincenty)", VINCENTY),
        ("geography('srid:4326')", GeographyType(Crs("EPSG:4326"))),
    ],
)
def test_the_quoted_form_is_read_and_written_without_quotes(text, expected):
    assert is_quoted_text(text)
    assert from_iceberg_text(text) == expected
    assert not is_quoted_text(to_iceberg_text(from_iceberg_text(text)))
    assert not from_delta_text(text).crs.is_resolvable  # Delta has no quotes


@pytest.mark.parametrize("write", [to_delta_text, to_iceberg_text])
def test_the_algorithm_is_written_in_lower_case(write):
    assert write(geometry("EPSG:3857")) == "geometry(EPSG:3857)"
    assert write(geography("OGC:CRS84", "VINCENTY")) == "geography(OGC:CRS84, vincenty)"
    assert write(from_delta_text("geometry(SRID:0)")) == "geometry(SRID:0)"


@pytest.mark.parametrize("read", BOTH)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "binary",
        "geometrycollection",
        "geometry(",
        "geometry OGC:CRS84",
        "geometry(OGC:CRS84",
        "geometry(OGC:CRS84, spherical)",
        "geography(OGC:CRS84, )",
        "geography(OGC:CRS84, flat)",
        "geometry(" + "(" * 100_000,
        "geography(" + "," * 100_000 + ")",
        "geometry('" + "','" * 50_000 + ")",
    ],
)
def test_nonsense_is_a_short_typed_error(read, text):
    with pytest.raises(SchemaError) as caught:
        read(text)
    assert len(str(caught.value)) < 400


def test_an_unknown_algorithm_lists_the_known_ones_in_order():
    with pytest.raises(SchemaError, match="'flat'; use one of: andoyer, karney, spherical, thomas, vincenty"):
        from_delta_text("geography(OGC:CRS84, flat)", where="roads.geom")


def test_properties_resolve_a_definition():
    definition = geometry("EPSG:5070").crs.to_projjson()

    read = from_delta_text("geometry(projjson:albers)", properties={"albers": json.dumps(definition)})
    assert read.crs.same_as(Crs("EPSG:5070"))
    assert to_delta_text(read) == "geometry(projjson:albers)"


def test_what_a_type_string_cannot_hold_is_refused():
    with pytest.raises(SchemaError, match="projjson:<property>"):
        to_delta_text(GeometryType(Crs.parse(Crs("EPSG:5070").to_projjson())))
    with pytest.raises(SchemaError, match="holds WKB, not ewkb"):
        to_iceberg_text(GeometryType(encoding=GeometryEncoding.EWKB))


names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)
crs_texts = st.one_of(
    st.builds("{}:{}".format, names, st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True)),
    st.integers(0, 2**31 - 1).map("srid:{}".format),
    st.from_regex(r"projjson:[A-Za-z0-9_.:/-]{1,12}", fullmatch=True),
)


@settings(max_examples=300, deadline=None)
@given(crs_texts, st.sampled_from(EdgeAlgorithm), st.booleans())
def test_type_strings_round_trip(text, algorithm, flat):
    try:
        crs = Crs(text)
    except GeolakeError:
        return
    geo = GeometryType(crs) if flat else GeographyType(crs, algorithm)
    for write, read in ((to_delta_text, from_delta_text), (to_iceberg_text, from_iceberg_text)):
        assert read(write(geo)) == geo
        assert read(write(geo)).crs.text == crs.text


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30), st.booleans())
def test_any_text_is_read_or_refused_with_our_error(text, wrapped):
    for read in BOTH:
        with contextlib.suppress(SchemaError):
            read(f"geography({text})" if wrapped else text)


@pytest.mark.parametrize("read", [from_delta_text, from_iceberg_text])
@pytest.mark.parametrize(
    "text",
    [
        "geography(x," + " " * 300_000 + "1)",
        "geography(" + "x," * 150_000 + "1)",
        "geography(" + "'x" * 150_000 + "1)",
        "geometry" + " " * 300_000 + "x",
        "geometry(" + "x" * 2_000_000 + ")",
    ],
)
def test_a_long_type_takes_no_longer_than_its_length(read, text):
    started = time.perf_counter()
    with pytest.raises(SchemaError):
        read(text)
    assert time.perf_counter() - started < 2.0


@pytest.mark.parametrize(
    ("text", "crs", "algorithm"),
    [
        ("geography('OGC:CRS84', 'karney')", "OGC:CRS84", "karney"),
        ('geography("OGC:CRS84" , karney )', "OGC:CRS84", "karney"),
        ("geography('OGC:CRS84')", "OGC:CRS84", "spherical"),
    ],
)
def test_quotes_may_stand_around_either_argument(text, crs, algorithm):
    iceberg_text = from_iceberg_text(text)
    assert (iceberg_text.crs.text, iceberg_text.algorithm.value) == (crs, algorithm)
