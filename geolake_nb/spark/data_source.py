"""`spark.read.format("geolake")`: tables of all formats in Spark, which skip files and row groups by their bounds.

It is a data source in Python: it needs no JVM classes, and runs on a cluster and over Spark Connect.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import json
import os
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from geolake_nb.errors import GeolakeError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.filter_input import read_filter
from geolake_nb.expressions.predicate import And, Comparison, In, IsNotNull, IsNull, Predicate, st_intersects
from geolake_nb.formats.base import VersionChoice
from geolake_nb.formats.open_source import source_at
from geolake_nb.formats.registry import FORMATS
from geolake_nb.geo.bounds import row_boxes
from geolake_nb.model.box import Box
from geolake_nb.model.crs import CRS84, Crs, CrsForm
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryType
from geolake_nb.scan.scan_rows import GroupReader, RowScan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType as SparkStruct

    from geolake_nb.formats.base import Format, TableSource
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.scan.data_file import DataFile
    from geolake_nb.storage.storage import Storage

__all__ = ["register"]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_PART_BYTES = 1 << 27
_WGS84 = 4326
_OPTIONS = {
    "path": "where the table is",
    "version": "the version of a Delta table",
    "snapshot_id": "the snapshot of an Iceberg or Havasu table",
    "timestamp": "the version at a time, as ISO 8601",
    "ref": "a branch or a tag",
    "columns": "the columns to read, as a JSON list or separated by commas",
    "where": "a filter that is tested on every row: SQL, WKT, or JSON",
    "box_crs": "the CRS of an area in `where` that has none of its own",
    "bbox": "false leaves the columns <geo>_bbox out",
    "geometry": "native (Spark's types where Spark has them) or wkb",
    "partition_bytes": "about how many bytes one task reads",
}


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Make `spark.read.format("geolake")` known to a session, classic or Connect.

    Args:
        spark: the session.
        pushdown: whether conditions of Spark on plain columns and on `<geo>_bbox` skip files and row groups. Spark 4
            keeps what it planned for one query on a DataFrame for the next ones on the same DataFrame, which then
            miss rows: load a new DataFrame for each query. The option `where` of a read has no such limit.

    Example:
        >>> gl.spark_source.GeolakeDataSource.name()
        'geolake'
    """
    if pushdown:
        spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(PushingDataSource if pushdown else GeolakeDataSource)


def reader_options(
    source: TableSource, version: int | None, columns: Sequence[str], where: Predicate | None
) -> dict[str, str]:
    """The options of a read that gives these rows of an open table."""
    path = source.location
    if source.catalog is not None and source.metadata is not None:
        # The catalog may be one of the driver alone.
        path = f"{source.storage.location}/{source.metadata}"
    elif source.storage.is_local and os.path.exists(path):
        path = os.path.abspath(path)
    options = {"path": path, "columns": json.dumps(list(columns)), "bbox": "false"}
    if version is not None:
        options["version" if source.format.counts_versions else "snapshot_id"] = str(version)
    if where is not None:
        options["where"] = where.to_json()
    return options | {f"storage.{name}": value for name, value in source.options.items()}


