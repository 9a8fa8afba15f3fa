"""An append of a million rows with geometries through the bridge, against PyIceberg's append of them as plain binary.

`python -m tests.heavy.bench_pyiceberg [ROWS]` appends, in turns and to tables in SQLite, the same points and polygons
as plain binary to a table of version 2 by PyIceberg alone, and as a geometry to one of version 3 with the bridge. The
medians count: with bounds, logical types and row ids an append takes at most 1.2 times as long.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
import shapely
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DoubleType, GeometryType, LongType, NestedField, StringType

import geolake_nb.pyiceberg as geo
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios

ROUNDS = 7
AT_MOST = 1.2


def rows(count: int, *, polygons: bool) -> pa.Table:
    """Rows as of a table of places."""
    draw = np.random.default_rng(7)
    x, y = draw.uniform(-180, 180, count), draw.uniform(-85, 85, count)
    shapes = shapely.box(x, y, x + 0.01, y + 0.01) if polygons else shapely.points(x, y)
    return pa.table({
        "id": np.arange(count),
        "value": draw.uniform(0, 1, count),
        "name": [f"place {number % 5000}" for number in range(count)],
        "geom": pa.array(shapely.to_wkb(shapes), pa.binary()),
    })  # fmt: skip


def schema(geom: BinaryType | GeometryType) -> Schema:
    return Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "value", DoubleType()),
        NestedField(3, "name", StringType()),
        NestedField(4, "geom", geom),
    )


def seconds(catalog, name: str, table: pa.Table, *, bridged: bool) -> float:
    """The time of the processor for one append to a new table: the machine is shared."""
    if bridged:
        geo.enable()
    try:
        type_, version = (GeometryType(), "3") if bridged else (BinaryType(), "2")
        made = catalog.create_table(f"ns.{name}", schema=schema(type_), properties={"format-version": version})
        start = time.process_time()
        made.append(table)
        return time.process_time() - start
    finally:
        geo.disable()


def main() -> int:
    """Measure points and polygons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    add_ratio_option(parser)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        catalog = load_catalog("c", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        catalog.create_namespace("ns")
        for polygons in (False, True):
            table = rows(options.rows, polygons=polygons)
            times: dict[bool, list[float]] = {False: [], True: []}
            for round_ in range(ROUNDS + 1):
                for bridged in (False, True):
                    taken = seconds(catalog, f"t{polygons}{round_}{bridged}", table, bridged=bridged)
                    if round_:  # in the first one modules are imported
                        times[bridged].append(taken)
            plain, with_bounds = (statistics.median(times[bridged]) for bridged in (False, True))
            what = f"append of {options.rows:,} {'polygons' if polygons else 'points'} with PyIceberg and the bridge"
            print(f"{what}: {with_bounds:.3f} s, as plain binary {plain:.3f} s", flush=True)
            ratios.append(Ratio(what, "PyIceberg with plain binary", plain / with_bounds, 1 / AT_MOST))
        catalog.engine.dispose()
    return print_ratios(ratios, options.ratios)


if __name__ == "__main__":
    raise SystemExit(main())
