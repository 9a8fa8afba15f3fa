"""What PyIceberg writes with the bridge is read by Iceberg's own classes: metadata, manifest lists, manifests."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import GeometryType

from geolake_nb.pyiceberg.manifests import first_row_id
from tests.pyiceberg.geo_rows import make_table, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def table(bridge, catalog):
    """A partitioned table of version 3 with appends, an overwrite and another schema."""
    made = make_table(catalog)
    with made.update_spec() as update:
        update.add_field("name", IdentityTransform())
    made.append(rows(0))
    with made.update_schema() as update:
        update.add_column("more", GeometryType("EPSG:3857"))
        update.rename_column("geom", "shape")
    made.append(rows(10, count=2).rename_columns(["id", "name", "shape", "geog"]))
    made.delete("name = 'n1'")
    made.overwrite(rows(20, count=1).rename_columns(["id", "name", "shape", "geog"]), "name = 'n10'")
    return made


@pytest.fixture
def core(spark):
    return spark._jvm.org.apache.iceberg


def read_metadata(core, table):
    text = table.io.new_input(table.metadata_location).open().read().decode()
    return text, core.TableMetadataParser.fromJson(table.metadata_location, text)


def without(value, *keys):
    return {key: part for key, part in value.items() if key not in keys}


def test_iceberg_parses_the_metadata_and_writes_the_same(table, core):
    text, parsed = read_metadata(core, table)
    theirs, ours = json.loads(core.TableMetadataParser.toJson(parsed)), json.loads(text)
    assert theirs["next-row-id"] == ours["next-row-id"] == table.metadata.next_row_id == 9
    # Java leaves out or adds what has no content: the same fields are there otherwise, and nothing unknown.
    empty = {key for key in theirs.keys() | ours.keys() if not theirs.get(key) and not ours.get(key)}
    assert theirs.keys() - empty == ours.keys() - empty
    for key in ours.keys() - empty - {"schemas", "snapshots", "refs", "partition-specs"}:
        assert theirs[key] == ours[key], key
    for mine, other in zip(ours["snapshots"], theirs["snapshots"], strict=True):
        assert other == mine
    for mine, other in zip(ours["schemas"], theirs["schemas"], strict=True):
        assert without(mine, "identifier-field-ids") == other


def test_snapshots_number_their_rows(table):
    numbered = [
        (snapshot.sequence_number, snapshot.first_row_id, snapshot.added_rows) for snapshot in table.metadata.snapshots
    ]
    # Iceberg, Row Lineage: a manifest that is written again reserves ids for its existing rows too, as in Java.
    assert numbered == [(1, 0, 3), (2, 3, 2), (3, 5, 2), (4, 7, 1), (5, 8, 1)]


def test_iceberg_reads_manifest_lists_and_manifests(table, core, spark):
    _, parsed = read_metadata(core, table)
    jvm = spark._jvm
    io = jvm.org.apache.iceberg.hadoop.HadoopFileIO(spark.sparkContext._jsc.hadoopConfiguration())
    snapshot = parsed.currentSnapshot()
    listed = list(snapshot.allManifests(io))
    ours = {manifest.manifest_path: manifest for manifest in table.current_snapshot().manifests(table.io)}
    assert {str(manifest.path()) for manifest in listed} == ours.keys()
    files = {}
    for manifest in listed:
        mine = ours[str(manifest.path())]
        assert manifest.length() == mine.manifest_length
        assert (manifest.sequenceNumber(), manifest.minSequenceNumber()) == (
            mine.sequence_number,
            mine.min_sequence_number,
        )
        counts = ("added_files", "existing_files", "deleted_files", "added_rows", "existing_rows", "deleted_rows")
        for name in counts:
            method = "".join(word.title() if index else word for index, word in enumerate(f"{name}_count".split("_")))
            assert getattr(manifest, method)() == getattr(mine, f"{name}_count"), name
        assert manifest.firstRowId() is not None
        (summary,) = manifest.partitions()
        assert (summary.containsNull(), bytes(summary.lowerBound().array())) == (
            mine.partitions[0].contains_null,
            mine.partitions[0].lower_bound,
        )
        entries = core.ManifestFiles.read(manifest, io, parsed.specsById()).iterator()
        while entries.hasNext():
            file = entries.next()
            files[str(file.location())] = (
                file.firstRowId(), file.dataSequenceNumber(), file.fileSequenceNumber(), file.recordCount(),
                str(file.partition().get(0, jvm.java.lang.Class.forName("java.lang.CharSequence"))),
            )  # fmt: skip
    live = [entry for manifest in ours.values() for entry in manifest.fetch_manifest_entry(table.io)]
    assert files == {
        entry.data_file.file_path: (
            first_row_id(entry.data_file), entry.sequence_number, entry.file_sequence_number,
            entry.data_file.record_count, entry.data_file.partition[0],
        )
        for entry in live
    }  # fmt: skip
    assert sorted((numbers[4], numbers[0], numbers[1]) for numbers in files.values()) == [
        ("n0", 0, 1), ("n11", 4, 2), ("n2", 2, 1), ("n20", 8, 5)
    ]  # fmt: skip


def test_a_table_of_version_2_is_upgraded(bridge, catalog, core):
    """Iceberg, Row Lineage for Upgraded Tables: rows of before get their ids with the first new snapshot."""
    plain = rows(0).select(["id", "name"])
    made = catalog.create_table("ns.older", schema=plain.schema)
    made.append(plain)
    made.append(plain)
    with made.transaction() as transaction:
        transaction.upgrade_table_version(3)
    assert made.metadata.format_version == 3
    text, _ = read_metadata(core, made)
    assert json.loads(text)["next-row-id"] == 0
    with made.update_schema() as update:
        update.add_column("geom", GeometryType())
    made.append(rows(5, count=1).select(["id", "name", "geom"]))
    _, parsed = read_metadata(core, made)
    current = parsed.currentSnapshot()
    assert (parsed.nextRowId(), current.firstRowId(), current.addedRows()) == (7, 0, 7)
    made.append(rows(6, count=1).select(["id", "name", "geom"]))
    entries = [
        entry
        for manifest in made.current_snapshot().manifests(made.io)
        for entry in manifest.fetch_manifest_entry(made.io)
    ]
    # Each row has an id of its own, and those that were given once stay.
    ranges = sorted((first_row_id(entry.data_file), entry.data_file.record_count) for entry in entries)
    assert ranges == [(0, 1), (1, 3), (4, 3), (7, 1)]
    assert pa.concat_tables([plain, plain]).num_rows + 2 == made.scan().to_arrow().num_rows
