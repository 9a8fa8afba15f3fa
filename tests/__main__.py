"""The whole test suite on a fresh machine: `python3 -m tests`.

Needs Python 3.11 or later, Java 17 for the tests with Spark, and Node 20 for the front end: makes `.venv`, installs
the locked packages and, where it may, Chromium, then runs every check.
Words after the command go to pytest instead of the default selection.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDGETS = ROOT / "widgets"
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = str(BIN / "python")


def install() -> None:
    """Make the environment from the lock file, unless it is there already."""
    state = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "requirements.lock")))
    stamp = VENV / f"geolake-{state.hexdigest()[:16]}"
    if stamp.exists():
        return
    print("installing into .venv ...", flush=True)
    if not Path(PYTHON).exists():
        venv.create(VENV, with_pip=True, symlinks=os.name != "nt")
    pip = [
        PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        "requirements.lock",
    ]
    subprocess.run([*pip, "-e", ".[demo,dev,raster,s3,spark,sql]"], cwd=ROOT, check=True)
    stamp.touch()


def install_front_end() -> None:
    """The packages that the front end is built of, and a browser to try it in."""
    lock = WIDGETS / "package-lock.json"
    stamp = WIDGETS / "node_modules" / f"geolake-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if shutil.which("npm") is not None and not stamp.exists():
        print("installing into widgets/node_modules ...", flush=True)
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=WIDGETS, check=True)
        stamp.touch()
    if shutil.which("chromium") is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        print("installing Chromium ...", flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-qq"], ["install", "-qq", "-y", "chromium"]):
            subprocess.run(["apt-get", *words], env=quiet, stdout=subprocess.DEVNULL, check=True)


def steps(words: list[str]) -> dict[str, list[str]]:
    """What a contributor runs, in the order in which a failure is cheapest."""
    front_end = {
        "front end types": ["npm", "--prefix", "widgets", "run", "--silent", "check"],
        "front end tests": ["npm", "--prefix", "widgets", "--silent", "test"],
    }
    return {
        "lint": [PYTHON, "-m", "ruff", "check", "."],
        "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
        "types": [PYTHON, "-m", "mypy"],
        **(front_end if shutil.which("npm") is not None else {}),
        "tests": [PYTHON, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder", *words],
    }


def main() -> int:
    """Run all steps, even after one has failed, and say which ones did."""
    install()
    install_front_end()
    os.environ.setdefault("GEOLAKE_ARTEFACTS", str(ROOT / "artifacts"))  # pictures of what a browser showed
    failed = []
    for name, command in steps(sys.argv[1:]).items():
        start = time.monotonic()
        print(f"--- {name}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(name)
        print(
            f"--- {name}: {'failed' if name in failed else 'good'} in {time.monotonic() - start:.0f} s",
            flush=True,
        )
    print(f"failed: {', '.join(failed)}" if failed else "all good")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
