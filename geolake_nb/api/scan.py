"""The rows of a query on a table: a description that costs nothing, and the ways to get its rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from geolake_nb.api.opening import whole_number
from geolake_nb.errors import GeolakeError, JobError, MissingDependencyError, SchemaError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.filter_input import read_filter
from geolake_nb.model.display import Displayable
from geolake_nb.model.file_table import plain_rows
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.scan.file_statistics import with_versions_of
from geolake_nb.scan.scan_rows import RowScan, ScanMetrics
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import geopandas as gpd
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from geolake_nb.api.table import Table
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.model.types import Field
    from geolake_nb.scan.explanation import Amount, Explanation
    from geolake_nb.text.messages import Progress

__all__ = ["Scan", "UnreadableValueWarning"]

OnError = Literal["warn", "raise", "ignore"]


class UnreadableValueWarning(UserWarning):
    """Values of a geo column in a filter cannot be read; their rows are not in the answer."""


class Scan(Displayable):
    """The rows of a table that satisfy a filter, not read yet; see `Table.scan`.

    Each `to_...` method reads them. A file or row group is skipped where its statistics exclude a match, and every row
    of the others is tested, so that the answer is that of a full scan.

    Example:
        >>> print(t.scan("id < 2", columns=["id"]))
        scan of /.../roads
          where    id < 2
          columns  id
          reads    3 of 3 files
    """

    def __init__(
        self,
        table: Table,
        where: FilterInput | None = None,
        *,
        columns: Sequence[str] | None = None,
        column: str | None = None,
        box_crs: str | Crs | CrsLike | None = None,
        limit: int | None = None,
        exact: bool = True,
        on_error: OnError = "warn",
        bands: bool = False,
        hint: Predicate | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        from geolake_nb.spark.collations import collator_of

        self.table = table
        self.limit = whole_number("limit", limit)
        if self.limit is not None and self.limit < 0:
            raise GeolakeError(f"expected a limit of at least 0, got {self.limit}", where=table.location)
        if on_error not in ("warn", "raise", "ignore"):
            raise GeolakeError(f"unknown on_error {on_error!r}", remedy="use one of: warn, raise, ignore")
        self._exact = exact
        self._on_error = on_error
        self._bands = bands
        self._hint = None if hint is None else bind(hint, table.schema)
        self._collator = collator_of(spark)
        self.where: Predicate | None = None
        self._bound: Predicate | None = None
        if where is not None:
            with table._with_wkb_hint():
                self.where = read_filter(where, table.schema, column=column, box_crs=box_crs, location=table.location)
                self._bound = bind(self.where, table.schema)
            if self._collator is not None:
                self._bound = with_versions_of(self._bound, self._collator)
        self._fields = _chosen_fields(table, columns)
        self._run = self._new_run(self._fields)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer; geometries are binary fields marked as `geoarrow.wkb`."""
        return self._run.schema

    @property
    def metrics(self) -> ScanMetrics:
        """What the last read has read: files, row groups, bytes and rows."""
        return self._run.metrics

    @property
    def planned_files(self) -> int:
        """How many files may hold a match by the statistics of the table; their footers may exclude some of them."""
        return len(self._run.kept_files())

    def explain(self) -> Explanation:
        """Which files and row groups the scan reads, and why; reads the footers of the data files.

        Returns:
            The answer of `Table.explain` to the filter of the scan.

        Raises:
            GeolakeError: the scan has no filter.

        Example:
            >>> t.scan((5, 45, 12, 52)).explain().total.files
            3
        """
        from geolake_nb.scan.explain import explain

        where: Any = self.where
        if where is None:
            raise GeolakeError(
                "a scan without a filter reads every file", where=self.table.location, remedy="pass a filter to t.scan"
            )
        return explain(self.table.snapshot, where, row_groups=self.table.row_groups(), collator=self._collator)

    def to_batches(
        self, *, on_progress: Progress | None = None, cancelled: threading.Event | None = None
    ) -> pa.RecordBatchReader:
        """The rows in batches; only some row groups are in memory at a time.

        Args:
            on_progress: called with the row groups that are done and those that are known so far.
            cancelled: ends the read soon after it is set.

        Returns:
            A `pyarrow.RecordBatchReader`, to be read once; it raises `JobError` after `cancelled` was set.

        Example:
            >>> sum(len(batch) for batch in t.scan(columns=["id"]).to_batches())
            12
        """
        self._run = self._new_run(self._fields)
        return pa.RecordBatchReader.from_batches(self.schema, self._checked(self._run, on_progress, cancelled))

    def to_arrow(
        self,
        *,
        on_progress: Progress | None = None,
        cancelled: threading.Event | None = None,
        max_bytes: int | None = None,
    ) -> pa.Table:
        """All rows as an Arrow table.

        Args:
            on_progress: called with the row groups that are done and those that are known so far.
            cancelled: ends the read soon after it is set.
            max_bytes: the largest table to return, by default half of the machine's memory.

        Returns:
            A `pyarrow.Table`.

        Raises:
            GeolakeError: the rows take more than `max_bytes`.
            JobError: `cancelled` was set.

        Example:
            >>> t.scan("id = 3", columns=["id"]).to_arrow().num_rows
            3
        """
        most = _half_of_memory() if max_bytes is None else max_bytes
        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in self.to_batches(on_progress=on_progress, cancelled=cancelled):
            size += batch.nbytes
            if size > most:
                raise GeolakeError(
                    f"the rows take more than {most:,} bytes of memory",
                    where=self.table.location,
                    remedy="use to_batches(), name fewer columns=, set limit=, or raise max_bytes=",
                )
            batches.append(batch)
        return pa.Table.from_batches(batches, self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """All rows as a pandas DataFrame, geometries as WKB.

        Args:
            options: those of `to_arrow`.

        Returns:
            A pandas DataFrame.

        Example:
            >>> t.scan((5, 45, 12, 52), columns=["id"]).to_pandas()
               id
            0   0
            1   1
            2   2
        """
        return self._to_pandas(self.to_arrow(**options))

    def _to_pandas(self, rows: pa.Table) -> pd.DataFrame:
        """Rows of this scan as a DataFrame."""
        try:
            return rows.to_pandas()
        except (OverflowError, ValueError, pa.ArrowInvalid):
            # Dates outside of the range of Python, and times outside of that of nanoseconds.
            return rows.to_pandas(date_as_object=False, timestamp_as_object=False, coerce_temporal_nanoseconds=False)

    def to_geopandas(self, **options: Any) -> gpd.GeoDataFrame:
        """All rows as a GeoDataFrame with the CRS of each geo column.

        Args:
            options: those of `to_arrow`.

        Returns:
            A GeoDataFrame; its active geometry is the first geo column of the scan.

        Raises:
            GeolakeError: a column has curves, which shapely does not have.
            MissingDependencyError: geopandas is not installed.
            SchemaError: none of the columns holds geometries.

        Example:
            >>> frame = t.scan("id = 3").to_geopandas()
            >>> frame.crs.to_string(), frame.geometry.x.tolist()
            ('OGC:CRS84', [13.0, -67.0, 178.0])
        """
        return self._to_geopandas(self.to_arrow(**options))

    def _to_geopandas(self, rows: pa.Table) -> gpd.GeoDataFrame:
        """Rows of this scan as a GeoDataFrame."""
        try:
            import geopandas as gpd
        except ImportError:
            raise MissingDependencyError("to_geopandas needs geopandas", remedy="pip install geopandas") from None
        import shapely

        geo = [field for field in self._fields if isinstance(field.type, GeometryType | GeographyType)]
        if not geo:
            raise SchemaError(
                "no column of the scan holds geometries", where=self.table.location, remedy="use to_pandas()"
            )
        frame = self._to_pandas(rows)
        for field in geo:
            assert isinstance(field.type, GeometryType | GeographyType)
            try:
                with np.errstate(invalid="ignore"):  # of a vertex that is not a number
                    shapes = shapely.from_wkb(frame[field.name].to_numpy(), on_invalid="warn")
            except NotImplementedError:
                raise GeolakeError(
                    f"{field.name} holds curves, which shapely does not have",
                    where=self.table.location,
                    remedy="use to_arrow() or to_pandas(), which return WKB",
                ) from None
            crs = field.type.crs.to_pyproj() if field.type.crs.is_resolvable else None
            frame[field.name] = gpd.GeoSeries(shapes, index=frame.index, crs=crs)
        return gpd.GeoDataFrame(frame, geometry=geo[0].name)

    def to_duckdb(self, connection: Any, name: str) -> Any:
        """A view of that name in a DuckDB connection; each query on it reads the rows again.

        Args:
            connection: a connection of duckdb.
            name: the name of the view.

        Returns:
            The relation of the view.

        Example:
            >>> import duckdb
            >>> connection = duckdb.connect()
            >>> t.scan(columns=["id"]).to_duckdb(connection, "roads").limit(2).fetchall()
            [(0,), (1,)]
        """
        connection.register(name, self)
        return connection.table(name)

    def to_sedona(self, session: Any, name: str | None = None) -> Any:
        """The rows as a DataFrame of a SedonaDB session, and as a view if there is a name.

        Args:
            session: a session of sedonadb.
            name: the name of the view.

        Returns:
            A DataFrame of SedonaDB.

        Example:
            >>> import sedonadb
            >>> t.scan((5, 45, 12, 52)).to_sedona(sedonadb.connect()).count()
            3
        """
        frame = session.create_data_frame(self.to_arrow())
        if name is not None:
            frame.to_view(name)
        return frame

    def to_file(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,  # noqa: A002
        on_progress: Progress | None = None,
    ) -> Path:
        """Write the rows to a file, some batches in memory at a time.

        Args:
            path: a new file; its extension sets the format: .parquet (GeoParquet), .csv, .geojson or .arrow.
            format: `parquet`, `csv`, `geojson` or `arrow`, whatever the extension is.
            on_progress: called with the row groups that are done and those that are known so far.

        Returns:
            The path of the file.

        Raises:
            GeolakeError: The format is not known, or the file cannot be written.

        Example:
            >>> t.scan("id < 3").to_file("some.geojson").name
            'some.geojson'
        """
        from geolake_nb.api.row_files import row_format, write_rows
        from geolake_nb.jupyter.export import written_file

        kind = row_format(path, format)
        with written_file(path, self.table.snapshot) as target:
            write_rows(kind, target, self.schema, self._fields, self.to_batches(on_progress=on_progress))
        return target

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        """The rows as plain values, geometries as WKT; some batches are in memory at a time.

        Returns:
            An iterator over dicts by column.

        Example:
            >>> next(t.scan("id = 1", columns=["id"]).iter_rows())
            {'id': 1}
        """
        import shapely

        geo = [field.name for field in self._fields if isinstance(field.type, GeometryType | GeographyType)]
        for batch in self.to_batches():
            rows = plain_rows(pa.Table.from_batches([batch]))
            for name in geo:
                shapes = shapely.from_wkb(batch.column(name).to_pylist(), on_invalid="ignore")
                for row, text in zip(rows, shapely.to_wkt(shapes, rounding_precision=17), strict=True):
                    row[name] = text
            yield from rows

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows as a DataFrame of Spark, read in its tasks by `spark.read.format("geolake")`.

        Args:
            spark: a session, classic or Connect; by default the running one, else a new one.

        Returns:
            A DataFrame with Spark's geometry types where Spark has them, else WKB. Nothing is read before an action.

        Example:
            >>> frame = t.scan((5, 45, 12, 52)).to_spark()  # doctest: +SKIP
            >>> frame.count()  # doctest: +SKIP
            1
        """
        from geolake_nb.spark.data_source import reader_options, register
        from geolake_nb.spark.session import session_for

        session = session_for(spark)
        register(session)
        names = [field.name for field in self._fields]
        options = reader_options(self.table._source, self.table.version, names, self.where)
        frame = session.read.format("geolake").options(**options).load()
        return frame if self.limit is None else frame.limit(self.limit)

    def count(self) -> int:
        """How many rows there are: from metadata where that suffices, else only the columns of the filter are read.

        Returns:
            The number of rows, at most the limit of the scan.

        Example:
            >>> t.scan().count(), t.scan((5, 45, 12, 52)).count()
            (12, 3)
        """
        rows = self.table.files.table["rows"]
        if self.where is None and not rows.null_count:
            total = int(sum(rows.to_pylist()))
        else:
            self._run = self._new_run(())
            total = sum(len(batch) for batch in self._checked(self._run, None, None))
        return total if self.limit is None else min(total, self.limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        from geolake_nb.scan.background import iter_in_thread

        # The consumer may ask for batches from any thread.
        batches = iter_in_thread(lambda: iter(self.to_batches()))
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Scan({self.table.location!r}, where={str(self.where) if self.where is not None else None!r})"

    def __str__(self) -> str:
        lines = [
            f"scan of {printable(self.table.location)}",
            f"  where    {printable(str(self.where))}" if self.where is not None else "  where    all rows",
            f"  columns  {printable(', '.join(field.name for field in self._fields))}",
            f"  reads    {self.planned_files:,} of {plural(len(self.table.files), 'file')}",
        ]
        return "\n".join(lines if self.limit is None else [*lines, f"  limit    {self.limit:,}"])

    def _amounts(self) -> tuple[Amount, Amount]:
        """The files that are read, and all of them."""
        from geolake_nb.scan.explanation import Amount, file_sizes

        bytes_, rows = file_sizes(self.table.files.table)
        kept = np.zeros(len(bytes_), np.bool_)
        kept[self._run.kept_files()] = True
        return Amount.of(kept, bytes_, rows), Amount.of(np.ones(len(kept), np.bool_), bytes_, rows)

    def _new_run(self, fields: Sequence[Field]) -> RowScan:
        table = self.table
        return RowScan(
            table._storage,
            table.snapshot,
            table._format.row_source(table._storage, table.snapshot),
            fields,
            self._bound,
            limit=self.limit,
            exact=self._exact,
            bands=self._bands,
            collator=self._collator,
            hint=self._hint,
        )

    def _checked(
        self, run: RowScan, on_progress: Progress | None, cancelled: threading.Event | None
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a run; values of the filter that cannot be read are reported at its end."""
        yield from run.batches(on_progress=on_progress, cancelled=cancelled)
        if cancelled is not None and cancelled.is_set():
            # A reader that just ended would be taken for all rows.
            raise JobError("the scan was cancelled", where=self.table.location)
        if not run.metrics.unreadable or self._on_error == "ignore":
            return
        counts = ", ".join(f"{count:,} of {name}" for name, count in run.metrics.unreadable.items())
        what = f"values that cannot be read as geometries were left out: {counts}"
        if self._on_error == "raise":
            raise GeolakeError(what, where=self.table.location, remedy="`geolake check TABLE --deep` names the files")
        warnings.warn(f"{self.table.location}: {what}", UnreadableValueWarning, stacklevel=2)


def _chosen_fields(table: Table, columns: Sequence[str] | None) -> tuple[Field, ...]:
    if columns is None:
        return table.schema.fields
    if isinstance(columns, str):
        raise SchemaError(f"expected a list of columns, got the text {columns!r}", remedy=f"pass [{columns!r}]")
    if not isinstance(columns, Iterable):
        raise SchemaError(f"expected a list of columns, got {type(columns).__name__}", remedy="pass a list of names")
    fields: list[Field] = []
    for name in columns:
        if not isinstance(name, str):
            raise SchemaError(f"expected the name of a column, got {name!r}", remedy="pass a list of names")
        # A name may have dots without being a path.
        exact = next((field for field in table.schema.fields if field.name == name), None)
        field = table.schema.find(name) if exact is None else exact
        if exact is None and field not in table.schema.fields:
            raise SchemaError(
                f"{name!r} is inside of a column", where=table.location, remedy=f"name {name.partition('.')[0]!r}"
            )
        if field not in fields:
            fields.append(field)
    return tuple(fields)


def _half_of_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 1 << 33
