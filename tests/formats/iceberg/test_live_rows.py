"""Rows of Iceberg files by field ids, without those that delete files delete."""

from __future__ import annotations

import datetime as dt
import json
import struct
import tracemalloc
import zlib

import numpy as np
import pyarrow as pa
import pytest

from geolake_nb.errors import CorruptTableError, SchemaError
from geolake_nb.formats.iceberg.deleted_rows import data_file_rows
from geolake_nb.formats.iceberg.live_rows import LAST_UPDATED, PARTITION, ROW_ID, RowReader
from geolake_nb.formats.iceberg.schema import name_mapping
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import StructType
from geolake_nb.scan.deletion_vector import read_vector
from geolake_nb.storage.storage import Storage
from tests.formats.iceberg_tables import (
    EQUALITY_DELETES,
    POSITION_DELETES,
    FileEntry,
    PartitionFieldSpec,
    column,
    make_iceberg_table,
)
from tests.growth import growth

COLUMNS = [column(1, "id", "long"), column(2, "name", "string")]
_PATH_ID, _POS_ID = 2147483546, 2147483545
MANY = 1 << 40


def field(name, kind, id_):
    return pa.field(name, kind, metadata=None if id_ is None else {"PARQUET:field_id": str(id_)})


def table(ids, names, *, fields=(("id", 1), ("name", 2))):
    kinds = (pa.int64(), pa.string())
    schema = pa.schema([field(name, kind, id_) for (name, id_), kind in zip(fields, kinds, strict=True)])
    return pa.table([ids, names], schema=schema)


def positions(folder, path, places):
    schema = pa.schema([field("file_path", pa.string(), _PATH_ID), field("pos", pa.int64(), _POS_ID)])
    return pa.table([[f"{folder}/{path}"] * len(places), places], schema=schema)


def rows_of(folder, fields=None, **options):
    storage = Storage.at(str(folder))
    snapshot = open_iceberg(storage)
    schema = snapshot.schema if fields is None else Schema(StructType((*snapshot.schema.fields, *fields)))
    reader = RowReader(storage, schema, name_mapping(snapshot))
    rows = []
    for file in data_file_rows(snapshot):
        for batch in reader.read(file, **options):
            rows += batch.to_pylist()
    return rows


def ids_of(folder):
    return sorted(row["id"] for row in rows_of(folder))


