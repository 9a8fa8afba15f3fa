from __future__ import annotations

import csv
import functools
import json
import math

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import CRS, Transformer

from geolake_nb.model.box import Box
from geolake_nb.raster_data.footprint import (
    RasterBounds,
    corner_ring,
    file_bounds,
    footprint,
    wgs84_bounds,
    wgs84_footprint,
)
from geolake_nb.raster_data.raster import GeoReference, Raster, RasterMetadata

rasterio = pytest.importorskip("rasterio")

CODES = (3031, 3035, 32601, 32660, 32701, 32760, 3413, 3571, 3857, 4087, 4267, 4326, 5070, 6932)
WKT = {f"EPSG:{code}": CRS(f"EPSG:{code}").to_wkt() for code in CODES}


@functools.cache
def to_wgs84(wkt):
    return Transformer.from_crs(CRS.from_wkt(wkt), "OGC:CRS84", always_xy=True)


def at(code, affine, width=256, height=256):
    return RasterMetadata(width, height, 1, WKT.get(code, code), GeoReference.from_affine(affine))


def points(raster, affine, *, per_edge=1000, inside=60):
    """An independent walk: the outline and a grid of pixel corners, with pyproj, without our own code."""
    along = np.linspace(0, 1, per_edge + 1)
    u, v = np.meshgrid(np.linspace(0, 1, inside + 1), np.linspace(0, 1, inside + 1))
    # inner points are corners of pixels, where there are that many
    u, v = np.round(u * raster.width).ravel(), np.round(v * raster.height).ravel()
    columns = np.concatenate([along, along, 0 * along, 0 * along + 1]) * raster.width
    rows = np.concatenate([0 * along, 0 * along + 1, along, along]) * raster.height
    columns, rows = np.concatenate([columns, u]), np.concatenate([rows, v])
    a, b, c, d, e, f = affine
    lon, lat = to_wgs84(raster.crs_wkt).transform(
        a * columns + b * rows + c, d * columns + e * rows + f, errcheck=False
    )
    assert np.isfinite(lon).all()
    return np.where(np.abs(lon) <= 180, lon, (lon + 180) % 360 - 180), lat


def assert_holds(box, lon, lat):
    in_x = (lon >= box.xmin) | (lon <= box.xmax) if box.wraps else (lon >= box.xmin) & (lon <= box.xmax)
    in_y = (lat >= box.ymin) & (lat <= box.ymax)
    outside = ~(in_x & in_y)
    assert not outside.any(), (box, lon[outside][:5], lat[outside][:5])
    assert -180 <= box.xmin <= 180
    assert -180 <= box.xmax <= 180
    assert -90 <= box.ymin <= box.ymax <= 90


def lon_span(box):
    return box.xmax - box.xmin + (360 if box.wraps else 0)


@pytest.fixture(scope="session")
def index(corpus):
    with (corpus / "rasters" / "INDEX.csv").open() as file:
        return list(csv.DictReader(file))


def opened(corpus, row):
    with rasterio.open(corpus / "rasters" / row["file"]) as dataset:
        affine = tuple(dataset.transform)[:6]
        wkt = dataset.crs.to_wkt() if dataset.crs else None
        raster = RasterMetadata(dataset.width, dataset.height, dataset.count, wkt, GeoReference.from_affine(affine))
    return raster, affine


def test_corners_of_every_geotiff_are_those_of_the_index(corpus, index):
    assert len(index) == 24
    for row in index:
        raster, _ = opened(corpus, row)
        expected = json.loads(row["corner_ring_native"])
        np.testing.assert_allclose(corner_ring(raster), expected, rtol=1e-14, atol=1e-13, err_msg=row["file"])
        shape = footprint(raster).shape
        np.testing.assert_allclose(shape.exterior.coords[:-1], expected, rtol=1e-14, atol=1e-13)


def test_bounds_of_every_geotiff_hold_its_densified_outline_and_stay_tight(corpus, index):
    without = []
    for row in index:
        raster, affine = opened(corpus, row)
        box = wgs84_bounds(raster).box
        if box is None:
            without.append((row["file"], wgs84_bounds(raster).reason))
            continue
        lon, lat = points(raster, affine)
        assert_holds(box, lon, lat)
        extent = max(np.ptp(lat), lon_span(box) * math.cos(math.radians(lat.mean())))
        slack = 2e-4 * extent + 1e-7
        assert lat.min() - box.ymin <= slack, row["file"]
        assert box.ymax - lat.max() <= slack, row["file"]
        shape = wgs84_footprint(raster).shape
        assert shape.is_valid
        stored = shapely.union_all(parts(box)).buffer(1e-12)
        assert stored.covers(shape), row["file"]
    assert without == [("rasterio/rotated.tif", "crs_wkt is absent")]


