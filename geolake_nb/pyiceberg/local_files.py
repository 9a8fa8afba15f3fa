"""Writes the files of a job in this process: the same files as Spark's tasks write, by the same writer."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.changes.cell_columns import with_cells
from geolake_nb.changes.clustering import keying
from geolake_nb.errors import SchemaError, StorageError
from geolake_nb.formats.delta.constraints import bound_columns
from geolake_nb.formats.iceberg.partitions import partition_keys
from geolake_nb.model.schema import split_path
from geolake_nb.parquet.file_columns import leaf_values
from geolake_nb.spark.coerce import RowFitter, refuse_bad
from geolake_nb.spark.shuffle import partitions_of
from geolake_nb.spark.write_tasks import WriteTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.change import Change
    from geolake_nb.storage.storage import Storage

__all__ = ["write_files"]

_KEY = "__geolake_cluster_key"
_BATCH_ROWS = 1 << 16


def write_files(change: Change, job: WriteJob, storage: Storage, transaction: str) -> Change:
    """The change with the actions that add the files, which lie below the storage then.

    An error leaves no complete file behind that the change does not name.
    """
    rows = _fitted(job, where=storage.location)
    key = None
    if job.ordering is not None:
        key = _KEY
        rows = rows.append_column(key, pa.array(_cluster_keys(rows, job)))
    order = _order(rows, job.partition_by, key)
    if order is not None:
        rows = rows.take(order)
    # In Parquet, values take about half of what they do in memory.
    wanted = max(1, -(-rows.nbytes // (2 * job.target_bytes)))
    most = max(1, -(-rows.num_rows // wanted))
    task = WriteTask(
        storage=storage,
        layout=job.target.layout(job),
        target=job.target,
        partition_by=job.partition_by,
        transaction=transaction,
        max_bytes=job.target_bytes,
        max_rows=most,
        key=key,
        bound=bound_columns(job.schema),
    )
    files: list[dict[str, Any]] = []
    try:
        for result in task(iter(rows.to_batches(max_chunksize=min(_BATCH_ROWS, most)))):
            files += result.to_pylist()
    except BaseException:
        for file in files:
            with contextlib.suppress(StorageError):
                storage.remove(file["path"])
        raise
    metrics = {
        **change.metrics,
        "files_added": len(files),
        "rows_written": sum(file["rows"] for file in files),
        "bytes_added": sum(file["bytes"] for file in files),
    }
    adds = [file["entry"] for file in files]
    return dataclasses.replace(change, job=None, actions=(*change.actions, *adds), metrics=metrics)


def _fitted(job: WriteJob, *, where: str) -> pa.Table:
    """The rows with the columns of the table, shapes as ISO WKB, and with the keys of partitions."""
    frame = getattr(job.rows, "frame", None)
    if not isinstance(frame, pa.Table):
        raise SchemaError("the rows are not in memory", where=where, remedy="give a Spark session")
    schema = job.given_schema
    spelled = {field.name.casefold(): field.name for field in schema.fields}
    named = frame.rename_columns([spelled.get(name.casefold(), name) for name in frame.column_names])
    fitter = RowFitter(schema, job.geo_input)
    batches = [fitter.fit(batch) for batch in named.to_batches()]
    refuse_bad(fitter.bad, where=where)
    rows = with_cells(pa.Table.from_batches(batches, fitter.arrow), job.cells)
    for name, key in job.keys.items():
        values = rows.column(key.source).combine_chunks()
        array = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
        rows = rows.append_column(name, partition_keys(key.transform, key.type, array))
    return rows


def _cluster_keys(rows: pa.Table, job: WriteJob) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    ordering = job.ordering
    assert ordering is not None
    schema = job.given_schema
    columns: list[pa.Array] = []
    for path in ordering.columns:
        parts = split_path(path)
        values = leaf_values(rows.column(parts[0]), schema, parts)
        columns.append(pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type))
    return keying(ordering, ordering.types(schema), columns).keys(columns)


def _order(rows: pa.Table, partition_by: Sequence[str], key: str | None) -> pa.Array | None:
    """The rows of a partition together, in the order of their keys; `None` keeps them as they are."""
    if not partition_by and key is None:
        return None
    columns = [pa.concat_arrays(rows.column(name).chunks) for name in partition_by] if rows.num_rows else []
    _, codes = partitions_of(columns, rows.num_rows)
    keys = np.zeros(rows.num_rows, np.int64) if key is None else rows.column(key).to_numpy()
    return pa.array(np.lexsort((keys, codes)))
