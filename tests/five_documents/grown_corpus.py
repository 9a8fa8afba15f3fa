"""A copy of the corpus with more files: `python -m tests.five_documents.grown_corpus NEW_FOLDER`.

The corpus grows without us: no test may count its files, or expect that those it finds are of a kind that it has seen.
`GEOLAKE_CORPUS=NEW_FOLDER python3 -m tests` has to be as green as before.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import geoarrow.pyarrow as ga
import geopandas as gpd
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

__all__ = ["grow"]


def grow(corpus: Path, target: Path) -> None:
    """Copy the corpus and add ten files and tables to it."""
    shutil.copytree(corpus, target)
    for folder, _, _ in os.walk(target):  # the original may be read-only
        Path(folder).chmod(0o755)
    frame = gpd.GeoDataFrame({"n": [1, 2]}, geometry=shapely.points([[7.0, 46.0], [8.0, 47.0]]), crs=4326)
    frame.to_parquet(target / "geoparquet" / "more_points.parquet")
    frame.to_crs(2056).to_parquet(target / "geoparquet" / "more_swiss.parquet", write_covering_bbox=True)
    frame.to_parquet(target / "geoparquet" / "more_geoarrow.parquet", geometry_encoding="geoarrow")
    wkb = pa.array(shapely.to_wkb(frame.geometry.to_numpy()), pa.binary())
    types = {
        "more_local": ga.wkb().with_crs("my local grid"),
        "more_srid": ga.wkb().with_crs("srid:5070"),
        "more_sphere": ga.wkb().with_edge_type(ga.EdgeType.SPHERICAL),
    }
    for name, kind in types.items():
        typed = pa.table({"g": pa.ExtensionArray.from_storage(kind, wkb)})
        pq.write_table(typed, target / "parquet_geo" / f"{name}.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), target / "geodata" / "more_plain.parquet")
    pq.write_table(pa.table({"g": wkb}), target / "geodata" / "more_untyped.parquet")
    first = min(path for path in (target / "delta" / "delta-golden").iterdir() if path.is_dir())
    shutil.copytree(first, first.with_name("more_table"))
    shutil.copy(target / "wkb" / "geoarrow-c" / "point.wkb", target / "wkb" / "geoarrow-c" / "more.wkb")


if __name__ == "__main__":
    grow(Path(os.environ["GEOLAKE_CORPUS"]), Path(sys.argv[1]))
