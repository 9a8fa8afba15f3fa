from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import SchemaError
from geolake_nb.model.collation import Collation
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema, join_path, split_path, type_name
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
    geography,
    geometry,
    raster,
)

INT = PrimitiveType("int32")
SCHEMA = Schema(
    StructType(
        (
            Field("id", PrimitiveType("int64"), nullable=False, id=1, physical_name="col-1"),
            Field("geom", GeometryType(Crs("EPSG:3857")), id=2, physical_name="col-2", doc="the road"),
            Field(
                "site",
                StructType(
                    (
                        Field("area", GeographyType(algorithm=EdgeAlgorithm.KARNEY), id=4, physical_name="col-4"),
                        Field("photo", RasterType(), id=5),
                    )
                ),
                id=3,
                physical_name="col-3",
            ),
            Field(
                "tags",
                ListType(
                    Field(
                        "element",
                        MapType(
                            Field("key", StringType(Collation("icu", "de")), nullable=False, id=8),
                            Field("value", StructType((Field("at", GeometryType(), id=10),)), id=9),
                        ),
                        id=7,
                    )
                ),
                id=6,
            ),
            Field("a.b", INT),
            Field("Same", INT),
            Field("same", INT),
        )
    )
)


def test_walk_gives_every_nesting_with_parents_first():
    assert [path for path, _ in SCHEMA.walk()] == [
        "id",
        "geom",
        "site",
        "site.area",
        "site.photo",
        "tags",
        "tags.element",
        "tags.element.key",
        "tags.element.value",
        "tags.element.value.at",
        "`a.b`",
        "Same",
        "same",
    ]


def test_every_path_finds_its_field():
    for path, field in SCHEMA.walk():
        assert SCHEMA.find(path) is field


def test_case_counts_only_between_names_that_differ_in_nothing_else():
    assert SCHEMA.find("GEOM").id == 2
    assert SCHEMA.find("Site.AREA").id == 4
    assert SCHEMA.find("Same") is not SCHEMA.find("same")
    with pytest.raises(SchemaError, match="no column 'SAME'"):
        SCHEMA.find("SAME")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gem", "no column 'gem'; use one of: Same, `a.b`, geom, id, same, site, tags"),
        ("site.nothing", "no column 'site.nothing'; use one of: site.area, site.photo"),
        ("id.x", "no column 'id.x'; there are none"),
        ("tags.key", "no column 'tags.key'; use one of: tags.element"),
    ],
)
def test_a_missing_column_names_the_candidates(path, message):
    with pytest.raises(SchemaError) as caught:
        SCHEMA.find(path)
    assert message in str(caught.value)


def test_among_many_columns_the_nearest_are_named():
    many = Schema(StructType((*(Field(f"column_{n}", INT) for n in range(1000)), Field("geom", INT))))
    with pytest.raises(SchemaError, match=r"no column 'gem'; use one of: geom$"):
        many.find("gem")
    with pytest.raises(SchemaError, match=r"use one of: column_0, column_1, column_10, .*, \.\.\.$"):
        many.find("xyz")


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "`a`b"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(SchemaError, match="expected the path of a column, got"):
        SCHEMA.find(path)


def test_physical_path_uses_mapped_names_where_there_are_any():
    assert SCHEMA.physical_path("site.area") == ("col-3", "col-4")
    assert SCHEMA.physical_path("tags.element.key") == ("tags", "element", "key")


def test_ids_lead_to_paths():
    assert SCHEMA.path_of_id(10) == "tags.element.value.at"
    with pytest.raises(SchemaError, match="no field has the id 99; use one of: 1, 2, 3"):
        SCHEMA.path_of_id(99)


def test_geo_columns_are_found_at_any_depth():
    assert [path for path, _ in SCHEMA.geo_columns()] == [
        "geom",
        "site.area",
        "site.photo",
        "tags.element.value.at",
    ]


def test_the_tree_prints_types_ids_and_comments():
    assert str(SCHEMA).splitlines()[:9] == [
        "id: int64, required, #1",
        "geom: geometry(EPSG:3857), #2  -- the road",
        "site: struct, #3",
        "  area: geography(OGC:CRS84, karney), #4",
        "  photo: raster, #5",
        "tags: list, #6",
        "  element: map, #7",
        "    key: string collate icu.de, required, #8",
        "    value: struct, #9",
    ]


def test_text_of_a_table_cannot_break_the_tree():
    tree = str(Schema(StructType((Field("a\nb\x1b[31m", INT, doc="x\ny"),))))
    assert tree == "a\\nb\\x1b[31m: int32  -- x\\ny"


def test_a_long_crs_is_shown_by_its_name():
    geo = GeometryType(Crs.parse(Crs("EPSG:5070").to_projjson()), GeometryEncoding.EWKB)
    assert type_name(geo) == "geometry(NAD83 / Conus Albers, ewkb)"


def test_types_are_made_from_texts_and_objects():
    import pyproj

    assert geometry(pyproj.CRS("EPSG:3857")) == geometry("EPSG:3857") == GeometryType(Crs("EPSG:3857"))
    assert geometry("OGC:CRS84", encoding="EWKB").encoding is GeometryEncoding.EWKB
    assert geography("EPSG:4267", "Karney") == GeographyType(Crs("EPSG:4267"), EdgeAlgorithm.KARNEY)
    assert raster() == RasterType()
    with pytest.raises(SchemaError, match="use one of: ewkb, geoarrow, geojson, wkb, wkt"):
        geometry(encoding="twkb")
    with pytest.raises(SchemaError, match=r"use geometry"):
        geography(pyproj.CRS("EPSG:32618"))


def test_schemas_are_values():
    assert Schema(SCHEMA.root) == SCHEMA
    assert hash(Schema(SCHEMA.root)) == hash(SCHEMA)


@settings(max_examples=200)
@given(st.lists(st.text(), min_size=1, max_size=4))
def test_paths_round_trip_whatever_the_names(parts):
    assert split_path(join_path(parts)) == tuple(parts)
