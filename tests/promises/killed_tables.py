"""Tables with one commit to be killed, and what readers apart from the package see of them afterwards."""

from __future__ import annotations

import json
import pickle
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
import geolake_nb.api.plan
import geolake_nb.api.table
import geolake_nb.formats.delta.commit
import geolake_nb.formats.havasu.commit
from geolake_nb.api.writing import plan_write
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.havasu.commit import commit
from geolake_nb.formats.parquet_folder.commit import commit_set
from geolake_nb.formats.registry import FORMATS
from geolake_nb.storage.storage import Storage
from tests import small_tables
from tests.changes.repair_tables import typed, wkb
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.havasu_rows import (
    EWKB,
    append,
    create,
    entries_of,
    metadata_of,
    planned_append,
    planned_table,
    updating_all_bounds,
    written,
)
from tests.formats.havasu_rows import points as havasu_points
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet_folder import test_commit, test_steps_that_fail
from tests.formats.parquet_sets import make_set, seen
from tests.promises.foreign_fields import iceberg_entries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from geolake_nb.model.change import Change

    Work = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """A table, a change that makes its next version, and another one that comes after it."""

    make: Work
    change: Work
    after: Work


# ---- Delta


def delta_without_boxes(folder: Path) -> None:
    small_tables.make_delta(folder, bounds=False)


def delta_with_collation(folder: Path) -> None:
    made = LogMaker(folder)
    names = field("name", "string", __COLLATIONS={"name": "icu.de_CI"})
    features = protocol("geospatial", "collations", "domainMetadata", reader=("geospatial",))
    made.commit(0, features, metadata(field("id", "long"), names))
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder / "a.parquet")
    made.commit(1, add("a.parquet", {"numRecords": 2}, size=(folder / "a.parquet").stat().st_size))


def delta_repaired(folder: Path) -> None:
    delta_without_boxes(folder)
    repair(folder)


def repair(folder: Path) -> None:
    plan = gl.open(folder).plan_repair()
    assert not plan.is_empty
    plan.apply()


def drop_collation(folder: Path) -> None:
    gl.open(folder).plan_collations({"name": None}).apply(consent={"collations"})


def undo(folder: Path) -> None:
    gl.open(folder).plan_undo().apply()


def delta_version(folder: Path) -> int:
    """The newest version, -1 where there is none."""
    return max((int(file.stem) for file in (folder / "_delta_log").glob("0*.json")), default=-1)


def delta_ids(folder: Path) -> list[int]:
    """The ids by the log entries, one after the other."""
    live: dict[str, None] = {}
    for version in range(delta_version(folder) + 1):
        for line in (folder / "_delta_log" / f"{version:020}.json").read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                del live[action["remove"]["path"]]
            if "add" in action:
                live[action["add"]["path"]] = None
    return sorted(id_ for path in live for id_ in pq.read_table(folder / path)["id"].to_pylist())


# ---- changes whose data files exist, so that only the commit is killed


def planned(folder: Path, change: Change, *rows: pa.Table) -> None:
    """Write the files of a change, and put the change beside the table for `commit_planned`."""
    storage = Storage.at(str(folder))
    _beside(folder).write_bytes(pickle.dumps(written(storage, change, rows) if rows else change))


def commit_planned(folder: Path) -> None:
    _commit(folder, pickle.loads(_beside(folder).read_bytes()))


def _commit(folder: Path, change: Change) -> None:
    FORMATS[change.format.name].commit(change, CommitContext(Storage.at(str(folder)), str(uuid.uuid4())))


def _beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.change")


def delta_rows(first: int) -> pa.Table:
    """Three rows with ids from there on."""
    return pa.table({"id": pa.array(range(first, first + 3), pa.int64()), "geom": typed(wkb(*["POINT (3 4)"] * 3))})


def delta_to_create(folder: Path) -> None:
    folder.mkdir()
    planned(folder, plan_write(delta_rows(0), folder).change, delta_rows(0))


def delta_to_append(folder: Path) -> None:
    delta_without_boxes(folder)
    planned(folder, plan_write(delta_rows(50), folder, mode="append").change, delta_rows(50))


def delta_append(folder: Path) -> None:
    change = plan_write(delta_rows(60), folder, mode="append").change
    _commit(folder, written(Storage.at(str(folder)), change, [delta_rows(60)]))


def delta_to_rewrite(folder: Path) -> None:
    """Three files become one."""
    delta_without_boxes(folder)
    rows = pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))
    planned(folder, gl.open(folder).plan_rewrite(cluster_by="geom").change, rows)


def delta_to_enable(folder: Path) -> None:
    made = LogMaker(folder)
    made.commit(0, protocol(), metadata(field("id", "long"), field("raw", "binary")))
    plan = gl.open(folder).plan_enable({"raw": gl.geometry()})
    assert plan.change.job is None
    planned(folder, plan.change)


# ---- Havasu


def havasu(version: int) -> Work:
    return _HAVASU[version]


