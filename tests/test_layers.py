"""Imports point down only: jupyter, cli, api, spark, planning, formats, core, errors."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import geolake_nb

PACKAGE = Path(geolake_nb.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# A layer may import from itself and from what stands below it.
LAYERS = ["errors", "core", "formats", "planning", "spark", "api", "cli", "jupyter"]
# The front door, the demo data and the reference pages may reach any layer.
TOP = {"__init__", "demo", "reference"}
# What a user holds shows itself too: inside methods it may reach the front ends.
LAZILY_UP = {"api"}
# Heavy packages, and the only layers that may name them.
HOMES = {
    "pyspark": {"spark"},
    "py4j": {"spark"},
    "delta": {"spark"},
    "IPython": {"jupyter"},
    "anywidget": {"jupyter"},
    "folium": {"jupyter"},
    "ipywidgets": {"jupyter"},
}
# In the core these may be imported inside functions only, so that importing stays cheap.
LAZY_IN_CORE = {"pandas", "pyproj", "rasterio", "shapely", "sqlglot", "geoarrow", "numba"}
COMPILED = {"core/wkb_iso_kernel.py", "core/wkb_kernel.py"}


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    layer = layer_of(path)
    if layer in TOP:
        return
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    tree = ast.parse(path.read_text())
    if layer in LAZILY_UP:
        tree = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    for name in imports(tree):
        parts = name.split(".")
        if parts[0] == "geolake_nb" and len(parts) > 1:
            assert parts[1] not in above, f"{layer} reaches up to {name}"
        assert layer in HOMES.get(parts[0], {layer}), f"{name} belongs in {HOMES[parts[0]]}"


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if layer_of(path) == "core"],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_core_imports_heavy_packages_lazily(path):
    if str(path.relative_to(PACKAGE)) in COMPILED:
        return
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            roots = {name.split(".")[0] for name in imports(node)}
            assert not roots & LAZY_IN_CORE, f"line {node.lineno}"


def test_every_module_of_the_package_belongs_to_a_layer():
    assert {layer_of(path) for path in MODULES} <= {*LAYERS, *TOP}


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, geolake_nb; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {*HOMES, *LAZY_IN_CORE, "pyarrow", "numpy"} & set(loaded)


def test_importing_costs_no_more_than_twice_pyarrow():
    def seconds(module: str) -> float:
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        run = [sys.executable, "-c", code]
        return min(float(subprocess.run(run, capture_output=True, text=True, check=True).stdout) for _ in range(3))

    assert seconds("geolake_nb") <= 2 * seconds("pyarrow")


def test_every_public_name_resolves():
    for name in geolake_nb.__all__:
        assert getattr(geolake_nb, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'bonds'"):
        _ = geolake_nb.bonds
