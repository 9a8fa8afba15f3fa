"""How a value shows itself in a notebook and in a terminal: by the front end that knows how, found when it is asked."""

from __future__ import annotations

from importlib import import_module

__all__ = ["Shown"]

_RENDERER = "geolake_nb.jupyter.cards"
"""Its `render` makes HTML of every value that is a `Shown`; by its name only, because imports point down."""


class Shown:
    """A value with a card: HTML in a notebook, its text in a terminal.

    >>> class Greeting(Shown):
    ...     def __str__(self):
    ...         return "hello"
    >>> Greeting()._repr_html_() is None  # no card is made for it: the notebook falls back on the text
    True
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        html: str | None = import_module(_RENDERER).render(self)
        return html

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        # IPython would take the `__repr__` of a dataclass, which has every row of every table in it.
        return {"text/plain": str(self)}
