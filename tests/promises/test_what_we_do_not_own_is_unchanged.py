"""What we do not own is unchanged: fields of others, their order and their spelling pass a change as they were."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geolake_nb as gl
from geolake_nb.formats.havasu.commit import commit
from geolake_nb.formats.storage import Storage
from tests import small_tables
from tests.formats.delta.log_maker import field, protocol, schema_string, vector
from tests.formats.havasu_rows import entries_of, metadata_of, restating_all
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet_sets import GEO, points
from tests.oracle import thrift_tree
from tests.planning.repair_tables import GEOMETRY, typed, wkb
from tests.promises.table_bytes import table_bytes
from tests.strategies import json_objects, json_strings, json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# ---- JSON as it stands, told apart by the standard library alone

_DECODE = json.JSONDecoder().raw_decode


def members(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Each key of an object, where the member starts, where its value starts, and where it ends."""
    at = _past_space(text, 1)
    while text[at] != "}":
        key, colon = _DECODE(text, at)
        start = _past_space(text, _past_space(text, colon) + 1)
        end = _DECODE(text, start)[1]
        yield key, at, start, end
        at = _past_space(text, end)
        if text[at] == ",":
            at = _past_space(text, at + 1)


def _past_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def value_of(text: str, *path: str) -> str | None:
    """The text of a value."""
    for name in path:
        found = [(start, end) for key, _, start, end in members(text) if key == name]
        if not found:
            return None
        text = text[slice(*found[0])]
    return text


def masked(text: str, *owned: str) -> str:
    """The text with nothing in the place of the values of these keys."""
    for key, _, start, end in reversed(list(members(text))):
        if key in owned:
            text = text[:start] + "_" + text[end:]
    return text


def without(text: str, path: tuple[str, ...]) -> str:
    """The text without that member and the comma that it came with."""
    listed = list(members(text))
    for place, (key, at, start, end) in enumerate(listed):
        if key != path[0]:
            continue
        if len(path) > 1:
            return text[:start] + without(text[start:end], path[1:]) + text[end:]
        if place:
            return text[: listed[place - 1][3]] + text[end:]
        return text[:at] + text[listed[1][1] if len(listed) > 1 else end :]
    return text


# ---- Delta

SPACE = st.sampled_from(["", "", "", " ", "\t "])
NUMBERS = st.sampled_from(
    ["1.10", "-0", "-0.0", "1E+2", "123456789012345678901234567890", "18446744073709551616", "1e-400",
     "9007199254740993", "12345678901234567890.12345678901234567890"]
)  # fmt: skip
# None is the key of a field that Delta has, and some look like it.
KEYS = st.sampled_from(
    ["Path", "path ", "STATS", "stats_parsed ", "dataChange_", "Add", "add.path", "fromTheFuture", "ü", "\U0001f600",
     "", 'q"', "\\", "}{", "__proto__", "deletionvector", "\u202e", "\x00", "tags."]
)  # fmt: skip
ODD = {"space": SPACE, "numbers": NUMBERS, "keys": KEYS}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def spelled(draw: st.DrawFn, known: dict[str, str | None], *, shuffled: bool = True, odd: int = 3) -> str:
    """An object with these members (those that are `None` left out) and odd ones, in some order and spelling."""
    held = [(key, value) for key, value in known.items() if value is not None]
    held += [(key, draw(json_values(2, **ODD))) for key in draw(st.lists(KEYS, max_size=odd, unique=True))]
    order = draw(st.permutations(held)) if shuffled else held
    written = [
        "".join([draw(SPACE), draw(json_strings(key)), draw(SPACE), ":", draw(SPACE), value, draw(SPACE)])
        for key, value in order
    ]
    return "{" + ",".join(written) + "}"


