"""What a user holds: `open`, and the table that it gives."""

from geolake_nb.api.opening import open  # noqa: A004
from geolake_nb.api.table import Table

__all__ = ["Table", "open"]
