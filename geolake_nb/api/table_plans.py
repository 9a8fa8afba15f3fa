"""The changes that can be planned on an open table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.api.column_types import parse_column_types
from geolake_nb.api.opening import whole_number
from geolake_nb.formats.registry import FORMATS, PARQUET
from geolake_nb.model.change import of_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from geolake_nb.api.column_types import ColumnTypesInput
    from geolake_nb.api.plan import Plan
    from geolake_nb.formats.base import Format, TableSource
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

    Progress = Callable[[int, int], None]

__all__ = ["TablePlans"]


class TablePlans:
    """The changes of a table: each method returns a plan, and `apply` of the plan makes the change."""

    snapshot: Snapshot
    _source: TableSource

    @property
    def _storage(self) -> Storage:
        return self._format.storage_of(self._source, self.snapshot)

    @property
    def _format(self) -> Format:
        return FORMATS[self.snapshot.format.name]

    def plan_repair(
        self,
        *,
        columns: Sequence[str] | ColumnTypesInput | None = None,
        verify: bool = False,
        on_progress: Progress | None = None,
    ) -> Plan:
        """Repair missing or wrong bounds, from the cheapest reliable source for each file.

        The Parquet footers are read now, in parallel; where they have no bounds, `apply` reads the values with Spark.
        With `verify` every value is read, which also finds bounds that contradict the data.
        `columns` names geo columns; in Parquet files it may declare types of WKB columns without metadata.
        """
        if isinstance(columns, Mapping):
            columns = parse_column_types(columns, self.snapshot.properties)
        change = self._changeable().plan_repair(
            self._storage, self.snapshot, columns=columns, verify=verify, on_progress=on_progress
        )
        return self._plan(change)

    def plan_rewrite(
        self,
        *,
        cluster_by: str | Sequence[str] = (),
        curve: str = "hilbert",
        target_file_size: int | str = "128MB",
        row_group_rows: int | None = None,
        where: str | None = None,
        covering: bool = False,
        columns: ColumnTypesInput | None = None,
    ) -> Plan:
        """Rewrite the rows into new files: clustered by these geo and plain columns, or just compacted.

        `where` selects partitions; other files stay. With `covering`, new Parquet files have a column with the
        box of each row, as GeoParquet has it. In Parquet files `columns` gives types to columns of WKB, EWKB or WKT.
        """
        from geolake_nb.changes.packing import Packing

        change = self._changeable().plan_rewrite(
            self._storage,
            self.snapshot,
            packing=Packing.of(
                cluster_by=cluster_by,
                curve=curve,
                target_file_size=target_file_size,
                row_group_rows=row_group_rows,
                where=self.snapshot.location,
            ),
            where=where,
            covering=covering,
            columns=parse_column_types(columns) if columns else None,
        )
        return self._plan(change)

    def plan_enable(self, columns: ColumnTypesInput) -> Plan:
        """Convert columns of WKB, EWKB or WKT to geometries or geographies; without columns, enable the feature."""
        types = parse_column_types(columns, self.snapshot.properties)
        return self._plan(self._format.plan_enable(self._storage, self.snapshot, types))

    def plan_convert(
        self,
        target: str,
        *,
        format: str = "delta",  # noqa: A002
        columns: ColumnTypesInput | None = None,
        partition_by: Sequence[str] = (),
        cluster_by: str | Sequence[str] = (),
        target_file_size: int | str = "128MB",
        row_group_rows: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Plan:
        """Create a table from the rows of these Parquet files, which stay unchanged."""
        from geolake_nb.api.writing import plan_convert

        if self.snapshot.format is not PARQUET:
            raise self._format.not_offered("convert", self.snapshot, only=PARQUET.name)
        return plan_convert(
            self.snapshot,
            target,
            format=format,
            columns=columns,
            partition_by=partition_by,
            cluster_by=cluster_by,
            target_file_size=target_file_size,
            row_group_rows=row_group_rows,
            storage_options=storage_options,
        )

    def plan_collations(
        self, changes: Mapping[str, str | None] | None = None, *, refresh: bool = False, upgrade: bool = False
    ) -> Plan:
        """Set, change or (`None`) drop the collation of strings; Spark computes the statistics when it is applied.

        `refresh` computes them for files that lack them; `upgrade` does so for Spark's version of the collation and
        drops those of older ones.
        """
        change = self._format.plan_collations(
            self._storage, self.snapshot, changes or {}, refresh=refresh, upgrade=upgrade
        )
        return self._plan(change)

    def plan_undo(self, version: int | None = None) -> Plan:
        """Undo the change that made that version, or the newest change of this toolkit."""
        chosen = whole_number("version", version)
        return self._plan(self._changeable().plan_undo(self._storage, self.snapshot, chosen))

    def plan_forget(self, version: int | None = None) -> Plan:
        """Delete the backups that a set of Parquet files keeps for undo, of all changes or up to a version.

        Other formats keep old files by their own rules: VACUUM and the expiry of snapshots remove them.
        """
        chosen = whole_number("version", version)
        return self._plan(self._format.plan_forget(self._storage, self.snapshot, chosen))

    def _changeable(self) -> Format:
        """The format, where tables of this source can be changed."""
        self._format.require_changeable(self._source)
        return self._format

    def _plan(self, change: Change) -> Plan:
        from geolake_nb.api.plan import Plan

        # The root of a file or a pattern is the folder that they are in.
        return Plan(of_table(change, self.snapshot), replace(self._source, storage=self._storage))
