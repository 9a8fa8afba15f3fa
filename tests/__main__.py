"""The whole test suite on a fresh machine: `python3 -m tests`.

Needs Python 3.11 or later, and Java 17 for the tests with Spark: makes `.venv`, installs the locked packages, then
runs every check.
Words after the command go to pytest instead of the default selection.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
    subprocess.run([*pip, "-e", ".[dev,raster,s3,spark,sql]"], cwd=ROOT, check=True)
    stamp.touch()


def steps(words: list[str]) -> dict[str, list[str]]:
    """What a contributor runs, in the order in which a failure is cheapest."""
    return {
        "lint": [PYTHON, "-m", "ruff", "check", "."],
        "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
        "types": [PYTHON, "-m", "mypy"],
        "tests": [PYTHON, "-m", "pytest", "-n", "2", *words],
    }


def main() -> int:
    """Run all steps, even after one has failed, and say which ones did."""
    install()
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
