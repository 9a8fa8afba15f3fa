from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from geolake_nb.errors import CorruptTableError, SchemaError, UnsupportedTableError
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.registry import DELTA
from geolake_nb.model.operators import ComparisonOp
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, remove


@pytest.fixture
def made(tmp_path):
    return LogMaker(tmp_path / "t")


PARTITIONS = {
    "integer": ("-7", -7),
    "long": ("9223372036854775807", 2**63 - 1),
    "double": ("1.5E300", 1.5e300),
    "boolean": ("true", True),
    "string": ("null", "null"),
    "date": ("2021-09-08", dt.date(2021, 9, 8)),
    "timestamp": ("1970-01-01T00:00:00.123456Z", dt.datetime(1970, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC)),
    "timestamp_ntz": ("1970-01-01 00:00:00.123456", dt.datetime(1970, 1, 1, 0, 0, 0, 123456)),
    "decimal(10,2)": ("12.34", Decimal("12.34")),
}


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("type_", PARTITIONS)
def test_partition_values_have_the_types_of_the_schema(made, type_, checkpoint):
    text, value = PARTITIONS[type_]
    actions = [
        protocol(),
        metadata(field("p", type_), field("id", "long"), partitions=("p",)),
        add("a", partition={"p": text}),
        add("b", partition={"p": None}),
        add("c", partition={"p": ""}),
        add("d"),
    ]
    made.checkpoint(0, *actions) if checkpoint else made.commit(0, *actions)
    snapshot = made.open()
    assert snapshot.partition_columns == ("p",)
    assert snapshot.files.table["partition.p"].to_pylist() == [value, None, None, None]
    scalar = snapshot.scalars(("p",))
    assert scalar.rules_out(ComparisonOp.EQ, value).tolist() == [False, True, True, True]
    assert scalar.only_nulls.tolist() == [False, True, True, True]


def test_a_partition_timestamp_without_a_zone_stands_for_every_zone(made):
    made.commit(
        0,
        protocol(),
        metadata(field("p", "timestamp"), partitions=("p",)),
        add("a", partition={"p": "2020-01-01 00:00:00"}),
    )
    scalar = made.open().scalars(("p",))
    assert scalar.minimum.to_pylist() == [dt.datetime(2019, 12, 31, 8, tzinfo=dt.UTC)]
    assert scalar.maximum.to_pylist() == [dt.datetime(2020, 1, 1, 16, tzinfo=dt.UTC)]


def test_a_partition_value_of_another_type_is_shown_as_text(made):
    made.commit(0, protocol(), metadata(field("p", "date"), partitions=("p",)), add("a", partition={"p": "yesterday"}))
    assert made.open().files.table["partition.p"].to_pylist() == ["yesterday"]


def test_partition_columns_come_from_the_newest_metadata(made):
    made.commit(
        0,
        protocol(),
        metadata(field("a", "long"), field("b", "long"), partitions=("a",)),
        add("x", partition={"a": "1"}),
    )
    made.commit(
        1,
        metadata(field("a", "long"), field("b", "long"), partitions=("b",)),
        remove("x"),
        add("y", partition={"b": "2"}),
    )
    assert made.open().files.table["partition.b"].to_pylist() == [2]
    assert made.open(version=0).files.table["partition.a"].to_pylist() == [1]


def test_a_partition_column_that_is_not_in_the_schema_is_named(made):
    made.commit(0, protocol(), metadata(field("a", "long"), partitions=("b",)))
    with pytest.raises(CorruptTableError, match="the partition column 'b' is not in the schema"):
        made.open()


def test_a_partition_column_that_is_named_twice_is_refused(made):
    made.commit(0, protocol(), metadata(field("a", "long"), partitions=("a", "a")), add("x"))
    with pytest.raises(CorruptTableError, match="lists a partition column twice"):
        made.open()


def test_the_columns_of_the_file_table(made):
    made.commit(
        0,
        protocol("geospatial", "rowTracking", reader=("geospatial",)),
        metadata(field("g", "geometry(OGC:CRS84)"), field("p", "string"), partitions=("p",)),
        add("a", {"numRecords": 3}, partition={"p": "x"}, baseRowId=30, defaultRowCommitVersion=2),
    )
    snapshot = made.open()
    assert snapshot.format is DELTA
    assert snapshot.location == str(made.folder)
    assert snapshot.files.table.column_names == [
        "path",
        "bytes",
        "rows",
        "deleted_rows",
        "partition.p",
        "modified",
        "base_row_id",
        "default_row_commit_version",
        "g.xmin",
        "g.ymin",
        "g.xmax",
        "g.ymax",
        "g.zmin",
        "g.zmax",
        "g.mmin",
        "g.mmax",
        "g.null_count",
        "g.types",
        "g.source",
        "g.problem",
    ]
    row = snapshot.files.table.to_pylist()[0]
    assert (row["rows"], row["base_row_id"], row["default_row_commit_version"]) == (3, 30, 2)
    assert row["modified"] == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)


