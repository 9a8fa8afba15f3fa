"""Every Iceberg table of the corpus opens with the files that its index implies, and as PyIceberg opens it."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import fastavro
import pytest
from pyiceberg.table import StaticTable

from geolake_nb.errors import CorruptTableError, MissingFileError, OpenError, StorageError, UnsupportedTableError
from geolake_nb.formats.iceberg.location import split_metadata_path
from geolake_nb.formats.iceberg.snapshot import is_iceberg, open_iceberg
from geolake_nb.model.file_table import physical_rows
from geolake_nb.storage.storage import Storage


def metadata_rows():
    folder = os.environ.get("GEOLAKE_CORPUS")
    if not folder:
        return []
    with (Path(folder) / "iceberg" / "INDEX.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["kind"] == "table-metadata"]


ROWS = metadata_rows()
TABLES = [row["file"] for row in ROWS if row["file"].startswith("duckdb-iceberg/")]
# The metadata names a manifest list that the corpus does not hold.
MISSING = ["duckdb-iceberg/equality_deletes/warehouse/mydb/mytable/metadata/v3.metadata.json"]

# PyIceberg insists on a manifest list, which version 1 may do without.
NOT_PYICEBERG = ["duckdb-iceberg/iceberg_v1_deprecated/default/legacy_v1/metadata/v2.metadata.json"]


def opened(corpus, file, **options):
    root, metadata = split_metadata_path(str(corpus / "iceberg" / file))
    return open_iceberg(Storage.at(root), metadata=metadata, **options)


def live_records(root, snapshot):
    """The entries of a snapshot that are not deleted, by fastavro only; paths are compared by their last part."""
    folder = root / "metadata"
    if "manifest-list" in snapshot:
        with (folder / snapshot["manifest-list"].rpartition("/")[2]).open("rb") as file:
            paths = [row["manifest_path"] for row in fastavro.reader(file)]
    else:
        paths = snapshot["manifests"]
    for path in paths:
        with (folder / path.rpartition("/")[2]).open("rb") as file:
            yield from (row["data_file"] for row in fastavro.reader(file) if row["status"] != 2)


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_each_metadata_file_opens_as_its_index_says_or_is_refused(corpus, row):
    if row["file"] in MISSING:
        with pytest.raises(MissingFileError, match="the manifest list of snapshot"):
            opened(corpus, row["file"])
        return
    if row["file"].startswith("apache-iceberg/"):
        check_text_only(corpus, row)
        return
    opened_table = opened(corpus, row["file"])
    raw = opened_table.details.raw
    assert raw["format-version"] == int(row["format_version"])
    assert len(raw.get("snapshots", [])) == int(row["snapshots_or_records"])
    current = row["current_snapshot_or_content"]
    assert opened_table.version == (None if current in ("", "-1") else int(current))
    root = (corpus / "iceberg" / row["file"]).parent.parent
    snapshot = next(
        (candidate for candidate in raw.get("snapshots", []) if candidate["snapshot-id"] == opened_table.version), None
    )
    records = [] if snapshot is None else list(live_records(root, snapshot))
    data = [record for record in records if not record.get("content")]
    assert opened_table.files.table["path"].to_pylist() == [record["file_path"] for record in data]
    assert opened_table.files.table["bytes"].to_pylist() == [record["file_size_in_bytes"] for record in data]
    assert physical_rows(opened_table.files.table).to_pylist() == [record["record_count"] for record in data]
    deletes = [record["file_path"] for record in records if record.get("content")]
    assert opened_table.details.delete_files["path"].to_pylist() == deletes


def check_text_only(corpus, row):
    """Metadata without a table around it: it opens if it has no snapshot, else its manifest list is out of reach."""
    name = row["file"].rpartition("/")[2]
    if "Unsupported" in name:
        with pytest.raises(UnsupportedTableError):
            opened(corpus, row["file"])
    elif "Missing" in name or "NotFound" in name:
        with pytest.raises(CorruptTableError):
            opened(corpus, row["file"])
    elif row["current_snapshot_or_content"] in ("", "-1"):
        assert len(opened(corpus, row["file"]).files) == 0
    else:
        with pytest.raises(StorageError, match=r"the manifest list of snapshot .* is outside the table"):
            opened(corpus, row["file"])


def test_every_table_folder_is_known_as_a_table(corpus):
    roots = {(corpus / "iceberg" / file).parent.parent for file in TABLES}
    assert len(roots) == 14
    for root in roots:
        storage = Storage.at(str(root))
        assert is_iceberg(storage)
        assert open_iceberg(storage).version is not None
    assert not is_iceberg(Storage.at(str(corpus / "iceberg")))


@pytest.fixture
def inside_corpus(corpus, tmp_path, monkeypatch):
    """A working directory from which the relative paths of the corpus lead to its files."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "persistent").symlink_to(corpus / "iceberg" / "duckdb-iceberg")
    for name in ("lineitem_iceberg", "lineitem_iceberg_gz"):
        (tmp_path / name).symlink_to(corpus / "iceberg" / "duckdb-iceberg" / "iceberg" / name)
    monkeypatch.chdir(tmp_path)


