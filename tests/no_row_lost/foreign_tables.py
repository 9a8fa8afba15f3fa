"""Tables with extreme values by many writers: Spark, deltalake, PyIceberg, DuckDB, pyarrow and this package."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
from tests.no_row_lost.extreme_values import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["WRITERS", "WrittenTable", "spark_frame", "without_small_integers"]


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table and how it is read whole."""

    location: str
    """What `gl.open` takes."""
    names: tuple[str, ...]
    """The columns that filters ask about."""
    format: str = "parquet"
    """`delta` where Spark reads the table by its log, else its data files are read."""
    duckdb: bool = True
    """Whether DuckDB reads its data files with the names of the table's columns."""


def spark_frame(spark: SparkSession, table: pa.Table) -> Any:
    """One partition, so that Spark writes one file."""
    return spark.createDataFrame(table, _spark_types(table.schema)).coalesce(1)


def _spark_types(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


@contextmanager
def _settings(spark: SparkSession, **values: str) -> Iterator[None]:
    settings = {f"spark.sql.parquet.{name}": value for name, value in values.items()}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _all_names() -> tuple[str, ...]:
    return tuple(COLUMNS)


def _spark_delta(spark: SparkSession, folder: Path, files: Sequence[pa.Table], **properties: str) -> WrittenTable:
    path = str(folder)
    options = {f"delta.{name}": value for name, value in properties.items()}
    for number, table in enumerate(files):
        writer = spark_frame(spark, table).write.format("delta").mode("append")
        (writer.options(**options) if number == 0 else writer).save(path)
    return WrittenTable(path, _all_names(), "delta")


def spark_delta(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """Statistics as JSON in the commits."""
    return _spark_delta(spark, folder, files)


def spark_delta_checkpoint(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """Statistics as structs in a checkpoint, and nowhere else."""
    properties = {"checkpoint.writeStatsAsJson": "false", "checkpoint.writeStatsAsStruct": "true"}
    made = _spark_delta(spark, folder, files, **properties)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, made.location).checkpoint()
    for commit in (folder / "_delta_log").glob("*.json"):
        if int(commit.stem) < len(files) - 1:
            commit.unlink()
    return made


def spark_delta_changed(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """Columns that were widened and renamed between the files."""
    path = str(folder)
    changed = {
        "i1": pa.int16(), "i4": pa.int64(), "f4": pa.float64(), "d": pa.timestamp("us"), "d5": pa.decimal128(10, 4),
    }  # fmt: skip
    half = len(files) // 2
    options = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    for number, table in enumerate(files[:half]):
        writer = spark_frame(spark, table).write.format("delta").mode("append")
        (writer.options(**options) if number == 0 else writer).save(path)
    types = {"i1": "SMALLINT", "i4": "BIGINT", "f4": "DOUBLE", "d": "TIMESTAMP_NTZ", "d5": "DECIMAL(10, 4)"}
    for name, kind in types.items():
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {name} TYPE {kind}")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN i8 TO i16")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN i2 TO i8")
    renamed = {"i8": "i16", "i2": "i8"}
    for table in files[half:]:
        for name, kind in changed.items():
            column = table[name]
            wide = column.cast(pa.timestamp("s")).cast(kind) if name == "d" else column.cast(kind)
            table = table.set_column(table.column_names.index(name), name, wide)  # noqa: PLW2901
        table = table.rename_columns([renamed.get(name, name) for name in table.column_names])  # noqa: PLW2901
        spark_frame(spark, table).write.format("delta").mode("append").save(path)
    return WrittenTable(path, tuple(name for name in _all_names() if name != "i2"), "delta", duckdb=False)


PARTITIONS = ("b", "i4", "i8", "f8", "d5", "d38", "s", "d", "ts", "tn")


def spark_delta_partitioned(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """A column of every file is a partition column, another one in each table."""
    name = PARTITIONS[sum(file.num_rows for file in files[:1]) % len(PARTITIONS)]
    keys = [file[name].drop_null() for file in files]
    digest = sum(len(key) for key in keys) + len(str(keys[0])) + len(str(keys[-1]))
    name = PARTITIONS[digest % len(PARTITIONS)]
    for table in files:
        spark_frame(spark, table).write.format("delta").mode("append").partitionBy(name).save(str(folder))
    return WrittenTable(str(folder), _all_names(), "delta", duckdb=False)


def _spark_parquet(spark: SparkSession, folder: Path, files: Sequence[pa.Table], **settings: str) -> WrittenTable:
    with _settings(spark, **settings):
        for table in files:
            spark_frame(spark, table).write.mode("append").parquet(str(folder))
    return WrittenTable(str(folder), _all_names())


def spark_parquet(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """Spark's defaults."""
    return _spark_parquet(spark, folder, files)


def spark_parquet_int96(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """Instants as INT96."""
    return _spark_parquet(spark, folder, files, outputTimestampType="INT96", int96RebaseModeInWrite="CORRECTED")


def spark_parquet_legacy(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """The calendar of Spark 2."""
    modes = {"datetimeRebaseModeInWrite": "LEGACY", "int96RebaseModeInWrite": "LEGACY"}
    made = _spark_parquet(spark, folder, files, **modes)
    return WrittenTable(made.location, made.names, duckdb=False)  # DuckDB reads other dates than Spark


def deltalake_delta(_: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """deltalake, and a checkpoint of its own."""
    from deltalake import DeltaTable, write_deltalake

    for table in files:
        write_deltalake(str(folder), table, mode="append")
    DeltaTable(str(folder)).create_checkpoint()
    return WrittenTable(str(folder), _all_names(), "delta")


def pyiceberg_iceberg(_: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """PyIceberg with a SQL catalog; Iceberg has no integers below 32 bits."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True)
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    wide = [_without_last_before_surrogates(without_small_integers(table)) for table in files]
    made = catalog.create_table("db.t", wide[0].schema)
    for table in wide:
        made.append(table)
    location = made.metadata_location.removeprefix("file://")
    catalog.engine.dispose()
    return WrittenTable(location, _all_names())


def without_small_integers(table: pa.Table) -> pa.Table:
    for name in ("i1", "i2"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int32()))
    return table


def _without_last_before_surrogates(table: pa.Table) -> pa.Table:
    """PyIceberg fails on a string of U+D7FF: its upper bound would end with the next code point, a surrogate."""
    rows = [
        {**row, "s": _replaced(row["s"]), "n": row["n"] and {**row["n"], "s": _replaced(row["n"]["s"])}}
        for row in table.to_pylist()
    ]
    return pa.Table.from_pylist(rows, table.schema)


def _replaced(text: str | None) -> str | None:
    return text and text.replace("\ud7ff", "\ud7fe")


def duckdb_parquet(_: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """DuckDB's COPY."""
    import duckdb

    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        for number, table in enumerate(files):
            connection.register("rows", table)
            connection.sql(f"COPY (SELECT * FROM rows) TO '{folder}/{number}.parquet' (FORMAT parquet)")
    return WrittenTable(str(folder), _all_names())


def pyarrow_parquet(_: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """pyarrow, with several row groups and a page index."""
    folder.mkdir(parents=True)
    for number, table in enumerate(files):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=2, write_page_index=True)
    return WrittenTable(str(folder), _all_names())


def _ours(kind: str) -> Callable[[SparkSession, Path, Sequence[pa.Table]], WrittenTable]:
    def write(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
        folder.mkdir(parents=True)
        path = str(folder / "t")
        names = _all_names()
        for number, table in enumerate(files):
            given = without_small_integers(table) if kind in ("iceberg", "havasu") else table
            gl.write(given, path, format=kind, mode="append" if number else "create", spark=spark)
        return WrittenTable(path, names, "delta" if kind == "delta" else "parquet")

    write.__doc__ = f"This package, as {kind}."
    return write


def our_rewrite(spark: SparkSession, folder: Path, files: Sequence[pa.Table]) -> WrittenTable:
    """A table of Spark, written again in the order of a column."""
    made = _spark_delta(spark, folder, files)
    gl.open(made.location).plan_rewrite(cluster_by="i8", target_file_size="10KB").apply(spark=spark)
    return made


WRITERS: Mapping[str, Callable[[SparkSession, Path, Sequence[pa.Table]], WrittenTable]] = {
    "spark delta": spark_delta,
    "spark delta, struct statistics": spark_delta_checkpoint,
    "spark delta, changed columns": spark_delta_changed,
    "spark delta, partitioned": spark_delta_partitioned,
    "spark parquet": spark_parquet,
    "spark parquet, int96": spark_parquet_int96,
    "spark parquet, legacy calendar": spark_parquet_legacy,
    "deltalake": deltalake_delta,
    "pyiceberg": pyiceberg_iceberg,
    "duckdb": duckdb_parquet,
    "pyarrow": pyarrow_parquet,
    "geolake_nb delta": _ours("delta"),
    "geolake_nb iceberg": _ours("iceberg"),
    "geolake_nb havasu": _ours("havasu"),
    "geolake_nb parquet": _ours("parquet"),
    "geolake_nb rewrite": our_rewrite,
}
