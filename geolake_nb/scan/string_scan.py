"""The distinct strings of some columns in one data file, for statistics that only an engine can order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.model.types import PrimitiveType, StringType
from geolake_nb.parquet.opening import open_parquet_file, value_batches
from geolake_nb.scan.data_files import leaf_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.collation import Collation
    from geolake_nb.parquet.footer import FileView, FooterReader
    from geolake_nb.storage.storage import Storage

__all__ = ["CollatedString", "distinct_strings"]

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class CollatedString:
    """A string column of a table that compares by a collation, as in data files and statistics."""

    path: tuple[str, ...]
    """Its logical names."""
    physical: tuple[str, ...]
    field_id: int | None
    collation: Collation
    """Without a version, as in the schema."""


def distinct_strings(
    storage: Storage, key: str, columns: Sequence[CollatedString], *, reader: FooterReader
) -> Iterator[tuple[int, pa.Array]]:
    """The strings of each column, by its index, in chunks without duplicates and nulls; rows that a deletion vector
    deletes count too. There are none for a column that the file lacks or has with another type."""
    with open_parquet_file(storage, key, pre_buffer=True) as file:
        view = reader.view(file.metadata, where=f"{storage.location}/{key}")
        for index, column in enumerate(columns):
            for values in _strings(file, view, column):
                yield index, values


def _strings(file: pq.ParquetFile, view: FileView, column: CollatedString) -> Iterator[pa.Array]:
    from geolake_nb.parquet.schema import PATH_KEY

    field = view.find(column.physical, field_id=column.field_id)
    # Some writers do not mark strings, and engines read their binary columns as strings.
    is_bytes = field is not None and isinstance(field.type, PrimitiveType) and field.type.name == "binary"
    if field is None or not (isinstance(field.type, StringType) or is_bytes):
        return
    name = str(field.metadata.get(PATH_KEY, ".".join(column.physical)))
    for batch in value_batches(file, [name], rows=_BATCH_ROWS):
        if not _is_one_leaf(batch.schema):
            return  # a name with a dot is ambiguous with the path of another column
        values = leaf_values(pa.chunked_array([batch.column(0)])).unique().drop_null()
        # UTF-8 is not checked here: the engine orders the strings as they are.
        yield values.cast(pa.string(), safe=False)


def _is_one_leaf(schema: pa.Schema) -> bool:
    fields = list(schema)
    while len(fields) == 1 and pa.types.is_struct(fields[0].type):
        fields = list(fields[0].type)
    return len(fields) == 1 and not pa.types.is_nested(fields[0].type)
