from __future__ import annotations

import io
import json
import tracemalloc
import zlib

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import CorruptTableError, OpenError, UnsupportedTableError
from geolake_nb.formats.iceberg import avro
from geolake_nb.formats.iceberg.avro import read_entries
from geolake_nb.formats.iceberg.avro_program import EntryField, Pool, compile_entries
from geolake_nb.formats.iceberg.manifests import read_manifest_list
from tests.formats.iceberg_tables import HAVASU_FIELDS, FileEntry, PartitionFieldSpec, manifest_record, manifest_schema


def written(records, *, version=2, codec="null", schema=None, partition=(), **options):
    out = io.BytesIO()
    schema = schema or manifest_schema(version, partition, HAVASU_FIELDS)
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec=codec, **options)
    return out.getvalue()


def read(data, wanted=(1, 2)):
    return list(read_entries(data, wanted=wanted, where="m0.avro"))


def as_dict(pairs):
    return {pair["key"]: pair["value"] for pair in pairs or []}


def check_against_fastavro(data, keys):
    records = list(fastavro.reader(io.BytesIO(data)))
    start = 0
    for entries in read(data, keys):
        some = records[start : start + len(entries)]
        start += len(entries)
        files = [record["data_file"] for record in some]
        assert entries.longs(EntryField.STATUS).to_pylist() == [record["status"] for record in some]
        assert entries.longs(EntryField.SNAPSHOT_ID).to_pylist() == [record["snapshot_id"] for record in some]
        for field in (EntryField.RECORD_COUNT, EntryField.FILE_SIZE_IN_BYTES, EntryField.SORT_ORDER_ID):
            assert entries.longs(field).to_pylist() == [file.get(field.name.lower()) for file in files]
        for field in (EntryField.FILE_PATH, EntryField.REFERENCED_DATA_FILE):
            assert entries.texts(field).to_pylist() == [file.get(field.name.lower()) for file in files]
        pools = {Pool.LOWER: "lower_bounds", Pool.UPPER: "upper_bounds"}
        pools |= {Pool.GEOM_LOWER: "geom_lower_bounds", Pool.GEOM_UPPER: "geom_upper_bounds"}
        for key in keys:
            for pool, name in pools.items():
                assert entries.bytes_of(pool, key).to_pylist() == [as_dict(file.get(name)).get(key) for file in files]
            for pool, name in {Pool.NULLS: "null_value_counts", Pool.NANS: "nan_value_counts"}.items():
                assert entries.count_of(pool, key).to_pylist() == [as_dict(file.get(name)).get(key) for file in files]
        expected = [file.get("equality_ids") or [] for file in files]
        assert entries.list_of(Pool.EQUALITY_IDS).to_pylist() == expected
    assert start == len(records)


def test_every_manifest_of_the_corpus_reads_as_fastavro_reads_it(corpus):
    paths = sorted((corpus / "iceberg").glob("**/*m[0-9].avro"))
    assert len(paths) == 33
    for path in paths:
        check_against_fastavro(path.read_bytes(), (1, 2, 3, 2147483546))


counts = st.dictionaries(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), max_size=4)
bounds = st.dictionaries(st.integers(-5, 5), st.binary(max_size=40), max_size=4)
entries = st.builds(
    FileEntry,
    path=st.text(max_size=20).map(lambda text: "/" + text),
    rows=st.integers(-(2**63), 2**63 - 1),
    bytes=st.integers(-(2**63), 2**63 - 1),
    status=st.integers(0, 2),
    partition=st.fixed_dictionaries({"p": st.none() | st.binary(max_size=5)}),
    lower=bounds,
    upper=bounds,
    nulls=counts,
    nans=counts,
    geom_lower=st.none() | bounds,
    geom_upper=st.none() | bounds,
    referenced_data_file=st.none() | st.text(max_size=5),
    equality_ids=st.none() | st.lists(st.integers(0, 100), max_size=3),
    snapshot_id=st.none() | st.integers(-(2**63), 2**63 - 1),
)


@settings(max_examples=60)
@given(st.lists(entries, max_size=12), st.sampled_from(["null", "deflate", "bzip2", "xz"]), st.integers(16, 400))
def test_random_manifests_read_as_fastavro_reads_them(files, codec, interval):
    records = [manifest_record(file, "t", 7) for file in files]
    partition = [PartitionFieldSpec("p", 1, "identity", "bytes")]
    data = written(records, codec=codec, partition=partition, sync_interval=interval)
    check_against_fastavro(data, (-1, 0, 1, 2))
    values = [value for some in read(data) for value in some.partition(1000, "p")[1].to_pylist()]
    assert values == [file.partition["p"] for file in files]


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_arrow_unpacks_the_codecs_that_python_lacks(codec):
    import pyarrow as pa

    plain = written([manifest_record(FileEntry(f"/{i}"), "t", 7) for i in range(50)])
    header = avro.read_header(plain, where="m")
    (block,) = avro.read_blocks(plain, header, where="m")
    if codec == "snappy":
        body = pa.compress(block.data, codec="snappy", asbytes=True) + zlib.crc32(block.data).to_bytes(4, "big")
    else:
        body = pa.compress(block.data, codec="zstd", asbytes=True)
    assert (
        read(container(header.schema, body, block.records, codec=codec))[0].texts(EntryField.FILE_PATH)[49].as_py()
        == "/49"
    )
    with pytest.raises(CorruptTableError, match="decompressed"):
        read(container(header.schema, body[:-2], block.records, codec=codec))


