"""The whole test suite on a fresh machine: `python3 -m tests`.

Needs Python 3.11 or later, Java 17 for the tests with Spark, and Node 20 for the front end: makes `.venv`, installs
the locked packages and, where it may, Chromium, then runs every check.
Words after the command go to pytest instead of the default selection. `--quick` runs what needs no Spark, no browser
and no front end.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDGETS = ROOT / "widgets"
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = str(BIN / "python")


def install() -> None:
    """Make the environment from the lock file, unless it exists."""
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
        "--no-compile",  # most of what is installed is never imported
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
        apt_get("update", "-qq")
        apt_get("install", "-qq", "-y", "chromium")


def apt_get(*words: str, patience: float = 900) -> None:
    """Run apt-get, and wait while another one holds a lock: its own timeout does not cover the lists of packages."""
    command = ["apt-get", *words, "-o", f"DPkg::Lock::Timeout={patience:.0f}"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    end = time.monotonic() + patience
    while True:
        run = subprocess.run(
            command, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if run.returncode == 0:
            return
        if "Could not get lock" not in run.stderr or time.monotonic() > end:
            raise SystemExit(f"{' '.join(command)} failed:\n{run.stderr}")
        time.sleep(2)


def checks() -> dict[str, list[str]]:
    """What reads the code without running it, and the tests of the front end."""
    front_end = {
        "front end types": ["npm", "--prefix", "widgets", "run", "--silent", "check"],
        "front end tests": ["npm", "--prefix", "widgets", "--silent", "test"],
    }
    return {
        "lint": [PYTHON, "-m", "ruff", "check", "."],
        "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
        "types": [PYTHON, "-m", "mypy"],
        **(front_end if shutil.which("npm") is not None else {}),
    }


def is_good(name: str, command: list[str], *, held_back: bool = False) -> bool:
    """Run a step and say how it went; what is `held_back` is printed when it has ended, in one piece."""
    start = time.monotonic()
    if not held_back:
        print(f"--- {name}", flush=True)
    into = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if held_back else {}
    run = subprocess.run(command, cwd=ROOT, check=False, text=True, **into)
    good = run.returncode == 0
    line = f"--- {name}: {'good' if good else 'failed'} in {time.monotonic() - start:.0f} s"
    print(f"{run.stdout or ''}{line}", flush=True)
    return good


def main() -> int:
    """Run all steps, even after one has failed, and report which ones failed."""
    words = sys.argv[1:]
    quick = "--quick" in words
    if quick:
        words.remove("--quick")
        words = ["-m", "not spark and not browser and not slow", *words]
    with ThreadPoolExecutor(2) as pool:  # what these wait for is not the same
        for done in [pool.submit(install), *([] if quick else [pool.submit(install_front_end)])]:
            done.result()
    os.environ.setdefault("GEOLAKE_ARTEFACTS", str(ROOT / "artifacts"))  # pictures of what a browser showed
    with ThreadPoolExecutor(2) as pool:
        chosen = {name: command for name, command in checks().items() if not (quick and name.startswith("front end"))}
        started = {name: pool.submit(is_good, name, command, held_back=True) for name, command in chosen.items()}
        failed = [name for name, done in started.items() if not done.result()]
    pytest = [PYTHON, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder"]
    pytest += ["--durations=50", "--durations-min=5"]  # what makes the suite long
    if not is_good("tests", [*pytest, *words]):
        failed.append("tests")
    print(f"failed: {', '.join(failed)}" if failed else "all good")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
