"""Tables of four formats that go through every operation, and what two engines read of them after each.

Spark reads every live row of the table (for Iceberg the Spark with Iceberg's own reader, for Havasu, which no open
engine reads, the live files), DuckDB the live Parquet files one by one. Filters are columns of the result, never a
WHERE clause.
"""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl
from tests.promises.arc_queries import Arcs
from tests.promises.foreign_boxes import give_boxes
from tests.promises.random_questions import GEO, OF_PARTITIONS, WORDS, Scan
from tests.promises.written_bounds import delta_adds, live_files

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.iceberg_spark import IcebergSpark

__all__ = [
    "ICEBERG_SHAPES",
    "PACKING",
    "SPARK_SHAPES",
    "TYPES",
    "QueryTable",
    "apply_plan",
    "delta_states",
    "havasu_states",
    "iceberg_states",
    "make_rows",
    "parquet_states",
    "sql_values",
    "write_rows",
]

TYPES = {"geom": gl.geometry(), "place": gl.geography()}
PACKING = {"target_file_size": "10KB", "row_group_rows": 40}
ARCH = shapely.LineString([(-60, 85), (60, 85)])
"""As a geography it rises above 87.4 degrees, where no vertex of a row is."""
PLAIN = ("id", "n", "x", "name", "day")


def make_rows(seed: int, first: int, count: int) -> pa.Table:
    """Rows in neighbourhoods, so that files differ; nulls, empties, NaN, and shapes on both sides of the dateline."""
    rng = random.Random(seed)
    rows = []
    for number in range(first, first + count):
        if (number - first) % 60 == 0:
            x, y = rng.choice(((-180.0, 0.0), (180.0, -40.0), (rng.uniform(-170, 170), rng.uniform(-80, 80))))
            words = rng.sample(WORDS, 4)
        east, north = _near(rng, x, 180), _near(rng, y, 90)
        way = rng.random()
        shape: Any = shapely.Point(east, north)
        if way < 0.03:
            shape = None
        elif way < 0.06:
            shape = rng.choice((shapely.Point(), shapely.Polygon(), shapely.GeometryCollection()))
        elif way < 0.3:
            shape = shapely.LineString([(east, north), (_near(rng, x, 180), _near(rng, y, 90))])
        elif way < 0.5:
            shape = shapely.box(east, north, min(180, east + 0.5), min(90, north + 0.5))
        geography = ARCH if number == first + count - 1 else None if rng.random() < 0.03 else _geography(rng, x, y)
        rows.append(
            {
                "id": number,
                "n": None if rng.random() < 0.05 else number // 20 + rng.randint(-2, 2),
                "x": None
                if rng.random() < 0.03
                else rng.choice((float("nan"), -0.0))
                if rng.random() < 0.03
                else x + y,
                "name": None if rng.random() < 0.05 else rng.choice(words),
                "day": dt.date(2010, 1, 1) + dt.timedelta(days=number * 5 % 7000),
                "geom": None if shape is None else shapely.to_wkb(shape),
                "place": None if geography is None else shapely.to_wkb(geography),
            }
        )
    types = [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.date32(), pa.binary(), pa.binary()]
    return pa.Table.from_pylist(rows, pa.schema(list(zip((*PLAIN, *GEO), types, strict=True))))


def _near(rng: random.Random, middle: float, most: float) -> float:
    return max(-most, min(most, middle + rng.gauss(0, 2)))


def _geography(rng: random.Random, x: float, y: float) -> Any:
    """A point, a line whose arc may rise high above its ends, or a small polygon."""
    east, north = _wrapped(x + rng.gauss(0, 2)), _near(rng, y, 85)
    way = rng.random()
    if way < 0.1:
        return shapely.LineString([(east, north), (_wrapped(east + rng.gauss(0, 15)), _near(rng, north, 85))])
    if way < 0.25:
        far = _wrapped(east + 3)
        return shapely.Polygon([(east, north), (far, north), (far, north + 2), (east, north + 2)])
    return shapely.Point(east, north)


def _wrapped(lon: float) -> float:
    return (lon + 180) % 360 - 180


