"""Parquet files that become a Delta or Iceberg table where they lie, against a conversion that copies their rows.

`python -m tests.heavy.bench_publish`. Taxi trips of SpatialBench, 6 million for a scale of 1, are split into files with
two columns of points as WKB, without geo types and boxes. They are published, with footers repaired and with files left
alone, and converted by a warm session of Spark. The clock counts. Publishing is at least 10 times faster than the
conversion where the files are left alone or have what they need; where boxes are missing it has to read the points,
which are most of these files: that is shown. The pages are the same byte for byte, and undo restores every byte.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
from tests.heavy.bench_footer_repair import COLUMNS, split
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios
from tests.heavy.show_trips import make_trips
from tests.spark_session import delta_session

if TYPE_CHECKING:
    from collections.abc import Callable

RATIO = 10.0


def make_files(folder: Path, trips: list[Path], count: int) -> int:
    """The trips in so many files; how many trips there are."""
    folder.mkdir()
    rows = sum(pq.read_metadata(path).num_rows for path in trips)
    size, written = -(-rows // count), 0
    for path in trips:
        table = pq.ParquetFile(path, arrow_extensions_enabled=False).read()
        for start in range(0, table.num_rows, size):
            part = pa.table(table.slice(start, size)).replace_schema_metadata(None)
            pq.write_table(part, folder / f"{written:04}.parquet")
            written += 1
    return rows


def digests(folder: Path, *, pages: bool) -> dict[str, str]:
    """A digest of each file, or of all that comes before its footer."""
    return {
        path.name: hashlib.sha256(split(path)[0] if pages else path.read_bytes()).hexdigest()
        for path in folder.glob("*.parquet")
    }


def seconds(work: Callable[[], Any]) -> float:
    """The time on the clock."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def publish(folder: Path, rows: int, form: str, **options: Any) -> float:
    """Publish and undo; the time of the former."""
    whole, pages = digests(folder, pages=False), digests(folder, pages=True)
    taken = seconds(lambda: gl.publish(folder, format=form, columns=COLUMNS, **options))
    table = gl.open(str(folder))
    assert sum(table.files.table["rows"].to_pylist()) == rows
    assert all(table.files.table[f"{name}.xmin"].null_count == 0 for name in COLUMNS)
    assert digests(folder, pages=True) == pages
    undone = seconds(table.plan_undo().apply)
    assert digests(folder, pages=False) == whole
    print(f"  published in {taken:.2f} s, undone in {undone:.2f} s", flush=True)
    return taken


def main() -> int:
    """Run all; 1 if publishing is not fast enough."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", "--scale", type=float, default=1.0, help="6 million trips for each 1")
    parser.add_argument("-n", "--files", type=int, default=512)
    parser.add_argument("--format", action="append", choices=["delta", "iceberg"], help="both by default")
    add_ratio_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = folder / "bare"
        rows = make_files(bare, make_trips(folder / "made", options.scale), options.files)
        sizes = [path.stat().st_size for path in bare.iterdir()]
        print(f"{len(sizes)} files, {rows:,} rows, {sum(sizes) / 1e6:.0f} MB")
        typed = folder / "typed"
        shutil.copytree(bare, typed)
        gl.open(str(typed)).plan_repair(columns=COLUMNS).apply()
        shutil.rmtree(typed / "_geolake")
        spark = delta_session("local[*]", folder)
        spark.range(10).count()
        measured: list[Ratio] = []
        for form in options.format or ("delta", "iceberg"):
            print(f"{form}: boxes are missing: the points are read, footers are repaired")
            missing = publish(bare, rows, form)
            print(f"{form}: boxes are missing: the points are read, files are left alone")
            left = publish(bare, rows, form, leave_files=True)
            print(f"{form}: footers have types and boxes")
            sound = publish(typed, rows, form)
            shutil.rmtree(bare / "_geolake")
            shutil.rmtree(typed / "_geolake")
            plan = gl.open(str(bare)).plan_convert(str(folder / form), format=form, columns=COLUMNS)
            copied = seconds(lambda plan=plan: plan.apply(spark=spark))
            print(f"{form}: converted in {copied:.2f} s")
            peer = f"the conversion to {form.capitalize()} that copies"
            measured += [
                Ratio(f"publishing files with boxes as {form.capitalize()}", peer, copied / sound, RATIO),
                Ratio(f"publishing files left alone as {form.capitalize()}", peer, copied / left),
                Ratio(f"publishing files with repair as {form.capitalize()}", peer, copied / missing),
            ]
    return print_ratios(measured, options.ratios)


if __name__ == "__main__":
    sys.exit(main())
