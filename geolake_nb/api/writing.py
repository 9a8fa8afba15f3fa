"""New tables and new rows: `gl.write`, and the plan that makes a table of Parquet files."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.api.column_types import said_types
from geolake_nb.api.given_rows import given_rows
from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.formats.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from geolake_nb.api.column_types import SaidTypes
    from geolake_nb.api.opening import Source
    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.change import Change

    Progress = Callable[[int, int], None]

__all__ = ["plan_convert", "plan_write", "write"]

_PLANNERS = {"append": "plan_append", "create": "plan_new", "overwrite": "plan_overwrite"}


def write(
    rows: Any,
    path: str | os.PathLike[str],
    *,
    format: str = "delta",  # noqa: A002
    columns: SaidTypes | None = None,
    mode: str = "create",
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str | int] | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    single_writer: bool = False,
    on_progress: Progress | None = None,
) -> Report:
    """Make a table of rows, or add rows to one, with statistics that are right from the first commit.

    `rows` is a DataFrame of Spark, or anything that speaks Arrow: a pyarrow table, a pandas or geopandas frame. The
    index of a frame becomes the first columns, by its names. One without a name is left out where it only counts the
    rows (integers), and refused otherwise. `path` is a place, or for Iceberg `catalog.namespace.table`: a new
    table lies where its catalog says. `format` is one of `delta, havasu, iceberg, parquet`. `mode` is `create`,
    `append` or, for Havasu, `overwrite`; a table that is there says itself what its columns are.

    `columns` says which columns are geometries or geographies, as types or as texts such as `geometry(EPSG:3857)`; they
    may be WKB, EWKB, WKT or the geo types of Spark and GeoArrow, which need not be named. A column of GeoArrow, so of
    geopandas too, that has no CRS gets the unknown one, `SRID:0`, unless `columns` says which it has. `properties` are
    those of a new table: texts, numbers, True and False.

    >>> write([], "/tmp/t")
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: a list holds no rows to write; give a DataFrame of Spark, pandas or geopandas, ...
    """
    plan = plan_write(
        rows,
        path,
        format=format,
        columns=columns,
        mode=mode,
        partition_by=partition_by,
        cluster_by=cluster_by,
        target_file_size=target_file_size,
        row_group_rows=row_group_rows,
        properties=properties,
        storage_options=storage_options,
    )
    session = spark or _session_of(rows)
    return plan.apply(spark=session, single_writer=single_writer, on_progress=on_progress)


def plan_write(
    rows: Any,
    path: str | os.PathLike[str],
    *,
    format: str = "delta",  # noqa: A002
    columns: SaidTypes | None = None,
    mode: str = "create",
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str | int] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Plan:
    """What `write` would do, to be read before it is applied."""
    from geolake_nb.api.plan import Plan
    from geolake_nb.planning.change import of_table
    from geolake_nb.planning.writing.packing import Packing

    form = _format(format)
    if mode not in _PLANNERS:
        raise GeolakeError(f"mode {mode!r} is not known", remedy=f"use one of: {', '.join(_PLANNERS)}")
    types = said_types(columns)
    held = _properties(properties)
    planned = _planner(form, _PLANNERS[mode])
    source = _target(os.fspath(path), storage_options, form, new=mode == "create")
    packing = Packing.of(
        cluster_by=cluster_by,
        target_file_size=target_file_size,
        row_group_rows=row_group_rows,
        where=source.storage.location,
    )
    given = given_rows(rows, types, source.storage.location)
    if mode == "create":
        change = planned(
            given,
            source.storage,
            columns=types,
            partition_by=_names(partition_by),
            properties=held,
            packing=packing,
        )
        return _new_plan(change, source)
    snapshot = source.snapshot()
    if snapshot.format is not form:
        what = f"the table is of {snapshot.format.value.capitalize()}"
        raise RefusedError(what, where=snapshot.location, remedy=f"use format={snapshot.format.value!r}")
    _require_as_is(snapshot, _names(partition_by), held)
    change = planned(snapshot, given, columns=types, packing=packing)
    return Plan(of_table(change, snapshot), source)


def plan_convert(
    snapshot: Snapshot,
    target: str | os.PathLike[str],
    *,
    format: str = "delta",  # noqa: A002
    columns: SaidTypes | None = None,
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str | int] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Plan:
    """A new table at `target` with the rows of a set of Parquet files."""
    from geolake_nb.planning.writing.packing import Packing

    form = _format(format)
    types = said_types(columns)
    source = _target(os.fspath(target), storage_options, form, new=True)
    change = _planner(form, "plan_convert")(
        snapshot,
        source.storage,
        columns=types,
        partition_by=_names(partition_by),
        properties=_properties(properties),
        packing=Packing.of(
            cluster_by=cluster_by,
            target_file_size=target_file_size,
            row_group_rows=row_group_rows,
            where=source.storage.location,
        ),
    )
    return _new_plan(change, source)


def _new_plan(change: Change, source: Source) -> Plan:
    """The plan of a table that is to be; one that a catalog makes lies where that says."""
    from geolake_nb.api.plan import Plan

    if source.catalog is not None:
        chosen = f"The catalog {source.catalog.catalog} chooses where the files lie."
        undo = "drop the table in its catalog: there is no earlier version to go back to"
        change = replace(change, says=(*change.says, chosen), undo=undo)
    return Plan(change, source)


def _format(name: str) -> TableFormat:
    try:
        return TableFormat(name.lower())
    except ValueError:
        known = ", ".join(sorted(one.value for one in TableFormat))
        raise GeolakeError(f"format {name!r} is not known", remedy=f"use one of: {known}") from None


def _planner(form: TableFormat, name: str) -> Callable[..., Change]:
    """The function that decides what is written in this format."""
    module = importlib.import_module(f"geolake_nb.planning.{form.value}.new")
    found: Callable[..., Change] | None = getattr(module, name, None)
    if found is None:
        what = f"{name.removeprefix('plan_')} is not offered for {form.value} tables"
        raise RefusedError(what, remedy="use mode='create' or mode='append'")
    return found


def _target(path: str, options: Mapping[str, str] | None, form: TableFormat, *, new: bool) -> Source:
    from geolake_nb.api.opening import Source, named_source, new_source

    held = dict(options or {})
    # A table that a catalog keeps goes by its name there.
    find = new_source if new else named_source
    named = find(path, held) if form is TableFormat.ICEBERG and "/" not in path else None
    if named is not None:
        return named
    # What is Havasu shows in the metadata alone: it is found as Iceberg is.
    found = TableFormat.ICEBERG if form is TableFormat.HAVASU else form
    return Source(found, Storage.at(path, options=held), path, held)


def _names(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _properties(given: Mapping[str, str | int] | None) -> dict[str, str]:
    """The properties as tables hold them: texts, and nothing else.

    >>> _properties({"delta.appendOnly": True, "n": 3, "a": "b"}), _properties(None)
    ({'delta.appendOnly': 'true', 'n': '3', 'a': 'b'}, {})
    """
    held: dict[str, str] = {}
    for name, value in (given or {}).items():
        for part, told in ((name, "the name of a property"), (value, f"the property {name!r}")):
            if not isinstance(part, str if part is name else str | int):
                kind = "None" if part is None else f"a {type(part).__name__}"
                raise GeolakeError(f"{told} is {kind}, and not a text", remedy="give a text, or leave it out")
        held[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return held


def _require_as_is(snapshot: Snapshot, partition_by: Collection[str], properties: Mapping[str, str]) -> None:
    if partition_by and tuple(partition_by) != snapshot.partition_columns:
        held = ", ".join(snapshot.partition_columns) or "nothing"
        what = f"the table is partitioned by {held}"
        raise RefusedError(what, where=snapshot.location, remedy="leave partition_by out")
    if properties:
        raise RefusedError("rows that are added set no properties", where=snapshot.location)


def _session_of(rows: Any) -> SparkSession | None:
    session: SparkSession | None = getattr(rows, "sparkSession", None)
    return session
