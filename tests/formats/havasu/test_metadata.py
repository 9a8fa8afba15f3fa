from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.formats.registry import HAVASU
from geolake_nb.model.types import GeometryEncoding, GeometryType, RasterType
from geolake_nb.raster_data.arrow import rasters_from_arrow
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_tables import (
    FAULTS,
    GEOM,
    RASTER,
    geometry_entry,
    make_havasu_table,
    point,
    raster_at,
    raster_entry,
)
from tests.formats.iceberg_tables import FileEntry

SHAPES = [shapely.Point(1, 2), shapely.LineString([(0, 0), (5, 3)]), None, shapely.Point()]
SIDES = ("xmin", "ymin", "xmax", "ymax")


def opened(folder):
    return open_iceberg(Storage.at(str(folder)))


def boxes(snapshot, name="geom"):
    return list(zip(*(snapshot.files.table[f"{name}.{side}"].to_pylist() for side in SIDES), strict=True))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("encoding", ["ewkb", "wkb", "wkt", "geojson"])
def test_geometries_of_each_encoding_have_the_boxes_of_their_manifests(tmp_path, version, encoding):
    entries = [geometry_entry("a", SHAPES, encoding=encoding), geometry_entry("b", [None], encoding=encoding)]
    make_havasu_table(tmp_path, entries, version=version, encoding=encoding)
    snapshot = opened(tmp_path)
    assert snapshot.format is HAVASU
    assert snapshot.details.havasu_version == "0.1.0"
    assert snapshot.protocol.summary == f"Havasu 0.1.0 on Iceberg {version}"
    type_ = snapshot.schema.find("geom").type
    assert isinstance(type_, GeometryType)
    assert type_.encoding is GeometryEncoding.parse(encoding)
    assert boxes(snapshot) == [(0.0, 0.0, 5.0, 3.0), (None,) * 4]
    assert snapshot.files.table["geom.source"].to_pylist() == ["manifest", None]
    assert snapshot.files.table["geom.null_count"].to_pylist() == [1, 1]
    assert snapshot.files.boxes("geom").only_null_or_empty.tolist() == [False, True]
    features = {item.name: item for item in snapshot.protocol.features}
    assert encoding in features["havasu.geometry"].meaning
    assert "geometry" not in features


def test_the_values_in_the_data_files_are_the_requested_ones(tmp_path):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)])
    column = pq.read_table(tmp_path / "data" / "a.parquet")["geom"].to_pylist()
    assert shapely.from_wkb(column[1]) == SHAPES[1]
    assert shapely.get_srid(shapely.from_wkb(column[0])) == 4326
    assert column[2] is None


def test_rasters_have_boxes_that_may_wrap(tmp_path):
    # A raster of four half-degree pixels from its corner at 10, 20 covers two degrees each way.
    first = raster_entry("a", [raster_at(10, 20), None], (10, 18, 12, 20))
    second = raster_entry("b", [raster_at(179, 20)], (179, 18, -179, 20))
    make_havasu_table(tmp_path, [first, second], encoding=None, rasters=True)
    snapshot = opened(tmp_path)
    assert isinstance(snapshot.schema.find("rast").type, RasterType)
    assert boxes(snapshot, "rast") == [(10.0, 18.0, 12.0, 20.0), (179.0, 18.0, -179.0, 20.0)]
    assert {item.name for item in snapshot.protocol.features} >= {"havasu", "havasu.raster"}
    stored = pq.read_table(tmp_path / "data" / "a.parquet")["rast"]
    assert rasters_from_arrow(stored) == [raster_at(10, 20), None]


def test_a_table_may_have_both_kinds_of_columns(tmp_path):
    entry = FileEntry(
        "a", geom_lower={GEOM: point(0, 0), RASTER: point(5, 5)}, geom_upper={GEOM: point(1, 1), RASTER: point(6, 6)}
    )
    make_havasu_table(tmp_path, [entry], rasters=True)
    snapshot = opened(tmp_path)
    assert boxes(snapshot) == [(0.0, 0.0, 1.0, 1.0)]
    assert boxes(snapshot, "rast") == [(5.0, 5.0, 6.0, 6.0)]


