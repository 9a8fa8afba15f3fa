"""Changes of Havasu tables made without Spark: the files are written here, and the commit is the real one."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import uuid
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
import shapely

import geolake_nb as gl
from geolake_nb.api.input_rows import input_rows
from geolake_nb.changes.new_table import NewTable
from geolake_nb.changes.write_job import Packing, WriteJob
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.havasu.commit import HavasuCommit, commit, commit_change
from geolake_nb.formats.havasu.write import base_action, plan_append, plan_create, plan_overwrite
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.parquet.writer import ParquetWriter
from geolake_nb.storage.hive_paths import job_file_name
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_tables import encode, point

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from geolake_nb.formats.base import Applied
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot

EWKB = {"geom": gl.geometry(encoding="ewkb")}


def points(count: int, *, first: int = 0, encoding: str = "ewkb") -> pa.Table:
    """Rows with an id and a point at (id, -id)."""
    ids = np.arange(first, first + count)
    shapes = shapely.points(ids.astype(float), -ids.astype(float))
    return pa.table({"id": pa.array(ids, pa.int64()), "geom": encode(shapes, encoding)})


def written(storage: Storage, change: Change, rows: Sequence[pa.Table]) -> Change:
    """The change with a file for each table of rows, as executors write them."""
    job = change.job
    assert isinstance(job, WriteJob)
    adds = []
    for table in rows:
        partition = tuple(
            None if (value := table[name][0].as_py()) is None else str(value) for name in job.partition_by
        )
        name = f"{job_file_name('t', task=0, attempt=0)}-c000.zstd.parquet"
        key = "/".join(filter(None, [job.target.folder(partition), name]))
        with ParquetWriter(storage, key, job.target.layout(job)) as writer:
            for batch in table.to_batches():
                writer.write(batch)
        adds.append(job.target.entry(writer.close(), partition))
    return dataclasses.replace(change, job=None, actions=[*change.actions, *adds])


def planned_table(storage: Storage, *rows: pa.Table, **options: Any) -> Change:
    """The change that makes a table, with its files; it is not committed."""
    version = options.pop("version", 2)
    planned: dict[str, Any] = {"columns": {}, "partition_by": (), "packing": Packing(), **options}
    planned["properties"] = {"format-version": str(version), **planned.get("properties", {})}
    given = input_rows(rows[0], {}, "rows")
    return written(storage, plan_create(NewTable(given, given.schema, storage, **planned)), rows)


def create(folder: Path, *rows: pa.Table, transaction: str | None = None, **options: Any) -> Applied:
    """A new table with a file for each table of rows; `version` is that of Iceberg."""
    storage = Storage.at(str(folder))
    return commit_change(
        planned_table(storage, *rows, **options), CommitContext(storage, transaction or str(uuid.uuid4()))
    )


def append(folder: Path | str, *rows: pa.Table, transaction: str | None = None, overwrite: bool = False) -> Applied:
    storage = Storage.at(str(folder))
    change = planned_append(storage, *rows, overwrite=overwrite)
    return commit_change(change, CommitContext(storage, transaction or str(uuid.uuid4())))


def planned_append(storage: Storage, *rows: pa.Table, overwrite: bool = False) -> Change:
    """The change that adds rows, with its files; it is not committed."""
    planner = plan_overwrite if overwrite else plan_append
    change = planner(open_iceberg(storage), input_rows(rows[0], {}, "rows"), columns={}, packing=Packing())
    return written(storage, change, rows)


def commit_of(change: Change, transaction: str, operation: str = "append") -> HavasuCommit:
    return HavasuCommit(
        change.base_version,
        operation,
        change.actions,
        transaction,
        blind_append=change.blind_append,
        tolerates_appends=change.tolerates_appends,
    )


def commit_with(storage: Storage, change: HavasuCommit, act: Callable[[], Any]) -> Any:
    """Commit while another writer acts right before our metadata file is written for the first time."""
    done = []

    def put(path: str, data: bytes) -> None:
        if not done:
            done.append(path)
            act()
        storage.put_if_absent(path, data)

    return commit(storage, change, put=put)


def ids(folder: Path | str) -> list[int]:
    """The ids of all rows, by the files of the newest snapshot."""
    import pyarrow.parquet as pq

    snapshot = opened(folder)
    numbers: list[int] = []
    for path in snapshot.files.table["path"].to_pylist():
        numbers += pq.read_table(path, columns=["id"])["id"].to_pylist()
    return sorted(numbers)


def opened(folder: Path | str) -> Snapshot:
    return open_iceberg(Storage.at(str(folder)))


def metadata_of(folder: Path | str, *, as_spelled: bool = False) -> dict[str, Any]:
    """The newest metadata file, read apart from the package; its numbers as texts to have them `as_spelled`."""
    # Those that Iceberg is about to rename have other names.
    listed = os.listdir(os.path.join(folder, "metadata"))
    names = [name for name in listed if name.startswith("v") and name.endswith(".metadata.json")]
    newest = max(names, key=lambda name: int(name[1:].split(".")[0]))
    with open(os.path.join(folder, "metadata", newest)) as file:
        numbers: dict[str, Any] = {"parse_int": str, "parse_float": str} if as_spelled else {}
        metadata: dict[str, Any] = json.load(file, **numbers)
        return metadata


def entries_of(folder: Path | str, snapshot: int | None = None) -> list[dict[str, Any]]:
    """All manifest entries of a snapshot, the current one by default, with what the list says, read with fastavro."""
    metadata = metadata_of(folder)
    wanted = metadata["current-snapshot-id"] if snapshot is None else snapshot
    current = next(candidate for candidate in metadata["snapshots"] if candidate["snapshot-id"] == wanted)
    entries = []
    for listed in _records(current["manifest-list"]):
        entries += [{**entry, "listed": listed} for entry in _records(listed["manifest_path"])]
    return entries


def bounds_of(entry: dict[str, Any], name: str) -> dict[int, bytes]:
    return {pair["key"]: pair["value"] for pair in entry["data_file"][name] or ()}


def _records(path: str) -> list[Any]:
    with open(path, "rb") as file:
        return list(fastavro.reader(file))


def updating_all_bounds(storage: Storage) -> HavasuCommit:
    """A change that gives every file a larger box, so that its manifests are written again."""
    snapshot = opened(storage.location)
    actions = [
        json.dumps({"update_bounds": {"path": path, "bounds": {"2": [point(0, -9).hex(), point(9, 0).hex()]}}})
        for path in snapshot.files.table["path"].to_pylist()
    ]
    return HavasuCommit(snapshot.version, "replace", [base_action(snapshot), *actions], str(uuid.uuid4()))


def appends(folder: str, first: int, count: int) -> None:
    """So many commits of one row each."""
    for number in range(count):
        append(folder, points(1, first=first + number))


def killed(folder: str, change: HavasuCommit, step: object) -> None:
    """A commit that ends at a step as a process ends that is killed."""
    storage = Storage.at(folder)

    def die(now: object) -> None:
        if now is step:
            os.kill(os.getpid(), signal.SIGKILL)

    def put(path, data):
        die("before")
        storage.put_if_absent(path, data, on_step=die)
        die("after")

    commit(storage, change, put=put)
