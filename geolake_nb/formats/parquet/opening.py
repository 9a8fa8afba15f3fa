"""Opens a Parquet file of a table that nobody vouches for: what is wrong with it is an error of this package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, GeolakeError
from geolake_nb.formats.parquet.footer import parse_footer
from geolake_nb.formats.storage_ranges import open_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

    from geolake_nb.formats.storage import Storage

__all__ = ["open_parquet_file"]


@contextmanager
def open_parquet_file(storage: Storage, path: str, **options: Any) -> Iterator[pq.ParquetFile]:
    """The file to be read in the block, without extension types; `options` are those of Arrow's `ParquetFile`."""
    import pyarrow.parquet as pq

    where = f"{storage.location}/{path}"
    metadata = parse_footer(storage.parquet_footer(path), where=where)
    # Plain binary will do: building an extension type for a CRS such as srid:5070 fails in geoarrow.
    options = {"arrow_extensions_enabled": False, **options}
    try:
        with pq.ParquetFile(open_ranges(storage, path), metadata=metadata, **options) as file:
            yield file
    except GeolakeError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = (str(problem).splitlines() or ["it is malformed"])[0][:200]
        raise CorruptTableError(f"the Parquet file cannot be read: {reason}", where=where) from None
