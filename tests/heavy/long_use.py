"""Long use of one kernel: opens, maps, explanations, checks and magics, cell after cell as JupyterLab sends them.

python -m tests.heavy.long_use --count 500
The tables are of each format on the disk, and one in a bucket. What is counted has to stay as it was after the first
tenth of the rounds, and memory within `MAX_GROWTH` of that; else the command fails. The same number of cells that
only show a line of HTML shows what the kernel itself keeps of each.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import small_tables
from tests.heavy.folder_store import folder_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WARM_UP = 20
"""Rounds until all is loaded and compiled."""
MAX_GROWTH = 0.05
"""The share by which memory may grow after the first tenth of the rounds. A widget that is not closed keeps half a MiB,
which is three times that in 100 rounds; what is left is IPython's history and the allocator's."""
_MAKERS = {
    "delta": small_tables.make_delta,
    "iceberg": small_tables.make_iceberg,
    "havasu": small_tables.make_havasu,
    "parquet": small_tables.make_parquet,
}
TABLES = len(_MAKERS) + 1
_SECONDS = 120

_FIRST = """
import json
from IPython.display import HTML, clear_output, display
import geolake_nb as gl
%load_ext geolake_nb
"""
# One cell each, run again at every round. What a user holds is `t`, `m` and `answer`, each time another one.
_CELLS = {
    "open": "t = gl.open({place!r}, storage_options={options!r})\nt",
    "map": "m = t.map(color='bytes')\nm",
    "window": "m.window = [5, 45, 20, 60]\nassert m.verdict['files_read'] == 1, m.verdict",
    "explain": "answer = t.explain('ST_Intersects(geom, ST_MakeEnvelope(5, 45, 20, 60))')\nanswer",
    "unnamed map": "t.map(where='ST_Intersects(geom, ST_MakeEnvelope(5, 45, 20, 60))')",
    "two maps": "t.map().beside(t.map())",
    "cleared": "for _ in range(2):\n    clear_output(wait=True)\n    display(t.map())",
    "check": "t.check()",
    "repair": "t.plan_repair(verify=True)",
    "magic": "%geolake explain t --box=5,45,20,60",
    "magic map": "%geolake map t",
    "magic check": "%geolake check t",
}
# What IPython keeps of every cell on purpose, whoever showed it: the texts, and all that was displayed.
_FORGET = """
_history = get_ipython().history_manager
_history.outputs.clear()
_history.output_hist_reprs.clear()
del _history
"""
_LINE = "display(HTML('<b>a line</b>'))"
_PROBE = """
def _print_counts():
    import collections, ctypes, gc, os
    import comm, ipywidgets, pyarrow as pa
    for _ in range(3):
        gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    # Widgets have a class each, made on the spot: their bases show whose they are.
    kinds = collections.Counter(type(value) for value in gc.get_objects())
    instances = collections.Counter()
    for kind, count in kinds.items():
        if any(str(base.__module__).startswith("geolake_nb.") for base in kind.__mro__):
            instances[kind.__name__] += count
    files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{fd}")]
    print(json.dumps({
        "rss": int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(files),
        "sockets": sum(file.startswith("socket:") for file in files),
        "widgets": len(ipywidgets.widgets.widget._instances),
        "comms": len(comm.get_comm_manager().comms),
        "live": sum(kinds.values()),
        "objects": instances,
    }))
