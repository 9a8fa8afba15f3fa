"""Random tables of four formats with deleted rows, written without the package and without Spark.

Each writer gets the rows of its files, and returns what the table holds: a full read without the deleted rows.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import geoarrow.pyarrow as ga
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
import shapely

from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.havasu_tables import encode, point
from tests.formats.iceberg_tables import (
    EQUALITY_DELETES,
    HAVASU_FIELDS,
    POSITION_DELETES,
    FileEntry,
    column,
    make_iceberg_table,
    xy,
)
from tests.no_row_lost.extreme_values import COLUMNS, random_files
from tests.no_row_lost.foreign_tables import without_small_integers
from tests.scan.row_oracle import FullRead

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "CRS",
    "WRITERS",
    "Made",
    "arrow_column",
    "deletion_vector_blob",
    "inline_vector",
    "random_rows",
    "random_shape",
]

CRS = {"geom": "OGC:CRS84", "merc": "EPSG:3857", "utm": "EPSG:32633"}
"""The geo columns of a random table."""
PARTS = ("a/b: 1%", "ü", "k=v", "plain", None)
PATH_ID, POS_ID = 2147483546, 2147483545
"""Iceberg, Reserved Field IDs."""


@dataclass(frozen=True)
class Made:
    """A table, and its live rows."""

    location: str
    full: FullRead
    names: tuple[str, ...]
    """The plain columns that filters ask about."""


def random_shape(draw: random.Random, x: int, y: int) -> Any:
    """A shape on a grid of whole numbers near a place, so that shapes touch, cross and equal one another."""

    def near() -> tuple[float, float]:
        return float(max(-180, min(180, x + draw.randint(-3, 3)))), float(max(-85, min(85, y + draw.randint(-3, 3))))

    def box() -> Any:
        (left, low), (right, top) = near(), near()
        return shapely.box(min(left, right), min(low, top), max(left, right) + 1, max(low, top) + 1)

    makers: list[Callable[[], Any]] = [
        lambda: None,
        lambda: draw.choice([shapely.Point(), shapely.LineString(), shapely.Polygon(), shapely.GeometryCollection()]),
        lambda: shapely.Point(*near()),
        lambda: shapely.Point(*near()),
        lambda: shapely.Point(*near(), draw.randint(-5, 5)),
        lambda: shapely.from_wkb(struct.pack("<BIdd", 1, 1, float("nan"), near()[1])),
        lambda: shapely.LineString([near(), near()]),
        lambda: shapely.LineString([near(), near(), near()]),
        box,
        box,
        lambda: shapely.Polygon(shapely.Point(x, y).buffer(3).exterior, [shapely.Point(x, y).buffer(1).exterior]),
        lambda: shapely.MultiPoint([near(), near()]),
        lambda: shapely.MultiLineString([[near(), near()], [near(), near()]]),
        lambda: shapely.MultiPolygon([shapely.box(x, y, x + 1, y + 1), shapely.box(x + 2, y + 2, x + 3, y + 3)]),
        lambda: shapely.GeometryCollection([shapely.Point(*near()), shapely.LineString([near(), near()])]),
        lambda: shapely.from_wkb(struct.pack("<BII6d", 1, 2, 3, *near(), float("nan"), near()[1], *near())),
    ]
    return draw.choice(makers)()


def random_rows(draw: random.Random, *, files: int = 5, rows: int = 9) -> list[pa.Table]:
    """The rows of each file: all plain types with extreme values, and shapes in three systems."""
    made = []
    for table in random_files(draw, files=files, rows=rows):
        x, y = draw.choice(
            [(0, 0), (10, 50), (179, -18), (-179, -18), (draw.randint(-170, 170), draw.randint(-70, 70))]
        )
        shapes = [random_shape(draw, x, y) for _ in range(rows)]
        # Of the other systems points alone: an edge is another line in another system.
        other = {"merc": (2e7, 1e7), "utm": (5e5, 4e6)}
        points = {name: [_point(draw, name, *scale) for _ in range(rows)] for name, scale in other.items()}
        columns = {"geom": shapes, **points}
        for name, values in columns.items():
            wkb = [None if shape is None else shapely.to_wkb(shape, flavor="iso") for shape in values]
            table = table.append_column(name, pa.array(wkb, pa.binary()))  # noqa: PLW2901
        made.append(table)
    return made


def _without_nan(table: pa.Table) -> pa.Table:
    shapes = shapely.from_wkb(np.array(table["geom"].to_pylist(), object))
    broken = [shape is not None and bool(np.isnan(shapely.get_coordinates(shape)).any()) for shape in shapes]
    place = table.column_names.index("geom")
    values = [None if bad else value for bad, value in zip(broken, table["geom"].to_pylist(), strict=True)]
    return table.set_column(place, "geom", pa.array(values, pa.binary()))


def _point(draw: random.Random, name: str, width: float, height: float) -> Any:
    way = draw.random()
    if way < 0.15:
        return None
    low = 0 if name == "utm" else -height
    places = [(draw.uniform(-width, width), draw.uniform(low, height)) for _ in range(draw.choice((1, 1, 3)))]
    if name == "utm":
        places = [(5e5 + x / 4, y) for x, y in places]
    return shapely.Point(places[0]) if len(places) == 1 else shapely.MultiPoint(places)


def arrow_column(values: pa.Array | pa.ChunkedArray, crs: str | None = "OGC:CRS84", *, spherical: bool = False) -> Any:
    """WKB as a column that pyarrow writes with the geometry or geography type of Parquet."""
    kind = ga.wkb().with_crs(crs)
    if spherical:
        kind = kind.with_edge_type(ga.EdgeType.SPHERICAL)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return kind.wrap_array(values)


def _typed(table: pa.Table) -> pa.Table:
    for name, crs in CRS.items():
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, arrow_column(table[name], crs))
    return table


def _box(table: pa.Table, name: str) -> Any:
    """The box of a column, `None` if it has no place or a vertex that is not a number."""
    shapes = shapely.from_wkb(np.array(table[name].to_pylist(), object))
    places = shapely.get_coordinates(shapes[~shapely.is_missing(shapes)])
    places = places[~np.isnan(places).any(axis=1)]
    return (*places.min(axis=0), *places.max(axis=0)) if len(places) else None


def _minima(table: pa.Table) -> dict[str, tuple[int, int]]:
    """Minima and maxima of some columns of integers, where no engine is at odds about the order."""
    present = {name: table[name].drop_null().to_pylist() for name in ("id", "i4", "i8") if name in table.column_names}
    return {name: (min(values), max(values)) for name, values in present.items() if values}


def _without(table: pa.Table, gone: Sequence[int]) -> pa.Table:
    return table.filter(pa.array([place not in set(gone) for place in range(len(table))]))


def _full(tables: Sequence[pa.Table]) -> FullRead:
    return FullRead(pa.concat_tables(tables, promote_options="default"), CRS)


def _drawn(draw: random.Random, rows: int) -> list[int]:
    """The places of deleted rows."""
    share = draw.choice((0.0, 0.2, 0.5))
    return [place for place in range(rows) if draw.random() < share]


# ---- Parquet folders


def write_parquet(draw: random.Random, folder: Path, files: Sequence[pa.Table]) -> Made:
    """Files with row groups of some rows, in folders `part=`, some without one of the columns."""
    parts = draw.random() < 0.5
    full = []
    for number, given in enumerate(files):
        table, where = given, folder
        if number and draw.random() < 0.3:
            table = table.drop_columns([draw.choice(("s", "i4", "ts", "d38"))])
        if parts:
            part = draw.choice(PARTS)
            where = folder / f"part={'__HIVE_DEFAULT_PARTITION__' if part is None else quote(part, safe='')}"
            full.append(table.append_column("part", pa.array([part] * len(table), pa.string())))
        else:
            full.append(table)
        where.mkdir(parents=True, exist_ok=True)
        options = {"row_group_size": draw.choice((2, 4, 100)), "write_page_index": draw.random() < 0.5}
        pq.write_table(_typed(table), where / f"{number}.parquet", **options)
    return Made(str(folder), _full(full), (*COLUMNS, *(("part",) if parts else ())))


# ---- Delta


_DELTA_TYPES = {
    pa.bool_(): "boolean", pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer", pa.int64(): "long",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "binary", pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp", pa.timestamp("us"): "timestamp_ntz",
}  # fmt: skip


def _delta_type(kind: pa.DataType) -> str:
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _DELTA_TYPES[kind]


def _bitmap_array(places: Sequence[int]) -> bytes:
    """Delta, Deletion Vector Format: RoaringBitmapArray in its portable form."""
    body = pyroaring.BitMap(places).serialize()
    return struct.pack("<IQI", 1681511377, 1, 0) + body


_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _z85(data: bytes) -> str:
    return base64.b85encode(data).translate(bytes.maketrans(_B85, _Z85)).decode()


def inline_vector(places: Sequence[int]) -> dict[str, Any]:
    """A deletion vector in the log itself."""
    data = _bitmap_array(places)
    padded = data + bytes(-len(data) % 4)
    return {
        "storageType": "i", "pathOrInlineDv": _z85(padded), "sizeInBytes": len(data), "cardinality": len(places)
    }  # fmt: skip


def _stored_vector(folder: Path, places: Sequence[int], *, prefix: str = "") -> dict[str, Any]:
    """A deletion vector in a file of its own, after another one."""
    data = _bitmap_array(places)
    other = _bitmap_array([0])
    framed = [struct.pack(">I", len(part)) + part + struct.pack(">I", zlib.crc32(part)) for part in (other, data)]
    name = uuid.uuid4()
    where = folder / prefix
    where.mkdir(exist_ok=True)
    (where / f"deletion_vector_{name}.bin").write_bytes(b"\x01" + b"".join(framed))
    return {
        "storageType": "u",
        "pathOrInlineDv": prefix + _z85(name.bytes),
        "offset": 1 + len(framed[0]),
        "sizeInBytes": len(data),
        "cardinality": len(places),
    }


def write_delta(draw: random.Random, folder: Path, files: Sequence[pa.Table]) -> Made:
    """A log by hand: deletion vectors in it and beside it, column mapping, partitions, and a rename on the way."""
    folder.mkdir(parents=True)
    mapped, parts = draw.random() < 0.5, draw.random() < 0.5
    names = list(files[0].column_names)
    physical = {name: f"col-{number}" if mapped else name for number, name in enumerate([*names, "part"])}
    fields = []
    for number, name in enumerate(names, 1):
        more = {}
        if mapped:
            more = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical[name]}
        kind: Any = f"geometry({CRS[name]})" if name in CRS else None
        if name == "n":
            inner = list(files[0].schema.field("n").type)
            listed = []
            for place, child in enumerate(inner):
                its_own = {}
                if mapped:
                    its_own = {"delta.columnMapping.id": 100 + place, "delta.columnMapping.physicalName": child.name}
                listed.append(field(child.name, _delta_type(child.type), **its_own))
            kind = {"type": "struct", "fields": listed}
        fields.append(field(name, kind or _delta_type(files[0].schema.field(name).type), **more))
    if parts:
        more = {"delta.columnMapping.id": 99, "delta.columnMapping.physicalName": physical["part"]} if mapped else {}
        fields.append(field("part", "string", **more))
    configuration = {"delta.enableDeletionVectors": "true"}
    features = ["deletionVectors", "timestampNtz", "geospatial"]
    if mapped:
        configuration |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "200"}
        features.append("columnMapping")
    adds, full = [], []
    for number, table in enumerate(files):
        part = draw.choice(PARTS) if parts else None
        gone = _drawn(draw, len(table))
        path = f"f {number}.parquet"
        stored = _typed(table).rename_columns([physical[name] for name in table.column_names])
        pq.write_table(stored, folder / path, row_group_size=draw.choice((2, 4, 100)))
        low: dict[str, Any] = {physical[name]: ends[0] for name, ends in _minima(table).items()}
        high: dict[str, Any] = {physical[name]: ends[1] for name, ends in _minima(table).items()}
        for name in CRS:
            if (sides := _box(table, name)) is not None and draw.random() < 0.8:
                low[physical[name]] = f"POINT ({float(sides[0])!r} {float(sides[1])!r})"
                high[physical[name]] = f"POINT ({float(sides[2])!r} {float(sides[3])!r})"
        stats = {"numRecords": len(table), "minValues": low, "maxValues": high, "tightBounds": not gone}
        more = {"size": (folder / path).stat().st_size}
        if gone:
            vectors = [inline_vector(gone), _stored_vector(folder, gone), _stored_vector(folder, gone, prefix="ab")]
            more["deletionVector"] = draw.choice(vectors)
        partition = {physical["part"]: part} if parts else {}
        adds.append(add(quote(path), stats, partition=partition, **more))
        if parts:
            table = table.append_column("part", pa.array([part] * len(table), pa.string()))  # noqa: PLW2901
        full.append(_without(table, gone))
    partitions = ("part",) if parts else ()
    log = LogMaker(folder)
    log.commit(0, protocol(*features), metadata(*fields, partitions=partitions, **configuration), *adds[:2])
    log.commit(1, *adds[2:])
    return Made(str(folder), _full(full), (*COLUMNS, *(("part",) if parts else ())))


# ---- Iceberg and Havasu


_ICEBERG_TYPES = {
    pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double",
    pa.string(): "string", pa.binary(): "binary", pa.date32(): "date", pa.timestamp("us", "UTC"): "timestamptz",
    pa.timestamp("us"): "timestamp",
}  # fmt: skip


def _iceberg_type(kind: pa.DataType) -> str:
    return f"decimal({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else _ICEBERG_TYPES[kind]


def _with_field_ids(table: pa.Table, ids: Mapping[str, int]) -> pa.Table:
    """The same rows with the field ids of Iceberg, those of a struct after all others."""
    fields = []
    for listed in table.schema:
        kind = listed.type
        if pa.types.is_struct(kind):
            inner = [
                child.with_metadata({"PARQUET:field_id": str(ids[f"{listed.name}.{child.name}"])}) for child in kind
            ]
            kind = pa.struct(inner)
        fields.append(pa.field(listed.name, kind, metadata={"PARQUET:field_id": str(ids[listed.name])}))
    return table.cast(pa.schema(fields))


def _iceberg_schema(schema: pa.Schema, geo: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    columns, ids = [], {name: number for number, name in enumerate(schema.names, 1)}
    for listed in schema:
        kind: Any = geo.get(listed.name)
        if pa.types.is_struct(listed.type):
            inner = []
            for child in listed.type:
                ids[f"{listed.name}.{child.name}"] = len(ids) + 1
                inner.append(column(ids[f"{listed.name}.{child.name}"], child.name, _iceberg_type(child.type)))
            kind = {"type": "struct", "fields": inner}
        more = kind[1] if isinstance(kind, tuple) else {}
        kind = kind[0] if isinstance(kind, tuple) else kind
        columns.append(column(ids[listed.name], listed.name, kind or _iceberg_type(listed.type), **more))
    return columns, ids


def deletion_vector_blob(places: Sequence[int]) -> bytes:
    """Iceberg, Puffin: the blob deletion-vector-v1."""
    body = b"\xd1\xd3\x39\x64" + struct.pack("<QI", 1, 0) + pyroaring.BitMap(places).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _position_file(folder: Path, name: str, of: str, places: Sequence[int]) -> FileEntry:
    schema = pa.schema([
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": str(POS_ID)}),
    ])  # fmt: skip
    rows = pa.table([[f"{folder}/{of}"] * len(places), list(places)], schema=schema)
    return FileEntry(name, rows=len(places), content=POSITION_DELETES, table=rows)


def _equality_file(name: str, ids: Sequence[int]) -> FileEntry:
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    rows = pa.table([list(ids)], schema=schema)
    return FileEntry(name, rows=len(ids), content=EQUALITY_DELETES, equality_ids=[1], table=rows)


def _vector_file(folder: Path, name: str, of: str, places: Sequence[int]) -> FileEntry:
    blob = deletion_vector_blob(places)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"PFA1" + blob)
    return FileEntry(
        name, rows=len(places), content=POSITION_DELETES, format="PUFFIN", vector_bytes=len(blob),
        referenced_data_file=f"{folder}/{of}",
    )  # fmt: skip


def _entries(
    draw: random.Random,
    folder: Path,
    files: Sequence[pa.Table],
    stored: Callable[[pa.Table], pa.Table],
    more: Callable[[pa.Table], Mapping[str, Any]],
    *,
    vectors: bool,
) -> tuple[list[FileEntry], list[FileEntry], list[pa.Table]]:
    """The data files, the files that delete some of their rows, and what is left."""
    data, deletes, full = [], [], []
    for number, table in enumerate(files):
        path = f"data/f{number}.parquet"
        (folder / "data").mkdir(parents=True, exist_ok=True)
        pq.write_table(stored(table), folder / path, row_group_size=draw.choice((2, 4, 100)))
        data.append(FileEntry(path, rows=len(table), bytes=(folder / path).stat().st_size, **more(table)))
        gone = _drawn(draw, len(table))
        if gone:
            how = draw.choice(("positions", "equality", "vector" if vectors else "positions"))
            name = f"data/d{number}.{'puffin' if how == 'vector' else 'parquet'}"
            if how == "positions":
                deletes.append(_position_file(folder, name, path, gone))
            elif how == "vector":
                deletes.append(_vector_file(folder, name, path, gone))
            else:
                deletes.append(_equality_file(name, table["id"].take(gone).to_pylist()))
        full.append(_without(table, gone))
    return data, deletes, full


def write_iceberg(draw: random.Random, folder: Path, files: Sequence[pa.Table]) -> Made:
    """Manifests by hand: position deletes, equality deletes and deletion vectors; sometimes a partition."""
    files = [without_small_integers(table) for table in files]
    folder.mkdir(parents=True)
    columns, ids = _iceberg_schema(files[0].schema, {name: f"geometry({crs})" for name, crs in CRS.items()})

    def more(table: pa.Table) -> dict[str, Any]:
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        for name, ends in _minima(table).items():
            lower[ids[name]], upper[ids[name]] = (struct.pack("<i" if name == "i4" else "<q", end) for end in ends)
        for name in CRS:
            if (sides := _box(table, name)) is not None and draw.random() < 0.8:
                lower[ids[name]], upper[ids[name]] = xy(*sides[:2]), xy(*sides[2:])
        return {"lower": lower, "upper": upper}

    def stored(table: pa.Table) -> pa.Table:
        return _with_field_ids(_typed(table), ids)

    data, deletes, full = _entries(draw, folder, files, stored, more, vectors=True)
    make_iceberg_table(folder, columns, data[:2], data[2:], deletes, version=3)
    return Made(str(folder), _full(full), tuple(COLUMNS))


def _as_text(table: pa.Table, encoding: str) -> pa.Table:
    """The rows with the geometries that the text of an encoding stands for: it may lack the last bit of a number."""
    shapes = shapely.from_wkb(np.array(table["geom"].to_pylist(), object))
    texts = np.array(encode(shapes, encoding).to_pylist(), object)
    read = shapely.from_wkt(texts) if encoding == "wkt" else shapely.from_geojson(texts)
    wkb = pa.array(shapely.to_wkb(read, flavor="iso").tolist(), pa.binary())
    return table.set_column(table.column_names.index("geom"), table.schema.field("geom"), wkb)


def write_havasu(draw: random.Random, folder: Path, files: Sequence[pa.Table]) -> Made:
    """Each encoding in turn; GeoJSON and WKT have no words for a vertex that is not a number."""
    files = [without_small_integers(table) for table in files]
    encoding = draw.choice(("ewkb", "wkb", "wkt", "geojson"))
    if encoding in ("wkt", "geojson"):
        files = [_as_text(_without_nan(table), encoding) for table in files]
    folder.mkdir(parents=True)
    physical = "string" if encoding in ("wkt", "geojson") else "binary"
    geo = {"geom": (physical, {"havasu.geometry-encoding": encoding})}
    kept = [table.drop_columns(["merc", "utm"]) for table in files]
    columns, ids = _iceberg_schema(kept[0].schema, geo)

    def more(table: pa.Table) -> dict[str, Any]:
        sides = _box(table, "geom")
        known = {} if sides is None or draw.random() < 0.2 else {ids["geom"]: sides}
        return {
            "geom_lower": {key: point(*box[:2]) for key, box in known.items()},
            "geom_upper": {key: point(*box[2:]) for key, box in known.items()},
        }

    def stored(table: pa.Table) -> pa.Table:
        shapes = shapely.from_wkb(np.array(table["geom"].to_pylist(), object))
        place = table.column_names.index("geom")
        return _with_field_ids(table.set_column(place, "geom", encode(shapes, encoding)), ids)

    data, deletes, full = _entries(draw, folder, kept, stored, more, vectors=False)
    commits = [data[:2], data[2:], deletes]
    make_iceberg_table(folder, columns, *commits, extra_file_fields=HAVASU_FIELDS)
    return Made(str(folder), FullRead(pa.concat_tables(full), {"geom": None}), tuple(COLUMNS))


WRITERS: Mapping[str, Callable[[random.Random, Path, Sequence[pa.Table]], Made]] = {
    "parquet": write_parquet,
    "delta": write_delta,
    "iceberg": write_iceberg,
    "havasu": write_havasu,
}
