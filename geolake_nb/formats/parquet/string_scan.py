"""The different strings of some columns in one data file, for statistics that only an engine can order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.core.types import PrimitiveType, StringType
from geolake_nb.formats.data_files import leaf_values
from geolake_nb.formats.parquet.opening import open_parquet_file, value_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.core.collation import Collation
    from geolake_nb.formats.parquet.footer_view import FileView, FooterReader
    from geolake_nb.formats.storage import Storage

__all__ = ["CollatedString", "distinct_strings"]

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class CollatedString:
    """A string column of a table that compares by a collation, as data files and statistics have it."""

    path: tuple[str, ...]
    """Its logical names."""
    physical: tuple[str, ...]
    field_id: int | None
    collation: Collation
    """Without a version, as in the schema."""


def distinct_strings(
    storage: Storage, key: str, columns: Sequence[CollatedString], *, reader: FooterReader
) -> Iterator[tuple[int, pa.Array]]:
    """The strings of each column, by its place, in pieces without repetitions and nulls; rows that a deletion vector
    takes away count too. Of a column that the file does not have, or has in another type, there is none."""
    with open_parquet_file(storage, key, pre_buffer=True) as file:
        view = reader.view(file.metadata, where=f"{storage.location}/{key}")
        for place, column in enumerate(columns):
            for values in _strings(file, view, column):
                yield place, values


def _strings(file: pq.ParquetFile, view: FileView, column: CollatedString) -> Iterator[pa.Array]:
    from geolake_nb.core.schema_parquet import PATH_KEY

    found = view.find(column.physical, field_id=column.field_id)
    # Writers that do not mark text leave it as bytes, and engines read those as text.
    is_bytes = found is not None and isinstance(found.type, PrimitiveType) and found.type.name == "binary"
    if found is None or not (isinstance(found.type, StringType) or is_bytes):
        return
    name = str(found.metadata.get(PATH_KEY, ".".join(column.physical)))
    for batch in value_batches(file, [name], rows=_BATCH_ROWS):
        if not _is_one_leaf(batch.schema):
            return  # a name with a dot in it reads as the way to another column too
        values = leaf_values(pa.chunked_array([batch.column(0)])).unique().drop_null()
        # Text is not checked here, for it has to be ordered as the engine finds it.
        yield values.cast(pa.string(), safe=False)


def _is_one_leaf(schema: pa.Schema) -> bool:
    fields = list(schema)
    while len(fields) == 1 and pa.types.is_struct(fields[0].type):
        fields = list(fields[0].type)
    return len(fields) == 1 and not pa.types.is_nested(fields[0].type)