def test_a_table_without_files_opens(made):
    snapshot = made.commit(0, protocol("geospatial"), metadata(field("g", "geography(OGC:CRS84, spherical)"))).open()
    assert len(snapshot.files) == 0
    assert len(snapshot.files.boxes("g")) == 0
    assert len(snapshot.scalars(("g",))) == 0


def test_geo_columns_in_lists_have_no_statistics(made):
    points = {"type": "array", "elementType": "geometry(OGC:CRS84)", "containsNull": True}
    snapshot = made.commit(0, protocol("geospatial"), metadata(field("gs", points)), add("a", {"numRecords": 1})).open()
    assert snapshot.files.table["gs.element.xmin"].to_pylist() == [None]
    assert snapshot.scalars(("gs", "element")) is None


PATHS = {
    "special%20p@%23h": "special p@#h",
    "plain.parquet": "plain.parquet",
    "s3://other-bucket/clone/a%20b.parquet": "s3://other-bucket/clone/a b.parquet",
    "file:///data/%C3%BC.parquet": "file:///data/ü.parquet",
    "100%.parquet": "100%.parquet",
    "%ff": "%ff",
}


@pytest.mark.parametrize("stored", PATHS)
def test_paths_stay_as_stored_and_are_decoded_for_reading(made, stored):
    made.commit(0, protocol(), metadata(), add(stored))
    assert made.open().files.table["path"].to_pylist() == [stored]
    assert decoded_path(stored) == PATHS[stored]


def test_which_columns_have_statistics_by_design(made):
    fields = [field(f"c{number}", "long") for number in range(40)]
    made.commit(0, protocol(), metadata(*fields)).commit(
        1, metadata(*fields, **{"delta.dataSkippingNumIndexedCols": "1"})
    )
    made.commit(2, metadata(*fields, **{"delta.dataSkippingStatsColumns": "C3,`c5`"}))
    assert ("c31",) in made.open(version=0).details.indexed
    assert ("c32",) not in made.open(version=0).details.indexed
    assert made.open(version=1).details.indexed == {("c0",)}
    assert made.open(version=2).details.indexed == {("c3",), ("c5",)}


def test_details_hold_what_only_delta_has(made):
    made.commit(
        0,
        {"commitInfo": {"operation": "WRITE", "engineInfo": "e"}},
        protocol(),
        metadata(field("id", "long"), k="v"),
        add("a", "{}"),
    )
    snapshot = made.open()
    assert snapshot.properties == {"k": "v"}
    assert snapshot.details.protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert snapshot.details.commit_info["engineInfo"] == "e"
    assert snapshot.details.stats.raw.to_pylist() == ["{}"]
    assert snapshot.details.segment.version == 0


def test_commit_info_is_found_when_a_checkpoint_or_a_compacted_log_covers_the_commit(made):
    start = (protocol(), metadata())
    made.checkpoint(2, *start).commit(2, {"commitInfo": {"operation": "A"}})
    assert made.open().details.commit_info == {"operation": "A"}
    made.commit(3, {"commitInfo": {"operation": "B"}}).commit(4, {"commitInfo": {"operation": "C"}}).compacted(
        3, 4, add("a")
    )
    assert made.open().details.commit_info == {"operation": "C"}
    (made.log / f"{4:020}.json").unlink()
    assert made.open().details.commit_info is None
    assert made.open().timestamp is None


def test_an_unknown_column_mapping_is_refused(made):
    made.commit(0, protocol(), metadata(field("id", "long"), **{"delta.columnMapping.mode": "magic"}))
    with pytest.raises(UnsupportedTableError, match="unknown column mapping 'magic'; known: id, name, none"):
        made.open()


def test_errors_of_one_column_do_not_hide_in_scalars(made):
    made.commit(0, protocol(), metadata(field("id", "long")), add("a"))
    assert made.open().scalars(("ID",)) is None
    with pytest.raises(SchemaError):
        made.open().schema.find("nope")
