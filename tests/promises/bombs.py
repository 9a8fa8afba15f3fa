"""Small tables that require much: counts, sizes and depths that no honest writer has."""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from tests import small_tables
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.havasu_tables import geometry_entry, make_havasu_table, raster_at, raster_entry
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table, manifest_schema
from tests.formats.parquet_sets import GEO, points
from tests.oracle import thrift_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

DEEP = 100_000
HUGE = 2**31 - 1
NESTED = "[" * DEEP + "]" * DEEP


# ---- Delta


def delta(folder: Path, *lines: str, crs: str = "OGC:CRS84", **configuration: str) -> LogMaker:
    """A table of one file whose second version is these lines."""
    made = LogMaker(folder)
    fields = (field("id", "long"), field("geom", f"geometry({crs})"))
    made.commit(0, protocol("geospatial"), metadata(*fields, **configuration))
    pq.write_table(small_tables.data((1, 2)), folder / "a.parquet")
    if lines:
        (made.log / f"{1:020}.json").write_text("\n".join(lines))
    return made


def deep_schema(depth: int) -> str:
    head = '{"type":"struct","fields":[{"name":"a","nullable":true,"metadata":{},"type":'
    return head * depth + '"long"' + "}]}" * depth


def with_schema(folder: Path, schema: str) -> None:
    made = LogMaker(folder)
    action = metadata()
    action["metaData"]["schemaString"] = schema
    made.commit(0, protocol(), action)


def checkpoint_of(folder: Path, change: Callable[[list[Any]], None]) -> None:
    """A table whose checkpoint has another footer."""
    made = delta(folder, json.dumps(add("a.parquet", {"numRecords": 1})))
    first, second = (json.loads(line) for line in (made.log / f"{0:020}.json").read_text().splitlines())
    made.checkpoint(1, first, second, add("a.parquet", {"numRecords": 1}))
    path = made.log / f"{1:020}.checkpoint.parquet"
    path.write_bytes(with_footer(path.read_bytes(), change))
    for commit in made.log.glob("*.json"):
        commit.unlink()


def long_texts(folder: Path) -> None:
    """A checkpoint in which each of 1,200 files has the same megabyte of statistics."""
    made = delta(folder)
    stats = '{"numRecords":1,"own":"' + "x" * (1 << 20) + '"}'
    start = protocol("geospatial"), metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"))
    made.checkpoint(1, *start, *(add(f"{number}.parquet", stats) for number in range(98)))
    path = made.log / f"{1:020}.checkpoint.parquet"
    rows = pa.concat_tables([pq.read_table(path)] * 12)
    pq.write_table(rows, path, row_group_size=100, compression="zstd", dictionary_pagesize_limit=1 << 30)
    assert path.stat().st_size < 200_000


# ---- Parquet


def with_footer(data: bytes, change: Callable[[list[Any]], None]) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    tree = thrift_tree.read_tree(data[-8 - length : -8])
    change(tree)
    footer = thrift_tree.write_tree(tree)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def set_field(struct_: list[Any], number: int, value: Any) -> None:
    index = next(index_ for index_, member in enumerate(struct_) if member[0] == number)
    struct_[index] = (number, struct_[index][1], value)


def of_field(struct_: list[Any], number: int) -> Any:
    return next(value for id_, _, value in struct_ if id_ == number)


def parquet(
    folder: Path, change: Callable[[list[Any]], None] = lambda tree: None, *, geo: Any = GEO, rows=None
) -> Path:
    folder.mkdir()
    table = points(0, 3) if rows is None else rows
    text = geo if isinstance(geo, str) else json.dumps(geo)
    pq.write_table(table.replace_schema_metadata({"geo": text}), folder / "a.parquet", compression="none")
    path = folder / "a.parquet"
    path.write_bytes(with_footer(path.read_bytes(), change))
    return path


def with_crs(crs: dict[str, Any]) -> str:
    return json.dumps(GEO | {"columns": {name: column | {"crs": crs} for name, column in GEO["columns"].items()}})


