"""Parquet files become a Delta table where they lie: pages stay, statistics hold, and undo restores the folder."""

from __future__ import annotations

import datetime as dt
import json
import math

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import ConflictError, GeolakeError, RefusedError, SchemaError
from tests.formats.parquet_sets import contents, make_set, points, seen
from tests.formats.published_folders import kill_while_publishing, kill_while_undoing, pages

FIRST = "_delta_log/00000000000000000000.json"


def adds(folder):
    """The `add` actions of the first version, by path, with their statistics."""
    lines = [json.loads(line) for line in (folder / FIRST).read_text().splitlines()]
    files = [line["add"] for line in lines if "add" in line]
    return {file["path"]: file | {"stats": json.loads(file["stats"])} for file in files}


def plan_types(geo):
    """The types to declare where the files do not."""
    return {"geom": "geometry(OGC:CRS84)"} if geo else {}


def test_a_folder_becomes_a_table_with_its_pages_byte_for_byte_and_undo_restores_it(tmp_path):
    folder = make_set(tmp_path / "t")
    before, old_pages = contents(folder), {path.name: pages(path) for path in folder.glob("*.parquet")}
    plan = gl.open(str(folder)).plan_publish()
    assert contents(folder) == before
    report = plan.apply()
    assert report.version == 0
    assert {path.name: pages(path) for path in folder.glob("*.parquet")} == old_pages
    assert contents(folder) != before
    files = adds(folder)
    assert {name: file["size"] for name, file in files.items()} == {
        path.name: path.stat().st_size for path in folder.glob("*.parquet")
    }
    for name, file in files.items():
        rows = pq.read_table(folder / name, arrow_extensions_enabled=False)
        box = shapely.bounds(shapely.multipoints(shapely.from_wkb(np.array(rows["geom"].to_pylist(), object))))
        low, high = (shapely.from_wkt(file["stats"][end]["geom"]) for end in ("minValues", "maxValues"))
        assert (low.x, low.y, high.x, high.y) == tuple(box)
        assert file["stats"]["minValues"]["id"] == min(rows["id"].to_pylist())
        assert file["stats"]["maxValues"]["id"] == max(rows["id"].to_pylist())
        assert file["stats"]["nullCount"] == {"id": 0, "geom": 0}
    table = gl.open(str(folder))
    assert not list(table.check())
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(30))
    assert plan.apply().already_applied
    report.undo()
    assert contents(folder) == before
    assert not (folder / "_delta_log").exists()
    gl.publish(folder)
    assert [file["stats"] for file in adds(folder).values()] == [file["stats"] for file in files.values()]


def test_deltalake_reads_a_published_folder_without_geo_columns(tmp_path):
    expected = []
    for day, place in (("2024-05-01", "a b"), ("2024-05-02", "ä%/ü"), ("2024-05-03", None)):
        name = "__HIVE_DEFAULT_PARTITION__" if place is None else place.replace("%", "%25").replace("/", "%2F")
        inside = tmp_path / "t" / f"day={day}" / f"place={name}"
        inside.mkdir(parents=True)
        columns = {
            "n": pa.array([1, None, 3], pa.int32()),
            "word": ["x" * 100, "y", None],
            "price": [1.5, 2.5, math.nan],
            "at": pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 123_456)] * 3, pa.timestamp("us", "UTC")),
        }
        if day != "2024-05-02":  # a column may be missing, and others come in another order
            columns = dict(reversed(columns.items()))
            columns["cost"] = pa.array([None, 1, 2], pa.int64())
        pq.write_table(pa.table(columns), inside / "a.parquet")
        rows = [
            dict(zip(columns, row, strict=True)) for row in zip(*pa.table(columns).to_pydict().values(), strict=True)
        ]
        expected += [{"cost": None, **row, "day": dt.date.fromisoformat(day), "place": place} for row in rows]
    before = contents(tmp_path / "t")
    report = gl.publish(tmp_path / "t")
    assert contents(tmp_path / "t") == before, "no footer lacks anything"
    table = deltalake.DeltaTable(str(tmp_path / "t"))
    rows = table.to_pyarrow_table().to_pylist()

    def keyed(rows):
        return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)

    assert keyed(rows) == keyed(expected)
    [first, *_] = adds(tmp_path / "t").values()
    stats = first["stats"]
    assert stats["minValues"]["n"] == 1
    assert stats["maxValues"]["n"] == 3
    assert "price" not in stats["maxValues"], "NaN is greater, and the footer leaves it out"
    assert stats["minValues"]["price"] == 1.5
    assert stats["maxValues"]["word"] >= "y"
    assert stats["nullCount"]["n"] == 1
    assert not {"day", "place"} & {name for part in ("minValues", "nullCount") for name in stats[part]}
    report.undo()
    assert contents(tmp_path / "t") == before


