"""Partitioned tables of four formats that go through the same operations, to be queried by their partitions too."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import geolake_nb as gl
from tests.promises.foreign_boxes import give_boxes
from tests.promises.query_fixtures import (
    PACKING,
    TYPES,
    apply_plan,
    insert_and_delete,
    make_rows,
    write_rows,
)
from tests.promises.random_questions import GEO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.promises.query_fixtures import QueryTable

__all__ = ["COLUMNS", "delta_states", "havasu_states", "iceberg_states", "parquet_states"]

COLUMNS = {"part": "VARCHAR", "level": "BIGINT", "since": "DATE"}
"""Which the tables are partitioned by, with their types in DuckDB."""
VALUES: dict[str, tuple[Any, ...]] = {
    "part": (None, "a/b: 1%", "ü", "k=v", "plain"),
    "level": (None, -3, 2, 10),
    "since": (None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)),
}
TOGETHER = 20
"""Neighbours that share their partition, so that there are not as many files as rows."""
UNMEASURED = {"write.metadata.metrics.column.level": "none"}
"""Of Iceberg: files have no bounds of the column, so that nothing but the partition can skip one by it."""


def partitioned_rows(seed: int, first: int, count: int) -> pa.Table:
    """The rows that other tables get, and the columns of their partitions."""
    rng = random.Random(seed)
    drawn = [{name: rng.choice(VALUES[name]) for name in COLUMNS} for _ in range(0, count, TOGETHER)]
    types = pa.schema({"part": pa.string(), "level": pa.int64(), "since": pa.date32()})
    partitions = pa.Table.from_pylist([drawn[number // TOGETHER] for number in range(count)], types)
    rows = make_rows(seed, first, count)
    for name in COLUMNS:
        rows = rows.append_column(name, partitions[name])
    return rows


def delta_states(table: QueryTable, seed: int, size: int) -> Iterator[str]:
    """Create, append, Spark's own rows and deletes, repair and rewrite."""
    write_rows(table, partitioned_rows(seed, 0, size), columns=TYPES, partition_by=list(COLUMNS))
    yield "write"
    write_rows(table, partitioned_rows(seed + 1, size, size // 2), mode="append")
    yield "append"
    table.spark.sql(f"ALTER TABLE delta.`{table.folder}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    insert_and_delete(table, partitioned_rows(seed + 2, 2 * size, 60))
    yield "Spark's insert and delete"
    apply_plan(table, "repair")
    yield "repair"
    apply_plan(table, "rewrite", cluster_by="geom", **PACKING)
    yield "rewrite"


def iceberg_states(table: QueryTable, seed: int, size: int) -> Iterator[str]:
    """The same, with partitions that change to hidden ones on the way."""
    assert table.iceberg is not None
    properties = {"write.delete.mode": "merge-on-read", **UNMEASURED}
    rows = partitioned_rows(seed, 0, size)
    write_rows(table, rows, columns=TYPES, partition_by=list(COLUMNS), properties=properties)
    yield "write"
    for change in (
        "REPLACE PARTITION FIELD part WITH truncate(1, part)",
        "REPLACE PARTITION FIELD since WITH days(since)",
        "ADD PARTITION FIELD bucket(2, id)",
    ):
        table.iceberg.sql(f"ALTER TABLE {table.name} {change}")
    write_rows(table, partitioned_rows(seed + 1, size, size // 2), mode="append")
    yield "append by transforms"
    insert_and_delete(table, partitioned_rows(seed + 2, 2 * size, 60))
    yield "Spark's insert and delete"
    apply_plan(table, "repair")
    yield "repair"
    apply_plan(table, "rewrite", cluster_by="place", **PACKING)
    yield "rewrite"


def havasu_states(table: QueryTable, seed: int, size: int) -> Iterator[str]:
    """Two columns of geometries, since Havasu has no geographies."""
    types = {name: gl.geometry(encoding="ewkb") for name in GEO}
    rows = partitioned_rows(seed, 0, size)
    write_rows(table, rows, columns=types, partition_by=list(COLUMNS), properties=UNMEASURED)
    yield "write"
    write_rows(table, partitioned_rows(seed + 1, size, size // 2), mode="append")
    yield "append"
    give_boxes(table.folder, "tighten")
    apply_plan(table, "repair", verify=True)
    yield "repair"
    apply_plan(table, "rewrite", cluster_by="geom", **PACKING)
    yield "rewrite"


def parquet_states(table: QueryTable, seed: int, size: int) -> Iterator[str]:
    """Folders of Spark's that become GeoParquet, grow, and are rewritten."""
    frame = table.spark.createDataFrame(partitioned_rows(seed, 0, size)).coalesce(1)
    frame.write.partitionBy(*COLUMNS).parquet(str(table.folder))
    apply_plan(table, "repair", columns=TYPES)
    yield "repair"
    write_rows(table, partitioned_rows(seed + 1, size, size // 2), mode="append")
    yield "append"
    apply_plan(table, "rewrite", cluster_by="geom", covering=True, **PACKING)
    yield "rewrite"
