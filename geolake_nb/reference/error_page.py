"""The page about the errors."""

from __future__ import annotations

from geolake_nb import errors
from geolake_nb.errors import GeolakeError
from geolake_nb.geo.wkb import MalformedWkbError, UnsupportedWkbError, WkbError
from geolake_nb.reference.markdown import anchor, block, index, page

__all__ = ["error_page"]

_HEAD = """\
Every message says what is wrong, where, and how to fix it, with a semicolon before the fix. In a shell it is one
line on standard error and the exit code 3. In a notebook it is one line too; `--debug` shows the traceback."""
_PYTHON = """import geolake_nb as gl

try:
    gl.open("no/such/table")
except gl.GeolakeError as error:
    print(error.what, error.where, error.remedy)"""


def error_page() -> str:
    """The page."""
    exported = [getattr(errors, name) for name in errors.__all__]
    kinds = sorted([*exported, WkbError, MalformedWkbError, UnsupportedWkbError], key=lambda kind: kind.__name__)
    return page(
        "# Errors",
        _HEAD,
        block(_PYTHON, "python runs"),
        index("error", [(kind.__name__, _summary(kind)) for kind in kinds]),
        *map(_section, kinds),
    )


def _section(kind: type[GeolakeError]) -> str:
    return page(
        f"## {kind.__name__}",
        _summary(kind),
        f"What to do: {kind.advice}",
        _parents(kind),
    ).rstrip()


def _summary(kind: type[GeolakeError]) -> str:
    return (kind.__doc__ or "").splitlines()[0]


def _parents(kind: type[GeolakeError]) -> str:
    """Which other `except` catches it."""
    ours = [base.__name__ for base in kind.__mro__[1:] if issubclass(base, GeolakeError)]
    theirs = [base.__name__ for base in kind.__bases__ if not issubclass(base, GeolakeError) and base is not Exception]
    words = [f"[{name}](#{anchor(name)})" for name in ours] + [f"`{name}`" for name in theirs]
    return f"Caught as {', '.join(words)} too." if words else ""
