"""The local session in a notebook: its cell shows nothing, and its folder stays as it was."""

from __future__ import annotations

import shutil

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = {
    "start": "import geolake_nb as gl\nspark = gl.session()",
    "same": "gl.session() is spark, spark.version",
    "table": "spark.sql('CREATE TABLE kept USING delta AS SELECT 1 AS id')\nspark.table('kept').count()",
    "iceberg": "spark.sparkContext._jvm.org.apache.iceberg.IcebergBuild.version()",
    "error": "try:\n    spark.sql('SELECT 1 / 0').collect()\n"
    "except Exception as error:\n    print(error.getCondition())",
    "thread": "from concurrent.futures import ThreadPoolExecutor\n"
    "with ThreadPoolExecutor() as pool:\n    print(pool.submit(gl.session).result().range(3).count())",
    "again": "spark.stop()\nspark = gl.session(options={'spark.app.name': 'mine'})\n"
    "spark.sparkContext.appName, spark.sql('SELECT 2').collect()[0][0]",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    folder = tmp_path_factory.mktemp("notebook")
    cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in CELLS.items()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return {cell.id: cell.outputs for cell in notebook.cells}, folder


def text(outputs):
    [output] = outputs
    return output["text"].strip() if output.output_type == "stream" else output["data"]["text/plain"]


@pytest.mark.spark
def test_starting_and_failing_say_nothing_else(ran):
    outputs, _ = ran
    assert outputs["start"] == []
    assert text(outputs["same"]) == "(True, '4.2.0')"
    assert text(outputs["error"]) == "DIVIDE_BY_ZERO"


@pytest.mark.spark
def test_it_knows_delta_and_iceberg_and_leaves_nothing_in_the_folder(ran):
    outputs, folder = ran
    assert text(outputs["table"]) == "1"
    assert text(outputs["iceberg"]) == "'1.12.0'"
    assert list(folder.iterdir()) == []


@pytest.mark.spark
def test_other_threads_and_a_second_start_get_a_session_too(ran):
    outputs, _ = ran
    assert text(outputs["thread"]) == "3"
    assert text(outputs["again"]) == "('mine', 2)"
