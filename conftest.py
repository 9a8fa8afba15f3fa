"""What the examples in docstrings of `geolake_nb` find: `gl`, and small tables in the current folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

_TABLES = re.compile(r"""\bt\b|["'](roads|parcels|places|scenes)\b|catalog\("\."\)""")


@pytest.fixture(scope="session")
def _example_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.reference.example_tables import make_example_tables

    folder = tmp_path_factory.mktemp("examples")
    make_example_tables(folder)
    return folder


@pytest.fixture(autouse=True)
def _example_names(request: pytest.FixtureRequest) -> None:
    """An empty folder, or one with copies of the tables for an example that names one; Spark is not started."""
    if not isinstance(request.node, pytest.DoctestItem):
        return
    import geolake_nb as gl

    names = request.getfixturevalue("doctest_namespace")
    names["gl"] = gl
    monkeypatch = request.getfixturevalue("monkeypatch")
    monkeypatch.chdir(request.getfixturevalue("tmp_path"))
    if any(_TABLES.search(example.source) for example in request.node.dtest.examples):
        folder = Path("tables").resolve()
        shutil.copytree(request.getfixturevalue("_example_tables"), folder)
        monkeypatch.chdir(folder)
        names["t"] = gl.open("roads")
