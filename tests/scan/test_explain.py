from __future__ import annotations

import json
import math
import re

import pyarrow as pa
import pytest

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.predicate import st_intersects
from geolake_nb.formats.delta.snapshot import open_delta
from geolake_nb.formats.registry import HAVASU, ICEBERG
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.file_table import sides_of
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import (
    Field,
    GeographyType,
    GeometryType,
    ListType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.scan.explain import explain
from geolake_nb.scan.explanation import Amount
from geolake_nb.scan.prune import ScanReason
from geolake_nb.storage.storage import Storage
from tests.scan.snapshots import GEOM, files, geo, snapshot

WINDOW = Box(0, 0, 10, 10)
INSIDE, OUTSIDE = Box(1, 1, 2, 2), Box(50, 50, 51, 51)
POLYGON = "ST_GeomFromText('POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))')"
GEOG = (Field("geog", GeographyType()),)


def reasons(table, where=WINDOW, **options):
    return explain(table, where, **options).files["reason"].to_pylist()


def one_file(box, **options):
    return snapshot(files(["a"], geom=geo([box], **options)))


# One reason for each file


def test_boxes_that_meet_overlap_and_others_are_outside():
    table = snapshot(files(["a", "b", "c"], geom=[INSIDE, OUTSIDE, Box(10, 10, 20, 20)]))
    assert reasons(table) == ["overlaps", "outside_window", "overlaps"]


def test_a_file_without_bounds_is_kept():
    assert reasons(one_file(None)) == ["no_bounds"]


def test_a_column_without_statistics_at_all_is_kept():
    assert reasons(snapshot(files(["a", "b"]))) == ["no_bounds", "no_bounds"]


def test_bounds_that_are_not_usable_say_why():
    table = snapshot(files(["a", "b"], geom=geo([None, INSIDE], problem=["min is not WKT", None])))
    explanation = explain(table, WINDOW)
    assert explanation.files["reason"].to_pylist() == ["unusable_bounds", "overlaps"]
    assert explanation.files["detail"].to_pylist() == ["min is not WKT", None]
    assert explanation.details() == {"min is not WKT": 1}


@pytest.mark.parametrize(("side", "value"), [("xmin", math.nan), ("ymin", 99.0)])
def test_sides_that_make_no_box_are_not_usable(side, value):
    sides = {**sides_of([OUTSIDE]), side: pa.array([value])}
    explanation = explain(snapshot(files(["a"], geom=geo([], sides=sides))), WINDOW)
    assert explanation.files.select(["reason", "detail"]).to_pylist() == [
        {"reason": "unusable_bounds", "detail": "not a valid box (NaN, or ymin > ymax)"}
    ]


def test_a_wrapped_box_that_overlaps_the_query_has_its_own_reason():
    table = snapshot(files(["a", "b"], geog=[Box(170, 0, -170, 5)] * 2), fields=GEOG)
    assert reasons(table, Box(-175, 0, -172, 1)) == ["wrapped", "wrapped"]
    assert reasons(table, Box(0, 0, 1, 1)) == ["outside_window", "outside_window"]


def test_a_window_over_the_antimeridian_meets_both_sides():
    table = snapshot(files(["a", "b", "c"], geog=[Box(175, 0, 178, 1), Box(-178, 0, -177, 1), INSIDE]), fields=GEOG)
    assert reasons(table, Box(170, -1, -170, 2)) == ["overlaps", "overlaps", "outside_window"]


def test_wrapped_boxes_in_delta_get_a_note():
    table = files(["a"], geom=[Box(170, 0, -170, 5)])
    window = Box(-175, 0, -172, 1)
    assert any("lose rows" in note for note in explain(snapshot(table), window).notes)
    assert not explain(snapshot(table, format=ICEBERG), window).notes


def test_a_window_that_cannot_be_moved_to_the_columns_crs_keeps_all():
    plane = (Field("geom", GeometryType(Crs("SRID:0"))),)
    table = snapshot(files(["a", "b"], geom=[OUTSIDE, None]), fields=plane)
    explanation = explain(table, st_intersects("geom", WINDOW, crs="OGC:CRS84"))
    assert explanation.files["reason"].to_pylist() == ["crs_differs", "crs_differs"]
    assert explanation.notes == ("the query is in OGC:CRS84 and the column in SRID:0: the CRS is unknown",)


def test_a_window_in_another_crs_is_moved():
    mercator = (Field("geom", GeometryType(Crs("EPSG:3857"))),)
    table = snapshot(files(["a", "b"], geom=[Box(0, 0, 10, 10), Box(9e6, 9e6, 9.1e6, 9.1e6)]), fields=mercator)
    assert reasons(table, st_intersects("geom", WINDOW, crs="EPSG:4326")) == ["overlaps", "outside_window"]


def test_a_query_without_a_sound_box_keeps_all():
    table = snapshot(files(["a"], geog=[OUTSIDE]), fields=GEOG)
    assert reasons(table, st_intersects("geog", "LINESTRING (170 0, 190 0)")) == ["query_unbounded"]


def test_partitions_skip_and_match():
    fields = (*GEOM, Field("region", StringType()))
    regions = pa.array(["north", "south", None])
    table = files(["a", "b", "c"], partitions={"region": regions}, geom=[INSIDE, INSIDE, INSIDE])
    plain = snapshot(table, fields=fields, partition_columns=("region",))
    assert reasons(plain, "region = 'north'") == ["partition_matches", "partition", "no_statistics"]
    both = f"region = 'north' AND ST_Intersects(geom, {POLYGON})"
    assert reasons(plain, both) == ["overlaps", "partition", "no_statistics"]
    counted = ScalarColumn(regions, regions, pa.array([0, 0, 10]), pa.array([10, 10, 10]))
    counted_table = snapshot(table, fields=fields, partition_columns=("region",), scalars={"region": counted})
    assert reasons(counted_table, "region = 'north'") == ["partition_matches", "partition", "partition"]


def test_scalar_statistics_skip():
    fields = (*GEOM, Field("n", PrimitiveType("int64")))
    low, high = pa.array([1, 50, None], pa.int64()), pa.array([9, 60, None], pa.int64())
    table = snapshot(files(["a", "b", "c"], geom=[INSIDE] * 3), fields=fields, scalars={"n": ScalarColumn(low, high)})
    assert reasons(table, "n < 10") == ["in_range", "scalar_statistics", "no_statistics"]
    both = f"n < 10 AND ST_Intersects(geom, {POLYGON})"
    assert reasons(table, both) == ["overlaps", "scalar_statistics", "no_statistics"]


def test_a_column_outside_the_indexed_ones_says_so():
    fields = (*GEOM, Field("n", PrimitiveType("int64")))
    table = files(["a", "b"], geom=[None, INSIDE])
    only_first = snapshot(table, fields=fields, properties={"delta.dataSkippingNumIndexedCols": "1"})
    assert reasons(only_first, "n = 1") == ["not_indexed", "not_indexed"]
    assert reasons(only_first) == ["no_bounds", "overlaps"]
    listed = snapshot(table, fields=fields, properties={"delta.dataSkippingStatsColumns": "n"})
    assert reasons(listed) == ["not_indexed", "overlaps"]
    elsewhere = snapshot(table, fields=fields, properties={"delta.dataSkippingStatsColumns": "n"},
                         format=ICEBERG)  # fmt: skip
    assert reasons(elsewhere) == ["no_bounds", "overlaps"]


def test_a_33rd_column_is_not_indexed_by_default():
    wide = (*(Field(f"c{number}", PrimitiveType("int64")) for number in range(32)), *GEOM)
    assert reasons(snapshot(files(["a"]), fields=wide)) == ["not_indexed"]
    assert reasons(snapshot(files(["a"]), fields=wide[1:])) == ["no_bounds"]


def test_a_file_of_nulls_is_skipped_counting_deleted_rows():
    stats = geo([None, None, None], nulls=[10, 12, 10])
    table = snapshot(files(["a", "b", "c"], rows=[10, 10, 10], deleted=[0, 2, 2], geom=stats))
    assert reasons(table) == ["only_nulls", "only_nulls", "no_bounds"]
    assert reasons(table, "geom IS NOT NULL") == ["scalar_statistics", "scalar_statistics", "in_range"]


def test_an_empty_query_meets_nothing():
    table = snapshot(files(["a", "b"], geom=[INSIDE, None]))
    assert reasons(table, "ST_Intersects(geom, 'POLYGON EMPTY')") == ["empty_query", "empty_query"]
    assert reasons(table, "ST_Equals(geom, 'POLYGON EMPTY')") == ["query_unbounded", "query_unbounded"]


def test_a_box_that_cannot_hold_the_window_is_too_small():
    table = snapshot(files(["a", "b", "c"], geom=[INSIDE, OUTSIDE, Box(-5, -5, 15, 15)]))
    assert reasons(table, f"ST_Contains(geom, {POLYGON})") == ["too_small_to_hold", "outside_window", "overlaps"]


def test_a_negated_window_is_never_ruled_out_by_a_box():
    table = snapshot(files(["a", "b"], geom=geo([INSIDE, None], nulls=[0, 10])))
    assert reasons(table, f"NOT ST_Intersects(geom, {POLYGON})") == ["negated", "only_nulls"]


def collated_table(folder, *versions):
    """A Delta table of one file for each version, `None` for one without collated statistics."""
    schema = {"type": "struct", "fields": [
        {"name": "name", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"name": "icu.de"}}},
    ]}  # fmt: skip
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["collations"]}},
        {"metaData": {"id": "1", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "configuration": {}, "schemaString": json.dumps(schema)}},
    ]  # fmt: skip
    for number, version in enumerate(versions):
        ends = {"minValues": {"name": "x"}, "maxValues": {"name": "z"}}
        stats = {"numRecords": 2, **ends}
        if version is not None:
            stats["statsWithCollation"] = {f"icu.de.{version}": ends}
        add = {"path": f"{number}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0,
               "dataChange": True, "stats": json.dumps(stats)}  # fmt: skip
        actions.append({"add": add})
    log = folder / "_delta_log"
    log.mkdir()
    (log / "00000000000000000000.json").write_text("\n".join(json.dumps(action) for action in actions))
    return open_delta(Storage.at(str(folder)))


