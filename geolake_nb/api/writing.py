"""New tables and new rows: `gl.write`, `gl.publish`, and the plans that make a table of Parquet files."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.api.input_rows import input_rows
from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.formats.registry import FORMATS, HAVASU, ICEBERG, PARQUET
from geolake_nb.model.cells import partition_columns, properties_of_cells, with_cell_columns, with_crs_of
from geolake_nb.model.types import GeographyType, GeometryType, parse_column_types
from geolake_nb.scan.layout_model import has_one_value
from geolake_nb.storage.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.changes.write_job import InputRows
    from geolake_nb.formats.base import Format, TableSource
    from geolake_nb.model.cells import PartitionBy
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import ColumnTypesInput
    from geolake_nb.text.messages import Progress

    IcebergTable = Any

__all__ = ["plan_convert", "plan_in_place", "plan_publish", "plan_write", "publish", "write"]

_MODES = ("append", "create", "overwrite")


def write(
    rows: Any,
    path: str | os.PathLike[str] | IcebergTable,
    *,
    format: str = "delta",  # noqa: A002
    columns: ColumnTypesInput | None = None,
    mode: str = "create",
    partition_by: PartitionBy = (),
    cluster_by: str | Sequence[str] | None = None,
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str | int] | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    single_writer: bool = False,
    on_progress: Progress | None = None,
) -> Report:
    """Create a table, or append rows to one, with correct statistics from the first commit.

    The index of a frame becomes the first columns, by its names. One without a name is left out where it only counts
    the rows (integers), and refused otherwise. An existing table defines its columns itself.

    Args:
        rows: a DataFrame of Spark, or any Arrow-compatible object: a pyarrow table, a pandas or geopandas frame. Or the
            path of a GeoJSON, GeoPackage, FlatGeobuf or Shapefile, which pyogrio reads.
        path: a location, or for Iceberg `catalog.namespace.table`: the catalog chooses the location of a new table. An
            existing table may be one of PyIceberg.
        format: `delta`, `havasu`, `iceberg` or `parquet`.
        columns: the types of geometries and geographies, as types or as text such as `geometry(EPSG:3857)`. The values
            may be WKB, EWKB, WKT or the geo types of Spark and GeoArrow, which need not be named. A column of
            GeoArrow, so of geopandas too, that has no CRS gets the unknown one, `SRID:0`, unless it is named here. A
            CRS `projjson:<property>` is looked up in `properties` and in those of an existing table.
        mode: `create`, `append` or, for Havasu, `overwrite`.
        partition_by: a column, or columns, by which a new table is partitioned; `gl.cell("geom", "h3:5")` is a new
            column with the cell of each row. Appended rows get its values as well; those that they have are replaced.
        cluster_by: a column, or columns, by which rows are clustered; `()` keeps their order. By default rows in memory
            that fill more than one file are clustered by their geo column, where there is one.
        target_file_size: the size of the files, as bytes or as text such as `128MB`.
        row_group_rows: how many rows a row group gets at most, by default 65,536.
        properties: the properties of a new table: strings, numbers, True and False.
        storage_options: options of the store, named as in deltalake.
        spark: the session that writes; by default that of the rows, else the running one, else a new local one. Without
            one, rows in memory are written to an Iceberg table in a configured catalog by PyIceberg, if it is
            installed: no JVM is started.
        single_writer: assert that nobody else writes to a store without atomic writes.
        on_progress: called with the number of tasks that are done and that of all.

    Returns:
        The version that was committed, and how many rows and files it has.

    Raises:
        GeolakeError: rows, a format or a mode that are not understood.
        SchemaError: columns that the format cannot store.
        AlreadyThereError: the location of a new table has one already.
        RefusedError: a feature of the table forbids the change.
        ConflictError: another writer committed what the change depends on; nothing was committed.

    Example:
        >>> gl.write([], "new")
        Traceback (most recent call last):
        geolake_nb.errors.GeolakeError: expected rows to write, got a list; give a DataFrame ...
        >>> import pyarrow as pa
        >>> rows = pa.table({"id": [1], "geom": ["POINT (1 2)"]})
        >>> from geolake_nb.api.writing import plan_write  # makes the plan that gl.write applies
        >>> plan_write(rows, "new", columns={"geom": gl.geometry()})
        Plan('write', '/.../new', '...')
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
    if session is None and plan.change.format is ICEBERG:
        from geolake_nb.pyiceberg.writing import apply_write, can_write

        if can_write(rows, plan._source):
            return apply_write(plan, catalog=getattr(path, "catalog", None))
    return plan.apply(spark=session, single_writer=single_writer, on_progress=on_progress)


