"""Small sets of Parquet files with points, and what a reader that lists the folder sees of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tests.oracle.wkb_write import point, write

if TYPE_CHECKING:
    from pathlib import Path

GEO = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": {"encoding": "WKB", "geometry_types": []}}}


def points(first: int, count: int) -> pa.Table:
    """Rows `id, geom`, the point at (id, -id)."""
    ids = range(first, first + count)
    return pa.table({"id": list(ids), "geom": pa.array([write(point(float(n), -float(n))) for n in ids], pa.binary())})


def make_set(folder: Path, *, files: int = 3, rows: int = 10, geo: dict | None = GEO) -> Path:
    """Files with row groups of 4 rows, without geo types and boxes."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        properties = {} if geo is None else {"geo": json.dumps(geo)}
        table = points(number * rows, rows).replace_schema_metadata(properties)
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=4, write_page_index=True)
    return folder


def make_wide(path: Path, columns: int, *, encoding: str = "WKB") -> Path:
    """A file of one point in each of many geo columns, without geo types and boxes."""
    points = {"WKB": pa.array([write(point(1.0, 2.0))]), "point": pa.array([{"x": 1.0, "y": 2.0}])}
    names = [f"g{number}" for number in range(columns)]
    geo = GEO | {
        "primary_column": "g0",
        "columns": {name: GEO["columns"]["geom"] | {"encoding": encoding} for name in names},
    }
    table = pa.table(dict.fromkeys(names, points[encoding])).replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(table, path, compression="none", write_statistics=False)
    return path


def seen(folder: Path) -> list[int]:
    """The ids that a reader sees, who skips hidden names; each file has to be whole."""
    ids: list[int] = []
    for path in sorted(folder.rglob("*.parquet")):
        if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts):
            ids += pq.read_table(path, columns=["id"])["id"].to_pylist()
    return sorted(ids)


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of each file that a reader sees."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}
    return {name: data for name, data in files.items() if not name.startswith("_")}