def test_columns_go_by_their_ids_whatever_their_names_were(tmp_path):
    old = table([1, 2], ["a", "b"], fields=(("key", 1), ("dropped", 9)))
    new = table([3], ["c"])
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("old", table=old)], [FileEntry("new", table=new)])
    expected = [{"id": 1, "name": None}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
    assert sorted(rows_of(tmp_path), key=lambda row: row["id"]) == expected


def test_a_column_that_came_later_has_its_default(tmp_path):
    columns = [*COLUMNS, column(3, "n", "int", **{"initial-default": 7}), column(4, "t", "time")]
    make_iceberg_table(tmp_path, columns, [FileEntry("a", table=table([1], ["a"]))], version=3)
    assert rows_of(tmp_path) == [{"id": 1, "name": "a", "n": 7, "t": None}]


def test_files_without_ids_are_read_by_the_only_names_or_by_the_mapping(tmp_path):
    bare = table([1], ["a"], fields=(("id", None), ("name", None)))
    make_iceberg_table(tmp_path / "one", COLUMNS, [FileEntry("a", table=bare)])
    assert rows_of(tmp_path / "one") == [{"id": 1, "name": "a"}]
    mapping = '[{"field-id": 1, "names": ["key", "old"]}]'
    other = table([1], ["a"], fields=(("old", None), ("name", None)))
    properties = {"schema.name-mapping.default": mapping}
    make_iceberg_table(tmp_path / "two", COLUMNS, [FileEntry("a", table=other)], properties=properties)
    assert rows_of(tmp_path / "two") == [{"id": 1, "name": None}]


def test_files_without_ids_of_a_table_that_had_other_columns_are_refused(tmp_path):
    bare = table([1], ["a"], fields=(("id", None), ("name", None)))
    schemas = [{"type": "struct", "schema-id": number, "fields": COLUMNS} for number in (0, 1)]
    extra = {"schemas": schemas, "current-schema-id": 1}
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", table=bare)], extra_metadata=extra)
    with pytest.raises(SchemaError, match=r"no field ids.*set the property schema\.name-mapping\.default"):
        rows_of(tmp_path)


def test_position_deletes_take_rows_of_their_file_alone(tmp_path):
    deletes = FileEntry("d", content=POSITION_DELETES, table=positions(tmp_path, "a", [0, 2]))
    make_iceberg_table(
        tmp_path,
        COLUMNS,
        [FileEntry("a", rows=3, table=table([1, 2, 3], "abc")), FileEntry("b", table=table([4, 5, 6], "def"))],
        [deletes],
    )
    assert ids_of(tmp_path) == [2, 4, 5, 6]
    assert [row["_row_id"] for row in rows_of(tmp_path, [ROW_ID])] == [None] * 4


def test_deletes_do_not_reach_later_files(tmp_path):
    by_id = pa.table([[1, None]], schema=pa.schema([field("id", pa.int64(), 1)]))
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[1], table=by_id)
    first, later = table([1, 2, None], "abc"), table([1, None], "de")
    make_iceberg_table(
        tmp_path, COLUMNS, [FileEntry("a", rows=3, table=first)], [deletes, FileEntry("b", rows=2, table=later)]
    )
    assert sorted((row["id"] or 0, row["name"]) for row in rows_of(tmp_path)) == [(0, "e"), (1, "d"), (2, "b")]


def test_equality_deletes_of_several_columns_need_all_of_them(tmp_path):
    both = table([1, 2, None], ["a", "x", "c"])
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[1, 2], table=both)
    make_iceberg_table(
        tmp_path, COLUMNS, [FileEntry("a", rows=4, table=table([1, 2, None, None], ["a", "b", "c", None]))], [deletes]
    )
    assert [(row["id"], row["name"]) for row in rows_of(tmp_path)] == [(2, "b"), (None, None)]


def test_equality_deletes_go_by_a_column_that_is_dropped_and_of_a_narrower_type(tmp_path):
    values = pa.table([[1]], schema=pa.schema([field("k", pa.int32(), 9)]))
    data = pa.table([[1, 2], [1, 5]], schema=pa.schema([field("id", pa.int64(), 1), field("k", pa.int64(), 9)]))
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[9], table=values)
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", rows=2, table=data)], [deletes])
    assert ids_of(tmp_path) == [2]


def test_equality_deletes_count_in_their_partition_alone(tmp_path):
    spec = PartitionFieldSpec("name", 2, "identity", ["null", "string"])
    by_id = pa.table([[1]], schema=pa.schema([field("id", pa.int64(), 1)]))
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[1], table=by_id, partition={"name": "a"})
    files = [
        FileEntry(name, rows=1, table=table([1], [name]), partition={"name": name}) for name in ("a", "b")
    ]  # fmt: skip
    make_iceberg_table(tmp_path, COLUMNS, files, [deletes], partition=[spec])
    assert [row["name"] for row in rows_of(tmp_path)] == ["b"]


def test_equality_deletes_of_a_spec_whose_fields_are_all_void_count_everywhere(tmp_path):
    # Iceberg, Scan Planning; in version 1 a partition field that is dropped becomes void, and the spec unpartitioned.
    spec = PartitionFieldSpec("name", 2, "identity", ["null", "string"])
    void = PartitionFieldSpec("name", 2, "void", ["null", "string"])
    by_id = pa.table([[1]], schema=pa.schema([field("id", pa.int64(), 1)]))
    deletes = FileEntry(
        "d", content=EQUALITY_DELETES, equality_ids=[1], table=by_id, partition={"name": None}, spec_id=1
    )
    files = [FileEntry(name, rows=2, table=table([1, 2], [name] * 2), partition={"name": name}) for name in ("a", "b")]
    specs = [{"spec-id": number, "fields": [spec_field.json()]} for number, spec_field in enumerate((spec, void))]
    extra = {"partition-specs": specs, "default-spec-id": 1}
    make_iceberg_table(tmp_path, COLUMNS, files, [deletes], partition=[spec], extra_metadata=extra)
    assert ids_of(tmp_path) == [2, 2]


