"""What we do not own is unchanged: fields of others, their order and their spelling pass a change as they were."""

from __future__ import annotations

import itertools
import json
import shutil
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geolake_nb as gl
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.havasu.commit import commit, commit_change
from geolake_nb.storage.storage import Storage
from tests import small_tables
from tests.changes.repair_tables import GEOMETRY, typed, wkb
from tests.formats.delta.log_maker import field, protocol, schema_string, vector, write_checkpoint
from tests.formats.havasu_rows import append, metadata_of, updating_all_bounds, written
from tests.formats.havasu_rows import points as havasu_points
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet_sets import GEO, points
from tests.oracle import thrift_tree
from tests.promises import iceberg_changes
from tests.promises.foreign_fields import (
    PLAIN,
    TEXTS,
    iceberg_entries,
    kept,
    key_paths,
    live_files,
    manifests_of,
    put_foreign_fields,
    put_foreign_keys,
    read_avro,
    write_avro,
)
from tests.promises.table_bytes import table_bytes
from tests.strategies import json_objects, json_strings, json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
        spans = [(start, end) for key, _, start, end in members(text) if key == name]
        if not spans:
            return None
        text = text[slice(*spans[0])]
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
    for index, (key, at, start, end) in enumerate(listed):
        if key != path[0]:
            continue
        if len(path) > 1:
            return text[:start] + without(text[start:end], path[1:]) + text[end:]
        if index:
            return text[: listed[index - 1][3]] + text[end:]
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


@st.composite
def spelled(draw: st.DrawFn, known: dict[str, str | None], *, shuffled: bool = True, odd: int = 3) -> str:
    """An object with these members (those that are `None` left out) and odd ones, in some order and spelling."""
    pairs = [(key, value) for key, value in known.items() if value is not None]
    pairs += [(key, draw(json_values(2, **ODD))) for key in draw(st.lists(KEYS, max_size=odd, unique=True))]
    order = draw(st.permutations(pairs)) if shuffled else pairs
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
        stored, repaired = (json.loads(value_of(add, "stats")) for add in (text, after[name]))
        for owned in owned_statistics(stored, deleted=vectors[name]):
            stored, repaired = without(stored, owned), without(repaired, owned)
        assert repaired == stored

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


# Types of columns that somebody may put into the `add` of a checkpoint, with what they hold.
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), TEXTS),
    (pa.list_(pa.int64()), st.lists(st.integers(-9, 9), max_size=3)),
    (pa.map_(pa.string(), pa.string()), st.dictionaries(TEXTS, TEXTS, max_size=2)),
    (pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]),
     st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.lists(TEXTS, max_size=2)})),
]  # fmt: skip


@settings(max_examples=20)
@given(st.data())
def test_columns_of_others_in_a_checkpoint_pass_a_repair_and_its_undo(rows, folders, data):
    log, draw = Log(folders(), rows), data.draw
    names = draw(st.lists(KEYS.filter(lambda name: name and "\0" not in name), min_size=1, max_size=3, unique=True))
    own = [(name, *draw(st.sampled_from(COLUMNS))) for name in names]
    own_values = {file: {name: draw(st.none() | values) for name, _, values in own} for file in "ab"}
    known = {
        file: {
            "path": f"{file}.parquet",
            "partitionValues": {},
            "size": rows.stat().st_size,
            "modificationTime": draw(st.integers(0, 2**62)),
            "dataChange": False,
            "stats": draw(st.sampled_from([None, '{"numRecords":2}'])),
        }
        for file in "ab"
    }
    schema = schema_string(field("id", "long"), field("geom", GEOMETRY))
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    first = [json.loads(PROTOCOL), {"metaData": metadata | {"partitionColumns": [], "configuration": {}}}]
    log.write(0, *map(json.dumps, [*first, *({"add": add} for add in known.values())]))
    adds = [{"add": known[file] | own_values[file]} for file in "ab"]
    checkpoint = log.folder / "_delta_log" / f"{0:020}.checkpoint.parquet"
    write_checkpoint(checkpoint, [*first, *adds], own=[(name, type_) for name, type_, _ in own])

    report = gl.open(log.folder).plan_repair().apply()
    report.undo()
    for version in (1, 2):
        after = {add["path"][0]: add for add in map(json.loads, log.inside(version, "add"))}
        assert sorted(after) == ["a", "b"]
        for file, add in after.items():
            expected = {key: value for key, value in (known[file] | own_values[file]).items() if value is not None}
            assert kept(add, {"stats"}) == kept(expected, {"stats"})
            if version == 2:
                assert add.get("stats") == known[file]["stats"]


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
    assert [json.loads(domain)["removed"] for domain in restored[1:]] == [True]
    # And forward again.
    gl.open(log.folder).plan_undo(2).apply()
    assert log.inside(3, "metaData") == [value_of(theirs[0], "metaData")]
    assert log.inside(3, "domainMetadata") == [value_of(line, "domainMetadata") for line in theirs[1:3]]