@dataclass
class QueryTable:
    """A table, and what is known of it apart from the package."""

    form: str
    folder: Path
    spark: SparkSession
    iceberg: IcebergSpark | None = None
    name: str = ""
    """In the catalog of the other Spark."""
    deleted: set[int] = field(default_factory=set)
    """Ids of rows that are in the live files and were deleted."""
    collated: bool = False
    changed: bool = False
    """Whether `name` is called `title` now, and `day` is another column, that has no values yet."""
    partitions: Mapping[str, str] = field(default_factory=dict)
    """The columns that the rows are partitioned by, with their types in DuckDB."""

    def questions(self, filters: Sequence[str]) -> list[str]:
        """The filters with the columns as they are called now, and those of the partitions."""
        named = [f"title{sql[4:]}" if self.changed and sql.startswith("name ") else sql for sql in filters]
        return [*named, *self.of_partitions()]

    def of_partitions(self) -> Sequence[str]:
        """The filters of the columns that the rows are partitioned by."""
        return OF_PARTITIONS if self.partitions else ()

    def files(self) -> list[Path]:
        return live_files(self.folder, self.form)

    def by_spark(self, filters: Sequence[str]) -> Scan:
        selected = [f"({sql}) AS q{number}" for number, sql in enumerate(filters)]
        if self.iceberg is not None:
            shapes = [f"st_asbinary({name}) AS {name}" for name in GEO]
            rows = self.iceberg.sql(f"SELECT id, {', '.join([*shapes, *selected])} FROM {self.name}")
            for row in rows:
                row |= {name: None if row[name] is None else bytes.fromhex(row[name]) for name in GEO}
            return self._scan(pa.Table.from_pylist(rows), filters)
        if self.form == "delta":
            frame = self.spark.read.format("delta").load(str(self.folder))
        else:
            reader = self.spark.read
            if self.form == "parquet":  # or the folders would say nothing; the files of Havasu hold what theirs say
                reader = reader.option("basePath", str(self.folder))
            frame = reader.parquet(*map(str, self.files()))
        kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
        shapes = [name if kinds[name] == "binary" else f"st_asbinary({name}) AS {name}" for name in GEO]
        return self._scan(frame.selectExpr("id", *shapes, *selected).toArrow(), filters)

    def by_duckdb(self, filters: Sequence[str]) -> Scan:
        engine = duckdb.connect()
        # Its optimizer takes the bounds in a footer for granted, and NaN is not in them.
        engine.execute("SET disabled_optimizers = 'statistics_propagation'")
        parts = []
        for source, values in self._for_each_file():
            described = f"SELECT column_name, column_type FROM (DESCRIBE {source})"
            kinds = dict(engine.execute(described, values).fetchall())
            shapes = [f"st_aswkb({name}) AS {name}" if kinds[name].startswith("GEO") else name for name in GEO]
            selected = [f"({self._for_duckdb(sql, kinds)}) AS q{number}" for number, sql in enumerate(filters)]
            query = f"SELECT id, {', '.join([*shapes, *selected])} FROM ({source})"
            parts.append(engine.sql(query, params=values).to_arrow_table())
        whole = pa.concat_tables(parts, promote_options="permissive")
        live = ~np.isin(whole["id"].to_numpy(), list(self.deleted))
        return self._scan(whole.filter(pa.array(live)), filters)

    def _for_each_file(self) -> Iterator[tuple[str, list[str | None]]]:
        """All columns of each live file in DuckDB's SQL, with its parameters.

        Partition values are in Delta's log and in the folders of Parquet sets; files of Iceberg hold them themselves.
        """
        if self.form == "delta":
            partition_columns = "".join(f", CAST(? AS {kind}) AS {name}" for name, kind in self.partitions.items())
            source = f"SELECT *{partition_columns} FROM read_parquet(?, hive_partitioning = false)"
            for path, add in delta_adds(self.folder).items():
                values = [add["partitionValues"][name] for name in self.partitions]
                yield source, [*values, str(self.folder / unquote(path))]
            return
        how = "false"
        if self.form == "parquet" and self.partitions:
            types = ", ".join(f"{name}: {kind}" for name, kind in self.partitions.items())
            how = f"true, hive_types = {{{types}}}"
        for file in self.files():
            yield f"FROM read_parquet(?, hive_partitioning = {how})", [str(file)]

    def _for_duckdb(self, sql: str, columns: Container[str]) -> str:
        """The filter of the columns that a file holds; Spark's UTF8_LCASE compares what is left in lower case."""
        column, rest = sql.split(" ", 1)
        if self.changed and column == "day":
            return f"CAST(NULL AS DATE) {rest}"
        stored = column if column in columns else {"title": "name"}[column]
        return f"lower({stored}) {rest.lower()}" if self.collated and column == "title" else f"{stored} {rest}"

    def _scan(self, table: pa.Table, filters: Sequence[str]) -> Scan:
        table = table.sort_by("id")
        shapes = {name: shapely.from_wkb(np.array(table[name].to_pylist(), object)) for name in GEO}
        answers = {}
        for number, sql in enumerate(filters):
            values = table[f"q{number}"].to_pylist()
            answers[sql] = np.array([value is True for value in values]), np.array([value is False for value in values])
        # Havasu has no geographies.
        arcs = {} if self.form == "havasu" else {"place": Arcs.of(shapes["place"])}
        return Scan(table["id"].to_numpy(), shapes, answers, arcs)


