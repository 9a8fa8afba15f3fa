"""Files of the one writer, as pyarrow, DuckDB and this package's own reader see them."""

from __future__ import annotations

import datetime as dt
import os
import pickle
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import SchemaError, StorageError
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.parquet.footer import FooterReader, read_metadata
from geolake_nb.parquet.footer_boxes import locate
from geolake_nb.parquet.writer import ColumnRange, Layout, ParquetWriter
from geolake_nb.storage.storage import Storage
from tests.oracle.wkb_walk import walk
from tests.oracle.wkb_write import linestring, point, write
from tests.strategies import geometry_columns

POINT = write(point(1.0, 2.0))
OVER_THE_DATE_LINE = write(linestring((170.0, 60.0), (-170.0, 60.0)))
INT = PrimitiveType("int32")


def schema_of(**types) -> Schema:
    return Schema(StructType(tuple(Field(name, type_) for name, type_ in types.items())))


def write_file(folder, schema, *batches, name="a.parquet", **layout):
    with ParquetWriter(Storage.at(str(folder)), name, Layout(schema, **layout)) as writer:
        for batch in batches:
            writer.write(batch if isinstance(batch, pa.RecordBatch) else pa.record_batch(batch))
    return writer.close()


def read(folder, name="a.parquet") -> pa.Table:
    with pq.ParquetFile(os.path.join(folder, name), arrow_extensions_enabled=False) as file:
        return file.read()