class GeolakeDataSource(ds.DataSource):
    """Tables of Delta, Iceberg, Havasu and Parquet files.

    Each geo column `geom` has a column `geom_bbox` beside it, a struct of xmin, ymin, xmax and ymax. The option `where`
    skips files and row groups, and is tested on every row.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "geolake"

    def schema(self) -> SparkStruct:
        """The columns of the table, and a box for each geo column."""
        return from_arrow_schema(_Request(dict(self.options)).result.schema)

    def reader(self, schema: SparkStruct) -> ds.DataSourceReader:
        """A reader of the rows."""
        return _Reader(dict(self.options))


class PushingDataSource(GeolakeDataSource):
    """The same for sessions that load a DataFrame for each query: its conditions skip files and row groups."""

    def reader(self, schema: SparkStruct) -> ds.DataSourceReader:
        """A reader of the rows, which skips by the conditions of the query."""
        return _PushingReader(dict(self.options))


@dataclass(frozen=True, slots=True, eq=False)
class _Part(ds.InputPartition):
    """The row groups that one task reads."""

    reader: GroupReader
    files: tuple[tuple[DataFile, tuple[int, ...]], ...]


class _Request:
    """A table and what is wanted of it, from the options of a read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        settings = {name.lower(): value for name, value in options.items()}
        storage_options = {name[8:]: value for name, value in settings.items() if name.startswith("storage.")}
        unknown = sorted(name for name in settings if name not in _OPTIONS and not name.startswith("storage."))
        if unknown:
            raise GeolakeError(
                f"unknown option {unknown[0]!r} of the format geolake",
                remedy=f"use one of: {', '.join(_OPTIONS)}, storage.<option>",
            )
        if "path" not in settings:
            raise GeolakeError("no table is named", remedy='use spark.read.format("geolake").load(PATH)')
        source = source_at(settings["path"], storage_options)
        self.snapshot: Snapshot = source.snapshot(_version(settings))
        # Iceberg's detection finds Havasu too.
        self.format: Format = FORMATS[self.snapshot.format.name]
        self.storage: Storage = self.format.storage_of(source, self.snapshot)
        self.part_bytes = _bytes(settings.get("partition_bytes"))
        self.fields = _chosen(self.snapshot, settings.get("columns"))
        self.predicate: Predicate | None = None
        if settings.get("where"):
            query = read_filter(settings["where"], self.snapshot.schema, box_crs=settings.get("box_crs"))
            self.predicate = bind(query, self.snapshot.schema)
        native = settings.get("geometry", "native")
        if native not in ("native", "wkb"):
            raise GeolakeError(f"unknown geometry {native!r}", remedy="use native or wkb")
        boxes = settings.get("bbox", "true").lower() != "false"
        self.result = _Result.of(self.fields, boxes=boxes, native=native == "native")

    def scan(self, hint: Predicate | None) -> RowScan:
        """The scan of the table, with a filter that Spark tests itself."""
        source = self.format.row_source(self.storage, self.snapshot)
        return RowScan(self.storage, self.snapshot, source, self.fields, self.predicate, hint=hint)


