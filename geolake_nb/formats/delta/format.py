"""The Delta format: what is special about its tables, and where each of their changes is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from geolake_nb.errors import CollationError
from geolake_nb.formats.base import Format, VersionChoice
from geolake_nb.model.change import Verb
from geolake_nb.model.table_format import CollatedFiles, FileField, SpecReference, TableKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.base import Applied, ColumnTypes, CommitContext, TableSource
    from geolake_nb.formats.delta.log_segment import LogListing
    from geolake_nb.model.change import Change
    from geolake_nb.model.collation import Collation
    from geolake_nb.model.collation_stats import CollationHints
    from geolake_nb.model.snapshot import Snapshot, VersionInfo
    from geolake_nb.model.statistics import ScalarColumn
    from geolake_nb.model.table_format import FieldNaming
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.scan.data_file import RowSource
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["DELTA", "DeltaFormat", "collation_hints"]

_SPEC = "Delta geospatial types"


class DeltaFormat(Format):
    """Delta Lake: a log of JSON commits and Parquet checkpoints."""

    name: ClassVar[str] = "delta"
    engine_format: ClassVar[str] = "delta"
    version_option: ClassVar[str] = "--version"
    counts_versions: ClassVar[bool] = True
    wraps_longitude: ClassVar[bool] = False
    type_command: ClassVar[str | None] = "geolake enable {table} {column}"
    geo_kind: ClassVar[TableKind] = TableKind.DELTA_GEO
    published_kind: ClassVar[TableKind | None] = TableKind.DELTA_PUBLISHED
    types_spec: ClassVar[SpecReference] = SpecReference(_SPEC, "Type definitions")
    crs_property_spec: ClassVar[SpecReference] = types_spec
    parquet_spec: ClassVar[SpecReference] = SpecReference(_SPEC, "Geospatial data in Parquet")
    files_spec: ClassVar[SpecReference] = SpecReference("Delta protocol", "Add File and Remove File")
    file_size_spec: ClassVar[SpecReference] = SpecReference("Delta table properties", "delta.targetFileSize")
    time_travel: ClassVar[tuple[str, ...]] = ("timestamp", "version")

    def table_kinds(self, snapshot: Snapshot) -> frozenset[TableKind]:
        from geolake_nb.formats.delta.protocol import COLLATIONS_PREVIEWS, GEOSPATIAL_PREVIEWS
        from geolake_nb.model.types import StringType

        features = {feature.name for feature in snapshot.protocol.features}
        kinds = set(super().table_kinds(snapshot))
        if features & {"geospatial", *GEOSPATIAL_PREVIEWS}:
            kinds.add(TableKind.DELTA_GEO)
        strings = [field.type for _, field in snapshot.schema.walk() if isinstance(field.type, StringType)]
        if features & {"collations", *COLLATIONS_PREVIEWS} or any(type_.collation is not None for type_ in strings):
            kinds.add(TableKind.DELTA_COLLATED)
        return frozenset(kinds)

    def stable_action(self, action: str) -> str:
        from geolake_nb.formats.delta.add_action import without_deletion_time

        return without_deletion_time(action)

    def bounds_spec(self, type_: DataType) -> SpecReference:
        return SpecReference(_SPEC, "Per-file statistics")

    def file_key(self, snapshot: Snapshot) -> Callable[[str], str]:
        from geolake_nb.formats.delta.log_actions import decoded_path

        return decoded_path

    def field_naming(self, snapshot: Snapshot) -> FieldNaming:
        from geolake_nb.formats.delta.details import ColumnMapping

        mapping: ColumnMapping = snapshot.details.column_mapping
        physical: dict[tuple[str, ...], tuple[str, ...]] = {}
        for parts, column in snapshot.schema.walk_parts():
            above = physical.get(parts[:-1], ())
            physical.setdefault(parts, (*above, column.physical_name or column.name))

        def naming(parts: tuple[str, ...], column: Field) -> FileField:
            # Delta, Column Mapping: ids count in the mode `id` alone; in the mode `name` files may have others.
            names = parts if mapping is ColumnMapping.NONE else physical[parts]
            return FileField(names, column.id if mapping is ColumnMapping.ID else None)

        return naming

    def has_statistics(self, snapshot: Snapshot, path: tuple[str, ...]) -> bool:
        from geolake_nb.formats.delta.details import indexed_columns

        partitions = snapshot.partition_columns
        return path[0] in partitions or path in indexed_columns(snapshot.schema, snapshot.properties, partitions)

    def collated_files(self, snapshot: Snapshot) -> tuple[CollatedFiles, ...]:
        import numpy as np

        from geolake_nb.model.collation_stats import collations_in_stats
        from geolake_nb.model.types import StringType

        details = snapshot.details
        if details is None:
            return ()
        columns = {
            parts: details.column_mapping.physical(snapshot.schema, parts)
            for parts, column in snapshot.schema.walk_parts()
            if isinstance(column.type, StringType) and column.type.collation is not None
        }
        files: dict[tuple[tuple[str, ...], Collation], list[int]] = {}
        for row, stored in details.stats.collated_objects() if columns else ():
            for column, physical in columns.items():
                for collation in collations_in_stats(stored, physical):
                    files.setdefault((column, collation), []).append(row)
        marked = []
        for (column, collation), rows in files.items():
            has = np.zeros(len(details.stats), np.bool_)
            has[rows] = True
            marked.append(CollatedFiles(column, collation, has))
        return tuple(marked)

    def collated_column(
        self, snapshot: Snapshot, path: tuple[str, ...], collation: Collation, *, prefix_length: int
    ) -> ScalarColumn | None:
        details = snapshot.details
        if details is None:
            return None
        if len(path) == 1 and path[0] in snapshot.partition_columns:
            # All rows of a file have the one value, which is minimum and maximum under any collation.
            return snapshot.scalars(path)
        physical = details.column_mapping.physical(snapshot.schema, path)
        column: ScalarColumn | None = details.stats.collated(physical, collation, prefix_length=prefix_length)
        return column

    def detect(self, storage: Storage) -> Callable[[], LogListing | None]:
        from geolake_nb.formats.delta.log_segment import newest_log

        return lambda: newest_log(storage)

    def open(self, source: TableSource, choice: VersionChoice) -> Snapshot:
        from geolake_nb.formats.delta.snapshot import open_delta

        return open_delta(
            source.storage,
            version=choice.version,
            timestamp=choice.timestamp,
            allow_unknown_features=source.allow_unknown_features,
            log=source.detected,
        )

    def history(self, source: TableSource, snapshot: Snapshot, *, newest: int | None = None) -> Sequence[VersionInfo]:
        from geolake_nb.formats.delta.history import delta_history

        return delta_history(source.storage, newest=newest)

    def added_versions(self, storage: Storage, snapshot: Snapshot) -> pa.Array:
        from geolake_nb.formats.delta.history import added_versions

        return added_versions(storage, snapshot)

    def at(self, version: int) -> VersionChoice:
        return VersionChoice(version=version)

    def row_source(self, storage: Storage, snapshot: Snapshot) -> RowSource:
        from geolake_nb.formats.delta.row_source import DeltaRowSource

        return DeltaRowSource(storage, snapshot)

    def plan_repair(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | ColumnTypes | None,
        verify: bool,
        on_progress: Progress | None,
    ) -> Change:
        from geolake_nb.formats.delta.repair import plan_repair

        names = self.column_names(columns, snapshot)
        return plan_repair(storage, snapshot, columns=names, verify=verify, on_progress=on_progress)

    def plan_rewrite(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        packing: Packing,
        where: Predicate | None,
        covering: bool = False,
        columns: ColumnTypes | None = None,
        files: Sequence[int] | None = None,
    ) -> Change:
        from geolake_nb.formats.delta.rewrite import plan_rewrite

        self.refuse_types(snapshot, covering=covering, columns=columns)
        return plan_rewrite(storage, snapshot, packing=packing, where=where, files=files)

    def plan_undo(self, storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
        from geolake_nb.formats.delta.undo import plan_undo

        return plan_undo(storage, snapshot, version)

    def plan_create(self, new: NewTable) -> Change:
        from geolake_nb.formats.delta.write import plan_create

        return plan_create(new)

    def plan_append(self, snapshot: Snapshot, rows: InputRows, *, columns: ColumnTypes, packing: Packing) -> Change:
        from geolake_nb.formats.delta.write import plan_append

        return plan_append(snapshot, rows, columns=columns, packing=packing)

    def plan_publish(
        self,
        snapshot: Snapshot,
        *,
        columns: ColumnTypes,
        leave_files: bool,
        on_progress: Progress | None,
    ) -> Change:
        from geolake_nb.formats.delta.publish import plan_publish

        return plan_publish(snapshot, columns=columns, leave_files=leave_files, on_progress=on_progress)

    def find_transaction(self, change: Change, context: CommitContext) -> int | None:
        if change.verb is Verb.PUBLISH:
            from geolake_nb.formats.delta.publish import find_published

            return find_published(change, context)
        from geolake_nb.formats.delta.commit import find_transaction

        return find_transaction(change, context)

    def require_atomic_put(self, change: Change, context: CommitContext) -> None:
        from geolake_nb.formats.delta.commit import require_atomic_put

        require_atomic_put(context)

    def commit(self, change: Change, context: CommitContext) -> Applied:
        if change.verb is Verb.PUBLISH:
            from geolake_nb.formats.delta.publish import commit_published

            return commit_published(change, context)
        from geolake_nb.formats.delta.commit import commit_change

        return commit_change(change, context)

    def plan_enable(self, storage: Storage, snapshot: Snapshot, columns: ColumnTypes) -> Change:
        from geolake_nb.formats.delta.rewrite import plan_enable

        return plan_enable(storage, snapshot, columns)

    def plan_collations(
        self,
        storage: Storage,
        snapshot: Snapshot,
        changes: Mapping[str, str | None],
        *,
        refresh: bool,
        upgrade: bool,
    ) -> Change:
        from geolake_nb.formats.delta.collate import plan_collations

        return plan_collations(storage, snapshot, changes, refresh=refresh, upgrade=upgrade)


DELTA = DeltaFormat()


def collation_hints(snapshot: Snapshot) -> CollationHints:
    """The versions of collations that the table wants statistics of; none where it names none, or cannot be read."""
    from geolake_nb.model.collation_stats import COLLATIONS_DOMAIN, CollationHints

    if snapshot.format is not DELTA or snapshot.details is None:
        return CollationHints()
    try:
        return CollationHints.parse(snapshot.details.domains.get(COLLATIONS_DOMAIN, ""))
    except CollationError:
        return CollationHints()
