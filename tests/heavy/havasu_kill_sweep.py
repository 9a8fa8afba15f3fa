"""Havasu: kill -9 at random moments of commits by two writers: every row is there once or not at all.

python -m tests.heavy.havasu_kill_sweep --count 200
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from geolake_nb.storage.storage import Storage
from tests.formats.havasu_rows import EWKB, append, appends, create, ids, metadata_of, points

_CONTEXT = multiprocessing.get_context("fork")
_COMMITS = 50


def sweep(folder: Path, *, count: int, seed: int, version: int = 2) -> dict[str, int]:
    """Kill `count` writers while another one goes on; how many rows of the victims are in, and all commits."""
    create(folder, points(1), columns=EWKB, version=version)
    draw = random.Random(seed)
    steady = 0
    for number in range(count):
        first = 1000 * (number + 1)
        victim = _CONTEXT.Process(target=appends, args=(str(folder), first, _COMMITS))
        victim.start()
        append(folder, points(1, first=first + 500))  # a second writer meets the victim
        steady += 1
        time.sleep(draw.uniform(0, 0.2))
        os.kill(victim.pid or 0, signal.SIGKILL)
        victim.join()
        stored = ids(folder)
        mine = [id_ for id_ in stored if first <= id_ < first + 500]
        # The victim adds one row after the other: what is in is a start of them, without a gap and none twice.
        assert mine == list(range(first, first + len(mine))), (number, mine)
        assert first + 500 in stored, number
        assert len(stored) == len(set(stored)), number
        assert len(metadata_of(folder)["snapshots"]) == len(stored), number
    left = [file.path for file in Storage.at(str(folder)).list("metadata") if file.path.endswith(".metadata.json")]
    assert len(left) == len(metadata_of(folder)["snapshots"])
    return {"kills": count, "rows of victims": len(ids(folder)) - steady - 1, "rows of the other": steady}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    for version in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            counts = sweep(Path(folder) / "t", count=options.count, seed=options.seed, version=version)
            print(f"Iceberg {version}:", ", ".join(f"{value} {name}" for name, value in counts.items()))


if __name__ == "__main__":
    main()
