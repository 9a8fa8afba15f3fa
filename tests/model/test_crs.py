from __future__ import annotations

import contextlib
import copy
import json
import pickle

import pyproj
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import CrsError, GeolakeError
from geolake_nb.model.crs import CRS84, MAX_TEXT, UNKNOWN_CRS, Crs, CrsForm
from geolake_nb.model.crs_danger import MAX_MEMBERS, ensemble_members

UTM = pyproj.CRS("EPSG:32618")
WEB_MERCATOR_GDAL = (
    'PROJCS["WGS 84 / Pseudo-Mercator",GEOGCS["WGS 84",'
    'DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Mercator_1SP"],'
    'PARAMETER["scale_factor",1],UNIT["metre",1],EXTENSION["PROJ4","+proj=merc +a=6378137 +b=6378137 '
    '+lat_ts=0 +lon_0=0 +x_0=0 +y_0=0 +k=1 +units=m +nadgrids={grid} +wktext +no_defs"]]'
)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("OGC:CRS84", CrsForm.AUTHORITY),
        ("epsg:3857", CrsForm.AUTHORITY),
        ("IAU_2015:30100", CrsForm.AUTHORITY),
        ("srid:4326", CrsForm.SRID),
        ("SRID:0", CrsForm.UNKNOWN),
        ("projjson:my.table.property", CrsForm.PROPERTY),
        (json.dumps(UTM.to_json_dict()), CrsForm.PROJJSON),
        (UTM.to_wkt(), CrsForm.WKT),
        (UTM.to_wkt("WKT1_GDAL"), CrsForm.WKT),
    ],
)
def test_every_form_is_read_and_written_back_unchanged(text, form):
    crs = Crs(f"  {text} ")
    assert crs.form is form
    assert crs.text == text == str(crs)


@pytest.mark.parametrize(
    ("left", "other"),
    [
        ("EPSG:4326", "OGC:CRS84"),
        ("srid:4326", "OGC:CRS84"),
        ("SRID:3857", "epsg:3857"),
        ("EPSG:4269", "OGC:CRS83"),
        ("EPSG:4267", "ogc:crs27"),
    ],
)
def test_names_of_one_system_are_equal_and_hash_alike(left, other):
    assert Crs(left) == Crs(other)
    assert hash(Crs(left)) == hash(Crs(other))
    assert Crs(left).same_as(Crs(other))


# PROJ decides about the pairs that `==` folds together and of those that only `same_as` does.
@pytest.mark.parametrize("codes", [("EPSG:4326", "OGC:CRS84"), ("EPSG:4269", "OGC:CRS83"), ("EPSG:4267", "OGC:CRS27")])
def test_proj_agrees_that_folded_names_differ_in_axis_order_only(codes):
    left, other = map(pyproj.CRS, codes)
    assert left != other
    assert left.equals(other, ignore_axis_order=True)


@pytest.mark.parametrize(
    ("left", "other"),
    [
        ("EPSG:4326", "EPSG:4269"),
        ("OGC:CRS84", "SRID:0"),
        ("projjson:a", "projjson:b"),
        ("EPSG:32618", "EPSG:32619"),
    ],
)
def test_different_systems_are_neither_equal_nor_the_same(left, other):
    assert Crs(left) != Crs(other)
    assert not Crs(left).same_as(Crs(other))


@pytest.mark.parametrize("code", ["OGC:CRS84", "EPSG:4326", "EPSG:32618", "EPSG:5070"])
@pytest.mark.parametrize("form", ["wkt", "projjson", "object"])
def test_a_definition_is_the_same_as_its_code(code, form):
    system = pyproj.CRS(code)
    value = {"wkt": system.to_wkt(), "projjson": system.to_json_dict(), "object": system}[form]
    assert Crs.parse(value).same_as(Crs(code))
    assert Crs(code).same_as(Crs.parse(value))


def test_a_claimed_id_does_not_make_a_definition_equal():
    lie = {**UTM.to_json_dict(), "id": {"authority": "OGC", "code": "CRS84"}}
    assert Crs.parse(lie) != CRS84
    assert not Crs.parse(lie).same_as(CRS84)
    assert Crs.parse(pyproj.CRS.from_json_dict(lie)) == Crs("EPSG:32618")


def test_key_order_of_projjson_makes_no_difference():
    definition = UTM.to_json_dict()
    assert Crs.parse(definition) == Crs.parse(dict(reversed(definition.items())))


def test_a_property_is_resolved_against_properties():
    crs = Crs.parse("projjson:local", properties={"local": UTM.to_json()})
    assert crs.text == "projjson:local"
    assert crs.same_as(Crs("EPSG:32618"))
    assert crs == Crs.parse(UTM.to_json_dict())


def test_an_unresolved_property_says_which_one_is_missing():
    crs = Crs.parse("projjson:local", properties={"other": "{}"})
    assert crs == Crs("projjson:local")
    with pytest.raises(CrsError, match="the property 'local' is missing"):
        crs.to_pyproj()
    assert not crs.same_as(CRS84)
    assert crs.name == "projjson:local"


