"""Delta tables of Delta's own golden tests: a scan returns the rows that are stored beside them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = os.environ.get("GEOLAKE_EXPECTED_ROWS")
_TABLES = sorted(path.parent.name for path in Path(_FOLDER, "delta").glob("*/expected")) if _FOLDER else []


def rows(table: pa.Table) -> Counter[str]:
    """The rows as a multiset."""
    return Counter(map(repr, table.to_pylist()))


def expected_rows(folder: Path) -> pa.Table:
    """The rows that are stored beside a table; Spark's INT96 are instants in UTC."""
    files = sorted(folder.glob("expected/**/*.parquet"))
    tables = [pq.read_table(file, coerce_int96_timestamp_unit="us", partitioning=None) for file in files]
    return pa.concat_tables(tables, promote_options="default")


def plain(schema: pa.Schema) -> dict[str, Any]:
    """The types of the columns, without what writers choose: names inside of lists, zones, nullability."""
    return {field.name: "".join(_words(field.type)) for field in schema}


def _words(kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        yield "struct<"
        for field in kind:
            yield f"{field.name}: "
            yield from _words(field.type)
        yield ">"
    elif pa.types.is_map(kind):
        yield from ("map<", *_words(kind.key_type), ", ", *_words(kind.item_type), ">")
    elif pa.types.is_list(kind):
        yield from ("list<", *_words(kind.value_type), ">")
    else:
        yield "timestamp" if pa.types.is_timestamp(kind) else str(kind)


@pytest.mark.skipif(not _TABLES, reason="GEOLAKE_EXPECTED_ROWS is not set: the tables with their rows are not here")
@pytest.mark.parametrize("name", _TABLES)
def test_a_scan_returns_the_expected_rows_and_types(name):
    folder = Path(_FOLDER or "", "delta", name)
    scan = gl.open(str(folder / "delta")).scan()
    result, expected = scan.to_arrow(), expected_rows(folder)
    assert rows(result) == rows(expected)
    assert plain(result.schema) == plain(expected.schema)
    assert scan.count() == expected.num_rows
