"""Set, change and drop collations of strings and update their statistics: the plan before Spark runs."""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CollationError, RefusedError
from geolake_nb.formats.delta.add_action import StatsEdit, collated_add
from geolake_nb.formats.delta.collations import (
    collations_of,
    measured_strings,
    table_collations,
    with_collations,
    without_values,
)
from geolake_nb.formats.delta.constraints import require_unused
from geolake_nb.formats.delta.format import collation_hints
from geolake_nb.formats.delta.protocol import COLLATIONS_PREVIEWS, Doing, read_protocol, require_writable
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.formats.delta.write import metadata_text, protocol_text, upgraded_protocol
from geolake_nb.model.change import Change, IrreversibleStep, Reads, Verb
from geolake_nb.model.collation import Collation
from geolake_nb.model.collation_stats import COLLATIONS_DOMAIN, CollationHints
from geolake_nb.model.schema import join_path, split_path, type_name
from geolake_nb.model.table_format import Answer, TableKind
from geolake_nb.model.types import StringType
from geolake_nb.scan.engines import engine_facts, facts_by_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.formats.delta.add_action import Ranges
    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.value_scan import CollatedString
    from geolake_nb.storage.storage import Storage

__all__ = [
    "CollateJob",
    "finish_collations",
    "hints_action",
    "plan_collations",
    "schema_collation",
    "string_path",
    "with_versions",
]

