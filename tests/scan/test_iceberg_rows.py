"""The live rows of Iceberg tables: deletes of every kind, and columns that came, went and changed."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, SchemaError
from tests.formats.iceberg_tables import (
    EQUALITY_DELETES,
    POSITION_DELETES,
    FileEntry,
    PartitionFieldSpec,
    column,
    make_iceberg_table,
    xy,
)
from tests.scan.scan_tables import PATH_ID, POS_ID, arrow_column, deletion_vector_blob
from tests.small_tables import make_iceberg

COLUMNS = [column(1, "id", "long"), column(2, "name", "string")]


def fields(**columns):
    """A table whose columns have the field ids that their keywords end with."""
    schema, arrays = [], []
    for key, values in columns.items():
        name, _, number = key.rpartition("_")
        array = values if isinstance(values, pa.Array | pa.ExtensionArray) else pa.array(values)
        schema.append(pa.field(name, array.type, metadata={"PARQUET:field_id": number}))
        arrays.append(array)
    return pa.table(arrays, schema=pa.schema(schema))


def data(name, table, **more):
    return FileEntry(f"{name}.parquet", rows=len(table), table=table, **more)


def rows(folder, where=None, **options):
    answer = gl.open(str(folder)).scan(where, **options).to_arrow().to_pylist()
    return sorted(answer, key=repr)


def ids(folder, where=None):
    return sorted(row["id"] for row in rows(folder, where, columns=["id"]))


def positions(folder, path, places):
    table = fields(**{f"file_path_{PATH_ID}": [f"{folder}/{path}"] * len(places), f"pos_{POS_ID}": places})
    return FileEntry(f"delete-{path}", content=POSITION_DELETES, rows=len(places), table=table)


def vector(folder, name, of, places):
    blob = deletion_vector_blob(places)
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"PFA1" + blob)
    return FileEntry(
        name, content=POSITION_DELETES, format="PUFFIN", rows=len(places), vector_bytes=len(blob),
        referenced_data_file=f"{folder}/{of}",
    )  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
def test_position_deletes_take_their_rows(tmp_path, version):
    table = fields(id_1=list(range(10)), name_2=list("abcdefghij"))
    files = [data("a", table), data("b", fields(id_1=[20, 21], name_2=["x", "y"]))]
    make_iceberg_table(tmp_path, COLUMNS, files, [positions(tmp_path, "a.parquet", [0, 9])], version=version)
    assert ids(tmp_path) == [*range(1, 9), 20, 21]
    assert ids(tmp_path, "name IN ('a', 'b', 'j', 'x')") == [1, 20]


def test_a_row_that_is_deleted_twice_is_gone_once(tmp_path):
    table = fields(id_1=list(range(5)), name_2=list("abcde"))
    first = positions(tmp_path, "a.parquet", [0, 1])
    again = replace(positions(tmp_path, "a.parquet", [1, 1, 2]), path="again.parquet")
    equal = FileEntry("e.parquet", content=EQUALITY_DELETES, rows=1, equality_ids=[1], table=fields(id_1=[2]))
    make_iceberg_table(tmp_path, COLUMNS, [data("a", table)], [first], [again, equal])
    assert ids(tmp_path) == [3, 4]
    opened = gl.open(str(tmp_path))
    assert opened.scan().count() == opened.scan("id >= 0").count() == 2
    assert opened.scan(version=1002).count() == 3


def test_position_deletes_alone_that_name_a_row_twice_count_it_once(tmp_path):
    table = fields(id_1=list(range(5)), name_2=list("abcde"))
    again = replace(positions(tmp_path, "a.parquet", [0, 1]), path="again.parquet")
    deletes = positions(tmp_path, "a.parquet", [0, 1])
    make_iceberg_table(tmp_path, COLUMNS, [data("a", table)], [deletes], [again])
    assert ids(tmp_path) == [2, 3, 4]
    assert gl.open(str(tmp_path)).scan().count() == 3


def test_deletion_vectors_take_their_rows(tmp_path):
    table = fields(id_1=list(range(100_000)), name_2=[str(number % 7) for number in range(100_000)])
    deletes = vector(tmp_path, "d.puffin", "a.parquet", [0, 65_535, 65_536, 99_999])
    make_iceberg_table(tmp_path, COLUMNS, [data("a", table)], [deletes], version=3)
    assert gl.open(str(tmp_path)).scan().count() == 99_996
    assert ids(tmp_path, "id IN (0, 1, 65535, 65536, 65537, 99998, 99999)") == [1, 65_537, 99_998]


def test_equality_deletes_take_what_equals_them_in_older_files_alone(tmp_path):
    deletes = FileEntry(
        "d.parquet", content=EQUALITY_DELETES, rows=2, equality_ids=[2], table=fields(name_2=pa.array(["b", None]))
    )
    first = fields(id_1=[1, 2, 3], name_2=pa.array(["a", "b", None]))
    make_iceberg_table(tmp_path, COLUMNS, [data("a", first)], [deletes, data("b", fields(id_1=[4], name_2=["b"]))])
    assert ids(tmp_path) == [1, 4]
    # The column of the deletes is neither asked for nor filtered by.
    assert rows(tmp_path, "id >= 2", columns=["id"]) == [{"id": 4}]
    assert gl.open(str(tmp_path)).scan().count() == 2
    assert gl.open(str(tmp_path)).scan("id < 3").count() == 1


def test_columns_go_by_their_ids(tmp_path):
    old = fields(key_1=[1, 2], dropped_9=["a", "b"], name_7=["wrong", "wrong"])
    new = fields(name_2=["c"], id_1=[3])
    make_iceberg_table(tmp_path, COLUMNS, [data("a", old)], [data("b", new)])
    assert rows(tmp_path) == [{"id": 1, "name": None}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
    assert ids(tmp_path, "name IS NULL") == [1, 2]
    assert ids(tmp_path, "name <> 'x'") == [3]


def test_initial_defaults_are_the_values_of_older_rows(tmp_path):
    columns = [
        *COLUMNS[:1],
        column(3, "n", "int", **{"initial-default": 7}),
        column(4, "d", "date", **{"initial-default": "2024-02-29"}),
        column(5, "m", "decimal(9, 2)", **{"initial-default": "1.50"}),
        column(6, "s", "string", **{"initial-default": "none"}),
        column(8, "t", "timestamptz", **{"initial-default": "2024-02-29T12:00:00.000000+00:00"}),
        column(9, "b", "binary", **{"initial-default": "00ff"}),
        column(10, "o", "boolean", **{"initial-default": True}),
    ]
    new = fields(id_1=[2], n_3=pa.array([None], pa.int32()))
    make_iceberg_table(tmp_path, columns, [data("a", fields(id_1=[1]))], [data("b", new)], version=3)
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    same = {"d": dt.date(2024, 2, 29), "m": Decimal("1.50"), "s": "none", "t": moment, "b": b"\x00\xff", "o": True}
    assert rows(tmp_path) == [{"id": 1, "n": 7, **same}, {"id": 2, "n": None, **same}]
    assert ids(tmp_path, "n = 7") == [1]
    assert ids(tmp_path, "n IS NULL") == [2]
    assert ids(tmp_path, "d = DATE '2024-02-29' AND o AND m < 2") == [1, 2]


def test_promoted_types_are_read_as_the_newer_ones(tmp_path):
    columns = [column(1, "id", "long"), column(2, "x", "double"), column(3, "d", "decimal(20, 2)")]
    old = fields(
        id_1=pa.array([1, -1], pa.int32()), x_2=pa.array([0.5, 0.1], pa.float32()),
        d_3=pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
    )  # fmt: skip
    new = fields(id_1=[2**40], x_2=[0.1], d_3=pa.array([Decimal("123456789012345678.00")], pa.decimal128(20, 2)))
    make_iceberg_table(tmp_path, columns, [data("a", old)], [data("b", new)])
    table = gl.open(str(tmp_path)).scan().to_arrow()
    assert [str(kind) for kind in table.schema.types] == ["int64", "double", "decimal128(20, 2)"]
    assert ids(tmp_path, "id < 2") == [-1, 1]
    assert ids(tmp_path, "x = 0.5") == [1]
    assert ids(tmp_path, "d >= 1.5") == [1, 2**40]


def test_identity_partitions_that_are_not_in_the_files_are_columns(tmp_path):
    columns = [column(1, "id", "long"), column(2, "day", "date"), column(3, "kind", "string")]
    spec = [
        PartitionFieldSpec("day", 2, "identity", ["null", {"type": "int", "logicalType": "date"}], 1000),
        PartitionFieldSpec("kind", 3, "identity", ["null", "string"], 1001),
    ]
    files = [
        data("a", fields(id_1=[1, 2]), partition={"day": dt.date(2024, 2, 29), "kind": "a/b: 1%"}),
        data("b", fields(id_1=[3]), partition={"day": None, "kind": None}),
        data("c", fields(id_1=[4]), partition={"day": dt.date(1969, 12, 31), "kind": "ü"}),
    ]
    make_iceberg_table(tmp_path, columns, files, partition=spec)
    assert ids(tmp_path, "kind = 'a/b: 1%'") == [1, 2]
    assert ids(tmp_path, "day < DATE '1970-01-01' OR kind IS NULL") == [3, 4]
    assert ids(tmp_path, "NOT (kind = 'ü')") == [1, 2]
    assert rows(tmp_path, "id IN (3, 4)") == [
        {"id": 3, "day": None, "kind": None},
        {"id": 4, "day": dt.date(1969, 12, 31), "kind": "ü"},
    ]


def test_files_without_ids_are_read_by_the_name_mapping(tmp_path):
    bare = pa.table({"key": [1, 2], "label": ["a", "b"], "other": [0, 0]})
    mapping = '[{"field-id": 1, "names": ["key", "old"]}, {"field-id": 2, "names": ["name", "label"]}]'
    properties = {"schema.name-mapping.default": mapping}
    make_iceberg_table(tmp_path, COLUMNS, [data("a", bare)], properties=properties)
    assert rows(tmp_path, "name = 'b'") == [{"id": 2, "name": "b"}]


def test_nested_columns_evolve_by_id(tmp_path):
    inner = {"type": "struct", "fields": [column(3, "new", "long"), column(5, "added", "string")]}
    listed = {"type": "list", "element-id": 7, "element": "long", "element-required": False}
    columns = [column(1, "id", "long"), column(2, "s", inner), column(6, "l", listed)]
    struct = pa.struct([
        pa.field("old", pa.int32(), metadata={"PARQUET:field_id": "3"}),
        pa.field("gone", pa.int32(), metadata={"PARQUET:field_id": "4"}),
    ])  # fmt: skip
    numbers = pa.list_(pa.field("element", pa.int32(), metadata={"PARQUET:field_id": "7"}))
    table = fields(
        id_1=[1, 2, 3],
        s_2=pa.array([{"old": 5, "gone": 6}, None, {"old": None, "gone": 1}], struct),
        l_6=pa.array([[1, None], None, []], numbers),
    )
    make_iceberg_table(tmp_path, columns, [data("a", table)])
    assert rows(tmp_path) == [
        {"id": 1, "s": {"new": 5, "added": None}, "l": [1, None]},
        {"id": 2, "s": None, "l": None},
        {"id": 3, "s": {"new": None, "added": None}, "l": []},
    ]
    assert ids(tmp_path, "s.new = 5") == [1]
    assert ids(tmp_path, "s.added IS NULL") == [1, 2, 3]


def test_older_snapshots_have_their_rows(tmp_path):
    deletes = positions(tmp_path, "a.parquet", [0])
    make_iceberg_table(
        tmp_path,
        COLUMNS,
        [data("a", fields(id_1=[1, 2], name_2=["a", "b"]))],
        [data("b", fields(id_1=[3], name_2=["c"]))],
        [deletes],
    )
    table = gl.open(str(tmp_path))
    versions = [1001, 1002, 1003]
    answer = [sorted(table.scan(version=version).to_arrow()["id"].to_pylist()) for version in versions]
    assert answer == [[1, 2], [1, 2, 3], [2, 3]]


@pytest.mark.parametrize("kind", ["geometry", "geometry(EPSG:3857)", "binary"])
def test_windows_on_geometries(tmp_path, kind):
    columns = [column(1, "id", "long"), column(2, "geom", kind)]
    points = pa.array([shapely.Point(1, 1).wkb, shapely.Point(9, 9).wkb, None], pa.binary())
    geom = points if kind == "binary" else arrow_column(points, "EPSG:3857" if "3857" in kind else "OGC:CRS84")
    entry = data("a", fields(id_1=[1, 2, 3], geom_2=geom), lower={2: xy(1, 1)}, upper={2: xy(9, 9)})
    deletes = vector(tmp_path, "d.puffin", "a.parquet", [1])
    make_iceberg_table(tmp_path, columns, [entry], [deletes], version=3)
    if kind == "binary":
        with pytest.raises(GeolakeError, match="no geo column"):
            ids(tmp_path, [0, 0, 10, 10])
        return
    assert ids(tmp_path, [0, 0, 10, 10]) == [1]
    assert ids(tmp_path, "NOT ST_Intersects(geom, ST_MakeEnvelope(0, 0, 5, 5))") == []


def test_a_missing_file_of_deletes_is_an_error_and_loses_nothing(tmp_path):
    deletes = positions(tmp_path, "a.parquet", [0])
    make_iceberg_table(tmp_path, COLUMNS, [data("a", fields(id_1=[1, 2], name_2=["a", "b"]))], [deletes])
    table = gl.open(str(tmp_path))
    (tmp_path / "delete-a.parquet").unlink()
    with pytest.raises(GeolakeError, match=r"delete-a\.parquet") as caught:
        table.scan().to_arrow()
    assert "\n" not in str(caught.value)


def test_a_corrupt_deletion_vector_is_an_error(tmp_path):
    deletes = vector(tmp_path, "d.puffin", "a.parquet", [0])
    blob = bytearray((tmp_path / "d.puffin").read_bytes())
    blob[-1] ^= 1
    (tmp_path / "d.puffin").write_bytes(blob)
    make_iceberg_table(tmp_path, COLUMNS, [data("a", fields(id_1=[1, 2], name_2=["a", "b"]))], [deletes], version=3)
    with pytest.raises(GeolakeError, match="checksum") as caught:
        ids(tmp_path)
    assert "\n" not in str(caught.value)


def test_files_without_ids_and_without_a_mapping_are_refused_where_names_may_mislead(tmp_path):
    schemas = [{"type": "struct", "schema-id": number, "fields": COLUMNS} for number in (0, 1)]
    extra = {"schemas": schemas, "current-schema-id": 1}
    make_iceberg_table(tmp_path, COLUMNS, [data("a", pa.table({"id": [1], "name": ["a"]}))], extra_metadata=extra)
    with pytest.raises(SchemaError, match="no field ids"):
        ids(tmp_path)


def test_pyiceberg_reads_the_same_rows(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    first = pa.table(
        {
            "id": pa.array(range(30), pa.int64()),
            "a": [f"v{number % 4}" for number in range(30)],
            "l": [[number] for number in range(30)],
        }
    )
    made = catalog.create_table("db.t", first.schema)
    made.append(first)
    made.delete("id < 5")
    with made.update_schema() as update:
        update.rename_column("a", "b")
        update.add_column("c", __import__("pyiceberg.types", fromlist=["x"]).DoubleType())
    made.append(
        pa.table(
            {"id": pa.array([100], pa.int64()), "b": ["new"], "l": [[1]], "c": [0.5]}, schema=made.schema().as_arrow()
        )
    )
    expected = made.refresh().scan().to_arrow().to_pylist()
    table = gl.open(made.metadata_location.removeprefix("file://"))
    key = lambda row: row["id"]  # noqa: E731
    assert sorted(table.scan().to_arrow().to_pylist(), key=key) == sorted(expected, key=key)
    for where in ("b = 'v1'", "c IS NULL", "c > 0.1", "id >= 5 AND b <> 'v2'"):
        asked = made.scan(row_filter=where).to_arrow()["id"].to_pylist()
        assert sorted(table.scan(where).to_arrow()["id"].to_pylist()) == sorted(asked), where
    catalog.engine.dispose()


def test_the_small_table_has_its_rows(tmp_path):
    table = gl.open(str(make_iceberg(tmp_path / "t")))
    assert len(table.scan().to_arrow()) == 12
    assert len(table.scan([9, 49, 12, 52]).to_arrow()) == 3
