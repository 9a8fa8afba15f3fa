"""What a map suggests: the repair of a table without bounds, step by step, and its newest version."""

from __future__ import annotations

import pytest

import geolake_nb as gl
from tests import small_tables


@pytest.fixture
def t(tmp_path):
    return gl.open(small_tables.make_delta(tmp_path / "roads", bounds=False))


def click(shown, action):
    shown._handle_custom_msg({"type": "step", "action": action}, [])
    shown._step.wait(60)
    return shown.step


def labels(shown):
    return [label for _, label in shown.step.get("actions", [])]


def test_an_empty_map_says_why_and_repairs_the_bounds_after_a_plan(t):
    shown = t.map(where=(5, 45, 12, 52))
    assert shown.step["text"] == "No file has bounds, so every query reads all 3 files"
    assert shown.step["command"] == f"%geolake repair {t.location}"
    assert (labels(shown), shown.step["is_central"]) == (["Plan repair"], True)
    plan = click(shown, "plan")
    assert labels(shown) == ["Apply", "Cancel"]
    assert plan["lines"][0].startswith("geom: 3 files without a bound")
    assert gl.open(t.location).version == 1, "a plan changes nothing"
    done = click(shown, "apply")
    assert (done["text"], labels(shown)) == ("Done: version 2", ["Undo", "Close"])
    assert done["lines"] == ["A query reads 33.3% of the bytes, 100.0% before."]
    assert (shown.snapshot.version, shown.verdict["files_read"], shown.notes["no_bounds"]) == (2, 1, 0)
    assert (click(shown, "close"), t.version) == ({}, 2)


def test_the_repair_can_be_cancelled_and_undone_on_the_map(t):
    shown = t.map()
    click(shown, "plan")
    assert click(shown, "close")["text"].startswith("No file has bounds")
    click(shown, "apply")
    assert gl.open(t.location).version == 1, "nothing is planned any more"
    click(shown, "plan")
    click(shown, "apply")
    click(shown, "undo")
    assert labels(shown) == ["Apply", "Cancel"]
    assert click(shown, "apply")["text"] == "Done: version 3"
    assert click(shown, "close")["text"].startswith("No file has bounds")


def test_a_map_of_an_older_version_offers_the_newest_and_keeps_its_window_and_colour(t):
    gl.open(t.location).plan_repair().apply()
    shown = t.map(color="bytes")
    shown.window = [5, 45, 12, 52]
    assert (shown.step["text"], labels(shown)) == ("Version 2 is newer", ["Refresh"])
    click(shown, "refresh")
    assert (shown.step, shown.snapshot.version, shown.color_by) == ({}, 2, "bytes")
    assert (shown.verdict["files_read"], shown.window) == (1, [5, 45, 12, 52])
    assert shown.verdict["sql"] == str(shown.explanation.where)


def test_an_error_of_a_step_is_a_text_on_the_map(t, monkeypatch):
    def fail(self, **_):
        raise gl.GeolakeError("the store does not answer\x1b")

    monkeypatch.setattr(gl.Table, "plan_repair", fail)
    shown = t.map()
    assert click(shown, "plan")["text"] == "the store does not answer\\x1b"
    assert (shown.step["is_problem"], labels(shown)) == (True, ["Close"])


def test_unknown_messages_and_maps_with_bounds_do_nothing(tmp_path):
    shown = gl.open(small_tables.make_delta(tmp_path / "roads")).map()
    assert shown.step == {}
    for message in ({"type": "step", "action": "drop"}, {"type": "step"}, "step", None):
        shown._handle_custom_msg(message, [])
    assert shown.step == {}


def test_the_slider_keeps_the_colour_and_the_selection(tmp_path):
    shown = gl.open(small_tables.make_delta(tmp_path / "roads")).map(versions=True, color="bytes")
    shown.color_by = "rows"
    shown.select([0, 2])
    shown.version = 0  # which has the first file alone
    assert (shown.color_by, shown.selected["path"].to_pylist()) == ("rows", ["part-0.parquet"])
    shown.version = 1
    assert (shown.color_by, shown.selected["path"].to_pylist()) == ("rows", ["part-0.parquet"])
