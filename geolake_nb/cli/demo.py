"""Copy the notebooks into a folder and open JupyterLab on the first of them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from geolake_nb.errors import GeolakeError, MissingDependencyError

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake demo --prepare"

_HOST = "127.0.0.1"
_FIRST_PORT = 8888
# They compile themselves when they are imported for the first time on a machine.
_COMPILED = ("geolake_nb.geo.wkb_kernel", "geolake_nb.geo.wkb_iso_kernel", "geolake_nb.formats.iceberg.avro_kernel")
# The JupyterLab extension that requests news and updates from another host.
_NEWS = "@jupyterlab/apputils-extension:announcements"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    parser.add_argument("--folder", default="geolake-demo", help="folder of the notebooks (default ./geolake-demo)")
    parser.add_argument("--no-browser", action="store_true", help="open no browser, only print the URL")
    parser.add_argument("--port", type=int, help=f"of JupyterLab (default {_FIRST_PORT}, or a free one)")
    parser.add_argument("--prepare", action="store_true", help="copy and download what is needed, without starting")


def run(options: argparse.Namespace) -> int:
    """Prepare the folder and this machine, then serve until Ctrl-C."""
    for package in ("pyspark", "delta") if options.prepare else ("pyspark", "delta", "jupyterlab"):
        if find_spec(package) is None:
            raise MissingDependencyError(
                f"the demo needs {package}, which is not installed", remedy="run pip install 'geolake-nb[demo]'"
            )
    if options.port is not None:
        _check_port(options.port)
    folder = Path(options.folder)
    first = _copy(folder)
    _prepare()
    if not options.prepare:
        _serve(folder, first, options.port, browser=not options.no_browser)
    return 0


def _shipped() -> list[Path]:
    """The notebooks inside the installed package, else those of the clone that it is run from."""
    package = Path(__file__).parents[1]
    for folder in (package / "notebooks", package.parent / "notebooks"):
        if shipped := sorted(folder.glob("*.ipynb")):
            return shipped
    raise GeolakeError("the notebooks are missing", where=str(package), remedy="install the package again")


def _copy(folder: Path) -> str:
    """Copy the missing notebooks, and return the name of the first one."""
    notebooks = _shipped()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise GeolakeError(
            f"the folder cannot be created: {problem.strerror}", where=str(folder), remedy="name another --folder"
        ) from problem
    changed = []
    for notebook in notebooks:
        target = folder / notebook.name
        if not target.exists():
            shutil.copyfile(notebook, target)
        elif target.read_bytes() != notebook.read_bytes():
            changed.append(notebook.name)
    _print(f"notebooks: {len(notebooks)} in {folder.resolve()}")
    if changed:
        _print(f"kept your changed notebooks: {', '.join(changed)}")
        _print("delete or rename them, or name another --folder, to get the original ones")
    return notebooks[0].name


def _prepare() -> None:
    """Prepare what the first notebook would wait for, once per machine."""
    from geolake_nb.spark.session import java_version, kept_jars, local_jars

    _print(f"Java: {java_version()}")
    start = time.monotonic()
    if kept_jars() is None:
        _print("jars of Delta and Iceberg: fetching 85 MB, once ...")
        local_jars()
    _print(f"jars of Delta and Iceberg: in {kept_jars()}{_seconds(start)}")
    start = time.monotonic()
    # In a process of its own, whose memory is given back.
    code = "; ".join(f"import {name}" for name in _COMPILED)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GeolakeError(f"the kernels cannot be compiled: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
    _print(f"compiled kernels: ready{_seconds(start)}")


def _serve(folder: Path, first: str, port: int | None, *, browser: bool) -> None:
    """Run JupyterLab in this process until Ctrl-C, with a configuration of its own that leaves the user's alone."""
    from geolake_nb.spark.session import cache_folder

    settings = cache_folder() / "jupyter"
    page_settings = settings / "labconfig" / "page_config.json"
    page_settings.parent.mkdir(parents=True, exist_ok=True)
    page_settings.write_text(json.dumps({"disabledExtensions": {_NEWS: True}}), encoding="utf-8")
    os.environ["JUPYTER_CONFIG_DIR"] = str(settings)
    from jupyterlab.labapp import LabApp  # reads that variable

    page, token = f"/lab/tree/{quote(first)}", secrets.token_hex(24)
    words = {
        "IdentityProvider.token": token,
        "LabApp.default_url": page,
        "LabApp.extension_manager": "readonly",
        "LabApp.log_level": "ERROR",
        "ServerApp.allow_root": os.name != "nt" and os.geteuid() == 0,
        "ServerApp.answer_yes": True,  # Ctrl-C ends it without a question
        "ServerApp.ip": _HOST,
        "ServerApp.log_level": "ERROR",
        "ServerApp.open_browser": browser,
        "ServerApp.port": _FIRST_PORT if port is None else port,
        "ServerApp.port_retries": 50 if port is None else 0,
        "ServerApp.root_dir": folder.resolve(),
    }
    server = LabApp.initialize_server([f"--{name}={value}" for name, value in words.items()])
    address = f"http://{_HOST}:{server.port}{page}?token={token}"
    # Comes after what opens the port: from then on the URL answers.
    server.io_loop.add_callback(_print, f"JupyterLab: {address}\nCtrl-C ends it; later runs need no network")
    server.start()
    # Everything is closed by now, but a worker thread of Jupyter's may wait for ever, and Python for it.
    sys.stdout.flush()
    os._exit(0)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        if os.name != "nt":  # there it would allow a port that is in use
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as problem:
            raise GeolakeError(
                f"port {port} cannot be used: {problem.strerror}", where=_HOST, remedy="name another --port"
            ) from problem


def _print(line: str) -> None:
    print(line, flush=True)


def _seconds(start: float) -> str:
    spent = time.monotonic() - start
    return f", {spent:.0f} s" if spent >= 1 else ""
