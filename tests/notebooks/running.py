"""Run a notebook of the demo in a fresh kernel that can reach no other host, and read its outputs."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from geolake_nb.spark.session import local_jars
from tests.notebooks.counting_proxy import counting_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CELL_SECONDS = 600
"""The longest that one cell may take: the first Spark of a busy machine is slow."""

_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_VIEW = "application/vnd.jupyter.widget-view+json"
_STATE = "application/vnd.jupyter.widget-state+json"


@dataclass(frozen=True)
class Ran:
    """A notebook after its run; the file at `path` has the outputs and the state of the widgets."""

    path: Path
    notebook: NotebookNode
    seconds: float

    def text(self, cell_id: str) -> str:
        """What a cell printed and the plain text of what it showed, joined by newlines."""
        return "\n".join(self._texts(cell_id))

    def html(self, cell_id: str) -> str:
        """The HTML of what a cell showed, of the widgets in it too, joined by newlines."""
        collected: list[str] = []
        for output in self._outputs(cell_id):
            data = output.get("data", {})
            if "text/html" in data:
                collected.append(data["text/html"])
            collected += [
                model["state"]["value"] for model in self._widget_models(data) if model["model_name"] == "HTMLModel"
            ]
        return "\n".join(collected)

    def widgets(self, cell_id: str) -> list[dict[str, Any]]:
        """The models of the widgets that a cell showed, and of those that they hold."""
        return [model for output in self._outputs(cell_id) for model in self._widget_models(output.get("data", {}))]

    def stderr(self) -> dict[str, str]:
        """What went to the error stream, by the ids of the cells that have any."""
        collected: dict[str, str] = {}
        for cell in self.notebook.cells:
            for output in cell.get("outputs", ()):
                if output.output_type == "stream" and output.name == "stderr":
                    collected[cell.id] = collected.get(cell.id, "") + output.text
        return collected

    def _texts(self, cell_id: str) -> Iterator[str]:
        printed = ""  # a busy kernel sends one print in several messages
        for output in self._outputs(cell_id):
            if output.output_type == "stream" and output.name == "stdout":
                printed += output.text
            elif "text/plain" in output.get("data", {}):
                if printed:
                    yield printed.rstrip("\n")
                printed = ""
                yield output.data["text/plain"]
        if printed:
            yield printed.rstrip("\n")

    def _outputs(self, cell_id: str) -> list[NotebookNode]:
        outputs = {cell.id: cell.outputs for cell in self.notebook.cells if cell.cell_type == "code"}
        assert cell_id in outputs, f"{self.path.name} has no code cell {cell_id!r}, it has {sorted(outputs)}"
        return outputs[cell_id]

    def _widget_models(self, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The model that some output is a view of, if any, and those that it holds."""
        waiting = [data[_VIEW]["model_id"]] if _VIEW in data else []
        while waiting:
            model = self.notebook.metadata.widgets[_STATE]["state"][waiting.pop(0)]
            yield model
            waiting[:0] = [child.removeprefix("IPY_MODEL_") for child in model["state"].get("children", ())]


def run_notebook(name: str, folder: Path) -> Ran:
    """Run the notebook of the demo whose file name starts with `name`, with `folder` as its current folder.

    An error in a cell is raised with the cell's source, and so is a request to another host.
    """
    path = notebook_path(name)
    ran, seen = execute(nbformat.read(path, as_version=4), folder / path.name)
    assert seen == [], f"{path.name} asked for other hosts"
    return ran


def notebook_path(name: str) -> Path:
    """The file of the notebook whose name starts so; the jars that it needs are at hand, or the test is skipped."""
    result = sorted(NOTEBOOKS.glob(f"{name}*.ipynb"))
    assert len(result) == 1, f"{name!r} is the start of {len(result)} notebooks in {NOTEBOOKS}"
    pytest.importorskip("delta", reason="delta-spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    local_jars()  # once on a machine, and before the kernel is kept from the network
    return result[0]


def execute(notebook: NotebookNode, path: Path, **environment: str) -> tuple[Ran, list[str]]:
    """Run a notebook in the folder of `path`, save it there, and tell which requests for other hosts it made."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="geolake-kernel-") as home, counting_proxy() as proxy:
        client = nbclient.NotebookClient(
            notebook,
            km=_kernel(Path(home)),
            timeout=CELL_SECONDS,
            startup_timeout=CELL_SECONDS,
            resources={"metadata": {"path": str(path.parent)}},
        )
        began = time.monotonic()
        try:
            client.execute(cleanup_kc=True, env=_environment(Path(home)) | proxy.environment | environment)
        except nbclient.exceptions.CellExecutionError as error:
            hosts = f"\nIt asked for other hosts: {proxy.seen}" if proxy.seen else ""
            output = _COLOURS.sub("", str(error))
            raise AssertionError(f"{path.name}: a cell failed{_failed_cell(notebook)}\n{output}{hosts}") from None
        finally:
            nbformat.write(notebook, path)
        seconds = time.monotonic() - began
    return Ran(path, notebook, seconds), proxy.seen


def _kernel(home: Path) -> Any:
    """A kernel of the Python that runs the tests, whatever kernels are installed here."""
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpecManager

    native = KernelSpecManager(kernel_dirs=[], ensure_native_kernel=True)
    return AsyncKernelManager(
        kernel_name="python3", kernel_spec_manager=native, connection_file=str(home / "kernel.json")
    )


def _environment(home: Path) -> dict[str, str]:
    """The user's environment with settings of Jupyter and IPython of its own; the jars of Spark stay where they are."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("IPY", "JUPYTER", "PYTEST"))}
    own = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
    own |= {"IPYTHONDIR": "ipython"}
    return kept | {name: str(home / part) for name, part in own.items()} | {"JUPYTER_PLATFORM_DIRS": "0"}


def _failed_cell(notebook: NotebookNode) -> str:
    for cell in notebook.cells:
        if any(output.output_type == "error" for output in cell.get("outputs", ())):
            return f": {cell.id}"
    return ""
