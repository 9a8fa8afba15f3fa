"""Delta tables of points in real files, written without Spark, for plans of rewrites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from geolake_nb.geo.bound_codec import to_delta_wkt
from geolake_nb.model.box import Box
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol

if TYPE_CHECKING:
    from pathlib import Path

    from geolake_nb.model.change import Change

FIELDS = (field("id", "long"), field("geom", "geometry(OGC:CRS84)"))


EARTH = Box(-180, -90, 180, 90)


class PointTable(LogMaker):
    """Files of points that lie all over the place: each file covers all of it."""

    def __init__(
        self, folder: Path, *, fields: Any = FIELDS, partitions: tuple[str, ...] = (), features: tuple[str, ...] = ()
    ) -> None:
        super().__init__(folder)
        self._actions: list[dict[str, Any]] = [
            protocol("geospatial", *features),
            metadata(*fields, partitions=partitions),
        ]
        self._draw = np.random.default_rng(5)

    def points(self, name: str, *, rows: int = 1000, span: Box = EARTH, bounds: bool = True, **more: Any) -> PointTable:
        """A file with that many points in a box."""
        x, y = self._draw.uniform(span.xmin, span.xmax, rows), self._draw.uniform(span.ymin, span.ymax, rows)
        shapes = pa.array(shapely.to_wkb(shapely.points(x, y)), pa.binary())
        (self.folder / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": np.arange(rows), "geom": shapes}), self.folder / name, row_group_size=250)
        stats: dict[str, Any] = {"numRecords": rows, "nullCount": {"id": 0, "geom": 0}}
        if bounds:
            low, high = to_delta_wkt(Box(x.min(), y.min(), x.max(), y.max()))
            stats |= {"minValues": {"geom": low}, "maxValues": {"geom": high}}
        self._actions.append(add(name, stats, **({"size": (self.folder / name).stat().st_size} | more)))
        return self

    def bare(self, name: str, size: int, *, rows: int | None = 100, **more: Any) -> PointTable:
        """A file of that size that is never read."""
        self._actions.append(add(name, None if rows is None else {"numRecords": rows}, **({"size": size} | more)))
        return self

    def made(self) -> PointTable:
        self.commit(0, *self._actions)
        return self

    def plan(self, **options: Any) -> Change:
        from geolake_nb.changes.rewrite import rewrite_filter
        from geolake_nb.changes.write_job import Packing
        from geolake_nb.formats.delta.rewrite import plan_rewrite

        snapshot, where = self.open(), options.pop("where", None)
        predicate = None if where is None else rewrite_filter(snapshot, where)
        return plan_rewrite(self.storage, snapshot, packing=Packing.of(**options), where=predicate)
