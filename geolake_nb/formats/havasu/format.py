"""The Havasu format: what is special about its tables, and where each of their changes is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from geolake_nb.formats.base import Format
from geolake_nb.formats.iceberg.format import IcebergFormat
from geolake_nb.model.table_format import SpecReference, TableKind
from geolake_nb.model.types import RasterType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.base import Applied, ColumnTypes, CommitContext, TableSource
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["HAVASU", "HavasuFormat"]

_SPEC = "Havasu table spec"


class HavasuFormat(IcebergFormat):
    """Iceberg v1 or v2 with geometry and raster columns and spatial bounds in its manifests."""

    name: ClassVar[str] = "havasu"
    infers_binary_geometry: ClassVar[bool] = False
    geo_kind: ClassVar[TableKind] = TableKind.HAVASU
    types_spec: ClassVar[SpecReference] = SpecReference("Parquet geospatial", "Coordinate Reference System")
    named_in_catalogs: ClassVar[bool] = False

    def bounds_spec(self, type_: DataType) -> SpecReference:
        return SpecReference(_SPEC, "Raster bounds" if isinstance(type_, RasterType) else "Geometry bounds")

    def detect(self, storage: Storage) -> Callable[[], str | None]:
        return lambda: None  # found as Iceberg: only the metadata tells them apart

    def require_changeable(self, source: TableSource) -> None:
        if source.catalog is not None:
            from geolake_nb.formats.havasu.metadata import catalog_refusal

            listed = f"{source.catalog.catalog} has it as {source.catalog.name}"
            raise catalog_refusal(listed, where=source.storage.location)

    def plan_repair(
        self,
        storage: Storage,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | ColumnTypes | None,
        verify: bool,
        on_progress: Progress | None,
    ) -> Change:
        from geolake_nb.formats.havasu.write import plan_repair

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
        from geolake_nb.formats.havasu.write import plan_rewrite

        self.refuse_types(snapshot, covering=covering, columns=columns)
        return plan_rewrite(storage, snapshot, packing=packing, where=where, files=files)

    def plan_undo(self, storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
        from geolake_nb.formats.havasu.write import plan_undo

        return plan_undo(storage, snapshot, version)

    def plan_create(self, new: NewTable) -> Change:
        from geolake_nb.formats.havasu.write import plan_create

        return plan_create(new)

    def plan_publish(
        self,
        snapshot: Snapshot,
        *,
        columns: ColumnTypes,
        leave_files: bool,
        on_progress: Progress | None,
    ) -> Change:
        # Not as Iceberg: its files would need field ids and no geo types.
        return Format.plan_publish(self, snapshot, columns=columns, leave_files=leave_files, on_progress=on_progress)

    def plan_append(self, snapshot: Snapshot, rows: InputRows, *, columns: ColumnTypes, packing: Packing) -> Change:
        from geolake_nb.formats.havasu.write import plan_append

        return plan_append(snapshot, rows, columns=columns, packing=packing)

    def plan_overwrite(self, snapshot: Snapshot, rows: InputRows, *, columns: ColumnTypes, packing: Packing) -> Change:
        from geolake_nb.formats.havasu.write import plan_overwrite

        return plan_overwrite(snapshot, rows, columns=columns, packing=packing)

    def find_transaction(self, change: Change, context: CommitContext) -> int | None:
        from geolake_nb.formats.havasu.commit import find_transaction

        return find_transaction(change, context)

    def require_atomic_put(self, change: Change, context: CommitContext) -> None:
        from geolake_nb.formats.havasu.commit import require_atomic_put

        require_atomic_put(context)

    def commit(self, change: Change, context: CommitContext) -> Applied:
        from geolake_nb.formats.havasu.commit import commit_change

        return commit_change(change, context)


HAVASU = HavasuFormat()
