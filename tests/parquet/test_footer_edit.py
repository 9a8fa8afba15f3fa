"""Geo types and statistics put into footers that others wrote, as pyarrow reads them afterwards."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geolake_nb.errors import BoundError, CorruptTableError, SchemaError
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.parquet.thrift_compact import ListValue, Struct, Wire, read_struct, write_struct
from tests.oracle.wkb_write import point, write

INF = float("inf")
POINT = write(point(1.0, 2.0))


def parquet(table: pa.Table, **options) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, write_page_index=True, store_schema=False, **options)
    return file.getvalue()


def split(data: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8]


def edited(data: bytes, leaves, **options) -> pq.ParquetFile:
    body, footer = split(data)
    return pq.ParquetFile(io.BytesIO(body + footer_with_tail(edit_footer(footer, leaves, **options))))


@pytest.fixture(scope="module")
def plain() -> bytes:
    return parquet(pa.table({"id": [1, 2, 3], "g": [POINT, None, POINT]}), row_group_size=2)


def test_no_edit_leaves_real_footers_as_they_are(corpus):
    for path in (corpus / "parquet_geo").rglob("*.parquet"):
        footer = split(path.read_bytes())[1]
        assert edit_footer(footer, {}) == footer, path


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (GeometryType(), {"Type": "Geometry"}),
        (GeometryType(Crs("ogc:crs84")), {"Type": "Geometry"}),
        (GeometryType(Crs("srid:5070")), {"Type": "Geometry", "crs": "srid:5070"}),
        (GeometryType(Crs("EPSG:3857")), {"Type": "Geometry", "crs": "EPSG:3857"}),
        (GeometryType(Crs("EPSG:4326")), {"Type": "Geometry", "crs": "EPSG:4326"}),
        (GeometryType(Crs("projjson:local")), {"Type": "Geometry", "crs": "projjson:local"}),
        *[
            (GeographyType(algorithm=edges), {"Type": "Geography", "algorithm": edges.value})
            for edges in sorted(EdgeAlgorithm, key=lambda edges: edges.value)
        ],
        (
            GeographyType(Crs("EPSG:4269"), EdgeAlgorithm.KARNEY),
            {"Type": "Geography", "crs": "EPSG:4269", "algorithm": "karney"},
        ),
    ],
)
def test_the_logical_type_is_what_pyarrow_reads(plain, type_, expected):
    schema = edited(plain, {("g",): LeafEdit(type_)}).metadata.schema
    members = {key: text for key, text in json.loads(schema.column(1).logical_type.to_json()).items() if text}
    # pyarrow leaves out what is the default.
    assert members == {key: text for key, text in expected.items() if text != "spherical"}
    assert schema.column(0).logical_type.type == "NONE"


def test_boxes_codes_and_null_counts_are_what_pyarrow_reads(plain):
    box = Box(1, 2, 3, 4, zmin=5, zmax=6, mmin=7, mmax=8)
    groups = [ChunkStats(box, (1, 3001), placed=1), ChunkStats(None, None, placed=1)]
    metadata = edited(plain, {("g",): LeafEdit(GeometryType(), groups)}, created_by="geolake_nb 9").metadata
    assert metadata.created_by == "geolake_nb 9"
    first, second = (metadata.row_group(index).column(1) for index in range(2))
    sides = {"xmin": 1, "xmax": 3, "ymin": 2, "ymax": 4, "zmin": 5, "zmax": 6, "mmin": 7, "mmax": 8}
    assert first.geo_statistics.to_dict() == {"geospatial_types": [1, 3001], **sides}
    assert first.statistics.null_count == 1
    assert second.geo_statistics is None
    assert second.statistics.null_count == 0


def test_bytes_lose_their_order_in_footer_and_page_index_and_other_columns_keep_theirs(plain):
    before = pq.ParquetFile(io.BytesIO(plain)).metadata.row_group(0)
    assert before.column(1).statistics.has_min_max
    assert before.column(1).has_column_index
    file = edited(plain, {("g",): LeafEdit(GeometryType())})
    after = file.metadata.row_group(0)
    assert not after.column(1).statistics.has_min_max
    assert after.column(1).statistics.null_count == 1
    assert not after.column(1).has_column_index
    assert after.column(1).has_offset_index
    assert after.column(0).has_column_index
    assert after.column(0).statistics.max == 2
    assert file.read(columns=["id"])["id"].to_pylist() == [1, 2, 3]


def test_all_that_is_not_the_leaf_stays(plain):
    footer = split(plain)[1]
    before, after = read_struct(footer), read_struct(edit_footer(footer, {("g",): LeafEdit(GeometryType())}))
    assert set(before.fields) == set(after.fields)
    assert {n: v for n, v in before.fields.items() if n not in (2, 4)} == {
        n: v for n, v in after.fields.items() if n not in (2, 4)
    }
    assert before.get(2).items[:2] == after.get(2).items[:2]
    for old, new in zip(before.get(4).items, after.get(4).items, strict=True):
        assert old.without(1) == new.without(1)
        assert old.get(1).items[0] == new.get(1).items[0]


def test_nulls_of_a_nested_leaf_are_counted_as_pyarrow_counts_them():
    rows = [[POINT, None], None, [], [POINT]]
    kind = pa.struct([("l", pa.list_(pa.binary())), ("n", pa.int32())])
    table = pa.table({"s": pa.array([None, *({"l": row, "n": 1} for row in rows)], kind)})
    data = parquet(table)
    expected = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).statistics.null_count
    leaves = {("s", "l", "list", "element"): LeafEdit(GeometryType(), [ChunkStats(placed=2)])}
    assert edited(data, leaves).metadata.row_group(0).column(0).statistics.null_count == expected == 4


def test_a_geography_may_wrap_and_a_geometry_may_not(plain):
    groups = [ChunkStats(Box(170, 0, -170, 1))] * 2
    wrapped = edited(plain, {("g",): LeafEdit(GeographyType(), groups)}).metadata.row_group(0).column(1)
    assert (wrapped.geo_statistics.xmin, wrapped.geo_statistics.xmax) == (170, -170)
    with pytest.raises(BoundError, match="wrap"):
        edited(plain, {("g",): LeafEdit(GeometryType(), groups)})


@pytest.mark.parametrize(
    ("box", "known"),
    [
        (Box(0, 0, 1, INF), None),
        (Box(-INF, 0, 1, 1), None),
        (Box(0, 0, 1, 1, 0, INF, 5, 6), {"xmin": 0, "xmax": 1, "ymin": 0, "ymax": 1, "mmin": 5, "mmax": 6}),
    ],
)
def test_an_axis_without_end_is_left_out(plain, box, known):
    groups = [ChunkStats(box)] * 2
    stored = edited(plain, {("g",): LeafEdit(GeometryType(), groups)}).metadata.row_group(0).column(1).geo_statistics
    sides = None if stored is None else {side: end for side, end in stored.to_dict().items() if end is not None}
    assert sides == known


def test_names_with_dots_are_distinguished_from_fields_of_structs():
    table = pa.table({"a.b": [POINT], "a": pa.array([{"b": POINT}], pa.struct([("b", pa.binary())]))})
    schema = edited(parquet(table), {("a", "b"): LeafEdit(GeometryType())}).metadata.schema
    assert [schema.column(index).logical_type.type for index in range(2)] == ["NONE", "GEOMETRY"]


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        ({("h",): LeafEdit(GeometryType())}, "the file has no column h"),
        ({("id",): LeafEdit(GeometryType())}, "not binary"),
        ({("g",): LeafEdit(GeometryType(), [])}, "0 row groups for g, the file has 2"),
        ({("g",): LeafEdit(GeometryType(encoding=GeometryEncoding.EWKB))}, "store WKB, not ewkb"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(plain, leaves, message):
    with pytest.raises(SchemaError, match=message):
        edited(plain, leaves)


def _without(number):
    return lambda tree: tree.without(number)


def _with_children(count):
    def change(tree):
        elements = list(tree.get(2).items)
        elements[0] = elements[0].with_field(5, Wire.I32, count)
        return tree.with_field(2, Wire.LIST, ListValue(Wire.STRUCT, tuple(elements)))

    return change


def _with_name(name):
    def change(tree):
        elements = list(tree.get(2).items)
        elements[1] = elements[1].with_field(4, Wire.BINARY, name)
        return tree.with_field(2, Wire.LIST, ListValue(Wire.STRUCT, tuple(elements)))

    return change


@pytest.mark.parametrize(
    "change",
    [
        _without(2),
        _without(4),
        _with_children(1),
        _with_children(2**31 - 1),
        _with_name(b"\xff"),
        lambda tree: tree.with_field(2, Wire.I32, 5),
        lambda tree: tree.with_field(4, Wire.LIST, ListValue(Wire.I32, (1,))),
        lambda tree: tree.with_field(
            4,
            Wire.LIST,
            ListValue(Wire.STRUCT, (Struct().with_field(1, Wire.LIST, ListValue(Wire.STRUCT, (Struct(),))),)),
        ),
    ],
)
def test_a_footer_that_contradicts_itself_is_corrupt(plain, change):
    broken = write_struct(change(read_struct(split(plain)[1])))
    with pytest.raises(CorruptTableError):
        edit_footer(broken, {("g",): LeafEdit(GeometryType())}, where="a.parquet")


def test_properties_are_set_replaced_and_dropped_and_others_stay(plain):
    table = pa.table({"g": [POINT]}).replace_schema_metadata({"a": "1", "b": "2", "c": "3"})
    file = io.BytesIO()
    pq.write_table(table, file)
    made = edited(file.getvalue(), {}, properties={"a": None, "b": "two", "d": "ä"}).metadata.metadata
    assert {key: text for key, text in made.items() if key != b"ARROW:schema"} == {
        b"b": b"two",
        b"c": b"3",
        b"d": "ä".encode(),
    }
    assert edited(plain, {}, properties={"a": None}).metadata.metadata is None
    assert edited(plain, {}, properties={"geo": "{}"}).metadata.metadata == {b"geo": b"{}"}
