"""Tables with one commit to be killed, and what readers apart from the package see of them afterwards."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
import geolake_nb.api.plan
import geolake_nb.api.table
from geolake_nb.formats.havasu.commit import commit
from geolake_nb.formats.parquet.replace import commit_set
from geolake_nb.formats.storage import Storage
from geolake_nb.spark.applying import Place
from geolake_nb.spark.havasu_commit import commit_change
from tests import small_tables
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.havasu_rows import EWKB, append, create, entries_of, metadata_of, restating_all, written
from tests.formats.havasu_rows import points as havasu_points
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet import test_replace, test_steps_that_fail
from tests.formats.parquet_sets import make_set, seen
from tests.promises.foreign_fields import iceberg_entries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    return max(int(one.stem) for one in (folder / "_delta_log").glob("0*.json"))


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
    return sorted(one for path in live for one in pq.read_table(folder / path)["id"].to_pylist())


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
    commit(storage, restating_all(storage))


def havasu_rewrite(folder: Path) -> None:
    """Both files become one; the executors' part of the job is done here."""
    storage = Storage.at(str(folder))
    change = written(storage, gl.open(folder).plan_rewrite(cluster_by="geom").change, [havasu_points(6)])
    commit_change(change, Place(storage, str(uuid.uuid4())))


def havasu_ids(folder: Path) -> list[int]:
    """The ids by the entries as fastavro reads them."""
    paths = [one["data_file"]["file_path"] for one in entries_of(folder) if one["status"] != 2]
    return sorted(one for path in paths for one in pq.read_table(path, columns=["id"])["id"].to_pylist())


def havasu_version(folder: Path) -> int:
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
    return max(int(one.name[1:].split(".")[0]) for one in (folder / "metadata").glob("v*.metadata.json"))


def iceberg_ids(folder: Path) -> list[int]:
    """The ids by the entries as fastavro reads them."""
    paths = [one["data_file"]["file_path"].removeprefix("file:") for one in iceberg_entries(folder)]
    return sorted(one for path in paths for one in pq.read_table(path, columns=["id"])["id"].to_pylist())


# ---- Parquet


def parquet_set(folder: Path) -> None:
    make_set(folder)


def parquet_rewrite(folder: Path) -> None:
    commit_set(Storage.at(str(folder)), test_replace.rewrite(folder))


def parquet_append(folder: Path) -> None:
    commit_set(Storage.at(str(folder)), test_steps_that_fail.append(folder))


def parquet_undo_set(folder: Path) -> None:
    parquet_set(folder)
    parquet_rewrite(folder)


CASES = {
    "delta repair": Case(delta_without_boxes, repair, undo),
    "delta collation": Case(delta_with_collation, drop_collation, undo),
    "delta undo": Case(delta_repaired, undo, repair),
    **{
        f"havasu {version} {verb}": Case(havasu(version), change, havasu_append)
        for version, verb, change in (
            (1, "append", havasu_append),
            (2, "repair", havasu_repair),
            (2, "rewrite", havasu_rewrite),
        )
    },
}
SETS = {
    "repair": Case(parquet_set, repair, undo),
    "rewrite": Case(parquet_set, parquet_rewrite, undo),
    "append": Case(parquet_set, parquet_append, undo),
    "undo": Case(parquet_undo_set, undo, parquet_rewrite),
}
VERSIONS = {"delta": delta_version, "havasu": havasu_version}
IDS = {"delta": delta_ids, "havasu": havasu_ids, "parquet": seen}
