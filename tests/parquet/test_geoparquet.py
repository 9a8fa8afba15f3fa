from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path

import pyproj
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import BoundError, GeolakeError, SchemaError
from geolake_nb.model.box import Box
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, Crs
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType
from geolake_nb.parquet.geoparquet import (
    Covering,
    GeoColumn,
    GeoEncoding,
    GeoMetadata,
    from_geo_metadata,
    to_geo_metadata,
)

jsonschema = pytest.importorskip("jsonschema")
PROJJSON = json.loads((Path(pyproj.datadir.get_data_dir()) / "projjson.schema.json").read_text())
UTM = pyproj.CRS("EPSG:32618")


def geo(version="1.1.0", **column):
    base = {"encoding": "WKB"} | ({"geometry_types": []} if not version.startswith("0") else {})
    return {"version": version, "primary_column": "g", "columns": {"g": base | column}}


@pytest.fixture(scope="module")
def validator(corpus):
    """GeoParquet's own JSON schema of 1.1, with PROJ's schema of PROJJSON in place of the address."""
    import referencing
    from referencing.jsonschema import DRAFT7

    schema = json.loads((corpus / "geoparquet/schema/1.1.0/schema.json").read_text())
    address = "https://proj.org/schemas/v0.7/projjson.schema.json"
    registry = referencing.Registry().with_resource(address, DRAFT7.create_resource(PROJJSON))
    return jsonschema.Draft7Validator(schema, registry=registry)


def test_the_cases_of_the_project_are_accepted_or_rejected_as_they_say(corpus):
    cases = json.loads((corpus / "geoparquet/metadata_cases_1.1.0.json").read_text())
    assert len(cases) == 58
    for case in cases:
        if case["valid"]:
            from_geo_metadata(case["geo"])
        else:
            with pytest.raises(SchemaError, match=r"^geo"):
                from_geo_metadata(case["geo"])


def test_valid_cases_are_written_as_valid_metadata_with_nothing_lost(corpus, validator):
    for case in json.loads((corpus / "geoparquet/metadata_cases_1.1.0.json").read_text()):
        if case["valid"]:
            written = json.loads(to_geo_metadata(from_geo_metadata(case["geo"])))
            validator.validate(written)
            expected = copy.deepcopy(case["geo"])
            for column in expected["columns"].values():
                if column.get("edges") == "planar":
                    del column["edges"]  # the default
            assert written == expected


@pytest.mark.parametrize("version", ["0.1.0", "0.4.0", "1.0.0", "1.1.0", "2.0"])
def test_the_examples_of_every_version_are_read_and_written_as_1_1(corpus, validator, version):
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(corpus / f"geoparquet/examples/{version}/example.parquet").metadata[b"geo"]
    read = from_geo_metadata(metadata)
    assert read.primary_column == "geometry"
    assert read.primary.crs.same_as(CRS84)
    assert read.primary.box.xmin == -180
    assert read.primary.algorithm is None
    assert set(read.primary.geometry_types) == (set() if version == "0.1.0" else {"Polygon", "MultiPolygon"})
    written = to_geo_metadata(read)
    validator.validate(json.loads(written))
    assert from_geo_metadata(written).primary.box == read.primary.box
    assert from_geo_metadata(written).primary.crs.same_as(CRS84)


def test_the_covering_of_the_1_1_example_is_found(corpus):
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(corpus / "geoparquet/examples/1.1.0/example.parquet").metadata[b"geo"]
    sides = {side: ("bbox", side) for side in ("xmin", "ymin", "xmax", "ymax")}
    assert from_geo_metadata(metadata).primary.covering == Covering(**sides)


def test_no_crs_is_the_default_and_null_is_unknown():
    assert from_geo_metadata(geo()).primary.crs == CRS84
    assert from_geo_metadata(geo(crs=None)).primary.crs == UNKNOWN_CRS
    assert from_geo_metadata(geo(crs=UTM.to_json_dict())).primary.crs.same_as(Crs("EPSG:32618"))


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.3.0"])
def test_old_versions_hold_the_crs_as_well_known_text(version):
    assert from_geo_metadata(geo(version, crs=UTM.to_wkt())).primary.crs.same_as(Crs("EPSG:32618"))


