"""Commits a change to an Iceberg table through Iceberg's Java API, in whatever catalog the table is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema_iceberg import from_iceberg_schema
from geolake_nb.core.types import GeographyType
from geolake_nb.errors import ConflictError, GeolakeError, RefusedError
from geolake_nb.formats.iceberg.catalogs import storage_options
from geolake_nb.formats.iceberg.edge_marks import EDGES, edge_mark
from geolake_nb.formats.iceberg.metadata import TRANSACTION
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.formats.storage import Storage
from geolake_nb.planning.writing.parquet_rows import require_apart
from geolake_nb.spark.applying import Applied
from geolake_nb.spark.iceberg_files import NewFiles, live_files, warn_of_problems
from geolake_nb.spark.iceberg_jvm import committing, iceberg_errors, open_jvm
from geolake_nb.spark.iceberg_manifests import restate_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.change import Change
    from geolake_nb.spark.applying import Place
    from geolake_nb.spark.iceberg_jvm import JvmTable

__all__ = ["commit_change", "find_landed", "require_store", "stage_table"]

_VERB = "geolake.verb"
_ATTEMPTS = 5


def find_landed(change: Change, place: Place) -> int | None:
    """The snapshot that holds the transaction already, `None` if there is none."""
    found = open_jvm(place)
    with iceberg_errors(place.storage.location):
        actions = _actions(change)
        if "create" in actions and not found.exists():
            return None
        back = actions.get("rollback")
        if back:
            current = found.table.currentSnapshot()
            landed = current is not None and current.snapshotId() == back[0]["to"]
            return int(back[0]["to"]) if landed else None
        for snapshot in found.table.snapshots():
            if snapshot.summary().get(TRANSACTION) == place.transaction:
                return int(snapshot.snapshotId())
    if "create" in actions:
        raise _made_by_another(change)
    return None


def require_store(place: Place) -> None:
    """Raise for a table in a bucket that only files keep: Iceberg renames them there, which excludes nobody."""
    catalog = place.catalog
    if catalog is not None and (catalog.kind != "hadoop" or not (catalog.is_placed or place.staged)):
        return
    if not place.storage.is_local and not place.single_writer:
        raise RefusedError(
            "no catalog keeps the table, and in a bucket its files alone do not keep two writers apart",
            where=place.storage.location,
            remedy="open it by its name in a catalog, or pass single_writer=True if nobody else writes the table",
        )


def stage_table(change: Change, place: Place) -> Place:
    """The place with the transaction that makes the table in its catalog, and the storage where the table will lie."""
    catalog = place.catalog
    assert catalog is not None
    found = open_jvm(place)
    with iceberg_errors(change.location):
        transaction = _transaction(found, change)
        table = transaction.table()
        held = {**catalog.properties, **{str(key): str(value) for key, value in table.io().properties().items()}}
        storage = Storage.at(str(table.location()), options={**storage_options(held), **catalog.options})
    if "source" in change.parameters:
        require_apart(change.parameters["source"], storage.location)
    staged = replace(place, storage=storage, staged=transaction)
    require_store(staged)
    return staged


def commit_change(change: Change, place: Place) -> Applied:
    """Commit; what others appended stays, what else they did to our files is a conflict."""
    found = open_jvm(place)
    actions = _actions(change)
    unbounded = warn_of_problems(actions.get("add", []))
    if unbounded:
        change = replace(change, metrics={**change.metrics, "files_without_bound": unbounded})
    with iceberg_errors(place.storage.location):
        if "rollback" in actions:
            return _roll_back(found, change, actions["rollback"][0])
        if "create" in actions:
            return _create(found, change, place, actions)
        if "restate" in actions:
            return _restate(found, change, place, actions)
        if "remove" in actions:
            return _rewrite(found, change, place, actions)
        return _append(found, change, place, actions)


def _actions(change: Change) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for text in change.actions:
        ((kind, action),) = json.loads(text).items()
        found.setdefault(kind, []).append(action)
    return found


def _marked(update: Any, change: Change, place: Place) -> Any:
    return update.set(TRANSACTION, place.transaction).set(_VERB, change.verb.value)


def _with_edges(update: Any, found: JvmTable, table: Any) -> Any:
    """The update with the mark that the bounds of geographies in the files that it adds hold the edges."""
    schema = from_iceberg_schema(str(found.core.SchemaParser.toJson(table.schema())))
    ids = [one.id for _, one in schema.geo_columns() if isinstance(one.type, GeographyType) and one.id is not None]
    return update.set(EDGES, edge_mark(ids)) if ids else update


def _sign(place: Place) -> str:
    return f"the summary of a snapshot has the {TRANSACTION} {place.transaction}"


def _applied(found: JvmTable, change: Change, place: Place) -> Applied:
    """What the commit became: the snapshot with our mark, and those of others below it down to our base."""
    snapshot = next(
        (one for one in found.table.snapshots() if one.summary().get(TRANSACTION) == place.transaction), None
    )
    if snapshot is None:
        raise GeolakeError("the commit is not in the table", where=place.storage.location)
    over: list[int] = []
    parent = snapshot.parentId()
    while parent is not None and parent != change.base_version:
        over.append(int(parent))
        above = found.table.snapshot(parent)
        parent = None if above is None else above.parentId()
    return Applied(int(snapshot.snapshotId()), tuple(reversed(over)), change.metrics)


def _current(found: JvmTable, place: Place) -> Snapshot:
    """The table as the JVM sees it, in our own model."""
    location = str(found.metadata.metadataFileLocation())
    return open_iceberg(place.storage, metadata=found.paths.key(location))


def _restate(found: JvmTable, change: Change, place: Place, actions: Mapping[str, list[dict[str, Any]]]) -> Applied:
    """Write manifests with other bounds in place of those that have the files."""
    wanted = {one["path"]: one for one in actions["restate"]}
    for attempt in range(_ATTEMPTS):
        snapshot = _current(found, place)
        _require_same_columns(snapshot, wanted, place)
        update = _marked(found.table.rewriteManifests(), change, place)
        made = restate_manifests(found, place.storage, snapshot, wanted, update)
        try:
            with iceberg_errors(place.storage.location), committing(place.storage.location, _sign(place)):
                update.commit()
                return _applied(found, change, place)
        except ConflictError:
            # Others may have merged the manifests that we were about to replace: the files are what counts.
            made.clean_up()
            found.table.refresh()
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _require_same_columns(snapshot: Snapshot, wanted: Mapping[str, Mapping[str, Any]], place: Place) -> None:
    """Raise where a file that we judged is gone, or a column is."""
    gone = sorted(set(wanted) - set(snapshot.files.table["path"].to_pylist()))
    what = None
    if gone:
        more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
        what = f"the file {gone[0]!r}{more} was taken away in the meantime"
    ids = {str(field.id) for _, field in snapshot.schema.geo_columns()}
    if any(not one["bounds"].keys() <= ids for one in wanted.values()):
        what = "a geo column was dropped in the meantime"
    if what is not None:
        raise ConflictError(what, where=place.storage.location, remedy="plan again")


def _roll_back(found: JvmTable, change: Change, action: Mapping[str, Any]) -> Applied:
    """Make the snapshot before the current one again; nobody's later commit is lost, because the base is compared."""
    operations = found.table.operations()
    base = operations.refresh()
    current = base.currentSnapshot()
    if current is None or current.snapshotId() != action["from"]:
        raise ConflictError(
            f"the snapshot {action['from']} is not the current one any more", where=change.location, remedy="plan again"
        )
    builder = found.core.TableMetadata.buildFrom(base).setBranchSnapshot(action["to"], "main")
    with committing(change.location, f"{action['to']} is the current snapshot"):
        operations.commit(base, builder.build())
    return Applied(int(action["to"]), metrics=change.metrics)


