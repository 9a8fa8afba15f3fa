"""Line 12: a box means the same in `explain`, in the shell and on the map, and its CRS is shown."""

from __future__ import annotations

import html
import json

import geopandas as gpd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import PredicateError
from geolake_nb.jupyter.magic_commands import answer, parser_of
from geolake_nb.parquet.schema import to_arrow_type

UTM = "EPSG:32633"
TO_UTM = pyproj.Transformer.from_crs("OGC:CRS84", UTM, always_xy=True)
PRAGUE = (14.2, 49.9, 14.7, 50.2)
VIENNA = (16.2, 48.1, 16.6, 48.3)


def utm_box(degrees):
    """The box of the corners in metres, from pyproj."""
    return TO_UTM.transform_bounds(*degrees)


@pytest.fixture
def table(tmp_path):
    """Two files in UTM: one point in Prague, one in Vienna."""
    for name, (lon, lat) in (("prague", (14.42, 50.09)), ("vienna", (16.37, 48.21))):
        point = shapely.to_wkb(shapely.Point(*TO_UTM.transform(lon, lat)))
        values = to_arrow_type(gl.geometry(UTM)).wrap_array(pa.array([point], pa.binary()))
        pq.write_table(pa.table({"geom": values}), tmp_path / f"{name}.parquet")
    return gl.open(tmp_path)


def kept(explanation):
    return explanation.kept["path"].to_pylist()


def test_a_bare_box_is_in_the_crs_of_the_column(table):
    assert kept(table.explain(utm_box(PRAGUE))) == ["prague.parquet"]
    assert kept(table.explain(gl.Box(*utm_box(VIENNA)))) == ["vienna.parquet"]


def test_a_box_with_its_crs_reads_what_the_map_reads(table):
    explained = table.explain(PRAGUE, box_crs="EPSG:4326")
    shown = table.map()
    shown.window = list(PRAGUE)
    assert kept(explained) == ["prague.parquet"] == kept(shown.explanation)
    assert kept(table.explain(shown.window)) == ["prague.parquet"]
    assert shown.window == list(PRAGUE)
    assert json.loads(json.dumps(shown.window)) == list(PRAGUE)


@pytest.mark.parametrize("crs", ["OGC:CRS84", "urn:ogc:def:crs:EPSG::4326", pyproj.CRS(4326)])
def test_box_crs_takes_texts_and_objects_of_pyproj(table, crs):
    assert kept(table.explain(PRAGUE, box_crs=crs)) == ["prague.parquet"]


PRAGUE_UTM = shapely.box(*TO_UTM.transform_bounds(*PRAGUE))


