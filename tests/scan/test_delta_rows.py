"""The live rows of Delta tables with every feature, against Spark and against what was written."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, remove
from tests.scan.scan_tables import inline_vector
from tests.small_tables import make_delta

PARTS = ["plain", "a/b: 1%", "ü ö", "k=v", "it's", None, "x,y"]

EPOCH = "TIMESTAMP '1970-01-01 00:00:00Z'"


def rows(table, where=None, **options):
    return table.scan(where, **options).to_arrow().to_pylist()


def ids(table, where=None):
    return sorted(table.scan(where, columns=["id"]).to_arrow()["id"].to_pylist())


def stored(folder, name, **columns):
    pq.write_table(pa.table(columns), folder / name)
    return add(name.replace(" ", "%20"), size=(folder / name).stat().st_size)


def test_rows_of_a_deletion_vector_are_gone_and_others_keep_their_places(tmp_path):
    log = LogMaker(tmp_path)
    action = stored(tmp_path, "a.parquet", id=pa.array(range(100_000), pa.int64()))
    gone = [0, 1, 65_535, 65_536, 99_999]
    action["add"]["deletionVector"] = inline_vector(gone)
    log.commit(0, protocol("deletionVectors"), metadata(), action)
    table = gl.open(str(tmp_path))
    assert ids(table) == sorted(set(range(100_000)) - set(gone))
    assert ids(table, "id IN (0, 1, 2, 65535, 65537)") == [2, 65_537]
    assert table.scan().count() == 99_995
    assert table.scan("id > 99990").count() == 8


def test_a_file_whose_rows_are_all_deleted_has_none(tmp_path):
    log = LogMaker(tmp_path)
    action = stored(tmp_path, "a.parquet", id=pa.array(range(3), pa.int64()))
    action["add"]["deletionVector"] = inline_vector([0, 1, 2])
    log.commit(0, protocol("deletionVectors"), metadata(), action)
    assert ids(gl.open(str(tmp_path))) == []
    assert gl.open(str(tmp_path)).scan("id < 3").count() == 0


def test_a_deleted_row_that_cannot_be_read_is_no_error(tmp_path):
    log = LogMaker(tmp_path)
    wkb = pa.array([b"no wkb", shapely.Point(1, 1).wkb], pa.binary())
    action = stored(tmp_path, "a.parquet", id=pa.array([0, 1], pa.int64()), g=wkb)
    action["add"]["deletionVector"] = inline_vector([0])
    fields = (field("id", "long"), field("g", "geometry(OGC:CRS84)"))
    log.commit(0, protocol("deletionVectors", "geospatial"), metadata(*fields), action)
    scan = gl.open(str(tmp_path)).scan([0, 0, 2, 2], on_error="raise")
    assert scan.to_arrow()["id"].to_pylist() == [1]
    assert scan.metrics.unreadable == {}


def test_older_versions_have_their_own_rows(tmp_path):
    log = LogMaker(tmp_path)
    first = stored(tmp_path, "a.parquet", id=pa.array([1], pa.int64()))
    second = stored(tmp_path, "b.parquet", id=pa.array([2], pa.int64()))
    log.commit(0, protocol(), metadata(), first)
    log.commit(1, second)
    log.commit(2, remove("a.parquet"))
    table = gl.open(str(tmp_path))
    assert [ids(table.at(version)) for version in (0, 1, 2)] == [[1], [1, 2], [2]]
    scans = [table.scan(version=version).to_arrow() for version in (0, 1, 2)]
    assert [sorted(scan["id"].to_pylist()) for scan in scans] == [[1], [1, 2], [2]]
    with pytest.raises(GeolakeError, match="9"):
        table.scan(version=9)


def test_a_column_that_came_later_is_null_and_a_widened_one_has_its_new_type(tmp_path):
    log = LogMaker(tmp_path)
    old = stored(tmp_path, "old.parquet", id=pa.array([1], pa.int64()), n=pa.array([7], pa.int32()))
    new = stored(
        tmp_path, "new.parquet",
        id=pa.array([2], pa.int64()), n=pa.array([2**40], pa.int64()), s=pa.array(["x"]),
    )  # fmt: skip
    log.commit(0, protocol("typeWidening"), metadata(field("id", "long"), field("n", "integer")), old)
    log.commit(1, metadata(field("id", "long"), field("n", "long"), field("s", "string")), new)
    table = gl.open(str(tmp_path))
    assert table.scan().schema.field("n").type == pa.int64()
    assert sorted(rows(table), key=lambda row: row["id"]) == [
        {"id": 1, "n": 7, "s": None},
        {"id": 2, "n": 2**40, "s": "x"},
    ]
    assert ids(table, "s IS NULL") == [1]
    assert ids(table, "n > 7") == [2]
    assert ids(table, "s <> 'y'") == [2]


@pytest.mark.parametrize(
    ("kind", "texts", "where", "expected"),
    [
        ("string", ["a", None, "ü/ö"], "p = 'ü/ö'", [2]),
        ("integer", ["-5", None, "70"], "p > 7", [2]),
        ("long", [str(2**60), None, "0"], f"p = {2**60}", [0]),
        ("short", ["1", None, "-1"], "p < 0", [2]),
        ("double", ["0.5", None, "NaN"], "p > 1", [2]),
        ("decimal(10,2)", ["1.50", None, "-0.10"], "p = 1.5", [0]),
        ("boolean", ["true", None, "false"], "p", [0]),
        ("date", ["2024-02-29", None, "1582-10-04"], "p < DATE '1900-01-01'", [2]),
        ("timestamp", ["2024-02-29 01:02:03.5", None, "1969-12-31 23:59:59"], f"p > {EPOCH}", [0]),
        ("timestamp", ["2024-02-29T01:02:03.500000Z", None, "1969-12-31T23:59:59.000000Z"], f"p < {EPOCH}", [2]),
        ("timestamp_ntz", ["2024-02-29 01:02:03", None, "1969-12-31 23:59:59"], "p IS NULL", [1]),
        ("binary", ["\u0001\u0002", None, "a"], "p = X'61'", [2]),
    ],
)  # fmt: skip
def test_partition_values_of_all_types_are_columns(tmp_path, kind, texts, where, expected):
    log = LogMaker(tmp_path)
    actions = []
    for number, text in enumerate(texts):
        action = stored(tmp_path, f"{number}.parquet", id=pa.array([number], pa.int64()))
        action["add"]["partitionValues"] = {"p": text}
        actions.append(action)
    log.commit(
        0, protocol("timestampNtz"), metadata(field("id", "long"), field("p", kind), partitions=("p",)), *actions
    )
    table = gl.open(str(tmp_path))
    assert ids(table, where) == expected
    assert ids(table, "p IS NULL") == [1]
    values = {row["id"]: row["p"] for row in rows(table)}
    known = {
        "integer": -5, "short": 1, "double": 0.5, "boolean": True, "date": dt.date(2024, 2, 29),
        "decimal(10,2)": Decimal("1.50"), "binary": b"\x01\x02", "string": "a",
    }  # fmt: skip
    assert values[1] is None
    if kind in known:
        assert values[0] == known[kind]


def test_an_absent_file_is_named(tmp_path):
    table = gl.open(str(make_delta(tmp_path / "t")))
    (tmp_path / "t" / "part-1.parquet").unlink()
    with pytest.raises(GeolakeError, match=r"part-1\.parquet") as caught:
        table.scan().to_arrow()
    assert "\n" not in str(caught.value)
    assert len(table.scan([10, 50, 13, 53]).to_arrow()) == 4


def test_deltalake_reads_the_same_rows(tmp_path):
    from deltalake import DeltaTable, write_deltalake

    table = pa.table({
        "id": pa.array(range(20), pa.int64()),
        "l": pa.array([[number, None] for number in range(20)], pa.list_(pa.int32())),
        "m": pa.array([[("k", number)] for number in range(20)], pa.map_(pa.string(), pa.int64())),
        "s": pa.array([{"a": {"b": str(number)}} for number in range(20)]),
        "p": [PARTS[number % 7] for number in range(20)],
    })  # fmt: skip
    write_deltalake(str(tmp_path / "t"), table, partition_by=["p"])
    DeltaTable(str(tmp_path / "t")).delete("id IN (3, 4)")
    expected = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    answer = rows(gl.open(str(tmp_path / "t")))
    key = lambda row: row["id"]  # noqa: E731
    assert sorted(answer, key=key) == sorted(expected.to_pylist(), key=key)


@pytest.fixture(scope="module")
def changed(spark, tmp_path_factory):
    """A table of Spark that was renamed, widened, deleted from and partitioned, with a geometry and nested columns."""
    path = str(tmp_path_factory.mktemp("delta") / "t")
    parts = ", ".join("NULL" if part is None else "'" + part.replace("'", "\\'") + "'" for part in PARTS)
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id LONG, n INT, old STRING, gone INT, s STRUCT<a: INT, b: STRING>,"
        " l ARRAY<INT>, m MAP<STRING, DOUBLE>, g GEOMETRY(4326), p STRING) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true',"
        " 'delta.enableTypeWidening' = 'true')"
    )
    point = "st_setsrid(st_geomfromwkb(unhex('0101000000000000000000F03F0000000000000040')), 4326)"
    select = (
        f"SELECT id, CAST(id AS INT), concat('o', id), 1, named_struct('a', CAST(id AS INT), 'b', 'x'), array(1, NULL),"
        f" map('k', id / 3D), IF(id % 5 = 0, NULL, {point}), array({parts})[CAST(id % 7 AS INT)]"
    )
    spark.sql(f"INSERT INTO delta.`{path}` {select} FROM range(0, 70, 1, 1)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 11 = 3")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN old TO renamed")
    spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN gone")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN (gone STRING, s.c DATE)")
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN n TYPE BIGINT")
    spark.sql(
        f"INSERT INTO delta.`{path}` (id, n, renamed, gone, p)"
        " SELECT id, id * 1000000000000, 'new', 'back', 'plain' FROM range(70, 80, 1, 1)"
    )
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (71, 8)")
    return path


def test_spark_reads_the_same_rows_of_a_table_with_a_history(spark, changed):
    select = "SELECT id, n, renamed, s, l, m, st_asbinary(g) AS g, p, gone"
    expected = spark.sql(f"{select} FROM delta.`{changed}`").toArrow().to_pylist()
    scan = gl.open(changed).scan()
    answer = scan.to_arrow()
    assert answer.column_names == [column.name for column in spark.table(f"delta.`{changed}`").schema]
    key = lambda row: row["id"]  # noqa: E731
    plain = [
        {name: bytes(value) if name == "g" and value else value for name, value in row.items()} for row in expected
    ]
    got = [{name: row[name] for name in plain[0]} for row in answer.to_pylist()]
    assert sorted(got, key=key) == sorted(plain, key=key)
    assert scan.count() == len(expected)


@pytest.mark.parametrize(
    "where",
    [
        "n > 60", "n >= 70000000000000", "renamed = 'o5'", "gone IS NULL AND id > 65", "gone = 'back'", "s.a < 9",
        "s.c IS NULL", "s.b = 'x' AND id < 5", "p = 'a/b: 1%'", "p IN ('k=v', 'ü ö')", "p IS NULL", "p <> 'plain'",
        "NOT (p = 'it\\'s' OR id > 20)", "p = 'x,y' AND renamed IS NOT NULL",
    ],
)  # fmt: skip
def test_spark_finds_the_same_rows_by_filters(spark, changed, where):
    expected = sorted(row["id"] for row in spark.sql(f"SELECT id FROM delta.`{changed}` WHERE {where}").collect())
    assert ids(gl.open(changed), where.replace("\\'", "''")) == expected


def test_a_window_and_columns_of_a_mapped_table(changed, spark):
    scan = gl.open(changed).scan([0, 1, 2, 3], columns=["p", "id", "g"])
    expected = spark.sql(f"SELECT id, p FROM delta.`{changed}` WHERE g IS NOT NULL").toArrow().to_pylist()
    answer = scan.to_arrow()
    assert answer.column_names == ["p", "id", "g"]
    assert {(row["id"], row["p"]) for row in answer.to_pylist()} == {(row["id"], row["p"]) for row in expected}
    assert set(shapely.to_wkt(scan.to_geopandas().geometry)) == {"POINT (1 2)"}


def test_column_mapping_by_id_is_read_by_id(tmp_path):
    log = LogMaker(tmp_path)
    schema = pa.schema([
        pa.field("whatever", pa.int64(), metadata={"PARQUET:field_id": "2"}),
        pa.field("id", pa.string(), metadata={"PARQUET:field_id": "1"}),
    ])  # fmt: skip
    pq.write_table(pa.table([[5, 6], ["x", "y"]], schema=schema), tmp_path / "a.parquet")
    mapping = {
        name: {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        for name, number in (("name", 1), ("id", 2))
    }
    fields = [field("name", "string", **mapping["name"]), field("id", "long", **mapping["id"])]
    configuration = {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "2"}
    log.commit(0, protocol("columnMapping"), metadata(*fields, **configuration), add("a.parquet"))
    table = gl.open(str(tmp_path))
    assert rows(table) == [{"name": "x", "id": 5}, {"name": "y", "id": 6}]
    assert rows(table, "id = 6", columns=["name"]) == [{"name": "y"}]
