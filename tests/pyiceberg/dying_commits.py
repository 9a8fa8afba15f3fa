"""Appends that are killed at every step of their commit: `python -m tests.pyiceberg.dying_commits FOLDER [REST]`.

Each append runs in a process of its own, forked before any thread is started, which kills itself before or after one
file that it writes, one statement that it sends to SQLite, or one request to the REST server at the address REST. What
is left is printed, a line of JSON for each step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFile
from sqlalchemy import event

import geolake_nb.pyiceberg as geo
from tests.pyiceberg.geo_rows import make_table, rows

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_STEPS = 200
NAMESPACE = "killed"
REST = sys.argv[2] if len(sys.argv) > 2 else ""


class Steps:
    """Counts steps, and dies at one of them."""

    def __init__(self, last: int | None) -> None:
        self.count = 0
        self._last = last

    def step(self) -> None:
        """One more."""
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


def append(folder: Path, last: int | None) -> int:
    """Append rows, and die at a step; the number of steps of one that lives."""
    catalog = opened(folder)
    table = catalog.load_table(f"{NAMESPACE}.t")
    steps = Steps(last)
    create = PyArrowFile.create

    def counted(self: PyArrowFile, overwrite: bool = False) -> Any:
        steps.step()
        stream = create(self, overwrite)
        steps.step()
        return Counted(stream, steps)

    PyArrowFile.create = counted
    if REST:
        send = requests.Session.send

        def sent(self: requests.Session, *words: Any, **options: Any) -> Any:
            steps.step()
            answer = send(self, *words, **options)
            steps.step()
            return answer

        requests.Session.send = sent
        table.append(rows(1000, count=2))
        steps.step()
        return steps.count
    for name in ("before_cursor_execute", "after_cursor_execute"):
        event.listen(catalog.engine, name, lambda *_: steps.step())
    event.listen(catalog.engine, "commit", lambda *_: steps.step())
    table.append(rows(1000, count=2))
    steps.step()
    return steps.count


class Counted:
    """A stream whose end is a step, before and after."""

    def __init__(self, stream: Any, steps: Steps) -> None:
        self._stream = stream
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Counted:
        self._stream.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._steps.step()
        self._stream.__exit__(*problem)
        self._steps.step()

    def close(self) -> None:
        """The end."""
        self._steps.step()
        self._stream.close()
        self._steps.step()


def opened(folder: Path) -> Any:
    """The catalog in a folder, or that of the server."""
    if REST:
        return load_catalog("lake", type="rest", uri=REST)
    uri = f"sqlite:///{folder}/catalog.db"
    return load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{folder}/warehouse")


def prepare(folder: Path) -> int:
    """A table with some rows."""
    catalog = opened(folder)
    catalog.create_namespace(NAMESPACE)
    make_table(catalog, f"{NAMESPACE}.t").append(rows(0))
    return 0


def state(folder: Path) -> dict[str, Any]:
    """What others find: the rows, and what is known of the snapshots."""
    table = opened(folder).load_table(f"{NAMESPACE}.t")
    return {
        "rows": sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()),
        "next_row_id": table.metadata.next_row_id,
        "snapshots": [
            [snapshot.sequence_number, snapshot.first_row_id, snapshot.added_rows]
            for snapshot in table.metadata.snapshots
        ],
    }


def forked(work: Callable[[], Any]) -> Any:
    """What a process of its own answers; `None` if it died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    if os.WEXITSTATUS(status):
        raise SystemExit(1)
    return json.loads(answer)


def main(folder: Path) -> None:
    """Kill one append after the other, until one lives."""
    geo.enable()
    import_module("geolake_nb.geo.wkb_scan")  # once, and not in each process
    forked(lambda: prepare(folder))
    for last in range(_MAX_STEPS):
        done = forked(lambda last=last: append(folder, last))
        print(json.dumps({"step": last, "lived": done is not None, **forked(lambda: state(folder))}), flush=True)
        if done is not None:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
