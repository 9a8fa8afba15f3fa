"""Five layouts of SpatialBench's trips in the order of the advisor, next to the order that real rewrites give.

`python -m tests.heavy.advisor_ranks` makes 6 million trips, asks `t.advise` for five layouts by two sets of 200 queries
(windows on the pick-up points; windows on the drop-off points within a month), then writes the rows in each of the five
layouts and explains the same queries on each. It fails unless both orders are the same: layouts whose real shares are
within `SAME` of each other may come in either order. `-s 0.02` is a short run.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import geolake_nb as gl
from tests.heavy.show_trips import DROPOFF, PICKUP, _points, make_trips

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

SAME = 0.02
"""Relative: layouts whose real shares are this near to each other may come in either order."""
TIME = "t_pickuptime"
_FILES = 64
_MONTH = dt.timedelta(days=30)

LAYOUTS: dict[str, dict[str, Any]] = {
    "pick-up": {"cluster_by": PICKUP},
    "drop-off": {"cluster_by": DROPOFF},
    "pick-up and time": {"cluster_by": [PICKUP, TIME]},
    "time": {"cluster_by": TIME},
    "geohash of the drop-off": {"cluster_by": DROPOFF, "partition_by": gl.cell(DROPOFF, "geohash:1", name="cell")},
}


def query_sets(points: np.ndarray, span: tuple[dt.datetime, dt.datetime], count: int) -> dict[str, list[str]]:
    """Windows on one column, and windows on the other within a month."""
    draw = np.random.default_rng(1)
    sets: dict[str, list[str]] = {"windows": [], "windows in a month": []}
    first, last = span
    for x, y in draw.choice(points, count).tolist():
        sets["windows"].append(f"ST_Intersects({PICKUP}, ST_MakeEnvelope({x - 1}, {y - 1}, {x + 1}, {y + 1}))")
        start = first + (last - first - _MONTH) * draw.random()
        window = f"ST_MakeEnvelope({x - 3}, {y - 3}, {x + 3}, {y + 3})"
        since, until = (f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}'" for moment in (start, start + _MONTH))
        times = f"{TIME} >= {since} AND {TIME} < {until}"
        sets["windows in a month"].append(f"ST_Intersects({DROPOFF}, {window}) AND {times}")
    return sets


def real_share(table: gl.Table, queries: Sequence[str]) -> float:
    """The mean share of the bytes in the files that the queries read."""
    answers = [table.explain(query) for query in queries]
    return float(np.mean([answer.read.bytes / answer.total.bytes for answer in answers]))


def same_order(predicted: dict[str, float], real: dict[str, float]) -> bool:
    """Whether no two layouts are ranked against what really is read."""
    names = sorted(predicted, key=predicted.__getitem__)
    return all(
        real[better] <= real[worse] * (1 + SAME) for index, better in enumerate(names) for worse in names[index + 1 :]
    )


def show(spark: SparkSession, folder: Path, *, scale: float, queries: int) -> bool:
    """Predict, write, measure; prints both shares of each layout."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    parts = make_trips(folder, scale)
    point = gl.geometry("OGC:CRS84")
    parquet = gl.open(str(parts[0].parent))
    start = folder / "trips"
    columns = {PICKUP: point, DROPOFF: point}
    parquet.plan_convert(str(start), columns=columns).apply(spark=spark)
    table = gl.open(str(start))
    size = sum(table.files.table["bytes"].to_pylist())
    span = pc.min_max(ds.dataset(parts).to_table([TIME])[TIME]).as_py()
    sets = query_sets(_points(parts), (span["min"], span["max"]), queries)
    target = max(1, size // _FILES)
    predicted: dict[str, dict[str, float]] = {}
    counts: dict[str, Any] = {}
    for name, asked in sets.items():
        began = time.perf_counter()
        shares = {}
        advice = table.advise(asked, layouts=[*LAYOUTS.values()], target_file_size=target)
        for layout in advice.layouts:
            wanted = tuple(layout.option.packing.cluster_by), layout.option.partition_by is not None
            for known, options in LAYOUTS.items():
                by = options["cluster_by"]
                if ((by,) if isinstance(by, str) else tuple(by), "partition_by" in options) == wanted:
                    shares[known] = layout.result.share
                    counts[known] = layout.result.files
        predicted[name] = shares
        print(f"{name}: advised in {time.perf_counter() - began:.1f} s; as it is {advice.now:.1%}", flush=True)
    real: dict[str, dict[str, float]] = {name: {} for name in sets}
    for name, options in LAYOUTS.items():
        if "partition_by" in options:
            # A conversion goes by the bytes of the files that it reads.
            source = sum(part.stat().st_size for part in parts)
            place = str(folder / "partitioned")
            plan = parquet.plan_convert(place, columns=columns, target_file_size=target * source // size, **options)
        else:
            place = str(start)
            plan = gl.open(place).plan_rewrite(target_file_size=target, **options)
        plan.apply(spark=spark)
        written = gl.open(place)
        counts[name] = counts[name], len(written.snapshot.files)
        for asked in sets:
            real[asked][name] = real_share(written, sets[asked])
    agreed = True
    for asked in sets:
        agreed &= same_order(predicted[asked], real[asked])
        print(f"{asked}: {'the same order' if same_order(predicted[asked], real[asked]) else 'ANOTHER ORDER'}")
        for name in sorted(real[asked], key=real[asked].__getitem__):
            print(f"  {name:<28}predicted {predicted[asked][name]:.2%}, really {real[asked][name]:.2%}", end="")
            print(f"; files: {counts[name][0]}, {counts[name][1]}")
    return agreed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 where the orders differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-s", "--scale", type=float, default=1.0)
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        agreed = show(gl.session(), Path(folder), scale=options.scale, queries=options.queries)
    return int(not agreed)


if __name__ == "__main__":
    sys.exit(main())
