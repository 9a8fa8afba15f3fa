"""Bounds of geo columns in the metrics of the data files that PyIceberg writes."""

from __future__ import annotations

import logging
import threading
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pyiceberg.io import pyarrow as pia
from pyiceberg.types import GeographyType, StructType

from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.pyiceberg import manifests
from geolake_nb.pyiceberg.bridge import Patch
from geolake_nb.pyiceberg.geospatial import GeospatialStatsAggregator
from geolake_nb.pyiceberg.type_text import is_geo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema

__all__ = ["geospatial_column_aggregates_from_arrow_table", "patches"]

_MAX_NOTED = 100_000
_edges: OrderedDict[str, frozenset[int]] = OrderedDict()
"""By the path of a file the geographies whose bounds cover their edges."""
_lock = threading.Lock()


def geospatial_column_aggregates_from_arrow_table(
    arrow_table: pa.Table, schema: Schema, *, aggregates: dict[int, GeospatialStatsAggregator] | None = None
) -> dict[int, GeospatialStatsAggregator]:
    """The bounds of the geo columns of a table, by the ids of their fields.

    Columns inside structs are among them, values in lists and maps are not: Iceberg has no bounds for these.

    Args:
        arrow_table: rows with geometries and geographies as WKB.
        schema: the PyIceberg schema of the rows.
        aggregates: those of earlier rows, which take these in too.

    Returns:
        What gives the lower and the upper bound of each column.

    Example:
        >>> import pyarrow as pa
        >>> import geolake_nb.pyiceberg as geo
        >>> from pyiceberg.schema import Schema
        >>> from pyiceberg.types import GeometryType, NestedField
        >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
        >>> schema = Schema(NestedField(7, "geom", GeometryType()))
        >>> rows = pa.table({"geom": [point]})
        >>> bounds = geo.geospatial_column_aggregates_from_arrow_table(rows, schema)
        >>> geo.deserialize_geospatial_bound(bounds[7].min_as_bytes())
        GeospatialBound(x=1.0, y=2.0, z=None, m=None)
    """
    collected = {} if aggregates is None else aggregates
    for id_, type_, column in _geo_columns(arrow_table, schema):
        if id_ not in collected:
            collected[id_] = GeospatialStatsAggregator(type_)
        collected[id_].update(column)
    return collected


def _geo_columns(table: pa.Table, schema: Schema) -> Iterator[tuple[int, Any, Any]]:
    for field in schema.fields:
        if field.name in table.column_names:
            yield from _inside(field, table.column(field.name))


def _inside(field: Any, column: Any) -> Iterator[tuple[int, Any, Any]]:
    if is_geo(field.field_type):
        yield field.field_id, field.field_type, column
    elif isinstance(field.field_type, StructType) and _has_geo(field.field_type):
        import pyarrow.compute as pc

        for part in field.field_type.fields:
            yield from _inside(part, pc.struct_field(column, part.name))


def _has_geo(struct: StructType) -> bool:
    return any(
        is_geo(part.field_type) or (isinstance(part.field_type, StructType) and _has_geo(part.field_type))
        for part in struct.fields
    )


_statistics = pia.data_file_statistics_from_parquet_metadata
_write, _close = pia.ParquetFormatWriter.write, pia.ParquetFormatWriter.close
_write_file = pia.write_file


def _statistics_without_geo(parquet_metadata: Any, stats_columns: Any, parquet_column_mapping: Any) -> Any:
    """The statistics of a footer; what it has of geo columns orders bytes, which bounds nothing."""
    geo = {id_ for id_, column in stats_columns.items() if is_geo(column.iceberg_type)}
    if not geo:
        return _statistics(parquet_metadata, stats_columns, parquet_column_mapping)
    paths = [parquet_metadata.schema.column(index).path for index in range(parquet_metadata.num_columns)]
    quiet = _Quiet({index for index, path in enumerate(paths) if parquet_column_mapping.get(path) in geo})
    pia.logger.addFilter(quiet)
    try:
        statistics = _statistics(parquet_metadata, stats_columns, parquet_column_mapping)
    finally:
        pia.logger.removeFilter(quiet)
    for id_ in geo:
        statistics.column_aggregates.pop(id_, None)
    return statistics


class _Quiet(logging.Filter):
    """Parquet has no minima and maxima for geo types: PyIceberg would say so for each row group."""

    def __init__(self, columns: set[int]) -> None:
        super().__init__()
        self._columns = columns

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is about something else."""
        if not str(record.msg).startswith("PyArrow statistics missing") or not isinstance(record.args, tuple):
            return True
        return record.args[0] not in self._columns


def _write_and_measure(self: Any, table: pa.Table) -> None:
    _write(self, table)
    measured = self.__dict__.setdefault("_geolake_aggregates", {})
    geospatial_column_aggregates_from_arrow_table(table, self._file_schema, aggregates=measured)


def _close_with_bounds(self: Any) -> Any:
    first = self._result is None
    result = _close(self)
    measured: Mapping[int, GeospatialStatsAggregator] = self.__dict__.get("_geolake_aggregates", {})
    if first and measured:
        _add_bounds(self, result, measured)
    return result


def _add_bounds(writer: Any, result: Any, measured: Mapping[int, GeospatialStatsAggregator]) -> None:
    plan = pia.compute_statistics_plan(writer._file_schema, writer._properties)
    location = writer._output_file.location
    covered = set()
    for id_, aggregator in measured.items():
        name = plan[id_].column_name
        mode = _mode(writer._properties, name)
        if mode == pia.MetricModeTypes.NONE:
            continue
        result.null_value_counts[id_] = aggregator.null_count
        if mode == pia.MetricModeTypes.COUNTS:
            continue
        if aggregator.problem is not None:
            message = f"{location}: column {name} gets no bound: {aggregator.problem}"
            warnings.warn(message, BadValueWarning, stacklevel=2)
        elif aggregator.min_as_bytes() is not None:
            result.column_aggregates[id_] = aggregator
            if isinstance(aggregator.primitive_type, GeographyType):
                covered.add(id_)
    if covered:
        with _lock:
            _edges[location] = frozenset(covered)
            while len(_edges) > _MAX_NOTED:
                _edges.popitem(last=False)


def _mode(properties: Mapping[str, str], column: str) -> pia.MetricModeTypes:
    """How the table is configured: for columns in structs PyIceberg's own plan has counts alone."""
    from pyiceberg.table import TableProperties as Names

    default = properties.get(Names.DEFAULT_WRITE_METRICS_MODE, Names.DEFAULT_WRITE_METRICS_MODE_DEFAULT)
    return pia.match_metrics_mode(properties.get(f"{Names.METRICS_MODE_COLUMN_CONF_PREFIX}.{column}", default)).type


def _write_marked_files(*args: Any, **kwargs: Any) -> Iterator[DataFile]:
    for file in _write_file(*args, **kwargs):
        with _lock:
            ids = _edges.pop(file.file_path, None)
        if ids:
            manifests.mark_edges(file, ids)
        yield file


def patches() -> Iterator[Patch | Callable[[], Callable[[], None]]]:
    """The writer of Parquet files, and the statistics that it takes from a footer."""
    yield Patch(pia, "data_file_statistics_from_parquet_metadata", _statistics_without_geo)
    yield Patch(pia.ParquetFormatWriter, "write", _write_and_measure)
    yield Patch(pia.ParquetFormatWriter, "close", _close_with_bounds)
    yield Patch(pia, "write_file", _write_marked_files)
