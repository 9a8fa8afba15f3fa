"""What a benchmark finds: how many times as fast as a peer, on the same data in one run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Ratio:
    """Above 1 is faster than the peer; `wanted` is the least that is good enough."""

    what: str
    peer: str
    times: float
    wanted: float = 0.0

    @property
    def good(self) -> bool:
        return self.times >= self.wanted

    def __str__(self) -> str:
        short = "" if self.good else f", TOO SLOW: at least {self.wanted:g} wanted"
        return f"{self.what}: {self.times:.2f} times as fast as {self.peer}{short}"


def add_ratio_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ratios", type=Path, help="a file for the ratios, as JSON")


def print_ratios(measured: Iterable[Ratio], path: Path | None) -> int:
    """Print the ratios and write them to a file if given; 1 if one is not good enough."""
    ratios = list(measured)
    for ratio in ratios:
        print(ratio, flush=True)
    if path is not None:
        path.write_text(json.dumps([asdict(ratio) for ratio in ratios]))
    return 0 if all(ratio.good for ratio in ratios) else 1


def read_ratios(path: Path) -> list[Ratio]:
    return [Ratio(**entry) for entry in json.loads(path.read_text())]