DELTA_TYPES = {
    "binary": ("binary", [b"\0", None]),
    "boolean": ("boolean", [True, None]),
    "byte": ("int8", [-128, None]),
    "date": ("date", [dt.date(1582, 10, 4), None]),
    "decimal of int32": ("decimal(9, 2)", [Decimal("-1.50"), None]),
    "decimal of int64": ("decimal(18, 0)", [Decimal("999999999999999999"), None]),
    "decimal of bytes": ("decimal(38, 18)", [Decimal("12345678901234567890.123456789012345678"), None]),
    "double": ("float64", [-0.1, None]),
    "float": ("float32", [0.5, None]),
    "integer": ("int32", [2**31 - 1, None]),
    "long": ("int64", [-(2**63), None]),
    "short": ("int16", [-5, None]),
    "timestamp": ("timestamptz", [dt.datetime(1950, 1, 1, 0, 0, 0, 999999, dt.UTC), None]),
    "timestamp_ntz": ("timestamp", [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
}


@pytest.mark.parametrize(("name", "values"), DELTA_TYPES.values(), ids=DELTA_TYPES)
def test_delta_types_round_trip_with_their_range(tmp_path, name, values):
    schema = schema_of(c=PrimitiveType(name))
    column = pa.array(values, pa.float32() if name == "float32" else None)
    file = write_file(tmp_path, schema, {"c": column}, measured=frozenset({("c",)}))
    assert read(tmp_path)["c"].to_pylist() == values
    nans = 0 if name in ("float32", "float64") else None
    assert file.scalars["c",] == ColumnRange(values[0], values[0], 1, 2, nan_count=nans)
    view = FooterReader().view(pq.read_metadata(tmp_path / "a.parquet"), where="a")
    assert view.schema.fields[0].type == PrimitiveType(name)


def test_timestamps_are_micros_adjusted_to_utc_or_not(tmp_path):
    schema = schema_of(z=PrimitiveType("timestamptz"), n=PrimitiveType("timestamp"))
    noon = dt.datetime(2024, 1, 1, 12)
    zoned = pa.array([noon]).cast(pa.timestamp("us", "America/Los_Angeles"))
    write_file(tmp_path, schema, {"z": zoned, "n": pa.array([noon], pa.timestamp("ms"))})
    kinds = [str(pq.read_schema(tmp_path / "a.parquet").field(name).type) for name in "zn"]
    assert kinds == ["timestamp[us, tz=UTC]", "timestamp[us]"]
    assert read(tmp_path)["z"].cast(pa.int64()).to_pylist() == zoned.cast(pa.int64()).to_pylist()


GEO_TYPES = [
    GeometryType(),
    GeometryType(Crs("EPSG:3857")),
    GeometryType(Crs("srid:5070")),
    GeometryType(Crs("SRID:0")),
    GeometryType(Crs("projjson:local", '{"type":"GeographicCRS","name":"local"}')),
    *[GeographyType(algorithm=edges) for edges in sorted(EdgeAlgorithm, key=lambda edges: edges.value)],
]


@pytest.mark.parametrize(
    "type_", GEO_TYPES, ids=lambda geo_type: f"{geo_type.crs} {getattr(geo_type, 'algorithm', '')}"
)
def test_own_reader_finds_type_box_codes_and_null_count(tmp_path, type_):
    file = write_file(tmp_path, schema_of(g=type_), {"g": pa.array([POINT, None, OVER_THE_DATE_LINE])})
    view = FooterReader().view(pq.read_metadata(tmp_path / "a.parquet"), where="a")
    assert view.own
    stored = view.schema.fields[0].type
    assert stored == type_
    assert stored.crs.text == type_.crs.text
    assert stored.crs.resolved == type_.crs.resolved
    evidence = locate(view, view.find(("g",)), type_).whole()
    assert (evidence.rows, evidence.null_count, evidence.types, evidence.box) == (3, 1, (1, 2), file.geo["g",].box)
    assert evidence.box.wraps == isinstance(type_, GeographyType)
    assert (evidence.box.xmin, evidence.box.ymin) == ((1, 2) if isinstance(type_, GeographyType) else (-170, 2))


def test_bytes_of_geo_columns_have_no_order_and_no_dictionary(tmp_path):
    schema = schema_of(id=INT, g=GeometryType(), b=PrimitiveType("binary"))
    write_file(tmp_path, schema, {"id": [1], "g": [POINT], "b": [POINT]})
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert metadata.created_by.startswith("geolake_nb version ")
    assert b"ARROW:schema" not in (metadata.metadata or {})
    plain, geo, binary = (metadata.row_group(0).column(index) for index in range(3))
    assert plain.statistics.has_min_max
    assert plain.has_column_index
    assert binary.statistics.has_min_max
    assert not geo.statistics.has_min_max
    assert not geo.has_column_index
    assert geo.has_offset_index
    assert not {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & set(geo.encodings)
    assert geo.compression == "ZSTD"


def test_duckdb_reads_types_rows_and_boxes(tmp_path):
    schema = schema_of(id=INT, g=GeometryType(), h=GeographyType(algorithm=EdgeAlgorithm.KARNEY))
    write_file(tmp_path, schema, {"id": [1, 2], "g": [POINT, None], "h": [OVER_THE_DATE_LINE, None]})
    path = str(tmp_path / "a.parquet")
    rows = duckdb.execute("select id, g::varchar, h::varchar from read_parquet(?)", [path]).fetchall()
    assert rows == [(1, "POINT (1 2)", "LINESTRING (170 60, -170 60)"), (2, None, None)]
    types = duckdb.execute("select logical_type from parquet_schema(?) where name in ('g', 'h')", [path]).fetchall()
    assert types == [("GeometryType(crs=<null>)",), ("GeographyType(crs=<null>, algorithm=KARNEY)",)]
    boxes = duckdb.execute(
        "select geo_bbox, stats_null_count, stats_min_value from parquet_metadata(?) where geo_bbox is not null", [path]
    ).fetchall()
    assert [(box["xmin"], box["xmax"], nulls, least) for box, nulls, least in boxes] == [
        (1.0, 1.0, 1, None),
        (170.0, -170.0, 1, None),
    ]


NESTED = schema_of(
    s=StructType(
        (
            Field("g", GeographyType()),
            Field("n", StructType((Field("d", PrimitiveType("decimal(5, 2)")), Field("x", INT)))),
        )
    ),
    l=ListType(Field("element", GeometryType(), nullable=False)),
    m=MapType(Field("key", StringType(), nullable=False), Field("value", GeometryType())),
    ls=ListType(
        Field("element", StructType((Field("g", GeometryType()), Field("t", ListType(Field("element", INT))))))
    ),
)
NESTED_KIND = pa.schema(
    {
        "s": pa.struct({"g": pa.binary(), "n": pa.struct({"d": pa.decimal128(5, 2), "x": pa.int32()})}),
        "l": pa.list_(pa.binary()),
        "m": pa.map_(pa.string(), pa.binary()),
        "ls": pa.list_(pa.struct({"g": pa.binary(), "t": pa.list_(pa.int32())})),
    }
)

wkb = st.sampled_from([None, POINT, OVER_THE_DATE_LINE])
inner = st.none() | st.fixed_dictionaries(
    {"d": st.none() | st.decimals(-99, 99, places=2), "x": st.none() | st.integers(-9, 9)}
)
nested_rows = st.lists(
    st.fixed_dictionaries(
        {
            "s": st.none() | st.fixed_dictionaries({"g": wkb, "n": inner}),
            "l": st.none() | st.lists(wkb, max_size=3),
            "m": st.none()
            | st.dictionaries(st.sampled_from("abc"), wkb, max_size=2).map(lambda dictionary: [*dictionary.items()]),
            "ls": st.none()
            | st.lists(
                st.none()
                | st.fixed_dictionaries(
                    {"g": wkb, "t": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2)}
                ),
                max_size=2,
            ),
        }
    ),
    max_size=12,
)


def _values(row):
    """The geo values of a row by column, null where they or what holds them directly are, as Arrow flattens them."""
    struct, items, pairs, structs = row["s"], row["l"], row["m"], row["ls"]
    yield ("s", "g"), [None if struct is None else struct["g"]]
    yield ("l", "element"), items or []
    yield ("m", "value"), [value for _, value in pairs or []]
    yield ("ls", "element", "g"), [None if child is None else child["g"] for child in structs or []]


@given(rows=nested_rows, start=st.integers(0, 3), groups=st.integers(1, 5))
@settings(max_examples=60)
def test_nested_columns_round_trip_from_slices_of_batches(tmp_path_factory, rows, start, groups):
    folder = tmp_path_factory.mktemp("nested")
    batch = pa.RecordBatch.from_pylist(rows, NESTED_KIND)
    cut = [batch.slice(start, 4), batch.slice(0, start), batch.slice(start + 4)]
    kept = [row for piece in cut for row in piece.to_pylist()]
    measured = frozenset({("s", "n", "d"), ("s", "n", "x"), ("l",), ("m",)})
    file = write_file(folder, NESTED, *cut, row_group_rows=groups, measured=measured)
    assert file.rows == len(rows)
    assert read(folder).to_pylist() == kept
    expected: dict[tuple[str, ...], list] = {
        path: [] for path, _ in _values({"s": None, "l": None, "m": None, "ls": None})
    }
    for row in kept:
        for path, values in _values(row):
            expected[path] += values
    for path, values in expected.items():
        assert (file.geo[path].rows, file.geo[path].null_count) == (len(values), values.count(None)), path
    numbers = [None if row["s"] is None or row["s"]["n"] is None else row["s"]["n"]["x"] for row in kept]
    known = [number for number in numbers if number is not None]
    assert file.scalars["s", "n", "x"] == ColumnRange(
        min(known, default=None), max(known, default=None), numbers.count(None), len(numbers)
    )
    assert file.scalars["l",].null_count == sum(row["l"] is None for row in kept)
    # What pyarrow would have counted itself.
    theirs = folder / "theirs.parquet"
    pq.write_table(pa.Table.from_pylist(kept, NESTED_KIND), theirs, row_group_size=groups)
    ours, others = pq.read_metadata(folder / "a.parquet"), pq.read_metadata(theirs)
    assert ours.num_row_groups == (others.num_row_groups if kept else 0)
    for index in range(ours.num_row_groups):
        for leaf in range(ours.num_columns):
            mine, other = (metadata.row_group(index).column(leaf).statistics for metadata in (ours, others))
            assert mine.null_count == other.null_count, ours.schema.column(leaf).path


@given(geometry_columns(40), st.integers(1, 7))
@settings(max_examples=60)
def test_boxes_hold_every_vertex_of_their_row_group(tmp_path_factory, values, rows):
    folder = tmp_path_factory.mktemp("boxes")
    column = pa.array(values, pa.binary())
    file = write_file(folder, schema_of(g=GeometryType()), {"g": column}, row_group_rows=rows)
    metadata = pq.read_metadata(folder / "a.parquet")
    assert read(folder)["g"].to_pylist() == values
    for index in range(metadata.num_row_groups):
        part = values[index * rows : (index + 1) * rows]
        stored = metadata.row_group(index).column(0)
        assert stored.statistics.null_count == part.count(None)
        if stored.geo_statistics is None or stored.geo_statistics.xmin is None:
            continue
        sides = stored.geo_statistics.to_dict()
        for value in part:
            ranges = [] if value is None else walk(value).ranges
            for axis, ends in zip("xyzm", ranges, strict=False):
                low, high = sides[f"{axis}min"], sides[f"{axis}max"]
                # An axis with an infinite end is left out.
                assert ends is None or (low is None and axis in "zm") or low <= ends[0] <= ends[1] <= high
    assert file.geo["g",].rows == len(values)


def test_small_batches_are_gathered_into_row_groups(tmp_path):
    batches = [{"id": pa.array(range(start, start + 7), pa.int32())} for start in range(0, 70, 7)]
    file = write_file(tmp_path, schema_of(id=INT), *batches, row_group_rows=16)
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [16, 16, 16, 16, 6]
    assert read(tmp_path)["id"].to_pylist() == list(range(70))
    assert file.rows == 70
    assert file.bytes == os.path.getsize(tmp_path / "a.parquet")


def test_a_large_batch_is_cut_into_row_groups(tmp_path):
    write_file(tmp_path, schema_of(id=INT), {"id": pa.array(range(100), pa.int32())}, row_group_rows=30)
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [30, 30, 30, 10]


def test_a_row_group_of_large_values_is_cut_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("geolake_nb.parquet.writer._MAX_BYTES", 10_000)
    values = [bytes([index]) * 1_000 for index in range(40)]
    file = write_file(tmp_path, schema_of(b=PrimitiveType("binary")), {"b": values}, {"b": values})
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert metadata.num_row_groups >= 8
    assert max(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)) <= 20
    assert read(tmp_path)["b"].to_pylist() == values + values
    assert file.rows == 80


def test_shapes_fit_as_spark_hands_them_to_python(tmp_path):
    shape = pa.struct({"srid": pa.int32(), "wkb": pa.binary()})
    schema = schema_of(g=GeometryType(), l=ListType(Field("element", GeographyType())))
    shape_ = {"srid": 4326, "wkb": POINT}
    file = write_file(
        tmp_path, schema, {"g": pa.array([shape_, None], shape), "l": pa.array([[shape_, None], None], pa.list_(shape))}
    )
    assert read(tmp_path).to_pylist() == [{"g": POINT, "l": [POINT, None]}, {"g": None, "l": None}]
    assert file.geo["l", "element"].null_count == 1


def test_a_file_without_rows_can_be_read(tmp_path):
    file = write_file(tmp_path, schema_of(id=INT, g=GeometryType()), measured=frozenset({("id",), ("g",)}))
    assert read(tmp_path).num_rows == file.rows == 0
    assert file.geo["g",].box is None
    assert file.scalars == {("id",): ColumnRange(None, None, 0, 0)}


def test_the_size_so_far_grows_and_ends_at_the_size(tmp_path):
    writer = ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema_of(id=INT), row_group_rows=1000))
    sizes = []
    for start in range(0, 10_000, 700):
        writer.write(pa.record_batch({"id": pa.array(range(start, start + 700), pa.int32())}))
        sizes.append(writer.bytes_so_far)
    assert sizes == sorted(sizes)
    assert writer.rows == 10_500
    assert sizes[-1] == pytest.approx(writer.close().bytes, rel=0.3)
    assert writer.bytes_so_far == os.path.getsize(tmp_path / "a.parquet")


