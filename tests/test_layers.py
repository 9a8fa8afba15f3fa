"""Imports point down only, by name and by string; a format is one folder and one entry in the registry."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import geolake_nb
from geolake_nb.cli.convert import FORMAT_NAMES
from geolake_nb.formats.registry import FORMATS

PACKAGE = Path(geolake_nb.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# A layer may import from itself and from the layers before it.
LAYERS = [
    "errors",
    "text",
    "model",
    "geo",
    "expressions",
    "storage",
    "raster_data",
    "parquet",
    "scan",
    "checks",
    "changes",
    "formats",
    "spark",
    "api",
    "pyiceberg",
    "cli",
    "jupyter",
]
# The package root, the demo data and the reference pages may import from any layer.
TOP = {"__init__", "demo", "reference"}
# What a user holds displays itself: inside methods it may import from the front ends.
LAZILY_UP = {"api"}
# Heavy packages, and the only layers that may import them; formats commit through the JVM inside functions.
HOMES = {
    "pyspark": {"spark", "formats", "changes"},
    "py4j": {"spark", "formats"},
    "delta": {"spark"},
    "IPython": {"jupyter"},
    "anywidget": {"jupyter"},
    "folium": {"jupyter"},
    "ipywidgets": {"jupyter"},
    # Catalogs and the file IO of Havasu take objects of PyIceberg, inside functions.
    "pyiceberg": {"pyiceberg", "formats"},
}
# In these layers heavy packages may be imported inside functions only, so that importing stays cheap.
LAZY_LAYERS = {"text", "model", "geo", "expressions", "raster_data"}
LAZY = {"pandas", "pyproj", "rasterio", "shapely", "sqlglot", "geoarrow", "numba"}
COMPILED = {"geo/wkb_iso_kernel.py", "geo/wkb_kernel.py"}
_MODULE_NAME = re.compile(r"geolake_nb(\.\w+)+")


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> set[str]:
    """The modules that a file imports, by statements or by their names as strings."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE_NAME.fullmatch(node.value):
            names.add(node.value)
    return names


def dynamic_imports(tree: ast.AST) -> list[int]:
    """The lines that import a module whose name is computed."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if called in ("import_module", "__import__") and not (node.args and _names_its_package(node.args[0])):
                lines.append(node.lineno)
    return lines


def _names_its_package(name: ast.expr) -> bool:
    """Whether the name of a module is constant, or is inside a constant package of others, as in `f"rasterio.{x}"`."""
    if isinstance(name, ast.JoinedStr):
        first = name.values[0]
        prefix = first.value if isinstance(first, ast.Constant) else ""
        return isinstance(prefix, str) and "." in prefix and not prefix.startswith("geolake_nb")
    return isinstance(name, ast.Constant)


def problems(tree: ast.Module, layer: str) -> list[str]:
    """The imports of a module of this layer that point up or name a package that belongs elsewhere."""
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    wrong = [f"line {line} computes the name of a module" for line in dynamic_imports(tree)]
    if layer in LAZILY_UP:
        tree = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    for name in sorted(imports(tree)):
        parts = name.split(".")
        if parts[0] == "geolake_nb" and len(parts) > 1 and parts[1] in above:
            wrong.append(f"{layer} imports {name}")
        elif layer not in HOMES.get(parts[0], {layer}):
            wrong.append(f"{name} belongs in {sorted(HOMES[parts[0]])}")
    return wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    layer = layer_of(path)
    if layer not in TOP:
        assert problems(ast.parse(path.read_text()), layer) == []


@pytest.mark.parametrize(
    ("layer", "code", "problem"),
    [
        ("scan", "from geolake_nb.formats.delta.details import DeltaDetails", "scan imports geolake_nb.formats.delta"),
        ("scan", "def f():\n    from geolake_nb.jupyter import cards", "scan imports geolake_nb.jupyter"),
        ("model", "from geolake_nb import formats", "model imports geolake_nb.formats"),
        ("model", "import_module('geolake_nb.jupyter.cards')", "model imports geolake_nb.jupyter.cards"),
        ("scan", "_RENDERER = 'geolake_nb.jupyter.cards'", "scan imports geolake_nb.jupyter.cards"),
        ("formats", "importlib.import_module(f'geolake_nb.spark.{name}')", "line 1 computes the name of a module"),
        ("api", "__import__(name)", "line 1 computes the name of a module"),
        ("scan", "import pyspark.sql", "pyspark.sql belongs in"),
    ],
)
def test_an_import_that_points_up_is_found(layer, code, problem):
    assert any(line.startswith(problem) for line in problems(ast.parse(code), layer))


def test_imports_that_point_down_are_allowed():
    code = "from geolake_nb.model.box import Box\n\ndef f():\n    import pyspark\n    from geolake_nb.scan import prune"
    assert problems(ast.parse(code), "formats") == []


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if layer_of(path) in LAZY_LAYERS],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_engines_import_heavy_packages_lazily(path):
    if str(path.relative_to(PACKAGE)) in COMPILED:
        return
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            roots = {name.split(".")[0] for name in imports(node)}
            assert not roots & LAZY, f"line {node.lineno}"


def test_every_module_of_the_package_belongs_to_a_layer():
    assert {layer_of(path) for path in MODULES} <= {*LAYERS, *TOP}


def test_every_format_is_a_folder_with_an_entry_in_the_registry():
    folders = {path.parent.name for path in (PACKAGE / "formats").glob("*/format.py")}
    modules = {type(format_).__module__ for format_ in FORMATS.values()}
    assert modules == {f"geolake_nb.formats.{folder}.format" for folder in folders}


@pytest.mark.parametrize("module", ["geolake_nb", "geolake_nb.cli"])
def test_importing_the_package_or_its_commands_loads_nothing_heavy(module):
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {*HOMES, *LAZY, "pyarrow", "numpy"} & set(loaded)


def test_the_command_knows_the_formats_of_the_registry():
    assert tuple(sorted(FORMATS)) == FORMAT_NAMES


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
