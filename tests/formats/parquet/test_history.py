"""What a set of Parquet files tells of its changes, what it keeps of them, and what a rewrite would do to it."""

from __future__ import annotations

import datetime as dt
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import CorruptTableError, RefusedError, VersionError
from geolake_nb.formats.parquet.journal import begin_change
from geolake_nb.formats.parquet.replace import SetChange, action, commit_set
from geolake_nb.formats.storage import Storage
from tests.formats.parquet_sets import GEO, contents, make_set, seen


def swap(folder, name: str, by: str, transaction: str) -> None:
    """Put the same rows in the place of a file, as a rewrite does, under another name."""
    from geolake_nb.formats.parquet.footer_change import FileState

    storage = Storage.at(str(folder))
    waiting = f"_geolake/new/{by}"
    (folder / waiting).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / name, folder / waiting)
    put = {"path": by, "from": waiting, "bytes": (folder / waiting).stat().st_size}
    actions = [action("take", FileState.now(storage, name).to_dict()), action("put", put)]
    commit_set(storage, SetChange(transaction, "rewrite", actions, {"clusterBy": "geom"}, {"files_removed": 1}))


def test_the_history_tells_what_was_changed_when_and_in_how_many_files(tmp_path):
    folder = make_set(tmp_path / "set")
    assert gl.open(folder).history() == []
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    gl.open(folder).plan_repair().apply()
    swap(folder, "0.parquet", "n.parquet", "aa")
    gl.open(folder).plan_undo().apply()
    found = gl.open(folder).history()
    assert [(one.version, one.operation, one.parent) for one in found] == [
        (3, "undo", 2), (2, "rewrite", 1), (1, "repair", None)
    ]  # fmt: skip
    assert [one.details["files"] for one in found] == [
        {"footers": 0, "taken": 1, "put": 1},
        {"footers": 0, "taken": 1, "put": 1},
        {"footers": 3, "taken": 0, "put": 0},
    ]
    assert found[1].details["metrics"] == {"files_removed": 1}
    assert found[1].details["parameters"] == {"clusterBy": "geom"}
    assert all(before <= one.timestamp <= dt.datetime.now(dt.UTC) for one in found)
    assert [one.version for one in gl.open(folder).history(newest=1)] == [3]
    # A file of the set tells of its own changes.
    assert [one.version for one in gl.open(folder / "1.parquet").history()] == [1]


def test_a_change_that_was_cut_short_is_in_the_history_as_that(tmp_path):
    folder = make_set(tmp_path / "set")
    storage = Storage.at(str(folder))
    begin_change(storage, 1, transaction="bb", verb="rewrite", steps=(), parameters={}, metrics={})
    assert [one.operation for one in gl.open(folder).history()] == ["rewrite (cut short)"]


def test_the_newest_state_of_a_set_is_read_again(tmp_path):
    folder = make_set(tmp_path / "set")
    opened = gl.open(folder)
    swap(folder, "0.parquet", "n.parquet", "aa")
    assert "n.parquet" in opened.newest().files.table["path"].to_pylist()


def test_what_is_kept_for_undo_is_forgotten_with_consent(tmp_path, capsys):
    folder = make_set(tmp_path / "set")
    rows = seen(folder)
    gl.open(folder).plan_repair().apply()
    swap(folder, "0.parquet", "n.parquet", "aa")
    swap(folder, "1.parquet", "m.parquet", "bb")
    held = contents(folder)
    kept = [path for path in (folder / "_geolake").rglob("*") if path.is_file() and "changes" not in path.parts]
    plan = gl.open(folder).plan_forget()
    assert (plan.change.metrics["files_forgotten"], len(plan.change.actions)) == (len(kept), 3)
    assert plan.change.metrics["bytes_forgotten"] == sum(path.stat().st_size for path in kept)
    with pytest.raises(RefusedError, match="agree with consent='forget'"):
        plan.apply()
    assert all(path.exists() for path in kept)

    # Up to a change first: the later one can still be taken back.
    words = ["undo", str(folder), "--forget", "--undo-version", "2"]
    assert main(words) == 0
    assert "What is kept to take back 2 changes up to 2 is removed" in capsys.readouterr().out
    assert main([*words, "--apply", "--consent", "forget"]) == 0
    with pytest.raises(RefusedError, match="the file that the change took away is no longer kept"):
        gl.open(folder).plan_undo(2)
    with pytest.raises(RefusedError, match="the footer that the change replaced is no longer kept"):
        gl.open(folder).plan_undo(1)
    with pytest.raises(RefusedError, match="change 4 removed what was kept for undo"):
        gl.open(folder).plan_undo(4)
    assert gl.open(folder).plan_undo().change.parameters == {"version": "3"}

    gl.open(folder).plan_forget().apply(consent="forget")
    assert not [path for path in (folder / "_geolake").rglob("*") if path.is_file() and "changes" not in path.parts]
    assert (contents(folder), seen(folder)) == (held, rows)
    assert gl.open(folder).plan_forget().is_empty
    assert [one.operation for one in gl.open(folder).history()] == ["forget", "forget", "rewrite", "rewrite", "repair"]
    with pytest.raises(VersionError, match="there is no change 9 to forget; there are: 1, 2, 3, 4, 5"):
        gl.open(folder).plan_forget(9)


