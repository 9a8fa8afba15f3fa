from __future__ import annotations

import datetime as dt
import decimal
import json
import shutil
import struct

import pyarrow.parquet as pq
import pytest

from geolake_nb.errors import CorruptTableError, MissingFileError, NotATableError, StorageError, VersionError
from geolake_nb.formats.iceberg.snapshot import iceberg_history, is_iceberg, open_iceberg
from geolake_nb.formats.registry import ICEBERG
from geolake_nb.model.operators import ComparisonOp
from geolake_nb.storage.storage import Storage
from tests.formats.iceberg_tables import (
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    FIRST_TIME,
    POSITION_DELETES,
    FileEntry,
    PartitionFieldSpec,
    column,
    make_iceberg_table,
    xy,
)

COLUMNS = [column(1, "id", "long"), column(2, "geom", "geometry(OGC:CRS84)"), column(3, "region", "string")]
PATH_ID = 2147483546
DECIMAL = {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}


def long(value):
    return struct.pack("<q", value)


def opened(folder, **options):
    return open_iceberg(Storage.at(str(folder)), **options)


def names(snapshot):
    return [path.rpartition("/")[2] for path in snapshot.files.table["path"].to_pylist()]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_tables_of_every_version_open_with_their_boxes(tmp_path, version, codec):
    make_iceberg_table(
        tmp_path,
        COLUMNS,
        [FileEntry("a", lower={2: xy(0, 1)}, upper={2: xy(2, 3)}, nulls={2: 4}), FileEntry("b", status=DELETED)],
        [FileEntry("c"), FileEntry("d", status=EXISTING, sequence_number=1, snapshot_id=1001)],
        version=version,
        codec=codec,
        compress=version == 2,
    )
    snapshot = opened(tmp_path)
    assert snapshot.format is ICEBERG
    assert snapshot.protocol.numbers == {"format-version": version}
    assert snapshot.protocol.summary == f"format version {version}"
    assert names(snapshot) == ["a", "c", "d"]
    table = snapshot.files.table
    assert table["geom.xmin"].to_pylist() == [0.0, None, None]
    assert table["geom.ymax"].to_pylist() == [3.0, None, None]
    assert table["geom.null_count"].to_pylist() == [4, None, None]
    assert table["geom.source"].to_pylist() == ["manifest", None, None]
    assert table["sequence_number"].to_pylist() == ([0, 0, 0] if version == 1 else [1, 2, 1])
    assert table["added_snapshot"].to_pylist() == [1001, 1002, 1001]
    assert table["manifest"].to_pylist() == [0, 1, 1]
    assert snapshot.details.manifests["added_files"].to_pylist() == [1, 1]
    features = {item.name for item in snapshot.protocol.features}
    assert features == {
        "geometry",
        *(["sequence-numbers"] if version > 1 else []),
        *(["row-lineage"] if version > 2 else []),
    }


