"""Faults that a review of the five-documents work found: an unresolvable CRS, SRIDs, boxes and hints."""

from __future__ import annotations

import shlex
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import CrsError, PredicateError
from geolake_nb.geo.encodings import srid_of
from geolake_nb.model.crs import Crs
from geolake_nb.parquet.schema import to_arrow_type


def table_of(folder, *files):
    """A folder of Parquet files, each of one point with its CRS."""
    for number, (crs, point) in enumerate(files):
        values = to_arrow_type(gl.geometry(crs)).wrap_array(pa.array([shapely.Point(*point).wkb], pa.binary()))
        pq.write_table(pa.table({"geom": values}), folder / f"{number}.parquet")
    return gl.open(folder)


def kept(table, where, **options):
    return table.explain(where, **options).files["kept"].to_pylist()


@pytest.mark.parametrize("where", [(0, 0, 1, 1), "ST_Intersects(geom, 'POINT (1 1)')"])
def test_a_crs_that_cannot_be_resolved_and_a_file_without_bounds_can_be_explained(tmp_path, where):
    # The bounds of the second file are in another CRS than the table's, and are not used.
    table = table_of(tmp_path, ("my local grid", (3, 4)), ("EPSG:3857", (900, 900)))
    assert kept(table, where) == [False, True]


@pytest.mark.parametrize(
    "query",
    [
        "SRID=999999;POINT (3 4)",
        shapely.set_srid(shapely.Point(3, 4), 999999),
        "ST_Intersects(geom, ST_GeomFromText('POINT (3 4)', 999999))",
    ],
    ids=["ewkt", "shapely", "sql"],
)
def test_an_srid_that_epsg_does_not_have_queries_a_column_with_that_srid(tmp_path, query):
    table = table_of(tmp_path, ("srid:999999", (3, 4)), ("srid:999999", (30, 40)))
    assert kept(table, query) == [True, False]


def test_an_srid_that_epsg_does_not_have_is_named_in_the_refusal(tmp_path):
    table = table_of(tmp_path, ("EPSG:3857", (3, 4)))
    with pytest.raises(PredicateError, match="EPSG:999999: PROJ does not know this CRS"):
        table.explain("SRID=999999;POINT (3 4)")


@pytest.mark.parametrize("crs", ["srid:9999999999", "EPSG:99999999999"])
def test_a_number_beyond_the_range_of_an_srid_is_not_written_as_one(crs):
    # An SRID of EWKB has 32 bits.
    with pytest.raises(CrsError, match="PROJ does not know this CRS"):
        srid_of(Crs(crs))


def test_a_number_that_no_double_holds_is_refused_as_a_side(tmp_path):
    table = table_of(tmp_path, ("EPSG:3857", (3, 4)))
    with pytest.raises(PredicateError, match="expected four numbers"):
        table.explain((0, 0, 10**400, 1))


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_wkb_may_be_in_any_buffer(tmp_path, kind):
    table = table_of(tmp_path, ("EPSG:3857", (3, 4)), ("EPSG:3857", (30, 40)))
    assert kept(table, kind(shapely.Point(3, 4).wkb)) == [True, False]


def test_a_crs_of_heights_skips_nothing(tmp_path):
    # EPSG:5773 is EGM96 height: nobody can say where a box in it lies.
    table = table_of(tmp_path, ("EPSG:3857", (3, 4)))
    explanation = table.explain((100, 40, 101, 41), box_crs="EPSG:5773")
    assert explanation.files["kept"].to_pylist() == [True]
    assert "a CRS of heights has no x and y" in explanation.notes[0]
    heights = table_of(tmp_path, ("EPSG:5773", (3, 4)))
    assert kept(heights, (100, 40, 101, 41), box_crs="OGC:CRS84") == [True]


def test_a_box_in_a_crs_with_heights_too_still_skips(tmp_path):
    # EPSG:9707 is WGS 84 with EGM96 height.
    table = table_of(tmp_path, ("EPSG:3857", (111_000, 111_000)), ("EPSG:3857", (9_000_000, 9_000_000)))
    assert kept(table, (0, 0, 2, 2), box_crs="EPSG:9707") == [True, False]