# ---- the operations of each format: each yields its name when it is done


def write_rows(table: QueryTable, rows: pa.Table, **options: Any) -> None:
    gl.write(rows, table.folder, format=table.form, spark=table.spark, **PACKING, **options)


def apply_plan(table: QueryTable, verb: str, *, consent: Any = (), **options: Any) -> Any:
    plan = getattr(gl.open(str(table.folder)), f"plan_{verb}")(**options)
    return plan.apply(spark=table.spark, consent=consent)


def sql_values(rows: pa.Table, *, geom: str, place: str) -> str:
    """The rows as VALUES of Spark."""
    written = {"geom": geom, "place": place, "x": "double('{}')", "day": "DATE'{}'", "since": "DATE'{}'"}
    lines = [
        ", ".join(
            _literal(value, written.get(name, "'{}'" if isinstance(value, str) else "{}"))
            for name, value in row.items()
        )
        for row in rows.to_pylist()
    ]
    return ", ".join(f"({line})" for line in lines)


def _literal(value: Any, text: str) -> str:
    return "NULL" if value is None else text.format(value.hex() if isinstance(value, bytes) else value)


SPARK_SHAPES = {"geom": "st_geomfromwkb(X'{}', 4326)", "place": "st_geogfromwkb(X'{}')"}
ICEBERG_SHAPES = {**SPARK_SHAPES, "geom": "st_setsrid(st_geomfromwkb(X'{}'), 4326)"}


def insert_and_delete(table: QueryTable, rows: pa.Table) -> None:
    """Spark's own rows, and some of all deleted; each format has its Spark."""
    sql, name, shapes = table.spark.sql, f"delta.`{table.folder}`", SPARK_SHAPES
    if table.iceberg is not None:
        sql, name, shapes = table.iceberg.sql, table.name, ICEBERG_SHAPES
    sql(f"INSERT INTO {name} VALUES {sql_values(rows, **shapes)}")
    sql(f"DELETE FROM {name} WHERE id % 7 = 3")
    table.deleted |= {id_ for id_ in range(rows["id"][-1].as_py() + 1) if id_ % 7 == 3}


def _change_columns(fixture: QueryTable, sql: Callable[[str], Any], table: str) -> None:
    """A column gets another name, and another one gets the name of one that is gone: its old statistics with it."""
    for change in ("RENAME COLUMN name TO title", "DROP COLUMN day", "ADD COLUMN day DATE"):
        sql(f"ALTER TABLE {table} {change}")
    fixture.changed = True