def test_collated_statistics_of_another_version_do_not_serve(tmp_path):
    table = collated_table(tmp_path, "76.1", "77.1", None)
    query = "name = 'a' COLLATE \"icu.de.76.1\""
    assert reasons(table, query) == ["no_collator", "collation_version_differs", "no_collated_statistics"]
    # A schema names no version, and so does a filter without one.
    assert reasons(table, "name = 'a'") == ["collation_version_differs"] * 2 + ["no_collated_statistics"]
    assert reasons(table, "name IN ('a')")[0] == "collation_version_differs"


def test_binary_statistics_serve_a_binary_comparison_of_a_collated_column(tmp_path):
    table = collated_table(tmp_path, "76.1", None)
    assert reasons(table, "name = 'a' COLLATE UTF8_BINARY") == ["scalar_statistics"] * 2
    assert reasons(table, "name IS NULL") == ["no_statistics"] * 2


def test_or_takes_the_reason_of_what_keeps_the_file():
    fields = (*GEOM, Field("n", PrimitiveType("int64")))
    column = ScalarColumn(pa.array([1, 50]), pa.array([9, 60]))
    table = snapshot(files(["a", "b"], geom=[OUTSIDE, OUTSIDE]), fields=fields, scalars={"n": column})
    assert reasons(table, f"n < 10 OR ST_Intersects(geom, {POLYGON})") == ["in_range", "outside_window"]


