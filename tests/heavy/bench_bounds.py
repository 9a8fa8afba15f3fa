"""Bounds and per-row boxes against geoarrow-c, SedonaDB and shapely: `python -m tests.heavy.bench_bounds`.

Each pair runs on the same data in one process on one thread, best of several rounds taken in turns, so that
a busy machine slows both sides alike. What counts is the ratio; 1.0 means as fast as the peer.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import shapely

from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios

if TYPE_CHECKING:
    from collections.abc import Callable

pa.set_cpu_count(1)


def make_points(count: int, rng: np.random.Generator) -> np.ndarray:
    return shapely.points(rng.uniform(-180, 180, count), rng.uniform(-90, 90, count))


def make_rings(count: int, rng: np.random.Generator, vertices: int) -> np.ndarray:
    centre = np.stack([rng.uniform(-170, 170, count), rng.uniform(-80, 80, count)], axis=1)
    angle = np.linspace(0, 2 * np.pi, vertices, endpoint=True)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return centre[:, None, :] + 0.01 * circle[None, :, :]


def datasets(scale: float) -> dict[str, pa.Array]:
    """The three data sets: 1M points, 300k polygons of 13 vertices, 100k lines of 50 vertices."""
    rng = np.random.default_rng(1)
    shapes = {
        "points": make_points(int(1_000_000 * scale), rng),
        "polygons": shapely.polygons(make_rings(int(300_000 * scale), rng, 13)),
        "lines": shapely.linestrings(make_rings(int(100_000 * scale), rng, 50)),
    }
    return {name: pa.array(shapely.to_wkb(values), pa.binary()) for name, values in shapes.items()}


def best_in_turns(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time of each, all of them once a round."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full data sets")
    parser.add_argument("--rounds", type=int, default=7)
    add_ratio_option(parser)
    options = parser.parse_args()

    import geoarrow.pyarrow as ga
    import sedonadb

    from geolake_nb.geo.bounds import bounds, row_boxes

    sedona = sedonadb.connect()
    sedona.sql("SET datafusion.execution.target_partitions = 1").execute()
    print(f"{'data':10}{'rows':>10}  {'what':22}{'M rows/s':>10}{'ours / peer':>13}")
    measured = []
    for name, wkb in datasets(options.scale).items():
        column = ga.wkb().wrap_array(wkb)
        sedona.create_data_frame(pa.table({"g": column})).to_view("t", overwrite=True)
        query = sedona.sql("SELECT ST_Envelope_Agg(g) FROM t")
        aggregate = {
            "bounds": lambda wkb=wkb: bounds(wkb),
            "geoarrow-c box_agg": lambda column=column: ga.box_agg(column),
            "sedonadb ST_Envelope_Agg": lambda query=query: query.to_arrow_table(),
            "shapely total_bounds": lambda wkb=wkb: shapely.total_bounds(
                shapely.from_wkb(wkb.to_numpy(zero_copy_only=False))
            ),
        }
        rows = {
            "row_boxes": lambda wkb=wkb: row_boxes(wkb),
            "geoarrow-c box": lambda column=column: ga.box(column),
        }
        for ours, runs, wanted in (
            ("bounds", aggregate, {"shapely total_bounds": 10.0}),
            ("row_boxes", rows, {}),
        ):
            times = best_in_turns(runs, options.rounds)
            for what, seconds in times.items():
                ratio = seconds / times[ours]
                shown = "" if what == ours else f"{ratio:12.1f}x"
                if what != ours:
                    measured.append(Ratio(f"{ours} of {len(wkb):,} {name}", what, ratio, wanted.get(what, 1.0)))
                print(f"{name:10}{len(wkb):>10}  {what:22}{len(wkb) / seconds / 1e6:>10.1f}{shown:>13}")
    raise SystemExit(print_ratios(measured, options.ratios))


if __name__ == "__main__":
    main()