@pytest.mark.parametrize(
    "query",
    [
        list(PRAGUE_UTM.bounds),
        PRAGUE_UTM.bounds,
        np.array(PRAGUE_UTM.bounds),
        gpd.GeoSeries([PRAGUE_UTM], crs=UTM).total_bounds,
        PRAGUE_UTM,
        PRAGUE_UTM.wkt,
        PRAGUE_UTM.wkb,
        shapely.set_srid(shapely.box(*PRAGUE), 4326),
        f"SRID=4326;{shapely.box(*PRAGUE).wkt}",
        gpd.GeoDataFrame(geometry=[PRAGUE_UTM], crs=UTM),
        gpd.GeoDataFrame(geometry=[shapely.box(*PRAGUE)], crs=4326),
        gpd.GeoSeries([shapely.box(*PRAGUE)], crs="OGC:CRS84"),
        gpd.GeoDataFrame(geometry=[PRAGUE_UTM]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_explain_and_the_map_take_every_kind_of_query(table, query):
    assert kept(table.explain(query)) == ["prague.parquet"]
    assert kept(table.map(where=query).explanation) == ["prague.parquet"]


def test_the_crs_is_shown(table):
    text = str(table.explain(utm_box(PRAGUE)))
    assert "geom is queried in EPSG:32633 (WGS 84 / UTM zone 33N)" in text
    assert table.explain(utm_box(PRAGUE)).to_dict()["query_crs"] == {"geom": UTM}
    assert table.explain(PRAGUE, box_crs="OGC:CRS84").to_dict()["query_crs"] == {"geom": "OGC:CRS84"}


@pytest.mark.parametrize(
    "where", [PRAGUE, shapely.box(*PRAGUE).wkt, f"ST_Intersects(geom, '{shapely.box(*PRAGUE).wkt}')"]
)
def test_a_query_that_looks_like_degrees_on_a_projected_table_gives_a_warning(table, where):
    (note,) = table.explain(where).notes
    assert "looks like degrees" in note
    assert "box_crs='OGC:CRS84'" in note
    assert "--box-crs OGC:CRS84" in note


def test_no_warning_is_given_where_the_crs_is_declared_or_the_numbers_are_metres(table):
    assert table.explain(PRAGUE, box_crs="OGC:CRS84").notes == ()
    assert table.explain(utm_box(PRAGUE)).notes == ()


def test_the_shell_takes_the_crs_of_a_box(table, capsys):
    box = "--box=" + ",".join(map(str, PRAGUE))
    assert main(["explain", table.location, box, "--box-crs", "OGC:CRS84", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["read"]["files"] == 1
    assert answer["query_crs"] == {"geom": "OGC:CRS84"}
    assert main(["explain", table.location, box]) == 0
    assert "looks like degrees" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("where", "options", "message"),
    [
        ((1, 2, 3), {}, "expected four numbers"),
        (("a", 2, 3, 4), {}, "expected four numbers"),
        (7, {}, "expected a Box, a geometry or an SQL condition, got an int"),
        (PRAGUE, {"box_crs": "nonsense here"}, "not a known form of a CRS"),
        ("geom IS NULL", {"box_crs": "EPSG:4326"}, "cannot be combined with a whole filter"),
        (gpd.GeoDataFrame(geometry=[], crs=UTM), {}, "not a finite number"),
        (gpd.GeoSeries([shapely.box(*PRAGUE)], crs=4326), {"box_crs": UTM}, "leave box_crs= out"),
        (shapely.set_srid(shapely.box(*PRAGUE), 4326), {"box_crs": UTM}, "leave box_crs= out"),
        ((100.0, 0.0, -100.0, 1.0), {}, "has no antimeridian"),
    ],
)
def test_what_is_not_a_query_gets_one_clear_sentence(table, where, options, message):
    with pytest.raises(PredicateError, match=message):
        table.explain(where, **options)


def test_a_box_of_degrees_may_cross_180_degrees_on_a_projected_table(table):
    assert kept(table.explain((14.0, 40.0, 13.0, 60.0), box_crs="OGC:CRS84"))


def test_a_table_in_a_crs_that_cannot_be_resolved_is_queried_in_its_own_coordinates(tmp_path):
    values = to_arrow_type(gl.geometry("my local grid")).wrap_array(pa.array([shapely.Point(3, 4).wkb], pa.binary()))
    pq.write_table(pa.table({"geom": values}), tmp_path / "a.parquet")
    unknown = gl.open(tmp_path)
    assert kept(unknown.explain((0, 0, 5, 5))) == ["a.parquet"]
    assert kept(unknown.explain((10, 10, 15, 15))) == []
    assert kept(unknown.explain((10, 10, 15, 15), box_crs="OGC:CRS84")) == ["a.parquet"]  # nobody can compare them


BOX = f"--box={','.join(map(str, PRAGUE))}"
IN_DEGREES = [BOX, "--box-crs", "EPSG:4326"]


def arguments_of(subcommand, words):
    return parser_of(subcommand).parse_args(words)


def test_a_report_takes_a_box_and_its_crs_in_the_shell(table, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", table.location, "-o", str(out), *IN_DEGREES]) == 0
    text = out.read_text()
    # The card of what is read counts one file of two, and names the CRS of the box.
    assert "What the filter reads" in text
    assert "ST_MakeEnvelope(14.2, 49.9, 14.7, 50.2, 4326)" in html.unescape(text)
    assert main(["report", table.location, "-o", str(out), "--box-crs", "EPSG:4326"]) != 0
    assert "--box-crs is given without --box" in capsys.readouterr().err


def test_the_map_and_the_report_of_the_magic_take_a_box_and_its_crs(table, tmp_path):
    shown = answer("map", table, arguments_of("map", [table.location, *IN_DEGREES]))
    assert kept(shown.explanation) == ["prague.parquet"]
    path = answer(
        "report", table, arguments_of("report", [table.location, "-o", str(tmp_path / "r.html"), *IN_DEGREES])
    )
    assert "4326)" in html.unescape(path.read_text())
    metres = f"--box={','.join(map(str, utm_box(VIENNA)))}"
    assert kept(answer("map", table, arguments_of("map", [table.location, metres])).explanation) == ["vienna.parquet"]


def test_a_report_in_python_takes_what_explain_takes(table, tmp_path):
    path = table.report(tmp_path / "r.html", where=PRAGUE, box_crs="EPSG:4326")
    assert "4326)" in html.unescape(path.read_text())