def test_a_geometry_in_a_table_of_version_2_opens_and_says_that_it_needs_version_3(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a")])
    (feature,) = [candidate for candidate in opened(tmp_path).protocol.features if candidate.name == "geometry"]
    assert "needs format version 3" in feature.meaning


def test_version_1_without_a_manifest_list_opens(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a")], [FileEntry("b")], version=1, manifest_list=False)
    assert names(opened(tmp_path)) == ["a", "b"]


def test_a_table_without_snapshots_has_no_files(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS)
    snapshot = opened(tmp_path)
    assert snapshot.version is None
    assert len(snapshot.files) == 0
    assert snapshot.files.geo_columns == ("geom",)
    assert len(snapshot.files.boxes("geom")) == 0
    assert snapshot.scalars(("id",)).minimum.to_pylist() == []


def test_an_empty_snapshot_has_no_files(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS, [])
    assert len(opened(tmp_path).files) == 0


def test_unusable_bounds_leave_no_box_and_say_why(tmp_path):
    make_iceberg_table(
        tmp_path,
        COLUMNS,
        [
            FileEntry("short", lower={2: b"abc"}, upper={2: xy(1, 1)}),
            FileEntry("half", lower={2: xy(0, 0)}),
            FileEntry("wrapped", lower={2: xy(170, 0)}, upper={2: xy(-170, 1)}),
            FileEntry("none"),
        ],
        version=3,
    )
    table = opened(tmp_path).files.table
    assert table["geom.xmin"].to_pylist() == [None, None, 170.0, None]
    problems = table["geom.problem"].to_pylist()
    assert "3 bytes" in problems[0]
    assert "the upper bound is missing" in problems[1]
    assert problems[2:] == [None, None]


def test_rows_taken_by_deletion_vectors_and_position_deletes_are_counted_where_that_is_certain(tmp_path):
    where = str(tmp_path)
    data = [FileEntry(name, rows=10) for name in "abcd"]
    deletes = [
        FileEntry("dv", rows=3, format="PUFFIN", content=POSITION_DELETES, referenced_data_file=f"{where}/a"),
        FileEntry("old", rows=9, content=POSITION_DELETES, referenced_data_file=f"{where}/a"),
        FileEntry(
            "by-bounds",
            rows=2,
            content=POSITION_DELETES,
            lower={PATH_ID: f"{where}/b".encode()},
            upper={PATH_ID: f"{where}/b".encode()},
        ),
        FileEntry(
            "many",
            rows=5,
            content=POSITION_DELETES,
            lower={PATH_ID: f"{where}/a".encode()},
            upper={PATH_ID: f"{where}/c".encode()},
        ),
        FileEntry("equal", rows=5, content=EQUALITY_DELETES, equality_ids=[1, 3]),
        FileEntry(
            "early",
            rows=5,
            content=POSITION_DELETES,
            referenced_data_file=f"{where}/d",
            sequence_number=0,
            status=EXISTING,
        ),
        FileEntry("gone", rows=5, content=POSITION_DELETES, referenced_data_file=f"{where}/c", status=DELETED),
    ]
    make_iceberg_table(tmp_path, COLUMNS, data, deletes, version=3)
    snapshot = opened(tmp_path)
    assert snapshot.files.table["deleted_rows"].to_pylist() == [3, 2, 0, 0]
    # The delete file of several data files, and the one of values, may take any of the other rows.
    assert snapshot.files.table["rows"].to_pylist() == [None] * 4
    assert snapshot.files.table["physical_rows"].to_pylist() == [10] * 4
    applied = snapshot.details.delete_files
    kinds = dict(
        zip([path.rpartition("/")[2] for path in applied["path"].to_pylist()], applied["kind"].to_pylist(), strict=True)
    )
    assert kinds == {
        "dv": "deletion-vector",
        "old": "position",
        "by-bounds": "position",
        "many": "position",
        "equal": "equality",
        "early": "position",
    }
    assert applied["equality_ids"].to_pylist()[4] == [1, 3]
    assert snapshot.details.uncounted_deletes == 2
    assert {"deletion-vectors", "equality-deletes", "position-deletes"} <= {
        item.name for item in snapshot.protocol.features
    }


def test_position_deletes_of_one_file_that_may_name_the_same_rows_are_not_summed(tmp_path):
    path = f"{tmp_path}/a"
    deletes = [
        FileEntry(name, rows=rows, content=POSITION_DELETES, referenced_data_file=path)
        for name, rows in (("one", 2), ("two", 5), ("three", 5))
    ]
    other = FileEntry("four", rows=1, content=POSITION_DELETES, referenced_data_file=f"{tmp_path}/b")
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", rows=10), FileEntry("b", rows=10)], [*deletes, other])
    snapshot = opened(tmp_path)
    assert snapshot.files.table["deleted_rows"].to_pylist() == [5, 1]
    assert snapshot.files.table["rows"].to_pylist() == [None, 9]
    assert snapshot.details.delete_files["counted"].to_pylist() == [False, True, False, True]
    assert snapshot.details.uncounted_deletes == 2


def test_more_deleted_rows_than_there_are_leave_none(tmp_path):
    delete = FileEntry("dv", rows=99, format="PUFFIN", content=POSITION_DELETES, referenced_data_file=f"{tmp_path}/a")
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", rows=10)], [delete], version=3)
    assert opened(tmp_path).files.table["rows"].to_pylist() == [0]


def test_a_file_of_nulls_alone_is_known_although_rows_were_deleted(tmp_path):
    delete = FileEntry("dv", rows=3, format="PUFFIN", content=POSITION_DELETES, referenced_data_file=f"{tmp_path}/a")
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", rows=10, nulls={2: 10})], [delete], version=3)
    assert opened(tmp_path).files.boxes("geom").only_null_or_empty.tolist() == [True]


def test_nulls_of_geometries_in_lists_say_nothing_about_rows(tmp_path):
    inner = {"type": "list", "element-id": 5, "element": "geometry", "element-required": False}
    columns = [column(4, "shapes", inner), column(6, "s", {"type": "struct", "fields": [column(7, "g", "geometry")]})]
    entry = FileEntry("a", rows=10, nulls={5: 10, 7: 10}, lower={5: xy(0, 0)}, upper={5: xy(1, 1)})
    make_iceberg_table(tmp_path, columns, [entry], version=3)
    files = opened(tmp_path).files
    assert files.geo_columns == ("shapes.element", "s.g")
    assert files.table["shapes.element.xmax"].to_pylist() == [1.0]
    assert files.boxes("shapes.element").only_null_or_empty.tolist() == [False]
    assert files.boxes("s.g").only_null_or_empty.tolist() == [True]


def test_scalars_give_the_bounds_of_plain_columns_by_path(tmp_path):
    entries = [
        FileEntry("a", rows=5, lower={1: long(1), 3: b"alpha"}, upper={1: long(9), 3: b"beta"}, nulls={1: 0, 3: 1}),
        FileEntry("b", rows=5, nulls={1: 5}),
    ]
    make_iceberg_table(tmp_path, COLUMNS, entries, manifest_size=1)
    snapshot = opened(tmp_path)
    ids = snapshot.scalars(("id",))
    assert ids.minimum.to_pylist() == [1, None]
    assert ids.only_nulls.tolist() == [False, True]
    assert ids.rules_out(ComparisonOp.GT, 9).tolist() == [True, True]
    assert snapshot.scalars(("region",)).maximum.to_pylist() == ["beta", None]
    assert snapshot.scalars(("geom",)) is None


def test_a_text_bound_that_was_cut_keeps_files_with_longer_text(tmp_path):
    entry = FileEntry("a", lower={3: b"aaaa"}, upper={3: b"bbbb"}, nulls={3: 0})
    make_iceberg_table(tmp_path, COLUMNS, [entry])
    regions = opened(tmp_path).scalars(("region",))
    assert regions.rules_out(ComparisonOp.EQ, "bbbbzzz").tolist() == [False]
    assert regions.rules_out(ComparisonOp.EQ, "c").tolist() == [True]


def test_identity_partitions_stand_in_for_bounds(tmp_path):
    partition = [
        PartitionFieldSpec("region", 3, "identity", "string"),
        PartitionFieldSpec("id_bucket", 1, "bucket[4]", "int", 1001),
    ]
    entries = [
        FileEntry("a", partition={"region": "north", "id_bucket": 3}),
        FileEntry("b", partition={"region": None, "id_bucket": None}),
    ]
    make_iceberg_table(tmp_path, COLUMNS, entries, partition=partition)
    snapshot = opened(tmp_path)
    assert snapshot.partition_columns == ("region", "bucket(4, id)")
    assert snapshot.files.table["partition.region"].to_pylist() == ["north", None]
    assert snapshot.files.table["partition.id_bucket"].to_pylist() == [3, None]
    regions = snapshot.scalars(("region",))
    assert regions.minimum.to_pylist() == ["north", None]
    assert regions.rules_out(ComparisonOp.EQ, "south").tolist() == [True, False]


@pytest.mark.parametrize(
    ("type_", "transform", "avro", "stored"),
    [
        ("date", "identity", {"type": "int", "logicalType": "date"}, dt.date(2024, 2, 29)),
        ("timestamp", "day", {"type": "int", "logicalType": "date"}, dt.date(2024, 2, 29)),
        ("timestamp", "month", "int", 650),
        ("timestamp", "hour", "int", 650_000),
        ("decimal(9, 2)", "identity", DECIMAL, decimal.Decimal("-12.34")),
        ("boolean", "identity", "boolean", True),
        ("double", "identity", "double", 0.1),
        ("float", "identity", "float", 0.5),
        ("long", "identity", "int", 7),
        ("string", "truncate[2]", "string", "ab"),
        ("binary", "identity", "bytes", b"\x00\xff"),
        ("uuid", "identity", {"type": "fixed", "name": "u", "size": 16}, bytes(range(16))),
        ("long", "void", "long", None),
        ("string", "unheard-of[3]", "string", "x"),
    ],
)
def test_partition_values_have_the_type_of_their_transform(tmp_path, type_, transform, avro, stored):
    partition = [PartitionFieldSpec("p", 1, transform, avro)]
    entry = FileEntry("a", partition={"p": stored})
    make_iceberg_table(tmp_path, [column(1, "c", type_)], [entry], partition=partition)
    assert opened(tmp_path).files.table["partition.p"].to_pylist() == [stored]


def test_a_manifest_of_an_unknown_spec_is_refused(tmp_path):
    path = make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a")])
    raw = json.loads(path.read_text())
    raw |= {"partition-specs": [{"spec-id": 5, "fields": []}], "default-spec-id": 5}
    path.write_text(json.dumps(raw))
    with pytest.raises(CorruptTableError, match="the partition spec 0, which the table lacks; known specs: 5"):
        opened(tmp_path)


def test_a_moved_table_finds_its_files_below_its_new_root(tmp_path):
    make_iceberg_table(tmp_path / "new", COLUMNS, [FileEntry("data/a")], location="s3://old-bucket/warehouse/t")
    snapshot = opened(tmp_path / "new")
    assert snapshot.files.table["path"].to_pylist() == ["s3://old-bucket/warehouse/t/data/a"]
    assert snapshot.details.paths.key("s3://old-bucket/warehouse/t/data/a") == "data/a"
    assert snapshot.location == str(tmp_path / "new")


def test_a_manifest_outside_the_table_is_not_opened(tmp_path):
    other = tmp_path / "other"
    make_iceberg_table(other, COLUMNS, [FileEntry("a")])
    root = tmp_path / "t"
    shutil.copytree(other / "metadata", root / "metadata")
    path = root / "metadata" / "v1.metadata.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "location": str(root)}))
    with pytest.raises(StorageError, match="is outside the table"):
        opened(root)


def test_history_lists_snapshots_with_refs_and_parents(tmp_path):
    refs = {"v1": {"snapshot-id": 1001, "type": "tag"}, "dev": {"snapshot-id": 1002, "type": "branch"}}
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a")], [FileEntry("b")], refs=refs)
    first, last = iceberg_history(Storage.at(str(tmp_path)))
    assert (first.version, first.parent, first.operation) == (1001, None, "append")
    assert (last.version, last.parent) == (1002, 1001)
    assert first.details["refs"] == ["v1"]
    assert last.details["refs"] == ["dev", "main"]
    assert last.details["is_current"]
    assert first.timestamp == dt.datetime.fromtimestamp(FIRST_TIME / 1000 + 1, dt.UTC)


def test_time_travel_uses_the_schema_of_that_time(tmp_path):
    path = make_iceberg_table(
        tmp_path, COLUMNS, [FileEntry("a")], [FileEntry("b")], refs={"v1": {"snapshot-id": 1001, "type": "tag"}}
    )
    raw = json.loads(path.read_text())
    raw["schemas"].append({"type": "struct", "schema-id": 1, "fields": [column(1, "renamed", "long")]})
    path.write_text(json.dumps({**raw, "current-schema-id": 1}))
    assert opened(tmp_path).schema.fields[0].name == "renamed"
    for choice in (
        {"snapshot_id": 1001},
        {"ref": "v1"},
        {"timestamp": dt.datetime.fromtimestamp(FIRST_TIME / 1000 + 1, dt.UTC)},
    ):
        past = opened(tmp_path, **choice)
        assert past.schema.fields[0].name == "id"
        assert names(past) == ["a"]
    with pytest.raises(VersionError):
        opened(tmp_path, snapshot_id=1)


def test_bad_places_give_one_clear_error(tmp_path):
    with pytest.raises(NotATableError):
        opened(tmp_path)
    assert not is_iceberg(Storage.at(str(tmp_path)))
    with pytest.raises(MissingFileError):
        opened(tmp_path, metadata="metadata/v9.metadata.json")
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a")])
    next((tmp_path / "metadata").glob("*-m0.avro")).unlink()
    with pytest.raises(MissingFileError):
        opened(tmp_path)


def test_an_entry_without_rows_or_with_an_unknown_status_is_refused(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", rows=-1)])
    with pytest.raises(CorruptTableError, match="negative record_count"):
        opened(tmp_path)
    make_iceberg_table(tmp_path, COLUMNS, [FileEntry("a", status=9)])
    with pytest.raises(CorruptTableError, match="unknown status"):
        opened(tmp_path)


def test_the_maker_writes_data_that_parquet_readers_open(tmp_path):
    import pyarrow as pa

    table = pa.table({"id": [1, 2]})
    make_iceberg_table(tmp_path, [column(1, "id", "long")], [FileEntry("data/a.parquet", rows=2, table=table)])
    snapshot = opened(tmp_path)
    key = snapshot.details.paths.key(snapshot.files.table["path"][0].as_py())
    assert pq.read_table(tmp_path / key).num_rows == 2