def test_old_versions_name_types_in_other_ways():
    assert from_geo_metadata(geo("0.4.0", geometry_type="Point Z")).primary.geometry_types == ("Point Z",)
    assert from_geo_metadata(geo("0.4.0", geometry_type=["Point"])).primary.geometry_types == ("Point",)
    assert from_geo_metadata(geo("0.4.0", geometry_type="Unknown")).primary.geometry_types == ()
    assert from_geo_metadata(geo("0.1.0", encoding="WKT")).primary.type == GeometryType(CRS84, GeometryEncoding.WKT)


def test_the_first_writers_named_the_version_otherwise():
    value = geo("0.1.0", crs=UTM.to_wkt())
    value["schema_version"] = value.pop("version")
    assert from_geo_metadata({**value, "creator": {"library": "geopandas"}}).version == "0.1.0"


@pytest.mark.parametrize(
    "version", ["1.0.0-beta.1", "1.0.0-rc.1", "1.0.0-dev", "1.1.0+p1", "1.2.0-dev", "2.0-dev", "2.0.0"]
)
def test_drafts_are_read(version):
    assert from_geo_metadata(geo(version)).version == version


@pytest.mark.parametrize("version", ["", "1", "v1.1.0", "3.0.0", "bad-version", "1.1.0 ", "9" * 5000])
def test_other_versions_are_refused(version):
    with pytest.raises(SchemaError, match="unknown GeoParquet version"):
        from_geo_metadata(geo(version) | {"version": version})


@pytest.mark.parametrize(
    ("version", "column"),
    [
        ("1.0.0", {"encoding": "point"}),  # native encodings came with 1.1
        ("2.0.0", {"encoding": "point"}),  # and left with 2.0
        ("1.1.0", {"geometry_types": ["Point M"]}),
        ("1.1.0", {"bbox": [0] * 8}),
        ("1.1.0", {"bbox": None}),
        ("1.1.0", {"bbox": [0, 0, 10**400, 1]}),
        ("1.1.0", {"bbox": [True, 0, 1, 1]}),
        ("1.1.0", {"crs": {}}),
        ("1.1.0", {"edges": None}),
        ("1.1.0", {"orientation": None}),
        ("2.0.0", {"edges": "spherical", "algorithm": "flat"}),
        ("2.0.0", {"edges": "spherical", "algorithm": ["karney"]}),
    ],
)
def test_each_version_has_its_own_rules(version, column):
    with pytest.raises(SchemaError, match=r"^geo, column g: "):
        from_geo_metadata(geo(version, **column))


def test_edges_become_the_type():
    assert from_geo_metadata(geo()).primary.type == GeometryType()
    assert from_geo_metadata(geo(edges="spherical")).primary.type == GeographyType()
    karney = from_geo_metadata(geo("2.0.0", edges="spherical", algorithm="karney")).primary
    assert karney.type == GeographyType(algorithm=EdgeAlgorithm.KARNEY)
    assert from_geo_metadata(geo("2.0.0", edges="planar", algorithm="karney")).primary.type == GeometryType()
    native = from_geo_metadata(geo(encoding="multipolygon")).primary
    assert native.type == GeometryType(CRS84, GeometryEncoding.GEOARROW)


def test_boxes_may_cross_the_antimeridian():
    assert from_geo_metadata(geo(bbox=[170, -1, -170, 1])).primary.box.wraps


@pytest.mark.parametrize(
    ("version", "types", "bbox", "expected"),
    [
        ("1.1.0", [], [0, 1, 2, 3, 4, 5], Box(0, 1, 3, 4, 2, 5)),
        ("2.0.0", ["Point Z"], [0, 1, 2, 3, 4, 5], Box(0, 1, 3, 4, 2, 5)),
        ("2.0.0", ["Point M"], [0, 1, 2, 3, 4, 5], Box(0, 1, 3, 4, None, None, 2, 5)),
        ("2.0.0", ["Point M", "Point Z"], [0, 1, 2, 3, 4, 5], Box(0, 1, 3, 4)),
        ("2.0.0", [], [0, 1, 2, 3, 4, 5], Box(0, 1, 3, 4)),  # Z or M: nobody says
        ("2.0.0", [], [0, 1, 2, 3, 4, 5, 6, 7], Box(0, 1, 4, 5, 2, 6, 3, 7)),
    ],
)
def test_the_third_axis_of_a_box_is_what_the_types_say(version, types, bbox, expected):
    assert from_geo_metadata(geo(version, geometry_types=types, bbox=bbox)).primary.box == expected