def test_bounds_of_every_geotiff_hold_those_of_gdal(corpus, index):
    compared = 0
    for row in index:
        if row["gdal_transform_bounds_crs84_densify101"]:
            raster, _ = opened(corpus, row)
            west, south, east, north = json.loads(row["gdal_transform_bounds_crs84_densify101"])
            theirs = Box(west, south, east - 360 if east > 180 else east, north)
            box = wgs84_bounds(raster).box
            assert box.contains(theirs), row["file"]
            assert lon_span(box) - lon_span(theirs) <= 1e-3 * lon_span(theirs), row["file"]
            compared += 1
    assert compared == 20


@st.composite
def placed(draw, code, lons, lats, sizes):
    """A raster around or beside a point of the Earth, of any rotation and some skew, up to `sizes` across."""
    lon, lat = draw(st.floats(*lons)), draw(st.floats(*lats))
    degrees = code in ("EPSG:4267", "EPSG:4326")
    x, y = (lon, lat) if degrees else to_wgs84(WKT[code]).transform(lon, lat, direction="INVERSE")
    size = 10 ** draw(st.floats(*map(math.log10, sizes))) / 256
    turn = draw(st.sampled_from([0.0, math.pi]) | st.floats(0, 2 * math.pi))
    flatness, skew = draw(st.floats(0.05, 2)), draw(st.just(0.0) | st.floats(-0.7, 0.7))
    flatness *= draw(st.sampled_from([1, -1]))  # north-up and south-up
    a, d = size * math.cos(turn), size * math.sin(turn)
    b, e = flatness * d + skew * a, -flatness * a + skew * d
    anchor = draw(st.sampled_from([0, 128, 256]))
    return code, (a, b, x - anchor * (a + b), d, e, y - anchor * (d + e))


REGIONS = {
    "utm 1 north": placed("EPSG:32601", (-181, -173), (-80, 84), (1e2, 2e6)),
    "utm 60 north": placed("EPSG:32660", (173, 181), (-80, 84), (1e2, 2e6)),
    "utm 1 south": placed("EPSG:32701", (-181, -173), (-90, 80), (1e2, 2e6)),
    "utm 60 south": placed("EPSG:32760", (173, 181), (-90, 80), (1e2, 2e6)),
    "stereographic north": placed("EPSG:3413", (-180, 180), (50, 90), (1e2, 5e6)),
    "stereographic south": placed("EPSG:3031", (-180, 180), (-90, -50), (1e2, 5e6)),
    "laea europe": placed("EPSG:3035", (-30, 60), (20, 90), (1e2, 5e6)),
    "laea bering sea": placed("EPSG:3571", (-180, 180), (45, 90), (1e2, 5e6)),
    "laea south": placed("EPSG:6932", (-180, 180), (-90, -40), (1e2, 5e6)),
    "mercator": placed("EPSG:3857", (-180, 180), (-85, 85), (1e2, 1e7)),
    "plate carree": placed("EPSG:4087", (-180, 180), (-40, 40), (1e2, 2e6)),
    "degrees": placed("EPSG:4326", (-200, 200), (-45, 45), (1e-3, 20)),
    "datum shift": placed("EPSG:4267", (-200, 200), (-45, 45), (1e-3, 20)),
    "conic": placed("EPSG:5070", (-130, -60), (20, 55), (1e2, 2e6)),
}


@pytest.mark.parametrize("region", REGIONS)
def test_bounds_hold_every_point_of_synthetic_rasters(region):
    @settings(max_examples=20, deadline=None)
    @given(REGIONS[region])
    def check(drawn):
        code, affine = drawn
        raster = at(code, affine)
        bounds = wgs84_bounds(raster)
        lon, lat = points(raster, affine, per_edge=300, inside=64)
        if bounds.box is None:  # as where a corner lies beyond the edge of the map
            assert not np.isfinite([lon, lat]).all(), bounds.reason
            return
        assert_holds(bounds.box, lon, lat)
        shape = wgs84_footprint(raster).shape
        assert shape.is_valid
        assert shapely.union_all(parts(bounds.box)).buffer(1e-9).covers(shape)

    check()