def test_equality_deletes_of_a_column_that_a_file_lacks_go_by_its_default(tmp_path):
    # Iceberg, Equality Delete Files: the value is read by the rules of projection where an older file lacks it.
    columns = [*COLUMNS, column(3, "n", "int", **{"initial-default": 7})]
    sevens = pa.table([[7]], schema=pa.schema([field("n", pa.int32(), 3)]))
    nulls = pa.table([[None]], schema=pa.schema([field("n", pa.int32(), 3)]))
    for name, deleted, left in (("sevens", sevens, []), ("nulls", nulls, [1, 2])):
        deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[3], table=deleted)
        old = FileEntry("a", rows=2, table=table([1, 2], "ab"))
        make_iceberg_table(tmp_path / name, columns, [old], [deletes], version=3)
        assert ids_of(tmp_path / name) == left
    # The same for one that is dropped: only an older schema knows its default.
    schemas = [
        {"type": "struct", "schema-id": number, "fields": fields} for number, fields in enumerate((columns, COLUMNS))
    ]
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[3], table=sevens)
    old = FileEntry("a", rows=2, table=table([1, 2], "ab"))
    extra = {"schemas": schemas, "current-schema-id": 1}
    make_iceberg_table(tmp_path / "dropped", columns, [old], [deletes], version=3, extra_metadata=extra)
    assert ids_of(tmp_path / "dropped") == []


def test_doubles_are_not_rounded_to_meet_deletes_of_floats(tmp_path):
    data = pa.table([[0.1, 0.5]], schema=pa.schema([field("f", pa.float64(), 1)]))
    values = pa.table([[0.1, 0.5]], schema=pa.schema([field("f", pa.float32(), 1)]))
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[1], table=values)
    make_iceberg_table(tmp_path, [column(1, "f", "double")], [FileEntry("a", rows=2, table=data)], [deletes])
    assert [row["f"] for row in rows_of(tmp_path)] == [0.1]


def test_equality_deletes_count_in_a_partition_of_nan(tmp_path):
    columns = [column(1, "id", "long"), column(2, "f", "double")]
    spec = PartitionFieldSpec("f", 2, "identity", ["null", "double"])
    by_id = pa.table([[1]], schema=pa.schema([field("id", pa.int64(), 1)]))
    data = pa.table(
        [[1, 2], [float("nan")] * 2], schema=pa.schema([field("id", pa.int64(), 1), field("f", pa.float64(), 2)])
    )
    nan = {"f": float("nan")}
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[1], table=by_id, partition=nan)
    make_iceberg_table(
        tmp_path, columns, [FileEntry("a", rows=2, table=data, partition=nan)], [deletes], partition=[spec]
    )
    assert ids_of(tmp_path) == [2]


