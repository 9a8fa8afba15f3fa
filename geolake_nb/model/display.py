"""How a value displays itself in a notebook and in a terminal: the front end is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Displayable", "FrontEnd", "LiveDisplayable", "use_front_end"]


class FrontEnd(Protocol):
    """What turns values into the output of a notebook cell."""

    def render(self, value: object) -> str | None:
        """The card of a value as HTML, `None` for one without a card."""

    def display(self, value: object) -> None:
        """Display a value with its widgets in the running cell."""


_front_ends: list[Callable[[], FrontEnd]] = []


def use_front_end(load: Callable[[], FrontEnd]) -> None:
    """Register the front end; `load` is called when the first value is displayed."""
    _front_ends[:] = [load]


class Displayable:
    """A value with a card: HTML in a notebook, its text in a terminal.

    >>> class Greeting(Displayable):
    ...     def __str__(self):
    ...         return "hello"
    >>> Greeting()._repr_html_() is None  # no card is made for it: the notebook falls back on the text
    True
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return _front_ends[0]().render(self) if _front_ends else None

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        # IPython would take the `__repr__` of a dataclass, which has every row of every table in it.
        return {"text/plain": str(self)}


class LiveDisplayable(Displayable):
    """A value whose card comes with widgets in a live notebook."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        _front_ends[0]().display(self)
