"""Measure the engine table again: `python -m tests.heavy.engine_facts [--without-spark]`.

Every engine that is installed here is given a table of each kind that this package writes. What it reads, writes and
skips is compared with `geolake_nb.scan.engines`; the differences are printed, and the exit code is 1 if there are
any. Facts that only a vendor's service could show are listed as not measured, with the address of their source.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geoarrow.pyarrow as ga
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl
from geolake_nb.model.table_format import Answer, TableKind
from geolake_nb.scan.engines import ENGINE_FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

__all__ = ["Measured", "differences", "measure_without_spark"]

ROWS, GROUPS = 4000, 4
WINDOW = "POLYGON ((21 1, 22 1, 22 2, 21 2, 21 1))"  # in the second of four groups of rows
QUESTIONS = ("reads", "writes", "skips_geometry", "skips_geography")
_GEOMETRY, _GEOGRAPHY = ga.wkb().with_crs("OGC:CRS84"), ga.wkb().with_crs("OGC:CRS84").with_edge_type(
    ga.EdgeType.SPHERICAL
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What an engine did with one kind of table; `None` where it was not tried."""

    engine: str
    kind: TableKind
    reads: bool | None = None
    writes: bool | None = None
    skips_geometry: bool | None = None
    skips_geography: bool | None = None


def differences(measured: Measured) -> Iterator[str]:
    """The answers that the engine table has otherwise."""
    facts = [fact for fact in ENGINE_FACTS if fact.kind is measured.kind and fact.engine == measured.engine]
    if not facts:
        yield f"{measured.engine}, {measured.kind.value}: no such row"
    for fact in facts:
        for question in QUESTIONS:
            answer = getattr(measured, question)
            recorded = getattr(fact, question)
            if answer is not None and recorded is not (Answer.YES if answer else Answer.NO):
                yield (
                    f"{fact.engine}, {fact.kind.value}, {question}: recorded {recorded.value}, measured"
                    f" {'yes' if answer else 'no'}"
                )


