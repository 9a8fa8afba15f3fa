"""What one engine does with one kind of table."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["AS_OF", "Answer", "EngineFact", "TableKind"]

AS_OF = "2026-11"
"""The month in which the facts were gathered."""


class Answer(enum.Enum):
    """Whether an engine supports something."""

    YES = "yes"
    """It does."""
    NO = "no"
    """It does not."""
    UNKNOWN = "not known"
    """No source documents it, and it was not tested."""


class TableKind(enum.Enum):
    """The kinds of tables that engines differ on."""

    DELTA_GEO = "Delta with geospatial types"
    """The feature `geospatial`, or a preview of it."""
    DELTA_COLLATED = "Delta with collations"
    """The feature `collations`, or a preview of it."""
    ICEBERG_GEO = "Iceberg v3 with geo types"
    """`geometry` and `geography` columns of format version 3."""
    HAVASU = "Havasu"
    """Geometry and raster columns on Iceberg v1 or v2."""
    PARQUET_GEO = "Parquet with geo types"
    """GEOMETRY or GEOGRAPHY logical types, or GeoParquet metadata."""


@dataclass(frozen=True, slots=True)
class EngineFact:
    """What one engine does with one kind of table; `note` adds what yes and no leave out."""

    engine: str
    kind: TableKind
    reads: Answer
    writes: Answer
    skips_geometry: Answer
    """Whether a spatial filter on a geometry leaves files or row groups unread by their boxes."""
    skips_geography: Answer
    note: str
    source: str
    as_of: str = AS_OF

    def to_dict(self) -> dict[str, Any]:
        """The fact with plain values: `engine, kind, reads, writes, skips_geometry, skips_geography, note,
        source, as_of`.

        >>> from geolake_nb.scan.engines import ENGINE_FACTS
        >>> ENGINE_FACTS[0].to_dict()["reads"]
        'yes'
        """
        return {
            "engine": self.engine,
            "kind": self.kind.value,
            "reads": self.reads.value,
            "writes": self.writes.value,
            "skips_geometry": self.skips_geometry.value,
            "skips_geography": self.skips_geography.value,
            "note": self.note,
            "source": self.source,
            "as_of": self.as_of,
        }
