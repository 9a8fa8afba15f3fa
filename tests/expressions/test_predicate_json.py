from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal

import pytest
import shapely

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.predicate import (
    And,
    Comparison,
    ComparisonOp,
    In,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Spatial,
    SpatialOp,
    st_disjoint,
    st_intersects,
)
from geolake_nb.expressions.predicate_json import predicate_from_json, predicate_to_json
from geolake_nb.model.collation import Collation

POINT_HEX = "0101000000000000000000F03F0000000000000040"

# As org.apache.iceberg.expressions.ExpressionParser writes them, and the model of PyIceberg.
ICEBERG = [
    ('{"type":"eq","term":"a","value":1}', Comparison.of("a", "=", 1)),
    ('{"type":"not-eq","term":"a.b","value":"x"}', Comparison.of("a.b", "!=", "x")),
    ('{"type":"lt","term":"a","value":1.5}', Comparison.of("a", "<", 1.5)),
    ('{"type":"lt-eq","term":"a","value":true}', Comparison.of("a", "<=", True)),
    ('{"type":"gt","term":"a","value":1}', Comparison.of("a", ">", 1)),
    ('{"type":"gt-eq","term":"a","value":1}', Comparison.of("a", ">=", 1)),
    ('{"type":"in","term":"a","values":[1,2]}', In("a", (1, 2))),
    ('{"type":"is-null","term":"a"}', IsNull("a")),
    ('{"type":"not-null","term":"a"}', IsNotNull("a")),
    (
        '{"type":"and","left":{"type":"is-null","term":"a"},"right":{"type":"is-null","term":"b"}}',
        And((IsNull("a"), IsNull("b"))),
    ),
    (
        '{"type":"or","left":{"type":"is-null","term":"a"},"right":{"type":"is-null","term":"b"}}',
        Or((IsNull("a"), IsNull("b"))),
    ),
    ('{"type":"not","child":{"type":"in","term":"a","values":[1]}}', Not(In("a", (1,)))),
    (f'{{"type":"st-intersects","term":"geom","value":"{POINT_HEX}"}}', st_intersects("geom", "POINT (1 2)")),
]


@pytest.mark.parametrize(("text", "predicate"), ICEBERG)
def test_the_form_is_that_of_iceberg(text, predicate):
    assert predicate_from_json(text) == predicate
    assert predicate_from_json(text.encode()) == predicate
    assert predicate_from_json(json.loads(text)) == predicate
    assert predicate_to_json(predicate) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ('{"type":"not-in","term":"a","values":[1]}', Not(In("a", (1,)))),
        ('{"type":"EQ","term":"a","value":1}', Comparison.of("a", "=", 1)),
        ('{"type":"eq","term":{"type":"reference","term":"a"},"value":1}', Comparison.of("a", "=", 1)),
        ('{"type":"eq","term":"a","value":{"type":"literal","value":1}}', Comparison.of("a", "=", 1)),
        (
            f'{{"type":"st-disjoint","term":"geom","value":"{POINT_HEX.lower()}"}}',
            st_disjoint("geom", "POINT (1 2)"),
        ),
    ],
)
def test_other_spellings_are_read(text, predicate):
    assert predicate_from_json(text) == predicate


@pytest.mark.parametrize("byte_order", [0, 1])
def test_a_geometry_is_read_in_every_spelling(byte_order):
    shape = shapely.from_wkt("LINESTRING (1 2, 3 4)")
    wkb = shapely.to_wkb(shape, byte_order=byte_order)
    spellings = [wkb, wkb.hex(), wkb.hex().upper(), base64.b64encode(wkb).decode(), shape.wkt]
    read = [predicate_from_json({"type": "st-within", "term": "g", "value": value}) for value in spellings]
    assert set(read) == {Spatial.of(SpatialOp.WITHIN, "g", shape)}


SPECIMENS = [
    *(Spatial.of(op, "a.b", "POINT Z (1 2 3)", crs="EPSG:3857") for op in SpatialOp),
    st_intersects(("odd.name", "b`c"), "POLYGON EMPTY"),
    Comparison.of("a", "=", dt.date(2024, 1, 31)),
    Comparison.of("a", "=", dt.datetime(2024, 1, 31, 1, 2, 3, 4, tzinfo=dt.UTC)),
    Comparison.of("a", "=", dt.datetime(2024, 1, 31)),
    Comparison.of("a", "=", dt.time(1, 2, 3)),
    Comparison.of("a", "=", Decimal("1.50")),
    Comparison.of("a", "=", b"\x00\xff"),
    In("a", ("x", "y"), Collation("icu", "de", "75.1")),
    Comparison(ComparisonOp.LT, ("a",), "x", Collation("icu", "de")),
    And(tuple(IsNull(f"c{number}") for number in range(5_000))),
    Not(Or((IsNull("a"), And((IsNotNull("b"), IsNull("c")))))),
]


