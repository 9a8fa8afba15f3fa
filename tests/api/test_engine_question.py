from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from geolake_nb.api.engine_question import Question, SqlPart, condition_of, necessary_sql
from geolake_nb.errors import GeolakeError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.collation import Collation
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, GeometryType, PrimitiveType, StringType, StructType

SCHEMA = Schema(
    StructType((
        Field("id", PrimitiveType("int64")),
        Field("x", PrimitiveType("float64")),
        Field('odd "name"', StringType()),
        Field("de", StringType(Collation("icu", "de"))),
        Field("geom", GeometryType()),
    ))
)  # fmt: skip
INSIDE = "ST_Within(geom, 'POLYGON ((0 0, 1 0, 1 1, 0 0))')"


def bound(text):
    return bind(parse_predicate(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("id = 1", '"id" = 1'),
        ("id != 1 AND id IN (2, 3)", '("id" <> 1) AND ("id" IN (2, 3))'),
        ("`odd \"name\"` = 'it''s'", '"odd ""name""" = \'it\'\'s\''),
        (f"id = 1 AND {INSIDE}", '("id" = 1) AND (BOX)'),
        (f"id = 1 OR {INSIDE}", '("id" = 1) OR (BOX)'),
        ("NOT (id = 1)", 'NOT ("id" = 1)'),
        ("geom IS NULL", '"geom" IS NULL'),
        # Rows near a box need not match, so that NOT says nothing about them.
        (f"NOT {INSIDE}", None),
        (f"NOT {INSIDE} AND id < 3", '("id" < 3)'),
        (f"NOT (id = 1 AND {INSIDE})", None),
        # NaN and collations compare differently from engine to engine.
        ("x > 1.5", None),
        ("x < 1.5", '"x" < 1.5'),
        ("de = 'a'", None),
        ("de = 'a' AND id = 1", '("id" = 1)'),
        ("de = 'a' OR id = 1", None),
        ("NOT (de = 'a' AND id = 1)", None),
    ],
)
def test_an_engine_is_asked_for_what_every_row_of_the_answer_satisfies(text, sql):
    assert necessary_sql(bound(text), lambda leaf: SqlPart("BOX", exact=False)) == sql


def test_an_exact_condition_may_be_negated():
    assert necessary_sql(bound(f"NOT {INSIDE}"), lambda leaf: SqlPart("IN")) == "NOT (IN)"
    assert necessary_sql(None, lambda leaf: SqlPart("IN")) is None


def test_the_conditions_are_parsed_by_duckdb():
    rows = pa.table({"id": [1, 2, 3], 'odd "name"': ["a", "it's", None], "x": [1.0, 2.0, None]})
    sql = necessary_sql(bound("`odd \"name\"` IN ('it''s', 'b') AND NOT (id = 1) AND x < 2.5"), lambda leaf: None)
    assert duckdb.from_arrow(rows).filter(sql).project("id").fetchall() == [(2,)]


def test_conditions_on_column_objects():
    question = Question(None, None, bound("id >= 2 AND `odd \"name\"` IN ('c') AND x > 1 AND de = 'a'"), None)
    rows = pa.table({"id": [1, 2, 3], 'odd "name"': ["c", "a", "c"]})
    assert [leaf.column for leaf in question.plain] == [("id",), ('odd "name"',)]
    for leaf in question.plain:
        rows = rows.filter(condition_of(leaf, pc.field(leaf.column[0])))
    assert rows["id"].to_pylist() == [3]


def test_an_answer_without_a_column_of_the_filter_is_an_error():
    schema = pa.schema({"id": pa.int64(), "geom": pa.binary()})
    question = Question(None, None, bound("id = 1"), schema)
    rows = question.typed(pa.table({"id": pa.array([1, 2], pa.int32()), "more": [1, 2]}))
    assert rows.schema == pa.schema({"id": pa.int64()})
    assert question.matching(rows) == 1
    with pytest.raises(GeolakeError, match="its rows lack the column id of the filter"):
        question.typed(pa.table({"geom": [b""]}))
    with pytest.raises(GeolakeError, match="it returns the column id as string, expected int64"):
        question.typed(pa.table({"id": ["one"]}))
