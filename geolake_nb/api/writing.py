"""New tables and new rows: `gl.write`, and the plan that makes a table of Parquet files."""

from __future__ import annotations

import importlib
import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, MissingDependencyError, RefusedError, SchemaError
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.formats.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from geolake_nb.api.opening import Source
    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.core.types import GeographyType, GeometryType
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.change import Change
    from geolake_nb.planning.writing.row_sources import GivenRows

    Progress = Callable[[int, int], None]
    GeoType = GeometryType | GeographyType

__all__ = ["plan_convert", "plan_write", "write"]

_PLANNERS = {"append": "plan_append", "create": "plan_new", "overwrite": "plan_overwrite"}
_MIXED = re.compile(r"(geometry|geography)\(SRID:ANY\b", re.IGNORECASE)


def write(
    rows: Any,
    path: str | os.PathLike[str],
    *,
    format: str = "delta",  # noqa: A002
    columns: Mapping[str, GeoType] | None = None,
    mode: str = "create",
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    single_writer: bool = False,
    on_progress: Progress | None = None,
) -> Report:
    """Make a table of rows, or add rows to one, with statistics that are right from the first commit.

    `rows` is a DataFrame of Spark, or anything that speaks Arrow: a pyarrow table, a pandas or geopandas frame.
    `path` is a place, or for Iceberg `catalog.namespace.table`: a new table lies where its catalog says. `columns` says
    which columns are geometries or geographies; they may be WKB, EWKB, WKT or Spark's own geo types, which need not
    be named. `mode` is `create`, `append` or, for Havasu, `overwrite`; a table that is there says itself what its
    columns are. `format` is one of `delta, havasu, iceberg, parquet`.

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
    columns: Mapping[str, GeoType] | None = None,
    mode: str = "create",
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Plan:
    """What `write` would do, to be read before it is applied."""
    from geolake_nb.api.plan import Plan
    from geolake_nb.planning.change import of_table
    from geolake_nb.planning.writing.packing import Packing

    form = _format(format)
    if mode not in _PLANNERS:
        raise GeolakeError(f"mode {mode!r} is not known", remedy=f"use one of: {', '.join(_PLANNERS)}")
    planned = _planner(form, _PLANNERS[mode])
    source = _target(os.fspath(path), storage_options, form, new=mode == "create")
    packing = Packing.of(
        cluster_by=cluster_by,
        target_file_size=target_file_size,
        row_group_rows=row_group_rows,
        where=source.storage.location,
    )
    given = _given(rows, columns or {}, source.storage.location)
    if mode == "create":
        change = planned(
            given,
            source.storage,
            columns=columns or {},
            partition_by=_names(partition_by),
            properties=properties or {},
            packing=packing,
        )
        return _new_plan(change, source)
    snapshot = source.snapshot()
    if snapshot.format is not form:
        what = f"the table is of {snapshot.format.value.capitalize()}"
        raise RefusedError(what, where=snapshot.location, remedy=f"use format={snapshot.format.value!r}")
    _require_as_is(snapshot, _names(partition_by), properties)
    change = planned(snapshot, given, columns=columns or {}, packing=packing)
    return Plan(of_table(change, snapshot), source)


def plan_convert(
    snapshot: Snapshot,
    target: str | os.PathLike[str],
    *,
    format: str = "delta",  # noqa: A002
    columns: Mapping[str, GeoType] | None = None,
    partition_by: str | Sequence[str] = (),
    cluster_by: str | Sequence[str] = (),
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Plan:
    """A new table at `target` with the rows of a set of Parquet files."""
    from geolake_nb.planning.writing.packing import Packing

    form = _format(format)
    source = _target(os.fspath(target), storage_options, form, new=True)
    change = _planner(form, "plan_convert")(
        snapshot,
        source.storage,
        columns=columns or {},
        partition_by=_names(partition_by),
        properties=properties or {},
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


def _require_as_is(snapshot: Snapshot, partition_by: Collection[str], properties: Mapping[str, str] | None) -> None:
    if partition_by and tuple(partition_by) != snapshot.partition_columns:
        held = ", ".join(snapshot.partition_columns) or "nothing"
        what = f"the table is partitioned by {held}"
        raise RefusedError(what, where=snapshot.location, remedy="leave partition_by out")
    if properties:
        raise RefusedError("rows that are added set no properties", where=snapshot.location)


def _session_of(rows: Any) -> SparkSession | None:
    session: SparkSession | None = getattr(rows, "sparkSession", None)
    return session


def _given(rows: Any, columns: Mapping[str, GeoType], where: str) -> GivenRows:
    if type(rows).__module__.startswith("pyspark.sql"):
        return _given_frame(rows, columns, where)
    return _given_arrow(_arrow(rows), where)


def _given_frame(frame: Any, columns: Mapping[str, GeoType], where: str) -> GivenRows:
    """A DataFrame with the schema that its JVM knows: Python's Spark cannot say all of its geo types."""
    from geolake_nb.core.schema import join_path, split_path
    from geolake_nb.core.schema_delta import from_delta_schema
    from geolake_nb.planning.writing.row_sources import GivenRows

    text = frame._jdf.schema().json() if hasattr(frame, "_jdf") else frame.schema.json()
    value = json.loads(text)
    asked = {join_path(split_path(name)).casefold() for name in columns}
    for field in value["fields"]:
        if isinstance(field["type"], str) and _MIXED.match(field["type"]):
            if field["name"].casefold() not in asked:
                raise SchemaError(
                    "its values may have any SRID",
                    where=f"{where}, column {field['name']}",
                    remedy="say with columns= which CRS it has: values of others are then refused",
                )
            field["type"] = "binary"  # with the SRID beside it, which is checked
    return GivenRows(frame, from_delta_schema(json.dumps(value)))


def _arrow(rows: Any) -> Any:
    import pyarrow as pa

    try:
        import geoarrow.pyarrow  # noqa: F401 - registers the types of shapes
    except ImportError:
        raise MissingDependencyError("shapes in Arrow need geoarrow-pyarrow", remedy="install it") from None
    module = type(rows).__module__
    if module.startswith("geopandas"):
        rows = rows.to_arrow(index=False)
    elif module.startswith("pandas"):
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if not hasattr(rows, "__arrow_c_stream__"):
        raise GeolakeError(
            f"a {type(rows).__name__} holds no rows to write",
            remedy="give a DataFrame of Spark, pandas or geopandas, or an Arrow table",
        )
    # Through the C interface, so that shapes have their types whenever the table was made.
    return pa.RecordBatchReader.from_stream(rows).read_all()


def _given_arrow(table: Any, where: str) -> GivenRows:
    """An Arrow table with the schema that Parquet would have for it."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    from geolake_nb.core.schema_parquet import from_parquet_schema
    from geolake_nb.planning.writing.row_sources import GivenRows

    file = io.BytesIO()
    try:
        pq.write_table(table.slice(0, 0).replace_schema_metadata(None), file, store_schema=False)
        schema = from_parquet_schema(pq.read_metadata(file))
    except pa.ArrowException as problem:
        raise SchemaError(f"the rows cannot be written: {str(problem).splitlines()[0]}", where=where) from None
    return GivenRows(table, schema)