@st.composite
def statistics(draw: st.DrawFn) -> str:
    """Statistics without a bound of the geo column, or with a wrong one."""
    wrong = draw(st.booleans())
    values = {
        "numRecords": draw(st.sampled_from(["2", "2", None])),
        **{
            name: draw(st.none() | spelled({"id": draw(NUMBERS), "geom": '"POINT EMPTY"' if wrong else None}, odd=1))
            for name in ("minValues", "maxValues")
        },
        "nullCount": draw(st.none() | spelled({"id": "0"}, odd=1)),
        "statsWithCollation": draw(st.none() | json_objects(2, **ODD)),
    }
    return draw(spelled(values))


@st.composite
def adds(draw: st.DrawFn, *, path: str, size: int, deleted: bool) -> str:
    """The object of an `add` of a file."""
    known = {
        "path": json.dumps(path),
        "partitionValues": "{}",
        "size": str(size),
        "modificationTime": draw(st.sampled_from(["0", "1700000000000", "9223372036854775807"])),
        "dataChange": "true",
        "stats": draw(statistics().flatmap(json_strings)),
        "tags": draw(st.none() | st.dictionaries(TEXTS, TEXTS, max_size=3).map(json.dumps)),
        "deletionVector": json.dumps(vector(1)) if deleted else None,
        "baseRowId": draw(st.sampled_from([None, "0", "9223372036854775807"])),
        "defaultRowCommitVersion": draw(st.sampled_from([None, "3"])),
        "clusteringProvider": draw(st.none() | TEXTS.map(json.dumps)),
    }
    return draw(spelled(known))


@st.composite
def metadatas(draw: st.DrawFn, **more: str) -> str:
    known = {
        "id": '"t"',
        "format": '{"provider":"parquet","options":{}}',
        "schemaString": json.dumps(schema_string(field("id", "long"), field("geom", GEOMETRY))),
        "partitionColumns": "[]",
        "configuration": draw(st.dictionaries(TEXTS, TEXTS, max_size=2).map(json.dumps)),
        "createdTime": draw(st.sampled_from(["0", "1700000000000", None])),
        "name": draw(st.none() | TEXTS.map(json.dumps)),
    }
    return draw(spelled({**known, **more}))


@st.composite
def small_actions(draw: st.DrawFn) -> list[str]:
    """Actions that no repair touches."""
    domain = {"domain": '"d"', "configuration": draw(TEXTS.map(json.dumps)), "removed": "false"}
    return [
        f'{{"metaData":{draw(metadatas())}}}',
        f'{{"domainMetadata":{draw(spelled(domain))}}}',
        f'{{"txn":{draw(spelled({"appId": draw(TEXTS.map(json.dumps)), "version": "7"}))}}}',
        f'{{"commitInfo":{draw(spelled({"operation": draw(TEXTS.map(json.dumps))}))}}}',
        f'{{"cdc":{draw(spelled({"path": json.dumps("_change_data/c"), "partitionValues": "{}", "size": "1"}))}}}',
        f'{{"fromTheFuture":{draw(json_values(2, **ODD))}}}',
    ]


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    """A data file whose footer has boxes."""
    path = tmp_path_factory.mktemp("rows") / "a.parquet"
    pq.write_table(pa.table({"id": [0, 1], "geom": typed(wkb("POINT (10 50)", "POINT (11 52)"))}), path)
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Callable[[], Path]:
    parent, numbers = tmp_path_factory.mktemp("tables"), itertools.count()
    return lambda: parent / f"t{next(numbers)}"


