"""FileRepair footers against writing the same files again.

`python -m tests.heavy.bench_footer_repair`. Taxi trips of SpatialBench are made here: Parquet files with two columns of
points as WKB. They are repaired, and they are rewritten: read with pyarrow and written by this package's writer,
types and boxes included, without Spark. Both run in turns in threads of one process, and the least processor time of
several rounds counts, so that other work on the machine does not.

- Where only the footer is wrong (it has types and boxes, and lacks the `geo` property), the repair is at least 10 times
  faster: it copies the pages, compares them, and writes a footer.
- Where boxes are missing, it has to read the geo columns too, which are most of these files: that is shown.

The pages are the same byte for byte each time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.changes.column_types import with_types
from geolake_nb.parquet.footer_edit import edit_footer, footer_with_tail
from geolake_nb.parquet.geo_property import geo_template
from geolake_nb.parquet.schema import from_parquet_schema
from geolake_nb.parquet.writer import Layout, ParquetWriter
from geolake_nb.storage.storage import Storage
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios
from tests.heavy.show_trips import DROPOFF, PICKUP, make_trips

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RATIO = 10.0
ROUNDS = 4
COLUMNS = {PICKUP: gl.geometry(), DROPOFF: gl.geometry()}


def write_again(files: Sequence[Path], folder: Path) -> None:
    """The rows of each file in a new one, with geo types and boxes."""

    def file_bytes(path: Path) -> int:
        plain = from_parquet_schema(pq.read_metadata(path))
        schema = with_types(plain, {(name,): type_ for name, type_ in COLUMNS.items()})
        layout = Layout(schema, geoparquet=geo_template(COLUMNS))
        with ParquetWriter(Storage.at(str(folder)), path.name, layout) as writer:
            for batch in pq.ParquetFile(path, arrow_extensions_enabled=False).iter_batches(65_536):
                writer.write(batch)
        return writer.close().rows

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(file_bytes, files))
    assert rows == [pq.read_metadata(path).num_rows for path in files]


def repair(files: Sequence[Path], folder: Path) -> None:
    """Copies of the files, repaired; the copying is not counted."""
    report = gl.open(str(folder)).plan_repair(columns=COLUMNS).apply()
    assert report.metrics["files_repaired"] == len(files)


def without_property(files: Sequence[Path], folder: Path) -> list[Path]:
    """The files with types and boxes, and without the `geo` property."""
    folder.mkdir()
    for path in files:
        shutil.copy(path, folder)
    gl.open(str(folder)).plan_repair(columns=COLUMNS).apply()
    made = sorted(folder.glob("*.parquet"))
    for path in made:
        pages, footer = split(path)
        path.write_bytes(pages + footer_with_tail(edit_footer(footer, {}, properties={"geo": None})))
    shutil.rmtree(folder / "_geolake")
    return made


def split(path: Path) -> tuple[bytes, bytes]:
    """The pages and the footer of a file."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8]


def measured(work: Callable[[Sequence[Path], Path], None], files: Sequence[Path], folder: Path) -> tuple[float, float]:
    """The processor time and the time on the clock, in seconds."""
    clock, spent = time.perf_counter(), time.process_time()
    work(files, folder)
    return time.process_time() - spent, time.perf_counter() - clock


def compare(name: str, files: Sequence[Path], folder: Path) -> float:
    """Repair and write again in turns; how many times less the former takes."""
    repaired, written = [], []
    for number in range(ROUNDS):
        copy, again = folder / f"copy{number}", folder / f"again{number}"
        copy.mkdir()
        again.mkdir()
        for path in files:
            shutil.copy(path, copy)
        repaired.append(measured(repair, files, copy))
        assert all(split(path)[0] == split(copy / path.name)[0] for path in files)
        assert gl.open(str(copy)).plan_repair().is_empty
        written.append(measured(write_again, files, again))
        shutil.rmtree(copy)
        shutil.rmtree(again)
    ratio = min(written)[0] / min(repaired)[0]
    print(name)
    for what, (spent, clock) in (("repaired", min(repaired)), ("rewritten", min(written))):
        print(f"  {what:14}{spent:8.3f} s of processors{clock:8.3f} s on the clock")
    print(f"  {ratio:.1f} times faster, pages byte-identical")
    return ratio


def main() -> int:
    """Run both comparisons; 1 if the first is not fast enough."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", "--scale", type=float, default=0.5, help="6 million trips for each 1")
    add_ratio_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = folder / "bare"
        bare.mkdir()
        for number, path in enumerate(make_trips(folder / "made", options.scale)):
            path.rename(bare / f"{number}.parquet")
        files = sorted(bare.iterdir())
        print(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB")
        wrong = compare("only the footer is wrong", without_property(files, folder / "typed"), folder)
        missing = compare("boxes are missing: the geo columns are read", files, folder)
    peer = "writing the files again"
    measured = [Ratio("repairing Parquet footers", peer, wrong, RATIO), Ratio("adding Parquet boxes", peer, missing)]
    return print_ratios(measured, options.ratios)


if __name__ == "__main__":
    sys.exit(main())