def test_a_column_that_only_the_partition_has_is_read_from_there(tmp_path):
    # Iceberg, Column Projection: files that came from Hive have no columns for the folders that they were in.
    # What a partition says goes before the default, also where it says that there is no value.
    columns = [*COLUMNS, column(3, "d", "date", **{"initial-default": "2000-01-01"}), column(4, "u", "uuid")]
    spec = [
        PartitionFieldSpec("d", 3, "identity", ["null", {"type": "int", "logicalType": "date"}], 1000),
        PartitionFieldSpec("name", 2, "identity", ["null", "string"], 1001),
    ]
    bare = pa.table([[1, 2]], schema=pa.schema([field("id", pa.int64(), 1)]))
    full = table([3], ["own"])
    files = [
        FileEntry("a", rows=2, table=bare, partition={"d": dt.date(2024, 2, 29), "name": "x"}),
        FileEntry("b", rows=1, table=full, partition={"d": None, "name": "own"}),
    ]
    make_iceberg_table(tmp_path, columns, files, partition=spec)
    assert sorted(tuple(row.values()) for row in rows_of(tmp_path)) == [
        (1, "x", dt.date(2024, 2, 29), None),
        (2, "x", dt.date(2024, 2, 29), None),
        (3, "own", None, None),
    ]
    by_name = pa.table([["x"]], schema=pa.schema([field("name", pa.string(), 2)]))
    deletes = FileEntry("d", content=EQUALITY_DELETES, equality_ids=[2], table=by_name, partition=files[0].partition)
    make_iceberg_table(tmp_path / "deleted", columns, files, [deletes], partition=spec)
    assert ids_of(tmp_path / "deleted") == [3]


def test_many_partition_fields_take_as_long_as_they_are_many(tmp_path):
    path = make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a.parquet", table=table([1], ["x"]), rows=1)])
    metadata = json.loads(path.read_text())

    def index(count):
        identity = {"source-id": 1, "transform": "identity"}
        fields = [identity | {"name": f"p{n}", "field-id": 2000 + n} for n in range(count)]
        specs = [*metadata["partition-specs"], {"spec-id": 5, "fields": fields}]
        path.write_text(json.dumps(metadata | {"partition-specs": specs}))
        snapshot = open_iceberg(Storage.at(str(tmp_path)))
        return lambda: data_file_rows(snapshot)

    assert growth(index, 500, 4000) < 20


def test_rows_carry_what_they_keep_when_they_move(tmp_path):
    moved = pa.table(
        [[1, 2], [70, None]], schema=pa.schema([field("id", pa.int64(), 1), field("_row_id", pa.int64(), ROW_ID.id)])
    )
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", rows=2, table=moved)], version=2)
    carried = rows_of(tmp_path, [ROW_ID, LAST_UPDATED, PARTITION], partition=5)
    assert [tuple(row.values()) for row in carried] == [(1, None, 70, 1, 5), (2, None, None, 1, 5)]


# ---- deletion vectors ----


def framed(bitmap):
    body = b"\xd1\xd3\x39\x64" + bitmap
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def test_arrays_bitmaps_and_runs_of_a_vector_are_read():
    # Written from the Roaring format specification.
    array = struct.pack("<IIHHI", 12346, 1, 0, 2, 16) + struct.pack("<3H", 1, 5, 65535)
    bits = np.zeros(65536, np.uint8)
    bits[::2] = 1
    packed = np.packbits(bits, bitorder="little").tobytes()
    bitmap = struct.pack("<IIHHI", 12346, 1, 3, 32767, 16) + packed
    runs = struct.pack("<IBHH", 12347, 1, 1, 9) + struct.pack("<H2H2H", 2, 10, 4, 100, 4)
    whole = struct.pack("<Q", 3) + b"".join(
        struct.pack("<I", key) + part for key, part in enumerate((array, bitmap, runs))
    )
    expected = [1, 5, 65535]
    expected += [(1 << 32) + (3 << 16) + low for low in range(0, 65536, 2)]
    expected += [(2 << 32) + (1 << 16) + low for low in (*range(10, 15), *range(100, 105))]
    vector = read_vector(framed(whole), rows=MANY, where="a")
    assert vector.between(0, MANY).tolist() == expected
    for start, end in ((2, 65535), (5, 6), (6, 65535), ((1 << 32) + (3 << 16) + 7, (1 << 32) + (3 << 16) + 12), (9, 9)):
        assert vector.between(start, end).tolist() == [position for position in expected if start <= position < end]
    assert read_vector(framed(struct.pack("<Q", 0)), rows=MANY, where="a").between(0, MANY).tolist() == []


