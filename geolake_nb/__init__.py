"""Open a geospatial lakehouse table, see where its files lie and why a query reads them, and mend it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from geolake_nb import demo
    from geolake_nb.api import rasters
    from geolake_nb.api.opening import open  # noqa: A004
    from geolake_nb.api.table import Table
    from geolake_nb.api.writing import write
    from geolake_nb.core.bounds import bounds
    from geolake_nb.core.box import Box
    from geolake_nb.core.types import geography, geometry, raster
    from geolake_nb.errors import GeolakeError
    from geolake_nb.spark.session import session

__all__ = [
    "Box",
    "GeolakeError",
    "Table",
    "__version__",
    "bounds",
    "demo",
    "geography",
    "geometry",
    "open",
    "raster",
    "rasters",
    "session",
    "write",
]

__version__ = "0.1.0"

# Importing the package does no work: each name brings in its module when it is first used.
_HOMES = {
    "Box": "geolake_nb.core.box",
    "GeolakeError": "geolake_nb.errors",
    "Table": "geolake_nb.api.table",
    "bounds": "geolake_nb.core.bounds",
    "demo": "geolake_nb.demo",
    "geography": "geolake_nb.core.types",
    "geometry": "geolake_nb.core.types",
    "open": "geolake_nb.api.opening",
    "raster": "geolake_nb.core.types",
    "rasters": "geolake_nb.api.rasters",
    "session": "geolake_nb.spark.session",
    "write": "geolake_nb.api.writing",
}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by `%load_ext geolake_nb`."""
    from geolake_nb.jupyter.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Called by `%unload_ext geolake_nb`."""
    from geolake_nb.jupyter.extension import unload

    unload(shell)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = getattr(home, name, home)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