@pytest.mark.parametrize("definition", ["", "[]", "null", "{}", '{"type": 1}', "{" * 10_000, "nonsense"])
def test_a_property_that_does_not_hold_projjson_is_an_error_when_it_is_used(definition):
    crs = Crs.parse("projjson:local", properties={"local": definition})
    assert (crs.text, crs.resolved) == ("projjson:local", definition)
    assert not crs.same_as(CRS84)
    for use in (crs.to_pyproj, crs.to_projjson):
        with pytest.raises(CrsError):
            use()


def test_pyproj_objects_give_a_code_where_they_have_one():
    assert Crs.parse(pyproj.CRS("EPSG:3857")).text == "EPSG:3857"
    custom = Crs.parse(pyproj.CRS.from_proj4("+proj=aea +lat_0=1 +lat_1=3 +lat_2=20"))
    assert custom.form is CrsForm.PROJJSON


def test_an_object_with_the_two_methods_is_enough():
    class Foreign:
        def to_json_dict(self):
            return UTM.to_json_dict()

        def to_wkt(self):
            return UTM.to_wkt()

    assert Crs.parse(Foreign()).same_as(Crs("EPSG:32618"))


@pytest.mark.parametrize("text", ["", " ", "GEOGCRS[\ud800]"])
def test_what_is_not_a_text_is_a_typed_error(text):
    with pytest.raises(CrsError) as caught:
        Crs(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "4326",
        " a grid ",
        "+proj=longlat +datum=WGS84",
        "+init=epsg:4326",
        "+init=/etc/passwd:1",
        "/etc/passwd",
        "file:///etc/passwd",
        "https://example.org/crs.json",
        "projjson:",
        "srid:",
        "srid:-1",
        "srid:99999999999999999999",
        "EPSG:4326+5773",
        "EPSG:" + "1" * 100,
        "{",
        "{}",
        '{"type": "GeographicCRS", "x": NaN}',
        '{"type": "\\ud800"}',
        "GEOGCRS[\x00]",
        '{"a":' * 100_000,
        "GEOGCRS[" + "x" * 2_000_000,
    ],
    ids=lambda text: text[:20],
)
def test_any_other_text_is_kept_as_it_is_and_never_given_to_proj(monkeypatch, text):
    crs = Crs(text)
    assert (crs.text, crs.form) == (text, CrsForm.OTHER)
    assert Crs(text) == crs
    for name in ("__init__", "from_authority", "from_json", "from_wkt"):
        monkeypatch.setattr(pyproj.CRS, name, lambda *given: pytest.fail("PROJ got it"))
    with pytest.raises(CrsError) as caught:
        crs.to_pyproj()
    assert len(str(caught.value)) < 400
    assert len(repr(crs)) < 200


@pytest.mark.parametrize("value", [None, 4326, b"EPSG:4326", ["EPSG:4326"]])
def test_other_values_are_refused_with_the_kinds_that_are_taken(value):
    with pytest.raises(CrsError, match="give one of: Crs, dict"):
        Crs.parse(value)


@pytest.mark.parametrize(
    "text",
    [
        "NOBODY:1",
        "EPSG:999999",
        "init:4326",
        "file:x",
        "SRID:999999",
        "GEOGCRS[]",
        "foo(bar)",
        '{"type": "GeographicCRS"}',
    ],
)
def test_a_system_that_proj_does_not_know_is_a_typed_error_when_used(text):
    crs = Crs(text)
    with pytest.raises(CrsError):
        crs.to_pyproj()
    assert not crs.is_geographic
    assert not crs.is_projected
    assert crs.coordinate_range() is None
    assert not crs.same_as(CRS84)
    assert crs.same_as(Crs(text))


def bound_crs(grid):
    return {
        "type": "BoundCRS",
        "source_crs": pyproj.CRS("EPSG:4267").to_json_dict(),
        "target_crs": pyproj.CRS("EPSG:4326").to_json_dict(),
        "transformation": {
            "name": "shift",
            "method": {"name": "NTv2", "id": {"authority": "EPSG", "code": 9615}},
            "parameters": [
                {
                    "name": "Latitude and longitude difference file",
                    "value": grid,
                    "id": {"authority": "EPSG", "code": 8656},
                }
            ],
        },
    }


@pytest.mark.parametrize("path", ["/etc/passwd", "../grid", "C:\\grid", "https://example.org/grid.tif"])
def test_a_definition_cannot_make_proj_open_a_file(path):
    for value in (bound_crs(path), pyproj.CRS.from_json_dict(bound_crs(path)).to_wkt()):
        with pytest.raises(CrsError, match="names a file by its path"):
            Crs.parse(value).to_pyproj()
    if "\\" not in path:
        with pytest.raises(CrsError, match="names a file by its path"):
            Crs(WEB_MERCATOR_GDAL.format(grid=path)).to_pyproj()


