"""Line 3: boxes of geographies in Delta logs and Iceberg manifests hold the edges only where we wrote them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import geolake_nb as gl
from geolake_nb.expressions.predicate import st_intersects
from geolake_nb.formats.delta.add_action import BOUNDS_TAG
from geolake_nb.formats.havasu.manifest_writing import Numbers, rewritten_manifest
from geolake_nb.formats.iceberg.bounds import EDGES
from tests.changes.repair_tables import GEOGRAPHY, GeoTable, wkb
from tests.formats.delta.log_maker import field, metadata, protocol, write_checkpoint
from tests.formats.iceberg_tables import EXISTING, FileEntry, column, make_iceberg_table, xy

if TYPE_CHECKING:
    from pathlib import Path

# The great circle between these two goes up to 67.79 degrees: tan(67.79) = tan(60) / cos(45).
LINE = "LINESTRING (0 60, 90 60)"
VERTICES = {"numRecords": 1, "minValues": {"g": "POINT(0 60)"}, "maxValues": {"g": "POINT(90 60)"}}
AT_THE_TOP = "POLYGON ((40 65, 50 65, 50 67, 40 67, 40 65))"
FAR_AWAY = "POLYGON ((40 -65, 50 -65, 50 -60, 40 -60, 40 -65))"
REASON = "a geography box of another writer may cover only the vertices, not the edges"


def files_read(table: gl.Table, window: str, name: str = "g") -> int:
    return table.explain(st_intersects(name, window)).kept.num_rows


def foreign_table(folder: Path, stats: Any = VERTICES, **more: Any) -> GeoTable:
    table = GeoTable(folder, field("id", "long"), field("g", GEOGRAPHY))
    return table.file("a.parquet", {"id": [1], "g": wkb(LINE)}, stats, **more)


def opened(table: GeoTable) -> gl.Table:
    return gl.open(str(table.folder))


def the_add(table: GeoTable, version: int) -> dict[str, Any]:
    lines = (table.log / f"{version:020}.json").read_text().splitlines()
    (add,) = [json.loads(line)["add"] for line in lines if line.startswith('{"add"')]
    return add


def test_a_delta_box_of_another_writer_skips_no_file_and_says_why(tmp_path):
    table = opened(foreign_table(tmp_path / "t"))
    for window in (AT_THE_TOP, FAR_AWAY):
        explanation = table.explain(st_intersects("g", window))
        assert explanation.kept.num_rows == 1
        assert explanation.details() == {REASON: 1}
    (finding,) = [candidate for candidate in table.check() if candidate.rule == "bounds.untrusted"]
    assert (finding.scope.column, finding.scope.count) == ("g", 1)


def test_a_repair_computes_a_box_that_is_believed(tmp_path):
    table = foreign_table(tmp_path / "t")
    table.repair()
    assert files_read(opened(table), AT_THE_TOP) == 1
    assert files_read(opened(table), FAR_AWAY) == 0
    assert not [finding for finding in opened(table).check() if finding.rule.startswith("bounds.")]
    assert table.repair().is_empty


def test_a_right_box_of_another_writer_gets_the_mark_and_stays_as_it_is(tmp_path):
    ours = foreign_table(tmp_path / "a", None)
    ours.repair()
    stats = the_add(ours, 2)["stats"]
    theirs = foreign_table(tmp_path / "b", stats)
    assert files_read(opened(theirs), FAR_AWAY) == 1
    theirs.repair()
    assert the_add(theirs, 2)["stats"] == stats
    assert files_read(opened(theirs), FAR_AWAY) == 0


def test_other_tags_stay_as_they_are(tmp_path):
    for number, tags in enumerate([None, {}, {"x": "1.50"}]):
        table = foreign_table(tmp_path / str(number), tags=tags)
        table.repair()
        stored_tags = the_add(table, 2)["tags"]
        assert stored_tags.pop(BOUNDS_TAG)
        assert stored_tags == (tags or {})


def test_a_mark_that_was_copied_to_other_bounds_does_not_count(tmp_path):
    ours = foreign_table(tmp_path / "a")
    ours.repair()
    tags = the_add(ours, 2)["tags"]
    theirs = foreign_table(tmp_path / "b", tags=tags)
    assert files_read(opened(theirs), FAR_AWAY) == 1
    broken = foreign_table(tmp_path / "c", tags={BOUNDS_TAG: "no JSON"})
    assert files_read(opened(broken), FAR_AWAY) == 1


def test_a_mark_of_another_type_of_edges_does_not_count(tmp_path):
    ours = foreign_table(tmp_path / "a")
    ours.repair()
    add = the_add(ours, 2)
    theirs = GeoTable(tmp_path / "b", field("id", "long"), field("g", "geography(OGC:CRS84, karney)"))
    theirs.file("a.parquet", {"id": [1], "g": wkb(LINE)}, add["stats"], tags=add["tags"])
    assert files_read(opened(theirs), FAR_AWAY) == 1


@pytest.mark.parametrize("odd", [False, True], ids=["map", "struct"])
def test_the_mark_is_read_from_a_checkpoint(tmp_path, odd):
    import pyarrow as pa

    table = foreign_table(tmp_path / "t")
    table.repair()
    add = the_add(table, 2)
    tags = add.pop("tags")
    kind = pa.struct([("x", pa.string())]) if odd else pa.map_(pa.string(), pa.string())
    add["tags"] = {"x": "1"} if odd else list(tags.items())
    start = [protocol("geospatial"), metadata(field("id", "long"), field("g", GEOGRAPHY))]
    write_checkpoint(table.log / f"{2:020}.checkpoint.parquet", [*start, {"add": add}], own=[("tags", kind)])
    for path in table.log.glob("*.json"):
        path.unlink()
    assert files_read(opened(table), FAR_AWAY) == (1 if odd else 0)
    assert files_read(opened(table), AT_THE_TOP) == 1


def test_a_repair_of_one_column_does_not_vouch_for_another(tmp_path):
    table = GeoTable(tmp_path / "t", field("g", GEOGRAPHY), field("h", GEOGRAPHY))
    stats = {
        end: {"g": point, "h": point}
        for end, point in zip(("minValues", "maxValues"), ("POINT(0 60)", "POINT(90 60)"), strict=True)
    }
    table.file("a.parquet", {"g": wkb(LINE), "h": wkb(LINE)}, {"numRecords": 1, **stats})
    table.repair(columns=["g"])
    assert files_read(opened(table), FAR_AWAY, "g") == 0
    assert files_read(opened(table), FAR_AWAY, "h") == 1
    assert table.stats("a.parquet")["maxValues"]["h"] == "POINT(90 60)"
    table.repair()
    assert files_read(opened(table), FAR_AWAY, "g") == 0
    assert files_read(opened(table), FAR_AWAY, "h") == 0


def test_a_geography_inside_a_struct_is_treated_alike(tmp_path):
    import pyarrow as pa

    inner = {"type": "struct", "fields": [field("g", GEOGRAPHY)]}
    table = GeoTable(tmp_path / "t", field("s", inner))
    column_ = pa.StructArray.from_arrays([wkb(LINE)], ["g"])
    stats = {"numRecords": 1, "minValues": {"s": {"g": "POINT(0 60)"}}, "maxValues": {"s": {"g": "POINT(90 60)"}}}
    table.file("a.parquet", {"s": column_}, stats)
    assert files_read(opened(table), FAR_AWAY, "s.g") == 1
    table.repair()
    assert files_read(opened(table), FAR_AWAY, "s.g") == 0
    assert files_read(opened(table), AT_THE_TOP, "s.g") == 1


def test_a_geometry_box_of_another_writer_is_still_used(tmp_path):
    table = GeoTable(tmp_path / "t", field("id", "long"), field("g", "geometry(OGC:CRS84)"))
    table.file("a.parquet", {"id": [1], "g": wkb(LINE)}, VERTICES)
    assert files_read(opened(table), AT_THE_TOP) == 0


def test_a_mark_in_a_commit_that_is_read_line_by_line_counts(tmp_path):
    table = foreign_table(tmp_path / "t")
    table.repair()
    action = the_add(table, 2)
    # A member before the action sends the whole commit the slow way.
    (table.log / f"{2:020}.json").write_text(json.dumps({"note": 1, "add": action}) + "\n")
    assert files_read(opened(table), FAR_AWAY) == 0


COLUMNS = [column(1, "id", "long"), column(2, "g", "geography(OGC:CRS84, spherical)")]


def entry(name: str, **more: Any) -> FileEntry:
    return FileEntry(name, rows=1, lower={2: xy(0, 60)}, upper={2: xy(90, 60)}, nulls={2: 0}, **more)


def with_summary(path: Path, snapshot_id: int, value: str) -> None:
    """Put the mark into the summary of a snapshot."""
    metadata = json.loads(path.read_text())
    (snapshot,) = [candidate for candidate in metadata["snapshots"] if candidate["snapshot-id"] == snapshot_id]
    snapshot["summary"][EDGES] = value
    path.write_text(json.dumps(metadata))


def names_read(folder: Path) -> list[str]:
    kept = gl.open(str(folder)).explain(st_intersects("g", FAR_AWAY)).kept
    return [path.rpartition("/")[2] for path in kept["path"].to_pylist()]


def test_an_iceberg_box_of_another_writer_skips_no_file_and_says_why(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS, [entry("a")], version=3)
    table = gl.open(str(tmp_path))
    for window in (AT_THE_TOP, FAR_AWAY):
        assert table.explain(st_intersects("g", window)).details() == {REASON: 1}
    assert [finding.scope.column for finding in table.check() if finding.rule == "bounds.untrusted"] == ["g"]


def test_files_that_our_snapshot_added_are_believed(tmp_path):
    metadata_file = make_iceberg_table(tmp_path, COLUMNS, [entry("theirs")], [entry("ours")], version=3)
    assert names_read(tmp_path) == ["theirs", "ours"]
    with_summary(metadata_file, 1002, "2")
    assert names_read(tmp_path) == ["theirs"]
    with_summary(metadata_file, 1002, "3")
    assert names_read(tmp_path) == ["theirs", "ours"]


def test_files_of_others_that_our_append_merged_into_a_manifest_are_not_believed(tmp_path):
    merged = [entry("ours"), entry("theirs", status=EXISTING, snapshot_id=1001, sequence_number=1)]
    metadata_file = make_iceberg_table(tmp_path, COLUMNS, [], merged, version=3)
    with_summary(metadata_file, 1002, "2")
    assert names_read(tmp_path) == ["theirs"]


def test_all_files_of_a_manifest_that_our_repair_wrote_are_believed(tmp_path):
    make_iceberg_table(tmp_path, COLUMNS, [entry("repaired")], [entry("later")], version=3)
    (manifest,) = (tmp_path / "metadata").glob("1-*-m0.avro")
    content = manifest.read_bytes()
    options = {"inherits": Numbers(1001, 1), "version": 3, "snapshot_id": -1, "removed": (), "updated": {}}
    manifest.write_bytes(rewritten_manifest(content, **options, where="m", edges=[2]).data)
    assert names_read(tmp_path) == ["later"]
    # Whoever rewrites it next without saying so takes the mark away.
    manifest.write_bytes(rewritten_manifest(manifest.read_bytes(), **options, where="m").data)
    assert names_read(tmp_path) == ["repaired", "later"]
