"""The history of a Parquet dataset, the files that it keeps for undo, and the preview of a rewrite."""

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
from geolake_nb.formats.parquet_folder.commit import SetChange, action, commit_set
from geolake_nb.formats.parquet_folder.journal import begin_change
from geolake_nb.storage.storage import Storage
from tests.formats.parquet_sets import GEO, contents, make_set, seen


def swap(folder, name: str, by: str, transaction: str) -> None:
    """Replace a file by one with the same rows under another name, as a rewrite does."""
    from geolake_nb.formats.parquet_folder.file_changes import FileState

    storage = Storage.at(str(folder))
    waiting = f"_geolake/new/{by}"
    (folder / waiting).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / name, folder / waiting)
    put = {"path": by, "from": waiting, "bytes": (folder / waiting).stat().st_size}
    actions = [action("take", FileState.now(storage, name).to_dict()), action("put", put)]
    commit_set(storage, SetChange(transaction, "rewrite", actions, {"clusterBy": "geom"}, {"files_removed": 1}))


def test_the_history_reports_what_was_changed_when_and_in_how_many_files(tmp_path):
    folder = make_set(tmp_path / "set")
    assert gl.open(folder).history() == []
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    gl.open(folder).plan_repair().apply()
    swap(folder, "0.parquet", "n.parquet", "aa")
    gl.open(folder).plan_undo().apply()
    entries = gl.open(folder).history()
    assert [(entry.version, entry.operation, entry.parent) for entry in entries] == [
        (3, "undo", 2), (2, "rewrite", 1), (1, "repair", None)
    ]  # fmt: skip
    assert [entry.details["files"] for entry in entries] == [
        {"footers": 0, "taken": 1, "put": 1},
        {"footers": 0, "taken": 1, "put": 1},
        {"footers": 3, "taken": 0, "put": 0},
    ]
    assert entries[1].details["metrics"] == {"files_removed": 1}
    assert entries[1].details["parameters"] == {"clusterBy": "geom"}
    assert all(before <= entry.timestamp <= dt.datetime.now(dt.UTC) for entry in entries)
    assert [entry.version for entry in gl.open(folder).history(newest=1)] == [3]
    # A file of the dataset reports its own changes.
    assert [entry.version for entry in gl.open(folder / "1.parquet").history()] == [1]


def test_an_interrupted_change_is_incomplete_in_the_history(tmp_path):
    folder = make_set(tmp_path / "set")
    storage = Storage.at(str(folder))
    begin_change(storage, 1, transaction="bb", verb="rewrite", steps=(), parameters={}, metrics={})
    assert [entry.operation for entry in gl.open(folder).history()] == ["rewrite (incomplete)"]


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
    files = contents(folder)
    kept = [path for path in (folder / "_geolake").rglob("*") if path.is_file() and "changes" not in path.parts]
    plan = gl.open(folder).plan_forget()
    assert (plan.change.metrics["files_forgotten"], len(plan.change.actions)) == (len(kept), 3)
    assert plan.change.metrics["bytes_forgotten"] == sum(path.stat().st_size for path in kept)
    with pytest.raises(RefusedError, match="confirm with consent='forget'"):
        plan.apply()
    assert all(path.exists() for path in kept)

    # Up to a change first: the later one can still be undone.
    words = ["undo", str(folder), "--forget", "--undo-version", "2"]
    assert main(words) == 0
    assert "The undo data of 2 changes up to 2 is removed" in capsys.readouterr().out
    assert main([*words, "--apply", "--consent", "forget"]) == 0
    with pytest.raises(RefusedError, match="the file that the change removed is no longer kept"):
        gl.open(folder).plan_undo(2)
    with pytest.raises(RefusedError, match="the footer that the change replaced is no longer kept"):
        gl.open(folder).plan_undo(1)
    with pytest.raises(RefusedError, match="change 4 removed the undo data"):
        gl.open(folder).plan_undo(4)
    assert gl.open(folder).plan_undo().change.parameters == {"version": "3"}

    gl.open(folder).plan_forget().apply(consent="forget")
    assert not [path for path in (folder / "_geolake").rglob("*") if path.is_file() and "changes" not in path.parts]
    assert (contents(folder), seen(folder)) == (files, rows)
    assert gl.open(folder).plan_forget().is_empty
    assert [entry.operation for entry in gl.open(folder).history()] == [
        "forget",
        "forget",
        "rewrite",
        "rewrite",
        "repair",
    ]
    with pytest.raises(VersionError, match="there is no change 9 to forget; there are: 1, 2, 3, 4, 5"):
        gl.open(folder).plan_forget(9)


