"""Opening a large Delta table with its boxes, against deltalake: `python -m tests.heavy.bench_open_delta`.

The table is made here, once as a Parquet checkpoint and once as JSON commits. The peer cannot open geo types, so it
reads the same file list where the geo column is a string with the very same statistics (`same log`), and one where
it is binary and has no bounds (`no bounds`), which makes its log shorter by a third. All run in turns in one process,
best of several rounds; what counts is the ratio. Memory is the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tests.formats.delta.log_maker import MAP, METADATA, PROTOCOL
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

WANTED = 1.5
COMMITS = 10
VARIANTS = {"geo": "geometry(OGC:CRS84)", "same log": "string", "no bounds": "binary"}
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)


def statistics(count: int, *, bounds: bool) -> list[str]:
    """The statistics of the files: three plain columns and a geo column."""
    rng = np.random.default_rng(1)
    west, south = rng.uniform(-179, 178, count).tolist(), rng.uniform(-89, 88, count).tolist()
    texts = []
    for number, (x, y) in enumerate(zip(west, south, strict=True)):
        low: dict[str, Any] = {"id": number * 1000, "name": f"name{number}", "value": x}
        high: dict[str, Any] = {"id": number * 1000 + 999, "name": f"name{number}z", "value": x + 1}
        if bounds:
            low["geom"], high["geom"] = f"POINT({x!r} {y!r})", f"POINT({x + 1!r} {y + 1!r})"
        nulls = {"id": 0, "name": 3, "value": 0, "geom": 0}
        stats = {"numRecords": 1000, "minValues": low, "maxValues": high, "nullCount": nulls}
        texts.append(orjson.dumps(stats).decode())
    return texts


def paths(count: int) -> list[str]:
    return [
        f"part-{number:05}-4c9bec96-ae06-4ea8-808b-4e09b44d{number:08}-c000.snappy.parquet" for number in range(count)
    ]


def head(variant: str) -> tuple[dict[str, Any], dict[str, Any]]:
    types = {"id": "long", "name": "string", "value": "double", "geom": VARIANTS[variant]}
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in types.items()]
    metadata = {
        "id": "bench",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    if variant != "geo":
        return {"minReaderVersion": 1, "minWriterVersion": 2}, metadata
    features = ["geospatial"]
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }, metadata


def adds(names: list[str], stats: list[str]) -> list[dict[str, Any]]:
    return [
        {"path": path, "partitionValues": {}, "size": 12345, "modificationTime": 1, "dataChange": True, "stats": text}
        for path, text in zip(names, stats, strict=True)
    ]


def make_json(folder: Path, variant: str, count: int) -> None:
    """All files in a few JSON commits."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    protocol, metadata = head(variant)
    actions = adds(paths(count), statistics(count, bounds=variant != "no bounds"))
    step = -(-count // COMMITS)
    for version in range(COMMITS):
        start = [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}]
        start += [{"protocol": protocol}, {"metaData": metadata}] if version == 0 else []
        some = [{"add": action} for action in actions[version * step : (version + 1) * step]]
        (log / f"{version:020}.json").write_bytes(b"".join(orjson.dumps(action) + b"\n" for action in start + some))


def make_checkpoint(folder: Path, variant: str, count: int) -> None:
    """All files in a Parquet checkpoint, and one commit after it."""
    stats = statistics(count, bounds=variant != "no bounds")
    write_checkpoint(folder, head(variant), paths(count), np.full(count, 12345), stats)


def write_checkpoint(
    folder: Path,
    head: tuple[dict[str, Any], dict[str, Any]],
    names: list[str],
    sizes: NDArray[np.int64],
    stats: list[str],
) -> None:
    """A log of one checkpoint with these files, its protocol and metadata, and one commit after it."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    protocol, metadata = head
    metadata |= {"format": {"provider": "parquet", "options": []}, "configuration": []}
    count = len(names)
    added = pa.StructArray.from_arrays(
        [
            pa.array(names),
            pa.MapArray.from_arrays(
                pa.array(np.zeros(count + 1, np.int32)), pa.array([], "string"), pa.array([], "string")
            ),
            pa.array(sizes),
            pa.array(np.ones(count, np.int64)),
            pa.array(np.ones(count, np.bool_)),
            pa.array(stats),
        ],
        fields=list(ADD),
    )
    table = pa.table(
        {
            "protocol": pa.concat_arrays([pa.array([protocol, None], PROTOCOL), pa.nulls(count, PROTOCOL)]),
            "metaData": pa.concat_arrays([pa.array([None, metadata], METADATA), pa.nulls(count, METADATA)]),
            "add": pa.concat_arrays([pa.nulls(2, ADD), added]),
        }
    )
    pq.write_table(table, log / f"{0:020}.checkpoint.parquet", row_group_size=200_000)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": count + 2}))
    (log / f"{1:020}.json").write_text('{"commitInfo":{"timestamp":1,"operation":"WRITE"}}\n')


def ours(folder: Path) -> int:
    from geolake_nb.formats.delta import open_delta
    from geolake_nb.storage.storage import Storage

    boxes = open_delta(Storage.at(str(folder))).files.boxes("geom")
    return int(boxes.known.sum())


def theirs(folder: Path) -> int:
    import deltalake

    return int(deltalake.DeltaTable(str(folder)).get_add_actions(flatten=True).num_rows)


def best_in_turns(runs: dict[str, Callable[[], int]], rounds: int, count: int) -> dict[str, float]:
    """The best time of each, all of them once a round."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            opened = run()
            best[name] = min(best[name], time.perf_counter() - start)
            assert opened == count, f"{name} found {opened} files"
    return best


def peak_of_this_process() -> int:
    # getrusage would give the peak of the parent, if that was higher when it started this process.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


def peak_megabytes(which: str, folder: Path) -> int:
    command = [sys.executable, "-m", "tests.heavy.bench_open_delta", "--peak", which, str(folder)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    add_ratio_option(parser)
    options = parser.parse_args()
    if options.peak:
        which, folder = options.peak
        (ours if which == "geo" else theirs)(Path(folder))
        print(peak_of_this_process())
        return
    measured = []
    print(f"{'log':12}{'who':24}{'seconds':>9}{'ours / peer':>13}{'peak MB':>9}")
    for log, make in {"checkpoint": make_checkpoint, "json": make_json}.items():
        with tempfile.TemporaryDirectory() as root:
            folders = {variant: Path(root, variant.replace(" ", "_")) for variant in VARIANTS}
            for variant, folder in folders.items():
                make(folder, variant, options.files)
            runs: dict[str, Callable[[], int]] = {
                variant: lambda variant=variant, folder=folder: (ours if variant == "geo" else theirs)(folder)
                for variant, folder in folders.items()
            }
            times = best_in_turns(runs, options.rounds, options.files)
            for variant, seconds in times.items():
                ratio = times["geo"] / seconds
                if variant == "same log":
                    measured.append(
                        Ratio(f"open of {options.files:,} files, {log}", "deltalake", 1 / ratio, 1 / WANTED)
                    )
                who = "geolake_nb with boxes" if variant == "geo" else f"deltalake, {variant}"
                shown = "" if variant == "geo" else f"{ratio:12.2f}x"
                peak = peak_megabytes(variant, folders[variant])
                print(f"{log:12}{who:24}{seconds:9.3f}{shown:>13}{peak:9}", flush=True)
    raise SystemExit(print_ratios(measured, options.ratios))


if __name__ == "__main__":
    main()
