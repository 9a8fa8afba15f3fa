"""The rows of a filter on geographies with spherical edges are those of S2, by spherely and by SedonaDB."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, PredicateError
from geolake_nb.expressions.predicate import Not, Spatial
from geolake_nb.model.box import Box
from geolake_nb.model.operators import SpatialOp
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.scan.scan_tables import arrow_column

spherely = pytest.importorskip("spherely")

SHAPES = [
    "POINT (0 0)",
    "POINT (10 10)",
    "POINT (180 10)",
    "POINT (-180 10)",
    "POINT (30 90)",
    "POINT (77 -90)",
    "LINESTRING (-60 60, 60 60)",  # rises to 73.9 degrees
    "LINESTRING (170 10, -170 10)",
    "LINESTRING (-60 -45, 60 -45)",
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    "POLYGON ((175 -5, -175 -5, -175 5, 175 5, 175 -5))",
    "POLYGON ((-120 70, 0 70, 120 70, -120 70))",  # around the pole
    "POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))",
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 2 4, 4 4, 4 2, 2 2))",
    "MULTIPOINT ((5 5), (100 50))",
    "MULTILINESTRING ((0 0, 1 1), (50 50, 51 51))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 1, 0 0)), ((40 40, 41 40, 41 41, 40 41, 40 40)))",
    "POINT EMPTY",
    "LINESTRING EMPTY",
    "POLYGON EMPTY",
    "POINT Z (5 5 100)",
    None,
]
QUERIES = [
    "POINT (0 0)",
    "POINT (5 5)",
    "POINT (180 10)",
    "POINT (0 73.8)",
    "POLYGON ((-1 70, 1 70, 1 75, -1 75, -1 70))",  # where the first line passes, far from its ends
    "POLYGON ((-1 59, 1 59, 1 61, -1 61, -1 59))",  # where it would pass on a map
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    "POLYGON ((178 9, -178 9, -178 12, 178 12, 178 9))",
    "POLYGON ((-10 80, 80 80, 170 80, -100 80, -10 80))",
    "LINESTRING (0 -20, 0 80)",
    "LINESTRING (0 0, 10 0)",
    "MULTIPOINT ((0 0), (10 10))",
    "POLYGON ((-80 -60, 80 -60, 80 -40, -80 -40, -80 -60))",
]
OPS = {
    # S2 counts some points of a polygon's border: with those that touch it they are all that SQL counts.
    SpatialOp.INTERSECTS: lambda row, query: spherely.intersects(row, query) or spherely.touches(row, query),
    SpatialOp.CONTAINS: spherely.contains,
    SpatialOp.WITHIN: spherely.within,
    SpatialOp.COVERS: spherely.covers,
    SpatialOp.COVERED_BY: spherely.covered_by,
    SpatialOp.EQUALS: spherely.equals,
    SpatialOp.TOUCHES: spherely.touches,
}


def wkb_of(texts):
    return [None if text is None else shapely.to_wkb(shapely.from_wkt(text), flavor="iso") for text in texts]


def parquet(folder, wkb, rows=3):
    folder.mkdir()
    geog = arrow_column(pa.array(wkb, pa.binary()), spherical=True)
    table = pa.table({"id": pa.array(range(len(wkb)), pa.int64()), "geog": geog})
    pq.write_table(table, folder / "a.parquet", row_group_size=rows)
    return gl.open(str(folder))


def delta(folder, wkb, kind):
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array(range(len(wkb)), pa.int64()), "geog": pa.array(wkb)}), folder / "a.parquet")
    log = LogMaker(folder)
    log.commit(0, protocol("geospatial"), metadata(field("id", "long"), field("geog", kind)), add("a.parquet"))
    return gl.open(str(folder))


def ids(table, where, **options):
    return sorted(table.scan(where, columns=["id"], **options).to_arrow()["id"].to_pylist())


def on_sphere(text):
    return spherely.from_wkb(shapely.to_wkb(shapely.force_2d(shapely.from_wkt(text))))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return parquet(tmp_path_factory.mktemp("geography") / "t", wkb_of(SHAPES))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.sql)
def test_each_relation_follows_great_circles(table, op):
    for query in QUERIES:
        rows = [
            row for row, text in enumerate(SHAPES) if text is not None and OPS[op](on_sphere(text), on_sphere(query))
        ]
        assert ids(table, Spatial.of(op, "geog", shapely.from_wkt(query))) == rows, query


def test_the_negation_keeps_the_others_but_nulls(table):
    for query in QUERIES:
        rows = {
            row
            for row, text in enumerate(SHAPES)
            if text is not None and OPS[SpatialOp.INTERSECTS](on_sphere(text), on_sphere(query))
        }
        others = [row for row, text in enumerate(SHAPES) if row not in rows and text is not None]
        assert ids(table, Not(Spatial.of(SpatialOp.INTERSECTS, "geog", shapely.from_wkt(query)))) == others, query


def test_sedonadb_returns_the_same_rows(table):
    sedona = pytest.importorskip("sedonadb")
    session = sedona.connect()
    rows = pa.table({"id": range(len(SHAPES)), "wkb": pa.array(wkb_of(SHAPES), pa.binary())})
    session.create_data_frame(rows).to_view("r")
    for query in QUERIES:
        where = f"ST_Intersects(ST_GeogFromWKB(wkb), ST_GeogFromText('{query}'))"
        answer = session.sql(f"SELECT id FROM r WHERE wkb IS NOT NULL AND {where}").to_arrow_table()
        assert ids(table, f"ST_Intersects(geog, ST_GeogFromText('{query}'))") == sorted(answer["id"].to_pylist()), query


def test_a_line_is_found_where_its_arc_runs_and_not_where_a_map_draws_it(table):
    assert 6 in ids(table, [-1, 70, 1, 75])
    assert 6 not in ids(table, [-1, 59, 1, 61])


def test_windows_over_180_degrees_and_around_the_world(table):
    assert ids(table, [179, 9, -179, 11]) == [2, 3, 7]
    everywhere = [row for row, text in enumerate(SHAPES) if text is not None and not text.endswith("EMPTY")]
    assert ids(table, [-180, -90, 180, 90]) == everywhere
    assert ids(table, [9, -90, 8.5, 90]) == everywhere


def test_wide_windows_follow_their_parallels(tmp_path):
    rng = random.Random(6)
    points = [(rng.uniform(-180, 180), rng.uniform(-90, 90)) for _ in range(1000)]
    points += [(180, 0), (-180, 0), (0, 90), (90, -90)]
    table = parquet(tmp_path / "t", [shapely.Point(point).wkb for point in points], rows=100)
    xy = np.array(points)
    for box in ([-100, -10, 100, 10], [-180, -60, 180, 60], [-180, -90, 180, 0], [0, 30, 180, 90], [20, -30, -20, 60]):
        x = np.where((xy[:, 0] < box[0]) & (box[0] > box[2]), xy[:, 0] + 360, xy[:, 0])
        east = box[2] + 360 if box[0] > box[2] else box[2]
        # A pole has every longitude, and 180 degrees are -180.
        inside = ((x >= box[0]) & (x <= east)) | (np.abs(xy[:, 1]) == 90) | ((np.abs(x) == 180) & (box[2] == 180))
        # Between two vertices a degree apart an edge strays from the parallel by less than this.
        slack = np.abs(xy[:, 1:] - np.array([[box[1], box[3]]])).min(axis=1) > 0.01
        inside &= (xy[:, 1] >= box[1]) & (xy[:, 1] <= box[3])
        sure = set(np.flatnonzero(slack | (np.abs(xy[:, 1]) == 90)).tolist())
        assert set(ids(table, box)) & sure == set(np.flatnonzero(inside).tolist()) & sure, box


@pytest.mark.parametrize("op", [SpatialOp.WITHIN, SpatialOp.CONTAINS])
def test_other_relations_to_wide_windows_are_refused(table, op):
    with pytest.raises(PredicateError, match="180 degrees or more is not defined on the sphere") as caught:
        ids(table, Spatial.of(op, "geog", Box(-100, -10, 100, 10)))
    assert "\n" not in str(caught.value)


def test_small_windows_find_the_points_in_them(tmp_path):
    rng = random.Random(5)
    points = [(rng.uniform(-180, 180), rng.uniform(-89, 89)) for _ in range(2000)]
    table = parquet(tmp_path / "t", [shapely.Point(point).wkb for point in points], rows=200)
    for _ in range(40):
        west, south = rng.uniform(-180, 175), rng.uniform(-85, 80)
        box = shapely.box(west, south, west + 5, south + 5)
        query = spherely.from_wkb(box.wkb)
        rows = np.flatnonzero(
            spherely.intersects(spherely.from_wkb([shapely.Point(point).wkb for point in points]), query)
        )
        assert ids(table, box) == rows.tolist(), box
        assert ids(table, Box(*box.bounds)) == rows.tolist(), box


@pytest.mark.parametrize("kind", ["geography(OGC:CRS84, SPHERICAL)", "geography(OGC:CRS84, spherical)"])
def test_geographies_of_delta_are_tested_the_same(tmp_path, kind):
    table = delta(tmp_path / "t", wkb_of(SHAPES), kind)
    rows = [
        row
        for row, text in enumerate(SHAPES)
        if text is not None and OPS[SpatialOp.INTERSECTS](on_sphere(text), on_sphere(QUERIES[4]))
    ]
    assert ids(table, QUERIES[4]) == rows


def test_edges_of_an_ellipsoid_are_refused_with_the_remedy_or_give_candidates(tmp_path):
    table = delta(tmp_path / "t", wkb_of(SHAPES[:-1]), "geography(OGC:CRS84, VINCENTY)")
    with pytest.raises(PredicateError, match=r"(?i)vincenty.*exact=False") as caught:
        ids(table, QUERIES[4])
    assert "\n" not in str(caught.value)
    assert {6} <= set(ids(table, QUERIES[4], exact=False))


@pytest.mark.parametrize("op", [SpatialOp.CROSSES, SpatialOp.OVERLAPS], ids=lambda op: op.sql)
def test_relations_that_the_sphere_has_not_are_refused(table, op):
    with pytest.raises(PredicateError, match=op.sql) as caught:
        ids(table, Spatial.of(op, "geog", shapely.from_wkt(QUERIES[6])))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [b"", b"\x01\x02", shapely.from_wkt("POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))").wkb],
)
def test_values_that_s2_cannot_read_are_reported(tmp_path, broken):
    table = parquet(tmp_path / "t", [broken, shapely.Point(1, 1).wkb])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = ids(table, [-10, -10, 10, 10])
    if answer == [1]:
        assert ["1 of geog" in str(warning.message) for warning in caught] == [True]
        with pytest.raises(GeolakeError, match="1 of geog"):
            ids(table, [-10, -10, 10, 10], on_error="raise")
    else:
        assert answer == [0, 1]


def test_many_row_groups_at_once_give_the_same_answer(tmp_path):
    table = parquet(tmp_path / "t", wkb_of(SHAPES) * 20, rows=2)
    first = ids(table, QUERIES[6])
    assert len(first) % 20 == 0
    assert all(ids(table, QUERIES[6]) == first for _ in range(10))
