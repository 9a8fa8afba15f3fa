"""A real Jupyter server on loopback, with a home of its own and without a word to any other host."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START = 120.0
"""Seconds that a server may take to answer on a busy machine."""


class App(Enum):
    """A front end, by the name of its module: `python -m NAME` starts it."""

    LAB = "jupyterlab"
    NOTEBOOK = "notebook"

    @property
    def settings(self) -> str:
        return {App.LAB: "LabApp", App.NOTEBOOK: "JupyterNotebookApp"}[self]

    @property
    def opens(self) -> str:
        """The path under which a notebook is opened."""
        return {App.LAB: "lab/tree", App.NOTEBOOK: "notebooks"}[self]


@dataclass(frozen=True)
class Server:
    app: App
    port: int
    folder: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def home(self) -> Path:
        """The home folder of the server and its kernels, beside what it serves."""
        return self.folder.parent / "home"

    def address_of(self, name: str) -> str:
        """Where a notebook is opened, in an empty workspace."""
        return f"{self.address}/{self.app.opens}/{name}" + ("?reset" if self.app is App.LAB else "")

    def put_copy(self, path: Path) -> str:
        """Copy a notebook and tell where it is opened. It is signed: what a stranger has run is not shown whole."""
        import nbformat
        from nbformat.sign import NotebookNotary

        notebook = nbformat.read(path, as_version=4)
        nbformat.write(notebook, self.folder / path.name)
        notary = NotebookNotary(data_dir=str(self.home / "data"))
        notary.sign(notebook)
        notary.store.close()
        return self.address_of(path.name)

    def put_notebook(self, name: str, cells: list[str]) -> str:
        """Write a notebook of code cells and tell where it is opened."""
        collected = [
            {"cell_type": "code", "id": f"cell-{index}", "metadata": {}, "source": source, "outputs": []}
            | {"execution_count": None}
            for index, source in enumerate(cells)
        ]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        notebook = {"cells": collected, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        (self.folder / name).write_text(json.dumps(notebook), encoding="utf-8")
        return self.address_of(name)


@contextmanager
def serve(app: App, folder: Path, **environment: str) -> Iterator[Server]:
    """Start the server, wait until it answers, and stop it and its kernels at the end."""
    root = folder / "root"
    root.mkdir(parents=True)
    server = Server(app, _free_port(), root)
    _quiet_settings(server.home)
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": server.port,
        "ServerApp.port_retries": 0,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "ServerApp.root_dir": root,
        "ServerApp.password": "",
        "ServerApp.disable_check_xsrf": True,
        "IdentityProvider.token": "",
        "LabApp.extension_manager": "readonly",
        f"{app.settings}.expose_app_in_browser": True,
    }
    command = [sys.executable, "-m", app.value, *(f"--{key}={value}" for key, value in options.items())]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=root, env=_environment(server.home) | environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait(server, process, folder / "server.log")
            yield server
        finally:
            # It asks once on a terminal; without one the first signal stops it, and its kernels with it.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _environment(home: Path) -> dict[str, str]:
    own = {"HOME": home, "JUPYTER_CONFIG_DIR": home / "config", "JUPYTER_DATA_DIR": home / "data"}
    own |= {"JUPYTER_RUNTIME_DIR": home / "runtime", "IPYTHONDIR": home / "ipython"}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "PYTEST"))}
    return kept | {key: str(value) for key, value in own.items()} | {"JUPYTER_PLATFORM_DIRS": "0"}


def _quiet_settings(home: Path) -> None:
    """Settings of a user who has answered the question whether the front end may ask for news.

    Cells out of sight are drawn too, so that their text can be read.
    """
    settings = {
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "notebook-extension/tracker": {"windowingMode": "none"},
    }
    for name, values in settings.items():
        file = home / "config" / "lab" / "user-settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(values))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{server.address}/api/status", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{server.app.value} did not start:\n{log.read_text(errors='replace')[-3000:]}")
