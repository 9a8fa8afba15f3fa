"""What values may take is known before they are unpacked, and batches are cut by it."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.parquet import opening
from geolake_nb.parquet.opening import (
    Page,
    chunk_pages,
    most_bytes,
    most_row_bytes,
    open_parquet_file,
    read_column,
    rows_at_a_time,
    value_batches,
)
from geolake_nb.parquet.page_kernel import BROKEN, CUT_OFF, page_header
from geolake_nb.storage.ranges import RangeFile, Ranges
from geolake_nb.storage.storage import Storage
from tests.oracle import thrift_tree
from tests.promises.bombs import of_field, set_field, with_footer

LONG = bytes(1 << 20)


def written(folder, values, **options):
    """A file of one column, of pages as small as a writer makes them."""
    table = pa.table({"v": pa.array(values, pa.binary())})
    pq.write_table(table, folder / "a.parquet", **{"data_page_size": 512, "write_batch_size": 64, **options})
    return folder / "a.parquet"


def pages_in(path):
    with pq.ParquetFile(path) as file, pa.OSFile(str(path)) as source:
        groups = [file.metadata.row_group(number).column(0) for number in range(file.num_row_groups)]
        column = file.metadata.schema.column(0)
        pages = [
            chunk_pages(lambda start, size: source.read_at(size, start), group, column=column, where="a")
            for group in groups
        ]
    return list(itertools.chain.from_iterable(pages))


ENCODINGS = {
    "plain": {"use_dictionary": False},
    "dictionary": {"dictionary_pagesize_limit": 1 << 24},
    "dictionary, then plain": {"dictionary_pagesize_limit": 4096},
    "lengths": {"use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
    "prefixes": {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4"])
def test_values_never_take_more_than_their_pages_say(tmp_path, monkeypatch, encoding, codec):
    draw = np.random.default_rng(5)
    values = [bytes(int(size)) if draw.random() < 0.3 else draw.bytes(size) for size in draw.integers(0, 90, 3_000)]
    values[1_500:1_520] = [b"x" * 9_000] * 20
    values[::7] = [None] * len(values[::7])
    monkeypatch.setattr(opening, "MAX_BYTES", 40_000)
    for version, size in itertools.product(("1.0", "2.0"), (700, 3_000)):
        options = ENCODINGS[encoding] | {"compression": codec, "data_page_version": version, "row_group_size": size}
        pages = pages_in(written(tmp_path, values, **options))
        assert sum(page.values for page in pages) == len(values)
        lengths = np.array([len(value or b"") for value in values])
        assert most_bytes(pages) >= lengths.sum()
        rows = rows_at_a_time(pages, 2_048)
        assert 1 <= rows < 2_048
        most = max(lengths[start : start + rows].sum() for start in range(0, len(values), rows))
        assert most <= 40_000
        storage = Storage.at(str(tmp_path))
        with open_parquet_file(storage, "a.parquet") as file:
            batches = list(value_batches(file, ["v"], rows=2_048))
        assert max(map(len, batches)) <= rows
        assert [value for batch in batches for value in batch.column(0).to_pylist()] == values


def test_ordinary_values_come_in_batches_of_the_requested_size(tmp_path):
    written(tmp_path, [b"0123456789012345678901"] * 3 + [bytes([index % 251] * 21) for index in range(9_000)])
    with open_parquet_file(Storage.at(str(tmp_path)), "a.parquet") as file:
        assert [len(batch) for batch in value_batches(file, ["v"], rows=4_000)] == [4_000, 4_000, 1_003]


@pytest.mark.parametrize("encoding", ["dictionary", "prefixes"])
def test_a_long_value_in_every_row_is_read_some_rows_at_a_time(tmp_path, encoding):
    indices = pa.array(np.zeros(400, np.int32))
    table = pa.table({"v": pa.DictionaryArray.from_arrays(indices, pa.array([LONG]))})
    options = ENCODINGS[encoding] | {"compression": "zstd"}
    if encoding == "prefixes":
        table = table.cast(pa.schema([("v", pa.binary())]))
    pq.write_table(table, tmp_path / "a.parquet", store_schema=False, **options)
    del table
    assert (tmp_path / "a.parquet").stat().st_size < 60_000
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    rows, most = 0, 0
    with open_parquet_file(Storage.at(str(tmp_path)), "a.parquet") as file:
        for batch in value_batches(file, ["v"], rows=131_072):
            most = max(most, pool.bytes_allocated() - before)
            rows += len(batch)
            assert pc.all(pc.equal(pc.binary_length(batch.column(0)), len(LONG))).as_py()
    assert rows == 400
    assert most < 200 << 20


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path, [LONG], compression="zstd", use_dictionary=False)
    monkeypatch.setattr(opening, "_MAX_PAGE", 1 << 19)
    with pytest.raises(
        UnsupportedTableError, match=r"column v: a page decompresses to 1,048,\d+ bytes, more than the limit of 524,288"
    ):
        pages_in(path)
    monkeypatch.undo()
    monkeypatch.setattr(opening, "_MAX_WHOLE", 9_000)
    monkeypatch.setattr(opening, "_MAX_LISTED", 9_000)
    lists = pa.table(
        {"v": pa.array([[b"x" * 1_000] * 10] * 3, pa.list_(pa.binary())), "w": pa.array([b"x" * 10_000] * 3)}
    )
    pq.write_table(lists, path)
    with open_parquet_file(Storage.at(str(tmp_path)), "a.parquet") as file:
        # Thirty values, each as long at most as the dictionary: a thousand bytes, and four for their number; each
        # takes five bytes for its offset and validity, and so does a list that may contain only this value.
        with pytest.raises(UnsupportedTableError, match=r"the column v\.list\.element decompress to 30,420 bytes"):
            list(value_batches(file, ["v"], rows=10))
        with pytest.raises(
            UnsupportedTableError, match="the column w decompress to 30,027 bytes, more than the limit of 9,000"
        ):
            read_column(file, ["w"])
        assert sum(map(len, value_batches(file, ["w"], rows=10))) == 3


def test_nulls_and_empty_lists_are_counted_as_what_they_take(tmp_path):
    for kind, empty in ((pa.binary(), None), (pa.string(), ""), (pa.list_(pa.binary()), []), (pa.list_(pa.int8()), [])):
        table = pa.table({"v": pa.array([empty] * 5_000, kind)})
        for options in ({}, {"use_dictionary": False}):
            pq.write_table(table, tmp_path / "a.parquet", **options)
            size = pq.read_table(tmp_path / "a.parquet").nbytes
            assert size <= most_bytes(pages_in(tmp_path / "a.parquet")) <= 4 * size


def test_row_groups_that_share_bytes_are_refused(tmp_path):
    path = written(tmp_path, [b"abc", None] * 9)

    def same(tree):
        groups = of_field(tree, 4)[1]
        groups.append(groups[0])
        set_field(tree, 3, 36)

    path.write_bytes(with_footer(path.read_bytes(), same))
    with open_parquet_file(Storage.at(str(tmp_path)), "a.parquet") as file:
        for read in (
            lambda: list(value_batches(file, ["v"], rows=10, groups=[0])),
            lambda: read_column(file, ["v"]),
            lambda: most_row_bytes(file, ["v"], 1),
        ):
            with pytest.raises(CorruptTableError, match=r"a\.parquet: two column chunks of its footer share bytes"):
                read()


def test_row_groups_without_rows_may_lie_anywhere(tmp_path):
    table = pa.table({"v": pa.array([b"a", b"b"]), "w": pa.array([1, 2])})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for part in (table, table.slice(0, 0), table, table.slice(0, 0)):
            writer.write_table(part)
    with open_parquet_file(Storage.at(str(tmp_path)), "a.parquet") as file:
        assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [2, 0, 2, 0]
        assert read_column(file, ["v", "w"]).num_rows == 4


def test_a_page_whose_header_is_broken_is_a_typed_error(tmp_path):
    path = written(tmp_path, [b"abc"] * 9, use_dictionary=False)
    data = path.read_bytes()
    for bad, match in ((b"\x15\x00\x00", "a page has no size"), (b"\x1d", "cannot be read")):
        path.write_bytes(data[:4] + bad + data[4 + len(bad) :])
        with pytest.raises(CorruptTableError, match=match):
            pages_in(path)


def test_headers_are_read_as_thrift_has_them():
    statistics = [(5, thrift_tree.BINARY, b"z" * 300), (6, thrift_tree.BINARY, b"a" * 300)]
    inside = [(1, thrift_tree.I32, 7), (2, thrift_tree.I32, 8), (5, thrift_tree.STRUCT, statistics)]
    tree = [
        (1, thrift_tree.I32, 0),
        (2, thrift_tree.I32, 70_000),
        (3, thrift_tree.I32, 9),
        (5, thrift_tree.STRUCT, inside),
    ]
    data = thrift_tree.write_tree(tree)
    assert page_header(data + b"rest") == (len(data), 0, 70_000, 9, 7, 8)
    assert {page_header(data[:end])[0] for end in range(len(data))} == {CUT_OFF}
    assert page_header(b"\x1c" * 40)[0] == BROKEN
    assert page_header(b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f")[0] == CUT_OFF


def test_a_batch_has_all_pages_between_its_first_and_its_last_value():
    pages = [Page(1_000, 10, 0), *[Page(1, 1 << 25, 0)] * 8, Page(1_000, 10, 0)]
    assert rows_at_a_time(pages, 1_024) == 2
    assert rows_at_a_time([Page(1_000, 10, 0)] * 5, 1_024) == 1_024
    assert rows_at_a_time([Page(5, 0, 1 << 24)], 1_024) == 4


def test_no_byte_of_a_store_is_fetched_twice(tmp_path):
    table = pa.table({"v": pa.array([bytes([index % 251] * 21) for index in range(9_000)]), "w": range(9_000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3_000)
    data = (tmp_path / "a.parquet").read_bytes()
    requests = []

    def fetch(start, length):
        requests.append((start, length))
        return data[start : start + length]

    fetched = RangeFile(len(data), fetch)
    with pq.ParquetFile(pa.PythonFile(fetched, mode="r"), pre_buffer=True) as file:
        opening._sources[file] = Ranges(pa.PythonFile(fetched, mode="r"), fetched), "a"
        requests.clear()
        for columns in (["v"], ["v", "w"]):
            assert sum(map(len, value_batches(file, columns, rows=1_000))) == 9_000
            assert len(requests) == 3
            assert sum(length for _, length in requests) < len(data)
            requests.clear()
        for group in range(3):
            assert most_row_bytes(file, ["v", "w"], group) == 21 + 5 + 8 + 1
            for column in ("v", "w"):
                assert sum(map(len, value_batches(file, [column], rows=1_000, groups=[group]))) == 3_000
                assert len(requests) == group + 1
        requests.clear()
        # What lies between the groups is less than another request costs.
        assert read_column(file, ["w"]).num_rows == 9_000
        assert len(requests) == 1