def havasu_1(folder: Path) -> None:
    create(folder, havasu_points(3), havasu_points(3, first=3), columns=EWKB, version=1)


def havasu_2(folder: Path) -> None:
    create(folder, havasu_points(3), havasu_points(3, first=3), columns=EWKB, version=2)


_HAVASU = {1: havasu_1, 2: havasu_2}


def havasu_append(folder: Path) -> None:
    append(folder, havasu_points(2, first=50))


def havasu_repair(folder: Path) -> None:
    storage = Storage.at(str(folder))
    commit(storage, updating_all_bounds(storage))


def havasu_rewrite(folder: Path) -> None:
    """Both files become one; the executors' part of the job is done here."""
    storage = Storage.at(str(folder))
    _commit(folder, written(storage, gl.open(folder).plan_rewrite(cluster_by="geom").change, [havasu_points(6)]))


def havasu_to_create(folder: Path) -> None:
    folder.mkdir(parents=True)
    planned(folder, planned_table(Storage.at(str(folder)), havasu_points(3), columns=EWKB))


def havasu_to_overwrite(folder: Path) -> None:
    havasu_2(folder)
    planned(folder, planned_append(Storage.at(str(folder)), havasu_points(2, first=70), overwrite=True))


def havasu_appended(folder: Path) -> None:
    havasu_2(folder)
    havasu_append(folder)


def havasu_ids(folder: Path) -> list[int]:
    """The ids by the entries as fastavro reads them; none where there is no table."""
    if havasu_version(folder) < 0:
        return []
    paths = [entry["data_file"]["file_path"] for entry in entries_of(folder) if entry["status"] != 2]
    return sorted(id_ for path in paths for id_ in pq.read_table(path, columns=["id"])["id"].to_pylist())


def havasu_version(folder: Path) -> int:
    """How many metadata files came before the newest, -1 where there is none."""
    if not list(folder.glob("metadata/*.metadata.json")):
        return -1
    return len(metadata_of(folder)["metadata-log"])


# ---- Iceberg


def iceberg_without_boxes(folder: Path) -> None:
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    rows, file = small_tables.data((1, 2)), pa.BufferOutputStream()
    pq.write_table(rows, file)
    # Iceberg's reader goes by the size that the entry states.
    files = [FileEntry(f"{name}.parquet", rows=4, bytes=file.getvalue().size, table=rows) for name in "ab"]
    make_iceberg_table(folder, columns, files[:1], files[1:], version=3)


def iceberg_version(folder: Path) -> int:
    return max(int(file.name[1:].split(".")[0]) for file in (folder / "metadata").glob("v*.metadata.json"))


def iceberg_ids(folder: Path) -> list[int]:
    """The ids by the entries as fastavro reads them."""
    live = [entry["data_file"]["file_path"] for entry in iceberg_entries(folder) if entry["status"] != 2]
    paths = [path.removeprefix("file:") for path in live]
    return sorted(id_ for path in paths for id_ in pq.read_table(path, columns=["id"])["id"].to_pylist())


# ---- Parquet


def parquet_set(folder: Path) -> None:
    make_set(folder)


def parquet_rewrite(folder: Path) -> None:
    commit_set(Storage.at(str(folder)), test_commit.rewrite(folder))


def parquet_append(folder: Path) -> None:
    commit_set(Storage.at(str(folder)), test_steps_that_fail.append(folder))


def parquet_undo_set(folder: Path) -> None:
    parquet_set(folder)
    parquet_rewrite(folder)


CASES = {
    "delta repair": Case(delta_without_boxes, repair, undo),
    "delta collation": Case(delta_with_collation, drop_collation, undo),
    "delta undo": Case(delta_repaired, undo, repair),
    "delta create": Case(delta_to_create, commit_planned, delta_append),
    "delta append": Case(delta_to_append, commit_planned, undo),
    "delta rewrite": Case(delta_to_rewrite, commit_planned, undo),
    "delta enable": Case(delta_to_enable, commit_planned, undo),
    "havasu 2 create": Case(havasu_to_create, commit_planned, havasu_append),
    **{
        f"havasu {version} {verb}": Case(havasu(version), change, havasu_append)
        for version, verb, change in (
            (1, "append", havasu_append),
            (2, "repair", havasu_repair),
            (2, "rewrite", havasu_rewrite),
        )
    },
    "havasu 2 overwrite": Case(havasu_to_overwrite, commit_planned, havasu_append),
    "havasu 2 undo": Case(havasu_appended, undo, havasu_append),
}
SETS = {
    "repair": Case(parquet_set, repair, undo),
    "rewrite": Case(parquet_set, parquet_rewrite, undo),
    "append": Case(parquet_set, parquet_append, undo),
    "undo": Case(parquet_undo_set, undo, parquet_rewrite),
}
VERSIONS = {"delta": delta_version, "havasu": havasu_version}
IDS = {"delta": delta_ids, "havasu": havasu_ids, "parquet": seen}