def test_physical_names_and_ids_are_written_at_every_depth(tmp_path):
    inside = Field("g", GeometryType(), id=3, physical_name="col-3")
    schema = Schema(
        StructType(
            (
                Field("a", StructType((inside,)), id=1, physical_name="col-1"),
                Field("b", ListType(Field("element", INT, id=5)), id=2, physical_name="col-2"),
            )
        )
    )
    rows = {"b": pa.array([[1]], pa.list_(pa.int32())), "a": pa.array([{"g": POINT}], pa.struct({"g": pa.binary()}))}
    file = write_file(tmp_path, schema, rows, physical_names=True)
    assert set(file.geo) == {("a", "g")}
    view = FooterReader().view(pq.read_metadata(tmp_path / "a.parquet"), where="a")
    assert view.schema.paths_by_id() == {1: "col-1", 3: "col-1.col-3", 2: "col-2", 5: "col-2.element"}
    assert view.metadata.schema.column(0).path == "col-1.col-3"
    assert locate(view, view.find((), field_id=3), GeometryType()).whole().box == Box(1, 2, 1, 2)


def test_layouts_go_to_other_processes(tmp_path):
    layout = Layout(NESTED, measured=frozenset({("l",)}), compression="snappy")
    assert pickle.loads(pickle.dumps(layout)) == layout
    file = write_file(tmp_path, schema_of(g=GeographyType()), {"g": [POINT]})
    assert pickle.loads(pickle.dumps(file)).geo == file.geo