_FEATURE = "collations"
_FEATURES = frozenset({_FEATURE, *COLLATIONS_PREVIEWS})
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
    """The columns to compute statistics for."""
    files: tuple[str, ...]
    """The files that may lack some, as the log stores them."""
    segment: LogSegment = field(repr=False)
    """The part of the log that lists the files."""
    hints: CollationHints
    wanted: Mapping[Collation, str] = field(default_factory=dict)
    """The version of a collation that Spark must have, where statistics of another are of no use."""
    edit: StatsEdit = field(default_factory=StatsEdit)
    """What is known before Spark reports the version that it compares by."""

    def to_dict(self) -> dict[str, Any]:
        """`collations, columns, files, paths` (a digest of the paths)`, wanted, only_newest`."""
        return {
            "collations": {join_path(path): str(collation) for path, collation in self.collations.items()},
            "columns": {join_path(column.path): str(column.collation) for column in self.columns},
            "files": len(self.files),
            "paths": hashlib.sha256("\n".join(self.files).encode()).hexdigest()[:12],
            "wanted": {str(collation): version for collation, version in self.wanted.items()},
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
    """Set, change or (`None`) drop the collations of strings, and update their statistics.

    `refresh` is for files that lack statistics of the newest version that the table requests; `upgrade` computes
    statistics of Spark's version and drops those of others.
    """
    # A preview is enough for changes; with the feature alone, the final name replaces it.
    plan = _Plan(snapshot, _wanted(snapshot, changes), keeps_preview=bool(changes) or refresh or upgrade)
    where = snapshot.location
    for path in sorted(plan.changed):
        # What was computed or checked by the old collation may not hold by the new one.
        for part in path:
            require_unused(snapshot, part, where=f"{where}, column {join_path(path)}")
    if plan.schema_text != plan.details.metadata.schema_string:
        require_writable(snapshot.protocol, plan.details.metadata, doing=Doing.SCHEMA, where=where)
    require_writable(snapshot.protocol, plan.details.metadata, doing=Doing.UPDATE_STATS, where=where)
    change = Change(
        verb=Verb.COLLATIONS,
        format=snapshot.format,
        location=where,
        base_version=snapshot.version,
        actions=plan.actions(storage),
        irreversible_steps=plan.irreversible_steps(),
        engines=engine_facts(plan.after),
        undo="geolake undo reverts it" + (", the feature collations stays" if plan.is_new_feature else ""),
        metrics={"collations_changed": len(plan.changed)},
        parameters={
            "changes": json.dumps(dict(changes), ensure_ascii=False, sort_keys=True),
            "refresh": json.dumps(refresh),
            "upgrade": json.dumps(upgrade),
        },
    )
    job = plan.job(refresh=refresh, upgrade=upgrade)
    notes = tuple(plan.notes(job, upgrade=upgrade))
    if job is not None:
        return replace(change, job=job, notes=notes, reads=plan.reads(job))
    return replace(finish_collations(storage, change, plan.leftovers()), notes=notes)


def finish_collations(
    storage: Storage, change: Change, job: CollateJob, ranges: Mapping[str, Ranges] | None = None
) -> Change:
    """The change with the hints and the updated files; `ranges` are the string ranges in each file."""
    ranges = ranges or {}
    edit = job.edit
    adds = []
    touched = edit.unused or edit.dropped or edit.only_newest
    if touched or ranges:
        for batch in raw_adds(storage, job.segment, None if touched else list(ranges)).to_batches(_BATCH):
            for row in batch.to_pylist():
                action = collated_add(row["add"], edit, ranges.get(row["path"], {}))
                if action is not None:
                    adds.append(action)
    hints = _hints(job)
    domain = [] if hints.to_json() == job.hints.to_json() else [hints_action(hints)]
    metrics = {**change.metrics, "files_updated": len(adds)}
    return replace(change, job=None, actions=[*change.actions, *domain, *adds], metrics=metrics)


def with_versions(job: CollateJob, versions: Mapping[Collation, str], *, where: str) -> CollateJob:
    """The job, now that Spark's collation versions are known; those that are wanted must be among them."""
    for collation, version in job.wanted.items():
        if versions[collation] != version:
            raise RefusedError(
                f"the table requests statistics of {collation}.{version}, and Spark compares by {versions[collation]}",
                where=where,
                remedy="upgrade the statistics (geolake collations --upgrade)",
            )
    used = {column.collation: versions[column.collation] for column in job.columns}
    return replace(job, edit=replace(job.edit, versions=tuple(used.items())))


def hints_action(hints: CollationHints) -> str:
    """The `domainMetadata` action with the hints; the domain is removed with its last hint.

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
    """The hints with the versions that have statistics, and without unused ones."""
    hints, edit = job.hints, job.edit
    wanted = {edit.version_of(column.collation) for column in edit.columns}
    renewed = {collation.unversioned() for collation in wanted} if edit.only_newest else set()
    for known in job.hints.collations:
        plain = known.unversioned()
        if plain in edit.unused or (plain in renewed and known not in wanted):
            hints = hints.removing(known)
    for known in sorted(wanted, key=str):
        hints = hints.adding(known)
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
    path = tuple(part.name for part in chain)
    if isinstance(chain[-1].type, StringType):
        return path
    strings = [join_path(names) for names, field in schema.walk_parts() if isinstance(field.type, StringType)]
    near = [string for string in strings if split_path(string)[: len(path)] == path]
    near += difflib.get_close_matches(name, strings, n=_SHOWN)
    raise CollationError(
        f"{join_path(path)} is a {type_name(chain[-1].type)}, and only strings have collations",
        where=where,
        remedy=f"use one of: {', '.join(sorted(set(near or strings))[:_SHOWN])}" if strings else None,
    )


def schema_collation(identifier: str, where: str) -> Collation | None:
    """The collation that a user names, `None` for the default one, which a schema never names.

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
            f"{collation} has a version, which a schema must not have", where=where, remedy=f"use {plain}"
        )
    if not collation.opens_in_spark:
        raise CollationError(
            f"Spark cannot open a schema with the collation {collation}",
            where=where,
            remedy=collation.in_spark,
        )
    return collation


