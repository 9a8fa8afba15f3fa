"""The rows of a Delta table as Delta Kernel reads them, by the JVM of the session: value by value, for small tables.

Kernel hands out geometries and geographies as their bytes.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_GETTERS = {
    "BinaryType": "getBinary",
    "BooleanType": "getBoolean",
    "ByteType": "getByte",
    "DateType": "getInt",
    "DecimalType": "getDecimal",
    "DoubleType": "getDouble",
    "FloatType": "getFloat",
    "GeographyType": "getBinary",
    "GeometryType": "getBinary",
    "IntegerType": "getInt",
    "LongType": "getLong",
    "ShortType": "getShort",
    "StringType": "getString",
    "TimestampNTZType": "getLong",
    "TimestampType": "getLong",
}


def kernel_rows(
    spark: SparkSession, path: str, columns: Sequence[str] | None = None, *, version: int | None = None
) -> list[tuple]:
    """The rows with these top-level columns, or all, in no order; structs are tuples, maps are dictionaries."""
    jvm: Any = spark._jvm
    kernel = jvm.io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(spark._jsc.hadoopConfiguration())
    table = kernel.Table.forPath(engine, str(path))
    snapshot = table.getLatestSnapshot(engine) if version is None else table.getSnapshotAsOfVersion(engine, version)
    schema = snapshot.getSchema()
    if columns is not None:
        wanted = kernel.types.StructType()
        for name in columns:
            wanted = wanted.add(schema.get(name))
        schema = wanted
    scan = snapshot.getScanBuilder().withReadSchema(schema).build()
    state = scan.getScanState(engine)
    physical = kernel.internal.data.ScanStateRow.getPhysicalDataReadSchema(state)
    single = kernel.internal.util.Utils.singletonCloseableIterator
    rows: list[tuple] = []
    for files in _each(scan.getScanFiles(engine)):
        for file in _each(files.getRows()):
            status = kernel.internal.InternalScanFileUtils.getAddFileStatus(file)
            read = engine.getParquetHandler().readParquetFiles(single(status), physical, jvm.java.util.Optional.empty())
            for result in _each(read):
                batches = kernel.Scan.transformPhysicalData(engine, state, file, single(result.getData()))
                for batch in _each(batches):
                    rows += [_row(row) for row in _each(batch.getRows())]
    return rows


def kernel_schema(spark: SparkSession, path: str) -> str:
    """The schema as Kernel prints it, collations included."""
    jvm: Any = spark._jvm
    engine = jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(spark._jsc.hadoopConfiguration())
    return str(jvm.io.delta.kernel.Table.forPath(engine, str(path)).getLatestSnapshot(engine).getSchema().toString())


def _each(iterator: Any) -> Iterator[Any]:
    try:
        while iterator.hasNext():
            yield iterator.next()
    finally:
        iterator.close()


def _row(row: Any) -> tuple:
    fields = row.getSchema().fields()
    return tuple([_value(row, index, field.getDataType()) for index, field in enumerate(fields)])


def _value(holder: Any, index: int, type_: Any) -> Any:
    """The value at a place of a row or of a vector."""
    if holder.isNullAt(index):
        return None
    kind = type_.getClass().getSimpleName()
    if kind == "StructType":
        if not _is_vector(holder):
            return _row(holder.getStruct(index))
        fields = type_.fields()
        return tuple(
            [_value(holder.getChild(number), index, field.getDataType()) for number, field in enumerate(fields)]
        )
    if kind == "ArrayType":
        array = holder.getArray(index)
        return _values(array.getElements(), array.getSize(), type_.getElementType())
    if kind == "MapType":
        map_ = holder.getMap(index)
        keys = _values(map_.getKeys(), map_.getSize(), type_.getKeyType())
        return dict(zip(keys, _values(map_.getValues(), map_.getSize(), type_.getValueType()), strict=True))
    value = getattr(holder, _GETTERS[kind])(index)
    if kind == "DateType":
        return dt.date(1970, 1, 1) + dt.timedelta(days=value)
    if kind.startswith("Timestamp"):
        time = _EPOCH + dt.timedelta(microseconds=value)
        return time.replace(tzinfo=None) if kind == "TimestampNTZType" else time
    return bytes(value) if kind in ("BinaryType", "GeographyType", "GeometryType") else value


def _values(vector: Any, count: int, type_: Any) -> list:
    return [_value(vector, index, type_) for index in range(count)]


def _is_vector(holder: Any) -> bool:
    """Whether this is a column of values, and not a row."""
    cls = holder.getClass()
    while cls is not None:
        if any(interface.getSimpleName() == "ColumnVector" for interface in cls.getInterfaces()):
            return True
        cls = cls.getSuperclass()
    return False
