"""Geometries and geographies in PyIceberg: types, predicates, bounds and tables of version 3, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from geolake_nb.pyiceberg.bridge import disable, enable, is_enabled
    from geolake_nb.pyiceberg.geospatial import (
        GeometryEnvelope,
        GeospatialBound,
        GeospatialStatsAggregator,
        deserialize_geospatial_bound,
        extract_envelope_from_wkb,
        merge_envelopes,
        serialize_geospatial_bound,
    )
    from geolake_nb.pyiceberg.predicates import (
        STContains,
        STCoveredBy,
        STCovers,
        STCrosses,
        STEquals,
        STIntersects,
        STOverlaps,
        STTouches,
        STWithin,
    )
    from geolake_nb.pyiceberg.scanning import scan
    from geolake_nb.pyiceberg.write_metrics import geospatial_column_aggregates_from_arrow_table

__all__ = [
    "GeometryEnvelope",
    "GeospatialBound",
    "GeospatialStatsAggregator",
    "STContains",
    "STCoveredBy",
    "STCovers",
    "STCrosses",
    "STEquals",
    "STIntersects",
    "STOverlaps",
    "STTouches",
    "STWithin",
    "deserialize_geospatial_bound",
    "disable",
    "enable",
    "extract_envelope_from_wkb",
    "geospatial_column_aggregates_from_arrow_table",
    "is_enabled",
    "merge_envelopes",
    "scan",
    "serialize_geospatial_bound",
]


def __getattr__(name: str) -> object:
    home: object
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("disable", "enable", "is_enabled"):
        from geolake_nb.pyiceberg import bridge as home
    elif name.startswith("ST"):
        from geolake_nb.pyiceberg import predicates as home
    elif name == "scan":
        from geolake_nb.pyiceberg import scanning as home
    elif name == "geospatial_column_aggregates_from_arrow_table":
        from geolake_nb.pyiceberg import write_metrics as home
    else:
        from geolake_nb.pyiceberg import geospatial as home
    value: object = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
