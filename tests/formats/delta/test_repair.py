"""Which bounds are repaired and from what; the scan runs in this process here."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import geolake_nb as gl
from geolake_nb.changes.repair.bound_sources import NewStats
from geolake_nb.errors import SchemaError
from geolake_nb.formats.delta.add_action import with_updated_stats
from geolake_nb.geo.bound_codec import from_delta_wkt, to_delta_wkt
from geolake_nb.model.box import Box
from geolake_nb.parquet.footer_boxes import MARGIN
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.parquet.writer import Layout, ParquetWriter
from tests.changes.repair_tables import GEOGRAPHY, GEOMETRY, GeoTable, typed, wkb
from tests.formats.delta.log_maker import add, field, vector

LINE = "LINESTRING (1 2, 3 5)"
POINTS = ["POINT (10 50)", "POINT (11 52)"]


def with_bound(low: str, high: str, rows: int = 2, nulls: int = 0, **more):
    return {
        "numRecords": rows,
        "minValues": {"id": 0, "geom": low},
        "maxValues": {"id": 1, "geom": high},
        "nullCount": {"id": 0, "geom": nulls},
        **more,
    }


def ids(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def holds(table: GeoTable, name: str, expected: tuple[float, float, float, float], column: str = "geom") -> bool:
    box = from_delta_wkt(*table.bound(name, column))
    xmin, ymin, xmax, ymax = expected
    slack = 10 * MARGIN * 180
    inside = box.xmin <= xmin and box.ymin <= ymin and box.xmax >= xmax and box.ymax >= ymax
    tight = max(abs(box.xmin - xmin), abs(box.xmax - xmax), abs(box.ymin - ymin), abs(box.ymax - ymax)) < slack
    return inside and tight


def test_a_missing_bound_comes_from_the_footer_of_another_writer_widened_outward(tmp_path):
    table = GeoTable(tmp_path).file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, {"numRecords": 2})
    change = table.plan()
    assert change.job is None
    assert len(change.actions) == 1
    table.repair()
    assert holds(table, "a.parquet", (10, 50, 11, 52))
    box = from_delta_wkt(*table.bound("a.parquet"))
    assert box.xmin < 10
    assert box.xmax > 11
    # pyarrow counts no nulls of geo columns, and what is not known is not written.
    assert "nullCount" not in table.stats("a.parquet")
    assert json.loads(change.actions[0])["add"]["dataChange"] is False


def test_a_file_without_a_box_in_its_footer_is_left_to_the_scan(tmp_path):
    table = GeoTable(tmp_path).file("a.parquet", {"id": ids(3), "geom": wkb(LINE, None, "POINT EMPTY")})
    change = table.plan()
    assert not change.actions
    assert [file.path for file in change.job.files] == ["a.parquet"]
    assert change.job.to_dict() == {"scan": [{"path": "a.parquet", "columns": ["geom"]}], "known": {}}
    table.repair()
    assert table.bound("a.parquet") == ("POINT(1 2)", "POINT(3 5)")
    assert table.stats("a.parquet") == {
        "numRecords": 3,
        "minValues": {"geom": "POINT(1 2)"},
        "maxValues": {"geom": "POINT(3 5)"},
        "nullCount": {"geom": 1},
    }


def test_one_row_group_without_a_box_makes_the_footer_useless(tmp_path):
    # pyarrow writes no box for a row group with a value that it cannot read.
    columns = {"id": ids(2), "geom": typed(wkb("POINT (1 2)", b"\x01\x02"))}
    table = GeoTable(tmp_path).file("a.parquet", columns, {"numRecords": 2}, row_group_size=1)
    footer = pq.read_metadata(tmp_path / "a.parquet")
    boxes = [footer.row_group(group).column(1).geo_statistics for group in range(2)]
    assert boxes[0] is not None
    assert boxes[1] is None or boxes[1].xmin is None
    assert len(table.plan().job.files) == 1


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("POINT EMPTY", "POINT EMPTY"),
        ("POINT(NaN 2)", "POINT(3 5)"),
        ("garbage", "POINT(3 5)"),
        ("POINT(170 0)", "POINT(-170 60)"),
        ("POINT(10.5 50)", "POINT(11 52)"),
        ("POINT(10 50)", "POINT(11 51.99999999999999)"),
    ],
)
@pytest.mark.parametrize("logical", [True, False])
def test_a_bound_that_is_wrong_is_replaced(tmp_path, low, high, logical):
    shapes = wkb(*POINTS)
    columns = {"id": ids(2), "geom": typed(shapes) if logical else shapes}
    table = GeoTable(tmp_path).file("a.parquet", columns, with_bound(low, high))
    table.repair(verify=not logical)
    assert holds(table, "a.parquet", (10, 50, 11, 52))
    stats = table.stats("a.parquet")
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (0, 1)
    assert table.plan(verify=not logical).actions == []


@pytest.mark.parametrize("bound", [("POINT(10 50)", "POINT(11 52)"), ("POINT (10.0 5E1)", "POINT (11.0 52)")])
@pytest.mark.parametrize("verify", [False, True])
def test_a_good_bound_is_left_alone_byte_for_byte(tmp_path, bound, verify):
    text = json.dumps(with_bound(*bound), indent=1).replace("\n", " ")
    table = GeoTable(tmp_path).file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, text)
    table.file("b.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, {"numRecords": 2})
    change = table.repair(verify=verify)
    assert [action["add"]["path"] for action in map(json.loads, change.actions)] == ["b.parquet"]
    assert table.open().details.stats.raw.to_pylist()[0] == text or text in table.open().details.stats.raw.to_pylist()


def test_bounds_of_deleted_rows_are_not_called_tight(tmp_path):
    table = GeoTable(tmp_path, features=("deletionVectors",))
    shapes = typed(wkb("POINT (10 50)", "POINT (11 52)", None))
    for name, stats in (("a", {"numRecords": 3}), ("b", {"numRecords": 3, "tightBounds": True})):
        table.file(f"{name}.parquet", {"id": ids(3), "geom": shapes}, stats, deletionVector=vector(1))
    table.file("c.parquet", {"id": ids(3), "geom": shapes}, {"numRecords": 3, "tightBounds": True})
    table.repair()
    for name, tight in (("a", False), ("b", False), ("c", True)):
        stats = table.stats(f"{name}.parquet")
        assert stats["tightBounds"] is tight
        assert holds(table, f"{name}.parquet", (10, 50, 11, 52))
    assert table.plan().is_empty
    vectors = table.open().details.deletion_vectors.to_pylist()
    assert [stored_vector is None for stored_vector in vectors] == [False, False, True]


def test_columns_that_are_nowhere_get_no_bound_and_are_not_missing(tmp_path):
    table = GeoTable(tmp_path)
    table.file("null.parquet", {"id": ids(2), "geom": typed(wkb(None, None))}, {"numRecords": 2})
    table.file("empty.parquet", {"id": ids(2), "geom": typed(wkb("POINT EMPTY", None))}, {"numRecords": 2})
    table.file("lacks.parquet", {"id": ids(2)}, {"numRecords": 2})
    table.file("no_rows.parquet", {"id": ids(0), "geom": typed(wkb())}, {"numRecords": 0})
    table.repair()
    for name in ("null", "empty", "lacks", "no_rows"):
        assert table.bound(f"{name}.parquet") == (None, None)
    assert table.stats("null.parquet")["nullCount"]["geom"] == 2
    assert table.stats("lacks.parquet")["nullCount"]["geom"] == 2
    again = table.plan()
    # The log cannot show empty geometries: they are scanned again, without a change.
    assert [file.path for file in again.job.files] == ["empty.parquet"]
    assert not again.actions
    assert table.scanned(again).is_empty


@pytest.mark.parametrize("bad", [b"", b"\x01\x01", b"\x01\x63\x00\x00\x00" + bytes(16)])
def test_a_value_that_cannot_be_read_leaves_its_file_without_a_bound(tmp_path, bad):
    table = GeoTable(tmp_path)
    table.file("a.parquet", {"id": ids(2), "geom": wkb("POINT (1 2)", bad)}, {"numRecords": 2})
    table.file("b.parquet", {"id": ids(2), "geom": wkb("POINT (1 2)", bad)}, with_bound("POINT EMPTY", "POINT(9 9)"))
    change = table.repair()
    assert table.bound("a.parquet") == table.bound("b.parquet") == (None, None)
    assert change.metrics["files_without_bound"] == 2
    assert change.metrics["values_without_bound"] == 2
    assert table.repair().is_empty
    table.file("c.parquet", {"id": ids(2), "geom": wkb("POINT (1 2)", bad)}, with_bound("POINT(1 2)", "POINT(1 2)"))
    assert len(table.repair(verify=True).actions) == 1
    assert table.bound("c.parquet") == (None, None)
    assert table.repair(verify=True).is_empty


def test_a_geography_out_of_range_gets_no_bound(tmp_path):
    table = GeoTable(tmp_path, field("id", "long"), field("geom", GEOGRAPHY))
    table.file("a.parquet", {"id": ids(1), "geom": wkb("POINT (190 2)")}, {"numRecords": 1})
    assert table.repair().metrics["values_without_bound"] == 1
    assert table.bound("a.parquet") == (None, None)


def test_a_geography_is_scanned_and_its_edges_are_in_the_bound(tmp_path):
    table = GeoTable(tmp_path, field("id", "long"), field("geom", GEOGRAPHY))
    shapes = typed(wkb("LINESTRING (0 60, 90 60)"), gl.geography())
    table.file("a.parquet", {"id": ids(1), "geom": shapes}, {"numRecords": 1})
    wrapping = wkb("LINESTRING (170 10, -170 20)")
    table.file("b.parquet", {"id": ids(1), "geom": typed(wrapping, gl.geography())}, {"numRecords": 1})
    table.repair()
    assert from_delta_wkt(*table.bound("a.parquet")).ymax > 67.7
    box = from_delta_wkt(*table.bound("b.parquet"))
    assert (box.xmin, box.xmax) == (-180, 180)
    assert table.repair().is_empty
    assert table.repair(verify=True).is_empty


def own_file(table: GeoTable, name: str, columns: dict[str, pa.Array], stats) -> None:
    """A file of the writer of this package, whose footer has boxes of geographies and counts of nulls."""
    with ParquetWriter(table.storage, name, Layout(table.open().schema)) as writer:
        writer.write(pa.record_batch(columns))
    table.commit(table.open().version + 1, add(name, stats, size=writer.close().bytes))


def test_footers_of_our_own_writer_are_exact_for_geographies_too(tmp_path):
    table = GeoTable(tmp_path, field("id", "long"), field("geom", GEOGRAPHY), field("flat", GEOMETRY))
    lines = wkb("LINESTRING (0 60, 90 60)", None, "LINESTRING (170 0, -170 1)")
    columns = {"id": ids(3), "geom": lines, "flat": wkb("POINT (1 2)", None, None)}
    own_file(table, "a.parquet", columns, {"numRecords": 3})
    change = table.plan()
    assert change.job is None
    table.repair()
    stats = table.stats("a.parquet")
    box = from_delta_wkt(*table.bound("a.parquet"))
    assert (box.xmin, box.xmax, box.ymax > 67.7) == (-180, 180, True)
    assert table.bound("a.parquet", "flat") == ("POINT(1 2)", "POINT(1 2)")
    assert stats["nullCount"] == {"geom": 1, "flat": 2}
    assert table.repair().is_empty
    assert table.repair(verify=True).is_empty


def test_empty_values_in_a_file_of_our_own_writer_need_no_scan(tmp_path):
    table = GeoTable(tmp_path)
    own_file(table, "a.parquet", {"id": ids(2), "geom": wkb("POINT EMPTY", None)}, {"numRecords": 2})
    own_file(table, "b.parquet", {"id": ids(2), "geom": wkb(None, None)}, {"numRecords": 2})
    own_file(table, "c.parquet", {"id": ids(2), "geom": wkb(b"bad", "POINT EMPTY")}, {"numRecords": 2})
    change = table.repair()
    assert change.metrics["files_scanned"] == 1
    assert table.stats("a.parquet") == {"numRecords": 2, "nullCount": {"geom": 1}}
    assert table.stats("b.parquet") == {"numRecords": 2, "nullCount": {"geom": 2}}
    assert [file.path for file in table.plan().job.files] == ["c.parquet"]
    assert table.repair().is_empty


def test_verify_finds_what_no_footer_shows(tmp_path):
    table = GeoTable(tmp_path)
    table.file("a.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, with_bound("POINT(10 50)", "POINT(10.5 52)"))
    assert table.repair().is_empty
    table.file("b.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2, "nullCount": {"geom": 2}})
    table.repair(verify=True)
    for name in "ab":
        assert table.bound(f"{name}.parquet") == ("POINT(10 50)", "POINT(11 52)")
        assert table.stats(f"{name}.parquet")["nullCount"]["geom"] == 0
    assert table.repair(verify=True).is_empty


@pytest.mark.parametrize("logical", [True, False])
def test_a_log_that_calls_values_null_is_refuted_by_the_footer(tmp_path, logical):
    table = GeoTable(tmp_path)
    stats = {"numRecords": 2, "nullCount": {"geom": 2}}
    table.file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS)) if logical else wkb(*POINTS)}, stats)
    table.repair()
    assert holds(table, "a.parquet", (10, 50, 11, 52))
    assert table.stats("a.parquet")["nullCount"]["geom"] == 0


def test_z_and_m_are_bounded_too(tmp_path):
    table = GeoTable(tmp_path)
    table.file("a.parquet", {"id": ids(2), "geom": typed(wkb("POINT Z (1 2 3)", "POINT M (4 5 6)"))}, {"numRecords": 2})
    table.file("b.parquet", {"id": ids(1), "geom": wkb("POINT ZM (1 2 3 4)")}, {"numRecords": 1})
    table.repair()
    low, high = map(from_delta_wkt, table.bound("a.parquet"), table.bound("a.parquet"))
    assert low.zmin <= 3 <= high.zmax
    assert low.mmin <= 6 <= high.mmax
    assert table.bound("b.parquet") == ("POINT ZM(1 2 3 4)", "POINT ZM(1 2 3 4)")
    assert table.repair().is_empty


def test_nested_columns_and_physical_names(tmp_path):
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    inner = field("g", GEOMETRY, **{"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-2"})
    struct = field("place", {"type": "struct", "fields": [inner]}, **mapped)
    spots = field("spots", {"type": "array", "elementType": GEOMETRY, "containsNull": True})
    spots["metadata"] = {"delta.columnMapping.id": 3, "delta.columnMapping.physicalName": "col-3"}
    table = GeoTable(tmp_path, struct, spots, features=("columnMapping",), **{"delta.columnMapping.mode": "name"})
    structs = pa.StructArray.from_arrays([wkb("POINT (1 2)", "POINT (3 4)")], ["col-2"], mask=pa.array([False, True]))
    lists = pa.array([wkb("POINT (9 9)").to_pylist(), None], pa.list_(pa.binary()))
    table.file("a.parquet", {"col-1": structs, "col-3": lists}, {"numRecords": 2})
    change = table.repair()
    stats = table.stats("a.parquet")
    assert stats["minValues"] == {"col-1": {"col-2": "POINT(1 2)"}}
    assert stats["nullCount"] == {"col-1": {"col-2": 1}}
    assert any("spots.element" in sentence and "list or a map" in sentence for sentence in change.notes)
    assert table.open().files.table["place.g.xmin"].to_pylist() == [1.0]
    assert table.repair().is_empty


def test_columns_that_are_not_indexed_are_named_with_the_property(tmp_path):
    fields = [field("id", "long"), field("geom", GEOMETRY), field("far", GEOMETRY)]
    table = GeoTable(tmp_path, *fields, **{"delta.dataSkippingNumIndexedCols": "2"})
    shapes = typed(wkb(*POINTS))
    table.file("a.parquet", {"id": ids(2), "geom": shapes, "far": shapes}, {"numRecords": 2})
    change = table.repair()
    assert "far" not in table.stats("a.parquet")["minValues"]
    assert any("far" in note and "delta.dataSkippingStatsColumns" in note for note in change.notes)
    only = table.plan(columns=["far"])
    assert only.is_empty


def test_columns_can_be_chosen(tmp_path):
    table = GeoTable(tmp_path, field("id", "long"), field("a", GEOMETRY), field("b", GEOMETRY))
    shapes = typed(wkb(*POINTS))
    table.file("a.parquet", {"id": ids(2), "a": shapes, "b": wkb(*POINTS)}, {"numRecords": 2})
    assert table.plan(columns=["A"]).job is None
    with pytest.raises(SchemaError, match="use one of: a, b"):
        table.plan(columns=["id"])
    both = table.plan()
    assert both.job.to_dict()["known"].keys() == {"a.parquet"}
    table.repair()
    assert table.stats("a.parquet")["minValues"]["b"] == "POINT(10 50)"
    assert holds(table, "a.parquet", (10, 50, 11, 52), "a")
    assert table.repair().is_empty


@pytest.mark.parametrize("text", ["no JSON", '["list"]', '{"minValues":{},"minValues":{}}', '{"minValues":3}', ""])
def test_statistics_that_cannot_be_edited_are_made_anew(tmp_path, text):
    table = GeoTable(tmp_path).file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, text)
    table.repair()
    assert holds(table, "a.parquet", (10, 50, 11, 52))
    assert table.stats("a.parquet")["numRecords"] == 2
    assert table.repair().is_empty


def test_a_table_without_files_or_geo_columns_has_nothing_to_do(tmp_path):
    assert GeoTable(tmp_path / "a").plan().is_empty
    table = GeoTable(tmp_path / "b", field("id", "long")).file("a.parquet", {"id": ids(2)}, {"numRecords": 2})
    assert table.plan().is_empty


def test_the_same_table_gives_the_same_plan(tmp_path):
    table = GeoTable(tmp_path).file("a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, {"numRecords": 2})
    table.file("b.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2})
    first, other = table.plan(), table.plan()
    assert first.hash == other.hash
    assert first.hash != table.plan(verify=True).hash
    assert (first.reads.files, first.reads.bytes > 0) == (2, True)


coordinates = st.floats(-180, 180, allow_nan=False).map(lambda value: round(value, 9))
shapes_drawn = st.lists(
    st.one_of(
        st.none(),
        st.tuples(coordinates, coordinates).map(lambda xy: shapely.Point(*xy)),
        st.lists(st.tuples(coordinates, coordinates), min_size=2, max_size=5).map(shapely.LineString),
        st.just(shapely.Point()),
    ),
    max_size=6,
)


@settings(max_examples=40)
@given(drawn=st.lists(st.tuples(shapes_drawn, st.booleans()), min_size=1, max_size=4))
def test_no_bound_leaves_out_a_value_and_repair_settles(tmp_path_factory, drawn):
    table = GeoTable(tmp_path_factory.mktemp("t"))
    for number, (shapes, logical) in enumerate(drawn):
        column = pa.array(
            [None if shape is None else shapely.to_wkb(shape, flavor="iso") for shape in shapes], pa.binary()
        )
        geom = typed(column) if logical else column
        table.file(f"{number}.parquet", {"id": ids(len(shapes)), "geom": geom}, {"numRecords": len(shapes)})
    table.repair()
    for number, (shapes, _) in enumerate(drawn):
        placed = [shape for shape in shapes if shape is not None and not shape.is_empty]
        low, high = table.bound(f"{number}.parquet")
        if not placed:
            assert low is high is None
            continue
        box = from_delta_wkt(low, high)
        xmin, ymin, xmax, ymax = shapely.total_bounds(placed)
        assert box.xmin <= xmin
        assert box.ymin <= ymin
        assert box.xmax >= xmax
        assert box.ymax >= ymax
    assert table.repair().is_empty
    assert table.repair(verify=True).is_empty


def test_updated_statistics_keep_doubles_bit_for_bit():
    box = Box(np.nextafter(0.1, 1), -0.0, 1e300, 5e-324)
    action = with_updated_stats('{"path":"a"}', {("g",): NewStats(box, None)}, rows=1, has_vector=False)
    stats = json.loads(json.loads(action)["add"]["stats"])
    assert (stats["minValues"]["g"], stats["maxValues"]["g"]) == to_delta_wkt(box)
    assert from_delta_wkt(*to_delta_wkt(box)) == box


def test_a_bound_that_is_larger_than_the_footer_becomes_that_of_the_values(tmp_path):
    table = GeoTable(tmp_path).file(
        "a.parquet", {"id": ids(2), "geom": typed(wkb(*POINTS))}, with_bound("POINT(-20.5 0)", "POINT(180 90)")
    )
    (action,) = map(json.loads, table.repair().actions)
    stats = json.loads(action["add"]["stats"])
    assert (stats["minValues"]["geom"], stats["maxValues"]["geom"]) == ("POINT(10 50)", "POINT(11 52)")


def test_a_bound_that_is_larger_than_a_wrong_footer_still_holds_every_value(tmp_path):
    values = typed(wkb(*POINTS))
    table = GeoTable(tmp_path).file(
        "a.parquet", {"id": ids(2), "geom": values}, with_bound("POINT(0 0)", "POINT(60 60)")
    )
    path = tmp_path / "a.parquet"
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    small = LeafEdit(gl.geometry(), [ChunkStats(Box(10, 50, 10.5, 50.5), (1,), 2)])
    path.write_bytes(whole[: -8 - size] + footer_with_tail(edit_footer(whole[-8 - size : -8], {("geom",): small})))
    (action,) = map(json.loads, table.repair().actions)
    stats = json.loads(action["add"]["stats"])
    assert (stats["minValues"]["geom"], stats["maxValues"]["geom"]) == ("POINT(10 50)", "POINT(11 52)")