def test_a_change_that_was_cut_short_keeps_all_that_it_has(tmp_path):
    folder = make_set(tmp_path / "set")
    swap(folder, "0.parquet", "n.parquet", "aa")
    begin_change(Storage.at(str(folder)), 2, transaction="bb", verb="rewrite", steps=(), parameters={}, metrics={})
    assert "Change 2 (rewrite) was cut short" in str(gl.open(folder).plan_forget())


def test_a_journal_that_names_another_folder_removes_nothing(tmp_path):
    folder = make_set(tmp_path / "set")
    swap(folder, "0.parquet", "n.parquet", "aa")
    entry = folder / "_geolake" / "changes" / "00000001.json"
    for name in ("..", "../..", "changes", "new", ""):
        entry.write_text(json.dumps({**json.loads(entry.read_text()), "transaction": name}))
        with pytest.raises(CorruptTableError, match="leads out of its folder"):
            gl.open(folder).plan_forget()


# ---- preview ----


def scattered(folder, *, partitioned: bool = False):
    """Points all over the Earth in each of eight files, as GeoParquet."""
    draw = np.random.default_rng(1)
    folder.mkdir()
    for number in range(8):
        shapes = shapely.points(draw.uniform(-170, 170, 500), draw.uniform(-80, 80, 500))
        table = pa.table({"id": range(500), "geom": pa.array(shapely.to_wkb(shapes), pa.binary())})
        there = folder / f"day={number % 2}" if partitioned else folder
        there.mkdir(exist_ok=True)
        pq.write_table(table.replace_schema_metadata({"geo": json.dumps(GEO)}), there / f"{number}.parquet")
    gl.open(folder).plan_repair().apply()
    return folder


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_rewrite_of_a_set_is_foretold(tmp_path, partitioned):
    folder = scattered(tmp_path / "set", partitioned=partitioned)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    plan = gl.open(folder).plan_rewrite(cluster_by="geom", target_file_size=size // 16)
    found = plan.preview(windows=50)
    assert found.before.files_read > 0.99
    assert (found.before.overlap.mean, found.sampled_rows) == (8, 4000)
    assert len(found.after.files) in (16, 17, 18)
    assert found.after.files_read < 0.3
    points = np.concatenate(
        [shapely.from_wkb(pq.read_table(path)["geom"].to_numpy()) for path in folder.rglob("*.parquet")]
    )
    boxes = found.after.files.box_array("geom").storage.to_pylist()
    areas = [shapely.box(one["xmin"], one["ymin"], one["xmax"], one["ymax"]) for one in boxes]
    assert shapely.intersects(shapely.union_all(areas), points).all()
    windows = [shapely.box(one.xmin, one.ymin, one.xmax, one.ymax) for one in found.windows]
    assert found.after.files_read == pytest.approx(
        np.mean([np.mean(shapely.intersects(areas, one)) for one in windows])
    )
    if partitioned:
        part = gl.open(folder).plan_rewrite(cluster_by="geom", where="day = 1").preview(windows=5)
        stay = [path for path in part.after.files.table["path"].to_pylist() if not path.startswith("new")]
        assert sorted(stay) == [f"day=0/{number}.parquet" for number in (0, 2, 4, 6)]


def test_a_set_of_coordinates_and_a_single_file_are_foretold(tmp_path, corpus):
    source = corpus / "geoparquet/test_data_1.1.0/data-point-encoding_native.parquet"
    shutil.copy(source, tmp_path / "a.parquet")
    name = next(iter(json.loads(pq.read_metadata(source).metadata[b"geo"])["columns"]))
    found = gl.open(tmp_path / "a.parquet").plan_rewrite(cluster_by=name).preview(windows=3)
    assert (found.column, len(found.after.files), found.sampled_rows) == (name, 1, pq.read_metadata(source).num_rows)


def test_only_a_rewrite_is_foretold(tmp_path):
    folder = scattered(tmp_path / "set")
    with pytest.raises(RefusedError, match="only a rewrite that has something to do can be previewed"):
        gl.open(folder).plan_convert(str(tmp_path / "t")).preview()
