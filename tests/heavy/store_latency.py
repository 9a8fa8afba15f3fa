"""Tables in a store whose every answer takes 50 ms: `python -m tests.heavy.store_latency`.

A Delta table of 100,000 files is opened from each kind of checkpoint, an Iceberg table of as many from its manifests,
and the footers of 10,000 files are read. What counts is counted at the store: how many requests came one after the
other, and how many were under way at once. The time is at most that of the same table in the same store when it
answers at once, and the answers that came one after the other: 50 ms each, and what a bare client needs beside them.
The time on the local disk stands beside it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import geolake_nb as gl
from tests.heavy.bench_open_delta import make_checkpoint, make_json
from tests.heavy.folder_store import folder_store
from tests.http_proxy import longest_chain, most_in_flight
from tests.promises.stored_tables import in_parts, many_files, many_manifests, with_long_log, with_sidecars

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.heavy.folder_store import Served

LONGEST_CHAIN = 20
NOISE = 1.05
"""How far the best of some rounds is from the best of as many others on a shared machine."""
FEWEST_IN_FLIGHT = 64
MAKERS: dict[str, Callable[[Path, int], object]] = {
    "one checkpoint": lambda folder, files: make_checkpoint(folder, "geo", files),
    "40 parts": lambda folder, files: in_parts(folder, files, 40),
    "40 sidecar files": lambda folder, files: with_sidecars(folder, files, 40),
    "5,000 commits before": lambda folder, files: with_long_log(folder, files, 5_000),
    "JSON commits": lambda folder, files: make_json(folder, "geo", files),
    "Iceberg, 40 manifests": lambda folder, files: many_manifests(folder, files, 40),
}


@dataclass(frozen=True)
class Figures:
    """What reading from the store took."""

    seconds: float
    requests: int
    chain: int
    in_flight: int


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measured(store: Served, act: Callable[[], object]) -> Figures:
    store.seen()
    seconds = timed(act)
    seen = store.seen()
    return Figures(seconds, len(seen), longest_chain(seen), most_in_flight(seen))


def is_opened_late(name: str, root: Path, options: argparse.Namespace) -> bool:
    """Print what opening takes; whether it is too much."""
    folder = root / "lake" / "t"
    MAKERS[name](folder, options.files)
    disk: list[float] = []
    prompt: list[float] = []
    figures: list[Figures] = []
    with folder_store(root, delay=0) as quick, folder_store(root, delay=options.delay) as slow:
        answer = min(slow.seconds(["lake/none"]) for _ in range(10))
        for _ in range(options.rounds):  # in turns: the machine is as busy for one as for the other
            disk.append(timed(lambda: gl.open(str(folder))))
            prompt.append(timed(lambda: gl.open("s3://lake/t", storage_options=quick.options)))
            figures.append(measured(slow, lambda: gl.open("s3://lake/t", storage_options=slow.options)))
    shutil.rmtree(folder)
    got = min(figures, key=lambda figures: figures.seconds)
    limit = NOISE * (min(prompt) + answer * got.chain)
    late = got.chain > LONGEST_CHAIN or got.seconds > limit
    print(f"{'open, ' + name:28}{min(disk):9.3f}{min(prompt):9.3f}{got.seconds:9.3f}{limit:9.3f}{got.requests:10,}"
          f"{got.chain:10}{got.in_flight:9}{'  TOO LATE' if late else ''}", flush=True)  # fmt: skip
    return late


def are_footers_late(root: Path, options: argparse.Namespace) -> bool:
    """Print what reading footers takes; whether they are asked for too few at a time, or more than once."""
    folder = many_files(root / "lake" / "footers", options.footers)
    with folder_store(root, delay=options.delay) as store:
        table = gl.open("s3://lake/footers", storage_options=store.options)
        got = measured(store, table.row_groups)
    local = timed(gl.open(str(folder)).row_groups)
    late = got.in_flight < FEWEST_IN_FLIGHT or got.requests > options.footers
    print(f"{'footers':28}{local:9.3f}{'':9}{got.seconds:9.3f}{'':9}{got.requests:10,}{got.chain:10}{got.in_flight:9}"
          f"{'  TOO FEW AT A TIME' if late else ''}")  # fmt: skip
    return late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--footers", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    times = "".join(f"{name:>9}" for name in ("disk", "at once", "delayed", "at most"))
    print(f"{'what, in seconds':28}{times}{'requests':>10}{'in a row':>10}{'at once':>9}")
    with tempfile.TemporaryDirectory() as root:
        late = [is_opened_late(name, Path(root), options) for name in MAKERS]
        late.append(are_footers_late(Path(root), options))
    raise SystemExit(any(late))


if __name__ == "__main__":
    main()