POLAR = {
    "pole in the middle": (1000.0, 0.0, -128e3, 0.0, -1000.0, 128e3),
    "pole in a pixel off the middle": (1000.0, 0.0, -33e3, 0.0, -1000.0, 250e3),
    "pole in the middle, rotated": (800.0, 600.0, -180e3, 600.0, -800.0, 30e3),
    "pole on a corner": (1000.0, 0.0, 0.0, 0.0, -1000.0, 0.0),
    "pole on an edge between samples": (1000.0, 0.0, -100123.0, 0.0, -1000.0, 0.0),
    "south-up": (1000.0, 0.0, -128e3, 0.0, 1000.0, -128e3),
}


@pytest.mark.parametrize("affine", POLAR.values(), ids=POLAR)
@pytest.mark.parametrize(
    ("code", "pole"), [("EPSG:3413", 90), ("EPSG:3571", 90), ("EPSG:3031", -90), ("EPSG:6932", -90)]
)
def test_a_raster_over_a_pole_has_every_longitude_up_to_the_pole(code, pole, affine):
    raster = at(code, affine)
    box = wgs84_bounds(raster).box
    assert (box.xmin, box.xmax) == (-180, 180)
    assert pole in (box.ymin, box.ymax)
    assert_holds(box, *points(raster, affine))


def test_a_pole_inside_counts_where_the_outline_stays_far_from_it():
    # Transverse Mercator and an oblique LAEA: the outline tops out below 84 degrees, the pole is inside.
    x, y = to_wgs84(WKT["EPSG:3035"]).transform(0, 90, direction="INVERSE")
    affine = (7000.0, 0.0, x - 128 * 7000, 0.0, -7000.0, y + 128 * 7000)
    assert points(at("EPSG:3035", affine), affine, inside=1)[1].max() < 84
    box = wgs84_bounds(at("EPSG:3035", affine)).box
    assert (box.xmin, box.xmax, box.ymax) == (-180, 180, 90)


@pytest.mark.parametrize("gap", [10.0, 1e3, 3e4])
def test_a_raster_close_to_a_pole_keeps_its_longitudes(gap):
    # In EPSG:3413 the quadrant x > 0, y < 0 has longitudes -45 to 45.
    affine = (400.0, 0.0, gap, 0.0, -400.0, -gap)
    box = wgs84_bounds(at("EPSG:3413", affine)).box
    assert_holds(box, *points(at("EPSG:3413", affine), affine))
    assert -45 - 2 < box.xmin < box.xmax < 45 + 2
    assert box.ymax < 90


def test_mercator_past_the_antimeridian_wraps():
    half = math.pi * 6378137
    affine = (1000.0, 0.0, half - 128e3, 0.0, -1000.0, 0.0)
    box = wgs84_bounds(at("EPSG:3857", affine)).box
    degrees = math.degrees(128e3 / 6378137)
    assert box.wraps
    assert box.xmin == pytest.approx(180 - degrees, abs=1e-6)
    assert box.xmax == pytest.approx(-180 + degrees, abs=1e-6)


@pytest.mark.parametrize(("west", "east"), [(-180, -170), (170, 180), (0, 180), (-180, 0)])
def test_a_raster_in_degrees_that_ends_at_the_antimeridian_does_not_wrap(west, east):
    affine = ((east - west) / 256, 0.0, west, 0.0, -0.01, 5.0)
    box = wgs84_bounds(at("EPSG:4326", affine)).box
    assert not box.wraps
    assert (box.xmin, box.xmax) == pytest.approx((west, east), abs=1e-12)
    assert_holds(box, *points(at("EPSG:4326", affine), affine))


@pytest.mark.parametrize(("west", "east"), [(-180, -170), (170, 180), (180, 190), (-190, -180)])
@pytest.mark.parametrize("code", ["EPSG:3857", "EPSG:4087"])
def test_a_projected_raster_that_ends_at_the_antimeridian_holds_it_under_both_names(code, west, east):
    # Rounding decides whether a point of that edge is called -180 or 180.
    unit = math.pi * 6378137 / 180
    affine = ((east - west) / 256 * unit, 0.0, west * unit, 0.0, -0.01 * unit, 5.0 * unit)
    box = wgs84_bounds(at(code, affine)).box
    assert_holds(box, np.array([-180.0, 180.0]), np.array([4.0, 4.0]))
    assert lon_span(box) == pytest.approx(10, abs=1e-2)
    assert_holds(box, *points(at(code, affine), affine))


