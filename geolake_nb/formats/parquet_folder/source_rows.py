"""The rows of Parquet files to write elsewhere: from which files, and what prevents it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.changes.geo_columns import column_option
from geolake_nb.changes.row_sources import ParquetFileRows, ParquetRows
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.model.schema import split_path
from geolake_nb.model.types import GeographyType, GeometryType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.formats.parquet_folder.snapshot import FileProblem, ParquetDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import GeoType

__all__ = ["columns_with_geo_type", "parquet_rows", "partial_folders", "require_apart", "require_one_type"]


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