def plan_write(
    rows: Any,
    path: str | os.PathLike[str] | IcebergTable,
    *,
    format: str = "delta",  # noqa: A002
    columns: ColumnTypesInput | None = None,
    mode: str = "create",
    partition_by: PartitionBy = (),
    cluster_by: str | Sequence[str] | None = None,
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str | int] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of `write`, to be read before it is applied."""
    from geolake_nb.api.plan import Plan
    from geolake_nb.api.vector_files import is_vector_file, read_vector_file
    from geolake_nb.changes.new_table import NewTable
    from geolake_nb.changes.write_job import Packing, size_of
    from geolake_nb.model.change import of_table

    form = _format(format)
    if mode not in _MODES:
        raise GeolakeError(f"unknown mode {mode!r}", remedy=f"use one of: {', '.join(_MODES)}")
    checked = _properties(properties)
    types = parse_column_types(columns, checked)
    source = _target(path, storage_options, form, new=mode == "create")
    if is_vector_file(rows):
        rows = read_vector_file(rows)
    given = input_rows(rows, types, source.storage.location)
    packing = Packing.of(
        cluster_by=_clustered_by(given, types, size_of(target_file_size)) if cluster_by is None else cluster_by,
        target_file_size=target_file_size,
        row_group_rows=row_group_rows,
        where=source.storage.location,
    )
    if mode == "create":
        names, cells = partition_columns(partition_by)
        cells = with_crs_of(cells, given.schema, types)
        schema = with_cell_columns(given.schema, cells, where=source.storage.location)
        kept = {**checked, **properties_of_cells(cells)}
        new = NewTable(given, schema, source.storage, types, names, packing, kept, cells=cells)
        return _new_plan(form.plan_create(new), source)
    snapshot = source.snapshot()
    if snapshot.format is not form:
        what = f"the table is of {snapshot.format.title}"
        raise RefusedError(what, where=snapshot.location, remedy=f"use format={snapshot.format.name!r}")
    _require_as_is(snapshot, partition_columns(partition_by)[0], checked)
    planned = form.plan_append if mode == "append" else form.plan_overwrite
    change = planned(snapshot, given, columns=parse_column_types(types, snapshot.properties), packing=packing)
    return Plan(of_table(change, snapshot), source)


def plan_convert(
    snapshot: Snapshot,
    target: str | os.PathLike[str],
    *,
    format: str = "delta",  # noqa: A002
    columns: ColumnTypesInput | None = None,
    partition_by: PartitionBy = (),
    cluster_by: str | Sequence[str] = (),
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    properties: Mapping[str, str | int] | None = None,
    storage_options: Mapping[str, str] | None = None,
    storage: Storage | None = None,
    leave_out: Sequence[str] = (),
) -> Plan:
    """A new table at `target` with the rows of a set of Parquet files, or of a Havasu table that `storage` reads."""
    from geolake_nb.changes.write_job import Packing
    from geolake_nb.formats.havasu.convert import new_table_of as new_table_of_havasu
    from geolake_nb.formats.parquet_folder.write import new_table_of

    form = _format(format)
    checked = _properties(properties)
    types = parse_column_types(parse_column_types(columns, checked), snapshot.properties)
    source = _target(target, storage_options, form, new=True)
    packing = Packing.of(
        cluster_by=cluster_by,
        target_file_size=target_file_size,
        row_group_rows=row_group_rows,
        where=source.storage.location,
    )
    names, cells = partition_columns(partition_by)
    if snapshot.format is HAVASU:
        assert storage is not None
        if cells:
            raise RefusedError(
                "rows of a Havasu table cannot be partitioned by cells while they are converted",
                where=snapshot.location,
                remedy="convert it without cells, then convert the new table with partition_by=gl.cell(...)",
            )
        new = new_table_of_havasu(
            snapshot,
            storage,
            source.storage,
            columns=types,
            partition_by=names,
            packing=packing,
            properties=checked,
            leave_out=leave_out,
        )
        return _new_plan(form.plan_create(new), source)
    if leave_out:
        raise RefusedError("only columns of Havasu tables are left out", where=snapshot.location)
    cells = with_crs_of(cells, snapshot.schema, types)
    new = new_table_of(
        snapshot,
        source.storage,
        columns=types,
        partition_by=names,
        properties={**checked, **properties_of_cells(cells)},
        cells=cells,
        packing=packing,
    )
    return _new_plan(form.plan_create(new), source)


def publish(
    folder: str | os.PathLike[str],
    *,
    format: str = "delta",  # noqa: A002
    columns: ColumnTypesInput | None = None,
    leave_files: bool = False,
    storage_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    single_writer: bool = False,
    on_progress: Progress | None = None,
) -> Report:
    """Make a table of a folder of Parquet or GeoParquet files where they lie, without copying their data.

    Footers get the geo types and boxes that they lack, and their pages stay byte for byte. `report.undo()` restores the
    folder while the table has no other version.

    Args:
        folder: the folder of the files: a path or a URL.
        format: `delta` or `iceberg`, which becomes a table of version 3.
        columns: the types of columns of WKB that the files do not declare, as types or as text.
        leave_files: change no file; `Table.plan_publish` says what the files then lack.
        storage_options: options of the store, named as in deltalake.
        spark: the session that reads values for bounds where there are many; by default threads of this process.
        single_writer: assert that nobody else writes to a store without atomic writes.
        on_progress: called with the number of files that are done and that of all.

    Returns:
        The version that was committed, and how many files it has.

    Raises:
        RefusedError: the files are a table already, or cannot be one without a copy.
        SchemaError: files that differ in a type, or a type that the format does not read in files.
        ConflictError: a file was changed meanwhile, or another writer made a table of the files.

    Example:
        >>> report = gl.publish("parcels")
        >>> report.version, gl.open("parcels").snapshot.format.name
        (0, 'delta')
        >>> report.undo().verb, gl.open("parcels").snapshot.format.name
        ('undo', 'parquet')
    """
    from geolake_nb.api.opening import open as open_table

    def apply() -> tuple[Plan, Report]:
        table = open_table(os.fspath(folder), storage_options=storage_options)
        plan = table.plan_publish(format=format, columns=columns, leave_files=leave_files, on_progress=on_progress)
        return plan, plan.apply(spark=spark, single_writer=single_writer, on_progress=on_progress)

    plan, report = apply()
    if plan.change.format is PARQUET:  # it completed an interrupted change, which may have been another one
        made = open_table(os.fspath(folder), storage_options=storage_options)
        if made.snapshot.format is PARQUET:
            plan, report = apply()
    return report


def plan_publish(
    snapshot: Snapshot,
    source: TableSource,
    *,
    format: str = "delta",  # noqa: A002
    columns: ColumnTypesInput | None = None,
    leave_files: bool = False,
    on_progress: Progress | None = None,
) -> Plan:
    """A table of a set of Parquet files where they lie."""
    from geolake_nb.api.plan import Plan

    form = _format(format)
    types = parse_column_types(columns, snapshot.properties)
    change = form.plan_publish(snapshot, columns=types, leave_files=leave_files, on_progress=on_progress)
    return Plan(change, replace(source, format=form, storage=snapshot.details.storage, detected=None))


def plan_in_place(
    snapshot: Snapshot,
    storage: Storage,
    target: str | os.PathLike[str],
    *,
    format: str = "iceberg",  # noqa: A002
    layout: Sequence[Any] = (),
    columns: ColumnTypesInput | None = None,
    storage_options: Mapping[str, str] | None = None,
    leave_out: Sequence[str] = (),
) -> Plan:
    """An Iceberg table of version 3 at `target` over the files of a Havasu table, which `storage` reads."""
    from geolake_nb.api.plan import Plan
    from geolake_nb.formats.base import TableSource
    from geolake_nb.formats.havasu.in_place import plan_in_place as planned

    where = snapshot.location
    if snapshot.format is not HAVASU:
        remedy = "use plan_publish, or --in-place without a target"
        raise RefusedError("a set of files becomes a table where it lies", where=where, remedy=remedy)
    if _format(format) is not ICEBERG:
        remedy = "use format='iceberg'"
        raise RefusedError("the files of a Havasu table become an Iceberg table", where=where, remedy=remedy)
    if any(layout):
        raise RefusedError("in place, files stay as they are", where=where, remedy="leave out what lays rows out")
    path = os.fspath(target)
    # The new table reads the files where they lie.
    there = Storage.at(path, options=dict(storage_options or {})).allowing(snapshot.location)
    types = parse_column_types(columns, snapshot.properties)
    change = planned(snapshot, storage, there, columns=types, leave_out=leave_out)
    return Plan(change, TableSource(ICEBERG, there, path, dict(storage_options or {})))


def _clustered_by(given: InputRows, types: Mapping[str, object], target_bytes: int) -> tuple[str, ...]:
    """The only geo column of rows in memory that fill more than one file; nothing for other rows.

    How large the rows of Spark are is not known before they are written: their order is kept.
    """
    size = getattr(given.frame, "nbytes", None)
    geo = {path for path, field in given.schema.geo_columns() if isinstance(field.type, GeometryType | GeographyType)}
    columns = geo | set(types)
    if not isinstance(size, int) or size <= target_bytes or len(columns) != 1:
        return ()
    column = next(iter(columns))
    return (column,) if has_one_value(given.schema, column) else ()


def _new_plan(change: Change, source: TableSource) -> Plan:
    """The plan of a new table; a catalog chooses the location of its tables."""
    from geolake_nb.api.plan import Plan

    if source.catalog is not None:
        chosen = f"The catalog {source.catalog.catalog} chooses the location of the files."
        undo = "drop the table in its catalog: it has no earlier version"
        change = replace(change, notes=(*change.notes, chosen), undo=undo)
    return Plan(change, source)


def _format(name: str) -> Format:
    known = FORMATS.get(name.lower())
    if known is None:
        raise GeolakeError(f"unknown format {name!r}", remedy=f"use one of: {', '.join(sorted(FORMATS))}")
    return known


def _refuse_catalog(path: str) -> None:
    """Raise for a name in a configured catalog, which would be taken for a folder."""
    from geolake_nb.formats.havasu.metadata import catalog_refusal
    from geolake_nb.formats.iceberg.catalogs import split_table_name

    named = split_table_name(path)
    if named is not None:
        raise catalog_refusal(f"{named[0]} is a configured catalog", where=path)


def _target(place: Any, options: Mapping[str, str] | None, form: Format, *, new: bool) -> TableSource:
    from geolake_nb.api.opening import named_source, new_source
    from geolake_nb.formats.base import TableSource

    storage_options = dict(options or {})
    if type(place).__module__.startswith("pyiceberg."):
        return _table_of_pyiceberg(place, storage_options, form, new=new)
    path = os.fspath(place)
    # A table in a catalog is identified by its name there.
    find = new_source if new else named_source
    named = find(path, storage_options) if form.named_in_catalogs and "/" not in path else None
    if named is not None:
        return named
    if form is HAVASU and "/" not in path:
        _refuse_catalog(path)
    # Only the metadata tells Havasu from Iceberg: both are located the same way.
    format_ = ICEBERG if form is HAVASU else form
    return TableSource(format_, Storage.at(path, options=storage_options), path, storage_options)


def _table_of_pyiceberg(table: Any, options: dict[str, str], form: Format, *, new: bool) -> TableSource:
    from geolake_nb.formats.iceberg.catalogs import from_pyiceberg, table_exists_error
    from geolake_nb.formats.open_source import catalog_source

    known = from_pyiceberg(table)
    if new or form is not ICEBERG:
        if form is ICEBERG:
            raise table_exists_error(known.name)
        raise GeolakeError("a table of PyIceberg is one of Iceberg", where=known.name, remedy="use format='iceberg'")
    return catalog_source(known, options)


def _properties(given: Mapping[str, str | int] | None) -> dict[str, str]:
    """The properties as tables store them: strings.

    >>> _properties({"delta.appendOnly": True, "n": 3, "a": "b"}), _properties(None)
    ({'delta.appendOnly': 'true', 'n': '3', 'a': 'b'}, {})
    """
    texts: dict[str, str] = {}
    for name, value in (given or {}).items():
        for part, what in ((name, "the name of a property"), (value, f"the property {name!r}")):
            if not isinstance(part, str if part is name else str | int):
                kind = "None" if part is None else f"a {type(part).__name__}"
                raise GeolakeError(
                    f"expected {what} to be a string, got {kind}", remedy="give a string, or leave it out"
                )
        texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def _require_as_is(snapshot: Snapshot, partition_by: Collection[str], properties: Mapping[str, str]) -> None:
    if partition_by and tuple(partition_by) != snapshot.partition_columns:
        current = ", ".join(snapshot.partition_columns) or "nothing"
        what = f"the table is partitioned by {current}"
        raise RefusedError(what, where=snapshot.location, remedy="leave partition_by out")
    if properties:
        raise RefusedError("appending rows cannot set properties", where=snapshot.location)


def _session_of(rows: Any) -> SparkSession | None:
    session: SparkSession | None = getattr(rows, "sparkSession", None)
    return session
