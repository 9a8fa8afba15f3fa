"""Every rule of the check: those that all formats share, and those of each format."""

from __future__ import annotations

from geolake_nb.checks.rules.bounds import BOUNDS_RULES
from geolake_nb.checks.rules.bounds_truth import BOUNDS_TRUTH_RULES
from geolake_nb.checks.rules.crs import CRS_RULES
from geolake_nb.checks.rules.files import FILES_RULES, LAYOUT_RULES
from geolake_nb.checks.rules.raster import RASTER_RULES
from geolake_nb.checks.rules.untyped_wkb import GEO_RULES
from geolake_nb.formats.delta.rules import COLLATION_RULES, DELTA_PROTOCOL_RULES
from geolake_nb.formats.havasu.rules import HAVASU_PROTOCOL_RULES
from geolake_nb.formats.iceberg.rules import ICEBERG_PROTOCOL_RULES
from geolake_nb.formats.parquet_folder.rules import PARQUET_FOLDER_RULES

__all__ = ["RULES"]

RULES = (
    *DELTA_PROTOCOL_RULES,
    *ICEBERG_PROTOCOL_RULES,
    *HAVASU_PROTOCOL_RULES,
    *PARQUET_FOLDER_RULES,
    *FILES_RULES,
    *GEO_RULES,
    *CRS_RULES,
    *BOUNDS_RULES,
    *BOUNDS_TRUTH_RULES,
    *COLLATION_RULES,
    *RASTER_RULES,
    *LAYOUT_RULES,
)
"""In the order in which they are checked and documented."""
