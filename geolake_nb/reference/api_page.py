"""The page about the Python API, from the docstrings."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from geolake_nb.reference.docstring import parse_docstring
from geolake_nb.reference.markdown import block, index, page, table
from geolake_nb.reference.public_api import public_classes, public_functions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from geolake_nb.reference.public_api import PublicClass, PublicFunction

__all__ = ["api_page"]

_HEAD = """\
Every public function, class and method, from the docstrings. Each example is run by the tests, in a folder with small
tables: `roads` is a Delta table of twelve points in three files without bounds, `places` one with shapes in bytes,
`parcels` a folder of Parquet files and `scenes` a Havasu table of rasters."""
_SETUP = """import geolake_nb as gl
import geolake_nb.pyiceberg as geo

t = gl.open("roads")"""
_REST = """\
Every object prints as text in a terminal and as HTML in a notebook. [Errors](errors.md) lists what can be raised."""
_LINE = 96
"""How long a signature may be in one line."""


def api_page() -> str:
    """The page."""
    functions, classes = list(public_functions()), list(public_classes())
    parts = [(function.name, _function_section(function)) for function in functions]
    summaries = [(function.name, function.function) for function in functions]
    for kind in classes:
        parts += [
            (kind.name, _class_section(kind)),
            *((method.name, _function_section(method)) for method in kind.methods),
        ]
        summaries += [(kind.name, kind.type_), *((method.name, method.function) for method in kind.methods)]
    entries = [(name, parse_docstring(value.__doc__).summary) for name, value in summaries]
    return page(
        "# API",
        _HEAD,
        block(_SETUP, "python runs"),
        _REST,
        index("name", entries),
        *(text.rstrip() for _, text in parts),
    )


def _function_section(function: PublicFunction) -> str:
    parsed = parse_docstring(function.function.__doc__)
    return page(
        f"## {function.name}",
        parsed.summary,
        block(_signature(function.name, function.function), "text"),
        *parsed.text,
        table(["argument", "what it is"], [(f"`{name}`", text) for name, text in parsed.args.items()]),
        f"Returns: {parsed.returns}" if parsed.returns else "",
        table(["raises", "when"], [(f"`{name}`", text) for name, text in parsed.raises.items()]),
        block(parsed.example, "pycon"),
    )


def _class_section(kind: PublicClass) -> str:
    parsed = parse_docstring(kind.type_.__doc__)
    described = [(f"`{name}`", text) for name, text in kind.properties.items()]
    return page(
        f"## {kind.name}",
        parsed.summary,
        *parsed.text,
        table(["property", "what it is"], described),
        block(parsed.example, "pycon"),
    )


def _signature(name: str, function: Callable[..., Any]) -> str:
    """A call with its parameters, in one line or with a line for each."""
    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in {"self", "cls"}]
    texts: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        star = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        texts.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
    returns = signature.return_annotation
    line = f"{name}({', '.join(texts)}) -> {returns}"
    if len(line) <= _LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), f") -> {returns}"])
