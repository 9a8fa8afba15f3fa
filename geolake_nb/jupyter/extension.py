"""What `%load_ext geolake_nb` does: the magics, and what completes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.completion import add_completion, remove_completion
from geolake_nb.jupyter.magics import GeolakeMagics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load", "unload"]


def load(shell: InteractiveShell) -> None:
    """Register `%geolake` in the shell."""
    shell.register_magics(GeolakeMagics)
    add_completion(shell)


def unload(shell: InteractiveShell) -> None:
    """Unregister it."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("geolake", None)
    remove_completion(shell)
