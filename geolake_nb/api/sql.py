"""SQL over tables by SedonaDB or Spark: the engine joins and aggregates, and tables read only what a query needs."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from geolake_nb.errors import GeolakeError, MissingDependencyError, PredicateError
from geolake_nb.expressions.predicate import And, Predicate, st_intersects
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.box import Box
from geolake_nb.model.display import Displayable
from geolake_nb.model.types import GeometryType
from geolake_nb.scan.scan_rows import ScanMetrics
from geolake_nb.text.messages import part_of, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import geopandas as gpd
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.api.table import Table

__all__ = ["SqlResult", "TableRead", "sql", "tables_of"]

_SHOWN = 10
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class TableRead:
    """What a query read of one table."""

    table: str
    """Its name in the query."""
    metrics: ScanMetrics
    """On Spark only what was planned: its tasks do not count what they read."""
    is_plan: bool = False

    def __str__(self) -> str:
        planned = f"{part_of(self.metrics.files_planned, self.metrics.files_total, 'file')}, read by Spark"
        return f"{self.table}: {planned if self.is_plan else self.metrics}"


@dataclass(eq=False)
class SqlResult(Displayable):
    """The answer of a query; it runs when its rows are first asked for.

    Example:
        >>> answer = gl.sql("SELECT max(id) AS most FROM 'roads'")
        >>> len(answer), answer.reads[0].metrics.rows_scanned
        (1, 12)
    """

    query: str
    _run: Callable[[], pa.Table] = field(repr=False)
    _reads: list[TableRead] = field(repr=False)
    _rows: pa.Table | None = field(default=None, repr=False)

    @property
    def reads(self) -> tuple[TableRead, ...]:
        """What was read of each table; nothing before the query has run."""
        return tuple(self._reads)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table.

        Returns:
            A `pyarrow.Table`; geometries are marked as `geoarrow.wkb`.

        Raises:
            GeolakeError: the engine cannot run the query, or a table cannot be read.

        Example:
            >>> gl.sql("SELECT id FROM roads WHERE id > 2", roads=t).to_arrow().num_rows
            3
        """
        if self._rows is None:
            self._rows = self._run()
        return self._rows

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Returns:
            A pandas DataFrame, geometries as WKB.

        Example:
            >>> gl.sql("SELECT count(*) AS n FROM roads", roads=t).to_pandas()["n"].tolist()
            [12]
        """
        return self.to_arrow().to_pandas()

    def to_geopandas(self) -> gpd.GeoDataFrame:
        """The rows as a GeoDataFrame.

        Returns:
            A GeoDataFrame; the answer has a geometry column.

        Example:
            >>> frame = gl.sql("SELECT geom FROM roads WHERE id = 3", roads=t).to_geopandas()
            >>> sorted(frame.geometry.x)
            [-67.0, 13.0, 178.0]
        """
        import geopandas as gpd

        return gpd.GeoDataFrame.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __str__(self) -> str:
        rows = self.to_arrow()
        shown = rows.slice(0, _SHOWN).to_pandas().to_string(index=False, max_colwidth=40)
        more = f"and {rows.num_rows - _SHOWN:,} more rows" if rows.num_rows > _SHOWN else ""
        return "\n".join([shown, *([more] if more else []), *map(str, self.reads)])


def sql(
    query: str, *, engine: Literal["sedonadb", "spark"] = "sedonadb", spark: SparkSession | None = None, **tables: Any
) -> SqlResult:
    """The answer to a query in SQL, by SedonaDB in this process or by Spark.

    Spatial conditions on a geometry column skip files and row groups by their bounds; with SedonaDB, conditions on
    plain columns of the only table of a query skip by minimum and maximum. The literal of a geometry needs the CRS of
    its column, such as `ST_SetSRID(ST_GeomFromText('...'), 4326)`.

    Args:
        query: a SELECT. FROM and JOIN take the names of `tables`, and locations in quotes: `FROM 's3://lake/roads'`.
        engine: `sedonadb`, or `spark` for a cluster; `geolake help spatial-sql` lists the functions that Spark gets.
        spark: a session, classic or Connect; by default the running one, else a new one.
        **tables: the tables of the query by name: what `gl.open` returns, or a location.

    Returns:
        A `SqlResult`: `to_arrow`, `to_pandas`, `to_geopandas`, and `reads` with what was read of each table.

    Raises:
        MissingDependencyError: the engine is not installed.
        GeolakeError: the engine cannot run the query, or a table cannot be opened or read.

    Example:
        >>> query = "SELECT id, count(*) AS n FROM roads WHERE id < 2 GROUP BY id ORDER BY id"
        >>> gl.sql(query, roads=t).to_pandas()
           id  n
        0   0  3
        1   1  3
    """
    from geolake_nb.api.opening import open as open_table

    runners = {"sedonadb": _on_sedonadb, "spark": _on_spark}
    if engine not in runners:
        raise GeolakeError(f"unknown engine {engine!r}", remedy="use one of: sedonadb, spark")
    if spark is not None and engine != "spark":
        raise GeolakeError("a session of Spark is given, and the engine is SedonaDB", remedy='pass engine="spark"')
    located, text = _with_names(query, tables)
    opened = {
        name: open_table(os.fspath(source)) if isinstance(source, str | os.PathLike) else source
        for name, source in {**tables, **located}.items()
    }
    return runners[engine](query, text, opened, spark)


def _on_spark(query: str, text: str, tables: Mapping[str, Table], spark: SparkSession | None) -> SqlResult:
    from geolake_nb.api.spark_sql import run_on_spark

    run, scans = run_on_spark(text, tables, spark)
    reads: list[TableRead] = []

    def noted() -> pa.Table:
        rows = run()
        for name, scan in scans.items():
            planned = ScanMetrics(files_planned=scan.planned_files, files_total=len(scan.table.files))
            reads.append(TableRead(name, planned, is_plan=True))
        return rows

    return SqlResult(query, noted, reads)


def _on_sedonadb(query: str, text: str, tables: Mapping[str, Table], _: SparkSession | None) -> SqlResult:
    try:
        import sedonadb
        from sedonadb._lib import SedonaError
    except ImportError:
        raise MissingDependencyError("gl.sql needs SedonaDB", remedy="pip install 'geolake-nb[sedona]'") from None
    session = sedonadb.connect()
    hints = _hints(text, tables)
    reads: list[TableRead] = []
    faults: list[GeolakeError] = []
    for name, table in tables.items():
        source = _source(name, table, hints.get(name), (reads, faults))
        # The URL is never read: it only tells the tables of one session apart.
        session.read(f"file:///geolake/{name}", format=source).to_view(name)
    try:
        frame = session.sql(text)
    except SedonaError as problem:
        raise _engine_error(problem, query) from None

    def run() -> pa.Table:
        try:
            return frame.to_arrow_table()
        except SedonaError as problem:
            # A fault of a table is clearer than what the engine makes of it.
            raise (faults[-1] if faults else _engine_error(problem, query)) from None

    return SqlResult(query, run, reads)


def tables_of(query: str) -> tuple[str, ...]:
    """The names of the tables in a query; none where it cannot be read.

    >>> tables_of("WITH a AS (SELECT 1) SELECT * FROM roads, a JOIN 's3://lake/t' ON true")
    ('roads', 'a', 's3://lake/t')
    """
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(query, read="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return ()
    return tuple(dict.fromkeys(table.name for table in tree.find_all(exp.Table)))


def _engine_error(problem: Exception, query: str) -> GeolakeError:
    lines = [line for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
    return GeolakeError(f"SedonaDB cannot run the query: {shortened(lines[0], 400)}", where=shortened(query, 80))


def _with_names(query: str, tables: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """The locations that FROM and JOIN name in quotes, each with a new name, and the query with these names."""
    import sqlglot

    try:
        tokens = sqlglot.tokenize(query, read="duckdb")
    except sqlglot.errors.SqlglotError as problem:
        raise PredicateError(f"the query cannot be read: {shortened(str(problem), 200)}") from None
    names = (name for number in itertools.count(1) if (name := f"table_{number}") not in tables)
    located: dict[str, str] = {}
    pieces: list[str] = []
    end = 0
    for before, token in itertools.pairwise(tokens):
        kinds = {"FROM", "JOIN"}
        if token.token_type.name == "STRING" and before.token_type.name in kinds:
            name = next((known for known, location in located.items() if location == token.text), None) or next(names)
            located[name] = token.text
            pieces += [query[end : token.start], name]
            end = token.end + 1
    return located, "".join([*pieces, query[end:]])


def _hints(query: str, tables: Mapping[str, Table]) -> dict[str, Predicate]:
    """The conditions of a query on one table that can skip files; those that are not understood skip nothing."""
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(query, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return {}
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    sources = list(tree.find_all(exp.Table))
    if where is None or len(sources) != 1 or sources[0].name not in tables or tree.find(exp.Subquery, exp.Join):
        return {}
    name = sources[0].name
    parts: list[Predicate] = []
    for condition in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        plain = condition.transform(lambda node: _unqualified(node, {name, sources[0].alias}))
        columns = {column.name for column in plain.find_all(exp.Column)}
        if not columns <= {field.name for field in tables[name].schema.fields} or plain.find(exp.Anonymous):
            continue
        try:
            parts.append(_usable(parse_predicate(plain.sql(dialect="duckdb")), tables[name]))
        except GeolakeError:
            continue
    if not parts:
        return {}
    return {name: And(tuple(parts)) if len(parts) > 1 else parts[0]}


def _unqualified(node: Any, names: set[str]) -> Any:
    from sqlglot import exp

    if not isinstance(node, exp.Column) or (node.table and node.table not in names):
        return node
    # DataFusion folds names without quotes to lower case.
    text = node.name if node.this.args.get("quoted") else node.name.lower()
    return exp.column(exp.to_identifier(text, quoted=True))


def _usable(predicate: Predicate, table: Table) -> Predicate:
    from geolake_nb.expressions.binding import bind

    bind(predicate, table.schema)
    return predicate


def _source(name: str, table: Table, hint: Predicate | None, noted: tuple[list[TableRead], list[GeolakeError]]) -> Any:
    """The table as a file format of SedonaDB, which asks it for columns and for a box; notes reads and errors."""
    import pyarrow as pa
    from sedonadb.datasource import ExternalFormatSpec

    from geolake_nb.api.scan import Scan
    from geolake_nb.scan.background import iter_in_thread

    reads, faults = noted
    schema = table.scan().schema

    shapes = [field.name for field in table.schema.fields if isinstance(field.type, GeometryType)]

    class TableSource(ExternalFormatSpec):  # type: ignore[misc]
        list_single_object = True

        def infer_schema(self, src: Any) -> pa.Schema:
            return schema

        def open_reader(self, args: Any) -> pa.RecordBatchReader:
            columns = None
            if args.file_projection is not None:
                columns = [args.file_schema.names[index] for index in args.file_projection]
            sides = [(shape, args.filter.bounding_box(shape)) for shape in shapes] if args.filter is not None else []

            def batches() -> Iterator[pa.RecordBatch]:
                try:
                    boxes = list(_boxes(sides))
                    where = And(tuple(boxes)) if len(boxes) > 1 else (boxes[0] if boxes else None)
                    scan = Scan(table, where, columns=columns, hint=hint)
                    reader = scan.to_batches()
                    reads.append(TableRead(name, scan.metrics))
                    yield from reader
                except GeolakeError as problem:
                    faults.append(problem)
                    raise

            chosen = schema if columns is None else pa.schema([schema.field(column) for column in columns])
            # SedonaDB reads from threads of its own.
            return pa.RecordBatchReader.from_batches(chosen, iter_in_thread(batches))

    return TableSource()


def _boxes(pushed: Iterable[tuple[str, tuple[float, float, float, float] | None]]) -> Iterator[Predicate]:
    """What a filter that SedonaDB pushed down asks of each geometry: to share a point with a box."""
    for column, sides in pushed:
        if sides is None:
            continue
        xmin, ymin, xmax, ymax = sides
        if xmin <= xmax and ymin <= ymax and all(abs(side) < float("inf") for side in sides):
            # The engine may have rounded the sides, such as those of ST_DWithin.
            margin = _ROUNDING * max(1.0, *map(abs, sides))
            box = Box(xmin - margin, ymin - margin, xmax + margin, ymax + margin)
            yield st_intersects((column,), box)
