"""Every public name, with its methods and properties, in the order of the API page."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["PublicClass", "PublicFunction", "public_classes", "public_functions"]


@dataclass(frozen=True, slots=True)
class PublicFunction:
    """A function or a method that users call."""

    name: str
    """As it is written on the page: `gl.open`, `Table.explain`."""
    function: Callable[..., Any]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of what it takes, without `self`."""
        names = inspect.signature(self.function).parameters
        return tuple(name for name in names if name not in {"self", "cls"})

    @property
    def returns(self) -> str:
        """The annotation of what it returns."""
        return str(inspect.signature(self.function).return_annotation)


@dataclass(frozen=True, slots=True)
class PublicClass:
    """A class whose objects users hold."""

    name: str
    type_: type

    @property
    def methods(self) -> tuple[PublicFunction, ...]:
        """The public methods that this package defines, those of base classes included."""
        defined = {name: value for base in reversed(self._bases) for name, value in vars(base).items()}
        unwrapped = {name: getattr(value, "__func__", value) for name, value in defined.items()}
        return tuple(
            PublicFunction(f"{self.name}.{name}", value)
            for name, value in sorted(unwrapped.items())
            if not name.startswith("_") and inspect.isfunction(value)
        )

    @property
    def properties(self) -> dict[str, str]:
        """The public properties and fields: the first paragraph about each, or else the type of a field."""
        described: dict[str, str] = {}
        for base in reversed(self._bases):
            texts = _field_texts(base) if is_dataclass(base) else {}
            described |= {name: text for name, text in texts.items() if not name.startswith("_")}
            for name, value in vars(base).items():
                if not name.startswith("_") and isinstance(value, property | cached_property):
                    described[name] = " ".join(inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0].split())
        return described

    @property
    def _bases(self) -> list[type]:
        return [base for base in self.type_.__mro__ if base.__module__.startswith("geolake_nb")]


def _field_texts(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass, else its type."""
    [tree] = ast.parse(inspect.getsource(kind)).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    texts = {}
    for statement, after in pairwise([*body, ast.Pass()]):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = f"`{ast.unparse(statement.annotation).replace(' | ', '` or `')}`"
        text = str(ast.literal_eval(after.value)) if isinstance(after, ast.Expr) else annotation
        texts[statement.target.id] = " ".join(text.split())
    return texts


def public_functions() -> Iterator[PublicFunction]:
    """The functions of `geolake_nb` and of its public modules; those of `geolake_nb.pyiceberg` are named `geo`.

    >>> [function.name for function in public_functions()][:3]
    ['gl.bounds', 'gl.catalog', 'gl.cell']
    """
    import geolake_nb as gl

    for name in gl.__all__:
        value = getattr(gl, name)
        if isinstance(value, ModuleType):
            yield from (PublicFunction(f"gl.{name}.{inner}", getattr(value, inner)) for inner in value.__all__)
        elif inspect.isfunction(value):
            yield PublicFunction(f"gl.{name}", value)
    from geolake_nb import pyiceberg as geo

    bridge = [(name, getattr(geo, name)) for name in geo.__all__]
    yield from (PublicFunction(f"geo.{name}", value) for name, value in bridge if inspect.isfunction(value))


def public_classes() -> Iterator[PublicClass]:
    """The classes of `geolake_nb`, and those that the methods of a table return and that have methods of their own.

    >>> [kind.name for kind in public_classes()][:2]
    ['Table', 'Scan']
    """
    import geolake_nb as gl
    from geolake_nb.api.advice import Advice
    from geolake_nb.api.catalog import Catalog, CatalogReport
    from geolake_nb.api.engine_comparison import EngineComparison
    from geolake_nb.api.maintenance import MaintenanceReport
    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.api.scan import Scan
    from geolake_nb.api.sql import SqlResult
    from geolake_nb.api.table import Table
    from geolake_nb.checks.finding import Findings
    from geolake_nb.jupyter.catalog_map import ExtentMap
    from geolake_nb.jupyter.map_view import GeolakeMap
    from geolake_nb.scan.explanation import Explanation
    from geolake_nb.scan.layout import Layout

    listed = [
        Table,
        Scan,
        SqlResult,
        EngineComparison,
        Plan,
        Report,
        MaintenanceReport,
        Layout,
        Advice,
        Explanation,
        Findings,
    ]
    listed += [GeolakeMap, Catalog, CatalogReport, ExtentMap]
    exported = [getattr(gl, name) for name in gl.__all__]
    more = [value for value in exported if inspect.isclass(value) and value not in listed]
    yield from (PublicClass(kind.__name__, kind) for kind in [*listed, *more])
