"""The changes that can be planned on an open table."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.api.column_types import said_types
from geolake_nb.api.opening import whole_number
from geolake_nb.errors import RefusedError
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.change import Verb, of_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from geolake_nb.api.column_types import SaidTypes
    from geolake_nb.api.opening import Source
    from geolake_nb.api.plan import Plan
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Change

    Progress = Callable[[int, int], None]

__all__ = ["TablePlans"]


class TablePlans:
    """What a table can have changed: each method decides and shows, `apply` of the plan does it."""

    snapshot: Snapshot
    _source: Source

    @property
    def _storage(self) -> Storage:
        if self.snapshot.format is TableFormat.PARQUET:
            storage: Storage = self.snapshot.details.storage
            return storage
        return self._source.storage

    def plan_repair(
        self,
        *,
        columns: Sequence[str] | SaidTypes | None = None,
        verify: bool = False,
        on_progress: Progress | None = None,
    ) -> Plan:
        """Bounds that are missing or wrong, from the cheapest sound source for each file.

        The Parquet footers are read now, in parallel; where they do not tell, `apply` has Spark read the values.
        With `verify` every value is read, so that bounds are mended too which only the data shows to be wrong.
        `columns` names geo columns; in Parquet files it may give types to columns of WKB that no metadata tells of.
        """
        if isinstance(columns, Mapping):
            self._require(TableFormat.PARQUET, "repair with types")
            columns = said_types(columns)
        planned = self._planner(Verb.REPAIR)
        options = {"columns": columns, "verify": verify, "on_progress": on_progress}
        return self._plan(planned(self._storage, self.snapshot, **options))

    def plan_rewrite(
        self,
        *,
        cluster_by: str | Sequence[str] = (),
        curve: str = "hilbert",
        target_file_size: int | str = "128MB",
        row_group_rows: int | None = None,
        where: str | None = None,
        covering: bool = False,
    ) -> Plan:
        """The same rows in new files: near each other by these geo and plain columns, or just of a better size.

        `where` chooses partitions; the files of others stay. With `covering`, new Parquet files have a column with the
        box of each row, as GeoParquet has it.
        """
        if covering:
            self._require(TableFormat.PARQUET, "a bbox covering")
        from geolake_nb.planning.writing.packing import Packing

        change = self._planner(Verb.REWRITE)(
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
            **({"covering": True} if covering else {}),
        )
        return self._plan(change)

    def plan_enable(self, columns: SaidTypes) -> Plan:
        """Columns of WKB, EWKB or WKT become geometries or geographies; without columns, only the feature."""
        from geolake_nb.planning.delta.enable import plan_enable

        self._require(TableFormat.DELTA, "enable")
        return self._plan(plan_enable(self._storage, self.snapshot, said_types(columns)))

    def plan_convert(
        self,
        target: str,
        *,
        format: str = "delta",  # noqa: A002
        columns: SaidTypes | None = None,
        partition_by: Sequence[str] = (),
        cluster_by: str | Sequence[str] = (),
        target_file_size: int | str = "128MB",
        row_group_rows: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Plan:
        """A new table with the rows of these Parquet files; this one stays as it is."""
        from geolake_nb.api.writing import plan_convert

        self._require(TableFormat.PARQUET, "convert")
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
        from geolake_nb.planning.delta.collate import plan_collations

        self._require(TableFormat.DELTA, "collations")
        change = plan_collations(self._storage, self.snapshot, changes or {}, refresh=refresh, upgrade=upgrade)
        return self._plan(change)

    def plan_undo(self, version: int | None = None) -> Plan:
        """Take back the change that made that version, or the newest change of this toolkit."""
        return self._plan(self._planner(Verb.UNDO)(self._storage, self.snapshot, whole_number("version", version)))

    def plan_forget(self, version: int | None = None) -> Plan:
        """Remove what a set of Parquet files keeps for undo, of all changes or of those up to a number.

        Other formats keep old files by their own rules: VACUUM and the expiry of snapshots remove them.
        """
        self._require(TableFormat.PARQUET, "forget")
        return self._plan(self._planner(Verb.FORGET)(self._storage, self.snapshot, whole_number("version", version)))

    def _planner(self, verb: Verb) -> Callable[..., Change]:
        """The function that decides on a change of this verb for the table's format."""
        module = importlib.import_module(f"geolake_nb.planning.{self.snapshot.format.value}.{verb.value}")
        planner: Callable[..., Change] = getattr(module, f"plan_{verb.value}")
        return planner

    def _plan(self, change: Change) -> Plan:
        from geolake_nb.api.plan import Plan

        # The root of a file or a pattern is the folder that they are in.
        return Plan(of_table(change, self.snapshot), replace(self._source, storage=self._storage))

    def _require(self, wanted: TableFormat, verb: str) -> None:
        if self.snapshot.format is not wanted:
            raise RefusedError(
                f"{verb} works on {wanted.value} tables, and this one is {self.snapshot.format.value}",
                where=self.snapshot.location,
            )
