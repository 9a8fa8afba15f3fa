"""How the new files of a Havasu table are laid out, and the action that adds each to a manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.core.bound_codec import to_havasu_wkb
from geolake_nb.core.schema import Schema, join_path
from geolake_nb.core.types import GeometryEncoding, GeometryType, RasterType, StructType
from geolake_nb.errors import BoundError
from geolake_nb.formats.iceberg.live_rows import PARTITION
from geolake_nb.formats.iceberg.single_values import MetricsMode, bound_bytes
from geolake_nb.formats.parquet.geo_property import geo_template
from geolake_nb.planning.manifests.target import ManifestTarget, bytes_text, problem_text

if TYPE_CHECKING:
    from geolake_nb.core.box import Box
    from geolake_nb.core.geoparquet import GeoMetadata
    from geolake_nb.core.types import DataType
    from geolake_nb.formats.parquet.writer import Layout, WrittenFile
    from geolake_nb.planning.writing.job import WriteJob
    from geolake_nb.planning.writing.sampling import Partition

__all__ = ["GEOPARQUET", "HavasuTarget", "bound_texts"]

GEOPARQUET = "geolake.geoparquet-metadata"
"""The property of a table whose data files get GeoParquet metadata too, where it is `true`."""

_BYTES = (GeometryEncoding.EWKB, GeometryEncoding.WKB)


@dataclass(frozen=True, slots=True, eq=False)
class HavasuTarget(ManifestTarget):
    """What a Havasu table asks of its new files."""

    def layout(self, job: WriteJob) -> Layout:
        """All columns, with their ids and without geo types."""
        from geolake_nb.formats.parquet.writer import Layout

        return Layout(
            Schema(StructType(tuple(one for one in self.schema.fields if one.name != PARTITION.name))),
            row_group_rows=job.row_group_rows,
            measured=frozenset(path for path, _ in self.plain_columns()),
            geoparquet=self._geoparquet(),
            geo_types=False,
        )

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The `add` of a file: bounds are base64 of the bytes that the manifest gets, by the ids of columns."""
        counts, nulls, nans = dict[str, int](), dict[str, int](), dict[str, int]()
        bounds: dict[str, dict[str, str]] = {"lower_bounds": {}, "upper_bounds": {}}
        for path, one in self.plain_columns():
            mode = MetricsMode.of(self.properties, join_path(path))
            found = file.scalars[path]
            if mode.counts:
                counts[str(one.id)], nulls[str(one.id)] = file.rows, found.null_count
                if found.nan_count is not None:
                    nans[str(one.id)] = found.nan_count
            if mode.bounds:
                # Iceberg, Manifests: bounds are of the values that are numbers.
                ends = bound_bytes(*found.numbers, one.type, length=mode.length)
                for name, packed in zip(bounds, ends, strict=True):
                    if packed is not None:
                        bounds[name][str(one.id)] = bytes_text(packed)
        geo: dict[str, dict[str, str]] = {"geom_lower_bounds": {}, "geom_upper_bounds": {}}
        problems: dict[str, str] = {}
        for path, stats in file.geo.items():
            one = self.schema.find(join_path(path))
            if self.in_structs(path):
                counts[str(one.id)], nulls[str(one.id)] = stats.rows, stats.null_count
            texts = None if stats.box is None else bound_texts(stats.box, one.type)
            if texts is not None:
                for name, text in zip(geo, texts, strict=True):
                    geo[name][str(one.id)] = text
            elif not stats.only_null_or_empty:
                problems[join_path(path)] = problem_text(stats)
        spec_id, values = self.partition_of(file, partition)
        add = {
            "path": file.path,
            "file_size_in_bytes": file.bytes,
            "record_count": file.rows,
            "spec_id": spec_id,
            "partition": values,
            "value_counts": counts,
            "null_value_counts": nulls,
            "nan_value_counts": nans,
            **bounds,
            **geo,
        }
        if problems:
            add["problems"] = problems
        return json.dumps({"add": add}, separators=(",", ":"), ensure_ascii=False)

    def _geoparquet(self) -> GeoMetadata | None:
        """What files say to readers of GeoParquet, where the table wants it."""
        # Havasu, Parquet data type mappings: of columns at the root in WKB and EWKB.
        tops = {
            one.name: GeometryType(one.type.crs)
            for one in self.schema.fields
            if isinstance(one.type, GeometryType) and one.type.encoding in _BYTES
        }
        wanted = self.properties.get(GEOPARQUET, "").lower() == "true"
        return geo_template(tops) if wanted and tops else None

    def to_dict(self) -> dict[str, Any]:
        """`format, spec_id, partition_by`."""
        return {"format": "havasu", "spec_id": self.spec_id, "partition_by": list(self.partition_by)}


def bound_texts(box: Box, type_: DataType) -> tuple[str, str] | None:
    """The bounds of a box as a plan holds them, `None` where Havasu has none for it.

    >>> import base64
    >>> from geolake_nb.core.box import Box
    >>> base64.b64decode(bound_texts(Box(1, 2, 3, 4), GeometryType())[0]).hex()
    '0101000000000000000000f03f0000000000000040'
    >>> over_180 = Box(170, 0, -170, 1)
    >>> bound_texts(over_180, GeometryType()) is None, bound_texts(over_180, RasterType()) is None
    (True, False)
    """
    try:
        # Havasu, Raster bounds: only those may cross the antimeridian.
        low, high = to_havasu_wkb(box, circular=isinstance(type_, RasterType))
    except BoundError:
        return None
    return bytes_text(low), bytes_text(high)
