"""Commits a change to an Iceberg table through Iceberg's Java API, in whatever catalog the table is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError, GeolakeError, RefusedError
from geolake_nb.formats.base import Applied, warn_of_problems
from geolake_nb.formats.iceberg.bounds import EDGES, edge_mark
from geolake_nb.formats.iceberg.catalogs import storage_options
from geolake_nb.formats.iceberg.jvm_files import NewFiles, live_files, update_manifests
from geolake_nb.formats.iceberg.jvm_table import committing, iceberg_errors, open_jvm
from geolake_nb.formats.iceberg.metadata import TRANSACTION
from geolake_nb.formats.iceberg.schema import from_iceberg_schema
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.formats.parquet_folder.write import require_apart
from geolake_nb.model.types import GeographyType
from geolake_nb.storage.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.formats.iceberg.jvm_table import JvmTable
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["commit_change", "find_transaction", "require_atomic_put", "stage_table"]

_VERB = "geolake.verb"
_ATTEMPTS = 5


def find_transaction(change: Change, context: CommitContext) -> int | None:
    """The snapshot that already has the transaction, `None` if there is none."""
    opened = open_jvm(context)
    with iceberg_errors(context.storage.location):
        actions = _actions(change)
        if "create" in actions and not opened.exists():
            return None
        back = actions.get("rollback")
        if back:
            current = opened.table.currentSnapshot()
            applied_version = current is not None and current.snapshotId() == back[0]["to"]
            return int(back[0]["to"]) if applied_version else None
        for snapshot in opened.table.snapshots():
            if snapshot.summary().get(TRANSACTION) == context.transaction:
                return int(snapshot.snapshotId())
    if "create" in actions:
        raise _made_by_another(change)
    return None


def require_atomic_put(context: CommitContext) -> None:
    """Raise for a file-system table in a bucket: Iceberg renames files there, which is not atomic."""
    catalog = context.catalog
    if catalog is not None and (catalog.kind != "hadoop" or not (catalog.has_location or context.staged)):
        return
    if not context.storage.is_local and not context.single_writer:
        raise RefusedError(
            "the table is in no catalog, and files in a bucket alone cannot prevent concurrent commits",
            where=context.storage.location,
            remedy="open it by its name in a catalog, or pass single_writer=True if nobody else writes the table",
        )


def stage_table(change: Change, context: CommitContext) -> CommitContext:
    """The context with the transaction that creates the table in its catalog, and the storage of the new table."""
    catalog = context.catalog
    assert catalog is not None
    opened = open_jvm(context)
    with iceberg_errors(change.location):
        transaction = _transaction(opened, change)
        table = transaction.table()
        merged = {**catalog.properties, **{str(key): str(value) for key, value in table.io().properties().items()}}
        storage = Storage.at(str(table.location()), options={**storage_options(merged), **catalog.options})
    if "source" in change.parameters:
        require_apart(change.parameters["source"], storage.location)
    staged = replace(context, storage=storage, staged=transaction)
    require_atomic_put(staged)
    return staged


def commit_change(change: Change, context: CommitContext) -> Applied:
    """Commit; appends of others stay, their other changes to our files are conflicts."""
    opened = open_jvm(context)
    actions = _actions(change)
    unbounded = warn_of_problems(actions.get("add", []))
    if unbounded:
        change = replace(change, metrics={**change.metrics, "files_without_bound": unbounded})
    with iceberg_errors(context.storage.location):
        if "rollback" in actions:
            return _roll_back(opened, change, actions["rollback"][0])
        if "create" in actions:
            return _create(opened, change, context, actions)
        if "update_bounds" in actions:
            return _update_bounds(opened, change, context, actions)
        if "remove" in actions:
            return _rewrite(opened, change, context, actions)
        return _append(opened, change, context, actions)


def _actions(change: Change) -> dict[str, list[dict[str, Any]]]:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for text in change.actions:
        ((kind, action),) = json.loads(text).items()
        by_kind.setdefault(kind, []).append(action)
    return by_kind


def _marked(update: Any, change: Change, context: CommitContext) -> Any:
    return update.set(TRANSACTION, context.transaction).set(_VERB, change.verb.value)


def _with_edges(update: Any, opened: JvmTable, table: Any) -> Any:
    """The update with the mark that the bounds of geographies in its new files contain the edges."""
    schema = from_iceberg_schema(str(opened.core.SchemaParser.toJson(table.schema())))
    ids = [
        field.id for _, field in schema.geo_columns() if isinstance(field.type, GeographyType) and field.id is not None
    ]
    return update.set(EDGES, edge_mark(ids)) if ids else update


def _sign(context: CommitContext) -> str:
    return f"the summary of a snapshot has the {TRANSACTION} {context.transaction}"


def _applied(opened: JvmTable, change: Change, context: CommitContext) -> Applied:
    """What the commit became: the snapshot with our mark, and those of others below it down to our base."""
    snapshot = next(
        (
            candidate
            for candidate in opened.table.snapshots()
            if candidate.summary().get(TRANSACTION) == context.transaction
        ),
        None,
    )
    if snapshot is None:
        raise GeolakeError("the commit is not in the table", where=context.storage.location)
    over: list[int] = []
    parent = snapshot.parentId()
    while parent is not None and parent != change.base_version:
        over.append(int(parent))
        above = opened.table.snapshot(parent)
        parent = None if above is None else above.parentId()
    return Applied(int(snapshot.snapshotId()), tuple(reversed(over)), change.metrics)


def _current(opened: JvmTable, context: CommitContext) -> Snapshot:
    """The table as the JVM sees it, in our own model."""
    location = str(opened.metadata.metadataFileLocation())
    return open_iceberg(context.storage, metadata=opened.paths.key(location))


def _update_bounds(
    opened: JvmTable, change: Change, context: CommitContext, actions: Mapping[str, list[dict[str, Any]]]
) -> Applied:
    """Write manifests with other bounds in place of those that have the files."""
    wanted = {action["path"]: action for action in actions["update_bounds"]}
    for attempt in range(_ATTEMPTS):
        snapshot = _current(opened, context)
        _require_same_columns(snapshot, wanted, context)
        update = _marked(opened.table.rewriteManifests(), change, context)
        made = update_manifests(opened, context.storage, snapshot, wanted, update)
        try:
            with iceberg_errors(context.storage.location), committing(context.storage.location, _sign(context)):
                update.commit()
                return _applied(opened, change, context)
        except ConflictError:
            # Others may have merged the manifests that we were about to replace: the files are what counts.
            made.clean_up()
            opened.table.refresh()
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _require_same_columns(snapshot: Snapshot, wanted: Mapping[str, Mapping[str, Any]], context: CommitContext) -> None:
    """Raise if a file of the change, or a column, was removed."""
    gone = sorted(set(wanted) - set(snapshot.files.table["path"].to_pylist()))
    what = None
    if gone:
        more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
        what = f"the file {gone[0]!r}{more} was removed in the meantime"
    ids = {str(field.id) for _, field in snapshot.schema.geo_columns()}
    if any(not action["bounds"].keys() <= ids for action in wanted.values()):
        what = "a geo column was dropped in the meantime"
    if what is not None:
        raise ConflictError(what, where=context.storage.location, remedy="plan again")


def _roll_back(opened: JvmTable, change: Change, action: Mapping[str, Any]) -> Applied:
    """Roll back to the earlier snapshot; no later commit is lost, because the base is compared."""
    operations = opened.table.operations()
    base = operations.refresh()
    current = base.currentSnapshot()
    if current is None or current.snapshotId() != action["from"]:
        raise ConflictError(
            f"the snapshot {action['from']} is not the current one any more", where=change.location, remedy="plan again"
        )
    builder = opened.core.TableMetadata.buildFrom(base).setBranchSnapshot(action["to"], "main")
    with committing(change.location, f"{action['to']} is the current snapshot"):
        operations.commit(base, builder.build())
    return Applied(int(action["to"]), metrics=change.metrics)


def _append(
    opened: JvmTable, change: Change, context: CommitContext, actions: Mapping[str, list[dict[str, Any]]]
) -> Applied:
    _require_same_schema(opened, change, actions)
    merges = actions["base"][0].get("merges", True)
    update = _marked(opened.table.newAppend() if merges else opened.table.newFastAppend(), change, context)
    update = _with_edges(update, opened, opened.table)
    for file in NewFiles(opened).made(actions.get("add", [])):
        update.appendFile(file)
    with committing(change.location, _sign(context)):
        update.commit()
        return _applied(opened, change, context)


def _require_same_schema(opened: JvmTable, change: Change, actions: Mapping[str, list[dict[str, Any]]]) -> None:
    if change.table_id is not None and str(opened.table.uuid()) != change.table_id:
        what = "the table was replaced by another one after the change was planned"
        raise ConflictError(what, where=change.location, remedy="plan again")
    schema = actions["base"][0]["schema"]
    if opened.table.schema().schemaId() != schema:
        raise ConflictError("the schema was changed in the meantime", where=change.location, remedy="plan again")


def _create(
    opened: JvmTable, change: Change, context: CommitContext, actions: Mapping[str, list[dict[str, Any]]]
) -> Applied:
    """Make the table and give it its rows in one commit."""
    transaction = _transaction(opened, change) if context.staged is None else context.staged
    table = transaction.table()
    update = _with_edges(_marked(transaction.newAppend(), change, context), opened, table)
    for file in NewFiles(opened, table).made(actions.get("add", [])):
        update.appendFile(file)
    try:
        with iceberg_errors(change.location), committing(change.location, _sign(context)):
            update.commit()
            transaction.commitTransaction()
            return _applied(opened, change, context)
    except ConflictError as problem:
        raise _made_by_another(change) from problem


def _transaction(opened: JvmTable, change: Change) -> Any:
    """The transaction that makes the table with the columns of the plan."""
    (made,) = _actions(change)["create"]
    core = opened.core
    schema = core.SchemaParser.fromJson(json.dumps(made["schema"]))
    spec = core.PartitionSpecParser.fromJson(schema, json.dumps(made["spec"]))
    try:
        with iceberg_errors(change.location):
            transaction = opened.create(schema, spec, made["properties"])
    except ConflictError as problem:
        raise _made_by_another(change) from problem
    table = transaction.table()
    # The files have the ids of the plan: those that Iceberg gives have to be the same.
    if not table.schema().sameSchema(schema) or not table.spec().equals(spec):
        raise GeolakeError("Iceberg assigned other column ids than the plan has", where=change.location)
    return transaction


def _made_by_another(change: Change) -> ConflictError:
    remedy = "inspect it, then choose another name or append the rows to it"
    return ConflictError("the table was created in the meantime", where=change.location, remedy=remedy)


def _rewrite(
    opened: JvmTable, change: Change, context: CommitContext, actions: Mapping[str, list[dict[str, Any]]]
) -> Applied:
    """Put new files in place of old ones; deletes of others that came in between fail or still apply."""
    base = change.base_version
    table = opened.table
    snapshot = None if base is None else table.snapshot(base)
    if snapshot is None:
        raise ConflictError("the snapshot of the plan is gone", where=change.location, remedy="plan again")
    update = _with_edges(_marked(table.newRewrite().validateFromSnapshot(base), change, context), opened, table)
    if opened.metadata.formatVersion() > 1:
        # Equality deletes that others commit from now on have a higher number, and apply to the new files too.
        update.dataSequenceNumber(snapshot.sequenceNumber())
    for file in live_files(opened, snapshot, {action["path"] for action in actions["remove"]}, where=change.location):
        update.deleteFile(file)
    for file in NewFiles(opened).made(actions.get("add", [])):
        update.addFile(file)
    with committing(change.location, _sign(context)):
        update.commit()
        return _applied(opened, change, context)