class Log:
    """A log that is written and read line by line."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder = folder
        (folder / "_delta_log").mkdir(parents=True)
        for name in "ab":
            shutil.copy(data, folder / f"{name}.parquet")

    def write(self, version: int, *lines: str) -> None:
        self._path(version).write_text("\n".join(lines), encoding="utf-8", newline="")

    def lines(self, version: int) -> list[str]:
        return self._path(version).read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def inside(self, version: int, kind: str) -> list[str]:
        """The objects of the actions of a kind in a version, as they stand."""
        return [text for line in self.lines(version) if (text := value_of(line, kind)) is not None]

    def _path(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020}.json"


FOR_READERS = ("geospatial", "deletionVectors")
PROTOCOL = json.dumps(protocol(*FOR_READERS, "domainMetadata", reader=FOR_READERS))


@settings(max_examples=40)
@given(st.data())
def test_actions_of_delta_pass_a_repair_and_its_undo_byte_for_byte(rows, folders, data):
    log = Log(folders(), rows)
    size = rows.stat().st_size
    vectors = {name: data.draw(st.booleans()) for name in "ab"}
    before = {name: data.draw(adds(path=f"{name}.parquet", size=size, deleted=vectors[name])) for name in "ab"}
    heads = [data.draw(st.sampled_from(['{"add":', '{ "add" :', '{"add":\t'])) for _ in before]
    log.write(0, PROTOCOL, *data.draw(small_actions()))
    log.write(1, *(f"{head}{text}}}" for head, text in zip(heads, before.values(), strict=True)))
    old = table_bytes(log.folder)

    report = gl.open(log.folder).plan_repair().apply()
    assert [next(iter(json.loads(line))) for line in log.lines(2)] == ["commitInfo", "add", "add"]
    after = dict(zip(before, log.inside(2, "add"), strict=True))
    for name, text in before.items():
        assert masked(after[name], "stats", "dataChange") == masked(text, "stats", "dataChange")
        assert value_of(after[name], "dataChange") == "false"
        stored, mended = (json.loads(value_of(one, "stats")) for one in (text, after[name]))
        for owned in owned_statistics(stored, deleted=vectors[name]):
            stored, mended = without(stored, owned), without(mended, owned)
        assert mended == stored

    report.undo()
    assert [next(iter(json.loads(line))) for line in log.lines(3)] == ["commitInfo", "add", "add"]
    restored = dict(zip(before, log.inside(3, "add"), strict=True))
    for name, text in before.items():
        assert masked(restored[name], "dataChange") == masked(text, "dataChange")
    now = table_bytes(log.folder)
    assert {path: now[path] for path in old} == old
    assert len(now) == len(old) + 2


def owned_statistics(stored: str, *, deleted: bool) -> Iterator[tuple[str, ...]]:
    """What a repair may put into statistics."""
    for name in ("minValues", "maxValues", "nullCount"):
        yield (name, "geom") if value_of(stored, name) is not None else (name,)
    if value_of(stored, "numRecords") is None:
        yield ("numRecords",)
    if deleted:
        yield ("tightBounds",)


@settings(max_examples=30)
@given(st.data())
def test_metadata_and_domains_come_back_as_they_were(rows, folders, data):
    log = Log(folders(), rows)
    first = data.draw(small_actions())
    log.write(0, PROTOCOL, *first)
    theirs = [
        f'{{"metaData":{data.draw(metadatas(description=json.dumps("theirs")))}}}',
        f'{{"domainMetadata":{data.draw(spelled({"domain": json.dumps("d"), "configuration": json.dumps("new")}))}}}',
        f'{{"domainMetadata":{data.draw(spelled({"domain": json.dumps("e"), "configuration": json.dumps("x")}))}}}',
        f'{{"txn":{data.draw(spelled({"appId": json.dumps("a"), "version": "8"}))}}}',
    ]
    log.write(1, *theirs)
    gl.open(log.folder).plan_undo(1).apply()
    assert log.inside(2, "metaData") == [value_of(first[0], "metaData")]
    restored = log.inside(2, "domainMetadata")
    assert restored[0] == value_of(first[1], "domainMetadata")
    assert [json.loads(one)["removed"] for one in restored[1:]] == [True]
    # And forward again.
    gl.open(log.folder).plan_undo(2).apply()
    assert log.inside(3, "metaData") == [value_of(theirs[0], "metaData")]
    assert log.inside(3, "domainMetadata") == [value_of(one, "domainMetadata") for one in theirs[1:3]]


@settings(max_examples=15)
@given(st.data())
def test_metadata_that_is_edited_keeps_all_else(rows, folders, data):
    log = Log(folders(), rows)
    fields = schema_string(field("id", "long"), field("raw", "binary"), field("name", "string"))
    held = data.draw(metadatas(schemaString=json.dumps(fields)))
    log.write(0, PROTOCOL, f'{{"metaData":{held}}}')
    table = gl.open(log.folder)
    (*_, enabled) = table.plan_enable({"raw": gl.geometry()}).change.actions
    (*_, collated) = table.plan_collations({"name": "icu.de_CI"}).change.actions
    for text in (enabled, collated):
        assert masked(value_of(text, "metaData"), "schemaString") == masked(held, "schemaString")


# ---- Havasu: manifests in Avro

AVRO: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False)),
    ("string", TEXTS),
    ("bytes", st.binary(max_size=9)),
    ({"type": "fixed", "name": "f", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    ({"type": "array", "items": "int", "element-id": 8001}, st.lists(st.integers(-9, 9), max_size=3)),
    ({"type": "map", "values": "string"}, st.dictionaries(TEXTS, TEXTS, max_size=2)),
    ({"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "long"], "field-id": 8002}]},
     st.fixed_dictionaries({"x": st.none() | st.integers(0, 9)})),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
     st.decimals(-9999, 9999, places=2, allow_nan=False, allow_infinity=False)),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.datetimes(timezones=st.just(dt.UTC))),
]  # fmt: skip


@st.composite
def fields_of_others(draw: st.DrawFn, first: int) -> list[tuple[int, dict[str, Any], st.SearchStrategy[Any]]]:
    """Fields that Iceberg has not, with where they go among the others and what they hold."""
    found = []
    for number, place in enumerate(draw(st.lists(st.integers(0, 30), max_size=3))):
        type_, values = draw(st.sampled_from(AVRO))
        name = f"own_{first + number}"
        if isinstance(type_, dict) and "name" in type_:
            type_ = {**type_, "name": f"{type_['name']}{first + number}"}
        if draw(st.booleans()):
            type_, values = ["null", type_], st.none() | values
        found.append((place, {"name": name, "type": type_, "field-id": first + number, "doc": "theirs"}, values))
    return found


def with_fields(schema: dict[str, Any], records: list[dict[str, Any]], own: list[Any], draw: Any) -> None:
    """Put the fields into a record's schema, and a value of each into the records."""
    for place, definition, values in own:
        schema["fields"].insert(place, definition)
        for record in records:
            record[definition["name"]] = draw(values)