def test_rasters_are_queried_in_wgs_84():
    tiles = (Field("tile", RasterType()),)
    table = snapshot(files(["a", "b"], tile=[INSIDE, OUTSIDE]), fields=tiles, format=HAVASU)
    assert reasons(table) == ["overlaps", "outside_window"]


def test_every_reason_is_in_a_test():
    with open(__file__) as text:
        seen = set(re.findall(r'"([a-z_]+)"', text.read()))
    assert {reason.value for reason in ScanReason} <= seen


# Which column a box is for


def test_a_box_needs_to_know_its_column():
    two = (*GEOM, *GEOG)
    table = snapshot(files(["a"], geom=[INSIDE], geog=[OUTSIDE]), fields=two)
    with pytest.raises(PredicateError, match="give column=, one of: geog, geom"):
        explain(table, WINDOW)
    assert reasons(table, column="geog") == ["outside_window"]
    assert reasons(table, column="GEOM") == ["overlaps"]
    with pytest.raises(PredicateError, match="no column 'gem'; use one of: geom"):
        explain(table, WINDOW, column="gem")


def test_a_box_is_not_for_a_column_inside_a_list():
    inside = Field("shapes", ListType(Field("element", GeometryType())))
    nested = Field("place", StructType((Field("geom", GeometryType()),)))
    table = snapshot(files(["a"], **{"place.geom": [OUTSIDE]}), fields=(inside, nested))
    assert reasons(table) == ["outside_window"]
    with pytest.raises(PredicateError, match="no geo column that a box could filter"):
        explain(snapshot(files(["a"]), fields=(inside,)), WINDOW)


