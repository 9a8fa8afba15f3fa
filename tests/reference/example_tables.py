"""The tables that the examples of the pages are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import shapely
from deltalake import write_deltalake

from tests import small_tables

if TYPE_CHECKING:
    from pathlib import Path


def make_example_tables(folder: Path) -> None:
    small_tables.make_delta(folder / "roads", bounds=False)
    small_tables.make_parquet(folder / "parcels")
    small_tables.make_rasters(folder / "scenes")
    shapes = [shapely.to_wkb(shapely.Point(x, x)) for x in range(3)]
    write_deltalake(folder / "places", pa.table({"name": ["Aa", "äa", "b"], "shape": pa.array(shapes, pa.binary())}))
