import pytest
import shapely

from geolake_nb.errors import PredicateError, SchemaError
from geolake_nb.geo.wkb import MAX_NESTING, check_text_nesting, may_nest_deeply, readable_geometry_text

COLLECTION = '{"type": "GeometryCollection", "geometries": ['
POINT = '{"type": "Point", "coordinates": [1, 2]}'


def deep_geojson(depth, before=""):
    return before + COLLECTION * depth + POINT + "]}" * depth


@pytest.mark.parametrize(
    "text",
    [
        "",
        "POINT (1 2)",
        "nonsense",
        "POLYGON (" + ", ".join(["(0 0, 1 0, 1 1, 0 0)"] * 1000) + ")",
        "GEOMETRYCOLLECTION (" * 128 + "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))" + ")" * 128,
        deep_geojson(128),
        '{"type": "Point", "coordinates": [1, 2], "note": "' + "[" * 1000 + '"}',
        '{"type": "Point", "coordinates": [1, 2], "note": "Zürich"}',
    ],
)
def test_what_wkb_could_hold_may_be_parsed(text):
    assert readable_geometry_text(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "GEOMETRYCOLLECTION(" * 200_000 + "POINT(1 2)" + ")" * 200_000,
        "[" * 1_000_000,
        deep_geojson(100_000),
        # What closes in a string closes nothing.
        deep_geojson(100_000, before='{"a": "' + "]" * 500_000 + '", "b": '),
        deep_geojson(100_000, before='{"a": "\\"' + "]" * 500_000 + '", "b": '),
        deep_geojson(100_000, before='{"a\\\\": "' + "]" * 500_000 + '", "b": '),
    ],
    ids=["wkt", "brackets", "geojson", "string", "escaped quote", "escaped backslash"],
)
def test_what_would_exhaust_the_stack_is_not_parsed(text):
    assert readable_geometry_text(text) == f"brackets are nested more than {MAX_NESTING} deep"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("POINT(1 2)\0garbage", "NUL character"),
        ('{"type": "Point", "coordinates": [1, 2]}\0', "NUL character"),
        ("POINT(1 2)\ud800", "lone surrogate"),
    ],
)
def test_text_that_c_would_read_otherwise_is_not_parsed(text, reason):
    assert reason in readable_geometry_text(text)


def test_the_error_is_the_one_that_is_asked_for():
    with pytest.raises(PredicateError, match="nested more than 1 deep"):
        check_text_nesting("((", limit=1)
    with pytest.raises(SchemaError, match="row 3: brackets"):
        check_text_nesting("((", limit=1, error=SchemaError, where="row 3")
    check_text_nesting("((", opening="[", limit=1)


def test_only_collections_with_room_for_depth_have_to_be_read():
    circle = shapely.Point(0, 0).buffer(1, quad_segs=100)
    for flavor in ("iso", "extended"):
        for byte_order in (0, 1):
            for shape in (circle, shapely.force_3d(circle), circle.exterior):
                assert not may_nest_deeply(shapely.to_wkb(shape, flavor=flavor, byte_order=byte_order))
            many = shapely.MultiPolygon([circle])
            assert may_nest_deeply(shapely.to_wkb(many, flavor=flavor, byte_order=byte_order))
