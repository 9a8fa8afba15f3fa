"""The Parquet format: what is special about its tables, and where each of their changes is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from geolake_nb.formats.base import Format
from geolake_nb.model.table_format import SpecReference, TableKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.base import Applied, ColumnTypes, CommitContext, TableSource, VersionChoice
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot, VersionInfo
    from geolake_nb.model.types import DataType
    from geolake_nb.parquet.footer import FileView
    from geolake_nb.scan.data_file import RowSource
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["PARQUET", "ParquetFolderFormat"]


class ParquetFolderFormat(Format):
    """One Parquet file, or a folder of them, with or without GeoParquet metadata."""

    name: ClassVar[str] = "parquet"
    engine_format: ClassVar[str] = "parquet"
    has_versions: ClassVar[bool] = False
    type_command: ClassVar[str | None] = "geolake repair {table} --column {column}"
    geo_kind: ClassVar[TableKind] = TableKind.PARQUET_GEO
    types_spec: ClassVar[SpecReference] = SpecReference("Parquet geospatial", "Coordinate Reference System")
    parquet_spec: ClassVar[SpecReference] = SpecReference("Iceberg table spec v3", "Primitive Types")
    files_spec: ClassVar[SpecReference] = SpecReference("Iceberg table spec v3", "Manifests")
    file_size_spec: ClassVar[SpecReference] = SpecReference("Parquet documentation", "Configurations")

    def bounds_spec(self, type_: DataType) -> SpecReference:
        return SpecReference("Parquet geospatial", "Bounding Box")

    def footer_views(self, snapshot: Snapshot) -> Sequence[FileView] | None:
        return None if snapshot.details is None else snapshot.details.views

    def detect(self, storage: Storage) -> Callable[[], bool | None]:
        from geolake_nb.formats.parquet_folder.snapshot import has_parquet_files

        return lambda: has_parquet_files(storage) or None

    def open(self, source: TableSource, choice: VersionChoice) -> Snapshot:
        from geolake_nb.formats.parquet_folder.snapshot import open_parquet

        return open_parquet(source.location, options=source.options)

    def history(self, source: TableSource, snapshot: Snapshot, *, newest: int | None = None) -> Sequence[VersionInfo]:
        from geolake_nb.formats.parquet_folder.journal import parquet_history

        return parquet_history(snapshot, newest=newest)

    def storage_of(self, source: TableSource, snapshot: Snapshot) -> Storage:
        storage: Storage = snapshot.details.storage
        return storage

    def row_source(self, storage: Storage, snapshot: Snapshot) -> RowSource:
        from geolake_nb.formats.parquet_folder.row_source import ParquetRowSource

        return ParquetRowSource(snapshot)

    def plan_repair(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | ColumnTypes | None,
        verify: bool,
        on_progress: Progress | None,
    ) -> Change:
        from geolake_nb.formats.parquet_folder.repair import plan_repair

        return plan_repair(storage, snapshot, columns=columns, verify=verify, on_progress=on_progress)

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
        from geolake_nb.formats.parquet_folder.rewrite import plan_rewrite

        return plan_rewrite(
            storage, snapshot, packing=packing, where=where, covering=covering, columns=columns, files=files
        )

    def plan_undo(self, storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
        from geolake_nb.formats.detect import require_no_owner
        from geolake_nb.formats.parquet_folder.undo import plan_undo

        require_no_owner(storage)
        return plan_undo(storage, snapshot, version)

    def plan_create(self, new: NewTable) -> Change:
        from geolake_nb.formats.parquet_folder.write import plan_create

        return plan_create(new)

    def plan_append(self, snapshot: Snapshot, rows: InputRows, *, columns: ColumnTypes, packing: Packing) -> Change:
        from geolake_nb.formats.parquet_folder.write import plan_append

        return plan_append(snapshot, rows, columns=columns, packing=packing)

    def find_transaction(self, change: Change, context: CommitContext) -> int | None:
        from geolake_nb.formats.parquet_folder.commit import find_transaction

        return find_transaction(change, context)

    def require_atomic_put(self, change: Change, context: CommitContext) -> None:
        from geolake_nb.formats.parquet_folder.commit import require_atomic_put

        require_atomic_put(context)

    def commit(self, change: Change, context: CommitContext) -> Applied:
        from geolake_nb.formats.parquet_folder.commit import commit_change

        return commit_change(change, context)

    def plan_forget(self, storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
        from geolake_nb.formats.parquet_folder.undo import plan_forget

        return plan_forget(storage, snapshot, version)


PARQUET = ParquetFolderFormat()
