"""The live files of a snapshot as one Arrow table: columns, not objects, so that a million files stay cheap."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.display import Displayable
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

__all__ = [
    "AXES",
    "PHYSICAL_ROWS",
    "BoundSource",
    "FileTable",
    "GeoStatsColumns",
    "has_column",
    "physical_rows",
    "plain_rows",
    "plain_values",
]

AXES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")
_SHOWN = 20
"""Files shown in the text."""


class BoundSource(enum.Enum):
    """Where the bound of a column in a file comes from."""

    LOG = "log"
    """Statistics in the Delta log."""
    MANIFEST = "manifest"
    """Bounds in an Iceberg or Havasu manifest."""
    FOOTER = "footer"
    """Geospatial statistics or GeoParquet metadata in the Parquet footer."""
    COVERING = "covering"
    """Statistics of a GeoParquet bbox covering column."""


@dataclass(frozen=True, slots=True, eq=False)
class GeoStatsColumns:
    """The statistics of one geo or raster column in every file, in the order of the files.

    Every array has one entry per file. A side is null where the axis is absent; `xmin` null means no usable box.
    """

    sides: Mapping[str, pa.Array]
    """Arrays of doubles by side; axes that no file has may be left out."""
    null_count: pa.Array | None = None
    types: pa.Array | None = None
    """Lists of ISO codes; null where they are not known."""
    source: BoundSource | pa.Array | None = None
    """One source for all files, or an array: null in the table where a file has no box."""
    problem: pa.Array | None = None
    """Why a stored bound is not usable; null where there is none or it is valid."""


PHYSICAL_ROWS = "physical_rows"
"""The column with the physical rows in each file, where they are not `rows` plus `deleted_rows`."""


@dataclass(frozen=True, slots=True, eq=False)
class FileTable(Displayable):
    """One row per file: `path, bytes, rows, deleted_rows, partition.…`, then the statistics of each geo column `c`.

    Those are `c.xmin … c.mmax, c.null_count, c.types, c.source, c.problem`. `path` is as stored in the table; `rows`
    counts live rows, without those that deletion vectors delete: null where only the content of a delete file
    determines it, and then `physical_rows` counts the rows in each file.
    """

    table: pa.Table
    geo_columns: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        path: pa.Array,
        bytes: pa.Array,  # noqa: A002
        rows: pa.Array,
        deleted_rows: pa.Array | None = None,
        partitions: Mapping[str, pa.Array] | None = None,
        extra: Mapping[str, pa.Array] | None = None,
        geo: Mapping[str, GeoStatsColumns] | None = None,
    ) -> FileTable:
        """Assemble the columns, with a type for each that does not depend on nulls.

        `extra` are columns of one format only, such as `modified` or `added_version`.

        >>> files = FileTable.of(path=pa.array(["a"]), bytes=pa.array([10]), rows=pa.array([None], pa.int64()))
        >>> files.table.column_names
        ['path', 'bytes', 'rows', 'deleted_rows']
        """
        count = len(path)
        columns: dict[str, Any] = {
            "path": path.cast(pa.string()),
            "bytes": bytes.cast(pa.int64()),
            "rows": rows.cast(pa.int64()),
            "deleted_rows": pa.array(np.zeros(count, np.int64)) if deleted_rows is None else deleted_rows,
        }
        columns |= {f"partition.{name}": values for name, values in (partitions or {}).items()}
        columns |= extra or {}
        for name, stats in (geo or {}).items():
            columns |= _geo_columns(name, stats, count)
        return cls(pa.table(columns), tuple(geo or ()))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        first = self.table.slice(0, _SHOWN).select(["path", "rows", "bytes"]).to_pylist()
        lines = [f"  {printable(file['path'], 300)}  rows={file['rows']}  bytes={file['bytes']}" for file in first]
        more = [f"  and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([plural(len(self), "file"), *lines, *more])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame."""
        try:
            return self.table.to_pandas()
        except (OverflowError, ValueError):
            # A partition may be a date outside of the range of Python, which NumPy supports.
            return self.table.to_pandas(date_as_object=False)

    def boxes(self, column: str) -> BoxColumn:
        """The boxes of a geo column as input of the projection.

        A file in which all values of the column are null never matches a query.
        """
        sides = [self.table[f"{column}.{axis}"].to_numpy() for axis in AXES[:4]]
        nulls = self.table[f"{column}.null_count"]
        only_null = pc.fill_null(pc.equal(nulls, physical_rows(self.table)), fill_value=False)
        return BoxColumn.from_sides(*sides, only_null_or_empty=only_null.to_numpy())

    def box_array(self, column: str) -> pa.Array:
        """The boxes of a geo column as `geoarrow.box`, null where a file has none."""
        import geoarrow.types as ga

        box_type = ga.box().to_pyarrow()
        sides = [self.table[f"{column}.{axis}"].combine_chunks() for axis in AXES[:4]]
        unknown = pc.is_null(sides[0])
        filled = [pc.fill_null(side, 0.0) for side in sides]
        storage = pa.StructArray.from_arrays(filled, fields=list(box_type.storage_type), mask=unknown)
        return box_type.wrap_array(storage)


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as Python objects, or as strings where some dates or times are outside of the range of Python.

    >>> plain_values(pa.array([0, 2_932_897], pa.int32()).cast(pa.date32()))
    ['1970-01-01', '10000-01-01']
    >>> plain_values(pa.array([2**63 - 1]).cast(pa.timestamp("us", "UTC")))
    ['294247-01-10 04:00:54.775807Z']
    """
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        kind = column.type
        # Arrow formats years up to 32767 only.
        unit, zone = (kind.unit, "Z" if kind.tz else "") if pa.types.is_timestamp(kind) else ("D", "")
        numbers = column.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
        moments = np.asarray(numbers.fill_null(0).to_numpy()).astype(f"datetime64[{unit}]")
        texts = [str(moment).replace("T", " ") + zone for moment in moments]
        values = [text if number.is_valid else None for text, number in zip(texts, numbers, strict=True)]
    return values


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table with `plain_values`.

    >>> plain_rows(pa.table({"a": [1, None]}))
    [{'a': 1}, {'a': None}]
    """
    columns = [plain_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def physical_rows(table: pa.Table) -> pa.ChunkedArray:
    """How many physical rows each file has, including deleted ones.

    >>> physical_rows(pa.table({"rows": [3], "deleted_rows": [1]})).to_pylist()
    [4]
    >>> physical_rows(pa.table({"rows": [None], "deleted_rows": [1], "physical_rows": [5]})).to_pylist()
    [5]
    """
    if has_column(table, PHYSICAL_ROWS):
        return table[PHYSICAL_ROWS]
    return pc.add(table["rows"], table["deleted_rows"])


def has_column(table: pa.Table, name: str) -> bool:
    """Whether a table has a column of that name.

    `column_names` builds a new list of all columns each time, which is slow for a table with many geo columns.

    >>> has_column(pa.table({"a": [1]}), "a"), has_column(pa.table({"a": [1]}), "b")
    (True, False)
    """
    return int(table.schema.get_field_index(name)) >= 0


def _geo_columns(name: str, stats: GeoStatsColumns, count: int) -> dict[str, pa.Array]:
    doubles = pa.nulls(count, pa.float64())
    columns = {f"{name}.{axis}": stats.sides.get(axis, doubles) for axis in AXES}
    columns[f"{name}.null_count"] = pa.nulls(count, pa.int64()) if stats.null_count is None else stats.null_count
    columns[f"{name}.types"] = pa.nulls(count, pa.list_(pa.int32())) if stats.types is None else stats.types
    columns[f"{name}.source"] = _source(columns[f"{name}.xmin"], stats.source)
    columns[f"{name}.problem"] = pa.nulls(count, pa.string()) if stats.problem is None else stats.problem
    return columns


def _source(xmin: pa.Array, source: BoundSource | pa.Array | None) -> pa.Array:
    value = source if isinstance(source, pa.Array) else pa.scalar(None if source is None else source.value, pa.string())
    return pc.if_else(pc.is_valid(xmin), value, pa.scalar(None, pa.string()))


def sides_of(boxes: Sequence[Any]) -> dict[str, pa.Array]:
    """The sides of boxes, some of which may be `None`, as arrays; for formats with few files.

    >>> from geolake_nb.model.box import Box
    >>> sides_of([Box(0, 1, 2, 3), None])["ymax"].to_pylist()
    [3.0, None]
    """
    return {
        axis: pa.array([None if box is None else getattr(box, axis) for box in boxes], pa.float64()) for axis in AXES
    }
