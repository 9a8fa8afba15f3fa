"""Line 5: predicates as JSON can be used, and type codes that a footer lists twice are reported."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import PredicateError
from geolake_nb.parquet.schema import to_arrow_type
from tests.five_documents.broken_tables import repeat_types

SIBLINGS = [
    "st_contains",
    "st_covered_by",
    "st_covers",
    "st_crosses",
    "st_disjoint",
    "st_equals",
    "st_intersects",
    "st_overlaps",
    "st_touches",
    "st_within",
]


def write_points(path, *points):
    values = to_arrow_type(gl.geometry()).wrap_array(
        pa.array([shapely.Point(point).wkb for point in points], pa.binary())
    )
    pq.write_table(pa.table({"id": list(range(len(points))), "geom": values}), path)
    return path


@pytest.fixture
def table(tmp_path):
    write_points(tmp_path / "a.parquet", (1, 1), (2, 2))
    write_points(tmp_path / "b.parquet", (50, 50))
    return gl.open(tmp_path)


# The form of PyIceberg's expression model: `type`, `term`, `value`.
@pytest.mark.parametrize(
    "value",
    [shapely.Point(1, 1).wkb.hex().upper(), shapely.Point(1, 1).wkb.hex(), "POINT (1 1)"],
)
def test_explain_takes_a_dict_and_json_text(table, value):
    query = {"type": "st-intersects", "term": "geom", "value": value}
    for where in (
        query,
        json.dumps(query),
        json.dumps(query, indent=2),
        {"type": "not", "child": {"type": "not", "child": query}},
    ):
        assert table.explain(where).kept["path"].to_pylist() == ["a.parquet"]


def test_iceberg_expressions_are_taken(table):
    query = {
        "type": "and",
        "left": {"type": "st-within", "term": "geom", "value": "POLYGON ((0 0, 3 0, 3 3, 0 3, 0 0))"},
        "right": {"type": "gt", "term": "id", "value": 0},
    }
    assert table.explain(query).kept["path"].to_pylist() == ["a.parquet"]
    assert table.map(where=query).explanation.kept["path"].to_pylist() == ["a.parquet"]


@pytest.mark.parametrize("name", SIBLINGS)
def test_spatial_predicates_are_exported_and_come_back_from_their_json(table, name):
    predicate = getattr(gl, name)("geom", shapely.box(0, 0, 3, 3))
    assert name in gl.__all__
    plain = table.explain(predicate)
    for form in (predicate.to_json(), predicate.to_dict(), json.loads(predicate.to_json())):
        again = table.explain(form)
        assert again.where == predicate
        assert again.files.equals(plain.files)


def test_json_of_combined_filters_comes_back(table):
    predicate = gl.st_intersects("geom", (shapely.box(0, 0, 3, 3)), crs="EPSG:4326") & ~gl.st_within(
        "geom", "POINT (1 1)"
    )
    assert table.explain(predicate.to_json()).where == predicate


@pytest.mark.parametrize("where", ["{", "{}", '{"type": "st-nonsense", "term": "geom", "value": ""}', {"type": 7}])
def test_json_that_is_not_a_filter_gets_one_clear_sentence(table, where):
    with pytest.raises(PredicateError) as caught:
        table.explain(where)
    assert len(str(caught.value)) < 400


def test_type_codes_that_a_footer_lists_twice_are_reported(tmp_path, spark):
    (tmp_path / "set").mkdir()
    repeat_types(write_points(tmp_path / "set" / "a.parquet", (1, 1)))
    write_points(tmp_path / "set" / "b.parquet", (2, 2))
    (finding,) = gl.open(tmp_path / "set").check()
    assert finding.rule == "bounds.types_repeated"
    assert "list twice: 1" in finding.what
    assert "a.parquet" in str(finding)
    assert "b.parquet" not in str(finding)
    assert "--cluster geom" in str(finding)
    gl.open(tmp_path / "set").plan_rewrite(cluster_by="geom").apply(spark=spark)
    assert not gl.open(tmp_path / "set").check()
