"""The runner: a canary shows that a request would be counted, and a failing cell is named."""

from __future__ import annotations

import nbformat.v4
import pytest

from tests.notebooks.running import Ran, execute

URLLIB = """
import urllib.request, urllib.error
for address in ("http://canary.invalid/python", "https://canary.invalid/python"):
    try:
        urllib.request.urlopen(address)
    except urllib.error.URLError as error:
        print(error)
"""
JVM = """
from pyspark.java_gateway import launch_gateway
gateway = launch_gateway()
for address in ("http://canary.invalid/java", "https://canary.invalid/java"):
    try:
        gateway.jvm.java.net.URL(address).openStream()
    except Exception as error:
        print("502" in str(error))
gateway.shutdown()
"""


def notebook(**cells):
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in cells.items()]
    return made


def test_a_request_of_the_kernel_or_of_its_jvm_is_refused_and_counted(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    ran, seen = execute(notebook(urllib=URLLIB, jvm=JVM), tmp_path / "canary.ipynb")
    assert [url for url in seen if "python" in url] == ["GET http://canary.invalid/python"]
    assert [url for url in seen if "java" in url] == ["GET http://canary.invalid/java"]
    assert seen.count("CONNECT canary.invalid:443") == 2
    assert ran.text("urllib").count("502") == 2
    assert ran.text("jvm") == "True\nTrue"
    assert "Picked up" not in ran.stderr().get("jvm", ""), "the settings of the JVM are not announced"


def test_outputs_are_read_by_the_id_of_their_cell(tmp_path):
    cells = {
        "printed": "print(1)\nprint(2)\n3",
        "shown": "from IPython.display import HTML\nHTML('<b>4</b>')",
        "held": "from ipywidgets import HTML, VBox\nVBox([VBox([HTML('<i>5</i>')]), HTML('<i>6</i>')])",
    }
    ran, seen = execute(notebook(**cells), tmp_path / "made" / "read.ipynb")
    assert seen == []
    assert ran.text("printed") == "1\n2\n3"
    assert ran.html("shown") == "<b>4</b>"
    assert ran.html("held") == "<i>5</i>\n<i>6</i>"
    assert ran.path.parent == tmp_path / "made"
    assert nbformat.read(ran.path, as_version=4).cells[0].execution_count == 1
    with pytest.raises(AssertionError, match="no code cell 'other'"):
        ran.text("other")


def test_a_failing_cell_is_named_with_its_source(tmp_path):
    with pytest.raises(AssertionError, match=r"(?s)halves.*x = 1 / 0.*ZeroDivisionError"):
        execute(notebook(good="1", halves="x = 1 / 0"), tmp_path / "fails.ipynb")


def test_one_print_that_arrives_in_several_messages_is_one_text(tmp_path):
    cell = nbformat.v4.new_code_cell("", id="printed")
    cell.outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="1"),
        nbformat.v4.new_output("stream", name="stdout", text="\n2\n"),
        nbformat.v4.new_output("display_data", data={"text/plain": "3"}),
        nbformat.v4.new_output("stream", name="stdout", text="4\n"),
    ]
    ran = Ran(tmp_path, nbformat.v4.new_notebook(cells=[cell]), 0)
    assert ran.text("printed").splitlines() == ["1", "2", "3", "4"]
