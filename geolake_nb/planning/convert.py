"""A set of Parquet files becomes a new Delta table: which columns, of which types, from which files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema import split_path
from geolake_nb.core.type_text import to_delta_text
from geolake_nb.core.types import GeographyType, GeometryType
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.delta.snapshot import is_delta
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.creating import NewTable, plan_create, with_indexed_geo
from geolake_nb.planning.delta_types import delta_columns
from geolake_nb.planning.geo_columns import geo_sentences, take_geo_columns
from geolake_nb.planning.row_sources import ParquetFileRows, ParquetRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.formats.parquet_files import FileProblem, ParquetDetails
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.packing import Packing
    from geolake_nb.planning.row_sources import GivenRows

    GeoType = GeometryType | GeographyType

__all__ = [
    "parquet_rows",
    "partial_folders",
    "plan_convert",
    "plan_new",
    "require_apart",
    "require_no_table",
    "require_one_type",
]


def plan_convert(
    snapshot: Snapshot,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that makes a Delta table of the rows; geo columns that the files name are taken by themselves.

    `columns` adds some or says otherwise. Without `partition_by`, the folders of a partitioned set count.
    """
    require_no_table(target)
    require_apart(snapshot.location, target.location)
    require_one_type(snapshot, columns)
    geo = take_geo_columns(snapshot.schema, columns, properties, where=snapshot.location)
    schema, told = delta_columns(geo.schema, where=snapshot.location)
    partitions = tuple(partition_by) or snapshot.partition_columns
    held = with_indexed_geo(schema, geo.properties, partitions, geo.paths)
    table = NewTable(target.location, schema, partitions, held)
    rows = parquet_rows(snapshot)
    return plan_create(
        Verb.CONVERT,
        table,
        rows,
        geo_input=geo.inputs,
        packing=packing,
        expected_rows=rows.rows,
        reads=Reads(len(rows.files), sum(one.bytes for one in rows.files)),
        says=[
            f"A new Delta table gets the {rows.rows:,} rows of {len(rows.files):,} Parquet files.",
            *geo_sentences(geo.inputs),
            *[f"The column {sentence}." for sentence in told],
            *partial_folders(snapshot),
        ],
        parameters={
            "source": snapshot.location,
            "columns": json.dumps({path: to_delta_text(one.type) for path, one in geo.inputs.items()}),
            "partitionBy": json.dumps(list(partitions)),
        },
    )


def plan_new(
    rows: GivenRows,
    target: Storage,
    *,
    columns: Mapping[str, GeoType],
    partition_by: Sequence[str],
    packing: Packing,
    properties: Mapping[str, str],
) -> Change:
    """The commit that makes a Delta table of rows that a user holds."""
    require_no_table(target)
    geo = take_geo_columns(rows.schema, columns, properties, where=target.location)
    schema, told = delta_columns(geo.schema, where=target.location)
    held = with_indexed_geo(schema, geo.properties, partition_by, geo.paths)
    table = NewTable(target.location, schema, tuple(partition_by), held)
    return plan_create(
        Verb.WRITE,
        table,
        rows,
        geo_input=geo.inputs,
        packing=packing,
        reads=Reads(),
        says=[
            "A new Delta table gets the rows.",
            *geo_sentences(geo.inputs),
            *[f"The column {sentence}." for sentence in told],
        ],
        parameters={"mode": "create", "partitionBy": json.dumps(list(partition_by))},
    )


def require_no_table(target: Storage) -> None:
    """Raise where a Delta table is already."""
    if is_delta(target):
        raise RefusedError("there is a Delta table already", where=target.location, remedy="give another place")


def require_apart(source: str, target: str) -> None:
    """Raise where the files of one would lie among those of the other: VACUUM takes what a table does not know."""
    one, two = source.rstrip("/") + "/", target.rstrip("/") + "/"
    if one.startswith(two) or two.startswith(one):
        raise RefusedError(
            "the new table and the files that it is made of would lie in one another",
            where=target,
            remedy="give another place",
        )


def require_one_type(snapshot: Snapshot, columns: Mapping[str, GeoType]) -> None:
    """Raise where the files do not agree on what a column is, unless the user has said it."""
    asked = {split_path(name)[0] for name in columns}
    details: ParquetDetails = snapshot.details
    for problem in details.problems:
        if problem.path is None or (problem.column in asked if problem.column is not None else asked):
            continue
        where = f"{snapshot.location}, {problem.path}"
        if problem.column is not None:
            where += f", column {problem.column}"
        remedy = "say with columns= what the column is" if _is_geo_problem(snapshot, problem) else "cast it"
        raise SchemaError(problem.what, where=where, remedy=remedy)


def _is_geo_problem(snapshot: Snapshot, problem: FileProblem) -> bool:
    held = {one.name: one.type for one in snapshot.schema.fields}
    return problem.column is None or isinstance(held.get(problem.column), (GeometryType, GeographyType))


def partial_folders(snapshot: Snapshot) -> list[str]:
    """A sentence for each column of which only some folders tell the value."""
    details: ParquetDetails = snapshot.details
    found = [one for one in details.problems if one.path is None and one.column is not None]
    return [f"The folders {one.column}= are left aside: {one.what}." for one in found]


def parquet_rows(snapshot: Snapshot, places: Sequence[int] | None = None) -> ParquetRows:
    """All rows of a set of Parquet files, or those of the files at these places of its file table."""
    details: ParquetDetails = snapshot.details
    table = snapshot.files.table
    names = snapshot.partition_columns
    values = [dict(zip(names, row, strict=True)) for row in zip(*_partition_values(snapshot), strict=True)]
    paths, sizes, footers = table["path"].to_pylist(), table["bytes"].to_pylist(), details.metadata
    files = tuple(
        ParquetFileRows(paths[place], sizes[place], _groups(footers[place]), values[place] if names else {})
        for place in (range(len(paths)) if places is None else places)
    )
    return ParquetRows(details.storage, snapshot.location, files, snapshot)


def _partition_values(snapshot: Snapshot) -> list[list[Any]]:
    return [snapshot.files.table[f"partition.{name}"].to_pylist() for name in snapshot.partition_columns]


def _groups(footer: pq.FileMetaData) -> tuple[int, ...]:
    return tuple(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