def _append(found: JvmTable, change: Change, place: Place, actions: Mapping[str, list[dict[str, Any]]]) -> Applied:
    _require_same_schema(found, change, actions)
    merges = actions["base"][0].get("merges", True)
    update = _marked(found.table.newAppend() if merges else found.table.newFastAppend(), change, place)
    update = _with_edges(update, found, found.table)
    for file in NewFiles(found).made(actions.get("add", [])):
        update.appendFile(file)
    with committing(change.location, _sign(place)):
        update.commit()
        return _applied(found, change, place)


def _require_same_schema(found: JvmTable, change: Change, actions: Mapping[str, list[dict[str, Any]]]) -> None:
    if change.table_id is not None and str(found.table.uuid()) != change.table_id:
        what = "another table has taken the place of the one that the change was planned on"
        raise ConflictError(what, where=change.location, remedy="plan again")
    schema = actions["base"][0]["schema"]
    if found.table.schema().schemaId() != schema:
        raise ConflictError("the schema was changed in the meantime", where=change.location, remedy="plan again")


def _create(found: JvmTable, change: Change, place: Place, actions: Mapping[str, list[dict[str, Any]]]) -> Applied:
    """Make the table and give it its rows in one commit."""
    transaction = _transaction(found, change) if place.staged is None else place.staged
    table = transaction.table()
    update = _with_edges(_marked(transaction.newAppend(), change, place), found, table)
    for file in NewFiles(found, table).made(actions.get("add", [])):
        update.appendFile(file)
    try:
        with iceberg_errors(change.location), committing(change.location, _sign(place)):
            update.commit()
            transaction.commitTransaction()
            return _applied(found, change, place)
    except ConflictError as problem:
        raise _made_by_another(change) from problem


