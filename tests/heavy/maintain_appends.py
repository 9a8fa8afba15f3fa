"""Tables that grow by many appends, one maintained within a budget and one rewritten in full each time.

python -m tests.heavy.maintain_appends --appends 200 --every 10 --format delta iceberg --data random drifting
Both tables get the same rows. After every tenth append one is maintained and the other clustered as a whole; windows
around rows are explained on both, and the rows of the first are compared with those that were appended. It fails where
the median window reads more than `MAX_READ` times the share of the other table, or where more than `MAX_WRITTEN` of its
bytes were written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import shapely

import geolake_nb as gl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    Points = NDArray[np.float64]

MAX_READ = 1.5
MAX_WRITTEN = 0.2
FILE_SIZE = 20_000
_ROWS = 2_000
_WINDOWS = 100
_SIDE = 3.0
_COLUMNS = {"geom": gl.geometry("OGC:CRS84")}


def random_points(number: int) -> Points:
    """Rows all over a square."""
    return np.random.default_rng(number).random((_ROWS, 2)) * 80


def drifting_points(number: int) -> Points:
    """Rows around a place that moves with each append."""
    draw = np.random.default_rng(number)
    return np.clip(draw.normal((number % 200 * 0.4, 40.0), (6.0, 20.0), (_ROWS, 2)), -80, 89)


DATA: dict[str, Callable[[int], Points]] = {"random": random_points, "drifting": drifting_points}


@dataclass
class Run:
    """What was read and written at each maintenance."""

    maintained: list[float] = field(default_factory=list)
    rewritten: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    maintained_bytes: int = 0
    rewritten_bytes: int = 0

    @property
    def ratio(self) -> float:
        """The worst ratio of the shares that the median window reads."""
        return max(kept / whole for kept, whole in zip(self.maintained, self.rewritten, strict=True))

    @property
    def written(self) -> float:
        """The share of the bytes of the full rewrites that maintenance wrote."""
        return self.maintained_bytes / self.rewritten_bytes


def appends(
    spark: SparkSession, folder: Path, kind: str, data: str, *, count: int, every: int, target: float, budget: str
) -> Run:
    """Append so many times to two tables; maintain one and rewrite the other."""
    points = DATA[data]
    tables = [str(folder / name) for name in ("maintained", "rewritten")]
    run, model = Run(), dict[int, bytes]()
    for number in range(count):
        rows = _rows(points(number), number * _ROWS)
        model |= dict(zip(rows["id"].to_pylist(), rows["geom"].to_pylist(), strict=True))
        for table in tables:
            mode = "append" if number else "create"
            gl.write(rows, table, format=kind, mode=mode, columns=_COLUMNS, target_file_size="10MB", spark=spark)
        if (number + 1) % every:
            continue
        windows = _windows(np.array(list(map(points, range(number + 1)))).reshape(-1, 2))
        kept, whole = (gl.open(table) for table in tables)
        run.before.append(_median(kept, windows))
        report = kept.maintain(budget=budget, target=target, target_file_size=FILE_SIZE, spark=spark)
        run.maintained_bytes += sum(step.metrics.get("bytes_added", 0) for step in report.steps)
        done = whole.plan_rewrite(cluster_by="geom", target_file_size=FILE_SIZE).apply(spark=spark)
        run.rewritten_bytes += done.metrics["bytes_added"]
        kept, whole = (gl.open(table) for table in tables)
        require_rows(kept, model)
        run.maintained.append(_median(kept, windows))
        run.rewritten.append(_median(whole, windows))
        shares = [f"{shares[-1]:.2%}" for shares in (run.before, run.maintained, run.rewritten)]
        print(
            f"{kind} {data} {number + 1}: before {shares[0]}, maintained {shares[1]}, rewritten {shares[2]};", end=" "
        )
        print(f"written {run.maintained_bytes:,} of {run.rewritten_bytes:,} ({run.written:.1%})", flush=True)
    return run


def require_rows(table: gl.Table, model: dict[int, bytes]) -> None:
    """Fail where the rows of a table are not those of the model."""
    read = table.scan(columns=["id", "geom"]).to_arrow()
    rows = dict(zip(read["id"].to_pylist(), map(bytes, read["geom"].to_pylist()), strict=True))
    assert read.num_rows == len(model), f"{read.num_rows} rows, expected {len(model)}"
    assert rows == model, "the rows are not those that were appended"


def _rows(points: Points, start: int) -> pa.Table:
    shapes = shapely.to_wkb(shapely.points(points))
    return pa.table({"id": np.arange(start, start + len(points)), "geom": pa.array(shapes, pa.binary())})


def _windows(points: Points) -> list[tuple[float, float, float, float]]:
    some = np.random.default_rng(1).choice(points, _WINDOWS)
    return [(x - _SIDE / 2, y - _SIDE / 2, x + _SIDE / 2, y + _SIDE / 2) for x, y in some.tolist()]


def _median(table: gl.Table, windows: Sequence[tuple[float, float, float, float]]) -> float:
    """The share of the bytes that the median window reads."""
    answers = [table.explain(window) for window in windows]
    return float(np.median([answer.read.bytes / answer.total.bytes for answer in answers]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run each combination; 1 where a limit is passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--target", type=float, default=1.4)
    parser.add_argument("--budget", default="1MB")
    parser.add_argument("--format", nargs="+", choices=["delta", "iceberg"], default=["delta", "iceberg"])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    options = parser.parse_args(arguments)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        spark = gl.session()
        for kind in options.format:
            for data in options.data:
                place = Path(folder) / f"{kind}_{data}"
                run = appends(
                    spark,
                    place,
                    kind,
                    data,
                    count=options.appends,
                    every=options.every,
                    target=options.target,
                    budget=options.budget,
                )
                failed |= run.ratio > MAX_READ or run.written > MAX_WRITTEN
                print(f"{kind} {data}: reads at most {run.ratio:.2f} times as much, writes {run.written:.1%}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