def test_other_arrow_layouts_of_the_same_values_fit(tmp_path):
    schema = schema_of(i=PrimitiveType("int64"), s=StringType(), g=GeometryType(), f=PrimitiveType("float64"), n=INT)
    batch = {
        "n": pa.nulls(2),
        "g": pa.array([POINT, None], pa.large_binary()),
        "s": pa.array(["a", "b"]).dictionary_encode(),
        "i": pa.array([1, 2], pa.int8()),
        "f": pa.array([0.5, None], pa.float32()),
    }
    write_file(tmp_path, schema, batch)
    assert read(tmp_path).to_pylist() == [
        {"i": 1, "s": "a", "g": POINT, "f": 0.5, "n": None},
        {"i": 2, "s": "b", "g": None, "f": None, "n": None},
    ]


@pytest.mark.parametrize(
    ("type_", "values", "message"),
    [
        (INT, pa.array([2**40]), "c: values cannot be int32: Integer value 1099511627776 not in range"),
        (INT, pa.array(["1"]), "c: values of type string do not fit int32"),
        (PrimitiveType("float32"), pa.array([0.1]), "c: values of type double do not fit float32"),
        (PrimitiveType("timestamptz"), pa.array([dt.datetime(2024, 1, 1)]), r"timestamp\[us\] do not fit timestamptz"),
        (GeometryType(), pa.array(["POINT (1 2)"]), r"string do not fit geometry\(OGC:CRS84\)"),
        (ListType(Field("element", INT)), pa.array([[["1"]]]), "c.element: values of type list"),
        (StructType((Field("a", INT),)), pa.array([{"b": 1}]), "c: the column a is missing"),
        (StructType((Field("a", INT),)), pa.array([{"a": 1, "b": 1}]), "c: the column b is not in the schema"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_column_and_leave_no_file(tmp_path, type_, values, message):
    with pytest.raises(SchemaError, match=message):
        write_file(tmp_path, schema_of(c=type_), {"c": values})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "type_",
    [
        PrimitiveType("variant"),
        PrimitiveType("unknown"),
        PrimitiveType("interval"),
        PrimitiveType("interval day to second"),
        RasterType(),
        GeometryType(encoding=GeometryEncoding.EWKB),
        StructType(),
    ],
    ids=str,
)
def test_types_that_cannot_be_written_are_refused_by_name(tmp_path, type_):
    schema = schema_of(a=StructType((Field("c", ListType(Field("element", type_))),)))
    with pytest.raises(SchemaError, match=r"a\.c\.element: "):
        ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema))
    assert os.listdir(tmp_path) == []