class _Reader(ds.DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._request: _Request | None = _Request(options)
        self._result = self._request.result
        self._hint: Predicate | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get all that they need with their partition.
        return {**self.__dict__, "_request": None}

    def partitions(self) -> Sequence[ds.InputPartition]:
        """The row groups to read, cut by bytes."""
        request = self._request
        assert request is not None
        scan = request.scan(self._hint)
        parts: list[list[tuple[DataFile, list[int]]]] = []
        room = 0
        for task in scan.tasks():
            group = task.footer.row_group(task.group)
            size = sum(group.column(index).total_compressed_size for index in range(group.num_columns))
            if not parts or room < size:
                parts.append([])
                room = request.part_bytes
            room -= size
            if parts[-1] and parts[-1][-1][0] is task.file:
                parts[-1][-1][1].append(task.group)
            else:
                parts[-1].append((task.file, [task.group]))
        made = [_Part(scan.reader, tuple((file, tuple(groups)) for file, groups in part)) for part in parts]
        return made or [_Part(scan.reader, ())]

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups."""
        assert isinstance(partition, _Part)
        for file, groups in partition.files:
            for batch in partition.reader.read(file, groups):
                yield self._result.batch(batch)


class _PushingReader(_Reader):
    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:  # noqa: N802
        """Note what skips files and row groups; Spark tests every filter itself."""
        assert self._request is not None
        hints = list(_hints(filters, self._request.snapshot, self._result))
        self._hint = And(tuple(hints)) if len(hints) > 1 else (hints[0] if hints else None)
        return filters


@dataclass(frozen=True, slots=True, eq=False)
class _Result:
    """How the rows of a table become rows of Spark."""

    fields: tuple[Field, ...]
    boxes: tuple[str, ...]
    """The geo columns with a column of boxes."""
    schema: pa.Schema
    """As Spark expects it to the letter."""

    @classmethod
    def of(cls, fields: Sequence[Field], *, boxes: bool, native: bool) -> _Result:
        from geolake_nb.scan.result_schema import ResultTypes

        types = ResultTypes()
        columns: list[pa.Field] = []
        geo: list[str] = []
        names = {field.name for field in fields}
        for field in fields:
            kind = types.kind(field.type, (field.name,))
            spark = _native(field.type) if native else None
            columns.append(pa.field(field.name, spark or _carrier(kind)))
            if boxes and isinstance(field.type, GeometryType | GeographyType) and _box_name(field.name) not in names:
                geo.append(field.name)
                columns.append(pa.field(_box_name(field.name), _BOX))
        # The same with the nullability and the names that Spark gives.
        return cls(tuple(fields), tuple(geo), _as_spark_expects(pa.schema(columns)))

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for Spark."""
        arrays: list[pa.Array] = []
        position = 0
        for field, array in zip(self.fields, rows.columns, strict=True):
            kind = self.schema.field(position).type
            position += 1
            arrays.append(_native_values(array, kind) if _is_native(kind) else _carried(array, kind))
            if field.name in self.boxes:
                arrays.append(_box_values(array, field.type, self.schema.field(position).type))
                position += 1
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _as_spark_expects(schema: pa.Schema) -> pa.Schema:
    # Spark 4.2 wants a zone for its timestamps, earlier ones take none.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(from_arrow_schema(schema), **zone)


_BOX = pa.struct([pa.field(side, pa.float64()) for side in _SIDES])


def _box_name(column: str) -> str:
    return f"{column}_bbox"


def _native(type_: DataType) -> pa.DataType | None:
    """Spark's own type of a geo column, as Arrow passes it; `None` where Spark has none."""
    if isinstance(type_, GeometryType):
        mark, known = b"geometry", True
    elif isinstance(type_, GeographyType):
        mark, known = b"geography", type_.algorithm is EdgeAlgorithm.SPHERICAL
    else:
        return None
    srid = _srid(type_)
    if srid is None or not known:
        return None
    wkb = pa.field("wkb", pa.binary(), nullable=False, metadata={mark: b"true", b"srid": str(srid).encode()})
    return pa.struct([pa.field("srid", pa.int32(), nullable=False), wkb])


def _srid(type_: GeometryType | GeographyType) -> int | None:
    try:
        from pyspark.sql.types import GeographyType as SparkGeography
        from pyspark.sql.types import GeometryType as SparkGeometry
    except ImportError:  # Spark before 4.1
        return None
    kind = SparkGeometry if isinstance(type_, GeometryType) else SparkGeography
    code = _registered(type_.crs)
    srid = 0 if type_.crs.is_unknown else int(code[5:]) if code and code.startswith("EPSG:") else None
    if srid is None:
        return None
    try:
        kind(srid)
    except Exception:  # noqa: BLE001 - Spark has no type for most systems, and its error class moves
        return None
    return srid


@functools.lru_cache(maxsize=256)
def _registered(crs: Crs) -> str | None:
    """The code of a CRS: the one that its text names, or that of an equal CRS in its PROJJSON."""
    if crs.same_as(CRS84):
        return f"EPSG:{_WGS84}"
    if crs.form is not CrsForm.PROJJSON:
        return crs.code
    stated = crs.to_projjson().get("id")
    if not isinstance(stated, dict):
        return None
    code = f"{stated.get('authority')}:{stated.get('code')}"
    return code if Crs(code).same_as(crs) else None


def _is_native(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and [field.name for field in kind] == ["srid", "wkb"]


def _native_values(array: pa.Array, kind: pa.StructType) -> pa.Array:
    srid = int(kind.field("wkb").metadata[b"srid"])
    filled = pc.fill_null(array, b"") if array.null_count else array
    srids = pa.array(np.full(len(array), srid, np.int32))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([srids, filled], fields=list(kind), mask=mask)


def marked_shapes(rows: pa.Table) -> pa.Table:
    """The rows of Spark with geometries and geographies as WKB, marked as `geoarrow.wkb` with the CRS of their SRID."""
    from geolake_nb.scan.result_schema import geoarrow_metadata

    for index, field in enumerate(rows.schema):
        if not _is_native(field.type):
            continue
        srids, wkb = (pa.chunked_array(chunks) for chunks in _parts(rows.column(index)))
        metadata = field.type.field("wkb").metadata or {}
        stored = srids.drop_null().unique().to_pylist()
        srid = stored[0] if len(stored) == 1 else max(0, int(metadata.get(b"srid", 0)))
        is_geography = b"geography" in metadata
        crs = CRS84 if is_geography or srid == _WGS84 else Crs(f"SRID:{srid}")
        type_ = GeographyType(crs) if is_geography else GeometryType(crs)
        rows = rows.set_column(index, pa.field(field.name, pa.binary(), metadata=geoarrow_metadata(type_)), wkb)
    return rows


def _parts(column: pa.ChunkedArray) -> tuple[list[pa.Array], list[pa.Array]]:
    flat = [chunk.flatten() for chunk in column.chunks] or [pa.nulls(0, column.type).flatten()]
    return [srids for srids, _ in flat], [wkb.cast(pa.binary()) for _, wkb in flat]


def _box_values(array: pa.Array, type_: DataType, kind: pa.DataType) -> pa.Array:
    assert isinstance(type_, GeometryType | GeographyType)
    boxes = row_boxes(array, type=type_).storage
    sides = [boxes.field(side).to_numpy(zero_copy_only=False).copy() for side in _SIDES]
    wraps = sides[0] > sides[2]
    sides[0][wraps], sides[2][wraps] = -180.0, 180.0
    mask = boxes.is_null() if boxes.null_count else None
    return pa.StructArray.from_arrays([pa.array(side) for side in sides], fields=list(kind), mask=mask)


def _carrier(kind: pa.DataType) -> pa.DataType:
    """The type in Spark that carries the values of an Arrow type."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_carrier(field.type)).remove_metadata() for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_carrier(kind.key_type), _carrier(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_carrier(kind.value_type))
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        # Spark has microseconds; nanoseconds are kept as a number.
        return pa.int64() if kind.unit == "ns" else pa.timestamp("us", kind.tz)
    if pa.types.is_time(kind):
        return pa.int64() if kind.bit_width == 64 else pa.int32()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_decimal256(kind):
        return pa.string()
    plain = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
    }
    return plain.get(kind, kind)


def _carried(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as the type of Spark's column."""
    source = array.type
    if source == kind:
        return array
    if pa.types.is_struct(kind):
        children = [_carried(array.field(index), field.type) for index, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        keys, items = _carried(array.keys, kind.key_type), _carried(array.items, kind.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], -1, array.offset, [entries])
    if pa.types.is_list(kind):
        values = _carried(array.values, kind.value_type)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], -1, array.offset, [values])
    return array.cast(kind)


