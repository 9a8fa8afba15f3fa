"""Batches of any source as the rows that are written; WKB, EWKB, WKT and coordinates become ISO WKB.

Invalid values become null; the faults are reported to the driver, which then commits
nothing. So all bad rows are counted, and a few of them named, at the price of one pass.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CrsError, JobError, SchemaError
from geolake_nb.formats.delta.plain_actions import plain_schema
from geolake_nb.formats.delta.schema import to_delta_schema
from geolake_nb.formats.iceberg.live_rows import carried_schema
from geolake_nb.geo.bounds import wkb_of_texts
from geolake_nb.geo.encodings import stored_shapes, to_iso_wkb
from geolake_nb.geo.wkb_scan import EdgeRules, Scan
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import split_path
from geolake_nb.model.types import GeographyType, GeometryEncoding, PrimitiveType, StringType
from geolake_nb.parquet.file_columns import FileColumns
from geolake_nb.parquet.geoparquet import wkb_of_coordinates
from geolake_nb.spark.jobs import keyed_accumulator, map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType as SparkStruct

    from geolake_nb.changes.write_job import GeoInput
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import Field
    from geolake_nb.parquet.geoparquet import GeoEncoding

    RowNamer = Callable[[int], str]

__all__ = [
    "SHOWN",
    "BadRows",
    "BadValues",
    "GeoReader",
    "RowFitter",
    "fitted_frame",
    "merge_bad",
    "refuse_bad",
    "spark_schema",
]

SHOWN = 5
"""How many bad values are named; all are counted."""

_EWKT = re.compile(r"SRID\s*=\s*([0-9]{1,10})\s*;\s*(.*)", re.IGNORECASE | re.DOTALL)
_SPARK_GEO = ("srid", "wkb")


@dataclass(frozen=True, slots=True)
class BadValues:
    """The invalid values of one column.

    >>> print(BadValues("geom", 2, ("row 7: the value ends inside a geometry: 01",)))
    geom: 2 values: row 7: the value ends inside a geometry: 01; ...
    """

    column: str
    count: int
    first: tuple[str, ...]
    """A sentence for each of the first few: where, why, and how the value starts."""

    def __str__(self) -> str:
        more = "; ..." if self.count > len(self.first) else ""
        return f"{self.column}: {self.count:,} value{'s' if self.count > 1 else ''}: {'; '.join(self.first)}{more}"


def merge_bad(parts: Iterable[BadValues]) -> list[BadValues]:
    """One for each column, by name.

    >>> merge_bad([BadValues("g", 1, ("a",)), BadValues("g", 2, ("b",))])
    [BadValues(column='g', count=3, first=('a', 'b'))]
    """
    merged: dict[str, BadValues] = {}
    for part in parts:
        known = merged.get(part.column, BadValues(part.column, 0, ()))
        merged[part.column] = BadValues(part.column, known.count + part.count, (*known.first, *part.first)[:SHOWN])
    return [merged[name] for name in sorted(merged)]


@dataclass(slots=True)
class _BadValueCount:
    """Bad values while a task reads."""

    count: int = 0
    first: list[str] = dataclasses.field(default_factory=list)


class GeoReader:
    """Turns the geo columns of batches into ISO WKB; lives as long as a task.

    >>> from geolake_nb.model.types import GeometryType
    >>> from geolake_nb.changes.write_job import GeoInput
    >>> reader = GeoReader({"g": GeoInput(GeometryType(), GeometryEncoding.WKT)})
    >>> batch = reader.read(pa.record_batch({"g": ["POINT (1 2)", "POINT 1", None]}))
    >>> [None if value is None else value.hex()[:10] for value in batch["g"].to_pylist()]
    ['0101000000', None, None]
    >>> reader.bad[0].count, reader.bad[0].first[0][-9:]
    (1, "'POINT 1'")
    """

    def __init__(self, inputs: Mapping[str, GeoInput], *, native: Mapping[str, GeoEncoding] | None = None) -> None:
        self._inputs = {split_path(path): (path, geo_input) for path, geo_input in inputs.items()}
        self._native = native or {}
        self._allowed: dict[tuple[str, int], bool] = {}
        self._bad: dict[str, _BadValueCount] = {}
        self._rows = 0

    @property
    def bad(self) -> list[BadValues]:
        """The invalid values so far."""
        return [BadValues(path, counted.count, tuple(counted.first)) for path, counted in sorted(self._bad.items())]

    def read(self, batch: pa.RecordBatch, *, row_name: RowNamer | None = None) -> pa.RecordBatch:
        """The batch with its geo columns as ISO WKB; `row_name` names a row of it, else only values are named."""
        arrays, names = list(batch.columns), batch.schema.names
        for parts, (path, geo_input) in self._inputs.items():
            if parts[0] not in names:
                raise SchemaError(f"the rows have no column {parts[0]!r}", where=path)
            index = names.index(parts[0])
            arrays[index] = self._descend(arrays[index], parts[1:], path, geo_input, row_name)
        return pa.RecordBatch.from_arrays(arrays, names)

    def _descend(
        self, array: pa.Array, parts: Sequence[str], path: str, geo_input: GeoInput, row_name: RowNamer | None
    ) -> pa.Array:
        if not parts:
            return self._wkb(array, path, geo_input, row_name)
        if not pa.types.is_struct(array.type):
            raise SchemaError(f"it is inside a {array.type}, and only columns in structs are supported", where=path)
        index = array.type.get_field_index(parts[0])
        if index < 0:
            raise SchemaError(f"the rows have no column {parts[0]!r}", where=path)
        children = array.flatten()
        children[index] = self._descend(children[index], parts[1:], path, geo_input, row_name)
        fields = [array.type.field(number) for number in range(array.type.num_fields)]
        fields[index] = fields[index].with_type(children[index].type)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    def _wkb(self, array: pa.Array, path: str, geo_input: GeoInput, row_name: RowNamer | None) -> pa.Array:
        given = array
        faults: dict[int, str] = {}
        if geo_input.keeps_own:
            return self._with_own(_plain_binary(array, path), geo_input)
        if _is_spark_geo(array):
            wkb, srids = pc.struct_field(array, "wkb"), pc.struct_field(array, "srid")
            array = pc.if_else(array.is_valid(), wkb, pa.scalar(None, wkb.type)) if array.null_count else wkb
            numbers = np.asarray(pc.fill_null(srids, 0), np.int64)
            self._check_srids({int(number): np.flatnonzero(numbers == number) for number in np.unique(numbers)},
                              path, geo_input, faults)  # fmt: skip
        elif geo_input.encoding is GeometryEncoding.WKT:
            array = self._from_text(array, path, geo_input, faults)
        elif geo_input.encoding is GeometryEncoding.GEOJSON:
            array = wkb_of_texts(array, geo_input.encoding)
        elif geo_input.encoding is GeometryEncoding.GEOARROW:
            array = wkb_of_coordinates(array, self._native.get(path), where=path)
        array = _plain_binary(array, path)
        bad = _faults(array, geographic=isinstance(geo_input.type, GeographyType))
        kept = array.take(pa.array(sorted(bad), pa.int64())) if geo_input.keeps_bad and bad else None
        faults |= {} if geo_input.keeps_bad else bad
        if faults or bad:
            array = _without(array, faults | bad)
        iso = to_iso_wkb(array)
        wrong: dict[int, str] = {}
        self._check_srids(iso.srids, path, geo_input, wrong)
        stored = stored_shapes((_without(iso.values, wrong) if wrong else iso.values).cast(pa.binary()), geo_input.type)
        faults |= {**wrong, **stored.faults}
        if faults:
            self._record_faults(path, given, faults, row_name)
        return stored.values if kept is None else _with(stored.values, sorted(bad), kept)

    def _with_own(self, array: pa.Array, geo_input: GeoInput) -> pa.Array:
        """The bytes in the encoding of the type; what is bad or names its own CRS stays as it is."""
        bad = list(_faults(array, geographic=False))
        srids = to_iso_wkb(_without(array, dict.fromkeys(bad, "")) if bad else array).srids
        kept = np.zeros(len(array), np.bool_)
        kept[[*bad, *(row for rows in srids.values() for row in rows.tolist())]] = True
        stored = stored_shapes(pc.if_else(pa.array(kept), pa.scalar(None, array.type), array), geo_input.type).values
        return pc.if_else(pa.array(kept), array, stored).cast(pa.binary())

    def _check_srids(
        self, srids: Mapping[int | None, np.ndarray[tuple[int], np.dtype[np.intp]]], path: str, geo_input: GeoInput,
        faults: dict[int, str],
    ) -> None:  # fmt: skip
        for number, rows in srids.items():
            if number is None:
                faults |= dict.fromkeys(rows.tolist(), "its parts have different SRIDs")
            elif number != 0 and not self._allows(path, geo_input, number):
                faults |= dict.fromkeys(rows.tolist(), f"SRID {number} is not the column's {geo_input.type.crs}")

    def _allows(self, path: str, geo_input: GeoInput, srid: int) -> bool:
        """Whether an SRID names the CRS of the column; one of nothing is that of all values that have none."""
        key = path, srid
        if key not in self._allowed:
            try:
                self._allowed[key] = srid > 0 and geo_input.type.crs.same_as(Crs(f"srid:{srid}"))
            except CrsError:
                self._allowed[key] = False
        return self._allowed[key]

    def _from_text(self, array: pa.Array, path: str, geo_input: GeoInput, faults: dict[int, str]) -> pa.Array:
        import shapely

        from geolake_nb.geo.wkb import readable_geometry_text

        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
            raise SchemaError(f"expected WKT, got values of type {array.type}", where=path, remedy="give strings")
        texts = array.to_pylist()
        for row, text in enumerate(texts):
            if text is None:
                continue
            reason = readable_geometry_text(text)
            if reason is not None:
                faults[row], texts[row] = f"not valid WKT: {reason}", None
            elif text[:4].upper() == "SRID" and (match := _EWKT.fullmatch(text)):
                texts[row] = match[2]
                self._check_srids({int(match[1]): np.array([row])}, path, geo_input, faults)
        shapes = shapely.from_wkt(np.array(texts, object), on_invalid="ignore")
        for row in np.flatnonzero(shapely.is_missing(shapes)).tolist():
            if texts[row] is not None:
                faults[row] = f"not valid WKT: {_why_no_wkt(texts[row])}"
        # ISO, little-endian, with all the axes that there are.
        return pa.array(shapely.to_wkb(shapes, flavor="iso", byte_order=1, output_dimension=4), pa.binary())

    def _record_faults(self, path: str, given: pa.Array, faults: dict[int, str], row_name: RowNamer | None) -> None:
        bad = self._bad.setdefault(path, _BadValueCount())
        bad.count += len(faults)
        for row in sorted(faults)[: max(0, SHOWN - len(bad.first))]:
            where = "" if row_name is None else f"{row_name(row)}: "
            bad.first.append(f"{where}{faults[row]}: {_start(given[row].as_py())}")


def _is_spark_geo(array: pa.Array) -> bool:
    """Whether it is what Spark makes of its GEOMETRY and GEOGRAPHY: a struct of SRID and WKB."""
    kind = array.type
    return pa.types.is_struct(kind) and tuple(kind.field(index).name for index in range(kind.num_fields)) == _SPARK_GEO


def _plain_binary(array: pa.Array, path: str) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return array
    if array.type == pa.binary_view() or pa.types.is_fixed_size_binary(array.type) or pa.types.is_null(array.type):
        return array.cast(pa.large_binary())
    raise SchemaError(f"expected WKB, got values of type {array.type}", where=path, remedy="give bytes")


def _faults(array: pa.Array, *, geographic: bool) -> dict[int, str]:
    """Why rows are invalid; empty, null and arcs are valid."""
    edges = EdgeRules(0.0, 0.0, 180.0) if geographic else None
    whole = Scan(edges)
    whole.add(array)
    if not whole.bad_count and not whole.open_count:
        return {}
    faults: dict[int, str] = {}
    _, known = Scan(edges).add_with_boxes(array)
    for row in np.flatnonzero(~known).tolist():
        scan = Scan(edges)
        scan.add(array.slice(row, 1))
        if scan.first_bad is not None:
            faults[row] = f"not valid WKB: {scan.first_bad.fault.describe(scan.first_bad.detail)}"
        # Parquet, Bounding box: in a GEOGRAPHY, X is in [-180, 180] and Y in [-90, 90].
        elif scan.first_open is not None and "outside" in scan.first_open.reason:
            faults[row] = scan.first_open.reason
    return faults


def _with(array: pa.Array, rows: Sequence[int], values: pa.Array) -> pa.Array:
    """The array with these values in these rows."""
    mask = np.zeros(len(array), np.bool_)
    mask[list(rows)] = True
    return pc.replace_with_mask(array, pa.array(mask), values.cast(array.type))


def _without(array: pa.Array, faults: Mapping[int, str]) -> pa.Array:
    keep = np.ones(len(array), np.bool_)
    keep[list(faults)] = False
    return pc.if_else(pa.array(keep), array, pa.scalar(None, array.type))


def _why_no_wkt(text: str) -> str:
    import shapely

    try:
        shapely.from_wkt(text)
    except (shapely.errors.GEOSException, ValueError) as problem:
        return str(problem).splitlines()[0]
    return "it cannot be read"


def _start(value: object) -> str:
    """How a value starts, short enough for a message and long enough to find it by."""
    if isinstance(value, dict):
        value = value.get("wkb")
    if isinstance(value, bytes):
        return f"X'{value[:24].hex()}'" + ("..." if len(value) > 24 else "")
    text = str(value)
    return ascii(text[:60]) + ("..." if len(text) > 60 else "")


_INSTANT = PrimitiveType("timestamptz")


class RowFitter:
    """Makes batches of what a source gives; lives as long as a task.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, StructType
    >>> fields = Field("a", PrimitiveType("int64")), Field("k", StringType()), Field("b", PrimitiveType("binary"))
    >>> schema = Schema(StructType(fields))
    >>> RowFitter(schema, {}).fit(pa.record_batch({"a": pa.array([7], pa.int8())}), {"k": "x"}).to_pylist()
    [{'a': 7, 'k': 'x', 'b': None}]
    """

    def __init__(
        self, schema: Schema, inputs: Mapping[str, GeoInput], *, native: Mapping[str, GeoEncoding] | None = None
    ) -> None:
        self._fields = schema.fields
        self._columns = FileColumns.of(carried_schema(schema))
        self._reader = GeoReader(inputs, native=native)

    @property
    def arrow(self) -> pa.Schema:
        """The columns of the batches that it makes."""
        return self._columns.arrow

    @property
    def bad(self) -> list[BadValues]:
        """The invalid values so far; they are null in the rows."""
        return self._reader.bad

    def fit(
        self, batch: pa.RecordBatch, constants: Mapping[str, object] | None = None, *, row_name: RowNamer | None = None
    ) -> pa.RecordBatch:
        """The batch with all columns; `constants` hold in all rows of it where it does not have them itself."""
        arrays: list[pa.Array] = []
        for field, kind in zip(self._fields, self._columns.arrow.types, strict=True):
            value = (constants or {}).get(field.name)
            if field.name in batch.schema.names:
                arrays.append(_as_meant(batch.column(field.name), field))
            elif value is not None:
                arrays.append(pa.repeat(pa.scalar(value), len(batch)))
            else:
                arrays.append(pa.nulls(len(batch), kind))
        whole = pa.RecordBatch.from_arrays(arrays, [field.name for field in self._fields])
        return self._columns.fit(self._reader.read(whole, row_name=row_name))


def _as_meant(array: pa.Array, field: Field) -> pa.Array:
    """The column with what Arrow leaves out when it reads Parquet."""
    kind = array.type
    if field.type == _INSTANT and pa.types.is_timestamp(kind) and kind.tz is None:
        return array.cast(pa.timestamp(kind.unit, "UTC"))  # INT96 are instants
    if isinstance(field.type, StringType) and pa.types.is_binary(kind):
        return array.cast(pa.string())  # ENUM and JSON are texts
    return array


class BadRows:
    """The invalid values of the tasks of a job, collected at the driver.

    A task that runs twice reports the same, and counts once.
    """

    def __init__(self, spark: SparkSession) -> None:
        # Where the driver is another process, a task has to fail by itself.
        self._reported = keyed_accumulator(spark)

    def report(self, bad: Iterable[BadValues]) -> None:
        """Called in a task, when it has read all of its rows."""
        from pyspark import TaskContext

        merged = merge_bad(bad)
        if not merged:
            return
        if self._reported is None:
            refuse_bad(merged, where=None)
            return
        task = TaskContext.get()
        self._reported.add({0 if task is None else task.partitionId(): merged})

    def refuse(self, where: str) -> None:
        """Raise if there are any."""
        if self._reported is not None and self._reported.value:
            refuse_bad(
                merge_bad(values for _, some in sorted(self._reported.value.items()) for values in some), where=where
            )


def refuse_bad(bad: list[BadValues], *, where: str | None) -> None:
    """Raise, naming the values.

    >>> refuse_bad([], where="/t")
    """
    if bad:
        raise JobError(
            f"invalid values: {'; '.join(map(str, bad))}",
            where=where,
            remedy="fix or remove these rows; nothing was committed",
        )


def fitted_frame(frame: DataFrame, schema: Schema, inputs: Mapping[str, GeoInput], bad: BadRows) -> DataFrame:
    """The frame, whose columns have names of the schema, with all columns and with shapes as ISO WKB."""

    def fit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitter = RowFitter(schema, inputs)
        for batch in batches:
            yield fitter.fit(batch)
        bad.report(fitter.bad)

    return map_in_arrow(frame, fit, spark_schema(schema))


def spark_schema(schema: Schema) -> SparkStruct:
    """The columns as a job passes them on: shapes are bytes or text, strings have no collation, all may be null."""
    from pyspark.sql.types import StructType as SparkStruct

    return SparkStruct.fromJson(json.loads(plain_schema(to_delta_schema(carried_schema(schema)))))