def rows() -> pa.Table:
    """Points in four places far from one another, a geometry and a geography."""
    draw = np.random.default_rng(1)
    x = np.repeat(np.arange(GROUPS) * 20, ROWS // GROUPS) + draw.uniform(0, 10, ROWS)
    wkb = pa.array(shapely.to_wkb(shapely.points(np.c_[x, draw.uniform(0, 10, ROWS)])), pa.binary())
    columns = {
        "g": pa.ExtensionArray.from_storage(_GEOMETRY, wkb),
        "h": pa.ExtensionArray.from_storage(_GEOGRAPHY, wkb),
    }
    return pa.table({"id": np.arange(ROWS), **columns})


def _works(ask: Callable[[], Any]) -> bool:
    try:
        return bool(ask())
    except Exception:  # noqa: BLE001 - each engine has errors of its own
        return False


# ---- Parquet, without Spark


def measure_without_spark(folder: Path, ours: str | None = None) -> Iterator[Measured]:
    """DuckDB, SedonaDB and pyarrow over a Parquet file: one of pyarrow, or those that this package wrote."""
    path = folder / "points.parquet"
    pq.write_table(rows(), path, row_group_size=ROWS // GROUPS)
    files = ours or str(path)
    yield _duckdb(files, folder)
    yield _sedonadb(files, folder)
    group = pq.read_metadata(path).row_group(0)
    yield Measured(
        f"pyarrow {version('pyarrow').partition('.')[0]}",
        TableKind.PARQUET_GEO,
        reads=pq.read_table(path).num_rows == ROWS,
        writes=group.column(1).geo_statistics is not None,
    )


def _compared(files: str, engine: str) -> dict[str, bool]:
    """Whether an engine returns the rows of the window, and leaves row groups unread for it."""
    table = gl.open(files)
    answers: dict[str, bool] = {}
    for column, question in (("g", "skips_geometry"), ("h", "skips_geography")):
        comparison = table.compare_engines(WINDOW, column=column, engines=[engine])
        run = next(iter(comparison))
        answers.setdefault("reads", bool(run.agrees))
        answers[question] = run.row_groups is not None and run.row_groups < comparison.row_groups
    return answers


def _duckdb(files: str, folder: Path) -> Measured:
    import duckdb

    own = folder / "duckdb.parquet"
    with duckdb.connect() as connection:
        connection.sql(f"COPY (SELECT id, g FROM '{files}') TO '{own}' (FORMAT parquet, GEOPARQUET_VERSION 'V2')")
    return Measured(
        "DuckDB 2.0",
        TableKind.PARQUET_GEO,
        writes=pq.read_metadata(own).row_group(0).column(1).geo_statistics is not None,
        **_compared(files, "duckdb"),
    )


def _sedonadb(files: str, folder: Path) -> Measured:
    import sedonadb

    engine = sedonadb.connect()
    engine.read_parquet(files).to_view("points")
    own = folder / "sedonadb.parquet"
    engine.sql("SELECT id, g FROM points").to_parquet(str(own))
    return Measured("SedonaDB 0.5", TableKind.PARQUET_GEO, writes=own.exists(), **_compared(files, "sedonadb"))


# ---- tables that Spark makes


def measure_with_spark(spark: SparkSession, folder: Path) -> Iterator[Measured]:
    """Delta, Iceberg and Parquet with what this package and Spark write."""
    table = rows()
    delta, iceberg, parquet = (str(folder / name) for name in ("delta", "iceberg", "parquet"))
    for path, form in ((delta, "delta"), (iceberg, "iceberg"), (parquet, "parquet")):
        gl.write(table, path, format=form, spark=spark, row_group_rows=ROWS // GROUPS)
    yield from measure_without_spark(folder, f"{parquet}/*.parquet")
    yield _spark_delta(spark, delta, folder)
    yield _spark_parquet(spark, parquet, folder)
    yield _kernel(spark, delta)
    yield _deltalake(delta, TableKind.DELTA_GEO)
    yield _pyiceberg(iceberg)
    yield Measured(
        "Spark 4.2 + Iceberg 1.12",
        TableKind.ICEBERG_GEO,
        reads=_works(lambda: spark.read.format("iceberg").load(iceberg).count() == ROWS),
    )
    collated = str(folder / "collated")
    spark.createDataFrame([(1, "a")], "id INT, name STRING").write.format("delta").save(collated)
    plan = gl.open(collated).plan_collations({"name": "spark.UTF8_LCASE"})
    plan.apply(spark=spark, consent="collations")
    frame = spark.read.format("delta").load(collated)
    yield Measured(
        "Spark 4.2 + Delta 4.4.0",
        TableKind.DELTA_COLLATED,
        reads=_works(lambda: frame.where("name = 'A'").count() == 1),
        writes=_works(lambda: frame.write.format("delta").mode("append").save(collated) is None),
    )
    yield _deltalake(collated, TableKind.DELTA_COLLATED)


def _has_spatial_predicate(spark: SparkSession) -> bool:
    return _works(lambda: spark.sql("SHOW FUNCTIONS LIKE 'st_intersects'").count())


def _spark_delta(spark: SparkSession, path: str, folder: Path) -> Measured:
    own = folder / "own_delta"
    shape = "st_setsrid(st_geomfromwkb(X'010100000000000000000000000000000000000000'), 4326)"
    spark.sql(f"SELECT 1 AS id, {shape} AS g").write.format("delta").save(str(own))
    can_skip = _has_spatial_predicate(spark)
    return Measured(
        "Spark 4.2 + Delta 4.4.0",
        TableKind.DELTA_GEO,
        reads=_works(lambda: spark.read.format("delta").load(path).where("g IS NOT NULL").count() == ROWS),
        writes=_works(lambda: len(gl.open(str(own)).files) == 1),
        skips_geometry=can_skip,
        skips_geography=can_skip,
    )


def _spark_parquet(spark: SparkSession, path: str, folder: Path) -> Measured:
    own = folder / "own_parquet"
    spark.read.parquet(path).write.parquet(str(own))
    written = pq.read_metadata(next(own.glob("*.parquet"))).row_group(0)
    can_skip = _has_spatial_predicate(spark)
    return Measured(
        "Spark 4.2",
        TableKind.PARQUET_GEO,
        reads=_works(lambda: spark.read.parquet(path).where("g IS NOT NULL").count() == ROWS),
        writes=written.column(1).geo_statistics is not None,
        skips_geometry=can_skip,
        skips_geography=can_skip,
    )


def _kernel(spark: SparkSession, path: str) -> Measured:
    from tests.kernel_reader import kernel_rows

    return Measured(
        "Delta Kernel (Java) 4.4",
        TableKind.DELTA_GEO,
        reads=_works(lambda: len(kernel_rows(spark, path, ["g"])) == ROWS),
    )


def _deltalake(path: str, kind: TableKind) -> Measured:
    from deltalake import DeltaTable, write_deltalake

    def append() -> bool:
        write_deltalake(path, pa.table({"id": pa.array([2], pa.int32())}), mode="append", schema_mode="merge")
        return True

    return Measured(
        "deltalake 1.6",
        kind,
        reads=_works(lambda: DeltaTable(path).to_pyarrow_table().num_rows),
        writes=_works(append),
    )


def _pyiceberg(path: str) -> Measured:
    from pyiceberg.table import StaticTable

    newest = max(Path(path, "metadata").glob("*.metadata.json"), key=lambda file: file.stat().st_mtime)
    return Measured(
        "PyIceberg 0.12",
        TableKind.ICEBERG_GEO,
        reads=_works(lambda: StaticTable.from_metadata(str(newest)).scan().to_arrow().num_rows == ROWS),
    )


def _iceberg_spark(folder: Path) -> Measured:
    from tests.iceberg_spark import IcebergSpark

    process = IcebergSpark(folder)
    try:
        shape = "st_setsrid(st_geomfromwkb(X'010100000000000000000000000000000000000000'), 4326)"
        create = "CREATE TABLE ice.db.g (id INT, g GEOMETRY(4326)) USING iceberg TBLPROPERTIES('format-version'='3')"
        writes = _works(lambda: process.sql(create) is not None and process.sql(f"INSERT INTO ice.db.g VALUES (1, {shape})") is not None)  # fmt: skip  # noqa: E501
        return Measured(
            "Spark 4.1 + Iceberg 1.12",
            TableKind.ICEBERG_GEO,
            reads=_works(lambda: process.sql("SELECT count(g) AS n FROM ice.db.g")[0]["n"] == 1),
            writes=writes,
            skips_geometry=_works(lambda: process.sql("SHOW FUNCTIONS LIKE 'st_intersects'")),
        )
    finally:
        process.stop()


def _measured(*, with_spark: bool) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not with_spark:
            yield from measure_without_spark(folder)
            return
        from tests.spark_session import delta_session

        spark = delta_session("local[2]", folder)
        try:
            yield from measure_with_spark(spark, folder)
        finally:
            spark.stop()
        (folder / "other").mkdir()
        yield _iceberg_spark(folder / "other")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-spark", action="store_true", help="only the engines that need no Java")
    options = parser.parse_args()
    measured = []
    for measurement in _measured(with_spark=not options.without_spark):
        answers = ", ".join(
            f"{name} {getattr(measurement, name)}" for name in QUESTIONS if getattr(measurement, name) is not None
        )
        print(f"{measurement.engine}, {measurement.kind.value}: {answers}", flush=True)
        measured.append(measurement)
    changed = [line for measurement in measured for line in differences(measurement)]
    tried = {(measurement.engine, measurement.kind) for measurement in measured}
    for fact in ENGINE_FACTS:
        if (fact.engine, fact.kind) not in tried:
            print(f"not measured here: {fact.engine}, {fact.kind.value} ({fact.source})")
    print(*(changed or ["the engine table is as measured"]), sep="\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