_print_counts()
"""


@dataclass(frozen=True)
class Usage:
    """What a kernel holds after so many rounds."""

    rounds: int
    rss: int
    threads: int
    files: int
    sockets: int
    widgets: int
    comms: int
    live: int
    """How many values of whatever kind are alive, of those that can hold others."""
    objects: dict[str, int]
    """How many values of the package are alive, by the name of their class."""

    def __str__(self) -> str:
        return (
            f"{self.rounds:4} rounds: {self.rss / 2**20:.1f} MiB, {self.threads} threads, {self.files} open files, of"
            f" them {self.sockets} sockets, {self.widgets} widgets, {self.comms} comms,"
            f" {sum(self.objects.values()):,} values of ours of {self.live:,}"
        )


class Kernel:
    """A running kernel, and cells sent to it with their ids."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, cell: str | None, code: str) -> str:
        """What a cell prints; one that fails fails here too."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = self._client.session.msg(
            "execute_request", content, metadata={} if cell is None else {"cellId": cell}
        )
        self._client.shell_channel.send(message)
        printed = []
        while True:
            heard = self._client.get_iopub_msg(timeout=_SECONDS)
            if heard["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            kind, message_content = heard["msg_type"], heard["content"]
            assert kind != "error", "\n".join(message_content["traceback"])
            if kind == "stream":
                printed.append(message_content["text"])
            if kind == "status" and message_content["execution_state"] == "idle":
                self._client.get_shell_msg(timeout=_SECONDS)
                return "".join(printed)


@contextmanager
def running_kernel() -> Iterator[Kernel]:
    """A kernel of the Python that runs this, without the cache of outputs: that keeps every value on purpose."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(
        kernel_name="python3", extra_arguments=["--InteractiveShell.cache_size=0", "--HistoryManager.enabled=False"]
    )
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def use(folder: Path, *, looks: Sequence[int], cells: Mapping[str, str] = _CELLS) -> list[Usage]:
    """Run the cells again and again over a table of each format, and look at the kernel after so many rounds.

    Each round has another of them, so looks that are `TABLES` rounds apart find the same one in hand.
    """
    lake = folder / "lake"
    lake.mkdir()
    places: list[tuple[str, dict[str, str] | None]] = [(str(make(lake / name)), None) for name, make in _MAKERS.items()]
    usages = []
    # A store that keeps its connections, as those do that are far away: one that is not closed is seen.
    with folder_store(folder, delay=0) as store, running_kernel() as kernel:
        places.append(("s3://lake/delta", store.options))
        assert len(places) == TABLES
        kernel.run("first", _FIRST)
        for number in range(1, max(looks) + 1):
            location, options = places[number % TABLES]
            for cell, code in cells.items():
                kernel.run(cell, code.format(place=location, options=options))
            kernel.run("forget", _FORGET)
            if number == 1:
                kernel.run("look", _PROBE)  # the first look loads what later ones find
            if number in looks:
                usages.append(Usage(number, **json.loads(kernel.run("look", _PROBE))))
        assert cells is not _CELLS or len(store.seen()) >= max(looks) // TABLES
    return usages


def faults(early: Usage, late: Usage, *, most_growth: float = MAX_GROWTH) -> Iterator[str]:
    """What a kernel holds more of after many rounds than after some."""
    for name in ("threads", "files", "sockets", "widgets", "comms"):
        if getattr(late, name) != getattr(early, name):
            yield _grown(name, getattr(early, name), getattr(late, name), early, late)
    for name in sorted(early.objects.keys() | late.objects.keys()):
        before, after = early.objects.get(name, 0), late.objects.get(name, 0)
        if before != after:
            yield _grown(f"values of {name}", before, after, early, late)
    # Others load a thing late, or keep one now and then: never one a round.
    if late.live - early.live >= late.rounds - early.rounds:
        yield _grown("values of any kind", early.live, late.live, early, late)
    if late.rss - early.rss > most_growth * early.rss:
        yield _grown("MiB of memory", early.rss >> 20, late.rss >> 20, early, late)


def _grown(what: str, before: int, after: int, early: Usage, late: Usage) -> str:
    return f"{what}: {before:,} after {early.rounds} rounds, {after:,} after {late.rounds}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="rounds")
    count = parser.parse_args().count
    looks = looks_of(count)
    problems: list[str] = []
    for what, cells in {"ours": _CELLS, "a line": dict.fromkeys(_CELLS, _LINE)}.items():
        with tempfile.TemporaryDirectory() as folder:
            usages = use(Path(folder), looks=looks, cells=cells)
        for usage in usages:
            print(f"{what:6}: {usage}", flush=True)
        if cells is _CELLS:
            problems = [fault for late in usages[1:] for fault in faults(usages[0], late)]
    print("\n".join(problems) or "all good")
    return 1 if problems else 0


def looks_of(count: int) -> tuple[int, int, int]:
    """After which of so many rounds to look: at the first tenth, the end and between, each with the same table in hand.

    >>> looks_of(500), looks_of(61)
    ((50, 275, 500), (20, 40, 60))
    """
    first, last = max(count // 10 // TABLES * TABLES, WARM_UP), count // TABLES * TABLES
    return first, (first + last) // 2 // TABLES * TABLES, last


if __name__ == "__main__":
    sys.exit(main())
