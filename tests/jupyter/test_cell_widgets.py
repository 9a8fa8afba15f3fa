"""Widgets are open for as long as a cell shows them, in a real kernel that is told which cell it runs."""

from __future__ import annotations

import pytest

from tests import small_tables
from tests.heavy.long_use import running_kernel

FIRST = """
import ipywidgets
from IPython.display import clear_output, display
import geolake_nb as gl
t = gl.open({folder!r})
def live(*kinds):
    widgets = [widget for widget in ipywidgets.widgets.widget._instances.values() if type(widget).__name__ in kinds]
    return sorted(getattr(widget, "title", "") for widget in widgets)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = small_tables.make_delta(tmp_path_factory.mktemp("cells") / "roads")
    with running_kernel() as running:
        running.run("first", FIRST.format(folder=str(folder)))
        yield running


@pytest.fixture(autouse=True)
def _closed(kernel):
    kernel.run("first", "ipywidgets.Widget.close_all()")


def live(kernel, *kinds: str) -> list[str]:
    return eval(kernel.run("look", f"print(live(*{kinds!r}))"))


def test_a_cell_that_runs_again_closes_what_it_showed(kernel):
    for _ in range(3):
        kernel.run("map", "t.map(title='m')")
        kernel.run("explain", "t.explain(gl.Box(0, 40, 20, 60))")
        kernel.run("pair", "t.map(title='a').beside(t.map(title='b'))")
    assert live(kernel, "GeolakeMap") == ["a", "b", "m"]
    assert len(live(kernel, "Button")) == 1
    assert len(live(kernel, "MapPair", "Link")) == 2
    assert len(live(kernel, "Layout")) == 7
    for cell in ("map", "explain", "pair"):
        kernel.run(cell, "1")
    assert kernel.run("look", "print(len(ipywidgets.widgets.widget._instances))") == "0\n"


def test_a_map_that_another_cell_shows_stays_open(kernel):
    kernel.run("made", "m = t.map(title='old')\nm")
    kernel.run("shown", "m")
    kernel.run("made", "m = t.map(title='new')\nm")
    assert live(kernel, "GeolakeMap") == ["new", "old"]
    kernel.run("shown", "m")
    assert live(kernel, "GeolakeMap") == ["new"]


def test_a_map_inside_a_box_of_the_user_stays_open(kernel):
    kernel.run("made", "m = t.map(title='inside')\nm")
    kernel.run("boxed", "box = ipywidgets.VBox([m])\nbox")
    kernel.run("made", "1")
    assert live(kernel, "GeolakeMap") == ["inside"]


def test_a_map_that_runs_again_is_the_same_to_the_browser(kernel):
    kernel.run("made", "m = t.map()")
    kernel.run("shown", "m")
    before = kernel.run("look", "print(m.model_id)")
    kernel.run("shown", "m")
    assert kernel.run("look", "print(m.model_id)") == before


def test_a_closed_map_with_a_name_is_opened_again(kernel):
    kernel.run("made", "m = t.map(title='kept')\nm")
    kernel.run("made", "1")
    assert live(kernel, "GeolakeMap") == []
    kernel.run("used", "m.window = [5, 45, 20, 60]\nassert m.verdict['files_read'] == 1")
    kernel.run("shown", "m")
    assert live(kernel, "GeolakeMap") == ["kept"]
    kernel.run("look", "assert m.get_state()['window'] == [5, 45, 20, 60] and m.layout.comm is not None")


def test_a_cleared_output_closes_what_was_in_it(kernel):
    kernel.run("loop", "for number in range(3):\n    clear_output(wait=True)\n    display(t.map(title=str(number)))")
    assert live(kernel, "GeolakeMap") == ["2"]


def test_an_output_widget_that_is_cleared_leaves_the_cell_alone(kernel):
    kernel.run(
        "captured", "display(t.map(title='beside'))\nout = ipywidgets.Output()\nwith out:\n    clear_output()\nout"
    )
    assert live(kernel, "GeolakeMap") == ["beside"]


def test_the_map_of_an_explanation_is_open_while_it_is_seen(kernel):
    kernel.run("view", "from geolake_nb.jupyter.views import ExplanationView\n"
                       "view = ExplanationView(t.explain(gl.Box(0, 40, 20, 60)))\nview.button.click()")  # fmt: skip
    assert len(live(kernel, "GeolakeMap")) == 1
    kernel.run("view", "view.button.click()")
    assert live(kernel, "GeolakeMap") == []
    kernel.run("view", "view.button.click()\nassert view.map.comm is not None and view.map in view.box.children")


def test_a_shell_that_names_no_cell_keeps_them(kernel):
    for _ in range(2):
        kernel.run(None, "t.map(title='m')")
    assert live(kernel, "GeolakeMap") == ["m", "m"]
