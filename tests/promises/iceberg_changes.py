"""Changes of Iceberg tables without a Spark job: the files are written here, and the commit is the real one."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.api.input_rows import input_rows
from geolake_nb.changes.write_job import Packing
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.iceberg.commit import commit_change
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.formats.iceberg.write import plan_append
from geolake_nb.storage.storage import Storage
from tests import small_tables
from tests.formats.havasu_rows import written

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.model.change import Change


def repair(folder: Path, spark: SparkSession) -> Change:
    plan = gl.open(folder).plan_repair()
    assert not plan.is_empty
    plan.apply(spark=spark)
    return plan.change


def append(folder: Path, spark: SparkSession) -> Change:
    """Four rows more."""
    return _commit(_appended(folder), folder, spark)


def rewrite(folder: Path, spark: SparkSession) -> Change:
    """The first file of the table is rewritten, the others stay."""
    change = gl.open(folder).plan_rewrite(cluster_by="geom").change
    first = next(action for action in change.actions if "remove" in json.loads(action))
    (path,) = (action["path"] for action in json.loads(first).values())
    rows = pq.read_table(path)
    added = next(action for action in _appended(folder, rows).actions if "add" in json.loads(action))
    return _commit(replace(change, job=None, actions=[first, added]), folder, spark)


def undo(folder: Path, spark: SparkSession) -> Change:
    """The newest snapshot is undone, whoever made it."""
    table = gl.open(folder)
    plan = table.plan_undo(table.version)
    plan.apply(spark=spark)
    return plan.change


def _appended(folder: Path, rows: pa.Table | None = None) -> Change:
    storage = Storage.at(str(folder))
    input_table = small_tables.data((50.0, 60.0)) if rows is None else rows
    change = plan_append(open_iceberg(storage), input_rows(input_table, {}, "rows"), columns={}, packing=Packing())
    return written(storage, change, [input_table])


def _commit(change: Change, folder: Path, spark: SparkSession) -> Change:
    commit_change(change, CommitContext(Storage.at(str(folder)), str(uuid.uuid4()), spark))
    return change