@pytest.mark.parametrize(
    ("bitmap", "last"),
    [
        (struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, 1, 16) + struct.pack("<2H", 1, 5), 5),
        (struct.pack("<QIIIHHI", 1, 0, 12346, 1, 1, 0, 16) + struct.pack("<H", 0), 65536),
        (struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, 7999, 16) + b"\xff" * 1000 + bytes(7192), 7999),
        (struct.pack("<QIIBHHH2H", 1, 0, 12347, 1, 0, 9, 1, 10, 4), 14),
    ],
)
def test_no_row_is_gone_that_the_file_does_not_have(bitmap, last):
    assert read_vector(framed(bitmap), rows=last + 1, where="a").between(0, MANY)[-1] == last
    with pytest.raises(CorruptTableError, match=f"deletes rows beyond the {last:,} of its data file"):
        read_vector(framed(bitmap), rows=last, where="a")


@pytest.mark.parametrize(
    "bitmap",
    [
        struct.pack("<Q", 2**60),
        struct.pack("<QI", 1, 0),
        struct.pack("<QIII", 1, 0, 12346, 2**31),
        struct.pack("<QIIIHH", 1, 0, 12346, 1, 0, 65535),
        struct.pack("<QII", 1, 0, 77),
        # Runs that overlap, and one that goes on after the last place of its container.
        struct.pack("<QIIBHHH2H2H", 1, 0, 12347, 1, 0, 9, 2, 10, 4, 14, 4),
        struct.pack("<QIIBHHH2H", 1, 0, 12347, 1, 0, 9, 1, 65530, 6),
        # Runs that touch: writers merge them, and CRoaring takes them for a fault.
        struct.pack("<QIIBHHH2H2H", 1, 0, 12347, 1, 0, 2, 2, 3, 1, 5, 0),
        # Places, and containers, that are there twice; and a bitmap of more bits than it says.
        struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, 1, 16) + struct.pack("<2H", 5, 5),
        struct.pack("<QIII4H2I", 1, 0, 12346, 2, 3, 0, 3, 0, 24, 26) + struct.pack("<2H", 5, 6),
        struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, 4096, 16) + b"\xff" * 8192,
    ],
)
def test_broken_vectors_are_typed_errors(bitmap):
    with pytest.raises(CorruptTableError, match="the bitmap of the deletion vector cannot be read"):
        read_vector(framed(bitmap), rows=MANY, where="a")


def test_runs_are_checked_before_they_are_expanded():
    whole, count = struct.pack("<2H", 0, 65535), 3_000
    same = struct.pack("<QIIBHHH", 1, 0, 12347, 1, 0, 65535, count) + count * whole
    many = struct.pack("<QI", 1, 0) + struct.pack("<I", 12347 | 65535 << 16) + b"\xff" * 8192
    many += b"".join(struct.pack("<HH", key, 65535) for key in range(1 << 16)) + bytes(4 << 16)
    many += (struct.pack("<H", 1) + whole) * (1 << 16)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptTableError, match="the bitmap of the deletion vector cannot be read"):
            read_vector(framed(same), rows=MANY, where="a")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        with pytest.raises(CorruptTableError, match=r"deletes rows beyond the 4 of its data file"):
            read_vector(framed(many), rows=4, where="a")
        # A file may be that long, and is read some rows at a time.
        vector = read_vector(framed(many), rows=MANY, where="a")
        assert vector.between(1 << 30, (1 << 30) + 3).tolist() == [1 << 30, (1 << 30) + 1, (1 << 30) + 2]
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_a_vector_with_a_wrong_checksum_or_frame_is_refused():
    good = framed(struct.pack("<Q", 0))
    with pytest.raises(CorruptTableError, match="checksum"):
        read_vector(good[:-1] + b"\x00", rows=MANY, where="a")
    with pytest.raises(CorruptTableError, match="wrong length or magic number"):
        read_vector(b"\x00\x00\x00\x10" + good[4:], rows=MANY, where="a")
