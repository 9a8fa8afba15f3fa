"""Check a table against every rule, by the evidence in its snapshot and in what was read beside it.

| table | columns; `c` is the path of a geo column |
|---|---|
| `missing` | `path`: the missing files |
| `row_groups` | `path, row_group, rows, bytes, c.xmin … c.mmax, c.null_count, c.types, c.source` |
| `footers` | `path, column, logical_type, crs, algorithm, geoparquet_crs, created_by, repeated_types`: by geo column |
| `deep` | `path, rows, c.xmin … c.mmax, c.null_count, c.empty_count, c.bad, c.types, c.srids` |
| `narrow_groups` | `path, column, row_group`: row groups whose box in the file leaves out a part of their values |
| `hidden_nan` | `path, column`: floating-point columns with a NaN outside the min and max in a footer |
| `wkb` | not a table: the binary columns whose sampled values are WKB |
| `rasters` | `path`, and each raster column `c` as `raster_facts` of Havasu's group, with or without its bands |

Paths are those of the file table; all else may be left out. In `footers`, a `logical_type` is `GEOMETRY`, `GEOGRAPHY`
or null; a `crs` is null where the file leaves it at its default; a `geoparquet_crs` is null without GeoParquet
metadata, and `SRID:0` where that declares the CRS unknown; a `projjson:` reference to a property of the file is
replaced by the PROJJSON itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.checks.finding import Finding, Findings, Scope, SkippedCheck
from geolake_nb.checks.rule import Needs
from geolake_nb.geo.box_comparison import BoxSides
from geolake_nb.model.file_table import AXES, has_column, physical_rows
from geolake_nb.model.schema import join_path
from geolake_nb.model.snapshot import geo_file_fields
from geolake_nb.model.types import DataType, GeographyType, GeometryType, ListType, MapType, RasterType
from geolake_nb.parquet.schema import footer_facts
from geolake_nb.scan.wkb_sample import binary_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from geolake_nb.checks.rule import Rule
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.table_format import CollatedFiles
    from geolake_nb.scan.data_files import OtherFiles
    from geolake_nb.scan.wkb_sample import WkbSample

__all__ = ["Evidence", "check", "deep_table"]

_Cached = TypeVar("_Cached")
_SHOWN_PATHS = 3
_FEW_FILES = 10_000
"""With more files, boxes are read from the table each time rather than cached: they are as large as the table."""
_TABLES = (*(needs.name.lower() for needs in Needs if needs is not Needs.WKB), "hidden_nan", "narrow_groups")
_TYPES: dict[Needs, tuple[type[DataType], ...]] = {
    Needs.MISSING: (GeometryType, GeographyType, RasterType),
    Needs.RASTERS: (RasterType,),
}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A snapshot and what else is known about its files; what was not read is `None`."""

    snapshot: Snapshot
    row_groups: pa.Table | None = None
    footers: pa.Table | None = None
    deep: pa.Table | None = None
    rasters: pa.Table | None = None
    missing: pa.Table | None = None
    hidden_nan: pa.Table | None = None
    narrow_groups: pa.Table | None = None
    wkb: WkbSample | None = None
    others: OtherFiles | None = None
    collated: tuple[CollatedFiles, ...] = field(init=False)
    """Which files have statistics under which collation (Delta)."""
    _positions: Mapping[str, NDArray[np.intp]] = field(init=False)
    _remembered: dict[tuple[str, str], Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "collated", self.snapshot.format.collated_files(self.snapshot))
        positions: dict[str, NDArray[np.intp]] = {}
        for name in _TABLES:
            table = getattr(self, name)
            if table is not None:
                file_index = _whole(pc.index_in(table["path"], value_set=_whole(self.snapshot.files.table["path"])))
                # Rows of files that are not live, such as those that a later version removed, are not evidence.
                if file_index.null_count:
                    object.__setattr__(self, name, table.filter(pc.is_valid(file_index)))
                positions[name] = file_index.drop_null().to_numpy(zero_copy_only=False).astype(np.intp)
        object.__setattr__(self, "_positions", positions)

    def has(self, needs: Needs) -> bool:
        """Whether it was read."""
        return getattr(self, needs.name.lower()) is not None

    def unread(self, needs: Needs) -> str | None:
        """Why some or all of the files could not be read for this; `None` where all were read."""
        # Missing files are detected in any format, and the sample of binary columns reports itself what it lacks.
        if needs in (Needs.MISSING, Needs.WKB) or self.others is None or not self.others.positions:
            return None
        named = " and ".join(self.others.formats)
        return f"{len(self.others.positions):,} of {self.count:,} data files are in {named}; only Parquet is read"

    def concerns(self, needs: Needs) -> bool:
        """Whether the table has columns and files that this evidence is about."""
        if needs is Needs.WKB:
            return self.count > 0 and bool(binary_columns(self.snapshot))
        kinds = _TYPES.get(needs, (GeometryType, GeographyType))
        return self.count > 0 and any(isinstance(type_, kinds) for _, type_ in self.columns)

    @property
    def count(self) -> int:
        """How many files there are."""
        return len(self.snapshot.files)

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The geo and raster columns for which the file table has statistics, with their types."""
        listed = set(self.snapshot.files.geo_columns)
        return tuple((path, field.type) for path, field in self.snapshot.schema.geo_columns() if path in listed)

    @property
    def repeated(self) -> frozenset[str]:
        """The columns inside lists and maps."""
        paths: set[str] = set()
        above: set[tuple[str, ...]] = set()
        for parts, column in self.snapshot.schema.walk_parts():
            inside = parts[:-1] in above
            if inside:
                paths.add(join_path(parts))
            if inside or isinstance(column.type, ListType | MapType):
                above.add(parts)
        return frozenset(paths)

    def boxes(self, column: str) -> BoxSides:
        """The box of each file as the table stores it."""
        if self.count > _FEW_FILES:
            return BoxSides.of(self.snapshot.files.table, column)
        return self.once("boxes", column, lambda: BoxSides.of(self.snapshot.files.table, column))

    def once(self, what: str, column: str, find: Callable[[], _Cached]) -> _Cached:
        """A result that several rules share for a column, computed once."""
        if (what, column) not in self._remembered:
            self._remembered[what, column] = find()
        cached: _Cached = self._remembered[what, column]
        return cached

    def values(self, column: str, name: str) -> pa.Array:
        """A statistic of each file, such as `null_count`."""
        return _whole(self.snapshot.files.table[f"{column}.{name}"])

    def only_null(self, column: str) -> NDArray[np.bool_]:
        """The files in which the column is known to be null in every row, or that have no rows."""
        table = self.snapshot.files.table
        physical = physical_rows(table)
        only = pc.or_kleene(pc.equal(table[f"{column}.null_count"], physical), pc.equal(physical, 0))
        return flags(only)

    def file_of(self, table: pa.Table) -> NDArray[np.intp]:
        """The position in the file table of the file of each row; `table` is one of those of the evidence."""
        return next(self._positions[name] for name in _TABLES if getattr(self, name) is table)

    def nowhere(self, column: str) -> NDArray[np.bool_]:
        """The files in which the scan of the data found only null or empty geometries."""
        known = np.zeros(self.count, np.bool_)
        names = (f"{column}.null_count", f"{column}.empty_count", "rows")
        if self.deep is None or not all(has_column(self.deep, name) for name in names):
            return known
        blank = pc.add(self.deep[f"{column}.null_count"], self.deep[f"{column}.empty_count"])
        known[self.file_of(self.deep)] = flags(pc.equal(blank, self.deep["rows"]))
        return known

    def scope(self, wrong: NDArray[np.bool_], column: str | None = None) -> Scope:
        """The files that a mask marks: how many, and the first few by name."""
        index = np.flatnonzero(wrong)
        paths = self.snapshot.files.table["path"].take(pa.array(index[:_SHOWN_PATHS])).to_pylist()
        return Scope(column, tuple(paths), len(index))

    def scope_of_rows(
        self, table: pa.Table, wrong: NDArray[np.bool_], column: str | None, *, unit: str = "files"
    ) -> Scope:
        """The same for the rows of a table that has a path: by files, or by rows where `unit` names them."""
        paths = _whole(table["path"]).filter(pa.array(wrong)).unique() if len(wrong) else pa.array([], pa.string())
        count = len(paths) if unit == "files" else int(wrong.sum())
        return Scope(column, tuple(paths[:_SHOWN_PATHS].to_pylist()), count, unit)


def deep_table(stats: Mapping[str, Mapping[str, ColumnStats]]) -> pa.Table:
    """The statistics of a scan, by path and column, as the table `deep`.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.statistics import ColumnStats
    >>> table = deep_table({"a": {"geom": ColumnStats(Box(0, 1, 2, 3), (1,), rows=1, null_count=0, empty_count=0)}})
    >>> table["geom.ymax"].to_pylist(), table["geom.types"].to_pylist()
    ([3.0], [[1]])
    >>> deep_table({}).num_rows
    0
    """
    names = sorted({name for columns in stats.values() for name in columns})
    rows = [max((column.rows for column in columns.values()), default=None) for columns in stats.values()]
    table: dict[str, pa.Array] = {"path": pa.array(list(stats), pa.string()), "rows": pa.array(rows, pa.int64())}
    for name in names:
        parts = [columns.get(name) for columns in stats.values()]
        boxes = [None if part is None else part.box for part in parts]
        for axis in AXES:
            sides = [None if box is None else getattr(box, axis) for box in boxes]
            table[f"{name}.{axis}"] = pa.array(sides, pa.float64())
        for count in ("null_count", "empty_count", "bad"):
            counts = [None if part is None else getattr(part, count) for part in parts]
            table[f"{name}.{count}"] = pa.array(counts, pa.int64())
        types = [None if part is None or part.types is None else list(part.types) for part in parts]
        table[f"{name}.types"] = pa.array(types, pa.list_(pa.int32()))
        srids = [None if part is None else list(part.srids) for part in parts]
        table[f"{name}.srids"] = pa.array(srids, pa.list_(pa.int64()))
    return pa.table(table)


def flags(values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A numpy mask; null is false.

    >>> flags(pa.array([True, None])).tolist()
    [True, False]
    """
    return np.asarray(_whole(pc.fill_null(values, fill_value=False)).to_numpy(zero_copy_only=False), np.bool_)


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    whole = values.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def check(
    snapshot: Snapshot,
    rules: Sequence[Rule],
    *,
    row_groups: pa.Table | None = None,
    footers: pa.Table | None = None,
    deep: pa.Table | Mapping[str, Mapping[str, ColumnStats]] | None = None,
    rasters: pa.Table | None = None,
    missing: pa.Table | None = None,
    hidden_nan: pa.Table | None = None,
    narrow_groups: pa.Table | None = None,
    wkb: WkbSample | None = None,
    others: OtherFiles | None = None,
) -> Findings:
    """The findings about a table, from its metadata and what else was read of it.

    `checks/evidence.py` describes the tables beside the snapshot; `deep` may also be the
    statistics of a scan by path and column. A rule whose evidence is missing is listed as not checked. The footers
    of a Parquet set are already loaded. `others` are Avro or ORC files, which cannot be read: rules that need to read
    files are listed as not checked for them.

    >>> import pyarrow as pa
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.file_table import FileTable
    >>> from geolake_nb.formats.registry import PARQUET
    >>> from geolake_nb.formats.rules import RULES
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> no_files = FileTable.of(path=pa.array([], pa.string()), bytes=pa.array([]), rows=pa.array([]))
    >>> table = Snapshot(PARQUET, "/data/roads", None, None, Schema(), Protocol("Parquet"), no_files)
    >>> print(check(table, RULES))
    /data/roads: no findings
    """
    scanned = deep_table(deep) if isinstance(deep, Mapping) else deep
    stated = _footers_at_hand(snapshot) if footers is None else footers
    evidence = Evidence(
        snapshot, row_groups, stated, scanned, rasters, missing, hidden_nan, narrow_groups, wkb=wkb, others=others
    )
    results = [result for rule in rules for result in rule.check(evidence)]
    return Findings(
        snapshot.location,
        tuple(result for result in results if isinstance(result, Finding)),
        tuple(dict.fromkeys(result for result in results if isinstance(result, SkippedCheck))),
    )


def _footers_at_hand(snapshot: Snapshot) -> pa.Table | None:
    """What the footers declare about geo columns, where opening the table has read them."""
    views = snapshot.format.footer_views(snapshot)
    if views is None or len(views) != len(snapshot.files):
        return None
    paths = snapshot.files.table["path"].to_pylist()
    return footer_facts(zip(paths, views, strict=True), snapshot.schema, geo_file_fields(snapshot))