def test_all_the_crs_of_a_filter_are_shown(tmp_path):
    table = table_of(tmp_path, ("EPSG:3857", (3, 4)))
    both = "ST_Intersects(geom, ST_GeomFromText('POINT (15 45)', 4326)) AND ST_Intersects(geom, 'POINT (3 4)')"
    explanation = table.explain(both)
    assert explanation.query_crs == {"geom": "EPSG:4326, EPSG:3857"}
    assert "geom is queried in EPSG:4326, EPSG:3857" in str(explanation)


@pytest.mark.parametrize("srid", [0, -1])
def test_an_srid_that_names_no_crs_is_not_suggested_as_the_crs(tmp_path, srid):
    ewkb = struct.pack("<bIidd", 1, 0x20000001, srid, 3.0, 4.0)
    pq.write_table(pa.table({"geom": pa.array([ewkb], pa.binary())}), tmp_path / "a.parquet")
    (finding,) = gl.open(tmp_path).check()
    assert finding.rule == "geo.untyped_wkb"
    assert "no CRS is stored" in str(finding)


def test_a_box_in_grads_that_crosses_180_is_refused(tmp_path):
    # EPSG:4807 is in grads, of which a circle has 400: cut at 180 the box would lose what lies up to 200.
    table = table_of(tmp_path, ("OGC:CRS84", (170, 45)))
    with pytest.raises(PredicateError, match="are not degrees"):
        table.explain((150, 40, -150, 60), box_crs="EPSG:4807")
    assert kept(table, (150, 40, 199, 60), box_crs="EPSG:4807") == [True]


@pytest.mark.parametrize("name", ["a=b", "=", "x=geometry"])
def test_the_command_for_plain_wkb_works_with_an_equals_sign_in_the_name(tmp_path, name, capsys):
    pq.write_table(pa.table({name: pa.array([shapely.Point(3, 4).wkb], pa.binary())}), tmp_path / "a.parquet")
    (finding,) = gl.open(tmp_path).check()
    program, *words = shlex.split(finding.fix)
    assert program == "geolake"
    assert main([*words, "--apply"]) == 0
    assert list(gl.open(tmp_path).check()) == []


def test_a_box_in_the_crs_of_the_column_needs_no_known_crs(tmp_path):
    table = table_of(tmp_path, ("my local grid", (3, 4)), ("my local grid", (30, 40)))
    assert kept(table, (0, 0, 5, 5), box_crs="my local grid") == [True, False]
    with pytest.raises(PredicateError, match="your local grid"):
        table.explain((0, 0, 5, 5), box_crs="your local grid")


@pytest.mark.parametrize("crs", ["my local grid", "EPSG:3857"])
def test_a_reversed_box_is_refused_where_no_antimeridian_is_known(tmp_path, crs):
    table = table_of(tmp_path, (crs, (3, 4)))
    with pytest.raises(PredicateError, match=r"xmin 5\.0 above xmax 0\.0"):
        table.explain((5, 0, 0, 5))


def test_a_box_may_cross_180_degrees_where_the_crs_is_not_declared(tmp_path):
    # Havasu columns of WKB without a CRS: the map shows their numbers as degrees, and explain answers as the map does.
    table = table_of(tmp_path, ("SRID:0", (175, 4)), ("SRID:0", (-175, 4)), ("SRID:0", (3, 4)))
    assert kept(table, (170, 0, -170, 5)) == [True, True, False]
    with pytest.raises(PredicateError, match=r"xmin 5000\.0 > xmax 0\.0"):
        table.explain((5000, 0, 0, 5))


def test_a_filter_as_json_with_two_crss_is_refused(tmp_path):
    table = table_of(tmp_path, ("EPSG:3857", (3, 4)))
    value = shapely.to_wkb(shapely.set_srid(shapely.Point(3, 4), 3857), include_srid=True).hex()
    query = {"type": "st-intersects", "term": "geom", "value": value}
    assert kept(table, {**query, "crs": "EPSG:3857"}) == [True]
    with pytest.raises(PredicateError, match="has EPSG:3857, and its crs is 'EPSG:4326'"):
        table.explain({**query, "crs": "EPSG:4326"})
