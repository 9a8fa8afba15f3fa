"""Collations of strings set, changed and dropped, and their statistics kept up: what is decided before Spark runs."""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.collation import Collation
from geolake_nb.core.collation_edit import with_collations
from geolake_nb.core.collation_stats import COLLATIONS_DOMAIN, CollationHints
from geolake_nb.core.schema import join_path, split_path, type_name
from geolake_nb.core.schema_delta import from_delta_schema
from geolake_nb.core.types import StringType
from geolake_nb.errors import CollationError, RefusedError
from geolake_nb.formats.delta.features import read_protocol
from geolake_nb.formats.delta.raw_adds import raw_adds
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.planning.change import Change, OneWayDoor, Reads, Verb
from geolake_nb.planning.delta.collated_adds import StatsEdit, collated_add
from geolake_nb.planning.delta.collated_strings import collations_of, measured_strings
from geolake_nb.planning.delta.creating import metadata_text, protocol_text, upgraded_protocol
from geolake_nb.planning.delta.sql_names import require_unused
from geolake_nb.planning.delta.table_collations import table_collations, without_values
from geolake_nb.planning.engines import Answer, TableKind, engine_facts
from geolake_nb.planning.format_facts import collation_hints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.formats.parquet.string_scan import CollatedString
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.delta.collated_adds import Ranges

__all__ = [
    "CollateJob",
    "finish_collations",
    "hints_action",
    "plan_collations",
    "schema_collation",
    "string_path",
    "with_versions",
]

_FEATURES = frozenset({"collations", "collations-preview"})
_SHOWN = 5
_BATCH = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class CollateJob:
    """What Spark has to check and to compute before the change is committed."""

    schema: str
    """The `schemaString` that the table will have."""
    collations: Mapping[tuple[str, ...], Collation]
    """The collations in it that are new, by the path of the string."""
    columns: tuple[CollatedString, ...]
    """The columns that statistics are made of."""
    files: tuple[str, ...]
    """The files that may lack some, as the log stores them."""
    segment: LogSegment = field(repr=False)
    """Where the log has the files."""
    hints: CollationHints
    wanted: Mapping[Collation, str] = field(default_factory=dict)
    """The version that Spark must have of a collation, where statistics of no other will do."""
    edit: StatsEdit = field(default_factory=StatsEdit)
    """What is known before Spark says under which version it compares."""

    def to_dict(self) -> dict[str, Any]:
        """`collations, columns, files, paths` (a digest of the paths)`, wanted, only_newest`."""
        return {
            "collations": {join_path(path): str(one) for path, one in self.collations.items()},
            "columns": {join_path(one.path): str(one.collation) for one in self.columns},
            "files": len(self.files),
            "paths": hashlib.sha256("\n".join(self.files).encode()).hexdigest()[:12],
            "wanted": {str(one): version for one, version in self.wanted.items()},
            "only_newest": self.edit.only_newest,
        }


def plan_collations(
    storage: Storage,
    snapshot: Snapshot,
    changes: Mapping[str, str | None],
    *,
    refresh: bool = False,
    upgrade: bool = False,
) -> Change:
    """Set, change or (`None`) drop the collations of strings, and have their statistics follow.

    `refresh` is for files that lack statistics of the newest version which the table asks for; `upgrade` makes
    statistics of Spark's version and drops those of others.
    """
    plan = _Plan(snapshot, _wanted(snapshot, changes))
    where = snapshot.location
    for path in sorted(plan.changed):
        # What was computed or tested by the old comparison may not hold by the new one.
        for part in path:
            require_unused(snapshot, part, where=f"{where}, column {join_path(path)}")
    if plan.schema_text != plan.details.metadata.schema_string:
        require_writable(snapshot.protocol, plan.details.metadata, doing=Doing.SCHEMA, where=where)
    require_writable(snapshot.protocol, plan.details.metadata, doing=Doing.RESTATE, where=where)
    change = Change(
        verb=Verb.COLLATIONS,
        format=snapshot.format,
        location=where,
        base_version=snapshot.version,
        actions=plan.actions(storage),
        doors=plan.doors(),
        engines=engine_facts(plan.after),
        undo="geolake undo takes it back" + (", the feature collations stays" if plan.is_new_feature else ""),
        metrics={"collations_changed": len(plan.changed)},
        parameters={
            "changes": json.dumps(dict(changes), ensure_ascii=False, sort_keys=True),
            "refresh": json.dumps(refresh),
            "upgrade": json.dumps(upgrade),
        },
    )
    job = plan.job(refresh=refresh, upgrade=upgrade)
    says = tuple(plan.says(job, upgrade=upgrade))
    if job is not None:
        return replace(change, job=job, says=says, reads=plan.reads(job))
    return replace(finish_collations(storage, change, plan.leftovers()), says=says)


