"""The Iceberg format: what is special about its tables, and where each of their changes is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.base import Format
from geolake_nb.model.change import Verb
from geolake_nb.model.table_format import FileField, SpecReference, TableKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.base import Applied, ColumnTypes, CommitContext, TableSource, VersionChoice
    from geolake_nb.formats.iceberg.schema import NameMapping
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot, VersionInfo
    from geolake_nb.model.table_format import FieldNaming
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.scan.data_file import RowSource
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["ICEBERG", "IcebergFormat"]

_SPEC = "Iceberg table spec v3"


class IcebergFormat(Format):
    """Apache Iceberg: metadata files, manifest lists and manifests."""

    name: ClassVar[str] = "iceberg"
    engine_format: ClassVar[str] = "iceberg"
    geo_kind: ClassVar[TableKind] = TableKind.ICEBERG_GEO
    published_kind: ClassVar[TableKind | None] = TableKind.ICEBERG_PUBLISHED
    types_spec: ClassVar[SpecReference] = SpecReference(_SPEC, "Primitive Types")
    parquet_spec: ClassVar[SpecReference] = SpecReference(_SPEC, "Primitive Types")
    files_spec: ClassVar[SpecReference] = SpecReference(_SPEC, "Manifests")
    file_size_spec: ClassVar[SpecReference] = SpecReference("Iceberg configuration", "write.target-file-size-bytes")
    time_travel: ClassVar[tuple[str, ...]] = ("branch or tag", "snapshot_id", "timestamp")
    named_in_catalogs: ClassVar[bool] = True

    def bounds_spec(self, type_: DataType) -> SpecReference:
        return SpecReference(_SPEC, "Bounds for Geometry and Geography")

    def file_key(self, snapshot: Snapshot) -> Callable[[str], str]:
        key: Callable[[str], str] = snapshot.details.paths.key
        return key

    def field_naming(self, snapshot: Snapshot) -> FieldNaming:
        without_ids: dict[int, list[tuple[str, ...]]] = {}
        for parts, id_ in _mapped(_name_mapping(snapshot)):
            if id_ is not None:
                without_ids.setdefault(id_, []).append(parts)

        def naming(_: tuple[str, ...], column: Field) -> FileField:
            # Files without ids go by the name mapping, and only if that has one name for the column.
            names = [] if column.id is None else without_ids.get(column.id, [])
            return FileField(names[0] if len(names) == 1 else (), column.id)

        return naming

    def manifest_count(self, snapshot: Snapshot) -> int | None:
        import pyarrow.compute as pc

        if snapshot.details is None:
            return None
        return pc.sum(pc.invert(snapshot.details.manifests["is_deletes"])).as_py() or 0

    def detect(self, storage: Storage) -> Callable[[], str | None]:
        from geolake_nb.formats.iceberg.location import find_metadata

        return storage.prefetch(lambda: find_metadata(storage))

    def open(self, source: TableSource, choice: VersionChoice) -> Snapshot:
        from geolake_nb.formats.iceberg.snapshot import open_iceberg

        return open_iceberg(
            source.storage,
            metadata=_newest_metadata(source),
            snapshot_id=choice.snapshot_id,
            timestamp=choice.timestamp,
            ref=choice.ref,
        )

    def history(self, source: TableSource, snapshot: Snapshot, *, newest: int | None = None) -> Sequence[VersionInfo]:
        from geolake_nb.formats.iceberg.snapshot import iceberg_history

        return iceberg_history(source.storage, metadata=_newest_metadata(source))[::-1][:newest]

    def row_source(self, storage: Storage, snapshot: Snapshot) -> RowSource:
        from geolake_nb.formats.iceberg.row_source import IcebergRowSource

        return IcebergRowSource(storage, snapshot)

    def plan_repair(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | ColumnTypes | None,
        verify: bool,
        on_progress: Progress | None,
    ) -> Change:
        from geolake_nb.formats.iceberg.repair import plan_repair

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
        from geolake_nb.formats.iceberg.rewrite import plan_rewrite

        self.refuse_types(snapshot, covering=covering, columns=columns)
        return plan_rewrite(storage, snapshot, packing=packing, where=where, files=files)

    def plan_undo(self, storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
        from geolake_nb.formats.iceberg.undo import plan_undo

        return plan_undo(storage, snapshot, version)

    def plan_create(self, new: NewTable) -> Change:
        from geolake_nb.formats.iceberg.write import plan_create

        return plan_create(new)

    def plan_publish(
        self,
        snapshot: Snapshot,
        *,
        columns: ColumnTypes,
        leave_files: bool,
        on_progress: Progress | None,
    ) -> Change:
        from geolake_nb.formats.iceberg.publish import plan_publish

        return plan_publish(snapshot, columns=columns, leave_files=leave_files, on_progress=on_progress)

    def plan_append(self, snapshot: Snapshot, rows: InputRows, *, columns: ColumnTypes, packing: Packing) -> Change:
        from geolake_nb.formats.iceberg.write import plan_append

        return plan_append(snapshot, rows, columns=columns, packing=packing)

    def find_transaction(self, change: Change, context: CommitContext) -> int | None:
        if change.verb is Verb.PUBLISH:
            from geolake_nb.formats.iceberg.publish import find_published

            return find_published(change, context)
        if _is_in_place(change):
            from geolake_nb.formats.havasu.in_place import find_in_place

            return find_in_place(change, context)
        from geolake_nb.formats.iceberg.commit import find_transaction

        return find_transaction(change, context)

    def require_atomic_put(self, change: Change, context: CommitContext) -> None:
        if change.verb is Verb.PUBLISH:
            from geolake_nb.formats.parquet_folder.commit import require_atomic_put as require_journal

            require_journal(context)
            return
        if _is_in_place(change):
            from geolake_nb.formats.havasu.commit import require_atomic_put as require_file_put

            require_file_put(context)
            return
        from geolake_nb.formats.iceberg.commit import require_atomic_put

        require_atomic_put(context)

    def commit(self, change: Change, context: CommitContext) -> Applied:
        if change.verb is Verb.PUBLISH:
            from geolake_nb.formats.iceberg.publish import commit_published

            return commit_published(change, context)
        if _is_in_place(change):
            from geolake_nb.formats.havasu.in_place import commit_in_place

            return commit_in_place(change, context)
        from geolake_nb.formats.iceberg.commit import commit_change

        return commit_change(change, context)


ICEBERG = IcebergFormat()


def _newest_metadata(source: TableSource) -> str | None:
    """The metadata file, as a catalog has it now: each commit makes a new one."""
    if source.detected is not None:
        return str(source.detected)
    return source.metadata if source.catalog is None else source.catalog.newest().metadata


def _is_in_place(change: Change) -> bool:
    """Whether it writes metadata over the files of another table, for which no JVM is needed."""
    return change.verb is Verb.CONVERT and "inPlace" in change.parameters


def _name_mapping(snapshot: Snapshot) -> NameMapping:
    from geolake_nb.formats.iceberg.schema import name_mapping

    try:
        return name_mapping(snapshot) or {}
    except CorruptTableError:
        return {}


def _mapped(mapping: NameMapping) -> Iterator[tuple[tuple[str, ...], int | None]]:
    for name, (id_, inside) in mapping.items():
        yield (name,), id_
        for parts, inner in _mapped(inside):
            yield (name, *parts), inner