def delta_states(fixture: QueryTable, seed: int, size: int) -> Iterator[str]:
    """Create, append, Spark's own rows, deletes and columns, repair, rewrite, collate, and undo."""
    table = f"delta.`{fixture.folder}`"
    write_rows(fixture, make_rows(seed, 0, size), columns=TYPES)
    yield "write"
    write_rows(fixture, make_rows(seed + 1, size, size // 2), mode="append")
    yield "append"
    fixture.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    own = make_rows(seed + 2, 2 * size, 60)
    fixture.spark.sql(f"INSERT INTO {table} VALUES {sql_values(own, **SPARK_SHAPES)}")
    yield "Spark's insert"
    fixture.spark.sql(f"DELETE FROM {table} WHERE id % 7 = 3")
    fixture.deleted |= {id_ for id_ in range(2 * size + 60) if id_ % 7 == 3}
    yield "Spark's delete"
    apply_plan(fixture, "repair")
    yield "repair"
    fixture.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    _change_columns(fixture, fixture.spark.sql, table)
    yield "Spark's other columns"
    apply_plan(fixture, "collations", changes={"title": "spark.UTF8_LCASE"}, consent="collations")
    fixture.collated = True
    yield "collations"
    rewritten = apply_plan(fixture, "rewrite", cluster_by="geom", **PACKING)
    yield "rewrite"
    rewritten.undo(spark=fixture.spark)
    yield "undo"


def enabled_states(fixture: QueryTable, seed: int, size: int) -> Iterator[str]:
    """A table of bytes that Spark wrote, whose columns become geo columns."""
    frame = fixture.spark.createDataFrame(make_rows(seed, 0, size).to_pandas()).repartitionByRange(4, "id")
    frame.write.format("delta").save(str(fixture.folder))
    apply_plan(fixture, "enable", columns=TYPES, consent="geospatial")
    yield "enable"


def iceberg_states(fixture: QueryTable, seed: int, size: int) -> Iterator[str]:
    """The same with Iceberg's own Spark as the other writer."""
    assert fixture.iceberg is not None
    write_rows(fixture, make_rows(seed, 0, size), columns=TYPES, properties={"write.delete.mode": "merge-on-read"})
    yield "write"
    write_rows(fixture, make_rows(seed + 1, size, size // 2), mode="append")
    yield "append"
    insert_and_delete(fixture, make_rows(seed + 2, 2 * size, 60))
    yield "Spark's insert and delete"
    apply_plan(fixture, "repair")
    yield "repair"
    _change_columns(fixture, fixture.iceberg.sql, fixture.name)
    yield "Spark's other columns"
    rewritten = apply_plan(fixture, "rewrite", cluster_by="place", **PACKING)
    yield "rewrite"
    rewritten.undo(spark=fixture.spark)
    yield "undo"


def havasu_states(fixture: QueryTable, seed: int, size: int) -> Iterator[str]:
    """Two columns of geometries, since Havasu has no geographies."""
    types = {name: gl.geometry(encoding="ewkb") for name in GEO}
    write_rows(fixture, make_rows(seed, 0, size), columns=types)
    yield "write"
    write_rows(fixture, make_rows(seed + 1, size, size // 2), mode="append")
    yield "append"
    give_boxes(fixture.folder, "tighten")
    apply_plan(fixture, "repair", verify=True)
    yield "repair"
    rewritten = apply_plan(fixture, "rewrite", cluster_by="geom", **PACKING)
    yield "rewrite"
    rewritten.undo(spark=fixture.spark)
    yield "undo"


def parquet_states(fixture: QueryTable, seed: int, size: int) -> Iterator[str]:
    """Files of bytes that become GeoParquet, grow, lose a file, and are rewritten with coverings."""
    fixture.folder.mkdir()
    rows = make_rows(seed, 0, size)
    for start in range(0, size, 80):
        pq.write_table(rows.slice(start, 80), fixture.folder / f"part-{start:05}.parquet", row_group_size=40)
    apply_plan(fixture, "repair", columns=TYPES)
    yield "repair"
    write_rows(fixture, make_rows(seed + 1, size, size // 2), mode="append")
    yield "append"
    (fixture.folder / "part-00080.parquet").unlink()
    yield "a file removed"
    rewritten = apply_plan(fixture, "rewrite", cluster_by="geom", covering=True, **PACKING)
    yield "rewrite"
    rewritten.undo(spark=fixture.spark)
    yield "undo"


def converted_states(fixture: QueryTable, seed: int, size: int) -> Iterator[str]:
    """A table of the format made of files of bytes."""
    source = fixture.folder.with_name(fixture.folder.name + "-source")
    source.mkdir()
    pq.write_table(make_rows(seed, 0, size), source / "a.parquet")
    types = {name: gl.geometry() for name in GEO} if fixture.form == "havasu" else TYPES
    plan = gl.open(str(source)).plan_convert(
        str(fixture.folder), format=fixture.form, columns=types, cluster_by="geom", **PACKING
    )
    plan.apply(spark=fixture.spark)
    yield "convert"