def number(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*out, value])


def container(schema, body, records, *, codec="null", size=None):
    metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    pairs = b"".join(number(len(part)) + part for pair in metadata.items() for part in pair)
    sync = b"s" * 16
    head = b"Obj\x01" + number(len(metadata)) + pairs + number(0) + sync
    return head + number(records) + number(len(body) if size is None else size) + body + sync


def test_a_block_that_inflates_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(avro, "MAX_BLOCK", 1_000_000)
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = engine.compress(bytes(50_000_000)) + engine.flush()
    with pytest.raises(CorruptTableError, match="decompresses to more than 1000000"):
        read(container(manifest_schema(2), bomb, 10, codec="deflate"))


@pytest.mark.parametrize("codec", ["bzip2", "snappy", "xz", "zstandard"])
def test_bombs_of_the_other_codecs_are_refused_too(codec, monkeypatch):
    import bz2
    import lzma

    import pyarrow as pa

    monkeypatch.setattr(avro, "MAX_BLOCK", 1_000_000)
    zeros = bytes(20_000_000)
    bombs = {
        "bzip2": lambda: bz2.compress(zeros),
        "snappy": lambda: pa.compress(zeros, codec="snappy", asbytes=True) + zlib.crc32(zeros).to_bytes(4, "big"),
        "xz": lambda: lzma.compress(zeros),
        "zstandard": lambda: pa.compress(zeros, codec="zstd", asbytes=True),
    }
    with pytest.raises(CorruptTableError, match="decompresses to more than 1000000"):
        read(container(manifest_schema(2), bombs[codec](), 10, codec=codec))


@pytest.mark.parametrize("records", [2**40, 2**62, 1000])
def test_records_that_the_bytes_cannot_hold_are_refused_before_memory_is_taken(records):
    with pytest.raises(CorruptTableError, match=f"claims {records} records"):
        read(container(manifest_schema(2), bytes(100), records))


def entry_schema(partition=(), file=()):
    """A manifest of little more than these partition fields and fields of files."""
    record = {"type": "record", "name": "r102", "fields": list(partition)}
    fields = [{"name": "partition", "type": record, "field-id": 102}, *file]
    data_file = {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": fields}, "field-id": 2}
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [{"name": "status", "type": "int", "field-id": 0}, data_file],
    }


