"""Tables that Spark 4.1.4 with Iceberg 1.12.0 writes are opened with what Spark says of them."""

from __future__ import annotations

import json
import subprocess

import pytest

from geolake_nb.formats.iceberg.snapshot import iceberg_history, open_iceberg
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.storage.storage import Storage
from tests.formats.iceberg.make_spark_fixtures import NoSparkError, locked, make

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables():
    """The tables, made once on a machine and kept in the cache folder: they never change."""
    with locked() as cache:
        folder = cache / "spark-4.1.4-iceberg-1.12.0-tables"
        if not (folder / "truth.json").exists():
            try:
                make(folder)
            except (NoSparkError, OSError, subprocess.SubprocessError) as problem:
                pytest.skip(f"Spark 4.1.4 with Iceberg cannot be run here: {problem}")
    return folder


def opened(tables, name, **options):
    return open_iceberg(Storage.at(str(tables / "db" / name)), **options)


@pytest.mark.parametrize("name", ["geo", "plain"])
def test_files_counts_and_rows_are_those_that_spark_lists(tables, name):
    truth = json.loads((tables / "truth.json").read_text())[name]
    snapshot = opened(tables, name)
    data = {file["file_path"]: file for file in truth["files"] if file["content"] == 0}
    table = snapshot.files.table
    paths = table["path"].to_pylist()
    assert sorted(paths) == sorted(data)
    assert table["bytes"].to_pylist() == [data[path]["file_size_in_bytes"] for path in paths]
    physical = [
        live + gone for live, gone in zip(table["rows"].to_pylist(), table["deleted_rows"].to_pylist(), strict=True)
    ]
    assert physical == [data[path]["record_count"] for path in paths]
    assert sum(table["rows"].to_pylist()) == truth["rows"]
    listed = [entry.version for entry in iceberg_history(Storage.at(str(tables / "db" / name)))]
    assert listed == [snapshot["snapshot_id"] for snapshot in truth["snapshots"]]


def test_the_types_that_spark_writes_are_read(tables):
    schema = opened(tables, "geo").schema
    assert isinstance(schema.find("g").type, GeometryType)
    assert isinstance(schema.find("h").type, GeographyType)
    assert not opened(tables, "geo").details.quoted_types


def test_spark_writes_counts_and_no_boxes_for_geo_columns(tables):
    table = opened(tables, "geo").files.table
    for name in ("g", "h"):
        assert table[f"{name}.xmin"].null_count == len(table)
        assert sorted(table[f"{name}.null_count"].to_pylist()) == [0, 0, 0, 1]


def test_the_row_that_spark_deleted_with_a_vector_is_counted(tables):
    snapshot = opened(tables, "geo")
    assert snapshot.details.delete_files["kind"].to_pylist() == ["deletion-vector"]
    assert sorted(snapshot.files.table["deleted_rows"].to_pylist()) == [0, 0, 0, 1]
    before = opened(tables, "geo", ref="before_delete")
    assert sum(before.files.table["rows"].to_pylist()) == 13


def test_bounds_partitions_and_promised_types_of_a_plain_table(tables):
    import datetime as dt
    import decimal

    snapshot = opened(tables, "plain")
    assert snapshot.partition_columns == ("day(t)", "bucket(4, id)")
    days = snapshot.files.table["partition.t_day"].to_pylist()
    assert sorted(days)[0] == dt.date(2024, 2, 28)
    assert set(snapshot.files.table["partition.id_bucket"].to_pylist()) <= {0, 1, 2, 3}
    ids = snapshot.scalars(("id",)).minimum.to_pylist()
    assert sorted(ids) == [0, 1, 2, 3, 4, 5]
    decimals = snapshot.scalars(("d",)).minimum.to_pylist()
    assert decimals == [decimal.Decimal(id_) * decimal.Decimal("1.5") for id_ in ids]
    texts = snapshot.scalars(("s",))
    for id_, low, high in zip(ids, texts.minimum.to_pylist(), texts.maximum.to_pylist(), strict=True):
        value = chr(97 + id_) * 40
        assert low <= value <= high
    floats = snapshot.scalars(("f",))
    assert floats.minimum.to_pylist()[ids.index(2)] is None
    assert floats.nan_count.to_pylist()[ids.index(2)] == 1