def finish_collations(
    storage: Storage, change: Change, job: CollateJob, found: Mapping[str, Ranges] | None = None
) -> Change:
    """The change with the hints and the files that it states anew; `found` are the ranges in each file."""
    found = found or {}
    edit = job.edit
    adds = []
    touched = edit.unused or edit.dropped or edit.only_newest
    if touched or found:
        for batch in raw_adds(storage, job.segment, None if touched else list(found)).to_batches(_BATCH):
            for row in batch.to_pylist():
                action = collated_add(row["add"], edit, found.get(row["path"], {}))
                if action is not None:
                    adds.append(action)
    hints = _hints(job)
    domain = [] if hints.to_json() == job.hints.to_json() else [hints_action(hints)]
    metrics = {**change.metrics, "files_restated": len(adds)}
    return replace(change, job=None, actions=[*change.actions, *domain, *adds], metrics=metrics)


def with_versions(job: CollateJob, versions: Mapping[Collation, str], *, where: str) -> CollateJob:
    """The job, now that the versions are known by which Spark compares; those that are wanted must be among them."""
    for collation, version in job.wanted.items():
        if versions[collation] != version:
            raise RefusedError(
                f"the table asks for statistics of {collation}.{version}, and Spark compares by {versions[collation]}",
                where=where,
                remedy="upgrade the statistics (geolake collations --upgrade)",
            )
    used = {one.collation: versions[one.collation] for one in job.columns}
    return replace(job, edit=replace(job.edit, versions=tuple(used.items())))


def hints_action(hints: CollationHints) -> str:
    """The `domainMetadata` action with the hints; the domain goes with its last hint.

    >>> hints_action(CollationHints())
    '{"domainMetadata":{"domain":"collations","configuration":"","removed":true}}'
    """
    nothing = not {key: value for key, value in hints.configuration.items() if value}
    action = {
        "domain": COLLATIONS_DOMAIN,
        "configuration": "" if nothing else hints.to_json(),
        "removed": nothing,
    }
    return json.dumps({"domainMetadata": action}, ensure_ascii=False, separators=(",", ":"))


def _hints(job: CollateJob) -> CollationHints:
    """The hints with the versions that statistics are made of, and without those that nobody uses."""
    hints, edit = job.hints, job.edit
    wanted = {edit.version_of(one.collation) for one in edit.columns}
    renewed = {one.unversioned() for one in wanted} if edit.only_newest else set()
    for one in job.hints.collations:
        plain = one.unversioned()
        if plain in edit.unused or (plain in renewed and one not in wanted):
            hints = hints.removing(one)
    for one in sorted(wanted, key=str):
        hints = hints.adding(one)
    return hints


def _wanted(snapshot: Snapshot, changes: Mapping[str, str | None]) -> dict[tuple[str, ...], Collation | None]:
    """The collations by the path of the string in the schema."""
    wanted: dict[tuple[str, ...], Collation | None] = {}
    for name, identifier in changes.items():
        path = string_path(snapshot.schema, name, snapshot.location)
        if path in wanted:
            raise CollationError(f"the string {join_path(path)!r} is named twice", where=snapshot.location)
        wanted[path] = None if identifier is None else schema_collation(identifier, join_path(path))
    return wanted


