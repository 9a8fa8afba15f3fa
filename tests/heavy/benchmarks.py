"""Every benchmark in one run, as a table and a plot in the reference page: `python -m tests.heavy.benchmarks`.

Each is a process of its own. What counts is how many times as fast as a peer; a ratio more than a fifth below the one
that the page holds fails the command, and so does one that the page holds and that is gone, and a benchmark that
misses a limit of its own; then the page stays as it is. The best ratio ever recorded stands beside one that is lower,
with a warning where it is a fifth better. The machine is shared: a benchmark that falls short is run once more, and
then its second figures count. `--only map` runs those whose name has that word. The peers that no test needs are
installed first.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.heavy.ratio import Ratio, read_ratios

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "geolake_nb" / "reference" / "benchmarks.md"
PLOT = ROOT / "notebooks" / "pictures" / "benchmarks.svg"
BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
WORSE = 0.8
"""The share of the recorded ratio below which a new one fails."""


@dataclass(frozen=True, slots=True)
class Record:
    """How many times as fast as a peer, as the page has it: the last time, and at best."""

    times: float
    best: float


Recorded = dict[tuple[str, str], Record]
"""By what, and by the peer."""


@dataclass(frozen=True, slots=True)
class Run:
    """The ratios of one benchmark, and whether it kept to its own limits."""

    name: str
    ratios: tuple[Ratio, ...]
    code: int = 0

    def falls_short(self, before: Recorded) -> list[str]:
        """Why it is run once more."""
        short = [str(ratio) for ratio in self.ratios if not ratio.good or is_worse(ratio, before)]
        return short or ([f"it ends with {self.code}"] if self.code else [])


RUNS = {
    "bounds": ["bench_bounds"],
    "open_delta": ["bench_open_delta", "--rounds", "25"],
    "open_iceberg": ["bench_open_iceberg", "--rounds", "2"],
    "repair": ["bench_repair"],
    "footer_repair": ["bench_footer_repair"],
    "rewrite": ["bench_rewrite"],
    "sort": ["bench_sort"],
    "map": ["bench_map", "--boxes", "100000", "--rounds", "3"],
}


def install_peers() -> None:
    """What the benchmarks compare with and no test needs."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", "requirements.lock", "-e", ".[bench]"], cwd=ROOT, check=True)


def run(words: list[str], folder: Path) -> Run:
    """One benchmark; what it prints is seen as it comes."""
    path = folder / f"{words[0]}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"tests.heavy.{words[0]}", *words[1:], "--ratios", str(path)]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if not path.exists():
        raise SystemExit(f"{words[0]} ended without ratios")
    return Run(words[0], tuple(read_ratios(path)), code)


def measured(words: list[str], before: Recorded, ask: Callable[[list[str]], Run]) -> Run:
    """One benchmark, asked for a second time where it falls short at first."""
    first = ask(words)
    short = first.falls_short(before)
    if not short:
        return first
    print(f"{words[0]} is run once more: {'; '.join(short)}", flush=True)
    return ask(words)


def is_worse(ratio: Ratio, before: Recorded) -> bool:
    """Whether a ratio is more than a fifth below the recorded one.

    >>> is_worse(Ratio("open", "deltalake", 1.19), {("open", "deltalake"): Record(1.5, 1.5)})
    True
    """
    known = before.get((ratio.what, ratio.peer))
    return known is not None and round(ratio.times, 2) < WORSE * known.times


def faults(runs: list[Run], before: Recorded, *, whole: bool = True) -> list[str]:
    """Why the figures of today are not recorded; without `whole` some benchmarks were left out."""
    ratios = [ratio for each in runs for ratio in each.ratios]
    problems = [
        f"{ratio.what} was {before[ratio.what, ratio.peer].times:.2f} times as fast as {ratio.peer},"
        f" now {ratio.times:.2f}"
        for ratio in ratios
        if is_worse(ratio, before)
    ]
    problems += [str(ratio) for ratio in ratios if not ratio.good]
    problems += [f"{run.name} ends with {run.code}: it says above what it missed" for run in runs if run.code]
    gone = before.keys() - {(ratio.what, ratio.peer) for ratio in ratios} if whole else set()
    return problems + [
        f"{what} was recorded against {peer}, and is not measured any more" for what, peer in sorted(gone)
    ]


