"""A real IPython shell for tests: what a cell prints, and what it gives back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@dataclass(frozen=True)
class Ran:
    """What a cell did."""

    value: Any
    error: BaseException | None
    out: str


class Notebook:
    """Cells that run one after the other."""

    def __init__(self, shell: InteractiveShell, capsys) -> None:
        self.shell = shell
        self._capsys = capsys

    def run(self, cell: str, *, fails: bool = False) -> Ran:
        """Run a cell; one that fails without being expected to fails the test."""
        self._capsys.readouterr()
        result = self.shell.run_cell(cell, store_history=False)
        out, err = self._capsys.readouterr()
        error = result.error_in_exec or result.error_before_exec
        assert (error is not None) is fails, out + err
        return Ran(result.result, error, out + err)

    def value(self, cell: str) -> Any:
        return self.run(cell).value

    def complaint(self, cell: str) -> str:
        """The first line that is shown of the error of a cell."""
        return self.run(cell, fails=True).out.strip().splitlines()[0]


@contextmanager
def notebook(capsys, *, jedi: bool = True):
    """A shell with the extension, which is the only one while it is open."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.IPCompleter.use_jedi = jedi
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    try:
        shell.run_line_magic("load_ext", "geolake_nb")
        yield Notebook(shell, capsys)
    finally:
        shell.history_manager.end_session()
        shell.reset(new_session=False)
        InteractiveShell.clear_instance()