@pytest.mark.parametrize(
    ("west", "east", "expected"),
    [
        (170, 190, (170, -170)),
        (-190, -170, (170, -170)),
        (190, 200, (-170, -160)),
        (0, 360, (-180, 180)),
        (-180, 180, (-180, 180)),
        (-0.125, 359.875, (-180, 180)),
        (10, 350, (10, -10)),
    ],
)
def test_degrees_past_180_come_back_to_the_circle(west, east, expected):
    box = wgs84_bounds(at("EPSG:4326", ((east - west) / 256, 0.0, west, 0.0, -0.1, 20.0))).box
    assert (box.xmin, box.xmax) == pytest.approx(expected, abs=1e-12)


def test_a_grid_centred_on_the_poles_is_cut_at_them():
    # The usual quarter-degree reanalysis grid: 1440 x 721 centres from 0 to 359.75 and from 90 to -90.
    raster = at("EPSG:4326", (0.25, 0.0, -0.125, 0.0, -0.25, 90.125), 1440, 721)
    assert wgs84_bounds(raster).box == Box(-180, -90, 180, 90)


GEOSTATIONARY = CRS.from_proj4("+proj=geos +h=35785831 +lon_0=0 +sweep=y").to_wkt()
MERCATOR_1 = CRS("EPSG:3857").to_wkt("WKT1_GDAL")
NADGRIDS = MERCATOR_1.replace("+nadgrids=@null", "+nadgrids=/etc/hostname")
NOWHERE = {
    "no crs": (
        RasterMetadata(9, 9, 1, None, GeoReference.from_affine((1, 0, 0, 0, -1, 0))),
        "crs_wkt is absent",
    ),
    "empty crs": (at("", (1, 0, 0, 0, -1, 0)), "crs_wkt cannot be transformed"),
    "no wkt": (at("EPSG:99999999", (1, 0, 0, 0, -1, 0)), "crs_wkt cannot be transformed"),
    "cut wkt": (at(WKT["EPSG:3857"][:80], (1, 0, 0, 0, -1, 0)), "crs_wkt cannot be transformed"),
    "huge wkt": (at("[" * 100_001, (1, 0, 0, 0, -1, 0)), "longer than 100000 characters"),
    "nested wkt": (at('GEOGCS["' * 50_000, (1, 0, 0, 0, -1, 0)), "crs_wkt cannot be transformed"),
    "half a character": (at('GEOGCS["\ud800"]', (1, 0, 0, 0, -1, 0)), "crs_wkt cannot be transformed"),
    "nul": (at(MERCATOR_1 + "\0", (1, 0, 0, 0, -1, 0)), "crs_wkt cannot be transformed"),
    "authority": (at("EPSG:4326 ", (1, 0, 0, 0, -1, 0)), "not valid WKT"),
    "local crs": (at('LOCAL_CS["x",UNIT["metre",1]]', (1, 0, 0, 0, -1, 0)), "has no longitude and latitude"),
    "vertical crs": (at(CRS("EPSG:5703").to_wkt(), (1, 0, 0, 0, -1, 0)), "has no longitude and latitude"),
    "geocentric crs": (at(CRS("EPSG:4978").to_wkt(), (1, 0, 0, 0, -1, 0)), "has no longitude and latitude"),
    "grid by path": (at(NADGRIDS, (1, 0, 0, 0, -1, 0)), "names a file by its path"),
    "off the earth": (at(GEOSTATIONARY, (5e4, 0, -6e6, 0, -5e4, 6e6)), "has no WGS84 coordinates"),
    "metres as degrees": (at("EPSG:4326", (10, 0, 5e5, 0, -10, 4.5e6)), "latitudes outside"),
    "feet as degrees": (at("EPSG:4326", (10, 0, 5e5, 0, -0.1, 9)), "longitudes outside"),
    "beyond the pole": (at("EPSG:4087", (1e4, 0, 0, 0, -1e4, 1.1e7)), "latitudes outside"),
    "no pixels": (at("EPSG:4326", (1, 0, 0, 0, -1, 0), 0, 5), "no pixels"),
    "nan": (at("EPSG:4326", (1, 0, math.nan, 0, -1, 0)), "not finite"),
    "overflow": (at("EPSG:4326", (1e308, 0, 0, 0, -1, 0)), "not finite"),
}


