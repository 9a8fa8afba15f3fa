"""Progress of some work: a bar in a notebook, a line in a terminal."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from geolake_nb.cli.table_options import progress
from geolake_nb.jupyter.cell_widgets import close_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["in_notebook", "shown_progress"]

_PATIENCE = 0.5
"""Work that is done sooner needs no bar."""
_PAUSE = 0.1
"""The front end takes only so many messages a second."""


def in_notebook() -> bool:
    """Whether a front end shows widgets.

    >>> in_notebook()
    False
    """
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


@contextmanager
def shown_progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """The progress callback of a running cell; its display is removed at the end.

    >>> with shown_progress("files") as on_progress:
    ...     print(on_progress)
    None
    """
    if not in_notebook():
        with progress(what) as on_progress:
            yield on_progress
        return
    bar = _Bar(what)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """A bar that appears when the work takes a while."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PATIENCE
        self._widget: Any = None
        self._shown: Any = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PAUSE
        if self._widget is None:
            from IPython.display import display
            from ipywidgets import IntProgress

            self._widget = IntProgress(min=0)
            self._shown = display(self._widget, display_id=True)  # type: ignore[no-untyped-call]
        self._widget.max, self._widget.value = total, done
        self._widget.description = f"{done:,} of {total:,} {self._what}"
        self._widget.style.description_width = "initial"

    def close(self) -> None:
        if self._widget is not None:
            # From the output too: a saved notebook would show a stale bar.
            self._shown.update({"text/plain": ""}, raw=True)
            close_whole(self._widget)