def warnings(ratios: list[Ratio], before: Recorded) -> list[str]:
    """Which ratios have come down in small steps, each of them within what is allowed."""
    return [
        f"warning: {ratio.what} was once {before[ratio.what, ratio.peer].best:.2f} times as fast as {ratio.peer},"
        f" now {ratio.times:.2f}"
        for ratio in ratios
        if (ratio.what, ratio.peer) in before and round(ratio.times, 2) < WORSE * before[ratio.what, ratio.peer].best
    ]


def recorded(text: str) -> Recorded:
    """The ratios that a page holds.

    >>> recorded("| open | deltalake | 1.5 |")
    {('open', 'deltalake'): Record(times=1.5, best=1.5)}
    >>> recorded("| open | deltalake | 1.5 | 1.8 |")
    {('open', 'deltalake'): Record(times=1.5, best=1.8)}
    """
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| ([0-9.]+) \|(?: ([0-9.]*) ?\|)?$", text, re.MULTILINE)
    return {(what, peer): Record(float(times), float(best or times)) for what, peer, times, best in rows}


def table(ratios: list[Ratio], day: str, before: Recorded) -> str:
    """The part of the page between the marks; a best ratio is told where that of today is lower."""

    def best(ratio: Ratio) -> str:
        known = before.get((ratio.what, ratio.peer))
        return f"{known.best:.2f} " if known is not None and round(ratio.times, 2) < known.best else ""

    shown = [
        BEGIN,
        f"Measured on {day}, two cores, each pair on the same data in one run; above 1 is faster than the peer.",
        "",
        "![The ratios as bars](../../notebooks/pictures/benchmarks.svg)",
        "",
        "| what | peer | times as fast | best so far |",
        "|---|---|---|---|",
        *(f"| {ratio.what} | {ratio.peer} | {ratio.times:.2f} | {best(ratio)}|" for ratio in ratios),
        END,
    ]
    return "\n".join(shown)


def with_table(text: str, part: str) -> str:
    """The page with its part replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{part}{after}"


def plot(ratios: list[Ratio], path: Path) -> None:
    """Bars on a scale of powers; the line is as fast as the peer."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "geolake", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(ratios) + 0.8), layout="constrained")
    names = [f"{ratio.what}, {ratio.peer}" for ratio in ratios][::-1]
    times = [ratio.times for ratio in ratios][::-1]
    bars = axes.barh(names, [value - 1 for value in times], left=1, color="#2563eb")
    axes.bar_label(bars, [f"{value:.1f}" for value in times], padding=3)
    axes.axvline(1, color="#555")
    axes.set_xscale("log")
    axes.set_xlabel("times as fast as the peer")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.1)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="a word in the name of a benchmark; the page is left alone")
    options = parser.parse_args()
    chosen = {name: words for name, words in RUNS.items() if options.only is None or options.only in name}
    before = recorded(PAGE.read_text(encoding="utf-8"))
    install_peers()
    with tempfile.TemporaryDirectory() as folder:
        runs = [measured(words, before, lambda arguments: run(arguments, Path(folder))) for words in chosen.values()]
    ratios = [ratio for each in runs for ratio in each.ratios]
    part = table(ratios, f"{datetime.date.today():%d %B %Y}", before)
    problems = faults(runs, before, whole=options.only is None)
    print("\n".join([part, *warnings(ratios, before), *problems]))
    if not problems and options.only is None:
        plot(ratios, PLOT)
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), part), encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