def ensemble(members):
    definition = pyproj.CRS("EPSG:4326").to_json_dict()
    del definition["id"]
    definition["datum_ensemble"]["members"] = [{"name": f"m{number}"} for number in range(members)]
    return definition


def test_an_ensemble_that_proj_would_compare_for_long_is_not_given_to_it(monkeypatch):
    small = pyproj.CRS.from_json_dict(ensemble(100)).to_wkt()
    large = small.replace('MEMBER["m0"]', 'MEMBER["m0"],MEMBER ( "one more" )')
    assert Crs.parse(ensemble(100)).is_geographic
    assert Crs(small).is_geographic
    for name in ("from_json", "from_wkt"):
        monkeypatch.setattr(pyproj.CRS, name, lambda text: pytest.fail("PROJ got it"))
    for value in (large, ensemble(101), {"type": "CompoundCRS", "components": [ensemble(51), ensemble(50)]}):
        crs = Crs.parse(value)
        with pytest.raises(CrsError, match="more than 100 datums in its ensembles; name a system of a registry"):
            crs.to_pyproj()
        assert not crs.is_geographic
        assert crs.coordinate_range() is None


def test_the_longest_definition_of_the_registries_is_far_from_the_limits():
    for code in ("EPSG:7416", "EPSG:10605", "IGNF:UTM38ETRS89"):
        text = pyproj.CRS(code).to_json(pretty=True, indentation=4)
        assert len(text) * 5 < MAX_TEXT
        assert ensemble_members(text) * 5 < MAX_MEMBERS
        assert Crs(text).same_as(Crs(code))


def test_grids_in_the_folders_of_proj_are_fine():
    assert Crs.parse(bound_crs("conus")).is_geographic
    assert Crs(WEB_MERCATOR_GDAL.format(grid="@null")).is_projected


def test_proj_stays_off_the_network():
    CRS84.to_pyproj()
    assert not pyproj.network.is_network_enabled()


def test_range_of_a_projected_system_covers_its_area_of_use():
    box = Crs("EPSG:32618").coordinate_range()
    to_utm = pyproj.Transformer.from_crs("OGC:CRS84", "EPSG:32618", always_xy=True)
    for lon in (-78, -75, -72):
        for lat in (0, 40, 84):
            x, y = to_utm.transform(lon, lat)
            assert box.xmin - 1 <= x <= box.xmax + 1
            assert box.ymin - 1 <= y <= box.ymax + 1


def test_values_survive_pickling_and_copying():
    crs = Crs.parse("projjson:local", properties={"local": UTM.to_json()})
    for other in (pickle.loads(pickle.dumps(crs)), copy.deepcopy(crs)):
        assert other == crs
        assert (other.text, other.resolved, other.form) == (crs.text, crs.resolved, crs.form)
    assert pickle.loads(pickle.dumps(UNKNOWN_CRS)).is_unknown


def test_a_long_definition_has_a_short_repr():
    assert len(repr(Crs(UTM.to_wkt()))) < 80


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"(srid|projjson|EPSG|\{|GEOGCRS\[).{0,20}", fullmatch=True))
def test_any_text_is_read_or_refused_with_our_error(text):
    try:
        crs = Crs(text)
    except GeolakeError:
        return
    assert crs.text == (text if crs.form is CrsForm.OTHER else text.strip())
    assert Crs(crs.text) == crs
    with contextlib.suppress(GeolakeError):
        crs.to_pyproj()


@pytest.mark.parametrize("name", ['x"', "", "\n", "1e999", "é"])
@pytest.mark.parametrize("path", [("coordinate_system",), ("datum", "name"), ("name",)])
def test_a_compound_definition_with_a_broken_part_is_a_typed_error(path, name):
    definition = pyproj.CRS("EPSG:7415").to_json_dict()
    inner = definition["components"][1]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = name
    crs = Crs(json.dumps(definition))
    assert (crs.is_geographic, crs.is_projected, crs.name) is not None
    assert crs.same_as(CRS84) is False
    assert crs.coordinate_range() is None or crs.is_projected


@pytest.mark.parametrize(
    "named",
    [
        "+nadgrids=@null,/etc/passwd",
        '+nadgrids=""/etc/passwd""',
        '+nadgrids=""my dir/grid""',
        "+geoidgrids=a/b",
        "+catalog=../x",
    ],
)
def test_a_file_by_its_path_is_found_in_any_spelling(named):
    text = WEB_MERCATOR_GDAL.format(grid="@null").replace("+nadgrids=@null", named)
    with pytest.raises(CrsError, match="names a file by its path"):
        Crs(text).to_pyproj()


def test_a_parameter_file_by_its_path_is_refused():
    text = WEB_MERCATOR_GDAL.format(grid="@null")
    text = text.replace("EXTENSION[", 'PARAMETERFILE["Latitude and longitude difference file","my dir/x"],EXTENSION[')
    with pytest.raises(CrsError, match="names a file by its path"):
        Crs(text).to_pyproj()