def test_numbers_that_make_no_box_are_an_error_only_when_asked_for():
    column = from_geo_metadata(geo(bbox=[0, 1, 1, 0])).primary
    with pytest.raises(BoundError):
        _ = column.box


def test_what_1_1_cannot_say_is_refused_or_left_unknown(validator):
    with pytest.raises(SchemaError, match="planar and spherical"):
        to_geo_metadata(GeoMetadata("g", {"g": GeoColumn(algorithm=EdgeAlgorithm.KARNEY)}))
    with pytest.raises(SchemaError, match="no WKT"):
        to_geo_metadata(GeoMetadata("g", {"g": GeoColumn(GeoEncoding.WKT)}))
    with_m = GeoColumn(geometry_types=("Point ZM",), bbox=(0, 1, 2, 3, 4, 5, 6, 7))
    written = json.loads(to_geo_metadata(GeoMetadata("g", {"g": with_m})))
    validator.validate(written)
    assert written["columns"]["g"] == {"encoding": "WKB", "geometry_types": [], "bbox": [0, 1, 2, 4, 5, 6]}


sides = ("xmin", "ymin", "xmax", "ymax")
numbers = st.floats(-1e6, 1e6)
columns = st.builds(
    GeoColumn,
    encoding=st.sampled_from([known for known in GeoEncoding if known is not GeoEncoding.WKT]),
    geometry_types=st.lists(st.sampled_from(["Point", "Polygon Z", "MultiPolygon"]), unique=True).map(tuple),
    crs=st.sampled_from([CRS84, UNKNOWN_CRS, Crs.parse(UTM.to_json_dict())]),
    algorithm=st.sampled_from([None, EdgeAlgorithm.SPHERICAL]),
    orientation=st.sampled_from([None, "counterclockwise"]),
    bbox=st.none() | st.builds(lambda a, b, y, h: (a, y, b, y + h), numbers, numbers, numbers, st.floats(0, 10)),
    epoch=st.none() | st.floats(1900, 2100),
    covering=st.none() | st.just(Covering(**{side: ("b", side) for side in sides})),
    extra=st.dictionaries(st.sampled_from(["x", "y"]), st.none() | st.text()),
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), columns, min_size=1, max_size=3))
def test_metadata_round_trips(validator, geo_columns):
    metadata = GeoMetadata(next(iter(geo_columns)), geo_columns)
    text = to_geo_metadata(metadata)
    assert from_geo_metadata(text) == metadata
    if all("\n" not in name for name in geo_columns):  # the schema's pattern does not see beyond a line
        validator.validate(json.loads(text))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["1.1.0", "WKB", "g"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["version", "primary_column", "columns", "g", "encoding", "bbox", "covering", "xmin", "crs"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(json_values)
def test_any_json_is_read_or_refused_with_our_error(value):
    for candidate in (
        json.dumps(value),
        json.dumps(geo(bbox=value)),
        json.dumps(geo(crs=value, covering=value)),
    ):
        with contextlib.suppress(GeolakeError):
            from_geo_metadata(candidate)


@pytest.mark.parametrize("text", ["", "null", "[" * 100_000, b"\xff\xfe\x00", '{"version": NaN}', '{"version": 1e999}'])
def test_text_that_is_no_metadata_is_a_typed_error(text):
    with pytest.raises(SchemaError, match=r"^geo: "):
        from_geo_metadata(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", "\ud800", {1j}], ids=repr)
def test_what_json_cannot_hold_is_not_written(value):
    with pytest.raises(SchemaError, match="geo: the metadata cannot be written as JSON"):
        to_geo_metadata(GeoMetadata("g", {"g": GeoColumn(extra={"note": value})}))


def test_an_integer_of_thousands_of_digits_has_our_own_message():
    with pytest.raises(SchemaError, match=r"an integer has 5001 digits$"):
        from_geo_metadata('{"version": 1' + "0" * 5000 + "}")