@settings(max_examples=15)
@given(st.data())
def test_metadata_that_is_edited_keeps_all_else(rows, folders, data):
    log = Log(folders(), rows)
    fields = schema_string(field("id", "long"), field("raw", "binary"), field("name", "string"))
    metadata_text = data.draw(metadatas(schemaString=json.dumps(fields)))
    log.write(0, PROTOCOL, f'{{"metaData":{metadata_text}}}')
    table = gl.open(log.folder)
    (*_, enabled) = table.plan_enable({"raw": gl.geometry()}).change.actions
    (*_, collated) = table.plan_collations({"name": "icu.de_CI"}).change.actions
    for text in (enabled, collated):
        assert masked(value_of(text, "metaData"), "schemaString") == masked(metadata_text, "schemaString")


# ---- Havasu: manifests in Avro


def havasu_repair(folder: Path) -> None:
    storage = Storage.at(str(folder))
    commit(storage, updating_all_bounds(storage))


def havasu_append(folder: Path) -> None:
    append(folder, havasu_points(2, first=50))


def havasu_rewrite(folder: Path) -> None:
    """The first file becomes another one, the second stays."""
    storage = Storage.at(str(folder))
    change = gl.open(folder).plan_rewrite(cluster_by="geom").change
    _, other = (action for action in change.actions if "remove" in json.loads(action))
    change = replace(change, actions=[action for action in change.actions if action != other])
    commit_change(written(storage, change, [havasu_points(4)]), CommitContext(storage, str(uuid.uuid4())))


def havasu_undo(folder: Path) -> None:
    """Of rows that were added."""
    havasu_append(folder)
    gl.open(folder).plan_undo().apply()


HAVASU = [havasu_append, havasu_repair, havasu_rewrite, havasu_undo]
# What a commit writes into the metadata; of lists and of the branch it adds to what is there.
WRITTEN = {"last-updated-ms", "last-sequence-number", "current-snapshot-id"}
ADDED_TO = ("snapshots", "snapshot-log")


@settings(max_examples=40)
@given(st.data())
def test_manifests_and_metadata_of_havasu_keep_what_others_put_there(folders, data):
    folder, draw = folders(), data.draw
    version, change = draw(st.sampled_from([1, 2])), draw(st.sampled_from(HAVASU))
    shapes = small_tables.shapes((1, 2))
    make_havasu_table(folder, [geometry_entry(name, shapes) for name in "ab"], version=version)
    (manifest,) = (folder / "metadata").glob("*-m0.avro")
    schema, header, entries = read_avro(manifest)
    for number, entry in enumerate(entries):
        entry["status"] = draw(st.sampled_from([0, 1]))
        entry["data_file"] |= {
            "split_offsets": draw(st.none() | st.lists(st.integers(4, 10**12), max_size=3)),
            "sort_order_id": draw(st.none() | st.integers(0, 9)),
            # Files that have one are encrypted, and plans refuse them.
            "key_metadata": draw(st.none() | st.binary(max_size=5)) if change is havasu_repair else None,
            "column_sizes": [{"key": 1, "value": draw(st.integers(0, 10**12))}],
        }
        if version > 1 and entry["status"] == 0:
            entry |= {"snapshot_id": 7, "sequence_number": number, "file_sequence_number": draw(st.integers(0, 1))}
    write_avro(manifest, schema, entries, header)
    own = put_foreign_fields(folder, draw)
    put_foreign_keys(folder, draw, **ODD)
    (before,), old, raw = manifests_of(folder), metadata_of(folder, as_spelled=True), table_bytes(folder)

    change(folder)
    manifests = manifests_of(folder)
    assert len(manifests) == (2 if change in (havasu_append, havasu_rewrite) else 1)
    now = manifests[0]
    assert len(now.entries) == len(before.entries) == 2
    ours = {"geom_lower_bounds", "geom_upper_bounds"} if change is havasu_repair else set()
    inherited = {"snapshot_id": 1001, "sequence_number": 1, "file_sequence_number": 1}
    for index, (entry, other) in enumerate(zip(before.entries, now.entries, strict=True)):
        assert kept(other["data_file"], ours) == kept(entry["data_file"], ours)
        if change in (havasu_append, havasu_undo):
            assert other == entry  # the manifest is the same
            continue
        numbers = {
            key: entry[key] if entry[key] is not None else number for key, number in inherited.items() if key in entry
        }
        removed = change is havasu_rewrite and index == 0
        numbers |= {"status": 2, "snapshot_id": other["snapshot_id"]} if removed else {"status": 0}
        assert kept(other, {"data_file"}) == kept(entry, {"data_file"}) | numbers
    for _, definition, _ in own["list"]:
        assert now.listed[definition["name"]] == before.listed[definition["name"]]
    assert now.header["by"] == before.header["by"]
    for where, definitions in ((now.schema["fields"], own["entry"]), (now.file_fields(), own["file"])):
        for _, definition, _ in definitions:
            assert definition in where

    new = metadata_of(folder, as_spelled=True)
    lists = {*ADDED_TO, "refs", "metadata-log"}
    assert kept(new, WRITTEN | lists) == kept(old, WRITTEN | lists)
    for name in ADDED_TO:
        assert new[name][: len(old[name])] == old[name]
    assert kept(new["refs"]["main"], {"snapshot-id"}) == kept(old["refs"]["main"], {"snapshot-id"})
    left = table_bytes(folder)
    raw.pop("metadata/version-hint.text")
    assert left.items() >= raw.items()


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
    (thrift_tree.LIST, st.lists(st.integers(-9, 9), max_size=20).map(lambda items: (thrift_tree.I32, items))),
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
    elements[2][:] = [member for member in elements[2] if member[0] not in (CONVERTED, LOGICAL)]
    for group in of_field(tree, GROUPS)[1]:
        chunk = of_field(group, CHUNKS)[1][1]
        chunk[:] = [member for member in chunk if member[0] not in COLUMN_INDEX]
        meta = of_field(chunk, META)
        # Of the statistics, bounds go and the count of nulls may come; what others put there stays.
        strange = [member for member in of_field(meta, STATISTICS) or [] if member[0] > 50]
        meta[:] = [member for member in meta if member[0] not in (STATISTICS, GEO_STATISTICS)]
        meta.append((STATISTICS, thrift_tree.STRUCT, strange))
    properties = of_field(tree, PROPERTIES)[1]
    properties[:] = [member for member in properties if of_field(member, 1) not in OWN_PROPERTIES]
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
    parsed = pq.read_metadata(path)
    assert {key: parsed.metadata[key.encode()].decode() for key in properties} == properties
    stated = json.loads(parsed.metadata[b"geo"])
    assert (stated["theirs"], stated["columns"]["geom"]["own"]) == ([1, None], {"a": "ü"})
    assert parsed.row_group(0).column(0).has_column_index
    assert parsed.row_group(0).column(1).has_offset_index
    assert pq.read_table(path, arrow_extensions_enabled=False)["geom"].equals(pages["geom"])
    report.undo()
    assert path.read_bytes() == original


