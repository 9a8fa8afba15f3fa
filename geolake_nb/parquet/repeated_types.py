"""Which type codes the geospatial statistics of a footer list more than once: Arrow returns each only once."""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING

from geolake_nb.parquet.thrift_compact import ListValue, Struct, read_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

__all__ = ["repeated_types"]

# parquet.thrift: the numbers of the fields.
_ROW_GROUPS, _COLUMNS, _CHUNK_META, _PATH, _GEO_STATISTICS, _GEO_TYPES = 4, 1, 3, 3, 17, 2
# A list of at least two i32 in the compact protocol, one or two fields after the last one, which ends its struct. No
# code is 0, as which the encoding PLAIN is written, so that most lists of encodings end the match at once.
_LIST = re.compile(
    rb"[\x19\x29][\x25\x35\x45\x55\x65\x75\x85\x95\xa5\xb5\xc5\xd5\xe5\xf5]"
    rb"(?=(?:[\x80-\xff]?[\x01-\x7f]){2,}\x00)"
)

_repeated: dict[int, dict[str, list[int]]] = {}
"""By the identity of the footer, as long as it exists: hardly any footer has repeated types."""


def note_repeated_types(metadata: pq.FileMetaData, footer: bytes) -> None:
    """Store the result of `repeated_types` for a footer, from its bytes, which Arrow does not keep."""
    # A walk in Python takes milliseconds, and is for the few footers with a list that repeats a number.
    if not any(_repeats(footer, match.start() + 1) for match in _LIST.finditer(footer)):
        return
    repeated: dict[str, set[int]] = {}
    for path, codes in _type_lists(read_struct(footer)):
        twice = {code for code in codes if codes.count(code) > 1}
        if twice:
            repeated.setdefault(path, set()).update(twice)
    if repeated:
        _repeated[id(metadata)] = {path: sorted(codes) for path, codes in repeated.items()}
        weakref.finalize(metadata, _repeated.pop, id(metadata), None)


def repeated_types(metadata: pq.FileMetaData) -> dict[str, list[int]]:
    """The codes that a row group lists more than once, by the path of the column in the file.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"id": [1]}), file)
    >>> repeated_types(pq.read_metadata(file))
    {}
    """
    return _repeated.get(id(metadata), {})


def _repeats(footer: bytes, position: int) -> bool:
    """Whether the list of integers with its header at this position has duplicates; a long list counts as if it had."""
    count = footer[position] >> 4
    if count == 15:
        return True
    seen: set[bytes] = set()
    start = position + 1
    for _ in range(count):
        end = start
        while end < len(footer) and footer[end] & 0x80:
            end += 1
        seen.add(footer[start : end + 1])
        start = end + 1
    return len(seen) < count


def _type_lists(tree: Struct) -> Iterator[tuple[str, list[int]]]:
    for group in _structs(tree.get(_ROW_GROUPS)):
        for chunk in _structs(group.get(_COLUMNS)):
            meta = chunk.get(_CHUNK_META)
            statistics = meta.get(_GEO_STATISTICS) if isinstance(meta, Struct) else None
            codes = statistics.get(_GEO_TYPES) if isinstance(statistics, Struct) else None
            path = meta.get(_PATH) if isinstance(meta, Struct) else None
            if isinstance(codes, ListValue) and isinstance(path, ListValue):
                names = [name.decode(errors="replace") for name in path.items if isinstance(name, bytes)]
                yield ".".join(names), [code for code in codes.items if isinstance(code, int)]


def _structs(value: object) -> Iterator[Struct]:
    if isinstance(value, ListValue):
        yield from (item for item in value.items if isinstance(item, Struct))