@settings(max_examples=40)
@given(st.data())
def test_entries_of_manifests_keep_the_fields_of_others(folders, data):
    folder, draw = folders(), data.draw
    version = draw(st.sampled_from([1, 2]))
    shapes = small_tables.shapes((1, 2))
    make_havasu_table(folder, [geometry_entry(name, shapes) for name in "ab"], version=version, extra={"x": [1, None]})
    own = {place: draw(fields_of_others(first)) for place, first in (("entry", 9000), ("file", 9100), ("list", 9200))}
    (manifest,) = (folder / "metadata").glob("*-m0.avro")
    schema, header, entries = read_avro(manifest)
    file_schema = next(one["type"] for one in schema["fields"] if one["name"] == "data_file")
    with_fields(schema, entries, own["entry"], draw)
    with_fields(file_schema, [one["data_file"] for one in entries], own["file"], draw)
    for number, one in enumerate(entries):
        one["status"] = draw(st.sampled_from([0, 1]))
        one["data_file"] |= {
            "split_offsets": draw(st.none() | st.lists(st.integers(4, 10**12), max_size=3)),
            "sort_order_id": draw(st.none() | st.integers(0, 9)),
            "key_metadata": draw(st.none() | st.binary(max_size=5)),
            "column_sizes": [{"key": 1, "value": draw(st.integers(0, 10**12))}],
        }
        if version > 1 and one["status"] == 0:
            one |= {"snapshot_id": 7, "sequence_number": number, "file_sequence_number": draw(st.integers(0, 1))}
    write_avro(manifest, schema, entries, header | {"theirs": draw(TEXTS)})
    (listed,) = (folder / "metadata").glob("snap-*.avro")
    schema, header, records = read_avro(listed)
    with_fields(schema, records, own["list"], draw)
    records[0]["manifest_length"] = manifest.stat().st_size
    write_avro(listed, schema, records, header)
    before, old = entries_of(folder), metadata_of(folder)

    storage = Storage.at(str(folder))
    commit(storage, restating_all(storage))
    after = entries_of(folder)
    ours = {"geom_lower_bounds", "geom_upper_bounds"}
    inherited = {"snapshot_id": 1001, "sequence_number": 1, "file_sequence_number": 1}
    for one, other in zip(before, after, strict=True):
        assert kept(other["data_file"], ours) == kept(one["data_file"], ours)
        numbers = {key: one[key] if one[key] is not None else number for key, number in inherited.items() if key in one}
        assert kept(other, {"data_file", "listed"}) == kept(one, {"data_file", "listed"}) | numbers | {"status": 0}
        for _, definition, _ in own["list"]:
            assert other["listed"][definition["name"]] == one["listed"][definition["name"]]
    path = after[0]["listed"]["manifest_path"]
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        assert reader.metadata["theirs"] == header_of(manifest)["theirs"]
        stored = json.loads(reader.metadata["avro.schema"])
    found = next(one["type"] for one in stored["fields"] if one["name"] == "data_file")["fields"]
    for where, definitions in ((stored["fields"], own["entry"]), (found, own["file"])):
        for _, definition, _ in definitions:
            assert definition in where
    now = metadata_of(folder)
    assert now["x"] == old["x"]
    assert now["snapshots"][0] == old["snapshots"][0]


