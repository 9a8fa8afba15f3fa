"""The score of a table's layout, and the plan that brings it near its best."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import shapely

from geolake_nb.api.opening import whole_number
from geolake_nb.changes.maintain import NEAR_BEST, choose_files
from geolake_nb.changes.write_job import Packing, size_of
from geolake_nb.errors import ConflictError, GeolakeError, NoGeoColumnError, RefusedError
from geolake_nb.expressions.filter_input import FilterInput
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.display import Displayable
from geolake_nb.model.file_table import physical_rows
from geolake_nb.scan.data_files import sample_shapes
from geolake_nb.scan.layout import layout_of, with_versions
from geolake_nb.scan.layout_model import LayoutModel, RowPlaces, has_one_value, layout_column, read_queries
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.api.plan import Report
    from geolake_nb.api.table import Table
    from geolake_nb.formats.base import Format
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.layout import Layout
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["MaintenanceReport", "Queries", "listed_queries", "maintain", "maintenance_change", "table_layout"]

Queries: TypeAlias = Sequence[FilterInput] | str | os.PathLike[str]
"""A list of filters, or the path of a file with one per line."""

_SAMPLED_FILES = 8
_PLACED_FILES = 32
_SAMPLED_SHAPES = 100


def table_layout(
    table: Table,
    queries: Queries | None,
    *,
    column: str | None,
    target_file_size: int | str,
    versions: int,
    sample: bool,
) -> Layout:
    """The score of a table, and of the versions before it."""
    snapshot = table.snapshot
    name = _clustered_by(snapshot, column)
    if name is None:
        raise NoGeoColumnError("the table has no geo column with one value per row", where=snapshot.location)
    remedy = "give how many versions to measure, such as 10; 0 measures this one only"
    count = whole_number("versions", versions, remedy=remedy) or 0
    if count < 0:
        raise GeolakeError(f"{count} versions cannot be measured", where=snapshot.location, remedy=remedy)
    wanted = listed_queries(queries)
    size = size_of(target_file_size)
    extent: tuple[float, float] = (0.0, 0.0)
    places = None
    if sample:
        extent, places = _sampled(table._storage, snapshot, name, files=_PLACED_FILES)
    layout = layout_of(snapshot, name, target_bytes=size, queries=wanted, extent=extent, places=places)
    if not count:
        return layout
    entries = list(table.history())
    at = next((index for index, entry in enumerate(entries) if entry.version == snapshot.version), len(entries))
    entries = entries[at + 1 :][: count - 1]
    older = [table.at(entry.version).snapshot for entry in reversed(entries)]
    measured = [
        layout_of(earlier, name, target_bytes=size, queries=wanted, extent=extent, places=places)
        for earlier in older
        if name in earlier.files.geo_columns
    ]
    return with_versions(layout, [*measured, layout])


def maintenance_change(
    format_: Format,
    storage: Storage,
    snapshot: Snapshot,
    *,
    budget: int | str,
    target: float | None,
    target_file_size: int | str,
    column: str | None,
    queries: Queries | None,
    repair: bool,
    on_progress: Progress | None = None,
) -> Change:
    """The repair of bounds that are missing, else the rewrite of the files that are worth it."""
    near = NEAR_BEST if target is None else float(target)
    if not near >= 1:
        remedy = "give how many times the best is near enough, such as 1.25"
        raise RefusedError(f"a target of {near:g} cannot be reached", where=snapshot.location, remedy=remedy)
    name = _clustered_by(snapshot, column)
    wanted = listed_queries(queries)
    if repair and name is not None and _lacks_bounds(snapshot, name):
        change = format_.plan_repair(storage, snapshot, columns=[name], verify=False, on_progress=on_progress)
        if not change.is_empty:
            first = "Bounds are repaired first: the next plan chooses files by them."
            return replace(change, notes=(first, *change.notes))
    packing = Packing.of(
        cluster_by=() if name is None else name, target_file_size=target_file_size, where=snapshot.location
    )
    model = None
    if name is not None:
        extent = _sampled(storage, snapshot, name)[0] if len(snapshot.files) > 1 else (0.0, 0.0)
        model = LayoutModel(snapshot, name, target_bytes=packing.target_bytes, queries=wanted, extent=extent)
    choice = choose_files(snapshot, model, budget=size_of(budget), target_bytes=packing.target_bytes, near=near)
    if not choice.files:
        return Change(Verb.REWRITE, snapshot.format, snapshot.location, snapshot.version, notes=choice.notes)
    change = format_.plan_rewrite(storage, snapshot, packing=packing, where=None, files=choice.files)
    return replace(change, notes=(*choice.notes, *change.notes))


@dataclass(frozen=True, slots=True)
class MaintenanceReport(Displayable):
    """What maintenance did to a table, and why.

    Example:
        >>> print(MaintenanceReport("/t", None, (), ("There is nothing to maintain.",), 1, 0.1, 0.1))
        maintain /t: nothing to do; a query reads 10.0% of the bytes. There is nothing to maintain.
    """

    location: str
    version: int | None
    """The version that was committed last; `None` where nothing was."""
    steps: tuple[Report, ...]
    """The repair and the rewrite that were made."""
    notes: tuple[str, ...]
    """Why, or why nothing was done."""
    attempts: int
    """How often it was planned; more than once where other writers came first."""
    before: float | None
    """The share of the bytes that a query read."""
    after: float | None
    """The share that it reads now."""

    def to_dict(self) -> dict[str, Any]:
        """The report with plain values, ready for JSON.

        Returns:
            A dict with stable keys: `geolake help json` lists them.

        Example:
            >>> sorted(t.maintain().to_dict())
            ['after', 'attempts', 'before', 'location', 'notes', 'steps', 'version']
        """
        return {
            "location": self.location,
            "version": self.version,
            "attempts": self.attempts,
            "before": self.before,
            "after": self.after,
            "steps": [step.to_dict() for step in self.steps],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        head = f"maintain {printable(self.location)}: "
        if not self.steps:
            read = "" if self.before is None else f"; a query reads {self.before:.1%} of the bytes"
            return f"{head}nothing to do{read}. {' '.join(self.notes[-1:])}".rstrip()
        done = ", ".join(
            " ".join(
                [step.verb, *(f"{name.replace('_', ' ')} {value:,}" for name, value in step.metrics.items() if value)]
            )
            for step in self.steps
        )
        shares = ["unknown" if share is None else f"{share:.1%}" for share in (self.before, self.after)]
        read = f"a query read {shares[0]} of the bytes, now {shares[1]}"
        return f"{head}version {self.version}; {done}; {read}. {' '.join(self.notes)}"


def maintain(
    table: Table,
    *,
    attempts: int,
    spark: SparkSession | None,
    single_writer: bool,
    on_progress: Progress | None,
    **options: Any,
) -> MaintenanceReport:
    """Repair and rewrite a table, planning anew where another writer came first."""
    remedy = "give how often to plan, such as 3"
    most = whole_number("attempts", attempts, remedy=remedy) or 0
    if most < 1:
        raise GeolakeError(f"{most} attempts do nothing", where=table.location, remedy=remedy)
    before = _share(table, options)
    steps: list[Report] = []
    notes: list[str] = []
    tries, repair = 1, True
    while True:
        plan = table.plan_maintain(repair=repair, **options)
        if plan.is_empty:
            notes += plan.change.notes
            break
        try:
            report = plan.apply(spark=spark, single_writer=single_writer, on_progress=on_progress)
        except ConflictError:
            if tries >= most:
                raise
            tries, table = tries + 1, table.newest()
            continue
        notes += plan.change.notes
        table = table.newest()
        if report.version is not None:
            steps.append(report)
        if plan.change.verb is not Verb.REPAIR:
            break
        repair = False  # what a repair leaves without bounds cannot get them
    version = steps[-1].version if steps else None
    return MaintenanceReport(table.location, version, tuple(steps), tuple(notes), tries, before, _share(table, options))


def _share(table: Table, options: Mapping[str, Any]) -> float | None:
    if _clustered_by(table.snapshot, options["column"]) is None:
        return None
    size, queries = options["target_file_size"], options["queries"]
    return table.layout(queries, column=options["column"], target_file_size=size).share


def listed_queries(queries: Queries | None) -> list[FilterInput] | None:
    """The filters of a list or of a file; `None` where windows are drawn."""
    if queries is None:
        return None
    return read_queries(queries) if isinstance(queries, str | os.PathLike) else list(queries)


def _clustered_by(snapshot: Snapshot, column: str | None) -> str | None:
    """The column that is named, or the first that rows can be clustered by."""
    if column is None:
        return layout_column(snapshot)
    if column not in snapshot.files.geo_columns or not has_one_value(snapshot.schema, column):
        what = f"{printable(column, 100)!r} is not a geo column with one value per row"
        raise NoGeoColumnError(what, where=snapshot.location, remedy="t.schema lists the columns")
    return column


def _lacks_bounds(snapshot: Snapshot, column: str) -> bool:
    boxes = snapshot.files.boxes(column)
    return bool((~boxes.known & ~boxes.only_null_or_empty).any())


def _sampled(
    storage: Storage, snapshot: Snapshot, column: str, *, files: int = _SAMPLED_FILES
) -> tuple[tuple[float, float], RowPlaces | None]:
    """How wide and high nearly all geometries are, and where they are, by some of a few files.

    They are 0 and `None` where no geometry can be read.
    """
    count = len(snapshot.files)
    parts = min(count, files)
    some = sorted({number * count // parts for number in range(parts)})
    physical = np.nan_to_num(physical_rows(snapshot.files.table).to_numpy().astype(np.float64), nan=1.0)
    bounds, rows = [], []
    for index in some:
        try:
            shapes = sample_shapes(storage, snapshot, index, column, _SAMPLED_SHAPES)
        except GeolakeError:
            continue
        bounds.append(shapely.bounds(shapes))
        rows.append(np.full(len(shapes), physical[index] / max(1, len(shapes))))
    known = np.concatenate(bounds) if bounds else np.zeros((0, 4))
    finite = np.isfinite(known).all(axis=1)
    if not finite.any():
        return (0.0, 0.0), None
    known, weight = known[finite], np.concatenate(rows)[finite]
    wide, high = np.quantile(known[:, 2:] - known[:, :2], 0.9, axis=0).tolist()
    middles = known[:, :2] / 2 + known[:, 2:] / 2
    return (max(0.0, wide), max(0.0, high)), RowPlaces(middles[:, 0], middles[:, 1], weight)