def _chosen(snapshot: Snapshot, text: str | None) -> tuple[Field, ...]:
    fields = snapshot.schema.fields
    if not text:
        return fields
    names = json.loads(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
    by_name = {field.name: field for field in fields}
    return tuple(by_name.get(name) or snapshot.schema.find(name) for name in names)


def _version(settings: Mapping[str, str]) -> VersionChoice:
    timestamp = settings.get("timestamp")
    try:
        when = None if timestamp is None else dt.datetime.fromisoformat(timestamp)
        version, snapshot_id = (
            None if settings.get(name) is None else int(settings[name]) for name in ("version", "snapshot_id")
        )
    except ValueError as problem:
        raise GeolakeError(
            f"a version cannot be read: {problem}", remedy="give a number, or a time as ISO 8601"
        ) from None
    if when is not None and when.tzinfo is None:
        when = when.replace(tzinfo=dt.UTC)
    return VersionChoice(version=version, timestamp=when, snapshot_id=snapshot_id, ref=settings.get("ref"))


def _bytes(text: str | None) -> int:
    if text is None:
        return _PART_BYTES
    if not text.isdigit() or int(text) < 1:
        raise GeolakeError(f"expected a number of bytes, got {text!r}", remedy="use one such as 134217728")
    return int(text)


def _hints(filters: Iterable[ds.Filter], snapshot: Snapshot, result: _Result) -> Iterator[Predicate]:
    """The filters as predicates that can skip; one that is not understood skips nothing."""
    sides: dict[str, dict[str, float]] = {}
    boxes = {_box_name(name): name for name in result.boxes}
    for each in filters:
        path = tuple(getattr(each, "attribute", ()))
        if len(path) == 2 and path[0] in boxes:
            _note_side(sides.setdefault(boxes[path[0]], {}), path[1], each)
            continue
        predicate = _plain(each)
        if predicate is None:
            continue
        try:
            yield bind(predicate, snapshot.schema)
        except GeolakeError:
            continue
    for name, limits in sides.items():
        window = _window(snapshot, name, limits)
        if window is not None:
            yield bind(st_intersects((name,), window), snapshot.schema)


def _note_side(limits: dict[str, float], side: str, each: ds.Filter) -> None:
    """What a comparison with a side says: the rows reach to the east of `west`, and so on."""
    value = getattr(each, "value", None)
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return
    low, high = ("west", "east") if side in ("xmin", "xmax") else ("south", "north")
    if isinstance(each, ds.GreaterThan | ds.GreaterThanOrEqual | ds.EqualTo):
        limits[low] = max(limits.get(low, -np.inf), float(value))
    if isinstance(each, ds.LessThan | ds.LessThanOrEqual | ds.EqualTo):
        limits[high] = min(limits.get(high, np.inf), float(value))


def _window(snapshot: Snapshot, name: str, limits: Mapping[str, float]) -> Box | None:
    """The window that rows have to meet; open sides end where the table does."""
    if name not in snapshot.files.geo_columns or not limits:
        return None
    boxes = snapshot.files.boxes(name)
    if not boxes.known.any():
        return None
    known = [side[boxes.known] for side in (boxes.xmin, boxes.ymin, boxes.xmax, boxes.ymax)]
    x, y = np.concatenate([known[0], known[2]]), np.concatenate([known[1], known[3]])
    west, east = limits.get("west", float(x.min())), limits.get("east", float(x.max()))
    south, north = limits.get("south", float(y.min())), limits.get("north", float(y.max()))
    if west > east or south > north or not np.isfinite([west, east, south, north]).all():
        return None
    return Box(west, south, east, north)


def _plain(each: ds.Filter) -> Predicate | None:
    """The predicate of a filter on a plain column."""
    if isinstance(each, ds.Not):
        inner = _plain(each.child)
        return None if inner is None else ~inner
    path = tuple(getattr(each, "attribute", ()))
    if isinstance(each, ds.IsNull):
        return IsNull(path)
    if isinstance(each, ds.IsNotNull):
        return IsNotNull(path)
    operators = {
        ds.EqualTo: "=",
        ds.GreaterThan: ">",
        ds.GreaterThanOrEqual: ">=",
        ds.LessThan: "<",
        ds.LessThanOrEqual: "<=",
    }
    kinds = bool | int | float | Decimal | str | bytes | dt.date | dt.datetime
    value: Any = getattr(each, "value", None)
    try:
        if type(each) in operators and isinstance(value, kinds):
            return Comparison.of(path, operators[type(each)], value)
        if isinstance(each, ds.In) and value and all(isinstance(item, kinds) for item in value):
            return In(path, tuple(value))
    except GeolakeError:
        return None
    return None
