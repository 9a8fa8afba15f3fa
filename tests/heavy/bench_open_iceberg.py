"""Opening a large Iceberg table against PyIceberg's `inspect.files()`: `python -m tests.heavy.bench_open_iceberg`.

Makes two tables of the same files: one with a geometry column and its boxes, which we open, and one without it,
since PyIceberg cannot open geo types. Each contestant runs in a process of its own, in turns; the ratio is that of the
best times. `--files 1000000 --no-pyiceberg` shows time and memory at a million files.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table, xy
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios

COLUMNS = 8
GEOM = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--manifest-files", type=int, default=5_000, help="files a manifest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-pyiceberg", action="store_true")
    parser.add_argument("--folder", type=Path, help="keep the tables here and use them again")
    parser.add_argument("--run", choices=["ours", "ours-plain", "pyiceberg"], help=argparse.SUPPRESS)
    parser.add_argument("--metadata", help=argparse.SUPPRESS)
    add_ratio_option(parser)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run, options.metadata)))
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="geolake-bench-"))
    try:
        return compare(options, folder)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def compare(options: argparse.Namespace, folder: Path) -> int:
    tables = {}
    wanted = {"geo": True} if options.no_pyiceberg else {"geo": True, "plain": False}
    for name, geo in wanted.items():
        root = folder / f"{name}-{options.files}"
        tables[name] = root / "metadata" / "v1.metadata.json"
        if not tables[name].exists():
            make(root, options.files, options.manifest_files, geo=geo)
    contestants = {"ours": "geo"} | ({} if options.no_pyiceberg else {"ours-plain": "plain", "pyiceberg": "plain"})
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for name, table in contestants.items():
            command = [sys.executable, "-m", "tests.heavy.bench_open_iceberg", "--run", name]
            done = subprocess.run(
                [*command, "--metadata", str(tables[table])], check=True, capture_output=True, text=True
            )
            measured = json.loads(done.stdout)
            if name not in best or measured["seconds"] < best[name]["seconds"]:
                best[name] = measured
    for name, measured in best.items():
        times = f"{measured['seconds']:8.2f} s ({measured['processor']:.2f} s of processor time)"
        memory = f"peak {measured['peak_mb']:.0f} MB, {measured['peak_mb'] - measured['start_mb']:.0f} MB over imports"
        print(f"{name:11}{times}   {memory}   {measured['files']} files")
    if options.no_pyiceberg:
        return 0
    ratio = best["pyiceberg"]["seconds"] / best["ours"]["seconds"]
    return print_ratios([Ratio(f"open of {options.files:,} files, manifests", "PyIceberg", ratio, 3)], options.ratios)


def run(name: str, metadata: str) -> dict[str, float]:
    """One contestant, with its imports done and a table of one file opened before the clock starts."""
    path = Path(metadata)
    contestant = with_pyiceberg if name == "pyiceberg" else with_ours
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), 1, 1, geo=name == "ours")
        contestant(Path(folder) / "metadata" / "v1.metadata.json")
    start_mb = _peak_mb()
    start, processor = time.perf_counter(), time.process_time()
    files = contestant(path)
    return {
        "seconds": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "files": files,
        "start_mb": start_mb,
        "peak_mb": _peak_mb(),
    }


def with_pyiceberg(path: Path) -> int:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(path)).inspect.files().num_rows


def with_ours(path: Path) -> int:
    from geolake_nb.formats.iceberg.snapshot import open_iceberg
    from geolake_nb.storage.storage import Storage

    files = open_iceberg(Storage.at(str(path.parent.parent))).files
    for column_name in files.geo_columns:
        assert files.boxes(column_name).known.all()
    return len(files)


def _peak_mb() -> float:
    # The peak that getrusage reports starts with that of the process that started this one.
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return (peaks or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] / 1024


def make(root: Path, files: int, manifest_files: int, *, geo: bool) -> None:
    """A table of that many files with the statistics of eight plain columns, and of a geometry if asked for."""
    draw = random.Random(7)
    columns = [column(1, "id", "long"), column(2, "name", "string")]
    columns += [column(number, f"c{number}", "double") for number in range(3, COLUMNS + 1)]
    if geo:
        columns.append(column(GEOM, "geom", "geometry(OGC:CRS84)"))

    def entry(index: int) -> FileEntry:
        ids = range(1, COLUMNS + 1)
        lower = {id_: struct.pack("<d", draw.random()) for id_ in ids}
        upper = {id_: struct.pack("<d", 1 + draw.random()) for id_ in ids}
        lower |= {1: struct.pack("<q", 1000 * index), 2: f"name-{index:09}".encode()}
        upper |= {1: struct.pack("<q", 1000 * index + 999), 2: f"name-{index + 1:09}".encode()}
        nulls = dict.fromkeys(ids, 0)
        if geo:
            x, y = draw.uniform(-180, 179), draw.uniform(-90, 89)
            lower[GEOM], upper[GEOM], nulls[GEOM] = xy(x, y), xy(x + 1, y + 1), 0
        path = f"data/part={index % 100}/{index:08}-{draw.getrandbits(64):016x}-00001.parquet"
        return FileEntry(path, rows=1000, bytes=1_000_000 + index, lower=lower, upper=upper, nulls=nulls)

    entries = [entry(index) for index in range(files)]
    make_iceberg_table(root, columns, entries, version=3 if geo else 2, manifest_size=manifest_files)


if __name__ == "__main__":
    raise SystemExit(main())
