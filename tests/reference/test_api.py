"""Every public function and method has a docstring that is a page: a sentence, Args, Returns, Raises, an example."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import textwrap

import pytest

import geolake_nb as gl
from geolake_nb import errors
from geolake_nb.errors import GeolakeError
from geolake_nb.reference import FOLDER, section
from geolake_nb.reference.docstring import parse_docstring
from geolake_nb.reference.public_api import PublicFunction, public_classes, public_functions

CLASSES = list(public_classes())
FUNCTIONS = [*public_functions(), *(method for kind in CLASSES for method in kind.methods)]
STARTS_SPARK = {"gl.session", "Scan.to_spark"}
"""What an example cannot show in milliseconds; tests/spark runs it."""


def missing_parts(function: PublicFunction) -> list[str]:
    """What the docstring of a function does not say."""
    parsed = parse_docstring(function.function.__doc__)
    missing = []
    if not parsed.summary.endswith("."):
        missing.append("a first sentence")
    if tuple(parsed.args) != function.parameters:
        missing.append(f"Args for {', '.join(function.parameters) or 'nothing'}")
    if bool(parsed.returns) != (function.returns != "None"):
        missing.append("Returns" if not parsed.returns else "no Returns")
    missing += [f"Raises for {name}" for name in sorted(raised_by(function) - parsed.raises.keys())]
    examples = doctest.DocTestParser().get_examples(parsed.example)
    runs = [example for example in examples if not example.options.get(doctest.SKIP)]
    if not examples or (not runs and function.name not in STARTS_SPARK):
        missing.append("an example that runs")
    return missing


def raised_by(function: PublicFunction) -> set[str]:
    """The errors of this package that the body of a function raises itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    return {name for name in names if issubclass(getattr(errors, name, object), GeolakeError)}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_every_public_function_has_a_whole_docstring(function):
    assert missing_parts(function) == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_what_it_raises_exists(function):
    for name in parse_docstring(function.function.__doc__).raises:
        assert issubclass(getattr(errors, name, None) or getattr(builtins, name), Exception)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_every_public_class_has_a_sentence_an_example_and_described_properties(kind):
    parsed = parse_docstring(kind.type_.__doc__)
    assert parsed.summary.endswith(".")
    assert doctest.DocTestParser().get_examples(parsed.example)
    for base in kind.type_.__mro__:
        if base.__module__.startswith("geolake_nb"):
            own = {name: value for name, value in vars(base).items() if isinstance(value, property)}
            assert [name for name, value in own.items() if name[0] != "_" and not value.__doc__] == []


def test_everything_public_is_walked():
    names = {function.name for function in FUNCTIONS} | {kind.name for kind in CLASSES}
    modules = {"demo", "rasters", "spark_functions", "spark_source"}
    assert {f"gl.{name}" for name in gl.__all__} - names == {
        f"gl.{name}" for name in ("Box", "GeolakeError", "Table", "__version__", *modules)
    }
    assert {"Box", "Explanation", "Findings", "GeolakeError", "GeolakeMap", "Plan", "Report", "Scan", "Table"} <= names
    assert {f"gl.{module}.{name}" for module in modules for name in getattr(gl, module).__all__} <= names
    assert {
        "Table.explain",
        "Table.map",
        "Table.plan_repair",
        "Plan.apply",
        "Report.undo",
        "GeolakeMap.select",
    } <= names


def test_a_docstring_without_its_parts_is_noticed():
    def bare(path: str) -> int:
        """Count."""
        raise errors.RefusedError(path)

    def raises(path: str) -> None:
        """Refuse.

        Args:
            paths: a path.
        """
        from geolake_nb.errors import RefusedError

        raise RefusedError(path)

    bare.__annotations__ = {"path": "str", "return": "int"}
    assert missing_parts(PublicFunction("bare", bare)) == ["Args for path", "Returns", "an example that runs"]
    assert missing_parts(PublicFunction("raises", raises)) == [
        "Args for path",
        "Raises for RefusedError",
        "an example that runs",
    ]


def test_every_name_has_a_section_on_the_page_and_in_help():
    text = (FOLDER / "api.md").read_text()
    for name in [*(function.name for function in FUNCTIONS), *(kind.name for kind in CLASSES)]:
        assert f"\n## {name}\n" in text
    shown = section("Table.explain")
    assert "Which files a query reads and why." in shown
    assert "raises" in shown
    assert ">>> t.explain((5, 45, 12, 52)).read.files" in shown
