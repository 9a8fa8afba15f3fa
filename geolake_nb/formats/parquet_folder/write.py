"""New sets of Parquet files, appends to existing ones, and the rows of Parquet files for other tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.cell_columns import appended_cells
from geolake_nb.changes.column_types import (
    column_option,
    geo_sentences,
    lenient,
    match_rows,
    require_same,
    take_geo_columns,
)
from geolake_nb.changes.new_table import NewTable
from geolake_nb.changes.write_job import ParquetFileRows, ParquetRows, require_partition_columns
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.detect import require_no_owner, require_no_table
from geolake_nb.formats.parquet_folder.commit import require_folder, single_file
from geolake_nb.formats.parquet_folder.format import PARQUET
from geolake_nb.formats.parquet_folder.journal import read_journal
from geolake_nb.formats.parquet_folder.write_target import ParquetTarget, file_types
from geolake_nb.model.cells import with_cell_columns
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.schema import split_path
from geolake_nb.model.types import GeographyType, GeometryType, RasterType
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.changes.write_job import InputRows, Packing
    from geolake_nb.formats.parquet_folder.snapshot import FileProblem, ParquetDetails
    from geolake_nb.model.cells import Cell
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage

__all__ = [
    "columns_with_geo_type",
    "new_table_of",
    "parquet_rows",
    "partial_folders",
    "plan_append",
    "plan_create",
    "require_apart",
    "require_one_type",
]


def require_apart(source: str, target: str) -> None:
    """Raise where one is inside the other: VACUUM deletes files that a table does not reference."""
    left, right = source.rstrip("/") + "/", target.rstrip("/") + "/"
    if left.startswith(right) or right.startswith(left):
        raise RefusedError(
            "the new table and its source files would be in the same folder",
            where=target,
            remedy="give another location",
        )


def require_one_type(snapshot: Snapshot, columns: Mapping[str, GeoType]) -> None:
    """Raise where the files disagree on the type of a column, unless the user declared it."""
    given = {split_path(name)[0] for name in columns}
    details: ParquetDetails = snapshot.details
    for problem in details.problems:
        if not problem.blocks or problem.path is None:
            continue
        if problem.column in given if problem.column is not None else given:
            continue
        where = f"{snapshot.location}, {problem.path}"
        if problem.column is not None:
            where += f", column {problem.column}"
        declare = f"declare its type with {column_option(problem.column or 'NAME')}"
        remedy = declare if _is_geo_problem(snapshot, problem) else "cast it"
        raise SchemaError(problem.what, where=where, remedy=remedy)


def _is_geo_problem(snapshot: Snapshot, problem: FileProblem) -> bool:
    types = {field.name: field.type for field in snapshot.schema.fields}
    return problem.column is None or isinstance(types.get(problem.column), (GeometryType, GeographyType))


def columns_with_geo_type(snapshot: Snapshot) -> frozenset[tuple[str, ...]]:
    """The columns that are a GEOMETRY or GEOGRAPHY of Parquet, with a CRS of their own, in the first file with them."""
    details: ParquetDetails = snapshot.details
    geo: dict[tuple[str, ...], bool] = {}
    schemas = {id(view.parquet_schema): view for view in reversed(details.views)}  # most files share theirs
    for view in reversed(schemas.values()):
        for parts, field in view.parquet_fields.items():
            geo.setdefault(parts, isinstance(field.type, (GeometryType, GeographyType)))
    return frozenset(parts for parts, typed in geo.items() if typed)


def partial_folders(snapshot: Snapshot) -> list[str]:
    """A sentence for each column that only some folders have."""
    details: ParquetDetails = snapshot.details
    partial = [problem for problem in details.problems if problem.path is None and problem.column is not None]
    return [f"The folders {problem.column}= are ignored: {problem.what}." for problem in partial]


def parquet_rows(snapshot: Snapshot, indices: Sequence[int] | None = None) -> ParquetRows:
    """All rows of a set of Parquet files, or those of the files at these indices of its file table."""
    details: ParquetDetails = snapshot.details
    table = snapshot.files.table
    names = snapshot.partition_columns
    values = [dict(zip(names, row, strict=True)) for row in zip(*_partition_values(snapshot), strict=True)]
    paths, sizes, footers = table["path"].to_pylist(), table["bytes"].to_pylist(), details.metadata
    files = tuple(
        ParquetFileRows(paths[index], sizes[index], _groups(footers[index]), values[index] if names else {})
        for index in (range(len(paths)) if indices is None else indices)
    )
    return ParquetRows(details.storage, snapshot.location, files, snapshot)


def _partition_values(snapshot: Snapshot) -> list[list[Any]]:
    return [snapshot.files.table[f"partition.{name}"].to_pylist() for name in snapshot.partition_columns]


def _groups(footer: pq.FileMetaData) -> tuple[int, ...]:
    return tuple(footer.row_group(number).num_rows for number in range(footer.num_row_groups))


def plan_create(new: NewTable) -> Change:
    """The first files of a set."""
    require_no_table(new.target)
    # CRS definitions are stored in the files where needed: the properties here are the user's.
    geo = take_geo_columns(new.schema, new.columns, {}, where=new.location)
    schema, sentences = file_types(geo.schema, where=new.location)
    _check_partitions(schema, new.partition_by, new.location)
    target = ParquetTarget.of(schema, new.partition_by, properties=new.properties)
    return new.change(
        PARQUET,
        new.job(schema, target, geo_input=lenient(geo.inputs)),
        title="A new folder of Parquet files",
        notes=[*geo_sentences(geo.inputs), *(f"The column {sentence}." for sentence in sentences)],
        undo="geolake undo removes the files",
        is_folder=True,
    )


def new_table_of(
    snapshot: Snapshot,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
    cells: tuple[Cell, ...] = (),
) -> NewTable:
    """A new table with the rows of Parquet files; without `partition_by`, their partition folders become columns."""
    require_apart(snapshot.location, target.location)
    # The values of a raster are in no file.
    require_one_type(snapshot, {name: type_ for name, type_ in columns.items() if not isinstance(type_, RasterType)})
    return NewTable(
        parquet_rows(snapshot),
        with_cell_columns(snapshot.schema, cells, where=snapshot.location),
        target,
        columns,
        tuple(partition_by) or snapshot.partition_columns,
        packing,
        properties,
        source=snapshot.location,
        notes=tuple(partial_folders(snapshot)),
        cells=cells,
    )


def plan_append(
    snapshot: Snapshot,
    rows: InputRows,
    *,
    columns: Mapping[str, GeoType],
    packing: Packing,
) -> Change:
    """New files for an existing set; `columns` may repeat the types of geo columns, and must not contradict them."""
    where = snapshot.location
    require_no_owner(snapshot.details.storage)
    require_folder(snapshot, "an append")
    if single_file(snapshot) is not None:
        raise RefusedError("expected a folder to add rows to, got a single file", where=where)
    storage: Storage = snapshot.details.storage
    if any(entry.outcome is None for entry in read_journal(storage)):
        raise RefusedError(
            "a change of the files was interrupted", where=where, remedy="run geolake repair to finish it"
        )
    require_one_type(snapshot, {})
    require_same(snapshot.schema, columns, where)
    geo = take_geo_columns(snapshot.schema, {}, {}, where=where, keeps_crs=columns_with_geo_type(snapshot))
    schema, _ = file_types(geo.schema, where=where)
    partitions = snapshot.partition_columns
    job = packing.job(
        rows,
        schema,
        ParquetTarget.of(schema, partitions, properties=snapshot.properties),
        partition_by=partitions,
        geo_input=lenient(match_rows(rows.schema, schema, where=where)),
        cells=appended_cells(snapshot),
    )
    return Change(
        Verb.WRITE,
        PARQUET,
        where,
        None,
        job=job,
        notes=(f"New files are added to the existing {len(snapshot.files):,}.",),
        undo="geolake undo removes the new files",
        engines=engine_facts(snapshot),
        parameters={"mode": "append", "partitionBy": json.dumps(list(partitions))},
        blind_append=True,
    )


def _check_partitions(schema: Schema, partition_by: Sequence[str], where: str) -> None:
    require_partition_columns(schema, partition_by, where)
    if set(partition_by) >= {field.name for field in schema.fields}:
        raise SchemaError("a file needs a column that is not a partition column", where=where)
