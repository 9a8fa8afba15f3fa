"""How the columns of a table are identified in its data files: by names or field ids, depending on the format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.model.schema import join_path, split_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.table_format import FileField
    from geolake_nb.model.types import Field

__all__ = ["file_field", "file_fields", "geo_file_fields"]


def file_field(snapshot: Snapshot, path: str) -> FileField:
    """How the data files of a table name the column of this path."""
    wanted = snapshot.schema.find(path)
    spelled = next((parts for parts, field in snapshot.schema.walk_parts() if field is wanted), split_path(path))
    return snapshot.format.field_naming(snapshot)(spelled, wanted)


def geo_file_fields(snapshot: Snapshot) -> dict[str, FileField]:
    """The same for every geo column, by path."""
    geo = {id(column) for _, column in snapshot.schema.geo_columns()}
    return file_fields(snapshot, lambda column: id(column) in geo)


def file_fields(snapshot: Snapshot, is_wanted: Callable[[Field], bool]) -> dict[str, FileField]:
    """The same of the columns that are wanted, by path."""
    naming = snapshot.format.field_naming(snapshot)
    columns = [(parts, column) for parts, column in snapshot.schema.walk_parts() if is_wanted(column)]
    return {join_path(parts): naming(parts, column) for parts, column in columns}