def plain(value):
    return value.as_py() if hasattr(value, "as_py") else value


@pytest.mark.parametrize("file", [file for file in TABLES if file not in (*MISSING, *NOT_PYICEBERG)])
def test_files_counts_and_bounds_agree_with_pyiceberg(corpus, inside_corpus, file):
    theirs = StaticTable.from_metadata(str(corpus / "iceberg" / file)).inspect.data_files()
    snapshot = opened(corpus, file)
    rows = sorted(theirs.to_pylist(), key=lambda row: row["file_path"])
    order = sorted(range(len(rows)), key=lambda index: snapshot.files.table["path"][index].as_py())
    assert [snapshot.files.table["path"][index].as_py() for index in order] == [row["file_path"] for row in rows]
    assert [physical_rows(snapshot.files.table)[index].as_py() for index in order] == [
        row["record_count"] for row in rows
    ]
    for column in snapshot.schema.fields:
        scalars = snapshot.scalars((column.name,))
        if scalars is None:
            continue
        partitioned = column.name in snapshot.partition_columns
        for index, row in list(zip(order, rows, strict=True))[:200]:
            metrics = row["readable_metrics"][column.name]
            for ours, name in ((scalars.minimum, "lower_bound"), (scalars.maximum, "upper_bound")):
                # A partition value stands in for a bound that is not there.
                assert plain(ours[index]) == metrics[name] or (partitioned and metrics[name] is None)
            assert plain(scalars.null_count[index]) == metrics["null_value_count"]


def test_partition_values_are_typed(corpus):
    import datetime as dt

    base = "duckdb-iceberg/"
    integers = opened(corpus, base + "partition_integer/metadata/v2.metadata.json").files.table
    assert sorted(integers["partition.partition_col"].to_pylist()) == [42, 1337]
    binary = opened(corpus, base + "partition_binary/metadata/v2.metadata.json").files.table
    assert sorted(binary["partition.partition_col"].to_pylist()) == [b"\x01\x02\x03", b"\xaa\xbb\xcc"]
    folder = base + "partition_timestamptz/default.db/partition_timestamptz/metadata/"
    name = "00001-ffeadb58-2a9e-46ba-8b4f-f363f05de68c.metadata.json"
    times = opened(corpus, folder + name).files.table
    assert min(times["partition.partition_col"].to_pylist()) == dt.datetime(2023, 5, 15, 14, 30, 45, tzinfo=dt.UTC)
    days = opened(
        corpus,
        base + "map_stats/default.db/map_stats/metadata/00002-0e059d4b-e5e8-41af-a763-76cbf3a3d0bc.metadata.json",
    )
    assert days.partition_columns == ("day(timestamp)",)
    assert sorted(days.files.table["partition._day"].to_pylist()) == [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]


def test_a_snapshot_of_the_past_has_the_files_of_its_time(corpus):
    file = "duckdb-iceberg/equality_deletes/warehouse/mydb/mytable/metadata/v7.metadata.json"
    assert len(opened(corpus, file).files) == 2
    past = opened(corpus, file, snapshot_id=853766660775201079)
    assert len(past.files) == 1
    assert len(past.details.delete_files) == 0


def test_no_truncation_of_a_real_manifest_escapes_as_a_foreign_error(corpus, tmp_path):
    import shutil

    source = corpus / "iceberg" / "duckdb-iceberg" / "partition_integer"
    root = tmp_path / "t"
    shutil.copytree(source, root)
    (manifest,) = (root / "metadata").glob("*-m0.avro")
    (listed,) = (root / "metadata").glob("snap-*.avro")
    for path in (manifest, listed):
        whole = path.read_bytes()
        for end in range(0, len(whole), 211):
            path.chmod(0o644)
            path.write_bytes(whole[:end])
            with pytest.raises(OpenError):
                open_iceberg(Storage.at(str(root)))
        path.write_bytes(whole)
    assert len(open_iceberg(Storage.at(str(root))).files) == 2
