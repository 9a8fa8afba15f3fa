"""Every benchmark in one run, as one table and a plot in the README: `python -m tests.heavy.benchmarks`.

Each is a process of its own. What counts is how many times as fast as a peer; a ratio more than a fifth below the one
that the README holds fails the command, which then leaves the README as it is. The machine is shared: a benchmark
that falls short is run once more, and then its second figures count. `--only map` runs those whose name has that word.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.heavy.ratio import Ratio, read_ratios

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PLOT = ROOT / "notebooks" / "pictures" / "benchmarks.svg"
BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
WORSE = 0.8
"""The share of the recorded ratio below which a new one fails."""

Recorded = dict[tuple[str, str], float]
"""How many times as fast as a peer, by what and by whom."""

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


def run(words: list[str], folder: Path) -> list[Ratio]:
    """The ratios of one benchmark; what it prints is seen as it comes."""
    path = folder / f"{words[0]}.json"
    path.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", f"tests.heavy.{words[0]}", *words[1:], "--ratios", str(path)], cwd=ROOT, check=False
    )
    if not path.exists():
        raise SystemExit(f"{words[0]} ended without ratios")
    return read_ratios(path)


def measured(words: list[str], folder: Path, before: Recorded) -> list[Ratio]:
    """The ratios of one benchmark, of a second run where the first falls short."""
    ratios = run(words, folder)
    short = [one for one in ratios if not one.good or is_worse(one, before)]
    if not short:
        return ratios
    print(f"{words[0]} is run once more: {'; '.join(map(str, short))}", flush=True)
    return run(words, folder)


def is_worse(ratio: Ratio, before: Recorded) -> bool:
    """Whether a ratio is more than a fifth below the recorded one.

    >>> is_worse(Ratio("open", "deltalake", 1.19), {("open", "deltalake"): 1.5})
    True
    """
    return round(ratio.times, 2) < WORSE * before.get((ratio.what, ratio.peer), 0)


def recorded(text: str) -> Recorded:
    """The ratios that a README holds.

    >>> recorded("| open | deltalake | 1.5 |")
    {('open', 'deltalake'): 1.5}
    """
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| ([0-9.]+) \|$", text, re.MULTILINE)
    return {(what, peer): float(times) for what, peer, times in rows}


def table(ratios: list[Ratio], day: str) -> str:
    """The part of the README between the marks."""
    shown = [
        BEGIN,
        f"Measured on {day}, two cores, each pair on the same data in one run; above 1 is faster than the peer.",
        "",
        "![The ratios as bars](notebooks/pictures/benchmarks.svg)",
        "",
        "| what | peer | times as fast |",
        "|---|---|---|",
        *(f"| {one.what} | {one.peer} | {one.times:.2f} |" for one in ratios),
        END,
    ]
    return "\n".join(shown)


def with_table(text: str, part: str) -> str:
    """The README with its part replaced."""
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
    names = [f"{one.what}, {one.peer}" for one in ratios][::-1]
    times = [one.times for one in ratios][::-1]
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
    parser.add_argument("--only", help="a word in the name of a benchmark; the README is left alone")
    options = parser.parse_args()
    chosen = {name: words for name, words in RUNS.items() if options.only is None or options.only in name}
    text = README.read_text(encoding="utf-8")
    before = recorded(text)
    with tempfile.TemporaryDirectory() as folder:
        ratios = [one for words in chosen.values() for one in measured(words, Path(folder), before)]
    worse = [
        f"{one.what} was {before[one.what, one.peer]:.2f} times as fast as {one.peer}, now {one.times:.2f}"
        for one in ratios
        if is_worse(one, before)
    ]
    slow = [str(one) for one in ratios if not one.good]
    print("\n".join([table(ratios, f"{datetime.date.today():%d %B %Y}"), *worse, *slow]))
    if worse or options.only:
        return 1 if worse or slow else 0
    README.write_text(with_table(text, table(ratios, f"{datetime.date.today():%d %B %Y}")), encoding="utf-8")
    plot(ratios, PLOT)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