def test_nulls_are_refused_where_the_schema_has_none_but_for_those_of_a_parent(tmp_path):
    inside = StructType((Field("x", INT, nullable=False),))
    schema = Schema(StructType((Field("s", inside), Field("i", INT, nullable=False))))
    kind = pa.struct({"x": pa.int32()})
    good = {"s": pa.array([None, {"x": 1}], kind), "i": pa.array([1, 2], pa.int32())}
    write_file(tmp_path, schema, good)
    assert read(tmp_path)["s"].to_pylist() == [None, {"x": 1}]
    with pytest.raises(SchemaError, match=r"s\.x: the column is not nullable and has 1 nulls"):
        write_file(tmp_path, schema, {**good, "s": pa.array([None, {"x": None}], kind)}, name="b.parquet")
    with pytest.raises(SchemaError, match="i: the column is not nullable"):
        write_file(tmp_path, schema, {**good, "i": pa.array([1, None], pa.int32())}, name="b.parquet")


@pytest.mark.parametrize("path", [("l", "element"), ("s",), ("nobody",), ("ls", "element", "g")])
def test_only_columns_below_structs_can_be_measured(tmp_path, path):
    with pytest.raises(SchemaError):
        ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(NESTED, measured=frozenset({path})))
    assert os.listdir(tmp_path) == []