def _transaction(found: JvmTable, change: Change) -> Any:
    """The transaction that makes the table with the columns of the plan."""
    (made,) = _actions(change)["create"]
    core = found.core
    schema = core.SchemaParser.fromJson(json.dumps(made["schema"]))
    spec = core.PartitionSpecParser.fromJson(schema, json.dumps(made["spec"]))
    try:
        with iceberg_errors(change.location):
            transaction = found.create(schema, spec, made["properties"])
    except ConflictError as problem:
        raise _made_by_another(change) from problem
    table = transaction.table()
    # The files have the ids of the plan: those that Iceberg gives have to be the same.
    if not table.schema().sameSchema(schema) or not table.spec().equals(spec):
        raise GeolakeError("Iceberg gives the columns other ids than the plan has", where=change.location)
    return transaction


def _made_by_another(change: Change) -> ConflictError:
    remedy = "see what it holds, and give another name or add the rows to it"
    return ConflictError("another made the table in the meantime", where=change.location, remedy=remedy)


def _rewrite(found: JvmTable, change: Change, place: Place, actions: Mapping[str, list[dict[str, Any]]]) -> Applied:
    """Put new files in the place of old ones; deletes of others that came in between fail or still apply."""
    base = change.base_version
    table = found.table
    snapshot = None if base is None else table.snapshot(base)
    if snapshot is None:
        raise ConflictError("the snapshot of the plan is gone", where=change.location, remedy="plan again")
    update = _with_edges(_marked(table.newRewrite().validateFromSnapshot(base), change, place), found, table)
    if found.metadata.formatVersion() > 1:
        # Equality deletes that others commit from now on have a higher number, and apply to the new files too.
        update.dataSequenceNumber(snapshot.sequenceNumber())
    for file in live_files(found, snapshot, {one["path"] for one in actions["remove"]}, where=change.location):
        update.deleteFile(file)
    for file in NewFiles(found).made(actions.get("add", [])):
        update.addFile(file)
    with committing(change.location, _sign(place)):
        update.commit()
        return _applied(found, change, place)
