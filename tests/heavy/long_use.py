"""Long use of one kernel: opens, maps, explanations, checks and magics, cell after cell as JupyterLab sends them.

python -m tests.heavy.long_use --count 500
The same number of cells that only show a line of HTML tells what the kernel itself keeps of each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import small_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WARM_UP = 12
_MAKERS = {
    "delta": small_tables.make_delta,
    "iceberg": small_tables.make_iceberg,
    "havasu": small_tables.make_havasu,
    "parquet": small_tables.make_parquet,
}
_SECONDS = 120

_FIRST = """
import json
from IPython.display import HTML, clear_output, display
import geolake_nb as gl
%load_ext geolake_nb
"""
# One cell each, run again at every round. What a user holds is `t`, `m` and `found`, each time another one.
_CELLS = {
    "open": "t = gl.open({folder!r})\nt",
    "map": "m = t.map(color='bytes')\nm",
    "window": "m.window = [5, 45, 20, 60]\nassert m.verdict['files_read'] == 1, m.verdict",
    "explain": "found = t.explain('ST_Intersects(geom, ST_MakeEnvelope(5, 45, 20, 60))')\nfound",
    "unnamed map": "t.map(where='ST_Intersects(geom, ST_MakeEnvelope(5, 45, 20, 60))')",
    "two maps": "t.map().beside(t.map())",
    "cleared": "for _ in range(2):\n    clear_output(wait=True)\n    display(t.map())",
    "check": "t.check()",
    "repair": "t.plan_repair(verify=True)",
    "magic": "%geolake explain t --box=5,45,20,60",
    "magic map": "%geolake map t",
    "magic check": "%geolake check t",
}
_LINE = "display(HTML('<b>a line</b>'))"
_PROBE = """
def _told():
    import collections, ctypes, gc, os, threading
    import comm, ipywidgets, pyarrow as pa
    for _ in range(3):
        gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    # Widgets have a class each, made on the spot: their bases tell whose they are.
    kinds = collections.Counter(type(one) for one in gc.get_objects())
    held = collections.Counter()
    for kind, count in kinds.items():
        if any(str(base.__module__).startswith("geolake_nb.") for base in kind.__mro__):
            held[kind.__name__] += count
    files = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{one}")]
    print(json.dumps({
        "rss": int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "threads": threading.active_count(),
        "files": len(files),
        "sockets": sum(one.startswith("socket:") for one in files),
        "widgets": len(ipywidgets.widgets.widget._instances),
        "comms": len(comm.get_comm_manager().comms),
        "objects": held,
    }))
_told()
"""


@dataclass(frozen=True)
class Held:
    """What a kernel holds after so many rounds."""

    rounds: int
    rss: int
    threads: int
    files: int
    sockets: int
    widgets: int
    comms: int
    objects: dict[str, int]
    """How many values of the package are alive, by the name of their class."""

    def __str__(self) -> str:
        return (
            f"{self.rounds:4} rounds: {self.rss / 2**20:.1f} MiB, {self.threads} threads, {self.files} open files, of"
            f" them {self.sockets} sockets, {self.widgets} widgets, {self.comms} comms,"
            f" {sum(self.objects.values()):,} values of ours"
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
            kind, told = heard["msg_type"], heard["content"]
            assert kind != "error", "\n".join(told["traceback"])
            if kind == "stream":
                printed.append(told["text"])
            if kind == "status" and told["execution_state"] == "idle":
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


def use(folder: Path, *, looks: Sequence[int], cells: Mapping[str, str] = _CELLS) -> list[Held]:
    """Run the cells again and again over a table of each format, and look at the kernel after so many rounds."""
    folders = [str(make(folder / name)) for name, make in _MAKERS.items()]
    found = []
    with running_kernel() as kernel:
        kernel.run("first", _FIRST)
        for number in range(1, max(looks) + 1):
            for cell, code in cells.items():
                kernel.run(cell, code.format(folder=folders[number % len(folders)]))
            if number in looks:
                found.append(Held(number, **json.loads(kernel.run("look", _PROBE))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="rounds")
    count = parser.parse_args().count
    looks = (count // 10, (count // 10 + count) // 2, count)
    for what, cells in {"ours": _CELLS, "a line": dict.fromkeys(_CELLS, _LINE)}.items():
        with tempfile.TemporaryDirectory() as folder:
            for one in use(Path(folder), looks=looks, cells=cells):
                print(f"{what:6}: {one}", flush=True)


if __name__ == "__main__":
    main()
