"""Appends either satisfy the rules of a table, or are refused with an unchanged log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, RefusedError, SchemaError
from geolake_nb.formats.delta.collate import plan_collations
from geolake_nb.formats.delta.constraints import require_rules
from geolake_nb.formats.delta.details import DeltaMetadata
from geolake_nb.formats.delta.protocol import Doing, read_protocol, require_writable
from geolake_nb.model.types import Field, ListType, PrimitiveType, StructType
from tests.formats.delta.log_maker import LogMaker, field, metadata, schema_string

if TYPE_CHECKING:
    from pathlib import Path

DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
STRINGS = {"type": "array", "elementType": "string", "containsNull": True}
PLAIN = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}


def made(folder: Path, *fields: dict[str, Any], partitions: tuple[str, ...] = (), **configuration: str) -> Path:
    """An empty Delta table with that schema, as its log says it."""
    table = LogMaker(folder)
    table.commit(0, PLAIN, metadata(*fields, partitions=partitions, **configuration))
    return folder


def require_append(*fields: dict[str, Any], **configuration: str) -> None:
    table_metadata = DeltaMetadata.of({"schemaString": schema_string(*fields), "configuration": configuration})
    protocol = read_protocol({"minReaderVersion": 1, "minWriterVersion": 4})
    require_writable(protocol, table_metadata, doing=Doing.APPEND)


@pytest.mark.parametrize(
    ("type_", "declared"),
    [
        ("string", "char(3)"),
        (STRINGS, "array<varchar(2)>"),
        ({"type": "struct", "fields": [field("c", "string")]}, "struct<c:char(3)>"),
    ],
    ids=["char", "varchar in an array", "char in a struct"],
)
def test_lengths_that_are_not_enforced_are_refused(type_, declared):
    with pytest.raises(RefusedError, match=r"the column 'c' is of type .* not enforced here"):
        require_append(field("c", type_, **{DECLARED: declared}))
    with pytest.raises(RefusedError, match="not enforced here"):
        require_append(field("s", {"type": "struct", "fields": [field("c", type_, **{DECLARED: declared})]}))


@pytest.mark.parametrize("prefix", ["delta.constraints.", "DELTA.CONSTRAINTS.", "Delta.Constraints."])
def test_constraints_count_in_any_case(prefix):
    with pytest.raises(RefusedError, match="checkConstraints"):
        require_append(field("id", "long"), **{f"{prefix}pos": "id > 0"})


def test_a_new_table_gets_no_constraint_in_any_case(tmp_path):
    rows = pa.table({"id": [-1]})
    with pytest.raises(RefusedError, match=r"DELTA\.CONSTRAINTS\.pos"):
        gl.write(rows, tmp_path / "t", properties={"DELTA.CONSTRAINTS.pos": "id > 0"})
    assert not (tmp_path / "t" / "_delta_log").exists()


@pytest.mark.parametrize(
    ("fields", "configuration", "match"),
    [
        ([field("a", "string")], {"DELTA.CONSTRAINTS.known": "a IN ('x', 'y')"}, "the constraint 'known' uses it"),
        (
            [field("a", "string"), field("b", "string", **{"delta.generationExpression": "upper(A)"})],
            {},
            "the generated column 'b' uses it",
        ),
        (
            [field("a", "string", **{"delta.invariants": '{"expression":{"expression":"a > \'b\'"}}'})],
            {},
            "the invariant of the column 'a' uses it",
        ),
    ],
    ids=["constraint", "generated column", "invariant"],
)
def test_a_collation_of_what_an_expression_uses_is_refused(tmp_path, fields, configuration, match):
    table = LogMaker(made(tmp_path / "t", *fields, **configuration))
    with pytest.raises(RefusedError, match=match):
        plan_collations(table.storage, table.open(), {"a": "icu.de_CI"})


def test_a_collation_of_another_column_is_not_refused(tmp_path):
    table = LogMaker(
        made(tmp_path / "t", field("a", "string"), field("b", "string"), **{"delta.constraints.x": "b > ''"})
    )
    assert plan_collations(table.storage, table.open(), {"a": "icu.de_CI"}).actions


def refuses(spark, path, rows, match):
    log = {file.name: file.read_bytes() for file in (path / "_delta_log").glob("*.json")}
    with pytest.raises(GeolakeError, match=match) as caught:
        gl.write(rows, path, mode="append", spark=spark)
    assert {file.name: file.read_bytes() for file in (path / "_delta_log").glob("*.json")} == log
    return caught.value


@pytest.mark.spark
def test_the_length_of_a_varchar_is_enforced(spark, tmp_path):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, name VARCHAR(5)) USING delta PARTITIONED BY (name)")
    refuses(spark, path, spark.createDataFrame([(1, "abcdef")], "id int, name string"), r"6 characters .* varchar\(5\)")
    gl.write(spark.createDataFrame([(1, "ab😀de"), (2, None)], "id int, name string"), path, mode="append")
    rows = spark.read.format("delta").load(str(path)).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, "ab😀de"), (2, None)]
    plain = tmp_path / "plain"
    spark.sql(f"CREATE TABLE delta.`{plain}` (id INT, name VARCHAR(5)) USING delta")
    refuses(spark, plain, pa.table({"id": pa.array([1], pa.int32()), "name": ["abcdef"]}), "6 characters")


@pytest.mark.spark
def test_nulls_inside_lists_maps_and_structs_are_refused_where_the_schema_says_so(spark, tmp_path):
    struct = {"type": "struct", "fields": [field("a", "integer") | {"nullable": False}]}
    fields = [
        field("id", "integer"),
        field("tags", {"type": "array", "elementType": "integer", "containsNull": False}),
        field("m", {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": False}),
        field("list", {"type": "array", "elementType": struct, "containsNull": True}),
        field("s", struct),
        field("p", "string") | {"nullable": False},
    ]
    path = made(tmp_path / "t", *fields, partitions=("p",))
    good = {"id": 1, "tags": [1, 2], "m": {"k": 1}, "list": [{"a": 1}, None], "s": {"a": 1}, "p": "x"}
    types = pa.schema(
        [
            ("id", pa.int32()),
            ("tags", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("list", pa.list_(pa.struct([("a", pa.int32())]))),
            ("s", pa.struct([("a", pa.int32())])),
            ("p", pa.string()),
        ]
    )
    spark_types = "id int, tags array<int>, m map<string, int>, list array<struct<a: int>>, s struct<a: int>, p string"

    def table(**changed):
        row = good | changed
        return pa.Table.from_pylist([good, row | {"m": None if row["m"] is None else list(row["m"].items())}], types)

    def frame(**changed):
        return spark.createDataFrame([tuple(good.values()), tuple((good | changed).values())], spark_types)

    for changed, column in (
        ({"tags": [1, None]}, "tags.element"),
        ({"m": {"k": None}}, "m.value"),
        ({"list": [{"a": None}]}, "list.element.a"),
        ({"s": {"a": None}}, "s.a"),
        ({"s": None}, "s.a"),
        ({"p": None}, "p"),
    ):
        refuses(spark, path, frame(**changed), rf"{column}: the column is not nullable")
    refuses(spark, path, table(tags=[None]), r"tags\.element: the column is not nullable")
    gl.write(table(tags=None, m=None, list=None), path, mode="append", spark=spark)
    gl.write(frame(tags=[]), path, mode="append")
    rows = spark.read.format("delta").load(str(path)).collect()
    assert len(rows) == 4
    assert sorted(len(row.tags) if row.tags is not None else -1 for row in rows) == [-1, 0, 2, 2]


def test_a_null_struct_satisfies_its_fields_in_iceberg_and_not_in_delta():
    """Spark with Delta says: NOT NULL constraint violated for column: s.a."""
    required = Field("a", PrimitiveType("int32"), nullable=False)
    column = Field("s", StructType((required,)))
    rows = pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())]))
    require_rules(rows, column)
    with pytest.raises(SchemaError, match=r"s\.a: the column is not nullable and has 1 nulls"):
        require_rules(rows, column, null_structs=False)
    listed = Field("l", ListType(Field("element", StructType((required,)), nullable=False)))
    with pytest.raises(SchemaError, match=r"l\.element: the column is not nullable and has 1 nulls"):
        require_rules(pa.array([[{"a": 1}, None], None]), listed)
