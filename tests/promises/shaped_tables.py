"""Tables of other shapes for the writers of bounds: partitions, renamed columns, shapes in structs, lists and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, ListType, MapType, PrimitiveType, StringType, StructType
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.storage.storage import Storage
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.promises.bound_writers import Made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.promises.bound_writers import Rows

__all__ = ["NESTED", "REPEATED", "shaped_truth", "with_spark_shaped", "without_spark_shaped"]

NESTED = ("geom", "place.at", "deep.in.at")
REPEATED = ("many", "named")
"""Lists and maps of shapes: row groups have boxes of their values, and no table format has."""
PARTITIONS = ("a/b: 1%", "ü", None)


def shaped_truth(rows: Rows) -> dict[str, Any]:
    """Where the rows lie: a list or a map holds the one shape of its row."""
    plain, sphere = rows.truth["geom"], rows.truth["sphere"]
    return {"geom": plain, "place.at": plain, "deep.in.at": sphere, "many": plain, "named": plain}


def _table(rows: Rows, names: dict[str, str] | None = None) -> pa.Table:
    """The rows, under these names."""
    physical = names or {}
    geom, sphere = rows.iso["geom"].combine_chunks(), rows.iso["sphere"].combine_chunks()
    inner = pa.StructArray.from_arrays([sphere], [physical.get("deep.in.at", "at")])
    return pa.table(
        {
            physical.get("id", "id"): rows.iso["id"],
            physical.get("p", "p"): pa.array([PARTITIONS[row * 3 // len(rows.iso)] for row in range(len(rows.iso))]),
            physical.get("geom", "geom"): geom,
            physical.get("place", "place"): pa.StructArray.from_arrays([geom], [physical.get("place.at", "at")]),
            physical.get("deep", "deep"): pa.StructArray.from_arrays([inner], [physical.get("deep.in", "in")]),
            physical.get("many", "many"): pa.array([[value] for value in geom.to_pylist()], pa.list_(pa.binary())),
            physical.get("named", "named"): pa.array(
                [[("a", value)] for value in geom.to_pylist()], pa.map_(pa.string(), pa.binary())
            ),
        }
    )


def _schema(rows: Rows) -> Schema:
    geometry, geography = rows.types["geom"], rows.types["sphere"]
    inner = StructType((Field("at", geography),))
    return Schema(
        StructType(
            (
                Field("id", PrimitiveType("int64")),
                Field("p", StringType()),
                Field("geom", geometry),
                Field("place", StructType((Field("at", geometry),))),
                Field("deep", StructType((Field("in", inner),))),
                Field("many", ListType(Field("element", geometry))),
                Field("named", MapType(Field("key", StringType(), nullable=False), Field("value", geometry))),
            )
        )
    )


# ---- without Spark


def without_spark_shaped(rows: Rows, folder: Path) -> Iterator[Made]:
    """The writer of files, and repairs by footers of partitioned files: of Parquet, and of Delta with other names."""
    yield _nested_files(rows, folder / "nested")
    types = {"geom": rows.types["geom"], "place.at": rows.types["geom"], "deep.in.at": rows.types["sphere"]}
    plain = folder / "partitioned"
    _partitioned(_table(rows), plain)
    gl.open(str(plain)).plan_repair(columns=types).apply()
    yield Made("repair Parquet in partitions", "parquet", plain, NESTED)
    yield from _mapped(rows, folder)


def _mapped(rows: Rows, folder: Path, spark: SparkSession | None = None) -> Iterator[Made]:
    """Repairs of Delta with other names: with Spark those of rows that footers cannot describe, such as infinities."""
    types = {"geom": rows.types["geom"], "place.at": rows.types["geom"], "deep.in.at": rows.types["sphere"]}
    for mode in ("name", "id"):
        where = folder / f"mapped-{mode}-{'footers' if spark is None else 'values'}"
        table = _table(rows, _NAMES)
        adds = _partitioned(_numbered(table) if mode == "id" else table, where)
        physical_types = {".".join(_physical(path)): kind for path, kind in types.items()}
        gl.open(str(where)).plan_repair(columns=physical_types).apply()
        _mapped_log(where, mode, adds)
        plan = gl.open(str(where)).plan_repair()
        if (plan.change.job is None) != (spark is None):
            continue
        plan.apply(spark=spark)
        yield Made(f"repair Delta mapped by {mode}", "delta", where, NESTED, in_files=False, repeated=REPEATED)


def _nested_files(rows: Rows, folder: Path) -> Made:
    layout = Layout(_schema(rows), row_group_rows=rows.group_rows)
    folder.mkdir()
    with ParquetWriter(Storage.at(str(folder)), "a.parquet", layout) as writer:
        for batch in _table(rows).to_batches():
            writer.write(batch)
    leaves = {"many": "many.list.element", "named": "named.key_value.value"}
    return Made("file writer of nested shapes", "files", folder, (*NESTED, *REPEATED), leaves=leaves)


def _partitioned(table: pa.Table, folder: Path) -> list[tuple[str, str | None]]:
    """Files in folders of their partition, as Hive names them; each with the value."""
    made = []
    for value in PARTITIONS:
        name = "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe="")
        path = folder / f"p={name}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        mask = pc.is_null(table["p"]) if value is None else pc.fill_null(pc.equal(table["p"], value), False)
        pq.write_table(table.filter(mask).drop_columns("p"), path, row_group_size=50)
        made.append((str(path.relative_to(folder)), value))
    return made


_NAMES = {
    path: f"col-{number}"
    for number, path in enumerate(
        ("id", "geom", "place", "place.at", "deep", "deep.in", "deep.in.at", "many", "named"), start=1
    )
}


def _numbered(table: pa.Table) -> pa.Table:
    """With the ids of the columns, by which alone a table that is mapped by id knows them."""

    def numbered(arrow_field: pa.Field) -> pa.Field:
        kind = arrow_field.type
        if pa.types.is_struct(kind):
            kind = pa.struct([numbered(kind.field(number)) for number in range(kind.num_fields)])
        number = (
            {"PARQUET:field_id": arrow_field.name.removeprefix("col-")} if arrow_field.name.startswith("col-") else None
        )
        return pa.field(arrow_field.name, kind, metadata=number)

    return table.cast(pa.schema([numbered(arrow_field) for arrow_field in table.schema]))


def _physical(path: str) -> list[str]:
    parts = path.split(".")
    return [_NAMES[".".join(parts[: depth + 1])] for depth in range(len(parts))]


def _mapped_log(folder: Path, mode: str, files: list[tuple[str, str | None]]) -> None:
    """A Delta log with column mapping over these files, which says of them how many rows they have."""
    geometry, geography = "geometry(OGC:CRS84)", "geography(OGC:CRS84, spherical)"

    def named(path: str, kind: Any) -> dict[str, Any]:
        number = 10 if path == "p" else int(_NAMES[path].removeprefix("col-"))
        mapped = {"id": number, "physicalName": _NAMES.get(path, path)}
        return field(
            path.rpartition(".")[2], kind, **{f"delta.columnMapping.{key}": value for key, value in mapped.items()}
        )

    def struct(path: str, inner: dict[str, Any]) -> dict[str, Any]:
        return named(path, {"type": "struct", "fields": [inner]})

    fields = [
        named("id", "long"),
        named("p", "string"),
        named("geom", geometry),
        struct("place", named("place.at", geometry)),
        struct("deep", struct("deep.in", named("deep.in.at", geography))),
        named("many", {"type": "array", "elementType": geometry, "containsNull": True}),
        named("named", {"type": "map", "keyType": "string", "valueType": geometry, "valueContainsNull": True}),
    ]
    properties = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "10"}
    adds = []
    for path, value in files:
        where = folder / path
        stats = {"numRecords": pq.read_metadata(where).num_rows}
        adds.append(add(quote(path), stats, partition={"p": value}, size=where.stat().st_size))
    LogMaker(folder).commit(
        0, protocol("columnMapping", "geospatial"), metadata(*fields, partitions=("p",), **properties), *adds
    )


# ---- with Spark


def with_spark_shaped(rows: Rows, folder: Path, spark: SparkSession) -> Iterator[Made]:
    """Rows in partitions, with shapes at all depths, that are converted, added under other names and rewritten."""
    packing = {"target_file_size": rows.file_size, "row_group_rows": rows.group_rows}
    yield from _mapped(rows, folder, spark)
    source = folder / "nested-source"
    _nested_files(rows, source)
    for form in ("delta", "iceberg"):
        target = folder / f"nested-{form}"
        gl.open(str(source)).plan_convert(str(target), format=form, partition_by=("p",), **packing).apply(spark=spark)
        yield Made(f"convert nested shapes to {form}", form, target, NESTED, repeated=REPEATED)
    leaves = {path: ".".join(_physical(path)) for path in ("id", *NESTED)}
    for mode in ("name", "id"):
        where = folder / f"added-{mode}"
        _mapped_log(where, mode, [])
        gl.write(_table(rows), where, mode="append", spark=spark, **packing)
        yield Made(f"append to Delta mapped by {mode}", "delta", where, NESTED, repeated=REPEATED, leaves=leaves)
    gl.open(str(where)).plan_rewrite(cluster_by="geom", **packing).apply(spark=spark)
    yield Made("rewrite Delta mapped by id", "delta", where, NESTED, repeated=REPEATED, leaves=leaves)
    some = _table(rows).drop_columns(list(REPEATED))
    types = {"geom": rows.types["geom"], "place.at": rows.types["geom"], "deep.in.at": rows.types["sphere"]}
    where = folder / "nested-parquet"
    gl.write(some, where, format="parquet", columns=types, partition_by="p", spark=spark, **packing)
    yield Made("write parquet in partitions", "parquet", where, NESTED)
    where, columns = folder / "nested-havasu", ("geom", "place.at")
    types = dict.fromkeys(columns, gl.geometry(encoding="ewkb"))
    some = some.drop_columns("deep")  # Havasu has no geographies
    gl.write(some, where, format="havasu", columns=types, partition_by="p", spark=spark, **packing)
    yield Made("write havasu in partitions", "havasu", where, columns)
