"""Advice on the layout of a table: what queries would read of it in others, and what a rewrite costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.api.maintenance import listed_queries
from geolake_nb.changes.layout_trials import LayoutOption, LayoutTrials, query_columns
from geolake_nb.changes.write_job import ROW_GROUP_ROWS, Packing, WriteJob
from geolake_nb.errors import GeolakeError
from geolake_nb.geo.cells import cell_names
from geolake_nb.model.cells import Cell, CellSystem, cell, partition_columns
from geolake_nb.model.display import Displayable
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.scan.explanation import bytes_text, wrapped
from geolake_nb.scan.file_statistics import known_files
from geolake_nb.scan.layout_model import LayoutModel, LayoutQueries, has_one_value, layout_column
from geolake_nb.scan.prune import prune
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from geolake_nb.api.maintenance import Queries
    from geolake_nb.changes.layout_trials import TrialResult
    from geolake_nb.changes.sampling import Sample
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.base import Format
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["Advice", "AdvisedLayout", "advise"]

_MAX_COLUMNS = 3
_MAX_PARTITIONS = 1000
_OPTIONS = ("cluster_by", "curve", "partition_by", "row_group_rows", "target_file_size")
_GEOHASH_LEVELS = range(1, 7)
_NAME = 56


@dataclass(frozen=True, slots=True)
class AdvisedLayout:
    """One layout, what the queries would read of it, and what it takes to get there."""

    name: str
    option: LayoutOption
    result: TrialResult
    now: float
    """The share that the queries read as the table is."""
    rewritten: int
    """The bytes of the table, which a rewrite reads and writes again."""

    @property
    def pays_after(self) -> int | None:
        """After so many queries they have saved the bytes that the rewrite read and wrote; `None`: they never do."""
        saved = self.now - self.result.share
        return math.ceil(2 / saved) if saved > 1e-6 else None

    @property
    def code(self) -> str:
        """How to get there."""
        packing = self.option.packing
        by = ", ".join(repr(column) for column in packing.cluster_by)
        options = f"cluster_by=[{by}], target_file_size={packing.target_bytes:_}"
        if packing.row_group_rows != ROW_GROUP_ROWS:
            options += f", row_group_rows={packing.row_group_rows:_}"
        if self.option.partition_by is None:
            return f"t.plan_rewrite({options})"
        partitions = ", ".join(
            f'gl.cell({entry.column!r}, "{entry.system.value}:{entry.level}")'
            if isinstance(entry, Cell)
            else repr(entry)
            for entry in self.option.partition_by
        )
        return f"gl.write(rows, new_table, partition_by=[{partitions}], {options})"

    def to_dict(self) -> dict[str, Any]:
        """`layout, files, reads, median, reads_row_groups, rewritten_bytes, pays_after, code`."""
        return {
            "layout": self.name,
            "files": self.result.files,
            "reads": self.result.share,
            "median": self.result.median,
            "reads_row_groups": self.result.group_share,
            "rewritten_bytes": self.rewritten,
            "pays_after": self.pays_after,
            "code": self.code,
        }


@dataclass(frozen=True, slots=True)
class Advice(Displayable):
    """Layouts of a table by what queries would read of them, the best first; estimated by a sample.

    Example:
        >>> advice = t.advise([(5, 45, 12, 52)])
        >>> advice.now, advice.layouts[0].name
        (1.0, 'partitioned by geohash:2 of geom, by geom')
    """

    location: str
    version: int | None
    queries: int
    sampled_rows: int
    files: int
    bytes: int
    now: float
    """The mean share of the bytes that a query reads as the table is, by its statistics."""
    median: float
    layouts: tuple[AdvisedLayout, ...]

    def to_arrow(self) -> pa.Table:
        """A row for each layout, the best first.

        Returns:
            A table with the columns `layout, files, reads, median, reads_row_groups, rewritten_bytes, pays_after` and
            `code`, how to get there.

        Example:
            >>> t.advise([(5, 45, 12, 52)]).to_arrow().column_names[:3]
            ['layout', 'files', 'reads']
        """
        return pa.Table.from_pylist([layout.to_dict() for layout in self.layouts])

    def to_pandas(self) -> pd.DataFrame:
        """The same as a frame of pandas.

        Returns:
            A frame with the columns of `to_arrow`.

        Example:
            >>> len(t.advise([(5, 45, 12, 52)]).to_pandas()) > 1
            True
        """
        return self.to_arrow().to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """The advice with plain values, ready for JSON.

        Returns:
            A dict with stable keys: `geolake help json` lists them.

        Example:
            >>> t.advise([(5, 45, 12, 52)]).to_dict()["queries"]
            1
        """
        return {
            "location": self.location,
            "version": self.version,
            "queries": self.queries,
            "sampled_rows": self.sampled_rows,
            "files": self.files,
            "bytes": self.bytes,
            "reads": self.now,
            "median": self.median,
            "layouts": [layout.to_dict() for layout in self.layouts],
        }

    @property
    def summary(self) -> str:
        """What to do, in a sentence."""
        best = self.layouts[0]
        if best.pays_after is None:
            return f"A query reads {self.now:.1%} of the bytes; no other layout reads less."
        return (
            f"A query reads {self.now:.1%} of the bytes; {best.name} it would read {best.result.share:.1%}. The rewrite"
            f" reads and writes {bytes_text(best.rewritten)}, which {_queries(best.pays_after)} save."
        )

    def __str__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        lines = [
            printable(f"{self.location}{version}: layouts compared by {_queries(self.queries)}"),
            f"{plural(self.files, 'file')}, {bytes_text(self.bytes)}; a sample of {plural(self.sampled_rows, 'row')}",
            *wrapped(self.summary),
            f"{'layout':<{_NAME}}{'files':>8}{'reads':>9}{'row groups':>12}{'pays after':>12}",
            f"{'as it is':<{_NAME}}{self.files:>8,}{self.now:>9.1%}{'-':>12}{'-':>12}",
        ]
        for layout in self.layouts:
            result = layout.result
            pays = "never" if layout.pays_after is None else f"{layout.pays_after:,}"
            shown = printable(layout.name, _NAME - 1)
            lines.append(f"{shown:<{_NAME}}{result.files:>8,}{result.share:>9.1%}{result.group_share:>12.1%}{pays:>12}")
        lines += wrapped(f"The first one: {self.layouts[0].code}", after="    ")
        return "\n".join(lines)


def advise(
    format_: Format,
    storage: Storage,
    snapshot: Snapshot,
    queries: Queries | None,
    *,
    column: str | None,
    layouts: Sequence[Mapping[str, Any]] | None,
    target_file_size: int | str,
    on_progress: Progress | None = None,
) -> Advice:
    """What the queries would read of a table in these layouts, or in those that suit them."""
    packing = Packing.of(target_file_size=target_file_size, where=snapshot.location)
    predicates = _predicates(snapshot, queries, column, packing.target_bytes)
    wanted = None if layouts is None else [_given(entry, packing, snapshot.location) for entry in layouts]
    if wanted is not None and not wanted:
        raise GeolakeError("the list of layouts is empty", where=snapshot.location, remedy="leave it out")
    geo, plain = ([join_path(path) for path in paths] for paths in query_columns(predicates))
    shapes = _shapes(snapshot, geo)
    named = [path for option in wanted or () for path in option.columns]
    columns = list(dict.fromkeys([*geo, *plain, *(shapes if wanted is None else named)]))
    sample = _sample(format_, storage, snapshot, columns, on_progress)
    rows = int(np.nan_to_num(snapshot.files.table["rows"].to_numpy().astype(np.float64)).sum())
    trials = LayoutTrials(snapshot, sample, predicates, rows=rows)
    size = snapshot.files.table["bytes"].to_numpy().astype(np.float64)
    shares = np.array([float(size[prune(query, known_files(snapshot, query)).kept].sum()) for query in predicates])
    shares /= max(1.0, float(size.sum()))
    now = float(shares.mean())

    def measured(option: LayoutOption) -> AdvisedLayout:
        return AdvisedLayout(_named(option, packing), option, trials.measure(option), now, int(size.sum()))

    if wanted is None:
        first = [measured(option) for option in _candidates(snapshot, sample, packing, shapes, plain)]
        best = min(first, key=_rank)
        made = [*first, *(measured(option) for option in _sizes(best.option))]
    else:
        made = [measured(option) for option in wanted]
    return Advice(
        snapshot.location, snapshot.version, len(predicates), len(sample), len(size), int(size.sum()), now,
        float(np.median(shares)), tuple(sorted(made, key=_rank)),
    )  # fmt: skip


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count:,} queries"


def _rank(layout: AdvisedLayout) -> tuple[float, ...]:
    return layout.result.share, layout.result.group_share, layout.result.files


def _predicates(
    snapshot: Snapshot, queries: Queries | None, column: str | None, target_bytes: int
) -> tuple[Predicate, ...]:
    known = listed_queries(queries)
    if known is not None:
        return LayoutQueries.given(snapshot, column, known).predicates
    name = column or layout_column(snapshot)
    drawn = () if name is None else LayoutModel(snapshot, name, target_bytes=target_bytes).queries.predicates
    if not drawn:
        what = "no windows can be drawn: no file has bounds of a geo column"
        raise GeolakeError(what, where=snapshot.location, remedy="give queries, or run geolake repair first")
    return drawn


def _given(entry: Mapping[str, Any], packing: Packing, where: str) -> LayoutOption:
    """A layout of the user, in the words of `plan_rewrite` and `gl.write`."""
    for key in entry:
        if key not in _OPTIONS:
            raise GeolakeError(f"unknown option {key!r} of a layout", where=where, remedy=f"use: {', '.join(_OPTIONS)}")
    options = {key: value for key, value in entry.items() if key != "partition_by"}
    partitions = entry.get("partition_by")
    listed = None
    if partitions is not None:
        names, cells = partition_columns(partitions)
        by_name = {made.name: made for made in cells}
        listed = tuple(by_name.get(name, name) for name in names)
    return LayoutOption(Packing.of(**({"target_file_size": packing.target_bytes} | options), where=where), listed)


def _shapes(snapshot: Snapshot, queried: Sequence[str]) -> list[str]:
    """The geometries that rows can be clustered by, those of the queries first."""
    known = [
        path
        for path, field in snapshot.schema.geo_columns()
        if isinstance(field.type, GeometryType | GeographyType) and has_one_value(snapshot.schema, path)
    ]
    return sorted(known, key=lambda path: path not in queried)[:_MAX_COLUMNS]


def _sample(
    format_: Format, storage: Storage, snapshot: Snapshot, columns: Sequence[str], on_progress: Progress | None
) -> Sample:
    from geolake_nb.spark.row_sources import sample_rows

    count = len(snapshot.files)
    change = format_.plan_rewrite(storage, snapshot, packing=Packing(), where=None, files=range(count))
    if not isinstance(change.job, WriteJob):
        raise GeolakeError("the table has no rows to lay out", where=snapshot.location)
    sample = sample_rows(storage, change.job, columns, on_progress)
    if not len(sample):
        raise GeolakeError("the table has no rows to lay out", where=snapshot.location)
    return sample


def _candidates(
    snapshot: Snapshot, sample: Sample, packing: Packing, shapes: Sequence[str], plain: Sequence[str]
) -> list[LayoutOption]:
    """Layouts that may suit queries of these columns."""
    free = [path for path in plain if path not in snapshot.partition_columns][:_MAX_COLUMNS]
    orders: list[tuple[str, ...]] = [(path,) for path in shapes]
    if len(shapes) > 1:
        orders.append((shapes[0], shapes[1]))
    orders += [(shapes[0], path) for path in free] if shapes else [(path,) for path in free]
    options = [LayoutOption(replace(packing, cluster_by=order)) for order in orders]
    inside = replace(packing, cluster_by=tuple(shapes[:1]))
    tops = {field.name for field in snapshot.schema.fields}
    few = [path for path in free if path in tops and len(sample.columns[path].unique()) <= _MAX_PARTITIONS]
    options += [LayoutOption(inside, (path,)) for path in few]
    made = _cell(snapshot, sample, packing, shapes)
    if made is not None:
        options.append(LayoutOption(inside, (made,)))
    return options or [LayoutOption(packing)]


def _cell(snapshot: Snapshot, sample: Sample, packing: Packing, shapes: Sequence[str]) -> Cell | None:
    """The geohashes that partition a table into about as many parts as it would have files."""
    from geolake_nb.changes.clustering import centres

    if not shapes:
        return None
    type_: Any = snapshot.schema.find(shapes[0]).type
    if type_.crs.is_unknown or not type_.crs.is_in_degrees:
        return None
    x, y = centres(sample.columns[shapes[0]], type_)
    files = 2 * max(4.0, float(snapshot.files.table["bytes"].to_numpy().sum()) / packing.target_bytes)
    fitting = [
        level
        for level in _GEOHASH_LEVELS
        if len(cell_names(CellSystem.GEOHASH, level, x, y).drop_null().unique()) <= files
    ]
    return cell(shapes[0], f"geohash:{max(fitting)}") if fitting else None


def _sizes(option: LayoutOption) -> list[LayoutOption]:
    """The same order with other sizes of files and row groups."""
    packing = option.packing
    sizes = [
        replace(packing, target_bytes=max(1, packing.target_bytes // 4)),
        replace(packing, target_bytes=packing.target_bytes * 4),
    ]
    groups = [replace(packing, row_group_rows=rows) for rows in (ROW_GROUP_ROWS // 4, ROW_GROUP_ROWS * 2)]
    return [replace(option, packing=changed) for changed in (*sizes, *groups)]


def _named(option: LayoutOption, default: Packing) -> str:
    """A few words for a layout."""
    packing = option.packing
    words = [f"by {' and '.join(packing.cluster_by)}" if packing.cluster_by else "in the order of the rows"]
    if packing.curve != default.curve:
        words.append(f"along {packing.curve}")
    if option.partition_by is not None:
        words.insert(0, f"partitioned by {', '.join(map(str, option.partition_by)) or 'nothing'},")
    if packing.target_bytes != default.target_bytes:
        words.append(f"in files of {bytes_text(packing.target_bytes)}")
    if packing.row_group_rows != default.row_group_rows:
        words.append(f"in row groups of {packing.row_group_rows:,} rows")
    return " ".join(words)