def split(data: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8]


# ---- Iceberg, through its Java API


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
    for number, entry in enumerate(entries):
        entry["status"] = number
        if number != 1:
            entry |= {"snapshot_id": 7, "sequence_number": 1, "file_sequence_number": 1}
        entry["data_file"] |= {
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
    before = [entry for entry in iceberg_entries(iceberg) if entry["status"] != 2]
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
    assert [entry for entry in iceberg_entries(iceberg) if entry["status"] != 2] == before


def names_of(*placed: list[Any]) -> set[str]:
    return {definition["name"] for some in placed for _, definition, _ in some}


ICEBERG = [iceberg_changes.append, iceberg_changes.repair, iceberg_changes.rewrite, iceberg_changes.undo]


@pytest.mark.spark
@settings(max_examples=4)
@given(st.data())
def test_what_iceberg_for_java_does_not_know_is_kept_or_the_plan_says_so(spark, folders, data):
    """It drops keys and fields that Iceberg does not define; manifests that are not rewritten keep theirs."""
    folder, draw = folders(), data.draw
    files = [FileEntry(f"{name}.parquet", rows=4, table=small_tables.data((1, 2))) for name in "abc"]
    # Manifests would be merged with any commit that adds one.
    merging = {"commit.manifest.min-count-to-merge": "2"}
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    make_iceberg_table(folder, columns, files[:2], files[2:], version=3, properties=merging)
    own = put_foreign_fields(folder, draw, types=PLAIN)
    keys = put_foreign_keys(folder, draw)
    original = shutil.copytree(folder, folder.with_name(f"{folder.name}-kept"))
    # The headers of manifests and lists have a property, too.
    in_entries, in_list = ({"by", *names_of(*of)} for of in ((own["entry"], own["file"]), (own["list"],)))
    for change in ICEBERG:
        shutil.rmtree(folder)
        shutil.copytree(original, folder)
        old, before = metadata_of(folder), live_files(folder)
        sentences = [note for note in change(folder, spark).notes if "drops fields" in note]
        new, after = metadata_of(folder), live_files(folder)
        lost = set(key_paths(old)) - set(key_paths(new))
        # With a key goes what is below it.
        assert lost <= {
            key_path for key_path in key_paths(old) if any(f"{key_path}.".startswith(f"{key}.") for key in keys)
        }, change
        gone = keys | {
            iceberg_changes.rewrite: in_list | in_entries,
            iceberg_changes.undo: set(),
        }.get(change, in_list)
        assert len(sentences) == bool(gone), change
        assert all(name in sentences[0] for name in gone), change
        for metadata in (old, new):
            metadata["snapshots"] = {entry["snapshot-id"]: entry for entry in metadata["snapshots"]}
        assert new["properties"] == old["properties"]
        for id_, entry in old["snapshots"].items():
            assert new["snapshots"][id_]["summary"] == entry["summary"]
        if change is not iceberg_changes.rewrite:
            there = {path: entry for path, entry in before.items() if path in after}
            assert len(there) == (2 if change is iceberg_changes.undo else 3), change
            assert {path: after[path] for path in there} == there, change
