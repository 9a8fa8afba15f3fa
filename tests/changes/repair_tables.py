"""Delta tables with real Parquet files, whose geo statistics are missing or wrong in chosen ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.delta.repair import finish_repair, plan_repair
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.parquet.schema import to_arrow_type
from geolake_nb.scan.value_scan import scan_part
from geolake_nb.spark.applying import apply_change
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol

if TYPE_CHECKING:
    from pathlib import Path

    from geolake_nb.model.change import Change

GEOMETRY = "geometry(OGC:CRS84)"
GEOGRAPHY = "geography(OGC:CRS84, spherical)"


def wkb(*texts: str | bytes | None) -> pa.Array:
    values = [shapely.to_wkb(shapely.from_wkt(text), flavor="iso") if isinstance(text, str) else text for text in texts]
    return pa.array(values, pa.binary())


def typed(array: pa.Array, type_: Any = None) -> pa.Array:
    """With a logical type, so that pyarrow writes boxes of geometries into the footer."""
    return to_arrow_type(type_ or gl.geometry()).wrap_array(array)


class GeoTable(LogMaker):
    """A table whose first version holds the schema, and whose files are added one by one."""

    def __init__(self, folder: Path, *fields: dict[str, Any], features: tuple[str, ...] = (), **configuration: str):
        super().__init__(folder)
        named = fields or (field("id", "long"), field("geom", GEOMETRY))
        self.commit(0, protocol("geospatial", *features), metadata(*named, **configuration))

    def file(self, name: str, columns: dict[str, Any], stats: Any = None, **more: Any) -> GeoTable:
        """Write a data file and add it in a version of its own; `stats` as they are, a dict or a text."""
        groups = more.pop("row_group_size", None)
        pq.write_table(pa.table(columns), self.folder / name, row_group_size=groups)
        size = (self.folder / name).stat().st_size
        action = add(name, stats, **({"size": size} | more))
        self.commit(self.open().version + 1, {"commitInfo": {"operation": "WRITE"}}, action)
        return self

    def plan(self, **options: Any) -> Change:
        return plan_repair(self.storage, self.open(), **options)

    def scanned(self, change: Change) -> Change:
        """The change after its scan, which runs here."""
        if change.job is None:
            return change
        reader = FooterReader()
        job = change.job
        stats = {
            index: scan_part(
                self.storage, file.key, [job.columns[stored.column] for stored in file.scanned], reader=reader
            )
            for index, file in enumerate(job.files)
        }
        return finish_repair(change, job, stats)

    def repair(self, **options: Any) -> Change:
        """Plan, scan and commit; the change as it was committed."""
        change = self.scanned(self.plan(**options))
        if not change.is_empty:
            apply_change(change, CommitContext(self.storage, f"t{self.open().version}"))
        return change

    def stats(self, name: str) -> dict[str, Any] | None:
        snapshot = self.open()
        return snapshot.details.stats.object(snapshot.files.table["path"].to_pylist().index(name))

    def bound(self, name: str, column: str = "geom") -> tuple[str | None, str | None]:
        stats = self.stats(name) or {}
        return stats.get("minValues", {}).get(column), stats.get("maxValues", {}).get(column)


def texts(change: Change) -> list[dict[str, Any]]:
    return [json.loads(action) for action in change.actions]
