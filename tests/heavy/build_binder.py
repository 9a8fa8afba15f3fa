"""Build what Binder builds, without Docker, and time the README's first command on a fresh clone.

`python -m tests.heavy.build_binder` copies what a clone holds, follows repo2docker's steps in a new environment with a
new home (the packages of its image, `pip install -r binder/requirements.txt` in the folder of the clone,
`binder/postBuild`), compares every version with the lock file, runs the first notebook, without a network where this
process may cut it, and looks at the start page. Then it runs the command of the README on another fresh copy until its
URL answers, and once more. It fails where a step fails, where the first run takes over ten minutes, or the second over
one. `--only binder` and `--only readme` run half of it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
FIRST_RUN, SECOND_RUN = 600.0, 60.0
# What repo2docker 2026.4 has in its image for Python 3.11, as far as the package touches it.
IMAGE = ["ipywidgets==8.1.7", "jupyter_server==2.17.0", "jupyterlab==4.4.9", "notebook==7.4.7"]
# Of the environment, what says where packages, certificates and Java are.
KEPT = re.compile(r"PIP_|JAVA_HOME|DEFAULT_ARTIFACT_REPOSITORY|LANG|LC_|SSL_CERT|(HTTPS?|NO)_PROXY", re.IGNORECASE)
OFFLINE = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def clone(target: Path) -> Path:
    """What git would put into a clone of this folder as it is now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def environment(home: Path, *folders: Path) -> dict[str, str]:
    """A new user's: nothing is cached, and nothing of the caller's is on the path."""
    path = os.pathsep.join([*map(str, folders), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"])
    kept = {name: value for name, value in os.environ.items() if KEPT.match(name)}
    return kept | {"HOME": str(home), "PATH": path}


@contextmanager
def step(name: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


def locked() -> dict[str, set[str]]:
    pins: dict[str, set[str]] = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        name, _, version = line.partition(";")[0].strip().partition("==")
        pins.setdefault(name, set()).add(version)
    return pins


def build(folder: Path) -> None:
    """As repo2docker does it: the folder of the clone is the home of the user."""
    image = folder / "image"
    home = clone(folder / "jovyan")
    python = image / "bin" / "python"
    own = environment(home, image / "bin")

    def run(*words: str | Path, prefix: Sequence[str] = ()) -> str:
        command = [*prefix, *map(str, words)]
        done = subprocess.run(command, cwd=home, env=own, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout

    wanted = (home / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    if wanted != f"{sys.version_info.major}.{sys.version_info.minor}":
        raise SystemExit(f"binder/runtime.txt asks for Python {wanted}; run this with it")
    with step("an image like repo2docker's"):
        venv.create(image, with_pip=True, symlinks=True)
        run(python, "-m", "pip", "install", "-q", "--no-cache-dir", *IMAGE)
    with step("pip install -r binder/requirements.txt"):
        run(image / "bin" / "pip", "install", "-q", "--no-cache-dir", "-r", "binder/requirements.txt")
    run(python, "-m", "pip", "check")
    with step("postBuild"):
        print(run(home / "binder" / "postBuild"), end="")
    pins = locked()
    frozen = [line.partition("==") for line in run(python, "-m", "pip", "freeze", "--exclude", "geolake-nb").split()]
    other = [f"{name}=={version}" for name, _, version in frozen if version not in pins.get(name.lower(), {version})]
    if other:
        raise SystemExit(f"not the locked versions: {other}")
    print(f"{len(frozen)} packages, none but in its locked version where it is locked")
    first = min((home / "notebooks").glob("*.ipynb"))
    offline = OFFLINE if subprocess.run([*OFFLINE, "true"], capture_output=True, check=False).returncode == 0 else []
    with step(f"{first.name}, {'without' if offline else 'with'} a network"):
        run(image / "bin" / "jupyter", "execute", first, "--timeout=600", prefix=offline)
    with step("the start page"):
        look_at_start_page(image, home, own, first)


def look_at_start_page(image: Path, home: Path, own: dict[str, str], first: Path) -> None:
    """Binder starts JupyterLab in the folder of the clone and opens its default page."""
    port, token = "18888", "start"
    command = [str(image / "bin" / "jupyter-lab"), "--ip=127.0.0.1", f"--port={port}", "--no-browser", "--allow-root"]
    log = home.parent / "lab.log"
    with log.open("wb") as sink:
        server = subprocess.Popen(
            [*command, f"--IdentityProvider.token={token}"],
            cwd=home,
            env=own,
            stderr=sink,
            start_new_session=True,
            text=True,
        )
    try:
        shown = answer(f"http://127.0.0.1:{port}/?token={token}", time.monotonic() + 120)
    finally:
        stop(server)
    page = f"/lab/tree/notebooks/{first.name}"
    if page not in shown:
        raise SystemExit(f"Binder opens {shown}, not {page}")


def answer(address: str, deadline: float) -> str:
    """Where a URL leads in the end, once it answers."""
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as page:
                assert page.status == 200
                shown: str = page.url
                return shown
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def stop(session: subprocess.Popen[str]) -> None:
    """Ctrl-C to all that was started with it."""
    with suppress(ProcessLookupError):
        os.killpg(session.pid, signal.SIGINT)
    try:
        session.wait(30)
    finally:
        session.kill()


def until_url(command: str, folder: Path, own: dict[str, str]) -> float:
    """Seconds until a command has printed a URL that answers; then it is ended by Ctrl-C."""
    start = time.monotonic()
    shell = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=own, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert shell.stdout is not None
        for line in shell.stdout:
            print(f"  {line.rstrip()}", flush=True)
            if line.startswith("JupyterLab: "):
                answer(line.split()[1], time.monotonic() + 10)
                return time.monotonic() - start
        raise SystemExit(f"{command} ended with {shell.wait()}")
    finally:
        stop(shell)


def time_readme(folder: Path) -> bool:
    """The first command of the README on a fresh clone and in a new home, and then the second run."""
    tree = clone(folder / "clone")
    section = (tree / "README.md").read_text().partition("## Install")[2]
    command = re.search(r"```sh\n(.*?)\n```", section, re.DOTALL)[1]  # type: ignore[index]
    own = environment(folder / "home")
    first = until_url(f"{command} --no-browser", tree, own)
    again = until_url(".venv/bin/geolake demo --no-browser", tree, own)
    print(
        f"first command of the README: {first:.0f} s of {FIRST_RUN:.0f}, run again: {again:.0f} s of {SECOND_RUN:.0f}"
    )
    return first <= FIRST_RUN and again <= SECOND_RUN


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and time, in folders that are removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("binder", "readme"))
    options = parser.parse_args(arguments)
    holds = True
    with tempfile.TemporaryDirectory(prefix="geolake-binder-", ignore_cleanup_errors=True) as work:
        if options.only != "readme":
            build(Path(work))
        if options.only != "binder":
            holds = time_readme(Path(work))
    print("holds" if holds else "DOES NOT HOLD")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
