"""Commits a change to an Iceberg table through Iceberg's Java API, in whatever catalog the table is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError, GeolakeError
from geolake_nb.formats.iceberg.metadata import TRANSACTION
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.spark.applying import Applied
from geolake_nb.spark.iceberg_files import NewFiles, live_files, warn_of_problems
from geolake_nb.spark.iceberg_jvm import iceberg_errors, open_jvm
from geolake_nb.spark.iceberg_manifests import restate_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.change import Change
    from geolake_nb.spark.applying import Place
    from geolake_nb.spark.iceberg_jvm import JvmTable

__all__ = ["commit_change", "find_landed"]

_VERB = "geolake.verb"
_ATTEMPTS = 5


def find_landed(change: Change, place: Place) -> int | None:
    """The snapshot that holds the transaction already, `None` if there is none."""
    found = open_jvm(place)
    with iceberg_errors(place.storage.location):
        if change.base_version is None and place.catalog is None and not found.exists():
            return None
        back = _actions(change).get("rollback")
        if back:
            current = found.table.currentSnapshot()
            landed = current is not None and current.snapshotId() == back[0]["to"]
            return int(back[0]["to"]) if landed else None
        for snapshot in found.table.snapshots():
            if snapshot.summary().get(TRANSACTION) == place.transaction:
                return int(snapshot.snapshotId())
    return None


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


def _applied(found: JvmTable, change: Change, place: Place) -> Applied:
    """What the commit became: the snapshot with our mark, and those of others below it down to our base."""
    found.table.refresh()
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
    wanted = {one["path"]: one["bounds"] for one in actions["restate"]}
    for attempt in range(_ATTEMPTS):
        snapshot = _current(found, place)
        _require_same_columns(snapshot, wanted, place)
        update = _marked(found.table.rewriteManifests(), change, place)
        made = restate_manifests(found, place.storage, snapshot, wanted, update)
        try:
            with iceberg_errors(place.storage.location):
                update.commit()
        except ConflictError:
            # Others may have merged the manifests that we were about to replace: the files are what counts.
            made.clean_up()
            found.table.refresh()
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        break
    return _applied(found, change, place)


def _require_same_columns(snapshot: Snapshot, wanted: Mapping[str, Mapping[str, Any]], place: Place) -> None:
    """Raise where a file that we judged is gone, or a column is."""
    gone = sorted(set(wanted) - set(snapshot.files.table["path"].to_pylist()))
    what = None
    if gone:
        more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
        what = f"the file {gone[0]!r}{more} was taken away in the meantime"
    ids = {str(field.id) for _, field in snapshot.schema.geo_columns()}
    if any(not set(bounds) <= ids for bounds in wanted.values()):
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
    operations.commit(base, builder.build())
    return Applied(int(action["to"]), metrics=change.metrics)


def _append(found: JvmTable, change: Change, place: Place, actions: Mapping[str, list[dict[str, Any]]]) -> Applied:
    _require_same_schema(found, change, actions)
    update = _marked(found.table.newAppend(), change, place)
    for file in NewFiles(found).made(actions.get("add", [])):
        update.appendFile(file)
    update.commit()
    return _applied(found, change, place)


def _require_same_schema(found: JvmTable, change: Change, actions: Mapping[str, list[dict[str, Any]]]) -> None:
    schema = actions["base"][0]["schema"]
    if found.table.schema().schemaId() != schema:
        raise ConflictError("the schema was changed in the meantime", where=change.location, remedy="plan again")


def _create(found: JvmTable, change: Change, place: Place, actions: Mapping[str, list[dict[str, Any]]]) -> Applied:
    """Make the table and give it its rows in one commit."""
    made = actions["create"][0]
    core = found.core
    schema = core.SchemaParser.fromJson(json.dumps(made["schema"]))
    spec = core.PartitionSpecParser.fromJson(schema, json.dumps(made["spec"]))
    transaction = found.create(schema, spec, made["properties"])
    table = transaction.table()
    # The files have the ids of the plan: those that Iceberg gives have to be the same.
    if not table.schema().sameSchema(schema) or not table.spec().equals(spec):
        raise GeolakeError("Iceberg gives the columns other ids than the plan has", where=change.location)
    update = _marked(transaction.newAppend(), change, place)
    for file in NewFiles(found, table).made(actions.get("add", [])):
        update.appendFile(file)
    update.commit()
    transaction.commitTransaction()
    return _applied(found, change, place)


def _rewrite(found: JvmTable, change: Change, place: Place, actions: Mapping[str, list[dict[str, Any]]]) -> Applied:
    """Put new files in the place of old ones; deletes of others that came in between fail or still apply."""
    base = change.base_version
    table = found.table
    snapshot = None if base is None else table.snapshot(base)
    if snapshot is None:
        raise ConflictError("the snapshot of the plan is gone", where=change.location, remedy="plan again")
    update = _marked(table.newRewrite().validateFromSnapshot(base), change, place)
    if found.metadata.formatVersion() > 1:
        # Equality deletes that others commit from now on have a higher number, and apply to the new files too.
        update.dataSequenceNumber(snapshot.sequenceNumber())
    for file in live_files(found, snapshot, {one["path"] for one in actions["remove"]}, where=change.location):
        update.deleteFile(file)
    for file in NewFiles(found).made(actions.get("add", [])):
        update.addFile(file)
    update.commit()
    return _applied(found, change, place)
