from __future__ import annotations

import datetime as dt
import gzip
import json

import pytest

from geolake_nb.errors import CorruptTableError, OpenError, UnsupportedTableError, VersionError
from geolake_nb.formats.iceberg import metadata as metadata_module
from geolake_nb.formats.iceberg.metadata import PartitionField, read_metadata
from tests.formats.iceberg_tables import FIRST_TIME, FileEntry, column, make_iceberg_table


def text_of(folder, **options):
    columns = [column(1, "id", "long")]
    return make_iceberg_table(folder, columns, [FileEntry("a")], [FileEntry("b")], **options).read_bytes()


def changed(data, **fields):
    raw = json.loads(data)
    for name, value in fields.items():
        key = name.replace("_", "-")
        if value is None:
            del raw[key]
        else:
            raw[key] = value
    return json.dumps(raw).encode()


@pytest.mark.parametrize(
    ("name", "error", "reason"),
    [
        ("TableMetadataUnsupportedVersion", UnsupportedTableError, "format version 42 is unknown; supported: 1 to 3"),
        ("TableMetadataV1MissingSchemaType", CorruptTableError, "the type of a schema is not 'struct'"),
        ("TableMetadataV2CurrentSchemaNotFound", CorruptTableError, "the current schema 2, which is not listed"),
        ("TableMetadataV2MissingLastPartitionId", CorruptTableError, "has no 'last-partition-id'"),
        ("TableMetadataV2MissingPartitionSpecs", CorruptTableError, "has no 'partition-specs'"),
        ("TableMetadataV2MissingSchemas", CorruptTableError, "has no 'schemas'"),
        ("TableMetadataV2MissingSortOrder", CorruptTableError, "has no 'sort-orders'"),
    ],
)
def test_each_broken_file_of_the_corpus_is_refused_with_its_reason(corpus, name, error, reason):
    path = corpus / "iceberg" / "apache-iceberg" / f"{name}.json"
    with pytest.raises(error, match=reason):
        read_metadata(path.read_bytes(), where=path.name)


def test_v2_metadata_of_the_corpus_has_what_its_text_says(corpus):
    path = corpus / "iceberg" / "apache-iceberg" / "TableMetadataV2Valid.json"
    table = read_metadata(path.read_bytes(), where=path.name)
    assert table.format_version == 2
    assert sorted(table.schemas) == [0, 1]
    assert table.schema().path_of_id(2) == "y"
    assert table.specs[0].fields == (PartitionField("x", 1, "identity", 1000),)
    assert table.current_snapshot_id == 3055729675574597004
    assert table.snapshots[3055729675574597004].parent_id == 3051729675574597004
    assert [id_ for _, id_ in table.snapshot_log] == [3051729675574597004, 3055729675574597004]
    assert table.properties == {}


def test_gzip_and_plain_metadata_read_alike(tmp_path):
    data = text_of(tmp_path)
    assert read_metadata(gzip.compress(data), where="m").raw == read_metadata(data, where="m").raw


def test_gzip_that_inflates_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(metadata_module, "MAX_LENGTH", 10_000)
    with pytest.raises(CorruptTableError, match="decompresses to more than 10000 bytes"):
        read_metadata(gzip.compress(b" " * 10_000_000, mtime=0), where="m")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"format-version": 2}',
        b'{"format-version": "2"}',
        b'{"format-version": true}',
        b"\x1f\x8bnot gzip at all",
        gzip.compress(b'{"format-version": 2}', mtime=0)[:-4],
        b'{"format-version": NaN}',
    ],
)
def test_invalid_metadata_is_refused(data):
    with pytest.raises(OpenError, match="m: "):
        read_metadata(data, where="m")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"schemas": {}}, "'schemas'"),
        ({"schemas": [7]}, "not a list of objects"),
        ({"snapshots": [{"snapshot-id": 1}]}, "'timestamp-ms'"),
        ({"snapshots": [{"snapshot-id": 1, "timestamp-ms": 10**17}]}, "out of range"),
        ({"partition_specs": [{"spec-id": 0, "fields": [{"name": "a"}]}]}, "'source-id'"),
        ({"default_spec_id": 9}, "default partition spec 9"),
        ({"refs": []}, "'refs'"),
        ({"properties": 3}, "'properties'"),
        ({"location": None}, "no 'location'"),
        ({"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1}]}]}, "'name' is missing"),
    ],
)
def test_fields_of_a_wrong_kind_are_named(tmp_path, fields, reason):
    with pytest.raises(CorruptTableError, match=reason):
        read_metadata(changed(text_of(tmp_path), **fields), where="m")


def test_version_1_may_have_one_schema_and_spec_without_ids(tmp_path):
    data = text_of(tmp_path, version=1)
    alone = {"schemas": None, "current_schema_id": None, "partition_specs": None, "default_spec_id": None}
    table = read_metadata(
        changed(
            data,
            **alone,
            partition_spec=[
                {"name": "id", "source-id": 1, "transform": "identity"},
                {"name": "b", "source-id": 1, "transform": "bucket[4]"},
            ],
        ),
        where="m",
    )
    assert [field.field_id for field in table.specs[0].fields] == [1000, 1001]
    assert table.schema().fields[0].name == "id"


def test_snapshots_are_picked_by_id_time_and_ref(tmp_path):
    refs = {"v1": {"snapshot-id": 1001, "type": "tag"}}
    table = read_metadata(text_of(tmp_path, refs=refs), where="m")
    assert table.pick().snapshot_id == 1002
    assert table.pick(snapshot_id=1001).snapshot_id == 1001
    assert table.pick(ref="v1").snapshot_id == 1001
    assert table.pick(ref="main").snapshot_id == 1002
    moment = dt.datetime.fromtimestamp(FIRST_TIME / 1000 + 1.5, dt.UTC)
    assert table.pick(timestamp=moment).snapshot_id == 1001
    assert table.pick(timestamp=moment.replace(tzinfo=None)).snapshot_id == 1001


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"snapshot_id": 5}, "no snapshot 5; use one of: 1001, 1002"),
        ({"ref": "none"}, "no branch or tag 'none'; use one of: main"),
        ({"timestamp": dt.datetime(2001, 1, 1, tzinfo=dt.UTC)}, "no snapshot at 2001-01-01T00:00:00"),
        ({"snapshot_id": 5, "ref": "main"}, "more than one"),
    ],
)
def test_a_snapshot_that_is_not_there_is_named(tmp_path, choice, reason):
    table = read_metadata(text_of(tmp_path), where="m")
    with pytest.raises(VersionError, match=reason):
        table.pick(**choice)


@pytest.mark.parametrize(
    ("type_", "quoted"),
    [
        ("geometry('EPSG:3857')", True),
        ("geometry(EPSG:3857)", False),
        ("geography", False),
        (
            {
                "type": "list",
                "element-id": 9,
                "element": "geography('OGC:CRS84', 'spherical')",
                "element-required": True,
            },
            True,
        ),
    ],
)
def test_the_quoted_form_of_types_is_noticed(tmp_path, type_, quoted):
    path = make_iceberg_table(tmp_path, [column(1, "g", type_)], version=3)
    assert read_metadata(path.read_bytes(), where="m").has_quoted_types is quoted