def peak_of(work):
    """The most memory that Python and numpy held while it ran, beyond what they held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_fields_that_are_always_null_take_no_memory():
    nulls = [{"name": f"p{index}", "type": "null", "field-id": 1000 + index} for index in range(2_000)]
    nulls.append({"name": "only", "type": ["null"], "field-id": 5000})
    nulls.append({"name": "last", "type": ["null", "int"], "field-id": 5001})
    # A status of 1, the one branch of `only`, and the second of `last` with a 3.
    data = container(entry_schema(nulls), b"\x02\x00\x02\x06" * 5_000, 5_000)
    batches = []
    assert peak_of(lambda: batches.extend(read(data))) < 20_000_000
    (entries,) = batches
    assert entries.longs(EntryField.STATUS).unique().to_pylist() == [1]
    assert entries.partition(1000, "p0")[1].null_count == len(entries) == 5_000
    assert entries.partition(5000, "only")[1].null_count == 5_000
    assert entries.partition(5001, "last")[1].unique().to_pylist() == [3]


def test_values_without_bytes_are_refused_before_memory_is_taken():
    wide = [
        {"name": f"p{index}", "type": {"type": "fixed", "name": f"f{index}", "size": 0}, "field-id": 1000 + index}
        for index in range(10_000)
    ]
    data = container(entry_schema(wide), bytes(100_000), 100_000)

    def refused():
        with pytest.raises(CorruptTableError, match="100000 records of 10001 values, more than are read at a time"):
            read(data)

    assert peak_of(refused) < 100_000_000


def test_small_records_without_end_are_refused_before_memory_is_taken():
    engine = zlib.compressobj(1, zlib.DEFLATED, -15)
    zeros = bytes(1 << 20)
    packed = b"".join([*(engine.compress(zeros) for _ in range(40)), engine.flush()])
    data = container(entry_schema(), packed, 40 << 20, codec="deflate")

    def refused():
        with pytest.raises(CorruptTableError, match="41943040 records of 1 values"):
            read(data)

    assert peak_of(refused) < 200_000_000


def test_lists_without_end_are_refused():
    ids = {"name": "equality_ids", "type": {"type": "array", "items": "int"}, "field-id": 135}
    count = (1 << 23) + 2
    data = container(entry_schema(file=[ids]), b"\x00" + number(count) + bytes(count) + b"\x00", 1)
    with pytest.raises(CorruptTableError, match="entry 0 has more counts, bounds or ids than are read at a time"):
        read(data)
    few = container(entry_schema(file=[ids]), b"\x00" + number(3) + b"\x02\x04\x06" + b"\x00", 1)
    (entries,) = read(few)
    assert entries.list_of(Pool.EQUALITY_IDS).to_pylist() == [[1, 2, 3]]


@pytest.mark.parametrize("size", [-1, 2**40])
def test_a_block_of_an_impossible_size_is_refused(size):
    with pytest.raises(CorruptTableError):
        read(container(manifest_schema(2), b"abc", 1, size=size))


def test_a_manifest_cut_off_anywhere_is_refused_with_a_typed_error():
    data = written([manifest_record(FileEntry("/a", lower={1: b"x"}), "t", 7)] * 3, codec="deflate")
    for end in range(len(data)):
        try:
            entries = read(data[:end])
        except OpenError:
            continue
        # Only a file that ends right after its header is whole: it has no entries.
        assert not entries


@settings(max_examples=150)
@given(st.data())
def test_flipped_bytes_give_entries_or_a_typed_error(data):
    changed = bytearray(written([manifest_record(FileEntry("/a", lower={1: b"x"}), "t", 7)] * 3))
    for position in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=4)):
        changed[position] = data.draw(st.integers(0, 255))
    try:
        for some in read(bytes(changed)):
            some.texts(EntryField.FILE_PATH)
            some.bytes_of(Pool.LOWER, 1)
    except OpenError:
        pass


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ({"type": "array", "items": "null"}, "zero-byte items"),
        ({"type": "array", "items": {"type": "record", "name": "e", "fields": []}}, "zero-byte items"),
        ("nothing", "unknown type 'nothing'"),
        ({"type": "record", "name": "manifest_entry", "fields": [{"name": "me", "type": "manifest_entry"}]}, "deeply"),
        (7, "an invalid type"),
    ],
)
def test_schemas_that_make_no_sense_are_refused(type_, reason):
    schema = manifest_schema(2)
    schema["fields"].append({"name": "more", "type": type_})
    with pytest.raises(CorruptTableError, match=reason):
        compile_entries(schema, where="m")


def test_records_that_name_each_other_many_times_over_do_not_unfold():
    fields = "int"
    for level in range(40):
        fields = {
            "type": "record",
            "name": f"r{level}",
            "fields": [{"name": "a", "type": fields}, {"name": "b", "type": f"r{level - 1}" if level else "int"}],
        }
    with pytest.raises(CorruptTableError, match=r"too large|deeply"):
        compile_entries(fields, where="m")


def test_a_codec_that_is_not_known_is_named():
    with pytest.raises(UnsupportedTableError, match="'lzo'; supported: bzip2, deflate"):
        read(container(manifest_schema(2), b"", 0, codec="lzo"))


def test_manifests_without_field_ids_are_read_by_name():
    schema = json.loads(json.dumps(manifest_schema(2)).replace('"field-id"', '"other-id"'))
    data = written([manifest_record(FileEntry("/a", rows=5, lower={1: b"x"}), "t", 7)], schema=schema)
    (entries,) = read(data)
    assert entries.longs(EntryField.RECORD_COUNT).to_pylist() == [5]
    assert entries.bytes_of(Pool.LOWER, 1).to_pylist() == [b"x"]


def test_a_column_that_is_twice_in_a_map_has_no_bound():
    record = manifest_record(FileEntry("/a", lower={1: b"x", 2: b"y"}), "t", 7)
    record["data_file"]["lower_bounds"].append({"key": 1, "value": b"z"})
    (entries,) = read(written([record]))
    assert entries.bytes_of(Pool.LOWER, 1).to_pylist() == [None]
    assert entries.bytes_of(Pool.LOWER, 2).to_pylist() == [b"y"]


def test_the_walk_asks_for_more_room_when_maps_repeat_a_key():
    record = manifest_record(FileEntry("/a"), "t", 7)
    record["data_file"]["lower_bounds"] = [{"key": 1, "value": b"z"}] * 5000
    (entries,) = read(written([record]))
    assert entries.bytes_of(Pool.LOWER, 1).to_pylist() == [None]


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"Obj\x01\x02", b"{}", b"Obj\x01" + b"\xff" * 30])
def test_an_invalid_manifest_list_is_refused(data):
    with pytest.raises(CorruptTableError):
        read_manifest_list(data, where="snap.avro")