def test_with_leave_files_nothing_changes_and_the_plan_says_what_is_lacking(tmp_path):
    folder = make_set(tmp_path / "t")
    before = contents(folder)
    plan = gl.open(str(folder)).plan_publish(leave_files=True)
    assert "Delta requires the geo type" in str(plan).replace("\n", " ")
    report = plan.apply()
    assert contents(folder) == before
    assert gl.open(str(folder)).scan(
        "id BETWEEN 5 AND 7 AND ST_Intersects(geom, 'POLYGON((4 -90, 8 -90, 8 0, 4 0, 4 -90))')"
    ).to_arrow()["id"].to_pylist() == [5, 6, 7]
    assert adds(folder)["1.parquet"]["stats"]["maxValues"]["geom"] == "POINT(19 -10)"
    report.undo()
    assert contents(folder) == before


def test_what_cannot_be_a_table_as_it_is_is_refused_with_the_name_of_the_file(tmp_path):
    def folder(name, *tables):
        inside = tmp_path / name
        inside.mkdir()
        for number, table in enumerate(tables):
            path = inside / f"{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(pa.table(table), path)
        return str(inside)

    wider = folder("wider", {"n": pa.array([1], pa.int32())}, {"n": pa.array([1], pa.int64())})
    with pytest.raises(SchemaError, match=r"1\.parquet, column n: the type is int64, not int32"):
        gl.publish(wider)
    with pytest.raises(SchemaError, match="timestamp_ns"):
        gl.publish(folder("nanos", {"t": pa.array([1], pa.timestamp("ns"))}))
    ewkb = bytes.fromhex("0101000020E6100000000000000000F03F0000000000000040")
    with pytest.raises(RefusedError, match=r"0\.parquet, column g: values are EWKB"):
        gl.publish(folder("ewkb", {"g": [ewkb]}), columns={"g": "geometry(OGC:CRS84)"})
    with pytest.raises(RefusedError, match=r"0\.parquet, column g: 1 value cannot be read"):
        gl.publish(folder("bad", {"g": [b"no WKB"]}), columns={"g": "geometry(OGC:CRS84)"})
    both = tmp_path / "both" / "k=1"
    both.mkdir(parents=True)
    pq.write_table(pa.table({"k": [2], "n": [1]}), both / "a.parquet")
    with pytest.raises(RefusedError, match=r"k=1/a\.parquet: the file has a column 'k' too"):
        gl.publish(both.parent)
    inner = tmp_path / "outer"
    pq.write_table(pa.table({"n": [1]}), make_set(inner / "x") / "a.parquet")
    deltalake.write_deltalake(str(inner / "y"), pa.table({"n": [1]}))
    with pytest.raises(RefusedError, match="'y' is a table of its own"):
        gl.publish(inner)
    with pytest.raises(RefusedError, match="in place"):
        gl.publish(make_set(tmp_path / "other"), format="havasu")
    with pytest.raises(RefusedError, match="publish supports parquet tables"):
        gl.open(str(inner / "y")).plan_publish()
    assert not list(tmp_path.rglob("_geolake/changes/*.json"))


def test_a_file_that_changes_after_the_plan_is_a_conflict_and_makes_no_table(tmp_path):
    for name, geo in (("plain", False), ("geo", True)):
        folder = make_set(tmp_path / name, files=1)
        if not geo:
            pq.write_table(pa.table({"n": [1]}), folder / "0.parquet")
        plan = gl.open(str(folder)).plan_publish()
        pq.write_table(points(5, 3) if geo else pa.table({"n": [1, 2]}), folder / "0.parquet")
        with pytest.raises(ConflictError, match="changed"):
            plan.apply()
        assert not (folder / "_delta_log").exists()
        plan = gl.open(str(folder)).plan_publish(columns=plan_types(geo))
        assert plan.hash == gl.open(str(folder)).plan_publish(columns=plan_types(geo)).hash
        pq.write_table(pa.table({"n": [3]}), folder / "new.parquet")
        with pytest.raises(ConflictError, match=r"new\.parquet: the file was added"):
            plan.apply()
        assert not (folder / "_delta_log").exists()