def test_a_value_that_cannot_be_read_is_kept_and_takes_the_box_away(tmp_path):
    file = write_file(tmp_path, schema_of(g=GeometryType()), {"g": [POINT, b"no WKB"]}, row_group_rows=1)
    assert read(tmp_path)["g"].to_pylist() == [POINT, b"no WKB"]
    assert file.geo["g",].box is None
    assert file.geo["g",].first_bad.row == 1
    groups = [pq.read_metadata(tmp_path / "a.parquet").row_group(index).column(0) for index in range(2)]
    assert [group.geo_statistics is not None for group in groups] == [True, False]


@pytest.mark.parametrize("rows", [1, 100], ids=["written", "waiting"])
def test_a_file_that_is_given_up_leaves_nothing(tmp_path, rows):
    writer = ParquetWriter(Storage.at(str(tmp_path)), "p=1/a.parquet", Layout(schema_of(id=INT), row_group_rows=rows))
    writer.write(pa.record_batch({"id": pa.array([1, 2], pa.int32())}))
    writer.abort()
    writer.abort()
    assert [name for _, _, names in os.walk(tmp_path) for name in names] == []
    with pytest.raises(SchemaError, match="aborted"):
        writer.close()
    with pytest.raises(SchemaError, match="closed"):
        writer.write(pa.record_batch({"id": pa.array([1], pa.int32())}))


def test_an_error_in_the_block_gives_the_file_up(tmp_path):
    def fail() -> None:
        with ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema_of(id=INT))) as writer:
            writer.write(pa.record_batch({"id": pa.array([1], pa.int32())}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.listdir(tmp_path) == []


def test_a_closed_file_outlives_an_abort(tmp_path):
    writer = ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema_of(id=INT)))
    first = writer.close()
    writer.abort()
    assert writer.close() is first
    assert read(tmp_path).num_rows == 0


def test_a_disk_that_fails_gives_one_clear_error_and_no_file(tmp_path):
    writer = ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema_of(id=INT)))
    writer.write(pa.record_batch({"id": pa.array([1], pa.int32())}))
    os.close(writer._sink.fileno())
    os.open(os.devnull, os.O_RDONLY)  # takes the number, so that a write to it fails
    with pytest.raises(StorageError, match=r"a\.parquet: the file cannot be written"):
        writer.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("rows", [0, -1, 2**21])
def test_a_row_group_has_a_sensible_number_of_rows(tmp_path, rows):
    with pytest.raises(SchemaError, match="a row group has 1 to 1048576 rows"):
        ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema_of(id=INT), row_group_rows=rows))


def test_files_go_to_a_bucket(s3):
    storage = Storage.at("s3://lake/writer", options=s3.options)
    with ParquetWriter(storage, "p=1/a.parquet", Layout(schema_of(g=GeometryType()))) as writer:
        writer.write(pa.record_batch({"g": [POINT]}))
    assert storage.size("p=1/a.parquet") == writer.close().bytes
    (footer,) = read_metadata(storage, ["p=1/a.parquet"])
    assert footer.row_group(0).column(0).geo_statistics.xmin == 1.0
    writer = ParquetWriter(storage, "p=1/b.parquet", Layout(schema_of(g=GeometryType())))
    writer.abort()
    assert not storage.exists("p=1/b.parquet")
