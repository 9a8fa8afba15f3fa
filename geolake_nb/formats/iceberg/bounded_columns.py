"""Which columns have bounds in the manifests of an Iceberg or Havasu table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.changes.repair.columns import repair_columns
from geolake_nb.formats.iceberg.single_values import MetricsMode
from geolake_nb.model.schema import join_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.value_scan import ScanColumn

__all__ = ["bounded_columns"]


def bounded_columns(snapshot: Snapshot, names: Sequence[str] | None) -> tuple[tuple[ScanColumn, ...], tuple[str, ...]]:
    """The geo columns of these names, or all, that have bounds in manifests; a sentence about each other one."""

    def why_not(parts: tuple[str, ...], repeated: bool) -> str | None:
        path = join_path(parts)
        if repeated:
            return f"{path} is inside a list or a map, for which Iceberg has no bounds."
        if not MetricsMode.of(snapshot.properties, ".".join(parts)).bounds:
            return f"{path} has no bounds because of the table property write.metadata.metrics."
        return None

    return repair_columns(snapshot, names, why_not, rasters=True)
