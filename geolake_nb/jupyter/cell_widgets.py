"""Which cell shows which widgets: those of a cell that runs again are closed, since their output is gone.

ipywidgets keeps every widget, with all that it holds, until somebody closes it. A widget that a user still has a name
for is opened again when it is shown again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DisplayedInCell", "close_whole", "open_whole", "shown_here"]


class DisplayedInCell:
    """Goes before the class of a widget: it notes which cells show the widget, and lets a closed one be shown again."""

    def _repr_mimebundle_(self, **options: Any) -> Any:
        shown_here(self)
        return super()._repr_mimebundle_(**options)  # type: ignore[misc]

    def close(self) -> None:
        """Close the widget; showing it again opens it again.

        Example:
            >>> m = t.map()
            >>> m.close()
            >>> m.comm is None
            True
        """
        super().close()  # type: ignore[misc]
        self.__dict__.pop("_repr_mimebundle_", None)  # what hides the method of the class: it would show nothing again


def shown_here(widget: Any) -> None:
    """Note that the running cell shows a widget; one that was closed is opened again."""
    from IPython.core.getipython import get_ipython

    open_whole(widget)
    shell: Any = get_ipython()
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    # JupyterLab, Notebook and VS Code name the cell; elsewhere a rerun cannot be detected.
    cell = ((parent or {}).get("metadata") or {}).get("cellId")
    if cell is not None:
        _CellWidgets.of(shell).show(cell, widget)


def close_whole(*widgets: Any) -> None:
    """Close widgets with their children, layouts and styles, but for what a widget that stays has a part in.

    >>> import ipywidgets
    >>> kept, gone = ipywidgets.Button(), ipywidgets.Button()
    >>> pair, other = ipywidgets.HBox([kept, gone]), ipywidgets.VBox([kept])
    >>> close_whole(pair)
    >>> [widget.comm is None for widget in (pair, pair.layout, gone, gone.style, kept, kept.style, other)]
    [True, True, True, True, False, False, False]
    """
    from ipywidgets.widgets.widget import _instances
    from ipywidgets.widgets.widget_link import Link

    going = {id(part): part for widget in widgets for part in _parts(widget)}
    others = [widget_ for widget_ in list(_instances.values()) if id(widget_) not in going]
    links = [other for other in others if isinstance(other, Link)]
    for other in others:
        if other not in links:
            for part in _parts(other):
                going.pop(id(part), None)
    for link in links:
        if id(link.source[0]) in going or id(link.target[0]) in going:
            link.close()
    for part in going.values():
        part.close()


class _CellWidgets:
    """The widgets that the cells of a notebook show."""

    def __init__(self) -> None:
        self._shown: dict[str, list[Any]] = {}
        self._leaving: list[Any] = []
        """Those whose output is gone, until it is known whether the cell shows them again."""
        self._cleared = False

    @classmethod
    def of(cls, shell: Any) -> _CellWidgets:
        """The one of a shell, which is registered for the events of its cells."""
        for hook in shell.events.callbacks["pre_run_cell"]:
            if isinstance(owner := getattr(hook, "__self__", None), cls):
                return owner
        made = cls()
        shell.events.register("pre_run_cell", made.begin)
        shell.events.register("post_run_cell", made.end)
        shell.display_pub.register_hook(made.hear)
        return made

    def show(self, cell: str, widget: Any) -> None:
        """Note that a cell shows a widget."""
        here = self._shown.setdefault(cell, [])
        if not any(shown is widget for shown in here):
            here.append(widget)
        self._leaving = [leaving for leaving in self._leaving if leaving is not widget]
        if self._cleared:  # by this very output, at the latest
            self.end()

    def begin(self, info: Any) -> None:
        """A cell begins to run: what it showed is gone."""
        self._leaving += self._shown.pop(info.cell_id, [])

    def hear(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message goes out to the notebook; it may clear the output of the cell."""
        if message["header"]["msg_type"] == "clear_output" and not _is_captured(message):
            from IPython.core.getipython import get_ipython

            shell: Any = get_ipython()
            cell: Any = (shell.get_parent().get("metadata") or {}).get("cellId")
            self._leaving += self._shown.pop(cell, [])
            self._cleared = True
        return message

    def end(self, _: object = None) -> None:
        """Close what is not shown any more."""
        shown = [widget for widgets in self._shown.values() for widget in widgets]
        gone = [widget for widget in self._leaving if not any(widget is other for other in shown)]
        self._leaving, self._cleared = [], False
        if gone:
            close_whole(*gone)


def _is_captured(message: dict[str, Any]) -> bool:
    """Whether an `Output` widget takes what the cell puts out now, and is what is cleared."""
    from ipywidgets import Output
    from ipywidgets.widgets.widget import _instances

    parent = message["parent_header"].get("msg_id")
    return any(isinstance(widget, Output) and widget.msg_id == parent for widget in list(_instances.values()))


def _parts(widget: Any) -> Iterator[Any]:
    """The widget and all that it is made of, which comes first."""
    from ipywidgets import Widget

    for part in (*getattr(widget, "children", ()), getattr(widget, "layout", None), getattr(widget, "style", None)):
        if isinstance(part, Widget):
            yield from _parts(part)
    yield widget


def open_whole(widget: Any) -> None:
    """Open a widget again that was closed, with all that it is made of."""
    for part in _parts(widget):
        if part.comm is None:
            part.__dict__.pop("_repr_mimebundle_", None)
            part._model_id = None  # what had the old name may still be on its way out of the browser
            part.open()