def string_path(schema: Schema, name: str, where: str) -> tuple[str, ...]:
    """The path of the string that a user names, as the schema spells it."""
    parts = split_path(name)
    chain = [schema.find(join_path(parts[: depth + 1])) for depth in range(len(parts))]
    path = tuple(one.name for one in chain)
    if isinstance(chain[-1].type, StringType):
        return path
    strings = [join_path(one) for one, found in schema.walk_parts() if isinstance(found.type, StringType)]
    near = [one for one in strings if split_path(one)[: len(path)] == path]
    near += difflib.get_close_matches(name, strings, n=_SHOWN)
    raise CollationError(
        f"{join_path(path)} is a {type_name(chain[-1].type)}, and only strings have collations",
        where=where,
        remedy=f"use one of: {', '.join(sorted(set(near or strings))[:_SHOWN])}" if strings else None,
    )


def schema_collation(identifier: str, where: str) -> Collation | None:
    """The collation that a user asks for, `None` for the default one, which a schema never names.

    >>> str(schema_collation("icu.de_CI", "name")), schema_collation("spark.UTF8_BINARY", "name")
    ('icu.de_CI', None)
    """
    try:
        collation = Collation.parse(identifier)
    except CollationError as error:
        raise CollationError(error.what, where=where, remedy=error.remedy) from None
    if collation.is_default:
        return None
    # Delta collations, Collation identifiers: those in the schema have no version.
    if collation.version is not None:
        plain = collation.unversioned()
        raise CollationError(
            f"{collation} names a version, and a schema names none", where=where, remedy=f"use {plain}"
        )
    if not collation.opens_in_spark:
        raise CollationError(
            f"Spark cannot open a schema with the collation {collation}",
            where=where,
            remedy="use one of the providers: icu, spark",
        )
    return collation


