"""The rewrite dialog, driven by its controls: it asks for what they say, and shows what Python says."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.api.plan import Report
from geolake_nb.jupyter.completion import offers
from geolake_nb.jupyter.drafts import RewriteDraft, cluster_columns
from geolake_nb.jupyter.map_view import GeolakeMap
from geolake_nb.jupyter.rewrite_dialog import RewriteDialog
from tests import small_tables
from tests.changes.rewrite_tables import FIELDS, PointTable
from tests.formats.delta.log_maker import field
from tests.jupyter.html_reading import text_of
from tests.jupyter.named_tables import Names, make_named
from tests.jupyter.shell import notebook
from tests.jupyter.test_collation_editor import every_widget, labelled

ARRAY = {"type": "array", "elementType": "string", "containsNull": True}


@pytest.fixture
def opened(tmp_path):
    return gl.open(small_tables.make_delta(tmp_path / "roads"))


@pytest.fixture
def scattered(tmp_path):
    """Four files that each cover the whole Earth."""
    table = PointTable(tmp_path / "scattered")
    for number in range(4):
        table.points(f"{number}.parquet", rows=300)
    table.made()
    return gl.open(table.folder)


def settings(plan):
    """What the commit will say that was asked for."""
    stored = plan.change.parameters
    return {
        key: json.loads(stored[key]) for key in ("clusterBy", "curve", "targetFileSize", "rowGroupRows", "predicate")
    }


def test_only_columns_that_have_an_order_are_offered(tmp_path):
    fields = (*FIELDS, field("tags", ARRAY), field("day", "date"), field("part", "string"))
    table = PointTable(tmp_path / "t", fields=fields, partitions=("part",)).made()
    opened = gl.open(table.folder)
    result = [
        cluster_column.path for cluster_column in cluster_columns(opened.schema, opened.snapshot.partition_columns)
    ]
    assert result == ["geom", "id", "day"]


def test_the_dialog_begins_with_the_geo_column(opened):
    dialog = opened.edit_rewrite()
    assert dialog.draft == RewriteDraft(("geom",))
    assert [value for _, value in dialog.columns.options] == ["geom", "id"]
    assert dialog.columns.options[0][0] == "geom  geometry(OGC:CRS84)"
    dialog.plan_button.click()
    assert settings(dialog.plan) == {
        "clusterBy": ["geom"],
        "curve": "hilbert",
        "targetFileSize": 128_000_000,
        "rowGroupRows": 65_536,
        "predicate": None,
    }


def test_columns_are_added_moved_and_removed(opened):
    dialog = opened.edit_rewrite()
    dialog.columns.value = "id"
    dialog.add_button.click()
    assert dialog.chosen.options == (("1. geom", "geom"), ("2. id", "id"))
    assert dialog.chosen.value == "id"
    dialog.up_button.click()
    assert dialog.draft.cluster_by == ("id", "geom")
    dialog.up_button.click()
    assert dialog.draft.cluster_by == ("id", "geom")
    dialog.down_button.click()
    assert dialog.draft.cluster_by == ("geom", "id")
    dialog.remove_button.click()
    dialog.remove_button.click()
    assert dialog.draft.cluster_by == ()
    dialog.remove_button.click()
    assert dialog.chosen.options == ()


def test_the_plan_says_what_the_controls_say(opened):
    dialog = opened.edit_rewrite()
    dialog.columns.value = "id"
    dialog.add_button.click()
    dialog.curve.value = "zorder"
    dialog.file_size.value = "2MiB"
    dialog.group_rows.value = 1000
    dialog.plan_button.click()
    assert settings(dialog.plan) == {
        "clusterBy": ["geom", "id"],
        "curve": "zorder",
        "targetFileSize": 2 * 1024**2,
        "rowGroupRows": 1000,
        "predicate": None,
    }
    assert dialog.plan.hash in text_of(dialog.plan_area.box.children[0].value)
    dialog.curve.value = "hilbert"
    assert dialog.plan is None


def test_what_cannot_be_planned_is_shown_and_not_raised(opened):
    dialog = opened.edit_rewrite()
    dialog.file_size.value = "<b>big</b>"
    dialog.plan_button.click()
    assert "'<b>big</b>' is not a valid file size; write one such as 128MB" in text_of(dialog.status.value)
    assert dialog.plan is None
    dialog.file_size.value = "1MB"
    dialog.group_rows.value = -1
    dialog.preview_button.click()
    assert "a row group has 1 to 1,048,576 rows" in text_of(dialog.status.value)


def test_a_filter_takes_files_of_partitions_and_of_places(tmp_path):
    fields = (*FIELDS, field("part", "string"))
    table = PointTable(tmp_path / "t", fields=fields, partitions=("part",))
    for part in "ab":
        table.points(f"part={part}/0.parquet", rows=50, partitionValues={"part": part})
    dialog = gl.open(table.made().folder).edit_rewrite()
    dialog.where.value = "part = 'a'"
    dialog.plan_button.click()
    assert dialog.plan.change.reads.files == 1
    assert settings(dialog.plan)["predicate"] == "part = 'a'"
    dialog.where.value = "POLYGON ((-1 -1, 1 -1, 1 1, -1 -1))"
    dialog.plan_button.click()
    assert dialog.plan.change.reads.files == 2


def test_a_preview_is_two_maps_of_the_files(scattered):
    dialog = scattered.edit_rewrite()
    dialog.file_size.value = "4KB"
    dialog.preview_button.click()
    assert dialog.status.value == ""
    # Every file covers about the Earth, so about every window reads all of them.
    assert dialog.preview.before.files_read > 0.98
    assert dialog.preview.after.files_read < 0.5
    card, maps = dialog.preview_box.children
    assert f"before: a window reads {dialog.preview.before.bytes_read:.1%} of the bytes" in text_of(card.value)
    before, after = maps.children
    assert isinstance(before, GeolakeMap)
    assert (before.title, before.item_count) == ("before", 4)
    assert after.item_count == len(dialog.preview.after.files)
    assert (dialog.bar.value, dialog.bar.layout.display) == (dialog.bar.max, "none")
    dialog.remove_button.click()
    assert dialog.preview is None
    assert dialog.preview_box.children == ()


def test_apply_shows_progress_and_can_be_cancelled(opened, monkeypatch):
    dialog = opened.edit_rewrite()
    dialog.plan_button.click()
    view = dialog.plan_area.view

    def apply(*, on_progress, **_):
        on_progress(1, 4)
        assert (view.bar.value, view.bar.max, dialog.plan_area.is_running) == (250, 1000, True)
        # Neither another plan nor another control takes the running one away.
        dialog.plan_button.click()
        assert "a plan is being applied" in dialog.status.value
        dialog.curve.value = "zorder"
        assert dialog.plan_area.view is view
        view.cancel_button.click()
        on_progress(2, 4)

    monkeypatch.setattr(dialog.plan, "apply", apply)
    view.apply_button.click()
    view.wait(10)
    assert view.report is None
    assert "nothing was committed" in view.status.value


def test_the_dialog_goes_on_with_the_table_as_it_is_after_the_rewrite(opened, monkeypatch):
    dialog = opened.edit_rewrite()
    dialog.plan_button.click()
    view = dialog.plan_area.view

    def apply(**_):
        log = f"{opened.location}/_delta_log"
        with open(f"{log}/{2:020}.json", "w") as commit:
            commit.write(json.dumps({"commitInfo": {"operation": "WRITE"}}))
        return Report("rewrite", opened.location, 2, "", (), {}, 0.1)

    monkeypatch.setattr(dialog.plan, "apply", apply)
    view.apply_button.click()
    view.wait(10)
    assert view.report.version == dialog.table.version == 2
    assert "Done." in view.status.value


def test_every_control_has_a_label_and_a_name(opened):
    dialog = opened.edit_rewrite()
    controls = [widget for widget in every_widget(dialog.box) if hasattr(widget, "description") and labelled(widget)]
    assert len(controls) >= 12
    assert all(control.description for control in controls)
    assert all(any(name.startswith("geolake-") for name in control._dom_classes) for control in controls)


def test_a_hostile_name_is_one_line(tmp_path):
    dialog = gl.open(make_named(tmp_path, Names("\x1b[31m\n<img src=x onerror=alert(1)>"))).edit_rewrite()
    assert dialog.columns.options
    assert all(label.isprintable() for label, _ in (*dialog.columns.options, *dialog.chosen.options))


def test_a_terminal_gets_a_text(opened):
    shown = opened.edit_rewrite()._repr_mimebundle_()["text/plain"]
    assert shown.startswith(f"RewriteDialog({opened.location!r}, by geom along hilbert)")
    assert "t.plan_rewrite" in shown


def test_the_magic_opens_it_with_the_options_of_the_line(opened, capsys):
    with notebook(capsys) as book:
        book.shell.user_ns["t"] = opened
        assert book.value("%geolake rewrite t --edit").draft == RewriteDraft(("geom",))
        dialog = book.value("%geolake rewrite t --cluster id --curve zorder --file-size 1MB --row-group-rows 9 --edit")
        assert isinstance(dialog, RewriteDialog)
        assert dialog.draft == RewriteDraft(("id",), "zorder", "1MB", 9)
        assert (dialog.curve.value, dialog.file_size.value, dialog.group_rows.value) == ("zorder", "1MB", 9)
        assert "leave one of them out" in book.complaint("%geolake rewrite t --edit --apply")
        assert offers("%geolake rewrite t --ed", 0, {}) == ("--ed", ["--edit"])