def test_bounds_in_icebergs_own_maps_are_not_taken_for_boxes(tmp_path):
    entry = FileEntry("a", lower={GEOM: point(0, 0)}, upper={GEOM: point(1, 1)})
    make_havasu_table(tmp_path, [entry])
    snapshot = opened(tmp_path)
    assert boxes(snapshot) == [(None,) * 4]
    assert snapshot.files.table["geom.problem"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("stated", "version"), [(None, "0.1.0"), ("0.1.0", "0.1.0"), ("0.1", "0.1"), ("0.1.3", "0.1.3")]
)
def test_the_version_is_as_stated_or_the_first(tmp_path, stated, version):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)], havasu_version=stated)
    assert opened(tmp_path).details.havasu_version == version


def test_a_version_in_the_properties_counts_and_makes_a_table_without_spatial_columns_one(tmp_path):
    make_havasu_table(tmp_path, [FileEntry("a")], encoding=None, properties={"havasu.format-version": "0.1.0"})
    assert opened(tmp_path).format is HAVASU


@pytest.mark.parametrize("stated", ["1.0.0", "0.2.0", "", "0.1.0-x"])
def test_a_version_that_is_not_known_is_refused(tmp_path, stated):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)], havasu_version=stated)
    with pytest.raises(UnsupportedTableError, match="Havasu version"):
        opened(tmp_path)


def test_a_version_that_is_not_a_string_is_refused(tmp_path):
    path = make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)])
    path.write_text(json.dumps({**json.loads(path.read_text()), "havasu.format-version": 1}))
    with pytest.raises(CorruptTableError, match="is not a string"):
        opened(tmp_path)


def test_havasu_on_iceberg_3_is_refused(tmp_path):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)], version=3)
    with pytest.raises(UnsupportedTableError, match="Iceberg format version 3; Havasu extends"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("havasu.geometry-encoding", "twkb", "unknown geometry encoding 'twkb'"),
        ("havasu.geometry-encoding", "wkt", "does not go with the type binary"),
        ("havasu.raster-encoding", "v2", "both a geometry and a raster"),
    ],
)
def test_encodings_that_break_the_rules_are_refused(tmp_path, key, value, reason):
    path = make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)])
    raw = json.loads(path.read_text())
    raw["schemas"][0]["fields"][1][key] = value
    path.write_text(json.dumps(raw))
    with pytest.raises(CorruptTableError, match=reason):
        opened(tmp_path)


EXPECTED = {
    "missing": (None, None),
    "lower only": (None, "the upper bound is missing"),
    "swapped": (None, "ymin 3.0 > ymax 0.0"),
    "cut off": (None, "has 18 bytes, expected 21 for its WKB point"),
    "raw doubles": (None, "is not a WKB point"),
    "line": (None, "WKB of type 2, not a point"),
    "empty point": (None, "NaN"),
    "too small": ((0.0, 0.0, 2.5, 1.5), None),
    "too large": ((-10.0, -10.0, 15.0, 13.0), None),
    "wrapped": (None, "only longitudes wrap"),
    "not parquet": ((0.0, 0.0, 5.0, 3.0), None),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_each_fault_shows_as_it_should(tmp_path, fault):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES), geometry_entry("b", SHAPES)], fault=fault)
    snapshot = opened(tmp_path)
    box, reason = EXPECTED[fault]
    assert boxes(snapshot) == [box or (None,) * 4, (0.0, 0.0, 5.0, 3.0)]
    problems = snapshot.files.table["geom.problem"].to_pylist()
    assert problems[1] is None
    assert (problems[0] is None) if reason is None else reason in problems[0]
    assert snapshot.files.table["format"].to_pylist() == ["ORC" if fault == "not parquet" else "PARQUET", "PARQUET"]


def test_points_with_an_srid_or_of_the_other_byte_order_are_read(tmp_path):
    entry = FileEntry("a", geom_lower={GEOM: point(1, 2, srid=4326)}, geom_upper={GEOM: point(3, 4, big_endian=True)})
    make_havasu_table(tmp_path, [entry])
    assert boxes(opened(tmp_path)) == [(1.0, 2.0, 3.0, 4.0)]
