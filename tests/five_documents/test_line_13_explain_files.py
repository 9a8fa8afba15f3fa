"""Line 13: `geolake explain --files` and `e.files` list each file with kept or skipped and the reason."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.cli.explain import print_files, print_json_with_files
from geolake_nb.model.box import Box
from geolake_nb.scan.explain import explain
from tests.scan.snapshots import files, geo, snapshot
from tests.small_tables import PLACES, make_delta, make_havasu, make_iceberg, make_parquet, shapes

MAKERS = {"delta": make_delta, "havasu": make_havasu, "iceberg": make_iceberg, "parquet": make_parquet}
WINDOW = shapely.box(0, 40, 20, 60)


def run(capsys, *words):
    code = main(words)
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def expected():
    """Whether a file is to be read: its points meet the window, says shapely."""
    boxes = [shapely.box(*shapely.total_bounds(shapes(point))) for point in PLACES]
    return [bool(box.intersects(WINDOW)) for box in boxes]


@pytest.fixture(params=MAKERS)
def table(request, tmp_path):
    return str(MAKERS[request.param](tmp_path / "t"))


def test_json_lists_each_file_with_kept_and_reason(table, capsys):
    answer = json.loads(run(capsys, "explain", table, "--box=0,40,20,60", "--json", "--files"))
    listed = sorted(answer["files"], key=lambda file: file["path"])
    assert [file["kept"] for file in listed] == expected()
    assert [file["reason"] for file in listed] == ["overlaps", "outside_window", "outside_window"]
    assert list(listed[0]) == ["path", "bytes", "rows", "kept", "reason", "detail"]
    whole = json.loads(run(capsys, "explain", table, "--box=0,40,20,60", "--json"))
    assert {key: value for key, value in answer.items() if key != "files"} == whole
    counts = {reason["reason"]: reason["files"] for reason in whole["reasons"]}
    assert counts == {"overlaps": 1, "outside_window": 2}


def test_text_lists_each_file_with_kept_and_reason(table, capsys):
    out = run(capsys, "explain", table, "--box=0,40,20,60", "--files")
    lines = [line.split() for line in out.partition("\nfiles:\n")[2].splitlines()]
    assert sorted(line[:2] for line in lines) == [
        ["read", "overlaps"],
        ["skipped", "outside_window"],
        ["skipped", "outside_window"],
    ]


def test_python_has_the_same_files(table, capsys):
    answer = gl.open(table).explain(Box(0, 40, 20, 60))
    shown = json.loads(run(capsys, "explain", table, "--box=0,40,20,60", "--json", "--files"))["files"]
    assert answer.files.to_pylist() == list(answer.iter_files()) == shown


def test_a_table_without_files_has_an_empty_list(capsys):
    print_json_with_files(explain(snapshot(files([], geom=[])), Box(0, 0, 1, 1)))
    assert json.loads(capsys.readouterr().out)["files"] == []


def test_the_detail_says_why_a_bound_cannot_be_used(capsys):
    broken = snapshot(files(["a"], geom=geo([None], problem=["xmin > xmax"])))
    print_json_with_files(explain(broken, Box(0, 0, 1, 1)))
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert (file["kept"], file["reason"], file["detail"]) == (True, "unusable_bounds", "xmin > xmax")


def test_a_path_cannot_act_on_the_terminal(capsys):
    print_files(explain(snapshot(files(["a\x1b[2J"], geom=[Box(0, 0, 1, 1)])), Box(0, 0, 1, 1)))
    assert "\x1b" not in capsys.readouterr().out


class Sink:
    """Counts what is written to it, and holds none of it."""

    def __init__(self):
        self.total = self.longest = self.lines = 0

    def write(self, text):
        self.total += len(text)
        self.longest = max(self.longest, len(text))
        self.lines += text.count("\n")
        return len(text)

    def flush(self):
        pass


def test_files_are_written_one_by_one():
    count = 60_000
    x = np.arange(count) % 360 - 180.0
    many = snapshot(files([f"part-{number:08}.parquet" for number in range(count)], geom=[Box(0, 0, 1, 1)] * count))
    sides = {"geom.xmin": x, "geom.xmax": x + 0.5}
    table = many.files.table
    for name, values in sides.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    explanation = explain(replace(many, files=replace(many.files, table=table)), Box(10, 0, 20, 1))
    sink = Sink()
    with contextlib.redirect_stdout(sink):
        print_json_with_files(explanation)
    assert sink.lines > count
    assert sink.total > 100 * count
    assert sink.longest < 20_000, "no write holds many files"