@pytest.mark.parametrize("predicate", SPECIMENS, ids=lambda predicate: str(predicate)[:40])
def test_what_is_written_reads_back(predicate):
    again = predicate_from_json(json.dumps(predicate_to_json(predicate)))
    assert again == predicate
    assert str(again) == str(predicate)


def test_a_chain_nested_by_another_writer_is_one():
    node = {"type": "is-null", "term": "a"}
    for _ in range(150):
        node = {"type": "and", "left": node, "right": {"type": "is-null", "term": "b"}}
    assert len(predicate_from_json(node).operands) == 151


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "not JSON"),
        ("[]", "expected a filter"),
        ("true", "expected a filter"),
        ("{}", "unknown filter type None"),
        ('{"type": ["eq"]}', "unknown filter type"),
        ('{"type": "starts-with", "term": "a", "value": "x"}', "use one of: and, eq"),
        ('{"type": "eq", "term": "a"}', "has no 'value'"),
        ('{"type": "eq", "value": 1}', "has no 'term'"),
        ('{"type": "eq", "term": {"type": "transform", "term": "a"}, "value": 1}', "name of a column"),
        ('{"type": "eq", "term": "", "value": 1}', "expected the path of a column"),
        ('{"type": "eq", "term": "a", "value": null}', "IS NULL"),
        ('{"type": "eq", "term": "a", "value": [1]}', "single one"),
        ('{"type": "eq", "term": "a", "value": {"x": 1}}', "expected a literal"),
        ('{"type": "eq", "term": "a", "value": NaN}', "not JSON"),
        ({"type": "eq", "term": "a", "value": "\ud800"}, "lone surrogate"),
        (
            '{"type": "eq", "term": "a", "value": {"type": "literal", "value": "x", "data-type": "date"}}',
            "expected a date",
        ),
        ('{"type": "in", "term": "a", "values": 1}', "expected a list"),
        ('{"type": "in", "term": "a", "values": []}', "no values"),
        ('{"type": "eq", "term": "a", "value": "x", "collation": "de"}', "expected a collation identifier"),
        ('{"type": "eq", "term": "a", "value": "x", "collation": 5}', "expected a string"),
        ('{"type": "st-within", "term": "a", "value": 5}', "expected a geometry"),
        ('{"type": "st-within", "term": "a", "value": "0101"}', "not valid WKB"),
        ('{"type": "st-within", "term": "a", "value": "!!"}', "expected a geometry"),
        ('{"type": "st-within", "term": "a", "value": "POINT (1"}', "not valid WKT"),
        ('{"type":"not","child":' * 150 + "1" + "}" * 150, "expected a filter|deeper|deeply"),
        ('{"type":"not","child":' * 100_000, "deeply"),
        ('{"type":"and","left":1,"right":' * 100_000, "deeply"),
    ],
)  # fmt: skip
def test_bad_json_is_a_typed_error(value, message):
    with pytest.raises(PredicateError, match=message):
        predicate_from_json(value)


def test_a_bound_filter_has_no_json_form():
    with pytest.raises(PredicateError, match="unbound"):
        predicate_to_json(object())


@pytest.mark.parametrize("name", ["And", "and", "AND", "aNd"])
def test_the_type_of_a_chain_is_read_in_any_case(name):
    leaves = [{"type": "is-null", "term": term} for term in "abc"]
    value = {"type": name, "left": leaves[0], "right": {"type": "and", "left": leaves[1], "right": leaves[2]}}
    assert predicate_from_json(value) == And((IsNull("a"), IsNull("b"), IsNull("c")))


@pytest.mark.parametrize(
    "value",
    [
        {"type": "st-within", "term": "g", "value": "é"},
        {"type": "st-within", "term": "g", "value": "010700000001000000" * 500_000},
        {"type": "st-within", "term": "g", "value": "POINT(1 2)", "crs": ""},
        {"type": "st-within", "term": "g", "value": "POINT(1 2)", "crs": "bla"},
        {"type": "eq", "term": "x", "value": {"type": "literal", "value": "sNaN", "data-type": "decimal"}},
        {"type": "eq", "term": "x", "value": 10**5000},
        {"type": "eq", "term": 10**5000, "value": 1},
    ],
    ids=["letter", "deep", "no crs", "bad crs", "sNaN", "digits", "term"],
)
def test_hostile_values_are_typed_errors(value):
    with pytest.raises(PredicateError):
        predicate_from_json(value)


def test_too_many_digits_have_our_own_message():
    with pytest.raises(PredicateError, match=r"an integer has 5001 digits$"):
        predicate_from_json('{"type": "gt", "term": "x", "value": 1' + "0" * 5000 + "}")


def test_an_empty_geometry_is_text_in_any_case():
    result = predicate_from_json({"type": "st-within", "term": "g", "value": "point empty"})
    assert result == predicate_from_json({"type": "st-within", "term": "g", "value": "POINT EMPTY"})