def kept(record: dict[str, Any], owned: set[str]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in owned}


def read_avro(path: Path) -> tuple[dict[str, Any], dict[str, str], list[dict[str, Any]]]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
        return json.loads(reader.metadata["avro.schema"]), header, list(reader)


def header_of(path: Path) -> dict[str, str]:
    return read_avro(path)[1]


def write_avro(path: Path, schema: dict[str, Any], records: list[dict[str, Any]], header: dict[str, str]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records, metadata=header)


# ---- Parquet: footers in Thrift

# Parquet, FileMetaData and what is in it: the fields that a repair of a geo column may write.
SCHEMA, GROUPS, PROPERTIES = 2, 4, 5
CONVERTED, LOGICAL = 6, 10
CHUNKS, META, COLUMN_INDEX = 1, 3, {6, 7}
STATISTICS, GEO_STATISTICS = 12, 17
OWN_PROPERTIES = {b"geo", b"ARROW:schema", b"geolake_nb.boxes"}
THRIFT: list[tuple[int, st.SearchStrategy[Any]]] = [
    (thrift_tree.TRUE, st.booleans()),
    (thrift_tree.I32, st.integers(-(2**31), 2**31 - 1)),
    (thrift_tree.I64, st.integers(-(2**63), 2**63 - 1)),
    (thrift_tree.DOUBLE, st.binary(min_size=8, max_size=8)),
    (thrift_tree.BINARY, st.binary(max_size=9)),
    (thrift_tree.LIST, st.lists(st.integers(-9, 9), max_size=20).map(lambda held: (thrift_tree.I32, held))),
    (thrift_tree.MAP, st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 9)), min_size=1, max_size=3).map(
        lambda pairs: (thrift_tree.BINARY, thrift_tree.I64, pairs))),
    (thrift_tree.STRUCT, st.integers(0, 9).map(
        lambda number: [(3, thrift_tree.I32, number), (40, thrift_tree.TRUE, True)])),
]  # fmt: skip


