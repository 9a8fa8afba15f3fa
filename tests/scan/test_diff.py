from __future__ import annotations

import json

import pyarrow as pa

from geolake_nb.model.box import Box
from geolake_nb.model.collation import Collation
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryType,
    ListType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.scan.diff import diff, schema_changes
from tests.scan.snapshots import GEOM, files, geo, snapshot

ONE, TWO = Box(0, 0, 1, 1), Box(5, 5, 6, 6)


def paths(table):
    return table["path"].to_pylist()


def rewritten(old, new):
    change = diff(snapshot(old), snapshot(new))
    assert (change.added.num_rows, change.removed.num_rows) == (0, 0)
    return {row["path"]: row["changed"] for row in change.rewritten.select(["path", "changed"]).to_pylist()}


# Files


def test_files_are_added_removed_and_kept():
    old = snapshot(files(["a", "b", "c"], geom=[ONE, ONE, ONE]), version=1)
    new = snapshot(files(["d", "c", "a"], geom=[TWO, ONE, ONE]), version=2)
    change = diff(old, new)
    assert (paths(change.added), paths(change.removed), change.unchanged) == (["d"], ["b"], 2)
    assert change.added["geom.xmin"].to_pylist() == [5.0]
    assert not change.rewritten.num_rows
    back = diff(new, old)
    assert (paths(back.added), paths(back.removed)) == (["b"], ["d"])


def test_a_rewrite_is_said_to_be_one_and_not_called_zero():
    before, after = files(["a", "b"], geom=[ONE, TWO]), files(["x"], rows=[20], geom=[Box(0, 0, 6, 6)])
    change = diff(snapshot(before), snapshot(after, version=2))
    assert change.rewrite_sentence == "20 rows of 2 files are in 1 new file now"
    assert "20 rows of 2 files are in 1 new file now" in str(change)
    assert "rewritten" not in str(change)
    assert diff(snapshot(before), snapshot(files(["x"], geom=[ONE]))).rewrite_sentence is None


def test_a_file_with_new_bounds_is_rewritten():
    old = files(["a", "b", "c"], geom=[ONE, None, None])
    new = files(["c", "b", "a"], geom=[None, TWO, ONE])
    assert rewritten(old, new) == {"b": "bounds of geom"}


def test_a_deletion_vector_rewrites_a_file():
    old = files(["a", "b"], rows=[10, 10], geom=[ONE, ONE])
    new = files(["a", "b"], rows=[7, 10], deleted=[3, 0], geom=[ONE, ONE])
    assert rewritten(old, new) == {"a": "deleted rows, rows"}


def test_types_and_null_counts_count_and_nan_does_not():
    sides = {axis: pa.array([float("nan")] * 3) for axis in ("xmin", "ymin", "xmax", "ymax")}
    old = files(list("abc"), geom=geo([], sides=sides, nulls=[1, 1, None], types=[[1], [1, 2], None]))
    new = files(list("abc"), geom=geo([], sides=sides, nulls=[1, 2, None], types=[[1], [1], None]))
    assert rewritten(old, new) == {"b": "null count of geom, types of geom"}


def test_a_column_of_only_one_version_does_not_break_the_diff():
    old = files(["a", "b"], geom=[ONE, ONE])
    new = files(["a", "b"], geom=[ONE, ONE], geog=[None, TWO], extra={"modified": pa.array([1, 2])})
    assert rewritten(old, new) == {"b": "bounds of geog"}


def test_partition_values_of_another_type_are_compared_as_text():
    old = files(["a", "b"], partitions={"day": pa.array(["1", "2"])})
    new = files(["a", "b"], partitions={"day": pa.array([1, 3])})
    assert rewritten(old, new) == {"b": "partition values"}


def test_the_commit_time_of_a_file_is_not_a_change():
    old = files(["a"], extra={"modified": pa.array([1])})
    new = files(["a"], extra={"modified": pa.array([2])})
    assert diff(snapshot(old), snapshot(new)).is_empty


def test_empty_versions_are_fine():
    nothing = snapshot(files([], geom=[]), version=0)
    full = snapshot(files(["a"], geom=[ONE]), version=1)
    assert paths(diff(nothing, full).added) == ["a"]
    assert paths(diff(full, nothing).removed) == ["a"]
    assert diff(nothing, nothing).is_empty


# Bounds


