"""Tables whose statistics are right, and what makes one of them too small."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from deltalake import write_deltalake

import geolake_nb as gl
from geolake_nb.model.box import Box
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.parquet.schema import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "IN_WINDOW",
    "WINDOW",
    "points",
    "shrink_box",
    "shrink_covering",
    "shrink_log",
    "write_covered",
    "write_numbers",
    "write_points",
]

GROUP = 10
"""The rows of a row group."""
WINDOW = Box(23.25, 0, 27.25, 10)
"""In the second of three files, over parts of the second, all of the third and no part of the first row group."""
IN_WINDOW = 16


def points(number: int) -> np.ndarray:
    """40 points a quarter of a degree apart, 20 degrees to the east of those before."""
    steps = np.arange(4 * GROUP)
    return shapely.points(np.c_[20 * number + steps / 4 + 0.125, steps % 10])


def write_points(folder: Path, files: int = 3) -> Path:
    """Files of pyarrow with the geometry type and boxes of row groups."""
    folder.mkdir()
    for number in range(files):
        wkb = pa.array(shapely.to_wkb(points(number)), pa.binary())
        ids = pa.array(range(40 * number, 40 * number + 40), pa.int64())
        names = pa.array([f"n{step % 7}" for step in range(40)])
        table = pa.table({"id": ids, "name": names, "geom": to_arrow_type(gl.geometry()).wrap_array(wkb)})
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=GROUP)
    return folder


def shrink_box(path: Path, group: int, box: Box) -> None:
    """Put another box into the footer, of one row group."""
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    metadata = pq.read_metadata(path)
    leaf = metadata.schema.names.index("geom")
    groups: list[ChunkStats] = []
    for number in range(metadata.num_row_groups):
        known = metadata.row_group(number).column(leaf).geo_statistics
        right = Box(known.xmin, known.ymin, known.xmax, known.ymax)
        groups.append(ChunkStats(box if number == group else right, (1,), GROUP))
    footer = edit_footer(data[start:-8], {("geom",): LeafEdit(gl.geometry(), groups)})
    path.write_bytes(data[:start] + footer_with_tail(footer))
    assert pq.read_metadata(path).row_group(group).column(leaf).geo_statistics.xmax == box.xmax


def write_covered(folder: Path, files: int = 2) -> Path:
    """Files of GeoPandas with a bbox column, which is GeoParquet's covering."""
    folder.mkdir()
    for number in range(files):
        ids = np.arange(40) + 40 * number
        frame = geopandas.GeoDataFrame({"id": ids}, geometry=points(number), crs="OGC:CRS84")
        frame.to_parquet(folder / f"part-{number}.parquet", write_covering_bbox=True, row_group_size=GROUP)
    return folder


def shrink_covering(path: Path, rows: Sequence[int], box: Box) -> None:
    """Write another box for some rows into the bbox column; the minima and maxima in the footer follow it."""
    table = pq.read_table(path)
    boxes = table["bbox"].to_pylist()
    for row in rows:
        boxes[row] = {"xmin": box.xmin, "ymin": box.ymin, "xmax": box.xmax, "ymax": box.ymax}
    # Without the type of GeoArrow, which would have pyarrow write a right box beside the covering.
    plain = [
        values.cast(pa.binary()) if isinstance(values.type, pa.ExtensionType) else values for values in table.columns
    ]
    covered = pa.table(dict(zip(table.column_names, plain, strict=True)))
    column = pa.array(boxes, table.schema.field("bbox").type)
    covered = covered.set_column(covered.column_names.index("bbox"), "bbox", column)
    geo = {b"geo": table.schema.metadata[b"geo"]}
    pq.write_table(covered.replace_schema_metadata(geo), path, row_group_size=GROUP)


def write_numbers(folder: Path) -> Path:
    """A Delta table of deltalake with two versions and two files: the ids 0 to 9, and 100 to 109."""
    for start in (0, 100):
        write_deltalake(folder, pa.table({"id": pa.array(range(start, start + 10), pa.int64())}), mode="append")
    return folder


def shrink_log(folder: Path, most: int) -> None:
    """Let the log state that the ids of the newest file end at `most`."""
    log = max((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            stats = json.loads(action["add"]["stats"]) | {"maxValues": {"id": most}}
            action["add"]["stats"] = json.dumps(stats)
    log.write_text("\n".join(map(json.dumps, actions)))
