"""Commits planned writes to tables in catalogs through PyIceberg, without a JVM."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg import exceptions
from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import GeographyType, PrimitiveType

from geolake_nb.api.plan import Report
from geolake_nb.changes.write_job import WriteJob
from geolake_nb.errors import (
    ConflictError,
    GeolakeError,
    MissingDependencyError,
    OutcomeUnknownError,
    RefusedError,
    StorageError,
    UnsupportedTableError,
)
from geolake_nb.formats.base import warn_of_problems
from geolake_nb.formats.iceberg.catalogs import storage_options, table_exists_error
from geolake_nb.formats.iceberg.metadata import TRANSACTION
from geolake_nb.pyiceberg import bridge, manifests
from geolake_nb.pyiceberg.local_files import write_files
from geolake_nb.storage.storage import Storage
from geolake_nb.text.messages import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Transaction

    from geolake_nb.api.plan import Plan
    from geolake_nb.formats.base import TableSource
    from geolake_nb.formats.iceberg.catalogs import CatalogTable
    from geolake_nb.model.change import Change

__all__ = ["apply_write", "can_write"]

_VERB = "geolake.verb"


def can_write(rows: Any, source: TableSource) -> bool:
    """Whether rows can be written without Spark: they are in memory, and the table is in a catalog of PyIceberg."""
    catalog: CatalogTable | None = source.catalog
    if type(rows).__module__.startswith("pyspark.") or catalog is None or catalog.reload is not None:
        return False
    if catalog.kind in (None, "hadoop"):
        return False
    try:
        bridge.require_pyiceberg()
    except (MissingDependencyError, UnsupportedTableError):
        return False
    return True


def apply_write(plan: Plan, *, catalog: Catalog | None = None) -> Report:
    """Write the files of a plan in this process, and commit them through its catalog.

    Args:
        plan: a plan of `plan_write` with rows in memory.
        catalog: the catalog, where it is open already.

    Returns:
        What `Plan.apply` reports.

    Raises:
        ConflictError: another writer committed what the plan depends on; nothing was committed.
        OutcomeUnknownError: the catalog did not say whether the commit succeeded.
        RefusedError: the namespace does not exist.
        JobError: rows with invalid values; nothing was committed.
    """
    started = time.perf_counter()
    change, source = plan.change, plan._source
    known = source.catalog
    assert known is not None
    with bridge.enabled(), _errors(change.location):
        if catalog is None:
            catalog = load_catalog(known.catalog, **dict(known.properties))
        kind, _ = _parts(change.actions[0])
        begin = _new_table if kind == "create" else _existing_table
        transaction = begin(catalog, known, change)
        version, done = _commit(transaction, change, plan.transaction, known)
        over = _commits_between(transaction._table, change.base_version, version)
    return Report(
        verb=change.verb.value,
        location=change.location,
        version=version,
        transaction=plan.transaction,
        rebased_over=over,
        metrics=done.metrics,
        seconds=time.perf_counter() - started,
        _source=source,
    )


def _parts(action: str) -> tuple[str, dict[str, Any]]:
    ((kind, content),) = json.loads(action).items()
    return kind, content


def _new_table(catalog: Catalog, known: CatalogTable, change: Change) -> Transaction:
    """The transaction that creates the table with the columns of the plan."""
    _, made = _parts(change.actions[0])
    namespace = known.identifier[:-1]
    if not catalog.namespace_exists(namespace):
        raise RefusedError(
            f"the catalog {known.catalog!r} has no namespace {'.'.join(namespace)!r}",
            where=change.location,
            remedy="create the namespace first, or name another",
        )
    schema = Schema.model_validate(made["schema"])
    spec = PartitionSpec.model_validate(made["spec"])
    transaction = catalog.create_table_transaction(
        known.identifier, schema, partition_spec=spec, properties=dict(made["properties"])
    )
    table = transaction.table_metadata
    # The files have the ids of the plan: those that the catalog gives have to be the same.
    if table.schema().as_struct() != schema.as_struct() or table.spec().fields != spec.fields:
        raise GeolakeError("the catalog assigned other column ids than the plan has", where=change.location)
    return transaction


def _existing_table(catalog: Catalog, known: CatalogTable, change: Change) -> Transaction:
    table = catalog.load_table(known.identifier)
    if change.table_id is not None and str(table.metadata.table_uuid) != change.table_id:
        what = "the table was replaced by another one after the change was planned"
        raise ConflictError(what, where=change.location, remedy="plan again")
    _, base = _parts(change.actions[0])
    if table.metadata.current_schema_id != base["schema"]:
        raise ConflictError("the schema was changed in the meantime", where=change.location, remedy="plan again")
    return table.transaction()


def _commit(transaction: Transaction, change: Change, name: str, known: CatalogTable) -> tuple[int, Change]:
    metadata = transaction.table_metadata
    io = transaction._table.io
    options = {**storage_options({**known.properties, **io.properties}), **known.options}
    storage = Storage.at(metadata.location, options=options)
    if isinstance(change.job, WriteJob):
        change = write_files(change, change.job, storage, name)
    adds = [content for kind, content in map(_parts, change.actions) if kind == "add"]
    try:
        unbounded = warn_of_problems(adds)
        if unbounded:
            change = replace(change, metrics={**change.metrics, "files_without_bound": unbounded})
        marks = {TRANSACTION: name, _VERB: change.verb.value}
        with transaction.update_snapshot(snapshot_properties=marks).fast_append() as append:
            for add in adds:
                append.append_data_file(_data_file(add, metadata))
        transaction.commit_transaction()
    except (exceptions.CommitFailedException, exceptions.TableAlreadyExistsError, exceptions.ValidationException):
        _remove(storage, adds)
        raise
    return append.snapshot_id, change


def _commits_between(table: Any, base: int | None, version: int) -> tuple[int, ...]:
    """The snapshots of others below a new one, down to its base."""
    over: list[int] = []
    snapshot = table.snapshot_by_id(version)
    parent = None if snapshot is None else snapshot.parent_snapshot_id
    while parent is not None and parent != base:
        over.append(parent)
        above = table.snapshot_by_id(parent)
        parent = None if above is None else above.parent_snapshot_id
    return tuple(reversed(over))


def _remove(storage: Storage, adds: Sequence[Mapping[str, Any]]) -> None:
    """Remove the files of a commit that is known not to be in the table."""
    for add in adds:
        with contextlib.suppress(StorageError):
            storage.remove(add["path"])


def _data_file(add: Mapping[str, Any], metadata: Any) -> DataFile:
    """The file of an action, as PyIceberg writes it into a manifest."""

    def counts(name: str) -> dict[int, int]:
        return {int(id_): count for id_, count in (add.get(name) or {}).items()}

    def bounds(name: str) -> dict[int, bytes]:
        return {int(id_): bytes.fromhex(text) for id_, text in (add.get(name) or {}).items()}

    spec = metadata.specs()[add["spec-id"]]
    types = {field.field_id: field.field_type for field in spec.partition_type(metadata.schema()).fields}
    packed = {int(id_): value for id_, value in add["partition"].items()}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{metadata.location.rstrip('/')}/{add['path']}",
        file_format=FileFormat.PARQUET,
        partition=Record(*[_value(packed.get(field.field_id), types[field.field_id]) for field in spec.fields]),
        record_count=add["record-count"],
        file_size_in_bytes=add["file-size-in-bytes"],
        column_sizes=counts("column-sizes"),
        value_counts=counts("value-counts"),
        null_value_counts=counts("null-value-counts"),
        nan_value_counts=counts("nan-value-counts"),
        lower_bounds=bounds("lower-bounds"),
        upper_bounds=bounds("upper-bounds"),
        split_offsets=add.get("split-offsets"),
        equality_ids=None,
        key_metadata=None,
        sort_order_id=None,
    )
    file.spec_id = add["spec-id"]
    manifests.mark_edges(file, [id_ for id_ in file.lower_bounds if _is_geography(metadata.schema(), id_)])
    return file


def _is_geography(schema: Schema, id_: int) -> bool:
    return isinstance(schema.find_type(id_), GeographyType)


def _value(packed: str | None, type_: Any) -> Any:
    if packed is None or not isinstance(type_, PrimitiveType):
        return None
    return from_bytes(type_, base64.b64decode(packed))


@contextlib.contextmanager
def _errors(where: str) -> Iterator[None]:
    """The errors of PyIceberg as errors that say what to do."""
    try:
        yield
    except GeolakeError:
        raise
    except exceptions.TableAlreadyExistsError:
        raise table_exists_error(where) from None
    except (exceptions.CommitFailedException, exceptions.ValidationException) as problem:
        what = f"another writer was faster: {without_secrets(str(problem))[:300]}"
        raise ConflictError(what, where=where, remedy="plan again") from problem
    except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError) as problem:
        what = f"the table is gone: {without_secrets(str(problem))[:300]}"
        raise ConflictError(what, where=where, remedy="plan again") from problem
    except exceptions.CommitStateUnknownException as problem:
        raise OutcomeUnknownError(
            f"the commit may or may not be in the table: {without_secrets(str(problem))[:300]}",
            where=where,
            remedy=f"keep all files and look for {TRANSACTION} in the summaries of the snapshots",
        ) from problem
    except pa.ArrowException as problem:
        raise StorageError(f"the files cannot be written: {str(problem)[:300]}", where=where) from problem
