"""The public API: `open`, and the table that it returns."""

from geolake_nb.api.opening import open  # noqa: A004
from geolake_nb.api.table import Table

__all__ = ["Table", "open"]
