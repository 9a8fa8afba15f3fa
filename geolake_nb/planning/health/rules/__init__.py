"""Every rule of the check in one table; each module has those of one subject."""

from __future__ import annotations

from geolake_nb.planning.health.rules.bounds import BOUNDS_RULES
from geolake_nb.planning.health.rules.bounds_truth import BOUNDS_TRUTH_RULES
from geolake_nb.planning.health.rules.collation import COLLATION_RULES
from geolake_nb.planning.health.rules.crs import CRS_RULES
from geolake_nb.planning.health.rules.files import FILES_RULES
from geolake_nb.planning.health.rules.layout import LAYOUT_RULES
from geolake_nb.planning.health.rules.protocol import PROTOCOL_RULES
from geolake_nb.planning.health.rules.raster import RASTER_RULES

__all__ = ["RULES"]

RULES = (
    *PROTOCOL_RULES,
    *FILES_RULES,
    *CRS_RULES,
    *BOUNDS_RULES,
    *BOUNDS_TRUTH_RULES,
    *COLLATION_RULES,
    *RASTER_RULES,
    *LAYOUT_RULES,
)
"""All rules in the order in which they are judged: id, severity, source and summary, for the check and its docs."""