def of_field(struct: list[Any], number: int) -> Any:
    return next((value for field_, _, value in struct if field_ == number), None)


@st.composite
def with_strange_fields(draw: st.DrawFn, footer: bytes) -> bytes:
    """The footer with fields that nobody knows, in structs of every kind."""
    tree = thrift_tree.read_tree(footer)
    structs = [tree, *of_field(tree, SCHEMA)[1], *of_field(tree, GROUPS)[1], *of_field(tree, PROPERTIES)[1]]
    for group in of_field(tree, GROUPS)[1]:
        for chunk in of_field(group, CHUNKS)[1]:
            structs += [chunk, of_field(chunk, META), *filter(None, [of_field(of_field(chunk, META), STATISTICS)])]
    for struct in structs:
        for number in draw(st.lists(st.sampled_from([60, 61, 400, 32767]), max_size=2, unique=True).map(sorted)):
            kind, values = draw(st.sampled_from(THRIFT))
            struct.append((number, kind, draw(values)))
    return thrift_tree.write_tree(tree)


def unowned(tree: list[Any]) -> list[Any]:
    """The tree without what a repair of the column `geom`, the second leaf, may write."""
    elements = of_field(tree, SCHEMA)[1]
    elements[2][:] = [one for one in elements[2] if one[0] not in (CONVERTED, LOGICAL)]
    for group in of_field(tree, GROUPS)[1]:
        chunk = of_field(group, CHUNKS)[1][1]
        chunk[:] = [one for one in chunk if one[0] not in COLUMN_INDEX]
        meta = of_field(chunk, META)
        # Of the statistics, bounds go and the count of nulls may come; what others put there stays.
        strange = [one for one in of_field(meta, STATISTICS) or [] if one[0] > 50]
        meta[:] = [one for one in meta if one[0] not in (STATISTICS, GEO_STATISTICS)]
        meta.append((STATISTICS, thrift_tree.STRUCT, strange))
    properties = of_field(tree, PROPERTIES)[1]
    properties[:] = [one for one in properties if of_field(one, 1) not in OWN_PROPERTIES]
    return tree


@settings(max_examples=40)
@given(st.data())
def test_footers_keep_the_fields_of_others_and_pages_stay(folders, data):
    folder = folders()
    folder.mkdir()
    path = folder / "a.parquet"
    geo = GEO | {"theirs": [1, None], "columns": {"geom": GEO["columns"]["geom"] | {"own": {"a": "ü"}}}}
    properties = data.draw(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=3))
    table = points(0, 10).replace_schema_metadata({**properties, "geo": json.dumps(geo)})
    pq.write_table(table, path, row_group_size=4, write_page_index=True)
    raw = path.read_bytes()
    body, footer = split(raw)
    footer = data.draw(with_strange_fields(footer))
    original = body + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(original)
    pages = pq.ParquetFile(path).read()

    report = gl.open(folder).plan_repair().apply()
    after_body, after = split(path.read_bytes())
    assert after_body == body
    assert after != footer
    assert unowned(thrift_tree.read_tree(after)) == unowned(thrift_tree.read_tree(footer))
    told = pq.read_metadata(path)
    assert {key: told.metadata[key.encode()].decode() for key in properties} == properties
    stated = json.loads(told.metadata[b"geo"])
    assert (stated["theirs"], stated["columns"]["geom"]["own"]) == ([1, None], {"a": "ü"})
    assert told.row_group(0).column(0).has_column_index
    assert told.row_group(0).column(1).has_offset_index
    assert pq.read_table(path, arrow_extensions_enabled=False)["geom"].equals(pages["geom"])
    report.undo()
    assert path.read_bytes() == original


def split(data: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8]


# ---- Iceberg, through its Java API


