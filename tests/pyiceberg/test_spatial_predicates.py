"""Spatial predicates are expressions of PyIceberg: built, bound, serialized, visited, and compared with bounds."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import shapely
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    IsNull,
    Not,
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions import visitors as pv
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import GeographyType, GeometryType, LongType, NestedField

import geolake_nb as gl
import geolake_nb.pyiceberg as geo
from geolake_nb.pyiceberg import predicates
from geolake_nb.pyiceberg.manifests import mark_edges
from tests.pyiceberg.geo_rows import SCHEMA, wkb

NAMES = [
    "STContains", "STCoveredBy", "STCovers", "STCrosses", "STEquals", "STIntersects", "STOverlaps", "STTouches",
    "STWithin",
]  # fmt: skip
QUERY = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"


def all_predicates(term="geom", shape=QUERY):
    return [getattr(geo, name)(term, shape) for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_st_expressions_are_constructed_from_any_geometry(name):
    make = getattr(geo, name)
    expected = make("geom", wkb(QUERY))
    assert (
        make("geom", QUERY) == make("geom", shapely.from_wkt(QUERY)) == make(Reference("geom"), wkb(QUERY)) == expected
    )
    assert make("geom", shapely.to_wkb(shapely.from_wkt(QUERY), byte_order=0)) == expected
    assert expected.geometry == wkb(QUERY)
    assert expected != make("other", QUERY)
    assert expected != make("geom", "POINT (1 2)")
    assert make("geom", QUERY, crs="EPSG:3857") != expected
    assert hash(make("geom", QUERY)) == hash(expected)
    assert name in repr(expected)


def test_a_wrapped_box_is_taken():
    assert geo.STIntersects("geog", gl.Box(170, 0, -170, 1)).geometry[:5].hex() == "0106000000"


@pytest.mark.parametrize("shape", ["POINT (1", b"no WKB", None, 7])
def test_what_is_no_geometry_is_refused(shape):
    with pytest.raises(ValueError, match=r"valid|geometry"):
        geo.STIntersects("geom", shape)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", ["geom", "geog"])
def test_st_predicates_bind_to_geometries_and_geographies(bridge, name, column):
    predicate = getattr(geo, name)(column, QUERY)
    bound = predicate.bind(SCHEMA)
    assert isinstance(bound, getattr(predicates, f"Bound{name}"))
    assert bound.term.ref().field.name == column
    assert bound.as_unbound is type(predicate)
    assert predicate.as_bound is type(bound)
    assert pv.bind(SCHEMA, predicate, case_sensitive=True) == bound
    assert pv.bind(SCHEMA, getattr(geo, name)(column.upper(), QUERY), case_sensitive=False) == bound


@pytest.mark.parametrize("name", NAMES)
def test_st_predicates_bind_to_nothing_else(name):
    with pytest.raises(ValueError, match=r"column id: ST_\w+ needs a geometry or geography column, .* long"):
        getattr(geo, name)("id", QUERY).bind(SCHEMA)


@pytest.mark.parametrize("name", NAMES)
def test_st_predicates_are_part_of_the_json_model(bridge, name):
    predicate = getattr(geo, name)("geom", "POINT (1 2)")
    value = json.loads(predicate.model_dump_json())
    words = {"CoveredBy": "covered-by"}.get(name[2:], name[2:].lower())
    assert value == {
        "type": f"st-{words}", "term": "geom", "value": "0101000000000000000000F03F0000000000000040"
    }  # fmt: skip
    assert BooleanExpression.model_validate_json(json.dumps(value)) == predicate
    # This package's own filters have the same form.
    assert gl.st_intersects("geom", "POINT (1 2)").to_dict()["value"] == value["value"]


def test_expression_trees_with_st_predicates_are_serialized_and_parsed(bridge):
    first, second, third = all_predicates()[:3]
    tree = Or(And(first, EqualTo("id", 1)), Not(second), And(NotNull("name"), ~third))
    parsed = BooleanExpression.model_validate_json(tree.model_dump_json())
    assert parsed == tree
    assert And.model_validate(json.loads(And(first, second).model_dump_json())) == And(first, second)


def test_a_crs_is_kept_in_json(bridge):
    predicate = geo.STWithin("geom", "POINT (1 2)", crs="EPSG:3857")
    assert json.loads(predicate.model_dump_json())["crs"] == "EPSG:3857"
    assert BooleanExpression.model_validate_json(predicate.model_dump_json()) == predicate


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_st_predicates_compose_with_and_or_not(bridge, predicate):
    other = EqualTo("id", 1)
    assert ~~predicate == predicate
    assert Not(predicate) == ~predicate
    assert Not(Not(predicate)) == predicate
    assert And(predicate, AlwaysTrue()) == predicate
    assert Or(predicate, AlwaysTrue()) == AlwaysTrue()
    assert ~And(predicate, other) == Or(~predicate, ~other)
    assert pv.rewrite_not(Not(And(predicate, other))) == Or(~predicate, ~other)
    assert pv.rewrite_to_dnf(And(Or(predicate, other), ~predicate)) == (
        And(predicate, ~predicate),
        And(other, ~predicate),
    )
    bound = pv.bind(SCHEMA, And(predicate, ~predicate), case_sensitive=True)
    assert ~~bound.left == bound.left
    assert bound.right == ~bound.left
    assert pickle.loads(pickle.dumps(predicate)) == copy.deepcopy(predicate) == predicate


def every_visit(predicate):
    """The answers of the visitors that know no rows."""
    bound = pv.bind(SCHEMA, pv.rewrite_not(predicate), case_sensitive=True)
    residual = pv.residual_evaluator_of(UNPARTITIONED_PARTITION_SPEC, predicate, True, SCHEMA)
    return {
        "field ids": pv.extract_field_ids(bound),
        "names": pv.translate_column_names(bound, SCHEMA),
        "inclusive": pv.inclusive_projection(SCHEMA, UNPARTITIONED_PARTITION_SPEC)(predicate),
        "strict": pv.strict_projection(SCHEMA, UNPARTITIONED_PARTITION_SPEC)(predicate),
        "plain": pv.expression_to_plain_format((bound,)),
        "residual": residual.residual_for(Record()),
    }


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_every_visitor_knows_st_predicates(bridge, predicate):
    for given in (predicate, ~predicate):
        assert every_visit(given) == {
            "field ids": {3}, "names": given, "inclusive": AlwaysTrue(), "strict": AlwaysFalse(), "plain": [[]],
            "residual": given,
        }  # fmt: skip


def test_a_column_that_a_file_lacks_matches_nothing(bridge):
    bound = geo.STIntersects("geom", QUERY).bind(SCHEMA)
    older = Schema(NestedField(1, "id", LongType()))
    assert pv.translate_column_names(bound, older) == AlwaysFalse()
    assert pv.translate_column_names(~bound, older) == AlwaysFalse()


def test_residuals_of_a_partitioned_table_keep_st_predicates(bridge):
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    predicate = geo.STIntersects("geom", QUERY)
    residual = pv.residual_evaluator_of(spec, And(predicate, EqualTo("id", 1)), True, SCHEMA)
    assert residual.residual_for(Record(1)) == predicate
    assert residual.residual_for(Record(2)) == AlwaysFalse()


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_the_row_evaluator_says_that_st_predicates_are_not_implemented(bridge, predicate):
    row = Record(1, "a", wkb("POINT (1 1)"), None)
    for given in (predicate, Not(predicate), ~predicate, And(NotNull("id"), predicate)):
        with pytest.raises(NotImplementedError, match=r"ST_\w+ is not evaluated on rows by \w+; read the rows with"):
            pv.expression_evaluator(SCHEMA, given, case_sensitive=True)(row)
    with pytest.raises(NotImplementedError, match="not evaluated on rows"):
        expression_to_pyarrow(predicate.bind(SCHEMA))


def test_a_visitor_of_somebody_else_says_so_too(bridge):
    class Mine(pv.BoundBooleanExpressionVisitor):
        def visit_st_within(self, predicate):
            return "within"

    Mine.__abstractmethods__ = frozenset()
    assert pv.visit(geo.STWithin("geom", QUERY).bind(SCHEMA), Mine()) == "within"
    with pytest.raises(NotImplementedError, match="by Mine"):
        pv.visit(geo.STCovers("geom", QUERY).bind(SCHEMA), Mine())


def test_without_the_bridge_st_predicates_are_unknown():
    geo.disable()
    with pytest.raises(TypeError, match="Unknown predicate"):
        pv.expression_evaluator(SCHEMA, geo.STWithin("geom", QUERY), case_sensitive=True)(Record(1, "a", None, None))


def data_file(lower=None, upper=None, *, id_=3, nulls=0, edges=()):
    def bound(point):
        return {} if point is None else {id_: geo.serialize_geospatial_bound(geo.GeospatialBound(*point))}

    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path="a.parquet", file_format=FileFormat.PARQUET, partition=Record(),
        record_count=5, file_size_in_bytes=1, value_counts={3: 5, 4: 5}, null_value_counts={3: nulls, 4: nulls},
        lower_bounds=bound(lower), upper_bounds=bound(upper),
    )  # fmt: skip
    mark_edges(file, edges)
    return file


def might_match(predicate, file):
    return pv._InclusiveMetricsEvaluator(SCHEMA, predicate).eval(file)


def must_match(predicate, file):
    return pv._StrictMetricsEvaluator(SCHEMA, predicate).eval(file)


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_metrics_prune_files_whose_bounds_are_apart(bridge, predicate):
    assert not might_match(predicate, data_file((10, 10), (11, 11)))
    assert might_match(predicate, data_file((-1, -1), (9, 9)))
    # What lies outside is the answer to a negation.
    assert might_match(~predicate, data_file((10, 10), (11, 11)))
    assert not might_match(And(predicate, IsNull("id")), data_file((10, 10), (11, 11)))
    assert might_match(Or(predicate, EqualTo("id", 1)), data_file((10, 10), (11, 11)))


@pytest.mark.parametrize("name", ["STContains", "STCovers", "STEquals"])
def test_a_box_that_does_not_hold_the_query_holds_no_row_that_does(bridge, name):
    assert not might_match(getattr(geo, name)("geom", QUERY), data_file((1, 1), (9, 9)))
    assert might_match(geo.STIntersects("geom", QUERY), data_file((1, 1), (9, 9)))


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_metrics_without_usable_bounds_might_match(bridge, predicate):
    assert might_match(predicate, data_file())
    assert might_match(predicate, data_file((10, 10), None))
    broken = data_file((10, 10), (11, 11))
    broken.lower_bounds[3] = b"short"
    assert might_match(predicate, broken)


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_a_file_of_nulls_cannot_match(bridge, predicate):
    assert not might_match(predicate, data_file(nulls=5))
    assert not might_match(~predicate, data_file(nulls=5))


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_no_file_is_known_to_match_as_a_whole(bridge, predicate):
    for given in (predicate, ~predicate):
        assert not must_match(given, data_file((1, 1), (2, 2)))
        assert not must_match(given, data_file(nulls=5))


@pytest.mark.parametrize("predicate", all_predicates("geog"), ids=NAMES)
def test_bounds_of_geographies_prune_only_where_they_are_known_to_cover_edges(bridge, predicate):
    apart = {"lower": (10, 10), "upper": (11, 11), "id_": 4}
    assert might_match(predicate, data_file(**apart))
    assert not might_match(predicate, data_file(**apart, edges=(4,)))
    assert might_match(predicate, data_file(**apart, edges=(3,)))


def test_wrapped_bounds_of_a_geography_prune(bridge):
    file = data_file((170, -1), (-170, 1), id_=4, edges=(4,))
    assert might_match(geo.STIntersects("geog", "POINT (180 0)"), file)
    assert might_match(geo.STIntersects("geog", "POINT (-175 0)"), file)
    assert not might_match(geo.STIntersects("geog", "POINT (0 0)"), file)


def test_a_query_in_another_crs_is_transformed_for_pruning(bridge):
    near = geo.STIntersects("geom", "POINT (111319.49 111325.14)", crs="EPSG:3857")  # 1 degree east and north
    assert might_match(near, data_file((0, 0), (2, 2)))
    assert not might_match(near, data_file((2, 2), (3, 3)))


@pytest.mark.parametrize("type_", [GeographyType("EPSG:4326", "planar"), GeometryType("a local grid")])
def test_types_that_cannot_be_compared_might_match(bridge, type_):
    schema = Schema(NestedField(3, "geom", type_))
    predicate = geo.STIntersects("geom", QUERY, crs="EPSG:4326")
    assert pv._InclusiveMetricsEvaluator(schema, predicate).eval(data_file((10, 10), (11, 11), edges=(3,)))


@pytest.mark.parametrize("predicate", all_predicates(), ids=NAMES)
def test_manifests_might_match(bridge, predicate):
    manifest = ManifestFile.from_args(
        manifest_path="m.avro", manifest_length=1, partition_spec_id=0, content=ManifestContent.DATA,
        sequence_number=1, min_sequence_number=1, added_snapshot_id=1, added_files_count=1, existing_files_count=0,
        deleted_files_count=0, added_rows_count=1, existing_rows_count=0, deleted_rows_count=0, partitions=[],
    )  # fmt: skip
    for given in (predicate, ~predicate):
        filter_ = pv.inclusive_projection(SCHEMA, UNPARTITIONED_PARTITION_SPEC)(given)
        assert pv.manifest_evaluator(UNPARTITIONED_PARTITION_SPEC, SCHEMA, filter_)(manifest)
        assert pv._ManifestEvalVisitor(SCHEMA, given, case_sensitive=True).eval(manifest)
