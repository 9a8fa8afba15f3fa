"""By what the columns of a table are found in its data files: names or field ids, as its format goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.core.schema import join_path, split_path
from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.iceberg.name_mapping import name_mapping
from geolake_nb.formats.parquet.footer_view import FileField
from geolake_nb.formats.snapshot import TableFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geolake_nb.core.types import Field
    from geolake_nb.formats.iceberg.name_mapping import NameMapping
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["file_field", "file_fields", "geo_file_fields"]


def file_field(snapshot: Snapshot, path: str) -> FileField:
    """How the data files of a table call the column of this path."""
    wanted = snapshot.schema.find(path)
    spelled = next((parts for parts, one in snapshot.schema.walk_parts() if one is wanted), split_path(path))
    return _Naming(snapshot).of(spelled, wanted)


def geo_file_fields(snapshot: Snapshot) -> dict[str, FileField]:
    """The same of every geo column, by path."""
    geo = {id(column) for _, column in snapshot.schema.geo_columns()}
    return file_fields(snapshot, lambda column: id(column) in geo)


def file_fields(snapshot: Snapshot, is_wanted: Callable[[Field], bool]) -> dict[str, FileField]:
    """The same of the columns that are wanted, by path."""
    naming = _Naming(snapshot)
    columns = [(parts, column) for parts, column in snapshot.schema.walk_parts() if is_wanted(column)]
    return {join_path(parts): naming.of(parts, column) for parts, column in columns}


class _Naming:
    """How the data files of a table call its columns, with what is the same for all columns worked out once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._format = snapshot.format
        self._mapping: ColumnMapping | None = None
        self._physical: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._without_ids: dict[int, list[tuple[str, ...]]] = {}
        if self._format is TableFormat.DELTA:
            self._mapping = snapshot.details.column_mapping
            for parts, one in snapshot.schema.walk_parts():
                above = self._physical.get(parts[:-1], ())
                self._physical.setdefault(parts, (*above, one.physical_name or one.name))
        elif self._format is not TableFormat.PARQUET:
            for parts, id_ in _mapped(_mapping_or_none(snapshot)):
                if id_ is not None:
                    self._without_ids.setdefault(id_, []).append(parts)

    def of(self, parts: tuple[str, ...], column: Field) -> FileField:
        """What they call this column, whose names and parents' names in the schema these are."""
        if self._format is TableFormat.PARQUET:
            return FileField(parts)
        if self._mapping is not None:
            # Delta, Column Mapping: ids count in the mode `id` alone; in the mode `name` files may have others.
            names = parts if self._mapping is ColumnMapping.NONE else self._physical[parts]
            return FileField(names, column.id if self._mapping is ColumnMapping.ID else None)
        # Files that have no ids go by the name mapping, and only if that has one name for the column.
        names_of_id = [] if column.id is None else self._without_ids.get(column.id, [])
        return FileField(names_of_id[0] if len(names_of_id) == 1 else (), column.id)


def _mapping_or_none(snapshot: Snapshot) -> NameMapping:
    try:
        return name_mapping(snapshot) or {}
    except CorruptTableError:
        return {}


def _mapped(mapping: NameMapping) -> Iterator[tuple[tuple[str, ...], int | None]]:
    for name, (id_, inside) in mapping.items():
        yield (name,), id_
        for parts, one in _mapped(inside):
            yield (name, *parts), one
