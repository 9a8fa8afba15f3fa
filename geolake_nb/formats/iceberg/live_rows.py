"""The live rows of Iceberg data files: columns by field id, deleted rows left out, all or a sample."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.changes.sampling import SAMPLE_ROWS, ThinnedRows, chosen_parts, sample_of, some_rows
from geolake_nb.errors import CorruptTableError, SchemaError
from geolake_nb.formats.iceberg.bounds import arrow_type
from geolake_nb.formats.iceberg.deleted_rows import data_file_rows, equal_rows
from geolake_nb.formats.iceberg.schema import FIELD_ID, name_mapping, with_field_ids
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.types import (
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.parquet.file_columns import FileColumns
from geolake_nb.parquet.footer import read_metadata
from geolake_nb.parquet.opening import open_parquet_file, read_column, value_batches
from geolake_nb.raster_data.arrow import RASTER_V1, as_group
from geolake_nb.scan.deletion_vector import read_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.changes.write_job import IcebergRows
    from geolake_nb.formats.iceberg.deleted_rows import DataFileRows, DeleteFile
    from geolake_nb.formats.iceberg.schema import NameMapping
    from geolake_nb.model.types import DataType
    from geolake_nb.scan.deletion_vector import DeletionVector
    from geolake_nb.storage.storage import Storage

__all__ = [
    "LAST_UPDATED",
    "PARTITION",
    "ROW_ID",
    "DeleteReader",
    "RowReader",
    "carried_schema",
    "carried_type",
    "default_value",
    "sample_iceberg",
    "size_iceberg",
]

# Iceberg 3, Reserved Field IDs: the columns that a row keeps when it is rewritten to another file.
ROW_ID = Field("_row_id", PrimitiveType("int64"), id=2147483540)
LAST_UPDATED = Field("_last_updated_sequence_number", PrimitiveType("int64"), id=2147483539)
PARTITION = Field("__geolake_partition", PrimitiveType("int64"))
"""A virtual column: a number given for each file."""

_FILE_PATH, _POS = 2147483546, 2147483545
_BATCH_BYTES = 1 << 24
_MAX_BATCH_ROWS = 16_384
# Types that Spark does not support, with the types that carry their values through it.
_CARRIERS = {
    "float16": "float32",
    "time": "int64",
    "time_ms": "int32",
    "time_ns": "int64",
    "timestamp_ms": "timestamp",
    "timestamp_ns": "int64",
    "timestamptz_ms": "timestamptz",
    "timestamptz_ns": "int64",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
    "uint8": "int16",
    "uuid": "binary",
}


def carried_schema(schema: Schema) -> Schema:
    """The same columns with types that Spark supports: geometries as stored, rasters as Havasu's struct.

    >>> print(carried_schema(Schema(StructType((Field("t", PrimitiveType("time")), Field("g", GeometryType()))))))
    t: int64
    g: binary
    """
    return Schema(StructType(tuple([_carried_field(field) for field in schema.fields])))


class RowReader:
    """Reads files of one table; lives as long as a task, and caches delete files."""

    def __init__(self, storage: Storage, schema: Schema, names: NameMapping | None = None) -> None:
        """`schema` has the wanted columns; files without field ids are read by `names`, or refused."""
        self._storage = storage
        self._fields = schema.fields
        self._carried = FileColumns.of(carried_schema(schema))
        self._names = names
        self._deletes = DeleteReader(storage)

    def read(
        self,
        file: DataFileRows,
        *,
        part: int = 0,
        parts: int = 1,
        groups: Sequence[int] | None = None,
        partition: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """The live rows of a file or of one of `parts` equal runs of row groups, with the columns of the schema.

        `partition` is the value of the column `PARTITION`, where the schema has that.
        """
        with open_parquet_file(
            self._storage,
            file.key,
            pre_buffer=not self._storage.is_local,
        ) as opened:
            count = opened.metadata.num_row_groups
            wanted = list(range(part * count // parts, (part + 1) * count // parts)) if groups is None else list(groups)
            where = f"{self._storage.location}/{file.key}"
            columns = _Columns(opened.schema_arrow, self._names, file.constants, where=where)
            for positions, batch in self._live(opened, file, columns, wanted):
                try:
                    yield self._fitted(batch, columns, file, positions, partition)
                except SchemaError as problem:
                    there = where if problem.where is None else f"{where}, column {problem.where}"
                    raise SchemaError(problem.what, where=there, remedy=problem.remedy) from problem

    def _live(
        self, opened: pq.ParquetFile, file: DataFileRows, columns: _Columns, groups: Sequence[int]
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The rows that no delete file deletes, with their positions in the file."""
        starts = np.cumsum(
            [0, *(opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups))]
        )
        vectors, deleted = self._deletes.vectors(file, int(starts[-1])), self._deletes.positions(file)
        equality = [
            (self._deletes.equality_table(delete), delete) for delete in file.deletes if delete.kind == "equality"
        ]
        needed = {id_ for _, delete in equality for id_ in delete.equality_ids}
        names = columns.names([*self._fields, *(Field("", StringType(), id=id_) for id_ in sorted(needed))])
        size = max(1, min(_MAX_BATCH_ROWS, file.rows * _BATCH_BYTES // max(1, file.bytes)))
        for group in groups:
            row = int(starts[group])
            # A file may have none of the columns but still have rows: its first column gives the count.
            read = names or opened.schema_arrow.names[:1]
            for batch in value_batches(opened, read, rows=size, groups=[group]):
                positions = np.arange(row, row + len(batch))
                keep = np.ones(len(batch), np.bool_)
                first, end = np.searchsorted(deleted, [row, row + len(batch)])
                for removed in (deleted[first:end], *(vector.between(row, row + len(batch)) for vector in vectors)):
                    keep[removed - row] = False
                row += len(batch)
                for table, delete in equality:
                    leaves = [
                        columns.leaf(batch, id_, delete.equality_fields.get(id_), table.column(index).type)
                        for index, id_ in enumerate(delete.equality_ids)
                    ]
                    keep &= ~equal_rows(leaves, table)
                if keep.all():
                    yield positions, batch
                elif keep.any():
                    yield positions[keep], batch.filter(pa.array(keep))

    def _fitted(
        self, batch: pa.RecordBatch, columns: _Columns, file: DataFileRows, positions: NDArray[np.int64], partition: int
    ) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        for field, kind in zip(self._fields, self._carried.arrow.types, strict=True):
            if field.name == PARTITION.name and field.id is None:
                arrays.append(pa.repeat(pa.scalar(partition, kind), len(positions)))
                continue
            array = columns.find(batch, field, kind, len(positions))
            if field.id == ROW_ID.id and file.first_row_id is not None:
                array = pc.coalesce(array, pa.array(positions + file.first_row_id, kind))
            if field.id == LAST_UPDATED.id:
                array = pc.coalesce(array, pa.scalar(file.sequence_number, kind))
            arrays.append(array)
        return self._carried.fit(pa.RecordBatch.from_arrays(arrays, [column.name for column in self._fields]))


class DeleteReader:
    """Reads the delete files of one table, and caches those that apply to many data files."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._positions: dict[str, pa.Table] = {}
        self._equality: dict[str, pa.Table] = {}

    def vectors(self, file: DataFileRows, rows: int) -> list[DeletionVector]:
        """The deletion vectors of a file of that many rows."""
        wanted = [delete for delete in file.deletes if delete.kind == "deletion-vector"]
        blobs = ((delete, self._storage.read_range(delete.key, delete.offset, delete.length)) for delete in wanted)
        return [read_vector(blob, rows=rows, where=f"{self._storage.location}/{delete.key}") for delete, blob in blobs]

    def positions(self, file: DataFileRows) -> NDArray[np.int64]:
        """The positions of rows that position deletes delete, sorted."""
        positions = [np.zeros(0, np.int64)]
        for delete in file.deletes:
            if delete.kind == "position":
                table = self._position_table(delete)
                mine = pc.equal(table.column(0), pa.scalar(file.path, table.column(0).type))
                positions.append(table.column(1).filter(mine).drop_null().cast(pa.int64()).to_numpy())
        return np.sort(np.concatenate(positions))

    def _position_table(self, delete: DeleteFile) -> pa.Table:
        if delete.key not in self._positions:
            self._positions[delete.key] = self._delete_columns(delete, (_FILE_PATH, _POS))
        return self._positions[delete.key]

    def equality_table(self, delete: DeleteFile) -> pa.Table:
        """The values of the rows that an equality delete file deletes, by column."""
        if delete.key not in self._equality:
            self._equality[delete.key] = self._delete_columns(delete, delete.equality_ids)
        return self._equality[delete.key]

    def _delete_columns(self, delete: DeleteFile, ids: tuple[int, ...]) -> pa.Table:
        where = f"{self._storage.location}/{delete.key}"
        with open_parquet_file(self._storage, delete.key) as file:
            columns = _Columns(file.schema_arrow, None, {}, where=where)
            paths = [columns.path(id_) for id_ in ids]
            if not ids or None in paths:
                raise CorruptTableError("the delete file lacks the columns that identify the deleted rows", where=where)
            table = read_column(file, [".".join(path) for path in paths if path])
            arrays = [_leaf(table, path) for path in paths if path]
        fields = [pa.field(str(id_), array.type) for id_, array in zip(ids, arrays, strict=True)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


class _Columns:
    """The columns of a file by the ids of their fields."""

    def __init__(
        self, schema: pa.Schema, names: NameMapping | None, constants: Mapping[int, pa.Scalar], *, where: str
    ) -> None:
        self._constants = constants
        self._paths = dict(_walk(schema))
        if not self._paths:
            if names is None:
                raise SchemaError(
                    "the file has no field ids, and the columns of the table may have had other names",
                    where=where,
                    remedy="set the property schema.name-mapping.default",
                )
            schema = with_field_ids(schema, names)
            self._paths = dict(_walk(schema))
        self._schema = schema

    def path(self, id_: int) -> tuple[str, ...] | None:
        return self._paths.get(id_)

    def names(self, fields: Sequence[Field]) -> list[str]:
        """The distinct names in the file of these top-level fields."""
        tops = [self._top(field) for field in fields]
        return list(dict.fromkeys(name for name in tops if name is not None))

    def _top(self, field: Field) -> str | None:
        path = None if field.id is None else self._paths.get(field.id)
        return None if path is None else path[0]

    def find(self, batch: pa.RecordBatch, field: Field, kind: pa.DataType, rows: int) -> pa.Array:
        """A top-level column in the form of the table."""
        name = self._top(field)
        path = self._paths.get(field.id) if field.id is not None else None
        if name is None or (path is not None and len(path) > 1):
            return self._missing(field, kind, rows)
        index = batch.schema.get_field_index(name)
        return self._shaped(batch.column(index), self._schema.field(name), field.type, kind)

    def leaf(self, batch: pa.RecordBatch, id_: int, field: Field | None, kind: pa.DataType) -> pa.Array:
        """The values of a column with one value per row, nested or not; of type `kind` if its field is unknown."""
        path = self._paths.get(id_)
        if path is not None:
            return _leaf(batch, path)
        if field is None:
            return pa.nulls(len(batch), kind)
        return self._missing(field, arrow_type(field.type) or kind, len(batch))

    def _missing(self, field: Field, kind: pa.DataType, rows: int) -> pa.Array:
        """The constant value of a column that the file lacks."""
        # Iceberg, Column Projection: the value of an identity partition takes precedence over the default.
        constant = None if field.id is None else self._constants.get(field.id)
        if constant is None:
            return _absent(field, kind, rows)
        return _carried_values(pa.repeat(constant, rows), kind).cast(kind)

    def _shaped(self, array: pa.Array, here: pa.Field, type_: DataType, kind: pa.DataType) -> pa.Array:
        """The values with the fields of the table, in its order and with its names."""
        if isinstance(type_, RasterType):
            return as_group(array, kind)
        if isinstance(type_, StructType):
            return self._struct(array, here, type_, kind)
        if isinstance(type_, ListType):
            inner = here.type.value_field
            values = self._shaped(array.values, inner, type_.element.type, kind.value_field.type)
            made = pa.list_(pa.field("element", values.type))
            return pa.Array.from_buffers(made, len(array), array.buffers()[:2], -1, array.offset, [values])
        if isinstance(type_, MapType):
            keys = self._shaped(array.keys, here.type.key_field, type_.key.type, kind.key_type)
            items = self._shaped(array.items, here.type.item_field, type_.value.type, kind.item_type)
            made = pa.map_(keys.type, items.type)
            entries = pa.StructArray.from_arrays([keys, items], fields=[made.key_field, made.item_field])
            return pa.Array.from_buffers(made, len(array), array.buffers()[:2], -1, array.offset, [entries])
        return _carried_values(array, kind)

    def _struct(self, array: pa.Array, here: pa.Field, type_: StructType, kind: pa.DataType) -> pa.Array:
        inside = [here.type.field(index) for index in range(here.type.num_fields)]
        children: list[pa.Array] = []
        for index, field in enumerate(type_.fields):
            wanted = kind.field(index).type
            position = next((number for number, stored in enumerate(inside) if _id_of(stored) == field.id), None)
            if position is None:
                children.append(self._missing(field, wanted, len(array)))
            else:
                children.append(self._shaped(array.field(position), inside[position], field.type, wanted))
        fields = [pa.field(column.name, child.type) for column, child in zip(type_.fields, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _walk(schema: pa.Schema) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The ids and paths of all columns, including those nested in structs, lists and maps."""
    stack: list[tuple[tuple[str, ...], pa.Field]] = [((field_.name,), field_) for field_ in schema]
    while stack:
        path, field = stack.pop()
        id_ = _id_of(field)
        if id_ is not None:
            yield id_, path
        if pa.types.is_struct(field.type):
            inside = [field.type.field(index) for index in range(field.type.num_fields)]
            stack += [((*path, child.name), child) for child in inside]


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def _leaf(table: pa.Table | pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    column = table.column(table.schema.get_field_index(path[0]))
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    for name in path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def _absent(field: Field, kind: pa.DataType, rows: int) -> pa.Array:
    """The values of a column that the file lacks."""
    default = field.metadata.get("initial-default")
    if default is None:
        return pa.nulls(rows, kind)
    return pa.repeat(default_value(default, field.type, kind), rows)


def default_value(value: Any, type_: DataType, kind: pa.DataType) -> pa.Scalar:
    """An `initial-default` of a column as a scalar of an Arrow type."""
    # Iceberg, JSON single-value serialization: numbers are numbers, bytes hexadecimal, times ISO strings.
    if isinstance(value, str) and pa.types.is_binary(kind):
        text = value.replace("-", "") if type_ == PrimitiveType("uuid") else value
        return pa.scalar(bytes.fromhex(text), kind)
    if isinstance(type_, PrimitiveType) and isinstance(value, str) and not pa.types.is_string(kind):
        from geolake_nb.parquet.column_ranges import arrow_type_of

        default_type = arrow_type_of(type_)
        if default_type is not None:
            return pa.scalar(value).cast(default_type).cast(kind)
    if isinstance(value, dict | list):
        raise SchemaError("a default of a nested type is not supported", where="initial-default")
    return pa.scalar(value, kind)


def _carried_values(array: pa.Array, kind: pa.DataType) -> pa.Array:
    source = array.type
    if pa.types.is_int64(kind) and (pa.types.is_time(source) or pa.types.is_timestamp(source)):
        unit = pa.time64("us") if pa.types.is_time(source) else pa.timestamp("ns", source.tz)
        return array.cast(unit).cast(pa.int64())
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(source) and kind.tz is not None and source.tz is None:
        return array.cast(pa.timestamp(source.unit, kind.tz))  # INT96 are instants
    promoted = (pa.types.is_float64(kind) and pa.types.is_float32(source)) or (
        # Iceberg, Schema Evolution: dates may have become timestamps.
        pa.types.is_timestamp(kind) and pa.types.is_date(source)
    )
    return array.cast(kind) if promoted else array


def _carried_field(field: Field) -> Field:
    return Field(field.name, carried_type(field.type))


def carried_type(type_: DataType) -> DataType:
    """The type that carries values through Spark.

    >>> carried_type(GeometryType(encoding=GeometryEncoding.WKT))
    StringType(collation=None)
    """
    if isinstance(type_, GeometryType | GeographyType):
        texts = (GeometryEncoding.WKT, GeometryEncoding.GEOJSON)
        return StringType() if type_.encoding in texts else PrimitiveType("binary")
    if isinstance(type_, RasterType):
        return _group_type(RASTER_V1)
    if isinstance(type_, StringType):
        return StringType()
    if isinstance(type_, StructType):
        return StructType(tuple([_carried_field(field) for field in type_.fields]))
    if isinstance(type_, ListType):
        return ListType(_carried_field(type_.element))
    if isinstance(type_, MapType):
        return MapType(replace(_carried_field(type_.key), nullable=False), _carried_field(type_.value))
    if type_.name.startswith("fixed("):
        return PrimitiveType("binary")
    return PrimitiveType(_CARRIERS.get(type_.name, type_.name))


_GROUP_NAMES: Mapping[pa.DataType, str] = {
    pa.binary(): "binary",
    pa.float64(): "float64",
    pa.int32(): "int32",
}


def _group_type(kind: pa.DataType) -> DataType:
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return StructType(tuple([Field(child.name, _group_type(child.type)) for child in fields]))
    if pa.types.is_list(kind):
        return ListType(Field("element", _group_type(kind.value_type)))
    return StringType() if pa.types.is_string(kind) else PrimitiveType(_GROUP_NAMES[kind])


_SAMPLED_PARTS = 200


def sample_iceberg(
    storage: Storage,
    rows: IcebergRows,
    schema: Schema,
    columns: Sequence[str],
    partition_by: Sequence[str],
    *,
    fit: tuple[Callable[[pa.RecordBatch], pa.RecordBatch], pa.Schema] | None = None,
) -> Sample:
    """About 100,000 rows of these columns, from row groups spread over the files, read in this process.

    `fit` turns them into those of another table, whose schema comes with it.
    """
    tops = dict.fromkeys([*(split_path(column)[0] for column in columns), *partition_by])
    narrow = Schema(StructType(tuple([field for field in schema.fields if field.name in tops])))
    files = data_file_rows(rows.snapshot, rows.files)
    chosen = chosen_parts(np.array([file.bytes for file in files], np.int64), _SAMPLED_PARTS)
    total = max(1, sum(files[index].rows for index, _ in chosen))
    counts = [footer.num_row_groups for footer in read_metadata(storage, [files[index].key for index, _ in chosen])]
    reader = RowReader(storage, narrow, name_mapping(rows.snapshot))
    draw = np.random.default_rng(0)
    kept = ThinnedRows()
    for (index, wanted), count in zip(chosen, counts, strict=True):
        share = SAMPLE_ROWS * files[index].rows / total
        some = np.sort(draw.permutation(count)[:wanted]).tolist()
        there = max(1, files[index].rows * len(some) // max(1, count))
        partition = 0 if rows.partitions is None else rows.partitions[index]
        for batch in reader.read(files[index], groups=some, partition=partition):
            if fit is not None:
                batch = fit[0](batch)  # noqa: PLW2901
            kept.add(batch.take(pa.array(some_rows(len(batch), share * len(batch) / there, draw))))
    arrow = FileColumns.of(carried_schema(narrow)).arrow if fit is None else fit[1]
    return sample_of(pa.Table.from_batches(kept.batches, arrow), columns, partition_by)


def size_iceberg(rows: IcebergRows) -> dict[Partition, int]:
    """About how many bytes each partition takes, by the numbers of `rows.partitions`."""
    files = data_file_rows(rows.snapshot, rows.files)
    if rows.partitions is None:
        return {(): sum(file.bytes for file in files)}
    sizes: dict[Partition, int] = {}
    for file, partition in zip(files, rows.partitions, strict=True):
        sizes[(str(partition),)] = sizes.get((str(partition),), 0) + file.bytes
    return sizes