class _Plan:
    """A table before and after the change of its schema."""

    def __init__(self, snapshot: Snapshot, wanted: Mapping[tuple[str, ...], Collation | None]) -> None:
        self.snapshot = snapshot
        self.details = snapshot.details
        metadata = self.details.metadata
        self.schema_text = with_collations(metadata.schema_string, wanted)
        schema = from_delta_schema(self.schema_text, properties=metadata.configuration)
        self.before = collations_of(snapshot.schema)
        self.now = collations_of(schema)
        self.changed = {path for path in {*self.before, *self.now} if self.before.get(path) != self.now.get(path)}
        self.measured = measured_strings(
            schema,
            mapping=self.details.column_mapping,
            indexed=self.details.indexed,
            partitions=snapshot.partition_columns,
        )
        held = {one.name for one in snapshot.protocol.features}
        self.is_new_feature = bool(self.now) and not held & _FEATURES
        self.protocol = self._protocol(held)
        protocol = snapshot.protocol if self.protocol is None else read_protocol(self.protocol)
        self.after = replace(snapshot, schema=schema, protocol=protocol)

    def actions(self, storage: Storage) -> list[str]:
        """The protocol and the metadata, where they change."""
        actions = [] if self.protocol is None else [protocol_text(self.protocol)]
        if self.schema_text != self.details.metadata.schema_string:
            actions.append(metadata_text(storage, self.details, schema=self.schema_text))
        return actions

    def doors(self) -> tuple[OneWayDoor, ...]:
        if not self.is_new_feature:
            return ()
        facts = [fact for fact in engine_facts(self.after) if fact.kind is TableKind.DELTA_COLLATED]
        out = ", ".join(fact.engine for fact in facts if fact.writes is Answer.NO)
        why = f"The feature collations stays with the table: {out} and others cannot write it any more; geolake_nb can."
        return (OneWayDoor("collations", why),)

    def job(self, *, refresh: bool, upgrade: bool) -> CollateJob | None:
        """What Spark has to do; `None` if all that happens is that collations go."""
        new = {path: self.now[path] for path in sorted(self.changed) if path in self.now}
        stale = {tuple(split_path(one.path)): one for one in table_collations(self.after).columns}
        wanted: dict[Collation, str] = {}
        columns: list[CollatedString] = []
        files: set[str] = set()
        for column in self.measured:
            if column.path in new or upgrade:
                columns.append(column)
                files |= set(self._with_values(column.path))
            elif refresh and not stale[column.path].hinted:
                # The table asks for no version: Spark's own will do, and which files have it shows when it runs.
                columns.append(column)
                files |= set(self._with_values(column.path))
            elif refresh and stale[column.path].stale:
                columns.append(column)
                files |= set(stale[column.path].stale)
                wanted[column.collation] = str(stale[column.path].wanted)
        if not new and not columns:
            return None
        return replace(
            self.leftovers(),
            schema=self.schema_text,
            collations=new,
            columns=tuple(columns),
            files=tuple(sorted(files)),
            wanted={} if upgrade else wanted,
            edit=replace(self.leftovers().edit, columns=tuple(columns), only_newest=upgrade),
        )

    def leftovers(self) -> CollateJob:
        """What goes because no string has it any more: needs no Spark."""
        gone = {self.before[path] for path in self.changed if path in self.before}
        unused = frozenset(gone - set(self.now.values()))
        physical = self.details.column_mapping.physical
        dropped = frozenset(
            (self.before[path], physical(self.snapshot.schema, path))
            for path in self.changed
            if path in self.before and self.before[path] not in unused
        )
        return CollateJob(
            schema=self.schema_text,
            collations={},
            columns=(),
            files=(),
            segment=self.details.segment,
            hints=collation_hints(self.snapshot),
            edit=StatsEdit(unused=unused, dropped=dropped),
        )

    def reads(self, job: CollateJob) -> Reads:
        table = self.snapshot.files.table
        read = pc.is_in(table["path"], value_set=pa.array(job.files, pa.string()))
        return Reads(len(job.files), pc.sum(table["bytes"].filter(read)).as_py() or 0)

    def says(self, job: CollateJob | None, *, upgrade: bool) -> Iterator[str]:
        for path in sorted(self.changed):
            old, new = self.before.get(path), self.now.get(path)
            name = join_path(path)
            if new is None:
                yield f"{name} compares by its bytes again, and no longer by {old}."
            else:
                yield f"{name} compares by {new}" + ("." if old is None else f", and no longer by {old}.")
            if new is not None and path not in {one.path for one in self.measured}:
                yield f"{name} gets no statistics: it is in a list or a map, a partition column or not indexed."
        for fact in engine_facts(self.after):
            if self.changed and fact.kind is TableKind.DELTA_COLLATED and fact.reads is Answer.NO:
                yield f"{fact.engine} cannot read the table with these collations: it {fact.note}."
        if self.schema_text != self.details.metadata.schema_string and not self.changed:
            yield "The schema names its collations as it should: no default one, no version."
        if job is None:
            return
        files = f"{len(job.files):,} file{'' if len(job.files) == 1 else 's'}"
        names = ", ".join(join_path(one.path) for one in job.columns)
        if upgrade:
            yield f"Statistics of {names} follow Spark's version of the collation; those of other versions go."
            yield f"Spark reads those of {files} that lack them."
        elif job.columns:
            yield f"Spark computes statistics of {names} for {files}."
        if job.collations and any(key.startswith("delta.constraints.") for key in self.snapshot.properties):
            yield "The table's constraints compare by the collation from now on; rows that are there are not checked."

    def _protocol(self, held: set[str]) -> Mapping[str, Any] | None:
        # Delta collations: writer version 7 with both features; readers need not know them.
        needed = {"domainMetadata"} | (set() if held & _FEATURES else {"collations"})
        if not self.now or needed <= held:
            return None
        protocol = {key: value for key, value in self.details.protocol.items() if value is not None}
        return upgraded_protocol(protocol, sorted(needed - held), configuration=self.snapshot.properties)

    def _with_values(self, path: tuple[str, ...]) -> list[str]:
        paths = self.snapshot.files.table["path"]
        chosen: list[str] = paths.filter(pa.array(~without_values(self.snapshot, path))).to_pylist()
        return chosen
