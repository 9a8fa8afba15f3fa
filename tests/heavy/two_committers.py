"""Two processes commit to one local table at the same time: no commit may be lost, and none may be there twice.

python -m tests.heavy.two_committers [--commits 200] [--processes 2] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from geolake_nb.formats.delta import open_delta
from geolake_nb.formats.delta.commit import DeltaCommit, commit
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.storage.storage import Storage

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})


@dataclass(frozen=True)
class Race:
    commits: int
    lost: int
    rebased: int
    """Versions of others that commits were put on top of."""
    seconds: float


def race(folder: Path, *, commits: int, processes: int = 2) -> Race:
    storage = Storage.at(str(folder))
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    metadata = {"id": "race", "format": {"provider": "parquet", "options": {}}, "schemaString": SCHEMA}
    metadata |= {"partitionColumns": [], "configuration": {}}
    actions = [json.dumps(protocol), json.dumps({"metaData": metadata})]
    commit(storage, DeltaCommit(-1, "CREATE TABLE", {}, actions, "first"))
    start = time.perf_counter()
    command = [sys.executable, "-m", "tests.heavy.two_committers", "--folder", str(folder), "--commits", str(commits)]
    runs = [
        subprocess.Popen(
            [*command, "--worker", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for number in range(processes)
    ]
    for run in runs:
        run.stdout.readline()  # each says when it is ready
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    rebased = 0
    versions: dict[str, int] = {}
    for number, run in enumerate(runs):
        out, _ = run.communicate(timeout=600)
        if run.returncode:
            raise SystemExit(f"process {number} failed")
        result = json.loads(out)
        rebased += result["rebased"]
        versions |= result["versions"]
    seconds = time.perf_counter() - start
    listing = list_log(storage)
    stored = {
        json.loads(storage.read(entry.path).split(b"\n")[0])["commitInfo"]["txnId"]: version
        for version, entry in listing.commits.items()
    }
    paths = open_delta(storage).files.table["path"].to_pylist()
    wanted = {f"{number}-{index}" for number in range(processes) for index in range(commits)}
    lost = len(wanted - {path.removesuffix(".parquet") for path in paths})
    lost += sum(stored.get(name) != version for name, version in versions.items())
    lost += abs(listing.latest - len(wanted)) + abs(len(paths) - len(wanted))
    lost += len([path for path in (folder / "_delta_log").iterdir() if path.name.endswith(".tmp")])
    return Race(len(wanted), lost, rebased, seconds)


def work(folder: str, number: int, commits: int) -> None:
    storage = Storage.at(folder)
    print("ready", flush=True)
    sys.stdin.readline()
    versions: dict[str, int] = {}
    rebased = 0
    base = 0
    for index in range(commits):
        name = f"{number}-{index}"
        add = {"path": f"{name}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
        made = commit(storage, DeltaCommit(base, "WRITE", {}, [json.dumps({"add": add})], name, blind_append=True))
        versions[name] = base = made.version
        rebased += len(made.rebased_over)
    print(json.dumps({"versions": versions, "rebased": rebased}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=200, help="by each process")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.folder, options.worker, options.commits)
        return
    folder = Path(options.folder or tempfile.mkdtemp()) / "t"
    result = race(folder, commits=options.commits, processes=options.processes)
    print(
        f"{result.commits} commits by {options.processes} processes in {result.seconds:.1f} s,"
        f" {result.rebased} versions rebased over, {result.lost} lost"
    )
    raise SystemExit(bool(result.lost))


if __name__ == "__main__":
    main()
