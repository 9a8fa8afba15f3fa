from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

import geolake_nb as gl
from geolake_nb.formats.delta.file_stats import read_stats, widened_maximum
from geolake_nb.formats.delta.stats_json import read_leaves
from geolake_nb.model.collation import Collation
from geolake_nb.model.operators import ComparisonOp
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, vector, write_checkpoint
from tests.growth import growth

GEO = (protocol("geospatial"), metadata(field("id", "long"), field("g", "geometry(OGC:CRS84)")))


@pytest.fixture
def made(tmp_path):
    return LogMaker(tmp_path / "t")


def geo_stats(low, high, *, rows=10, nulls=0, **more):
    return {"numRecords": rows, "minValues": {"g": low}, "maxValues": {"g": high}, "nullCount": {"g": nulls}} | more


def column(snapshot, name):
    return snapshot.files.table[name].to_pylist()


SPELLINGS = [
    "POINT({})",
    "POINT ({})",
    "point({})",
    " Point  ( {} ) ",
    "POINT Z({} 7)",
    "POINT M ({} 7)",
    "POINTZM({} 7 8)",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_point_is_a_box(made, spelling):
    low, high = spelling.format("-122.419 37.774"), spelling.format("-120.503 38.021")
    snapshot = made.commit(0, *GEO, add("a", geo_stats(low, high))).open()
    sides = [column(snapshot, f"g.{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
    assert sides == [[-122.419], [37.774], [-120.503], [38.021]]
    assert column(snapshot, "g.source") == ["log"]
    assert column(snapshot, "g.problem") == [None]


def test_invalid_bounds_leave_the_sides_null_and_have_a_reason(made):
    snapshot = made.commit(
        0,
        *GEO,
        add("a", geo_stats("POINT(0 5)", "POINT(1 1)")),
        add("b", {"numRecords": 1, "minValues": {"g": "POINT(0 5)"}}),
        add("c", geo_stats("POINT EMPTY", "POINT EMPTY")),
        add("d", '{"numRecords": 1'),
        add("e"),
    ).open()
    assert column(snapshot, "g.xmin") == [None] * 5
    assert column(snapshot, "g.source") == [None] * 5
    swapped, half, empty, broken, none = column(snapshot, "g.problem")
    assert "ymin 5.0 > ymax 1.0" in swapped
    assert half == "there is a min but no max"
    assert "empty point" in empty
    assert broken == "the statistics are not a JSON object"
    assert none is None
    assert column(snapshot, "rows") == [10, 1, 10, None, None]


def test_a_file_of_nulls_alone_is_known_as_such(made):
    stats = {"numRecords": 4, "minValues": {}, "maxValues": {}, "nullCount": {"g": 4}}
    boxes = made.commit(0, *GEO, add("a", stats)).open().files.boxes("g")
    assert boxes.only_null_or_empty.tolist() == [True]


@pytest.mark.parametrize(
    ("tight", "nulls", "known"),
    [(True, 3, 3), (False, 3, None), (False, 0, 0), (False, 10, 10), (None, 3, None), (None, 10, 10)],
)
def test_under_wide_bounds_only_no_nulls_and_all_nulls_count(made, tight, nulls, known):
    stats = geo_stats("POINT(0 0)", "POINT(1 1)", nulls=nulls) | ({} if tight is None else {"tightBounds": tight})
    snapshot = made.commit(0, *GEO, add("a", stats, deletionVector=vector(4))).open()
    assert column(snapshot, "g.null_count") == [known]
    assert column(snapshot, "rows") == [6]
    assert column(snapshot, "deleted_rows") == [4]


def test_without_a_deletion_vector_null_counts_are_believed_unless_said_wide(made):
    counts = {"numRecords": 9, "nullCount": {"g": 2}}
    made.commit(0, *GEO, add("a", counts), add("b", counts | {"tightBounds": False}))
    assert column(made.open(), "g.null_count") == [2, None]


def test_all_rows_null_is_out_of_live_rows_when_bounds_are_tight(made):
    start = (protocol("deletionVectors"), metadata(field("id", "long")))
    stats = {"numRecords": 10, "tightBounds": True, "nullCount": {"id": 6}}
    made.commit(0, *start, add("a", stats, deletionVector=vector(4)), add("b", stats, deletionVector=vector(3)))
    assert made.open().scalars(("id",)).only_nulls.tolist() == [True, False]


def test_nested_columns_are_found_by_physical_names(made):
    def mapped(name, type_, physical, number):
        return field(name, type_, **{"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number})

    inner = {
        "type": "struct",
        "fields": [mapped("g", "geometry(OGC:CRS84)", "col-g", 2), mapped("n", "long", "col-n", 3)],
    }
    fields = (mapped("s", inner, "col-s", 1), mapped("p", "string", "col-p", 4))
    stats = {
        "numRecords": 5,
        "minValues": {"col-s": {"col-g": "POINT(1 2)", "col-n": 7}, "s": {"n": 0}},
        "maxValues": {"col-s": {"col-g": "POINT(3 4)", "col-n": 9}, "s": {"n": 0}},
        "nullCount": {"col-s": {"col-g": 1, "col-n": 0}},
    }
    made.commit(
        0,
        protocol("columnMapping", "geospatial"),
        metadata(*fields, partitions=("p",), **{"delta.columnMapping.mode": "name"}),
        add("a", stats, partition={"col-p": "x"}),
    )
    snapshot = made.open()
    assert column(snapshot, "s.g.xmax") == [3.0]
    assert column(snapshot, "partition.p") == ["x"]
    scalar = snapshot.scalars(("s", "n"))
    assert (scalar.minimum.to_pylist(), scalar.maximum.to_pylist()) == ([7], [9])
    assert snapshot.scalars(("s",)) is None
    assert snapshot.scalars(("nope",)) is None


def test_without_column_mapping_physical_names_are_not_used(made):
    odd = field("n", "long", **{"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1})
    made.commit(0, protocol(), metadata(odd), add("a", {"numRecords": 1, "minValues": {"n": 3}, "maxValues": {"n": 3}}))
    assert made.open().scalars(("n",)).minimum.to_pylist() == [3]


TYPED = {
    "long": (-(2**53) - 1, 2**62, -(2**53) - 1, 2**62),
    "byte": (-1, 3, -1, 3),
    "double": (-0.1, 1e300, -0.1, 1e300),
    "float": (0.1, 0.2, 0.10000000149011612, 0.20000000298023224),
    "boolean": (False, True, False, True),
    "string": ("a", "ä", "a", "ä"),
    "date": ("1969-12-31", "2000-01-01", dt.date(1969, 12, 31), dt.date(2000, 1, 1)),
    "decimal(38,2)": (
        Decimal("0.10"),
        Decimal("123456789012345678901234567890.12"),
    )
    * 2,
    "timestamp": (
        "2000-01-01T00:00:00.123-08:00",
        "2000-01-01T00:00:00.123Z",
        dt.datetime(2000, 1, 1, 8, 0, 0, 123000, tzinfo=dt.UTC),
        dt.datetime(2000, 1, 1, 0, 0, 0, 123999, tzinfo=dt.UTC),
    ),
    "timestamp_ntz": (
        "2000-01-01T00:00:00.123",
        "2000-01-01 00:00:01",
        dt.datetime(2000, 1, 1, 0, 0, 0, 123000),
        dt.datetime(2000, 1, 1, 0, 0, 1, 999),
    ),
}


def as_json(stats):
    """JSON with every digit of a decimal."""
    return json.dumps(stats, default=lambda number: f"<{number}>").replace('"<', "").replace('>"', "")


@pytest.mark.parametrize("odd_one_out", [False, True], ids=["in columns", "one by one"])
@pytest.mark.parametrize("type_", TYPED)
def test_minima_and_maxima_of_every_type(made, type_, odd_one_out):
    low, high, minimum, maximum = TYPED[type_]
    stats = as_json({"numRecords": 3, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": 1}})
    # An object where a value belongs makes all files of the chunk be read one by one.
    odd = [add("odd", {"numRecords": 3, "minValues": {"c": {"x": 1}}})] if odd_one_out else []
    made.commit(0, protocol("timestampNtz"), metadata(field("c", type_)), add("a", stats), add("none"), *odd)
    column = made.open().scalars(("c",))
    nothing = [None] * (1 + odd_one_out)
    assert column.minimum.to_pylist() == [minimum, *nothing]
    assert column.maximum.to_pylist() == [maximum, *nothing]
    assert column.null_count.to_pylist() == [1, *nothing]
    assert column.truncated == (type_ == "string")


def test_numbers_that_json_lacks_are_read_as_jackson_writes_them(made):
    stats = {"numRecords": 2, "minValues": {"c": "-Infinity"}, "maxValues": {"c": "NaN"}}
    made.commit(0, protocol(), metadata(field("c", "double")), add("a", stats), add("b", {"minValues": {"c": 1.5}}))
    column = made.open().scalars(("c",))
    assert column.minimum.to_pylist() == [float("-inf"), 1.5]
    assert column.decides(ComparisonOp.GT).tolist() == [False, False]  # NaN bounds nothing


@pytest.mark.parametrize("text", ["2000-01-01T00:00:00", "soon", "2000-13-01T00:00:00Z", "+12000-01-01T00:00:00Z"])
def test_an_ambiguous_instant_is_not_a_bound(made, text):
    stats = {"numRecords": 2, "minValues": {"c": text}, "maxValues": {"c": text}}
    made.commit(0, protocol(), metadata(field("c", "timestamp")), add("a", stats))
    assert made.open().scalars(("c",)).minimum.to_pylist() == [None]


def test_types_without_order_have_null_counts_only(made):
    stats = {"numRecords": 2, "nullCount": {"b": 2, "v": 0}, "minValues": {"v": "z85"}}
    made.commit(0, protocol("variantType"), metadata(field("b", "binary"), field("v", "variant")), add("a", stats))
    snapshot = made.open()
    assert snapshot.scalars(("b",)).only_nulls.tolist() == [True]
    assert snapshot.scalars(("v",)).no_nulls.tolist() == [True]
    assert snapshot.scalars(("v",)).decides(ComparisonOp.EQ).tolist() == [False]


PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("tightBounds", pa.bool_()),
        ("minValues", pa.struct([("id", pa.int32()), ("g", pa.string()), ("t", pa.timestamp("us"))])),
        ("maxValues", pa.struct([("id", pa.int32()), ("g", pa.string()), ("t", pa.timestamp("us"))])),
        ("nullCount", pa.struct([("id", pa.int64()), ("g", pa.int64())])),
    ]
)


@pytest.mark.parametrize("with_stats", [True, False], ids=["some stats", "structs only"])
def test_statistics_as_structs_fill_in_where_there_is_no_json(made, with_stats):
    moment = dt.datetime(2020, 1, 1)
    parsed = {
        "numRecords": 6,
        "minValues": {"id": 1, "g": "POINT(1 2)", "t": moment},
        "maxValues": {"id": 5, "g": "POINT(3 4)", "t": moment},
        "nullCount": {"id": 0, "g": 2},
    }
    start = (
        protocol("geospatial"),
        metadata(field("id", "long"), field("g", "geometry(OGC:CRS84)"), field("t", "timestamp")),
    )
    plain = add("json", geo_stats("POINT(0 0)", "POINT(9 9)")) if with_stats else add("json")
    actions = [*start, add("struct", stats_parsed=parsed), plain]
    write_checkpoint(made.log / f"{0:020}.checkpoint.parquet", actions, PARSED, stats=with_stats)
    snapshot = made.commit(1, add("later", geo_stats("POINT(0 0)", "POINT(8 8)", rows=1))).open()
    rows = {row["path"]: row for row in snapshot.files.table.to_pylist()}
    assert rows["struct"]["rows"] == 6
    assert (rows["struct"]["g.xmin"], rows["struct"]["g.ymax"], rows["struct"]["g.null_count"]) == (1, 4, 2)
    assert rows["json"]["g.xmax"] == (9 if with_stats else None)
    assert rows["later"]["g.xmax"] == 8
    assert snapshot.scalars(("id",)).maximum.to_pylist()[0] == 5
    assert snapshot.scalars(("t",)).maximum.to_pylist()[0] == moment.replace(microsecond=999, tzinfo=dt.UTC)
    assert snapshot.details.stats.object(0)["numRecords"] == 6


def test_collated_statistics_are_found_by_collation_and_version(made):
    german = Collation.parse("icu.de.76.1")
    collated = {"ICU.de.76.1": {"minValues": {"name": "Ärger"}, "maxValues": {"name": "Zebra"}}}
    cut = {"icu.de.76.1": {"minValues": {"name": "x" * 32}, "maxValues": {"name": "Zebra"}}}
    made.commit(
        0,
        {
            "protocol": {
                "minReaderVersion": 1,
                "minWriterVersion": 7,
                "writerFeatures": ["collations", "domainMetadata"],
            }
        },
        metadata(field("name", "string", __COLLATIONS={"name": "icu.de"})),
        add(
            "a",
            {
                "numRecords": 3,
                "minValues": {"name": "Zebra"},
                "maxValues": {"name": "Ärger"},
                "statsWithCollation": collated,
            },
        ),
        add("b", {"numRecords": 3, "nullCount": {"name": 3}}),
        add("c", {"numRecords": 3, "statsWithCollation": cut}),
    )
    snapshot = made.open()
    stats = snapshot.details.stats
    assert stats.collations() == (german,)
    assert stats.collated(("name",), german).minimum.null_count == 3  # any minimum may have been cut
    column = stats.collated(("name",), german, prefix_length=32)
    assert column.minimum.to_pylist() == ["Ärger", None, None]  # one of 32 characters may have been cut
    assert column.maximum.to_pylist() == ["Zebra", None, "Zebra"]
    assert column.only_nulls.tolist() == [False, True, False]
    assert stats.collated(("name",), Collation.parse("icu.de.77")).minimum.null_count == 3
    assert snapshot.scalars(("name",)).minimum.to_pylist()[0] == "Zebra"
    assert stats.raw[0].as_py().startswith('{"numRecords": 3')


ODD_TEXTS = [
    '{"a":1}',
    None,
    "",
    "  ",
    "{}",
    '{"a":1}{"a":2}',
    '{"a":"x"}',
    '{"a":1.5}',
    "[1]",
    '{"a":\n2}',
    '{"a":1',
    '{"a":1,"a":2}',
    '{"a":' + "[" * 50_000 + "]" * 50_000 + "}",
    '{"a":9223372036854775808}',
    '{"a":true}',
    "null",
]
READ = [1, None, None, None, None, None, None, None, None, 2, None, 2, None, None, None, None]


@pytest.mark.parametrize("rows", [range(1), range(2), range(len(ODD_TEXTS)), range(4, 8), [9], [12]])
def test_odd_texts_spoil_no_other(rows):
    texts, expected = [ODD_TEXTS[row] for row in rows], [READ[row] for row in rows]
    (values,) = read_leaves(pa.array(texts, pa.string()), [(("a",), pa.int64())])
    assert values.to_pylist() == expected


def test_leaves_of_slices_and_chunks_stay_in_order():
    texts = pa.chunked_array([[f'{{"a":{{"b":{number}}}}}' for number in range(100)], [], [None, '{"a":{"b":7}}']])
    (values,) = read_leaves(texts.slice(50), [(("a", "b"), pa.int64())])
    assert values.to_pylist() == [*range(50, 100), None, 7]


def test_statistics_of_many_columns_take_as_long_as_they_are_many():
    def reading(count):
        low, high = ({f"g{n}": f"POINT({n % 9} {y})" for n in range(count)} for y in (0, 1))
        stats = {"numRecords": 1, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
        raw, parsed = pa.chunked_array([[json.dumps(stats), None]]), pa.chunked_array([[None, stats]])
        return lambda: read_stats(raw, parsed, pa.array([0, 0]), [(name,) for name in low])

    assert growth(reading, 250, 2000) < 20


def test_char_columns_and_those_that_were_floats_rule_nothing_out(tmp_path):
    """Spark pads a CHAR and what it is compared with; a float's text is not that of the double that it becomes."""
    char = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    widened = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    fields = [
        field("c", "string", **char),
        field("p", "string", **char),
        field("f", "double", **widened),
        field("v", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(5)"),
    ]
    ends = {"c": "a    ", "f": 0.1, "v": "a"}
    stats = {"numRecords": 1, "minValues": ends, "maxValues": ends, "nullCount": dict.fromkeys(ends, 0)}
    action = add("a.parquet", stats, partition={"p": "a"})
    LogMaker(tmp_path).commit(0, protocol(), metadata(*fields, partitions=("p",)), action)
    table = gl.open(str(tmp_path))
    for kept in ("c = 'a'", "c IN ('a')", "c <= 'a'", "p = 'a    '", "f = 0.10000000149011612", "v = 'a'"):
        assert table.explain(kept).read.files == 1, kept
    assert table.explain("v = 'b'").read.files == 0


def test_a_maximum_at_the_end_of_time_bounds_nothing():
    kind = pa.timestamp("us", "UTC")
    last = 2**63 - 1
    maxima = pa.array([last - last % 1000, 5, None], pa.int64()).cast(kind)
    assert widened_maximum(maxima).cast(pa.int64()).to_pylist() == [None, 1004, None]
