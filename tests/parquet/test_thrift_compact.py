"""The tree of a Thrift struct: bit for bit on real footers, and a typed error on all that is broken."""

from __future__ import annotations

import io
import tracemalloc
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import CorruptTableError
from geolake_nb.parquet.thrift_compact import (
    Entry,
    ListValue,
    MapValue,
    Struct,
    Wire,
    read_struct,
    write_struct,
)


def footer_of(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8]


@pytest.fixture(scope="module")
def footer() -> bytes:
    file = io.BytesIO()
    table = pa.table({"id": [1, 2, 3], "s": ["a", None, "c"], "l": [[1], [], None]})
    pq.write_table(table, file, row_group_size=2, write_page_index=True)
    return footer_of(file.getvalue())


def test_footers_of_real_files_survive_bit_for_bit(corpus):
    files = [path for folder in ("parquet_geo", "geoparquet", "delta") for path in (corpus / folder).rglob("*.parquet")]
    assert len(files) > 20
    for path in files:
        data = path.read_bytes()
        if data[-4:] == b"PAR1":
            assert write_struct(read_struct(footer_of(data))) == footer_of(data), path


def test_values_are_those_that_pyarrow_reads(footer):
    tree = read_struct(footer)
    assert tree.get(3) == 3  # num_rows
    assert tree.get(6).decode().startswith("parquet-cpp-arrow")
    groups = tree.get(4)
    assert [group.get(3) for group in groups.items] == [2, 1]
    assert [element.get(4) for element in tree.get(2).items][1:3] == [b"id", b"s"]


integers = st.integers(-(2**63), 2**63 - 1)
leaves = st.one_of(
    st.tuples(st.sampled_from([Wire.I16, Wire.I32, Wire.I64]), integers),
    st.tuples(st.just(Wire.I8), st.integers(0, 255)),
    st.tuples(st.just(Wire.BINARY), st.binary(max_size=300)),
    st.tuples(st.just(Wire.DOUBLE), st.binary(min_size=8, max_size=8)),
    st.tuples(st.just(Wire.UUID), st.binary(min_size=16, max_size=16)),
)
booleans = st.sampled_from([(Wire.TRUE, 1), (Wire.FALSE, 0)])


def _struct_of(fields):
    return Wire.STRUCT, Struct({number: Entry(*value) for number, value in fields.items()})


def _list_of(pair):
    (wire, value), count = pair
    return Wire.LIST, ListValue(wire, (value,) * count)


def _map_of(pairs):
    (key_wire, key), (value_wire, value) = pairs
    return Wire.MAP, MapValue(key_wire, value_wire, ((key, value),))


trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.dictionaries(st.integers(1, 40), st.one_of(inner, booleans), max_size=6).map(_struct_of),
        st.tuples(inner, st.integers(0, 20)).map(_list_of),
        st.tuples(inner, inner).map(_map_of),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.integers(-(2**15), 2**15 - 1), trees, max_size=6))
@settings(max_examples=200)
def test_any_tree_is_read_back_as_it_was_written(fields):
    tree = _struct_of(fields)[1]
    data = write_struct(tree)
    assert read_struct(data) == tree
    assert write_struct(read_struct(data)) == data


def test_a_struct_cut_anywhere_is_corrupt(footer):
    for end in range(len(footer)):
        with pytest.raises(CorruptTableError, match="Thrift"):
            read_struct(footer[:end], where="a.parquet")


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_bytes_of_chance_are_a_struct_or_corrupt(data):
    with suppress(CorruptTableError):
        read_struct(data)


@given(st.data())
@settings(max_examples=200)
def test_a_footer_with_wrong_bytes_is_a_struct_or_corrupt(footer, data):
    position = data.draw(st.integers(0, len(footer) - 1))
    wrong = data.draw(st.binary(min_size=1, max_size=8))
    with suppress(CorruptTableError):
        read_struct(footer[:position] + wrong + footer[position + len(wrong) :])


BOMBS = {
    "a list of four billion structs": "19fcffffffff0f" + "00" * 50,
    "a list of doubles without their bytes": "19f7ffffff7f",
    "a map of two billion pairs": "1bffffffff0788",
    "text of two gigabytes": "18ffffffff07",
    "text of more bytes than there are": "18ffffffffffffffff7f",
    "structs in structs": "1c" * 100_000,
    "lists in lists": "1919" * 100_000,
    "an integer without end": "15" + "ff" * 100_000,
    "a type that is none": "1f00",
    "a field twice": "1502" + "050202" + "00",
    "bytes after the end": "0000",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_corrupt_and_takes_no_memory(bomb):
    data = bytes.fromhex(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptTableError):
            read_struct(data)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_new_field_goes_to_its_place_and_the_rest_stays():
    tree = read_struct(bytes.fromhex("1502" + "2502" + "00"))  # 1: 1, 3: 1
    assert list(tree.with_field(2, Wire.I32, 5).fields) == [1, 2, 3]
    assert list(tree.with_field(9, Wire.I32, 5).fields) == [1, 3, 9]
    assert write_struct(tree.with_field(2, Wire.I32, 5).without(2)) == bytes.fromhex("1502" + "2502" + "00")
