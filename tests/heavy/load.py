"""Tables of many files on two cores, Delta and Iceberg: `python -m tests.heavy.load`.

Each size is a table without bounds whose files are there (hard links to some): opened, explained, checked, repaired
from the footers, opened again, mapped, explained and checked, all in one process. What counts: the answers, which
numpy knows; at most 4 GB of memory of that process and of its JVM; and a cost for each file that does not grow with
the table. Then 100 processes read one table while another commits to it: `--readers 100`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import geolake_nb as gl
from geolake_nb.formats.delta.commit import DeltaCommit, commit
from geolake_nb.parquet.schema import to_arrow_type
from geolake_nb.storage.storage import Storage
from tests.formats import iceberg_tables
from tests.formats.delta import log_maker
from tests.heavy.bench_open_delta import write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SIZES = (10_000, 100_000, 1_000_000)
MAX_MEGABYTES = 4096
STEEPEST = 1.3
"""How much more a file may cost in a table ten times as large."""
START_UP = 0.1
"""The seconds of a step that its files need not account for."""
FEWEST_OPENS = 2
"""How often each reader opens the table, at least, while it changes."""
DISTINCT = 250
ROWS = 20
WINDOW = gl.Box(10, 10, 12, 11)
_MANIFEST_FILES = 5_000
_FOLDER_FILES = 10_000


def places() -> NDArray[np.float64]:
    """The corners of the distinct files: west, south, east, north."""
    corner = np.random.default_rng(5).uniform((-179, -89), (177, 87), (DISTINCT, 2))
    return np.hstack([corner, corner + 2])


def read_by_numpy(count: int) -> int:
    """How many files the window meets."""
    west, south, east, north = places().T
    meets = (west <= WINDOW.xmax) & (east >= WINDOW.xmin) & (south <= WINDOW.ymax) & (north >= WINDOW.ymin)
    return int(meets[np.arange(count) % DISTINCT].sum())


def make_files(folder: Path, count: int) -> tuple[list[str], NDArray[np.int64]]:
    """The data files and their sizes: points whose box is that of `places`."""
    rng = np.random.default_rng(6)
    originals = folder / "originals"
    originals.mkdir(parents=True)
    ids = [pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]
    geom = pa.field("geom", to_arrow_type(gl.geometry()), metadata={"PARQUET:field_id": "2"})
    schema = pa.schema([*ids, geom])
    sizes = np.empty(DISTINCT, np.int64)
    for number, (west, south, east, north) in enumerate(places()):
        points = rng.uniform((west, south), (east, north), (ROWS, 2))
        points[:2] = (west, south), (east, north)
        values = [b"\x01\x01\x00\x00\x00" + point.tobytes() for point in points]
        columns = [pa.array(range(ROWS)), geom.type.wrap_array(pa.array(values, pa.binary()))]
        pq.write_table(pa.table(columns, schema=schema), originals / f"{number}.parquet")
        sizes[number] = (originals / f"{number}.parquet").stat().st_size
    names = [f"data/{number // _FOLDER_FILES:03}/{number:08}.parquet" for number in range(count)]
    for number, name in enumerate(names):
        if number % _FOLDER_FILES == 0:
            (folder / name).parent.mkdir(parents=True)
        os.link(originals / f"{number % DISTINCT}.parquet", folder / name)
    return names, sizes[np.arange(count) % DISTINCT]


def make_delta(folder: Path, count: int) -> None:
    names, sizes = make_files(folder, count)
    fields = log_maker.field("id", "long"), log_maker.field("geom", "geometry(OGC:CRS84)")
    head = log_maker.protocol("geospatial")["protocol"], log_maker.metadata(*fields)["metaData"]
    write_checkpoint(folder, head, names, sizes, [json.dumps({"numRecords": ROWS})] * count)


def make_iceberg(folder: Path, count: int) -> None:
    names, sizes = make_files(folder, count)
    columns = [iceberg_tables.column(1, "id", "long"), iceberg_tables.column(2, "geom", "geometry")]
    files = [
        iceberg_tables.FileEntry(name, rows=ROWS, bytes=size, nulls={1: 0, 2: 0})
        for name, size in zip(names, sizes.tolist(), strict=True)
    ]
    iceberg_tables.make_iceberg_table(folder, columns, files, version=3, manifest_size=_MANIFEST_FILES)


MAKERS = {"delta": make_delta, "iceberg": make_iceberg}


@dataclass
class Figures:
    """What each step took, and the most memory that the process and its JVM held."""

    files: int
    seconds: dict[str, float] = field(default_factory=dict)
    megabytes: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        with peak_memory() as peak:
            began = time.perf_counter()
            yield
            self.seconds[name] = time.perf_counter() - began
        self.megabytes[name] = peak[0]


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The most megabytes that this process and its children held meanwhile."""
    most = [0.0]
    over = threading.Event()

    def watch() -> None:
        me = psutil.Process()
        while True:
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            most[0] = max(most[0], total / 2**20)
            if over.wait(0.1):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def use(format_: str, folder: Path, count: int) -> Figures:
    """Every step on one table, its answers compared with numpy's."""
    figures = Figures(count)
    spark = None
    if format_ == "iceberg":
        spark = gl.session(options={"spark.driver.memory": "1g"})
    wanted = read_by_numpy(count)
    with figures.step("open"):
        table = gl.open(str(folder))
    assert len(table.files) == count
    with figures.step("explain, no bounds"):
        explanation = table.explain(WINDOW)
    assert explanation.read.files == count
    with figures.step("check, no bounds"):
        findings = table.check()
    assert any(finding.rule == "bounds.missing" for finding in findings), findings
    del findings, explanation
    with figures.step("repair"):
        report = table.plan_repair().apply(spark=spark)
    assert report.metrics["files_updated"] == count
    del table
    with figures.step("open again"):
        table = gl.open(str(folder))
    with figures.step("map"):
        map_ = table.map()
    assert map_.item_count == count
    with figures.step("window on the map"):
        map_.window = (WINDOW.xmin, WINDOW.ymin, WINDOW.xmax, WINDOW.ymax)
    assert map_.verdict["files_read"] == wanted
    map_.close()
    del map_
    with figures.step("explain"):
        explanation = table.explain(WINDOW)
    assert explanation.read.files == wanted
    with figures.step("check"):
        findings = table.check()
    assert not any(finding.rule.startswith("bounds.") for finding in findings), findings
    return figures