def ensemble(members: int) -> dict[str, Any]:
    ellipsoid = {"name": "WGS 84", "semi_major_axis": 6378137, "inverse_flattening": 298.257223563}
    datums = {"name": "ensemble", "members": [{"name": f"m{number}"} for number in range(members)]}
    axes = [
        {"name": f"Geodetic {name}", "abbreviation": name[:3], "direction": direction, "unit": "degree"}
        for name, direction in (("latitude", "north"), ("longitude", "east"))
    ]
    return {
        "type": "GeographicCRS",
        "name": "many datums",
        "datum_ensemble": datums | {"ellipsoid": ellipsoid, "accuracy": "2.0"},
        "coordinate_system": {"subtype": "ellipsoidal", "axis": axes},
    }


def raw_footer(folder: Path, footer: bytes) -> None:
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def claim_rows(count: int) -> Callable[[list[Any]], None]:
    def change(tree: list[Any]) -> None:
        set_field(tree, 3, count)
        for group in of_field(tree, 4)[1]:
            set_field(group, 3, count)
            for chunk in of_field(group, 1)[1]:
                set_field(of_field(chunk, 3), 5, count)

    return change


def claim_pages(folder: Path) -> None:
    """Every page says that it unpacks to two gigabytes."""
    folder.mkdir()
    rows = points(0, 3).replace_schema_metadata({"geo": json.dumps(GEO)})
    pq.write_table(rows, folder / "a.parquet", compression="zstd", use_dictionary=False)
    data = (folder / "a.parquet").read_bytes()
    tree = thrift_tree.read_tree(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    chunk = of_field(of_field(of_field(tree, 4)[1][0], 1)[1][1], 3)
    start = of_field(chunk, 9)
    page = thrift_tree.read_tree(data[start:])
    size = len(thrift_tree.write_tree(page))
    set_field(page, 2, HUGE)
    header = thrift_tree.write_tree(page)
    grown = len(header) - size
    changed = data[:start] + header + data[start + size :]

    def change(tree: list[Any]) -> None:
        meta = of_field(of_field(of_field(tree, 4)[1][0], 1)[1][1], 3)
        set_field(meta, 7, of_field(meta, 7) + grown)

    (folder / "a.parquet").write_bytes(with_footer(changed, change))


def wkb_rows(*values: bytes) -> pa.Table:
    return pa.table({"id": range(len(values)), "geom": pa.array(values, pa.binary())})


COLLECTION = struct.pack("<BII", 1, 7, 1)
WKB = {
    "a line of four billion points": struct.pack("<BII", 1, 2, 2**32 - 1),
    "a polygon of four billion rings": struct.pack("<BII", 1, 3, 2**32 - 1) + bytes(64),
    "collections in collections": COLLECTION * DEEP + struct.pack("<BIdd", 1, 1, 1.0, 2.0),
}


# ---- Iceberg and Havasu


def number(value: int) -> bytes:
    """A number as Avro writes it."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def container(schema: Any, body: bytes, records: int, *, codec: str = "null", size: int | None = None) -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    pairs = {b"avro.schema": text, b"avro.codec": codec.encode()}
    head = b"".join(number(len(part)) + part for pair in pairs.items() for part in pair)
    sync = b"s" * 16
    block = number(records) + number(len(body) if size is None else size)
    return b"Obj\x01" + number(len(pairs)) + head + number(0) + sync + block + body + sync


def iceberg(folder: Path, manifest: bytes | None = None, listed: bytes | None = None) -> Path:
    entry = FileEntry("a.parquet", rows=4, table=small_tables.data((1, 2)))
    make_iceberg_table(folder, [column(1, "id", "long"), column(2, "geom", "geometry")], [entry], version=3)
    for names, data in (("*-m0.avro", manifest), ("snap-*.avro", listed)):
        if data is not None:
            (path,) = (folder / "metadata").glob(names)
            path.write_bytes(data)
    return folder / "metadata" / "v1.metadata.json"


def deflated(size: int, bits: int = -15, end: bytes = b"") -> bytes:
    """So many zeros and then `end`, packed."""
    engine = zlib.compressobj(1, zlib.DEFLATED, bits)
    piece = bytes(1 << 20)
    packed = [engine.compress(piece) for _ in range(size >> 20)]
    return b"".join([*packed, engine.compress(end), engine.flush()])


def havasu_texts(folder: Path, text: str, encoding: str) -> None:
    entry = geometry_entry("a", [shapely.Point(1, 2)], encoding=encoding)
    column_ = pa.array([text], pa.string())
    rows = entry.table.set_column(1, entry.table.schema.field(1), column_)
    make_havasu_table(folder, [replace(entry, table=rows)], encoding=encoding)


def large_raster(folder: Path) -> None:
    entry = raster_entry("a", [raster_at(1, 2)], None)
    values = entry.table["rast"].to_pylist()
    values[0] |= {"width": HUGE, "height": HUGE}
    rows = entry.table.set_column(1, entry.table.schema.field(1), pa.array(values, entry.table["rast"].type))
    make_havasu_table(folder, [replace(entry, table=rows)], encoding=None, rasters=True)


def long_rasters(folder: Path, count: int = 2_000, *, group: int = 64, **fields: Any) -> None:
    """Rasters that differ in nothing, in so many rows, with these values in place of those of the group."""
    entry = raster_entry("a", [raster_at(1, 2)], None)
    value = entry.table["rast"].to_pylist()[0] | fields
    row = pa.array([value], entry.table["rast"].type)
    make_havasu_table(folder, [entry], encoding=None, rasters=True)
    (path,) = folder.glob("data/*.parquet")
    table = pa.table([entry.table["id"], row], schema=pq.read_schema(path))
    with pq.ParquetWriter(path, table.schema, compression="zstd", dictionary_pagesize_limit=1 << 30) as writer:
        some = table.take(pa.array([0] * group))
        for _ in range(count // group):
            writer.write_table(some)
    assert path.stat().st_size < 500_000


MEGABYTE = 1 << 20
LONG_BAND = {"pixel_type": 4, "no_data": None, "data": bytes(MEGABYTE), "out_db_band_no": None, "out_db_url": None}


def repeated_value(folder: Path, kind: str) -> None:
    """One line of a megabyte in each of 600 rows: once in the file, and with what it begins like written once."""
    folder.mkdir()
    count = (1 << 20) // 16
    line = struct.pack("<BII", 1, 2, count) + bytes(16 * count)
    rows = 600
    lines: pa.Array = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([line], pa.binary()))
    options: dict[str, Any] = {"dictionary_pagesize_limit": 1 << 30}
    if kind == "prefixes":
        options = {"use_dictionary": False, "column_encoding": {"geom": "DELTA_BYTE_ARRAY"}, "write_batch_size": 1}
        lines = lines.cast(pa.binary())
    table = pa.table({"id": pa.array(range(rows)), "geom": lines})
    path = folder / "a.parquet"
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"geo": json.dumps(GEO)})
    assert path.stat().st_size < 200_000


def piped(folder: Path, name: str) -> None:
    """A table with a pipe, which nobody writes to, in place of a file."""
    small_tables.make_delta(folder)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)


def entries_of(*fields: dict[str, Any], partition: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """The schema of manifest entries that have a status, a partition, and these fields of files."""
    parted = {"type": "record", "name": "r102", "fields": list(partition)}
    inside = [{"name": "partition", "type": parted, "field-id": 102}, *fields]
    data_file = {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": inside}, "field-id": 2}
    status = {"name": "status", "type": "int", "field-id": 0}
    return {"type": "record", "name": "manifest_entry", "fields": [status, data_file]}


PATH = {"name": "file_path", "type": "string", "field-id": 100}
IDS = {"name": "equality_ids", "type": {"type": "array", "items": "int"}, "field-id": 135}
EMPTY = [
    {"name": f"p{number}", "type": {"type": "fixed", "name": f"f{number}", "size": 0}, "field-id": 1000 + number}
    for number in range(10_000)
]
ENTRY = manifest_schema(3)
BOMBS: dict[str, Callable[[Path], Any]] = {
    "delta: deep JSON in an action": lambda folder: delta(folder, f'{{"commitInfo":{{"a":{NESTED}}}}}'),
    "delta: deep JSON in an unknown action": lambda folder: delta(folder, f'{{"new":{NESTED}}}'),
    "delta: deep JSON in an add": lambda folder: delta(
        folder, f'{{"add":{{"path":"a.parquet","size":1,"x":{NESTED}}}}}'
    ),
    "delta: deep JSON in statistics": lambda folder: delta(
        folder, json.dumps(add("a.parquet", f'{{"numRecords":1,"minValues":{{"geom":{NESTED}}}}}'))
    ),
    "delta: deep JSON in a CRS": lambda folder: delta(
        folder, json.dumps(add("a.parquet")), crs="projjson:deep", deep="[" * 5_000 + "]" * 5_000
    ),
    "delta: a deep schema": lambda folder: with_schema(folder, deep_schema(5_000)),
    "delta: numbers without end": lambda folder: delta(
        folder, '{"add":{"path":"a","partitionValues":{},"size":' + "9" * 5_000 + "}}"
    ),
    "delta: a version beyond all": lambda folder: delta(folder).write(f"{'9' * 20}.json", [add("a")]),
    "delta: a checkpoint of a trillion rows": lambda folder: checkpoint_of(folder, claim_rows(10**12)),
    "delta: a checkpoint of billions of parts": lambda folder: delta(folder, json.dumps(add("a.parquet"))).write(
        f"{1:020}.checkpoint.{1:010}.{9_999_999_999:010}.parquet", []
    ),
    "delta: a hint of billions of parts": lambda folder: delta(folder, json.dumps(add("a.parquet"))).hint(
        '{"version":1,"size":1000000000000,"parts":1000000000}'
    ),
    "delta: a long text in every row of a checkpoint": long_texts,
    "delta: a pipe as a hint": lambda folder: piped(folder, "_delta_log/_last_checkpoint"),
    "delta: a pipe as a data file": lambda folder: piped(folder, "part-0.parquet"),
    "parquet: two billion columns": lambda folder: raw_footer(
        folder, bytes.fromhex("150419fcffffffff07") + b"\x48\x01a\x00" * 60
    ),
    "parquet: two billion row groups": lambda folder: raw_footer(
        folder, bytes.fromhex("1504192c480161150200150238016200160619fcffffffff07") + b"\x00" * 200
    ),
    "parquet: four gigabytes of text": lambda folder: raw_footer(
        folder, b"\x15\x04\x18\xff\xff\xff\xff\x0f" + bytes(280)
    ),
    "parquet: a deep schema": lambda folder: parquet(folder, deepen),
    "parquet: a trillion rows": lambda folder: parquet(folder, claim_rows(10**12)),
    "parquet: pages of two gigabytes": claim_pages,
    "parquet: a long value in every row": lambda folder: repeated_value(folder, "dictionary"),
    "parquet: a long beginning in every row": lambda folder: repeated_value(folder, "prefixes"),
    "parquet: deep JSON in the geo property": lambda folder: parquet(folder, geo=NESTED),
    "parquet: deep JSON in a CRS": lambda folder: parquet(
        folder, geo=json.dumps(GEO).replace('"encoding"', f'"crs":{NESTED},"encoding"')
    ),
    "parquet: many datums in a CRS": lambda folder: parquet(folder, geo=with_crs(ensemble(5_000))),
    "parquet: a long CRS": lambda folder: parquet(folder, geo=with_crs(ensemble(40_000))),
    **{
        f"wkb: {name}": (lambda folder, value=value: parquet(folder, rows=wkb_rows(value)))
        for name, value in WKB.items()
    },
    "iceberg: metadata that inflates": lambda folder: inflating(iceberg(folder)),
    "iceberg: deep JSON in the metadata": lambda folder: deep(iceberg(folder)),
    "iceberg: a block of many records": lambda folder: iceberg(folder, container(ENTRY, bytes(99), 2**62)),
    "iceberg: a block of many bytes": lambda folder: iceberg(folder, container(ENTRY, bytes(99), 1, size=2**40)),
    "iceberg: text of many bytes": lambda folder: iceberg(
        folder, container(entries_of(PATH), b"\x02" + number(2**62) + bytes(99), 1)
    ),
    "iceberg: records of a byte": lambda folder: iceberg(
        folder, container(entries_of(), deflated(250 << 20), 250 << 20, codec="deflate")
    ),
    "iceberg: values without bytes": lambda folder: iceberg(
        folder, container(entries_of(partition=EMPTY), bytes(100_000), 100_000)
    ),
    "iceberg: a list without end": lambda folder: iceberg(
        folder,
        container(
            entries_of(IDS),
            zlib.compress(b"\x00" + number(200 << 20) + bytes(200 << 20) + b"\x00", 1, -15),
            1,
            codec="deflate",
        ),
    ),
    "iceberg: a list of many records": lambda folder: iceberg(folder, None, container(ENTRY, bytes(99), 2**40)),
    "iceberg: a deep Avro schema": lambda folder: iceberg(folder, container(NESTED.encode(), b"", 0)),
    "iceberg: a header of many pairs": lambda folder: iceberg(folder, b"Obj\x01" + number(2**40) + bytes(99)),
    "iceberg: a block that inflates": lambda folder: iceberg(
        folder, container(ENTRY, deflated(300 << 20), 9, codec="deflate")
    ),
    "iceberg: a block of zstandard that inflates": lambda folder: iceberg(
        folder, container(ENTRY, pa.compress(bytes(300 << 20), codec="zstd", asbytes=True), 9, codec="zstandard")
    ),
    "havasu: deep WKT": lambda folder: havasu_texts(
        folder, "GEOMETRYCOLLECTION(" * DEEP + "POINT(1 2)" + ")" * DEEP, "wkt"
    ),
    "havasu: deep GeoJSON": lambda folder: havasu_texts(
        folder, '{"type":"GeometryCollection","geometries":[' * DEEP + "]}" * DEEP, "geojson"
    ),
    "havasu: a raster of a quintillion cells": large_raster,
    "havasu: long cells in every raster": lambda folder: long_rasters(
        folder, width=1024, height=1024, num_bands=1, band_1=LONG_BAND
    ),
    "havasu: many long bands in a raster": lambda folder: long_rasters(
        folder, 64, num_bands=24, band_1=LONG_BAND, bands=[LONG_BAND] * 20
    ),
    "havasu: a long CRS in every raster": lambda folder: long_rasters(folder, crs_wkt="x" * MEGABYTE),
    "havasu: a long URL in every raster": lambda folder: long_rasters(
        folder, num_bands=1, band_1=LONG_BAND | {"data": None, "out_db_band_no": 0, "out_db_url": "x" * MEGABYTE}
    ),
    "havasu: many rasters": lambda folder: long_rasters(folder, 2_000_000, group=100_000),
}


def deepen(tree: list[Any]) -> None:
    """The schema becomes a chain of groups."""
    elements = of_field(tree, 2)[1]
    names = [(3, thrift_tree.I32, 0), (4, thrift_tree.BINARY, b"g"), (5, thrift_tree.I32, 1)]
    elements[0] = [member for member in elements[0] if member[0] != 5] + [(5, thrift_tree.I32, 1)]
    elements[1:1] = [list(names) for _ in range(DEEP)]
    del elements[-1]


def inflating(path: Path) -> None:
    text = path.read_text()
    path.unlink()
    path.with_name("v1.gz.metadata.json").write_bytes(deflated(100 << 20, 31, text.encode()))


def deep(path: Path) -> None:
    path.write_text(path.read_text().replace('"properties": {}', f'"properties": {{}}, "new": {NESTED}'))