def test_a_column_beside_a_filter_is_refused():
    with pytest.raises(PredicateError, match="a column cannot be combined with a whole filter"):
        explain(one_file(INSIDE), "geom IS NULL", column="geom")


def test_what_is_not_a_filter_is_refused():
    with pytest.raises(
        PredicateError, match="expected a Box, a geometry or an SQL condition, got an int; give one of: four numbers"
    ):
        explain(one_file(INSIDE), 7)


def test_a_column_name_with_a_dot_is_found():
    table = snapshot(files(["a"], **{"`my.geom`": [OUTSIDE]}), fields=(Field("my.geom", GeometryType()),))
    assert reasons(table) == ["outside_window"]


# Sums


def test_what_is_read_is_counted():
    table = snapshot(files(["a", "b", "c"], rows=[1, 2, 4], sizes=[10, 20, 40], geom=[INSIDE, OUTSIDE, None]))
    explanation = explain(table, WINDOW)
    assert explanation.read == Amount(2, 5, 50)
    assert explanation.total == Amount(3, 7, 70)
    assert explanation.kept["path"].to_pylist() == ["a", "c"]
    assert explanation.skipped["path"].to_pylist() == ["b"]
    assert explanation.by_reason() == {
        ScanReason.NO_BOUNDS: Amount(1, 4, 40),
        ScanReason.OVERLAPS: Amount(1, 1, 10),
        ScanReason.OUTSIDE_WINDOW: Amount(1, 2, 20),
    }
    assert [(level.name, level.kept, level.total) for level in explanation.levels] == [("table", 1, 1), ("file", 2, 3)]


def test_rows_are_unknown_when_a_file_has_no_count():
    explanation = explain(snapshot(files(["a", "b"], rows=[None, 2], geom=[INSIDE, INSIDE])), WINDOW)
    assert explanation.read == Amount(2, None, 200)


def test_manifests_are_counted_where_files_name_theirs():
    extra = {"manifest": pa.array(["m1", "m1", "m2"])}
    table = snapshot(files(["a", "b", "c"], extra=extra, geom=[INSIDE, OUTSIDE, OUTSIDE]), format=ICEBERG)
    assert [(level.name, level.kept, level.total) for level in explain(table, WINDOW).levels][1] == ("manifest", 1, 2)


def test_a_table_without_files_reads_nothing():
    explanation = explain(snapshot(files([], geom=[])), WINDOW, row_groups=groups([]))
    assert (explanation.read, explanation.total) == (Amount(0, 0, 0), Amount(0, 0, 0))
    assert [level.kept for level in explanation.levels] == [0, 0, 0]
    assert explanation.if_complete.exact
    assert str(explanation)


