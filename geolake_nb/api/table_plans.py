"""The changes that can be planned on an open table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from geolake_nb.api.opening import whole_number
from geolake_nb.formats.registry import FORMATS, HAVASU, PARQUET
from geolake_nb.model.change import of_table
from geolake_nb.model.types import parse_column_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from geolake_nb.api.advice import Advice
    from geolake_nb.api.maintenance import MaintenanceReport, Queries
    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.formats.base import Format, TableSource
    from geolake_nb.model.cells import PartitionBy
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import ColumnTypesInput
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

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

        Args:
            columns: the geo columns to repair, all by default; in Parquet files it may declare types of WKB columns
                without metadata, as a dict of names and types.
            verify: read every value, which also finds bounds that contradict the data.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            A plan; `apply` commits the bounds.

        Raises:
            RefusedError: a feature of the table forbids the change.
            SchemaError: a column that the table does not have, or a type that cannot be read.

        Example:
            >>> plan = t.plan_repair()
            >>> plan.is_empty, plan.to_dict()["verb"]
            (False, 'repair')
            >>> plan.apply().metrics["files_updated"]
            3
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
        where: FilterInput | None = None,
        box_crs: str | None = None,
        covering: bool = False,
        columns: ColumnTypesInput | None = None,
    ) -> Plan:
        """Rewrite the rows into new files: clustered by geo and plain columns, or just compacted.

        Args:
            cluster_by: a column, or columns, by which rows are clustered; without one, small files are compacted.
            curve: the curve that clusters: `hilbert`, or `zorder`.
            target_file_size: the size of the new files, as bytes or as text such as `128MB`.
            row_group_rows: how many rows a row group gets at most, by default 65,536.
            where: a filter, or an area, as `explain` takes it: files that may have rows that match are rewritten, all
                others stay. An area is one of the geo column that rows are clustered by, else of the only one.
            box_crs: the CRS of an area without one of its own; by default that of its column.
            covering: new Parquet files get a column with the box of each row, as GeoParquet has it.
            columns: in Parquet files, the types of columns of WKB, EWKB or WKT.

        Returns:
            A plan; `preview` estimates what it improves, `apply` runs it with Spark.

        Raises:
            RefusedError: a feature of the table forbids the change.
            SchemaError: a column that the table does not have, or a type that cannot be read.
            PredicateError: a filter that cannot be read, or `box_crs` without one.

        Example:
            >>> plan = t.plan_rewrite(cluster_by="geom", target_file_size="64MB")
            >>> plan
            Plan('rewrite', '/.../roads', '...')
            >>> plan.to_dict()["reads"]["files"]
            3
            >>> t.plan_rewrite(cluster_by="geom", where="id >= 0").change.notes[1]
            'They may have rows that match id >= 0; other files stay.'
        """
        from geolake_nb.changes.rewrite import rewrite_filter
        from geolake_nb.changes.write_job import Packing

        names = (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by)
        predicate = None
        if where is not None or box_crs is not None:
            predicate = rewrite_filter(self.snapshot, where, cluster_by=names, box_crs=box_crs)
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
            where=predicate,
            covering=covering,
            columns=parse_column_types(columns) if columns else None,
        )
        return self._plan(change)

    def plan_maintain(
        self,
        *,
        budget: int | str = "2GB",
        target: float | None = None,
        target_file_size: int | str = "128MB",
        column: str | None = None,
        queries: Queries | None = None,
        repair: bool = True,
        on_progress: Progress | None = None,
    ) -> Plan:
        """Rewrite the fewest files that bring the layout near its best: new ones, small ones, those with many deletes.

        Bounds come first: where files lack them and they can be repaired, the plan is that repair, and the next plan
        chooses files by them. Then `layout` measures what queries read, and files are taken in the order of what is
        read of them in excess of the best, with the neighbours that they overlap. All others stay as they are. Once a
        table is near its best, the plan is empty.

        Args:
            budget: how many bytes of files are rewritten at most, as a number or as text such as `2GB`.
            target: how near to the best is near enough: 1.25, the default, is a quarter more than the best.
            target_file_size: the size of the new files, as bytes or as text such as `128MB`.
            column: the geo column to cluster by; by default the first with one value per row.
            queries: what `layout` takes; by default windows where the rows are.
            repair: repair missing bounds first.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            A plan of a rewrite, or of a repair; its notes say why files are rewritten.

        Raises:
            RefusedError: a feature of the table forbids the change, or the target is below 1.
            NoGeoColumnError: `column` is not a geo column with one value per row.

        Example:
            >>> plan = t.plan_maintain()
            >>> plan.change.verb.value, plan.apply().metrics["files_updated"]
            ('repair', 3)
            >>> gl.open("roads").plan_maintain().is_empty
            True
        """
        from geolake_nb.api.maintenance import maintenance_change

        change = maintenance_change(
            self._changeable(),
            self._storage,
            self.snapshot,
            budget=budget,
            target=target,
            target_file_size=target_file_size,
            column=column,
            queries=queries,
            repair=repair,
            on_progress=on_progress,
        )
        return self._plan(change)

    def maintain(
        self,
        *,
        budget: int | str = "2GB",
        target: float | None = None,
        target_file_size: int | str = "128MB",
        column: str | None = None,
        queries: Queries | None = None,
        attempts: int = 3,
        spark: SparkSession | None = None,
        single_writer: bool = False,
        on_progress: Progress | None = None,
    ) -> MaintenanceReport:
        """Plan and apply `plan_maintain`: a repair where one is needed, then one rewrite; for unattended jobs.

        Where another writer commits first, nothing is committed, and the newest version is planned anew. A step that
        cannot be undone is never made.

        Args:
            budget: how many bytes of files are rewritten at most, as a number or as text such as `2GB`.
            target: how near to the best is near enough, 1.25 by default.
            target_file_size: the size of the new files, as bytes or as text such as `128MB`.
            column: the geo column to cluster by; by default the first with one value per row.
            queries: what `layout` takes; by default windows where the rows are.
            attempts: how often to plan anew after a lost race, before it is an error.
            spark: the session that reads and writes data; by default the running one, else a new local one.
            single_writer: assert that nobody else writes to a store without atomic writes.
            on_progress: called with the number of tasks that are done and that of all.

        Returns:
            What was done and why, and what a query reads before and after; nothing where the table is near its best.

        Raises:
            ConflictError: other writers committed first in each attempt; nothing was committed.
            RefusedError: a feature of the table forbids the change, or a step cannot be undone.
            JobError: a Spark job failed or was cancelled; nothing was committed.

        Example:
            >>> report = t.maintain()
            >>> [step.verb for step in report.steps], report.attempts
            (['repair'], 1)
            >>> gl.open("roads").maintain().steps
            ()
        """
        from geolake_nb.api.maintenance import maintain

        return maintain(
            cast("Table", self),
            attempts=attempts,
            spark=spark,
            single_writer=single_writer,
            on_progress=on_progress,
            budget=budget,
            target=target,
            target_file_size=target_file_size,
            column=column,
            queries=queries,
        )

    def advise(
        self,
        queries: Queries | None = None,
        *,
        column: str | None = None,
        layouts: Sequence[Mapping[str, Any]] | None = None,
        target_file_size: int | str = "128MB",
        on_progress: Progress | None = None,
    ) -> Advice:
        """Compare layouts by the bytes that queries would read, and by what a rewrite costs; nothing is changed.

        A sample of about 100,000 rows is put in order and cut into files, as a rewrite would do it with all rows.
        Without `layouts`, those are compared that may suit the queries: clustered by each geo column, by several
        columns, partitioned by a plain column of the queries or by geohash, and the best of them with other sizes of
        files and row groups.

        Args:
            queries: a list of filters, or a file with one per line, as for `layout`; by default windows where rows are.
            column: the geo column of areas in `queries`, and of the windows.
            layouts: the layouts to compare, each a dict with some of `cluster_by`, `curve`, `partition_by`,
                `target_file_size` and `row_group_rows`, as `plan_rewrite` and `gl.write` take them.
            target_file_size: the size of the new files, as bytes or as text such as `128MB`.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            The layouts, the best first, with the share of the bytes that a query reads.

        Raises:
            PredicateError: a query that cannot be read.
            RefusedError: a feature of the table forbids a rewrite.
            GeolakeError: there are no queries and no bounds to draw windows by, or an unknown option of a layout.

        Example:
            >>> advice = t.advise([(5, 45, 12, 52)], layouts=[{"cluster_by": "geom"}, {"partition_by": "id"}])
            >>> [layout.name for layout in advice.layouts]
            ['by geom', 'partitioned by id, in the order of the rows']
        """
        from geolake_nb.api.advice import advise

        return advise(
            self._format,
            self._storage,
            self.snapshot,
            queries,
            column=column,
            layouts=layouts,
            target_file_size=target_file_size,
            on_progress=on_progress,
        )

    def plan_enable(self, columns: ColumnTypesInput) -> Plan:
        """Convert columns of WKB, EWKB or WKT to geometries or geographies; without columns, enable the feature.

        Args:
            columns: the type of each column, as a type or as text such as `geometry(EPSG:3857)`.

        Returns:
            A plan; `apply` rewrites the files with Spark. It names the steps that cannot be undone.

        Raises:
            RefusedError: the format cannot store such columns, or a feature of the table forbids the change.
            SchemaError: a column that the table does not have, or a type that cannot be read.

        Example:
            >>> plan = gl.open("places").plan_enable({"shape": gl.geometry("EPSG:4326")})
            >>> [step.name for step in plan.change.irreversible_steps]
            ['geospatial']
        """
        types = parse_column_types(columns, self.snapshot.properties)
        return self._plan(self._format.plan_enable(self._storage, self.snapshot, types))

    def plan_convert(
        self,
        target: str,
        *,
        format: str = "delta",  # noqa: A002
        columns: ColumnTypesInput | None = None,
        partition_by: PartitionBy = (),
        cluster_by: str | Sequence[str] = (),
        target_file_size: int | str = "128MB",
        row_group_rows: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        leave_out: Sequence[str] = (),
        in_place: bool = False,
    ) -> Plan:
        """Create a table from the rows of these Parquet files, or of this Havasu table, which stay unchanged.

        Geometries of a Havasu table become ISO WKB, whatever their encoding is. Their CRS is that of their SRIDs, if
        all are equal, or the one that `columns` declares.

        Args:
            target: where the table is created: a path, a URL, or for Iceberg `catalog.namespace.table`.
            format: `delta`, `havasu`, `iceberg` or `parquet`.
            columns: the types of columns of WKB, EWKB or WKT.
            partition_by: a column, or columns, by which the new table is partitioned, or `gl.cell`.
            cluster_by: a column, or columns, by which rows are clustered.
            target_file_size: the size of the new files, as bytes or as text such as `128MB`.
            row_group_rows: how many rows a row group gets at most, by default 65,536.
            storage_options: options of the target's store, named as in deltalake.
            leave_out: columns of a Havasu table that the new one does not get, such as rasters.
            in_place: write only metadata, for an Iceberg table over the data files of a Havasu table whose geometries
                are WKB. Other options than `columns` do not apply.

        Returns:
            A plan; `apply` runs it with Spark.

        Raises:
            RefusedError: the table is not a set of Parquet files or a Havasu table, or has rasters.
            SchemaError: a column that the files do not have, or a type that the format cannot store.

        Example:
            >>> gl.open("parcels").plan_convert("parcels_delta", cluster_by="geom")
            Plan('convert', '/.../parcels_delta', '...')
        """
        from geolake_nb.api.writing import plan_convert, plan_in_place

        if self.snapshot.format not in (PARQUET, HAVASU):
            raise self._format.not_offered("convert", self.snapshot, only=f"{HAVASU.name} and {PARQUET.name}")
        if in_place:
            return plan_in_place(
                self.snapshot,
                self._source.storage,
                target,
                format=format,
                layout=(partition_by, cluster_by, row_group_rows),
                columns=columns,
                storage_options=storage_options,
                leave_out=leave_out,
            )
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
            storage=self._source.storage,
            leave_out=leave_out,
        )

    def plan_publish(
        self,
        *,
        format: str = "delta",  # noqa: A002
        columns: ColumnTypesInput | None = None,
        leave_files: bool = False,
        on_progress: Progress | None = None,
    ) -> Plan:
        """Make a table of these Parquet files where they lie, without copying their data.

        Footers get the geo types, boxes and GeoParquet metadata that they lack; their pages stay byte for byte.
        Statistics of plain columns come from the footers, partition values from the names of folders, and bounds of
        geo columns from footers that can be trusted, else from the values.

        Args:
            format: `delta` or `iceberg`, which becomes a table of version 3.
            columns: the types of columns of WKB that the files do not declare.
            leave_files: change no file; the plan says what the files then lack.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            A plan; `apply` repairs the footers and commits the first version. `undo` restores the folder.

        Raises:
            RefusedError: the table is not a folder of Parquet files, or its files cannot be a table without a copy.
            SchemaError: files that differ in a type, or a type that the format does not read in files.

        Example:
            >>> plan = gl.open("parcels").plan_publish()
            >>> plan
            Plan('publish', '/.../parcels', '...')
        """
        from geolake_nb.api.writing import plan_publish

        if self.snapshot.format is not PARQUET:
            raise self._format.not_offered("publish", self.snapshot, only=PARQUET.name)
        return plan_publish(
            self.snapshot,
            self._source,
            format=format,
            columns=columns,
            leave_files=leave_files,
            on_progress=on_progress,
        )

    def plan_collations(
        self, changes: Mapping[str, str | None] | None = None, *, refresh: bool = False, upgrade: bool = False
    ) -> Plan:
        """Set, change or drop the collation of strings in a Delta table; `apply` has Spark compute the statistics.

        Args:
            changes: the collation of each column, as Spark names it; `None` drops it.
            refresh: compute statistics for the files that lack them.
            upgrade: compute statistics for Spark's version of the collation, and drop those of older versions.

        Returns:
            A plan; it names the steps that cannot be undone.

        Raises:
            CollationError: a collation that cannot be read.
            RefusedError: the table is not a Delta table, or one of its features forbids the change.

        Example:
            >>> plan = gl.open("places").plan_collations({"name": "icu.de_CI"})
            >>> [step.name for step in plan.change.irreversible_steps]
            ['collations']
        """
        change = self._format.plan_collations(
            self._storage, self.snapshot, changes or {}, refresh=refresh, upgrade=upgrade
        )
        return self._plan(change)

    def plan_undo(self, version: int | None = None) -> Plan:
        """Undo the change that made a version, with a new commit on the newest version, whichever this table has.

        Args:
            version: the version to undo; by default the newest that this package made and that is not undone.

        Returns:
            A plan; the history keeps both versions.

        Raises:
            RefusedError: there is nothing to undo, or later commits depend on the change.

        Example:
            >>> report = t.plan_repair().apply()
            >>> gl.open("roads").plan_undo().apply().version
            3
        """
        chosen = whole_number("version", version)
        newest = cast("Table", self).newest()
        return newest._plan(newest._changeable().plan_undo(newest._storage, newest.snapshot, chosen))

    def plan_forget(self, version: int | None = None) -> Plan:
        """Delete the backups that a set of Parquet files keeps for undo.

        Other formats keep old files by their own rules: VACUUM and the expiry of snapshots remove them.

        Args:
            version: the newest change whose backup is deleted; by default those of all changes.

        Returns:
            A plan; what it deletes cannot be undone.

        Raises:
            RefusedError: the table is not a set of Parquet files.

        Example:
            >>> gl.open("parcels").plan_forget().is_empty
            True
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
        source = replace(self._source, storage=self._storage)
        return Plan(of_table(change, self.snapshot), source, origin=cast("Table", self))
