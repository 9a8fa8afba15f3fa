"""By what the columns of a table are found in its data files: names or field ids, as its format goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema import split_path
from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.iceberg.name_mapping import name_mapping
from geolake_nb.formats.parquet.footer_view import FileField
from geolake_nb.formats.snapshot import TableFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.core.types import Field
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["file_field", "geo_file_fields"]


def file_field(snapshot: Snapshot, path: str) -> FileField:
    """How the data files of a table call the column of this path."""
    schema = snapshot.schema
    if snapshot.format is TableFormat.PARQUET:
        return FileField(_spelled(snapshot, path))
    if snapshot.format is TableFormat.DELTA:
        # Delta, Column Mapping: ids count in the mode `id` alone; in the mode `name` files may have others.
        mapping: ColumnMapping = snapshot.details.column_mapping
        id_ = schema.find(path).id if mapping is ColumnMapping.ID else None
        return FileField(mapping.physical(schema, _spelled(snapshot, path)), id_)
    id_ = schema.find(path).id
    return FileField(() if id_ is None else _names_without_ids(snapshot, id_), id_)


def geo_file_fields(snapshot: Snapshot) -> dict[str, FileField]:
    """The same of every geo column, by path."""
    return {path: file_field(snapshot, path) for path, _ in snapshot.schema.geo_columns()}


def _spelled(snapshot: Snapshot, path: str) -> tuple[str, ...]:
    """The parts of a path as the schema spells them."""
    wanted: Field = snapshot.schema.find(path)
    return next((parts for parts, field in snapshot.schema.walk_parts() if field is wanted), tuple(split_path(path)))


def _names_without_ids(snapshot: Snapshot, id_: int) -> tuple[str, ...]:
    """What files that have no ids call the column: by the name mapping, and only if that has one name for it."""
    try:
        mapping = name_mapping(snapshot)
    except CorruptTableError:
        return ()
    found = [] if mapping is None else [parts for parts, one in _mapped(mapping) if one == id_]
    return found[0] if len(found) == 1 else ()


def _mapped(mapping: Mapping[str, tuple[int | None, Any]]) -> Iterator[tuple[tuple[str, ...], int | None]]:
    for name, (id_, inside) in mapping.items():
        yield (name,), id_
        for parts, one in _mapped(inside):
            yield (name, *parts), one