def test_an_undo_is_undone(tmp_path):
    folder = make_set(tmp_path / "t", files=2)
    gl.publish(folder)
    made, log = contents(folder), (folder / FIRST).read_bytes()
    done = gl.open(str(folder)).plan_undo().apply()
    gl.open(str(folder)).plan_undo(done.version).apply()
    assert contents(folder) == made
    assert (folder / FIRST).read_bytes() == log
    assert gl.open(str(folder)).scan().count() == 20


def test_a_table_with_later_versions_stays(tmp_path):
    folder = make_set(tmp_path / "t", files=1)
    report = gl.publish(folder)
    undo = gl.open(str(folder)).plan_undo(0)
    second = (folder / FIRST).with_name(f"{1:020}.json")
    second.write_text('{"commitInfo":{"timestamp":1,"operation":"WRITE"}}\n')
    with pytest.raises(ConflictError, match="later versions"):
        undo.apply()
    with pytest.raises(RefusedError, match="version 1 came after version 0"):
        report.undo()
    assert gl.open(str(folder)).version == 1


def test_a_second_table_is_not_made_of_the_files(tmp_path):
    folder = make_set(tmp_path / "t", files=1)
    first, second = (gl.open(str(folder)).plan_publish() for _ in range(2))
    first.apply()
    with pytest.raises(ConflictError):
        second.apply()
    assert seen(folder) == list(range(10))
    assert gl.open(str(folder)).version == 0


def test_the_shell_plans_applies_and_undoes_it(tmp_path, capsys):
    folder = str(make_set(tmp_path / "t"))
    assert main(["convert", folder, "--in-place"]) == 0
    assert "become a Delta table where they lie" in capsys.readouterr().out
    assert main(["convert", folder, "--in-place", "--format", "delta", "--apply"]) == 0
    assert "3 files published" in capsys.readouterr().out
    assert main(["convert", folder, "--in-place"]) != 0
    assert "publish supports parquet tables" in capsys.readouterr().err
    assert main(["undo", folder, "--apply"]) == 0
    assert "1 table removed" in capsys.readouterr().out
    assert main(["convert", folder, "other", "--in-place"]) != 0
    assert main(["convert", folder, "other", "--leave-files"]) != 0


def publish(folder):
    gl.publish(folder)


def ids(folder):
    """The rows by the log alone where there is one; each listed file has to have the size that it states."""
    if not (folder / FIRST).exists():
        assert not any((folder / "_delta_log").glob("*.json"))
        return "files", seen(folder)
    rows = []
    for name, file in adds(folder).items():
        assert (folder / name).stat().st_size == file["size"]
        rows += pq.read_table(folder / name, columns=["id"])["id"].to_pylist()
    return "table", sorted(rows)


def test_a_kill_anywhere_leaves_the_files_or_the_whole_table(tmp_path):
    kill_while_publishing(tmp_path, publish, ids)


def test_a_kill_of_an_undo_leaves_the_whole_table_or_the_files(tmp_path):
    kill_while_undoing(tmp_path, publish, ids)


def test_a_folder_in_a_bucket_is_published_and_restored(s3, tmp_path):
    url = s3.upload(make_set(tmp_path / "t"), "lake", "published")
    before = s3.objects("lake", "published")
    report = gl.publish(url, storage_options=s3.options)
    table = gl.open(url, storage_options=s3.options)
    assert (table.version, table.scan().count(), len(table.check())) == (0, 30, 0)
    report.undo()
    after = s3.objects("lake", "published")
    assert {name: data for name, data in after.items() if "_geolake" not in name} == before


@pytest.mark.parametrize("path", ["0.parquet", f"x/{FIRST}", "_delta_log/00000000000000000001.json", f"../{FIRST}"])
@pytest.mark.parametrize("kind", ["create", "drop"])
def test_a_journal_creates_and_drops_nothing_but_the_first_entry(tmp_path, kind, path):
    folder = make_set(tmp_path / "t", files=1)
    gl.open(str(folder)).plan_repair().apply()
    old = contents(folder)
    entry = folder / "_geolake" / "changes" / "00000001.json"
    step = {kind: {"path": path, "from": "_geolake/x/log.json", "bytes": 1}}
    entry.write_text(json.dumps(json.loads(entry.read_text()) | {"steps": [step]}))
    entry.with_name("00000001.end.json").unlink()
    with pytest.raises(GeolakeError):
        gl.open(str(folder)).plan_repair()
    assert contents(folder) == old
    assert not (folder / "_delta_log").exists()