@pytest.mark.parametrize(("raster", "reason"), NOWHERE.values(), ids=NOWHERE)
def test_without_a_sound_bound_there_is_none_and_a_reason(raster, reason):
    bounds = wgs84_bounds(raster)
    assert bounds.box is None
    assert reason in bounds.reason
    shape = wgs84_footprint(raster)
    assert shape.shape is None
    assert shape.reason == bounds.reason


def test_grids_that_proj_ships_under_a_bare_name_stay_allowed():
    # WKT 1 of EPSG:3857 says +nadgrids=@null.
    assert "nadgrids=@null" in MERCATOR_1
    assert wgs84_bounds(at(MERCATOR_1, (1.0, 0.0, 0.0, 0.0, -1.0, 0.0))).box is not None


def test_bounds_in_a_file_join_on_the_circle():
    east = at("EPSG:4326", (0.01, 0, 170, 0, -0.01, 10))
    west = at("EPSG:4326", (0.01, 0, -175, 0, -0.01, 0))
    box = file_bounds([east, None, west]).box
    assert (box.xmin, box.ymin, box.xmax, box.ymax) == pytest.approx((170, -2.56, -172.44, 10))
    assert file_bounds([Raster(256, 256, (), east.crs_wkt, east.geo_reference)]).box == wgs84_bounds(east).box


def test_one_raster_without_a_bound_leaves_the_file_without():
    good = at("EPSG:4326", (0.01, 0, 170, 0, -0.01, 10))
    bad = RasterMetadata(1, 1, 1, None, good.geo_reference)
    assert file_bounds([good, bad]) == RasterBounds(None, "row 1: crs_wkt is absent")
    assert file_bounds([]) == file_bounds([None]) == RasterBounds(None, "no raster")


def test_native_footprints_keep_rotation_and_orientation():
    turned = footprint(at("EPSG:32760", (3.0, 4.0, 100.0, 4.0, -3.0, 200.0), 10, 5)).shape
    assert turned.equals(shapely.Polygon([(100, 200), (130, 240), (150, 225), (120, 185)]))
    south_up = footprint(at("EPSG:4326", (1.0, 0.0, 0.0, 0.0, 1.0, -5.0), 10, 5)).shape
    assert south_up.equals(shapely.box(0, -5, 10, 0))


def test_wgs84_footprints_are_cut_at_the_antimeridian_and_closed_over_the_pole():
    crossing = wgs84_footprint(at("EPSG:32660", (1000.0, 0.0, 600e3, 0.0, -1000.0, 5e6))).shape
    assert crossing.geom_type == "MultiPolygon"
    assert crossing.bounds[0] == -180
    assert crossing.bounds[2] == 180
    assert crossing.covers(shapely.Point(179.5, 44))
    assert crossing.covers(shapely.Point(-179.5, 44))
    assert not crossing.intersects(shapely.Point(0, 44))
    polar = wgs84_footprint(at("EPSG:3413", POLAR["pole in the middle"])).shape
    assert polar.covers(shapely.MultiPoint([(lon, 89.9) for lon in range(-180, 181, 30)]))
    assert not polar.intersects(shapely.Point(0, 85))


@pytest.mark.parametrize("code", ["EPSG:32660+5773", "EPSG:3857+3855"])
def test_a_height_beside_the_plane_changes_nothing(code):
    affine = (10.0, 0.0, 5e5, 0.0, -10.0, 4.5e6)
    both, plane = CRS(code).to_wkt(), CRS(code).sub_crs_list[0].to_wkt()
    assert wgs84_bounds(at(both, affine)).box == wgs84_bounds(at(plane, affine)).box


def parts(box):
    if box.wraps:
        return [
            shapely.box(box.xmin, box.ymin, 180, box.ymax),
            shapely.box(-180, box.ymin, box.xmax, box.ymax),
        ]
    return [shapely.box(box.xmin, box.ymin, box.xmax, box.ymax)]
