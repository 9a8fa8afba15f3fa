"""Open a geospatial lakehouse table, see where its files lie and why a query reads them, and repair it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from geolake_nb.model.display import use_front_end

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from geolake_nb import demo
    from geolake_nb.api import rasters
    from geolake_nb.api.catalog import catalog
    from geolake_nb.api.opening import open  # noqa: A004
    from geolake_nb.api.sql import sql
    from geolake_nb.api.table import Table
    from geolake_nb.api.writing import publish, write
    from geolake_nb.errors import GeolakeError
    from geolake_nb.expressions.predicate import (
        st_contains,
        st_covered_by,
        st_covers,
        st_crosses,
        st_disjoint,
        st_equals,
        st_intersects,
        st_overlaps,
        st_touches,
        st_within,
    )
    from geolake_nb.geo.bounds import bounds
    from geolake_nb.model.box import Box
    from geolake_nb.model.cells import cell
    from geolake_nb.model.display import FrontEnd
    from geolake_nb.model.types import geography, geometry, raster
    from geolake_nb.spark import data_source as spark_source
    from geolake_nb.spark import functions as spark_functions
    from geolake_nb.spark.session import session

__all__ = [
    "Box",
    "GeolakeError",
    "Table",
    "__version__",
    "bounds",
    "catalog",
    "cell",
    "demo",
    "geography",
    "geometry",
    "open",
    "publish",
    "raster",
    "rasters",
    "session",
    "spark_functions",
    "spark_source",
    "sql",
    "st_contains",
    "st_covered_by",
    "st_covers",
    "st_crosses",
    "st_disjoint",
    "st_equals",
    "st_intersects",
    "st_overlaps",
    "st_touches",
    "st_within",
    "write",
]

__version__ = "0.1.0"

# Importing the package does no work: each name brings in its module when it is first used.
_LAZY_EXPORTS = {
    "Box": "geolake_nb.model.box",
    "GeolakeError": "geolake_nb.errors",
    "Table": "geolake_nb.api.table",
    "bounds": "geolake_nb.geo.bounds",
    "catalog": "geolake_nb.api.catalog",
    "cell": "geolake_nb.model.cells",
    "demo": "geolake_nb.demo",
    "geography": "geolake_nb.model.types",
    "geometry": "geolake_nb.model.types",
    "open": "geolake_nb.api.opening",
    "publish": "geolake_nb.api.writing",
    "raster": "geolake_nb.model.types",
    "rasters": "geolake_nb.api.rasters",
    "session": "geolake_nb.spark.session",
    "spark_functions": "geolake_nb.spark.functions",
    "spark_source": "geolake_nb.spark.data_source",
    "sql": "geolake_nb.api.sql",
    "st_contains": "geolake_nb.expressions.predicate",
    "st_covered_by": "geolake_nb.expressions.predicate",
    "st_covers": "geolake_nb.expressions.predicate",
    "st_crosses": "geolake_nb.expressions.predicate",
    "st_disjoint": "geolake_nb.expressions.predicate",
    "st_equals": "geolake_nb.expressions.predicate",
    "st_intersects": "geolake_nb.expressions.predicate",
    "st_overlaps": "geolake_nb.expressions.predicate",
    "st_touches": "geolake_nb.expressions.predicate",
    "st_within": "geolake_nb.expressions.predicate",
    "write": "geolake_nb.api.writing",
}


def _notebook() -> FrontEnd:
    from geolake_nb.jupyter import front_end

    return front_end


use_front_end(_notebook)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by `%load_ext geolake_nb`."""
    from geolake_nb.jupyter.magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Called by `%unload_ext geolake_nb`."""
    from geolake_nb.jupyter.magics import unload

    unload(shell)


def __getattr__(name: str) -> object:
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(_LAZY_EXPORTS[name])
    value = getattr(home, name, home)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