def iceberg_entries(folder: Path) -> list[dict[str, Any]]:
    """The entries of the current snapshot, read with fastavro."""
    newest = max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    held = json.loads(newest.read_text())
    current = next(one for one in held["snapshots"] if one["snapshot-id"] == held["current-snapshot-id"])
    listed = read_avro(Path(current["manifest-list"].removeprefix("file:")))[2]
    paths = [Path(one["manifest_path"].removeprefix("file:")) for one in listed]
    return [entry for path in paths for entry in read_avro(path)[2]]


@pytest.fixture
def iceberg(tmp_path) -> Path:
    """A file that is added, one that is there for long, and one that is gone, with all that a file can have."""
    folder = tmp_path / "t"
    low, high = (number.to_bytes(8, "little") for number in (0, 3))
    ends = {"nulls": {1: 0}, "nans": {1: 0}, "lower": {1: low}, "upper": {1: high}}
    files = [FileEntry(f"{name}.parquet", rows=4, table=small_tables.data((1, 2)), **ends) for name in "abc"]
    make_iceberg_table(folder, [column(1, "id", "long"), column(2, "geom", "geometry")], files, version=3)
    (manifest,) = (folder / "metadata").glob("*-m0.avro")
    schema, header, entries = read_avro(manifest)
    for number, one in enumerate(entries):
        one["status"] = number
        if number != 1:
            one |= {"snapshot_id": 7, "sequence_number": 1, "file_sequence_number": 1}
        one["data_file"] |= {
            "split_offsets": [4, 200 + number],
            "first_row_id": 1000 * number,
            "file_size_in_bytes": (folder / f"{'abc'[number]}.parquet").stat().st_size,
        }
    write_avro(manifest, schema, entries, header)
    (listed,) = (folder / "metadata").glob("snap-*.avro")
    schema, header, records = read_avro(listed)
    for kind in ("added", "existing", "deleted"):
        records[0] |= {f"{kind}_files_count": 1, f"{kind}_rows_count": 4}
    records[0]["manifest_length"] = manifest.stat().st_size
    write_avro(listed, schema, records, header)
    return folder


@pytest.mark.spark
def test_iceberg_keeps_numbers_ids_and_offsets_of_files(spark, iceberg):
    before = [one for one in iceberg_entries(iceberg) if one["status"] != 2]
    report = gl.open(iceberg).plan_repair().apply(spark=spark)
    after = iceberg_entries(iceberg)
    assert len(after) == len(before) == 2
    inherited = {"snapshot_id": 1001, "sequence_number": 1, "file_sequence_number": 1}
    bounds = {"lower_bounds", "upper_bounds"}
    for old, new in zip(before, after, strict=True):
        numbers = {key: number if old[key] is None else old[key] for key, number in inherited.items()}
        assert kept(new, {"data_file"}) == {"status": 0, **numbers}
        assert kept(new["data_file"], bounds) == kept(old["data_file"], bounds)
        for name in bounds:
            assert new["data_file"][name][:1] == old["data_file"][name]
            assert [pair["key"] for pair in new["data_file"][name]] == [1, 2]
    report.undo(spark=spark)
    assert [one for one in iceberg_entries(iceberg) if one["status"] != 2] == before


@pytest.mark.spark
def test_a_field_that_iceberg_for_java_does_not_know_is_kept(spark, iceberg):
    (manifest,) = (iceberg / "metadata").glob("*-m0.avro")
    schema, header, entries = read_avro(manifest)
    own = {"name": "own", "type": ["null", "long"], "default": None, "field-id": 9999}
    next(one["type"] for one in schema["fields"] if one["name"] == "data_file")["fields"].append(own)
    for number, entry in enumerate(entries):
        entry["data_file"]["own"] = 7 + number
    write_avro(manifest, schema, entries, header)
    before = {one["data_file"]["file_path"]: one["data_file"]["own"] for one in entries if one["status"] != 2}
    gl.open(iceberg).plan_repair().apply(spark=spark)
    assert {one["data_file"]["file_path"]: one["data_file"]["own"] for one in iceberg_entries(iceberg)} == before