class _Plan:
    """A table before and after the change of its schema."""

    def __init__(
        self, snapshot: Snapshot, wanted: Mapping[tuple[str, ...], Collation | None], *, keeps_preview: bool
    ) -> None:
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
        # Delta collations: a writer feature; listed for readers as well, it is wrong.
        features = snapshot.protocol.features
        listed = {feature.name for feature in features if feature.needed_to_write and not feature.needed_to_read}
        self.is_new_feature = bool(self.now) and not listed & _FEATURES
        self.previews = set() if keeps_preview else listed.intersection(COLLATIONS_PREVIEWS)
        self.protocol = self._protocol(listed)
        protocol = snapshot.protocol if self.protocol is None else read_protocol(self.protocol)
        self.after = replace(snapshot, schema=schema, protocol=protocol)

    def actions(self, storage: Storage) -> list[str]:
        """The protocol and the metadata, where they change."""
        actions = [] if self.protocol is None else [protocol_text(self.protocol)]
        if self.schema_text != self.details.metadata.schema_string:
            actions.append(metadata_text(storage, self.details, schema=self.schema_text))
        return actions

    def irreversible_steps(self) -> tuple[IrreversibleStep, ...]:
        if not self.is_new_feature:
            return ()
        facts = [fact for fact in facts_by_kind(self.after) if fact.kind is TableKind.DELTA_COLLATED]
        out = ", ".join(fact.engine for fact in facts if fact.writes is Answer.NO)
        why = f"The feature collations stays in the table: {out} and others can no longer write it; geolake_nb can."
        return (IrreversibleStep("collations", why),)

    def job(self, *, refresh: bool, upgrade: bool) -> CollateJob | None:
        """What Spark has to do; `None` if collations are only dropped."""
        new = {path: self.now[path] for path in sorted(self.changed) if path in self.now}
        stale = {tuple(split_path(column.path)): column for column in table_collations(self.after).columns}
        wanted: dict[Collation, str] = {}
        columns: list[CollatedString] = []
        files: set[str] = set()
        for column in self.measured:
            if column.path in new or upgrade:
                columns.append(column)
                files |= set(self._with_values(column.path))
            elif refresh and not stale[column.path].hinted:
                # The table requests no version: Spark's own is used, and which files have it is known when it runs.
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
        """What is removed because no string uses it any more: needs no Spark."""
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

    def notes(self, job: CollateJob | None, *, upgrade: bool) -> Iterator[str]:
        for path in sorted(self.changed):
            old, new = self.before.get(path), self.now.get(path)
            name = join_path(path)
            if new is None:
                yield f"{name} compares by bytes again, no longer by {old}."
            else:
                yield f"{name} compares by {new}" + ("." if old is None else f", no longer by {old}.")
            if new is not None and path not in {column.path for column in self.measured}:
                yield f"{name} gets no statistics: it is in a list or a map, a partition column or not indexed."
        for fact in facts_by_kind(self.after):
            if self.changed and fact.kind is TableKind.DELTA_COLLATED and fact.reads is Answer.NO:
                yield f"{fact.engine} cannot read the table with these collations: it {fact.note}."
        for name in sorted(self.previews):
            yield f"The protocol gets the feature {_FEATURE!r} instead of its preview {name!r}."
        if self.schema_text != self.details.metadata.schema_string and not self.changed:
            yield "The schema is corrected: no default collation and no version in it."
        if job is None:
            return
        files = f"{len(job.files):,} file{'' if len(job.files) == 1 else 's'}"
        names = ", ".join(join_path(column.path) for column in job.columns)
        if upgrade:
            yield f"Statistics of {names} are computed by Spark's version of the collation; other versions are removed."
            yield f"Spark reads the files among {files} that lack them."
        elif job.columns:
            yield f"Spark computes statistics of {names} for {files}."
        if job.collations and any(key.startswith("delta.constraints.") for key in self.snapshot.properties):
            yield "The table's constraints compare by the collation from now on; existing rows are not checked."

    def _protocol(self, listed: set[str]) -> Mapping[str, Any] | None:
        # Delta collations: writer version 7 with both features; readers need not know them.
        needed = {"domainMetadata"} | (set() if listed & _FEATURES and not self.previews else {_FEATURE})
        if not self.previews and (not self.now or needed <= listed):
            return None
        protocol = {key: value for key, value in self.details.protocol.items() if value is not None}
        return upgraded_protocol(
            protocol, sorted(needed), configuration=self.snapshot.properties, previews=self.previews
        )

    def _with_values(self, path: tuple[str, ...]) -> list[str]:
        paths = self.snapshot.files.table["path"]
        chosen: list[str] = paths.filter(pa.array(~without_values(self.snapshot, path))).to_pylist()
        return chosen
