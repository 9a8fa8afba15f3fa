"""All formats, by name; a new format is a folder and an entry here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.havasu.format import HAVASU
from geolake_nb.formats.iceberg.format import ICEBERG
from geolake_nb.formats.parquet_folder.format import PARQUET

if TYPE_CHECKING:
    from geolake_nb.formats.base import Format

__all__ = ["DELTA", "FORMATS", "HAVASU", "ICEBERG", "PARQUET"]

FORMATS: dict[str, Format] = {format_.name: format_ for format_ in (DELTA, ICEBERG, HAVASU, PARQUET)}
"""In the order in which a location is looked at."""
