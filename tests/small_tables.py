"""One small table of each format with the same twelve points in three files, and nothing wrong with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl
from geolake_nb.geo.bound_codec import to_delta_wkt
from geolake_nb.parquet.schema import to_arrow_type
from tests.formats.havasu_tables import geometry_entry, make_havasu_table, raster_at, raster_entry
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table, xy

if TYPE_CHECKING:
    from pathlib import Path

# Three files of four points each, a degree apart, in three far places.
PLACES = [(10.0, 50.0), (-70.0, -30.0), (175.0, -18.0)]


def shapes(position: tuple[float, float]) -> list[shapely.Point]:
    x, y = position
    return [shapely.Point(x + step, y + step) for step in range(4)]


def data(position: tuple[float, float]) -> pa.Table:
    wkb = pa.array([shapely.to_wkb(shape) for shape in shapes(position)], pa.binary())
    return pa.table({"id": pa.array(range(4), pa.int64()), "geom": to_arrow_type(gl.geometry()).wrap_array(wkb)})


def make_parquet(folder: Path) -> Path:
    folder.mkdir()
    for number, position in enumerate(PLACES):
        pq.write_table(data(position), folder / f"part-{number}.parquet")
    return folder


def make_delta(folder: Path, *, bounds: bool = True) -> Path:
    make_parquet(folder)
    schema = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "geom", "type": "geometry(OGC:CRS84)", "nullable": True, "metadata": {}},
        ],
    }
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial"]}
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    metadata |= {"partitionColumns": [], "configuration": {}}
    log = folder / "_delta_log"
    log.mkdir()
    versions: list[list[dict]] = [[{"protocol": protocol}, {"metaData": metadata}], []]
    for number, position in enumerate(PLACES):
        path = f"part-{number}.parquet"
        stats: dict = {"numRecords": 4, "minValues": {"id": 0}, "maxValues": {"id": 3}}
        stats["nullCount"] = {"id": 0, "geom": 0}
        if bounds:
            low, high = to_delta_wkt(gl.bounds(data(position)["geom"]).box)
            stats["minValues"]["geom"], stats["maxValues"]["geom"] = low, high
        add = {"path": path, "partitionValues": {}, "size": (folder / path).stat().st_size}
        add |= {"modificationTime": 1_700_000_000_000, "dataChange": True, "stats": json.dumps(stats)}
        versions[min(number, 1)].append({"add": add})
    for version, actions in enumerate(versions):
        text = "\n".join(json.dumps(action) for action in [{"commitInfo": {"operation": "WRITE"}}, *actions])
        (log / f"{version:020}.json").write_text(text)
    return folder


def make_iceberg(folder: Path) -> Path:
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    entries = [
        FileEntry(
            f"part-{number}.parquet",
            rows=4,
            nulls={1: 0, 2: 0},
            lower={2: xy(x, y)},
            upper={2: xy(x + 3, y + 3)},
            table=data((x, y)),
        )
        for number, (x, y) in enumerate(PLACES)
    ]
    make_iceberg_table(folder, columns, entries[:1], entries[1:], version=3)
    return folder


def make_havasu(folder: Path) -> Path:
    make_havasu_table(
        folder, [geometry_entry(f"f{number}", shapes(position)) for number, position in enumerate(PLACES)]
    )
    return folder


def make_rasters(folder: Path) -> Path:
    entries = [raster_entry(f"r{number}", [raster_at(*position)], None) for number, position in enumerate(PLACES)]
    make_havasu_table(folder, entries, encoding=None, rasters=True)
    return folder