def test_coverage_and_boxes_are_compared():
    old = snapshot(files(["a", "b"], geom=[ONE, None]))
    new = snapshot(files(["a", "b"], geom=[ONE, TWO]))
    [change] = diff(old, new).coverage
    assert (change.old.share, change.new.share, change.changed) == (0.5, 1.0, True)
    assert (change.old.box, change.new.box) == (ONE, Box(0, 0, 6, 6))
    assert not diff(old, old).coverage[0].changed


def test_a_new_geo_column_has_no_old_coverage():
    two = (*GEOM, Field("geog", GeographyType()))
    change = diff(snapshot(files(["a"], geom=[ONE])), snapshot(files(["a"], geom=[ONE], geog=[TWO]), fields=two))
    assert [(entry.column, entry.old is None) for entry in change.coverage] == [("geom", False), ("geog", True)]


# Schema


def changes(old, new):
    listed = schema_changes(Schema(StructType(tuple(old))), Schema(StructType(tuple(new))))
    return [(change.column, change.kind.value, change.old, change.new) for change in listed]


def test_fields_are_matched_by_id():
    old = [Field("a", PrimitiveType("int32"), id=1), Field("b", StringType(), id=2)]
    new = [Field("b", PrimitiveType("int64"), id=1), Field("a", StringType(), id=3)]
    assert changes(old, new) == [
        ("b", "renamed", "a", "b"),
        ("b", "type", "int32", "int64"),
        ("a", "added", None, "string"),
        ("b", "dropped", "string", None),
    ]


def test_fields_are_matched_by_their_name_in_files_and_by_path():
    old = [Field("a", StringType(), physical_name="col-1"), Field("b", StringType())]
    new = [Field("c", StringType(), physical_name="col-1"), Field("b", StringType(), nullable=False)]
    assert changes(old, new) == [("c", "renamed", "a", "c"), ("b", "nullability", "nullable", "required")]


def test_geo_types_report_crs_edges_and_kind():
    mercator, sphere = GeometryType(Crs("EPSG:3857")), GeographyType()
    assert changes([Field("g", GeometryType())], [Field("g", mercator)]) == [
        ("g", "crs", "geometry(OGC:CRS84)", "geometry(EPSG:3857)")
    ]
    assert changes([Field("g", sphere)], [Field("g", GeographyType(algorithm=EdgeAlgorithm.KARNEY))]) == [
        ("g", "crs", "geography(OGC:CRS84, spherical)", "geography(OGC:CRS84, karney)")
    ]
    assert changes([Field("g", PrimitiveType("binary"))], [Field("g", sphere)]) == [
        ("g", "type", "binary", "geography(OGC:CRS84, spherical)")
    ]


def test_collations_are_reported_inside_structs_and_lists_too():
    def table(collation):
        names = ListType(Field("element", StringType(collation)))
        return [Field("place", StructType((Field("names", names),)))]

    german = Collation("icu", "de")
    assert changes(table(None), table(german)) == [("place.names.element", "collation", "binary", "icu.de")]


def test_a_renamed_struct_does_not_rename_what_is_inside():
    def table(name):
        return [Field(name, StructType((Field("x", StringType(), id=2),)), id=1)]

    assert changes(table("a"), table("b")) == [("b", "renamed", "a", "b")]


# How it reads


def test_text_and_plain_values():
    old = snapshot(files(["a", "b"], geom=[ONE, None]), version=3)
    fields = (Field("geom", GeometryType(Crs("EPSG:3857"))), Field("note", StringType()))
    new = snapshot(files(["b", "c"], geom=[TWO, None]), version=5, fields=fields)
    change = diff(old, new)
    text = str(change)
    assert max(map(len, text.splitlines())) <= 100
    for part in ("version 3 to 5", "added             1 file", "1 with other bounds of geom", "note: added as string",
                 "geom: crs geometry(OGC:CRS84) -> geometry(EPSG:3857)", "[0 0 1 1] -> [5 5 6 6]"):  # fmt: skip
        assert part in text
    plain = json.loads(json.dumps(change.to_dict(files=True)))
    assert list(plain) == [
        "table", "old_version", "new_version", "added", "removed", "rewritten", "unchanged", "schema", "coverage",
    ]  # fmt: skip
    assert plain["rewritten"] == {"files": 1, "rows": 10, "bytes": 100, "paths": ["b"]}
    assert plain["schema"][1] == {"column": "note", "kind": "added", "old": None, "new": "string"}
    assert "paths" not in change.to_dict()["added"]