def test_complete_bounds_are_estimated_by_the_share_of_bytes_of_those_that_have_some():
    boxes = [INSIDE, OUTSIDE, OUTSIDE, OUTSIDE, None, None]
    table = snapshot(files(list("abcdef"), rows=[1] * 6, sizes=[100, 100, 100, 100, 300, 100], geom=boxes))
    complete = explain(table, WINDOW).if_complete
    assert (complete.read, complete.exact) == (Amount(2 - 1 + round(2 / 4), 1 + round(2 / 4), 100 + 400 // 4), False)
    assert "25.0% of the bytes" in complete.basis


def test_complete_bounds_are_what_is_read_when_they_are():
    complete = explain(snapshot(files(["a", "b"], geom=[INSIDE, OUTSIDE])), WINDOW).if_complete
    assert (complete.read, complete.exact) == (Amount(1, 10, 100), True)


def test_complete_bounds_are_not_known_without_any():
    complete = explain(snapshot(files(["a", "b"], geom=[None, None])), WINDOW).if_complete
    assert (complete.read, complete.exact) == (None, False)


# Row groups


def groups(rows, *, nulls=True):
    """A table of row groups from `(path, number, box, null count)`, of five rows each."""
    columns = {
        "path": pa.array([row[0] for row in rows], pa.string()),
        "row_group": pa.array([row[1] for row in rows], pa.int64()),
        "rows": pa.array([5 for _ in rows], pa.int64()),
        "bytes": pa.array([50 for _ in rows], pa.int64()),
    }
    columns |= {f"geom.{axis}": side for axis, side in sides_of([row[2] for row in rows]).items()}
    if nulls:
        columns["geom.null_count"] = pa.array([row[3] for row in rows], pa.int64())
    return pa.table(columns)


def test_row_groups_are_pruned_by_their_own_boxes_and_their_files():
    table = snapshot(files(["a", "b", "c"], geom=[Box(0, 0, 60, 60), OUTSIDE, None]))
    parts = groups([
        ("a", 0, INSIDE, 0), ("a", 1, OUTSIDE, 0), ("a", 2, None, 5), ("a", 3, None, 0),
        ("b", 0, INSIDE, 0), ("c", 0, None, 0), ("c", 1, OUTSIDE, 0), ("elsewhere", 0, None, 0),
    ])  # fmt: skip
    explanation = explain(table, WINDOW, row_groups=parts)
    assert explanation.row_groups["reason"].to_pylist() == [
        "overlaps", "outside_window", "only_nulls", "overlaps",
        "file_skipped", "no_bounds", "outside_window", "no_bounds",
    ]  # fmt: skip
    assert [(level.name, level.kept, level.total) for level in explanation.levels][-1] == ("row group", 4, 8)
    assert explanation.row_groups.column_names == ["path", "row_group", "rows", "bytes", "kept", "reason"]


def test_row_groups_without_boxes_of_the_column_go_by_their_file():
    table = snapshot(files(["a"], geom=[INSIDE]))
    bare = groups([("a", 0, None, 0)]).select(["path", "row_group", "rows", "bytes"])
    assert explain(table, WINDOW, row_groups=bare).row_groups["reason"].to_pylist() == ["overlaps"]


def test_row_groups_with_bounds_that_are_not_usable_say_so():
    table = snapshot(files(["a"], geom=[None]))
    parts = groups([("a", 0, None, 0), ("a", 1, None, 0)])
    parts = parts.append_column("geom.problem", pa.array(["half a box", None]))
    explanation = explain(table, WINDOW, row_groups=parts)
    assert explanation.row_groups["reason"].to_pylist() == ["unusable_bounds", "no_bounds"]


def test_scalar_statistics_of_a_file_hold_for_its_row_groups():
    fields = (*GEOM, Field("n", PrimitiveType("int64")))
    column = ScalarColumn(pa.array([1, 50]), pa.array([9, 60]))
    table = snapshot(files(["a", "b"], geom=[None, None]), fields=fields, scalars={"n": column})
    parts = groups([("b", 0, INSIDE, 0), ("a", 0, INSIDE, 0), ("a", 1, OUTSIDE, 0)])
    explanation = explain(table, f"n < 10 AND ST_Intersects(geom, {POLYGON})", row_groups=parts)
    assert explanation.row_groups["reason"].to_pylist() == ["file_skipped", "overlaps", "outside_window"]


def test_row_groups_show_what_complete_bounds_would_read():
    table = snapshot(files(list("abcd"), geom=[None, None, None, INSIDE]))
    parts = groups([
        ("a", 0, INSIDE, 0), ("a", 1, OUTSIDE, 0), ("b", 0, OUTSIDE, 0), ("c", 0, None, 5),
    ])  # fmt: skip
    complete = explain(table, WINDOW, row_groups=parts).if_complete
    assert (complete.read, complete.exact) == (Amount(2, 20, 200), True)
    unknown = explain(table, WINDOW, row_groups=groups([("a", 0, None, 0), ("a", 1, OUTSIDE, 0)])).if_complete
    assert not unknown.exact


def test_row_groups_of_a_wrapped_file_add_up():
    table = snapshot(files(["a"], geog=[None]), fields=GEOG)
    parts = groups([("a", 0, Box(170, 0, -170, 1), 0), ("a", 1, Box(0, 0, 1, 1), 0)])
    renamed = parts.rename_columns([name.replace("geom", "geog") for name in parts.column_names])
    complete = explain(table, Box(-175, 0, -172, 1), row_groups=renamed).if_complete
    assert (complete.read, complete.exact) == (Amount(1, 10, 100), True)


# How it reads


def big_table():
    boxes = [INSIDE, OUTSIDE, None, None] * 5
    problems = [None, None, None, "the lower bound of the column has 7 bytes, which is not a point " * 3] * 5
    paths = [f"part-{number}.parquet" for number in range(20)]
    return snapshot(files(paths, sizes=[12_345_678] * 20, geom=geo(boxes, problem=problems)))


def test_the_text_fits_in_100_columns():
    explanation = explain(big_table(), st_intersects("geom", Box(0, 0, 10, 10), crs="EPSG:4326"))
    text = str(explanation)
    assert max(map(len, text.splitlines())) <= 100
    for part in ("/lake/roads (delta, version 1)", "reads 15 of 20 files", "overlaps", "outside_window",
                 "not usable in 5 files", "with complete bounds: about", "Delta Kernel"):  # fmt: skip
        assert part in text


def test_control_characters_from_a_table_are_not_shown():
    table = snapshot(files(["a"], geom=geo([None], problem=["\x1b[31mred"])))
    assert "\x1b" not in str(explain(table, WINDOW))


def test_plain_values_have_stable_keys_and_go_into_json():
    explanation = explain(big_table(), WINDOW)
    plain = explanation.to_dict()
    assert list(plain) == [
        "table", "format", "version", "where", "verdict", "next_step", "query_crs", "read", "total", "levels",
        "reasons", "unusable", "if_complete", "engines", "notes",
    ]  # fmt: skip
    assert plain["read"] == {"files": 15, "rows": 150, "bytes": 15 * 12_345_678}
    assert {"reason": "overlaps", "kept": True, "text": "bounds overlap the query", "files": 5, "rows": 50,
            "bytes": 5 * 12_345_678} in plain["reasons"]  # fmt: skip
    assert plain["if_complete"]["exact"] is False
    assert json.loads(json.dumps(explanation.to_dict(files=True)))["files"][1] == {
        "path": "part-1.parquet", "bytes": 12_345_678, "rows": 10, "kept": False, "reason": "outside_window",
        "detail": None,
    }  # fmt: skip


def test_the_files_of_a_filter_are_an_arrow_table():
    table = explain(one_file(INSIDE), WINDOW).files
    assert table.column_names == ["path", "bytes", "rows", "kept", "reason", "detail"]
    assert pa.types.is_dictionary(table.schema.field("reason").type)