def measure(format_: str, count: int, folder: Path) -> Figures:
    """The figures of one table, made here and used by a process of its own."""
    target = folder / f"{format_}-{count}"
    command = [sys.executable, "-m", "tests.heavy.load", "--run", format_, str(target), str(count)]
    try:
        subprocess.run([*command[:3], "--make", *command[4:]], check=True)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    finally:
        shutil.rmtree(target, ignore_errors=True)
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


@dataclass
class Crowd:
    """What many readers saw while a writer committed."""

    readers: int
    commits: int = 0
    opens: int = 0
    versions: int = 0
    wrong: list[str] = field(default_factory=list)


def crowd(folder: Path, *, readers: int, commits: int, files: int = 2_000) -> Crowd:
    """Processes that open and explain one table while it gets a file a commit; numpy knows what each version has."""
    target = folder / "crowd"
    make_delta(target, files)
    base = gl.open(str(target)).plan_repair().apply().version
    command = [sys.executable, "-m", "tests.heavy.load", "--read", str(target), str(files), str(base)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    runs = [subprocess.Popen(command, text=True, **pipes) for _ in range(readers)]
    seen = Crowd(readers)
    try:
        for run in runs:
            assert run.stdout.readline() == "ready\n"
        for run in runs:
            run.stdin.write("go\n")
            run.stdin.flush()
        for number in range(commits):
            add_file(target, files + number, base + number)
            time.sleep(0.05)
        (target / "over").touch()
        seen.commits = commits
        versions = set()
        for run in runs:
            answer = json.loads(run.communicate(timeout=600)[0])
            seen.opens += answer["opens"]
            versions |= set(answer["versions"])
            seen.wrong += answer["wrong"]
        seen.versions = len(versions)
    finally:
        for run in runs:
            run.kill()
            run.wait()
        shutil.rmtree(target)
    return seen


def add_file(folder: Path, number: int, version: int) -> None:
    """Commit one more file, with the bounds of its place."""
    source = folder / "originals" / f"{number % DISTINCT}.parquet"
    os.link(source, folder / "data" / f"{number:08}.parquet")
    west, south, east, north = places()[number % DISTINCT].tolist()
    bounds = {"minValues": {"geom": f"POINT({west!r} {south!r})"}, "maxValues": {"geom": f"POINT({east!r} {north!r})"}}
    stats = {"numRecords": ROWS, **bounds, "nullCount": {"geom": 0}}
    action = log_maker.add(f"data/{number:08}.parquet", stats, size=source.stat().st_size)
    made = DeltaCommit(version, "WRITE", {}, [json.dumps(action)], f"crowd-{number}", blind_append=True)
    assert commit(Storage.at(str(folder)), made).version == version + 1


def read_until_over(folder: Path, files: int, base: int) -> dict[str, Any]:
    """Open and explain again and again; what is not as numpy has it is told."""
    print("ready", flush=True)
    sys.stdin.readline()
    opens, versions, wrong = 0, set(), []
    last = False
    while not last:
        last = (folder / "over").exists()
        table = gl.open(str(folder))
        now = files + table.version - base
        seen_files = len(table.files), table.explain(WINDOW).read.files
        if seen_files != (now, read_by_numpy(now)):
            wrong.append(f"version {table.version}: {seen_files}")
        opens += 1
        versions.add(table.version)
    return {"opens": opens, "versions": sorted(versions), "wrong": wrong}


def show(format_: str, figures: list[Figures]) -> None:
    print(f"\n{format_:22}" + "".join(f"{figure.files:>22,}" for figure in figures))
    for name in figures[0].seconds:
        cells = (f"{figure.seconds[name]:10.2f} s {figure.megabytes[name]:7.0f} MB" for figure in figures)
        print(f"{name:22}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def faults(format_: str, figures: list[Figures]) -> Iterator[str]:
    """What grows faster than the table, and what needs too much memory."""
    for figure in figures:
        for name, peak in figure.megabytes.items():
            if peak > MAX_MEGABYTES:
                yield f"{format_}, {figure.files:,} files, {name}: {peak:.0f} MB"
    for small, large in itertools.pairwise(figures):
        for name, seconds in large.seconds.items():
            before = small.seconds[name]
            if seconds > STEEPEST * max(before, START_UP) * large.files / small.files:
                growth = f"{before:.2f} s for {small.files:,} files, {seconds:.2f} s for {large.files:,}"
                yield f"{format_}, {name}: {growth}"


def crowd_faults(seen: Crowd) -> Iterator[str]:
    """What readers saw that is not so, and whether they saw enough to decide."""
    yield from seen.wrong
    if seen.versions < 2:
        yield f"the readers saw {seen.versions} version(s) of {seen.commits + 1}: they did not read while it changed"
    if seen.opens < FEWEST_OPENS * seen.readers:
        yield f"{seen.readers} readers opened the table {seen.opens} times in all"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--format", choices=[*MAKERS, "all", "none"], default="all")
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--commits", type=int, default=200, help="while they read")
    parser.add_argument("--folder", type=Path, help="where the tables are made")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        root, files, base = options.read
        print(json.dumps(read_until_over(Path(root), int(files), int(base))), flush=True)
        return 0
    if options.make or options.run:
        format_, root, count = options.make or options.run
        if options.make:
            MAKERS[format_](Path(root), int(count))
        else:
            print(json.dumps(vars(use(format_, Path(root), int(count)))), flush=True)
        return 0
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="geolake-load-", dir=options.folder) as folder:
        for format_ in MAKERS if options.format == "all" else [maker for maker in MAKERS if maker == options.format]:
            figures = [measure(format_, count, Path(folder)) for count in options.sizes]
            show(format_, figures)
            problems += faults(format_, figures)
        if options.readers:
            seen = crowd(Path(folder), readers=options.readers, commits=options.commits)
            print(f"{seen.readers} readers, {seen.commits} commits: {seen.opens} opens, {seen.versions} versions seen")
            problems += crowd_faults(seen)
    print("\n".join(problems) or "all good")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