def test_an_interrupted_change_keeps_all_its_files(tmp_path):
    folder = make_set(tmp_path / "set")
    swap(folder, "0.parquet", "n.parquet", "aa")
    begin_change(Storage.at(str(folder)), 2, transaction="bb", verb="rewrite", steps=(), parameters={}, metrics={})
    assert "Change 2 (rewrite) was interrupted" in str(gl.open(folder).plan_forget())


def test_a_journal_that_names_another_folder_removes_nothing(tmp_path):
    folder = make_set(tmp_path / "set")
    swap(folder, "0.parquet", "n.parquet", "aa")
    entry = folder / "_geolake" / "changes" / "00000001.json"
    for name in ("..", "../..", "changes", "new", ""):
        entry.write_text(json.dumps({**json.loads(entry.read_text()), "transaction": name}))
        with pytest.raises(CorruptTableError, match="points outside of its folder"):
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
def test_a_rewrite_of_a_dataset_is_previewed(tmp_path, partitioned):
    folder = scattered(tmp_path / "set", partitioned=partitioned)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    plan = gl.open(folder).plan_rewrite(cluster_by="geom", target_file_size=size // 16)
    forecast = plan.preview(windows=50)
    assert forecast.before.files_read > 0.99
    assert (forecast.before.overlap.mean, forecast.sampled_rows) == (8, 4000)
    assert len(forecast.after.files) in (16, 17, 18)
    assert forecast.after.files_read < 0.3
    points = np.concatenate(
        [shapely.from_wkb(pq.read_table(path)["geom"].to_numpy()) for path in folder.rglob("*.parquet")]
    )
    boxes = forecast.after.files.box_array("geom").storage.to_pylist()
    areas = [shapely.box(side["xmin"], side["ymin"], side["xmax"], side["ymax"]) for side in boxes]
    assert shapely.intersects(shapely.union_all(areas), points).all()
    windows = [shapely.box(item.xmin, item.ymin, item.xmax, item.ymax) for item in forecast.windows]
    assert forecast.after.files_read == pytest.approx(
        np.mean([np.mean(shapely.intersects(areas, window)) for window in windows])
    )
    if partitioned:
        part = gl.open(folder).plan_rewrite(cluster_by="geom", where="day = 1").preview(windows=5)
        stay = [path for path in part.after.files.table["path"].to_pylist() if not path.startswith("new")]
        assert sorted(stay) == [f"day=0/{number}.parquet" for number in (0, 2, 4, 6)]


def test_a_rewrite_of_native_coordinates_and_of_a_single_file_is_previewed(tmp_path, corpus):
    source = corpus / "geoparquet/test_data_1.1.0/data-point-encoding_native.parquet"
    shutil.copy(source, tmp_path / "a.parquet")
    name = next(iter(json.loads(pq.read_metadata(source).metadata[b"geo"])["columns"]))
    forecast = gl.open(tmp_path / "a.parquet").plan_rewrite(cluster_by=name).preview(windows=3)
    assert (forecast.column, len(forecast.after.files), forecast.sampled_rows) == (
        name,
        1,
        pq.read_metadata(source).num_rows,
    )


def test_only_a_rewrite_is_previewed(tmp_path):
    folder = scattered(tmp_path / "set")
    with pytest.raises(RefusedError, match="only a rewrite that has something to do can be previewed"):
        gl.open(folder).plan_convert(str(tmp_path / "t")).preview()
