"""How each engine is asked for the rows of a filter, with its skipping and without."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.parse import quote

import pyarrow as pa

from geolake_nb.api.engine_question import SqlPart, condition_of, necessary_sql, sql_identifier
from geolake_nb.errors import MissingDependencyError
from geolake_nb.expressions.binding import BoundIn
from geolake_nb.model.operators import ComparisonOp
from geolake_nb.model.types import GeographyType
from geolake_nb.scan.row_filter import RowFilter
from geolake_nb.scan.spatial_filter import query_geometry

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from geolake_nb.api.engine_question import Question
    from geolake_nb.api.sql import SqlResult
    from geolake_nb.expressions.binding import BoundSpatial

__all__ = ["ENGINES", "AmountRead", "Engine", "EngineReader"]

AmountRead = tuple[int | None, int | None]
"""How many files and how many row groups were read, `None` where the engine does not say."""


class EngineReader(Protocol):
    """One engine that is ready to read the rows of a question."""

    switchable: bool
    """Whether its skipping can be switched off."""
    via: str = ""
    """What reads the files for it, if it does not."""

    def rows(self, *, skip: bool) -> pa.Table:
        """The rows, or more than these."""

    def amount(self, *, skip: bool) -> AmountRead:
        """What the last `rows` has read."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that may be installed."""

    key: str
    """As `compare_engines(engines=...)` takes it."""
    name: str
    module: str
    package: str
    formats: tuple[str, ...]
    """The formats of tables that it reads, or that an extension of it reads."""
    reader: Callable[[Question, SparkSession | None], EngineReader]
    """Makes it ready; the session is of those engines that need one."""

    @property
    def is_installed(self) -> bool:
        """Whether the package is there."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def title(self) -> str:
        """The name with the version that is installed."""
        try:
            return f"{self.name} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            return self.name


class GeolakeReader(EngineReader):
    """This package: the scan with its skipping, or a read of every row."""

    switchable = True

    def __init__(self, question: Question, spark: SparkSession | None) -> None:
        self._question = question
        self._scan = question.table.scan(question.where, on_error="ignore", spark=spark)

    def rows(self, *, skip: bool) -> pa.Table:
        """The rows of the scan."""
        question = self._question
        if skip:
            return self._scan.to_arrow()
        self._full = question.table.scan()
        batches = self._full.to_batches()
        if question.bound is None:
            return batches.read_all()
        test = RowFilter(question.bound, collator=question.collator)
        kept = [batch.filter(pa.array(test.keep(batch))) for batch in batches]
        return pa.Table.from_batches(kept, self._full.schema)

    def amount(self, *, skip: bool) -> AmountRead:
        """From the metrics of the scan."""
        metrics = (self._scan if skip else self._full).metrics
        return metrics.files, metrics.row_groups


class SedonaParquet(EngineReader):
    """SedonaDB with its own reader of Parquet."""

    _SWITCHES = ("collect_statistics", "parquet.bloom_filter_on_read", "parquet.enable_page_index", "parquet.pruning")
    _PRUNED = re.compile(r"row_groups\w*_pruned\w*=(\d+) total \S+ (\d+) matched")

    def __init__(self, question: Question, spark: SparkSession | None) -> None:
        import sedonadb

        self._files = [f"file://{quote(path)}" for path in question.local_files()]
        self._session = sedonadb.connect()
        condition = necessary_sql(question.bound, partial(_sedona_part, partial(self._ask, skip=True)))
        self._query = f"SELECT * FROM question{_where(condition)}"
        self.switchable = condition is not None

    def rows(self, *, skip: bool) -> pa.Table:
        """The answer to a query."""
        return self._ask(self._query, skip=skip)

    def amount(self, *, skip: bool) -> AmountRead:
        """From the metrics of the plan."""
        plan = "".join(self._ask(f"EXPLAIN ANALYZE {self._query}", skip=skip)["plan"].to_pylist())
        pruned = [int(matched) for total, matched in self._PRUNED.findall(plan) if int(total)]
        return None, min(pruned, default=None)

    def _ask(self, query: str, *, skip: bool) -> pa.Table:
        session = self._session
        for switch in self._SWITCHES:
            session.sql(f"SET datafusion.execution.{switch} = {str(skip).lower()}").execute()
        session.read_parquet(self._files).to_view("question", overwrite=True)
        return session.sql(query).to_arrow_table()


class SedonaSource(EngineReader):
    """SedonaDB over the tables that `gl.sql` gives it: this package skips files and row groups."""

    switchable = False
    via = "gl.sql"

    def __init__(self, question: Question, spark: SparkSession | None) -> None:
        self._table = question.table
        condition = necessary_sql(question.bound, partial(_sedona_part, lambda query: self._ask(query).to_arrow()))
        self._query = f"SELECT * FROM question{_where(condition)}"

    def rows(self, *, skip: bool) -> pa.Table:
        """The answer of `gl.sql`."""
        self._answer = self._ask(self._query)
        return self._answer.to_arrow()

    def _ask(self, query: str) -> SqlResult:
        from geolake_nb.api.sql import sql

        return sql(query, question=self._table)

    def amount(self, *, skip: bool) -> AmountRead:
        """From the metrics of the scan."""
        reads = self._answer.reads
        return sum(read.metrics.files for read in reads), sum(read.metrics.row_groups for read in reads)


def sedona_reader(question: Question, spark: SparkSession | None) -> EngineReader:
    """SedonaDB with its own reader, else with that of this package."""
    return SedonaParquet(question, spark) if question.format == "parquet" else SedonaSource(question, spark)


class DuckDbReader(EngineReader):
    """DuckDB: Parquet by its core, Delta and Iceberg by extensions that are installed already."""

    _GROUPS = re.compile(r"Row Groups Scanned: (\d+) / \d+")
    _SCANS: ClassVar[dict[str, str]] = {"delta": "delta_scan", "iceberg": "iceberg_scan"}

    def __init__(self, question: Question, spark: SparkSession | None) -> None:
        import duckdb

        # Nothing is downloaded to answer a question.
        settings: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        self._connection = duckdb.connect(config=settings)
        relation = "&&"
        if question.format == "parquet":
            files = ", ".join(_sql_text(_escaped(path)) for path in question.local_files())
            hive = bool(question.table.snapshot.partition_columns)
            source = f"read_parquet([{files}], union_by_name = true, hive_partitioning = {str(hive).lower()})"
        else:
            question.require_local()
            self._load(question.format)
            source = f"{self._SCANS[question.format]}({_sql_text(question.table.location)})"
        try:
            self._connection.load_extension("spatial")
            relation = "ST_Intersects"
        except duckdb.Error:
            pass  # the core has an operator for boxes
        condition = necessary_sql(question.bound, lambda leaf: _duckdb_part(leaf, relation))
        self._query = f"SELECT * FROM {source}{_where(condition)}"
        self.switchable = condition is not None

    def _load(self, extension: str) -> None:
        import duckdb

        try:
            self._connection.load_extension(extension)
        except duckdb.Error:
            raise MissingDependencyError(f"its extension {extension} is not installed") from None

    def rows(self, *, skip: bool) -> pa.Table:
        """The answer to a query."""
        self._switch(skip=skip)
        return self._connection.sql(self._query).to_arrow_table()

    def amount(self, *, skip: bool) -> AmountRead:
        """From the profile of the query."""
        self._switch(skip=skip)
        profile = self._connection.sql(f"EXPLAIN ANALYZE {self._query}").fetchall()[0][1]
        scanned = self._GROUPS.search(profile)
        return None, int(scanned[1]) if scanned else None

    def _switch(self, *, skip: bool) -> None:
        self._connection.execute(f"SET disabled_optimizers = '{'' if skip else 'filter_pushdown'}'")


class DeltalakeReader(EngineReader):
    """deltalake, whose dataset skips files by the minima and maxima of plain columns."""

    def __init__(self, question: Question, spark: SparkSession | None) -> None:
        from deltalake import DeltaTable

        source = question.table._source
        location = question.table.location if source.storage.is_local else source.location
        opened = DeltaTable(location, version=question.table.version, storage_options=dict(source.options) or None)
        self._dataset = opened.to_pyarrow_dataset()
        self._filter: Any = None
        for leaf in question.plain:
            condition = condition_of(leaf, pa.compute.field(leaf.column[0]))
            self._filter = condition if self._filter is None else self._filter & condition
        self.switchable = self._filter is not None

    def rows(self, *, skip: bool) -> pa.Table:
        """The rows of its dataset."""
        return self._dataset.to_table(filter=self._filter if skip else None)

    def amount(self, *, skip: bool) -> AmountRead:
        """The fragments that are left."""
        return sum(1 for _ in self._dataset.get_fragments(filter=self._filter if skip else None)), None


class PyIcebergReader(EngineReader):
    """PyIceberg, which skips files by the minima and maxima of plain columns."""

    def __init__(self, question: Question, spark: SparkSession | None) -> None:
        from pyiceberg.table import StaticTable

        question.require_local()
        table = question.table
        metadata = f"{table.location}/{table.snapshot.details.metadata_path}"
        self._opened = StaticTable.from_metadata(metadata)
        self._version = table.version
        self._filter = self._expression(question)
        self.switchable = self._filter is not None

    @staticmethod
    def _expression(question: Question) -> Any:
        from pyiceberg import expressions as ice

        makers: dict[ComparisonOp, Callable[..., Any]] = {
            ComparisonOp.EQ: ice.EqualTo,
            ComparisonOp.NE: ice.NotEqualTo,
            ComparisonOp.LT: ice.LessThan,
            ComparisonOp.LE: ice.LessThanOrEqual,
            ComparisonOp.GT: ice.GreaterThan,
            ComparisonOp.GE: ice.GreaterThanOrEqual,
        }
        one_of: Any = ice.In
        parts = [
            one_of(leaf.column[0], leaf.values)
            if isinstance(leaf, BoundIn)
            else makers[leaf.op](leaf.column[0], leaf.value)
            for leaf in question.plain
        ]
        return ice.And(*parts) if len(parts) > 1 else next(iter(parts), None)

    def _scan(self, *, skip: bool) -> Any:
        where = {"row_filter": self._filter} if skip and self._filter is not None else {}
        return self._opened.scan(snapshot_id=self._version, **where)

    def rows(self, *, skip: bool) -> pa.Table:
        """The rows of its scan."""
        return self._scan(skip=skip).to_arrow()

    def amount(self, *, skip: bool) -> AmountRead:
        """The files of its plan."""
        return sum(1 for _ in self._scan(skip=skip).plan_files()), None


class GeoPandasReader(EngineReader):
    """GeoPandas, which skips row groups of GeoParquet by `bbox=`."""

    def __init__(self, question: Question, spark: SparkSession | None) -> None:
        import geopandas

        self._read = geopandas.read_parquet
        self._files = question.local_files()
        self._bounds = tuple(query_geometry(question.spatial[0]).bounds) if question.spatial else None
        self.switchable = self._bounds is not None

    def rows(self, *, skip: bool) -> pa.Table:
        """The rows of all files."""
        options = {"bbox": self._bounds} if skip and self._bounds is not None else {}
        frames = [self._read(path, **options) for path in self._files]
        tables = [pa.table(frame.to_arrow(index=False, geometry_encoding="WKB")) for frame in frames]
        return pa.concat_tables(tables, promote_options="permissive")

    def amount(self, *, skip: bool) -> AmountRead:
        """It does not say."""
        return None, None


def spark_reader(question: Question, spark: SparkSession | None) -> EngineReader:
    """The reader that Spark has for the format, in the session that is given or runs."""
    from geolake_nb.spark.native_rows import NativeTable, SparkReader
    from geolake_nb.spark.session import running_session

    session = running_session(spark)
    if session is None:
        raise MissingDependencyError("no Spark session is running", remedy="pass spark=gl.session()")
    table = question.table
    native = NativeTable(question.format, table.location, table.version)
    if question.format == "parquet":
        native = NativeTable(question.format, table._storage.location, files=tuple(question.local_files()))
    conditions = [(leaf.column[0], partial(condition_of, leaf)) for leaf in question.plain]
    # Only the driver has what compares collated strings: the comparison tests all rows then.
    tested = None if question.is_collated else question.bound
    return SparkReader(session, native, question.schema, tested, conditions)


_ALL = ("delta", "iceberg", "parquet")

ENGINES: tuple[Engine, ...] = (
    Engine("geolake", "geolake", "geolake_nb", "geolake-nb", _ALL, GeolakeReader),
    Engine("sedonadb", "SedonaDB", "sedonadb", "sedonadb", _ALL, sedona_reader),
    Engine("duckdb", "DuckDB", "duckdb", "duckdb", _ALL, DuckDbReader),
    Engine("deltalake", "deltalake", "deltalake", "deltalake", ("delta",), DeltalakeReader),
    Engine("pyiceberg", "PyIceberg", "pyiceberg", "pyiceberg", ("iceberg",), PyIcebergReader),
    Engine("geopandas", "GeoPandas", "geopandas", "geopandas", ("parquet",), GeoPandasReader),
    Engine("spark", "Spark", "pyspark", "pyspark", _ALL, spark_reader),
)
"""All engines, in the order in which they are asked."""


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {condition}"


def _sedona_part(ask: Callable[[str], pa.Table], leaf: BoundSpatial) -> SqlPart:
    """A condition with a literal in the CRS that SedonaDB knows the column by; it compares the names."""
    import shapely

    column = sql_identifier(leaf.column[0])
    maker = "ST_GeogFromWKB" if isinstance(leaf.type, GeographyType) else "ST_GeomFromWKB"
    literal = f"{maker}(X'{shapely.to_wkb(query_geometry(leaf), flavor='iso', byte_order=1).hex()}')"
    known = ask(f"SELECT ST_CRS({column}) AS crs FROM question WHERE {column} IS NOT NULL LIMIT 1")["crs"].to_pylist()
    if known and known[0]:
        literal = f"ST_SetCRS({literal}, {_sql_text(known[0])})"
    return SqlPart(f"{leaf.op.sql}({column}, {literal})")


def _duckdb_part(leaf: BoundSpatial, relation: str) -> SqlPart:
    import shapely

    wkb = shapely.to_wkb(query_geometry(leaf), flavor="iso", byte_order=1).hex()
    column, literal = sql_identifier(leaf.column[0]), f"ST_GeomFromWKB(from_hex('{wkb}'))"
    text = f"{column} && {literal}" if relation == "&&" else f"{relation}({column}, {literal})"
    return SqlPart(text, exact=False)


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(path: str) -> str:
    """A path whose characters stand for themselves, not for a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", path)
