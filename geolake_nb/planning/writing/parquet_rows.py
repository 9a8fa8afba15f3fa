"""The rows of a set of Parquet files that are written elsewhere: from which files, and what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema import split_path
from geolake_nb.core.types import GeographyType, GeometryType
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.planning.writing.geo_columns import said_column
from geolake_nb.planning.writing.row_sources import ParquetFileRows, ParquetRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.formats.parquet.files import FileProblem, ParquetDetails
    from geolake_nb.formats.snapshot import Snapshot

    GeoType = GeometryType | GeographyType

__all__ = ["parquet_rows", "partial_folders", "require_apart", "require_one_type"]


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
        said = f"say what it is with {said_column(problem.column or 'NAME')}"
        remedy = said if _is_geo_problem(snapshot, problem) else "cast it"
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
