"""Reads a Delta table from its log alone: JSON commits, compacted logs, and checkpoints of every kind."""

from __future__ import annotations

from geolake_nb.formats.delta.details import DeltaDetails, DeltaMetadata
from geolake_nb.formats.delta.history import delta_history
from geolake_nb.formats.delta.snapshot import is_delta, open_delta

__all__ = ["DeltaDetails", "DeltaMetadata", "delta_history", "is_delta", "open_delta"]
