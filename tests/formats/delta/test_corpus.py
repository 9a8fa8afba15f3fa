"""Every table of the corpus opens as its index says, and as deltalake reads it, or is refused with the reason."""

from __future__ import annotations

import csv
import datetime as dt
import os
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.delta import delta_history, is_delta, open_delta
from geolake_nb.storage.storage import Storage

REFUSED = {
    "delta-golden/corrupted-last-checkpoint": (CorruptTableError, "the metaData action has no schemaString"),
    "delta-golden/deltalog-invalid-protocol-version": (UnsupportedTableError, "the table needs reader version 99"),
    "delta-golden/versions-not-contiguous": (CorruptTableError, "the log has a gap: version 1 is missing"),
}


def index() -> list[dict[str, str]]:
    folder = os.environ.get("GEOLAKE_CORPUS")
    if not folder or not Path(folder, "delta", "INDEX.csv").exists():
        return []
    with Path(folder, "delta", "INDEX.csv").open() as file:
        return list(csv.DictReader(file))


ROWS = [pytest.param(row, id=row["table"]) for row in index()]
GOOD = [case for case in ROWS if case.values[0]["table"] not in REFUSED]
PEERED = [case for case in GOOD if case.values[0]["deltalake_result"] == "ok"]


def test_the_corpus_has_all_its_tables(corpus):
    assert len(ROWS) == 34


@pytest.mark.parametrize("table", REFUSED)
def test_a_broken_table_is_refused_with_the_reason(corpus, table):
    error, reason = REFUSED[table]
    storage = Storage.at(str(corpus / "delta" / table))
    assert is_delta(storage)
    with pytest.raises(error, match=reason):
        open_delta(storage)


@pytest.mark.parametrize("row", GOOD)
def test_a_table_opens_as_the_index_says(corpus, row):
    storage = Storage.at(str(corpus / "delta" / row["table"]))
    snapshot = open_delta(storage)
    assert snapshot.version == int(row["json_commits"]) - 1
    assert snapshot.protocol.numbers == {
        "minReaderVersion": int(row["minReader"]),
        "minWriterVersion": int(row["minWriter"]),
    }
    assert all(feature.known for feature in snapshot.protocol.features)
    assert set(row["features"].split()) <= {feature.name for feature in snapshot.protocol.features}
    assert list(snapshot.partition_columns) == row["partitionColumns"].split()
    assert snapshot.details.column_mapping.value == (row["columnMapping"] or "none")
    assert len(delta_history(storage)) == int(row["json_commits"])
    checkpoint = snapshot.details.segment.checkpoint
    assert (checkpoint is not None) == bool(row["checkpoints"])


@pytest.mark.parametrize("row", PEERED)
def test_deltalake_reads_the_same_files_rows_and_statistics(corpus, row):
    deltalake = pytest.importorskip("deltalake")
    table = deltalake.DeltaTable(str(corpus / "delta" / row["table"]))
    snapshot = open_delta(Storage.at(str(corpus / "delta" / row["table"])))
    actions = pa.table(table.get_add_actions(flatten=True))
    assert snapshot.version == table.version()
    theirs = {unquote(unquote(action["path"])): action for action in actions.to_pylist()}
    paths = [unquote(unquote(path)) for path in snapshot.files.table["path"].to_pylist()]
    assert sorted(paths) == sorted(theirs)
    ours = snapshot.files.table.to_pylist()
    for path, mine in zip(paths, ours, strict=True):
        peer = theirs[path]
        assert mine["bytes"] == peer["size_bytes"]
        stored = None if mine["rows"] is None else mine["rows"] + mine["deleted_rows"]
        assert stored == peer.get("num_records")
        for name in snapshot.partition_columns:
            value = peer[f"partition.{name}"]
            assert mine[f"partition.{name}"] == value
    compared = 0
    for name in (field.name for field in snapshot.schema.fields if field.name not in snapshot.partition_columns):
        scalar = snapshot.scalars((name,))
        if scalar is None:
            continue
        (physical,) = snapshot.details.column_mapping.physical(snapshot.schema, (name,))
        for column, key in ((scalar.minimum, "min"), (scalar.maximum, "max"), (scalar.null_count, "null_count")):
            for path, value in zip(paths, column.to_pylist(), strict=True):
                peer = theirs[path].get(f"{key}.{physical}")
                if key == "null_count" and value is None:
                    continue  # ours is unknown under wide bounds
                if value is None and "delta.typeChanges" in snapshot.schema.find(name).metadata:
                    continue  # the text of a float is not that of the double that it becomes
                wider = dt.timedelta(microseconds=999) if isinstance(value, dt.datetime) and key == "max" else None
                assert (value if wider is None else value - wider) == peer, (name, key)
                compared += peer is not None
    assert compared or row["adds_with_stats"] == "0" or not paths
