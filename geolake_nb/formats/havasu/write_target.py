"""How the new files of a Havasu table are laid out, and the action that adds each to a manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import BoundError
from geolake_nb.formats.iceberg.live_rows import PARTITION
from geolake_nb.formats.iceberg.manifest_target import ManifestTarget, bytes_text, problem_text
from geolake_nb.formats.iceberg.single_values import MetricsMode, bound_bytes
from geolake_nb.geo.bound_codec import to_havasu_wkb
from geolake_nb.model.crs import UNKNOWN_CRS, Crs
from geolake_nb.model.schema import Schema, join_path
from geolake_nb.model.types import GeometryEncoding, GeometryType, RasterType, StructType
from geolake_nb.parquet.geo_property import geo_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.box import Box
    from geolake_nb.model.types import DataType
    from geolake_nb.parquet.geoparquet import GeoMetadata
    from geolake_nb.parquet.writer import Layout, WrittenFile

__all__ = ["GEOPARQUET", "HavasuTarget", "bound_texts", "crs_property", "has_geoparquet"]

GEOPARQUET = "geolake.geoparquet-metadata"
"""The property of a table whose data files get GeoParquet metadata too, where it is `true`."""

_BYTES = (GeometryEncoding.EWKB, GeometryEncoding.WKB)


def has_geoparquet(properties: Mapping[str, str]) -> bool:
    """Whether the data files of a table with these properties get GeoParquet metadata.

    >>> has_geoparquet({GEOPARQUET: "TRUE"}), has_geoparquet({})
    (True, False)
    """
    return properties.get(GEOPARQUET, "").lower() == "true"


def crs_property(column: str) -> str:
    """The property of a table with the CRS for the GeoParquet metadata of a column whose values do not name it.

    >>> crs_property("geom")
    'geolake.geoparquet-crs.geom'
    """
    return f"geolake.geoparquet-crs.{column}"


@dataclass(frozen=True, slots=True, eq=False)
class HavasuTarget(ManifestTarget):
    """The requirements of a Havasu table for its new files."""

    def layout(self, job: WriteJob) -> Layout:
        """All columns, with their ids and without geo types."""
        from geolake_nb.parquet.writer import Layout

        return Layout(
            Schema(StructType(tuple(field for field in self.schema.fields if field.name != PARTITION.name))),
            row_group_rows=job.row_group_rows,
            measured=frozenset(path for path, _ in self.plain_columns()),
            geoparquet=self._geoparquet(),
            geo_types=False,
        )

    def entry(self, file: WrittenFile, partition: Partition) -> str:
        """The `add` of a file: bounds are base64 of the bytes that the manifest gets, by the ids of columns."""
        counts, nulls, nans = dict[str, int](), dict[str, int](), dict[str, int]()
        bounds: dict[str, dict[str, str]] = {"lower_bounds": {}, "upper_bounds": {}}
        for path, field in self.plain_columns():
            mode = MetricsMode.of(self.properties, join_path(path))
            range_ = file.scalars[path]
            if mode.counts:
                counts[str(field.id)], nulls[str(field.id)] = file.rows, range_.null_count
                if range_.nan_count is not None:
                    nans[str(field.id)] = range_.nan_count
            if mode.bounds:
                # Iceberg, Manifests: bounds are of the values that are numbers.
                ends = bound_bytes(*range_.numbers, field.type, length=mode.length)
                for name, packed in zip(bounds, ends, strict=True):
                    if packed is not None:
                        bounds[name][str(field.id)] = bytes_text(packed)
        geo: dict[str, dict[str, str]] = {"geom_lower_bounds": {}, "geom_upper_bounds": {}}
        problems: dict[str, str] = {}
        for path, stats in file.geo.items():
            field = self.schema.find(join_path(path))
            if self.in_structs(path):
                counts[str(field.id)], nulls[str(field.id)] = stats.rows, stats.null_count
            texts = None if stats.box is None else bound_texts(stats.box, field.type)
            if texts is not None:
                for name, text in zip(geo, texts, strict=True):
                    geo[name][str(field.id)] = text
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
        """The GeoParquet metadata of the files, where the table enables it."""
        # Havasu, Parquet data type mappings: of columns at the root in WKB and EWKB.
        tops = {
            field.name: GeometryType(self._crs(field.name))
            for field in self.schema.fields
            if isinstance(field.type, GeometryType) and field.type.encoding in _BYTES
        }
        return geo_template(tops) if has_geoparquet(self.properties) and tops else None

    def _crs(self, column: str) -> Crs:
        """The CRS of values that do not name one."""
        crs = Crs.parse(self.properties.get(crs_property(column), UNKNOWN_CRS))
        return crs if crs.is_resolvable else UNKNOWN_CRS

    def to_dict(self) -> dict[str, Any]:
        """`format, spec_id, partition_by`."""
        return {"format": "havasu", "spec_id": self.spec_id, "partition_by": list(self.partition_by)}


def bound_texts(box: Box, type_: DataType) -> tuple[str, str] | None:
    """The bounds of a box as base64, `None` where Havasu has none for it.

    >>> import base64
    >>> from geolake_nb.model.box import Box
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
