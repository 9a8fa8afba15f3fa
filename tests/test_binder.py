"""What Binder builds: locked versions only, a script that runs, and a page that is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
BINDER = ROOT / "binder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirement_lines() -> list[str]:
    return [line for line in (BINDER / "requirements.txt").read_text().splitlines() if not line.startswith("#")]


def locked() -> set[str]:
    """The names in the lock file, which pins each of them."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert all(re.match(r"[a-z0-9.-]+==\S+", line) for line in lines)
    return {line.partition("==")[0] for line in lines}


def direct(name: str, extra: str) -> list[Requirement]:
    """What a package asks for on this machine: ours by its sources, others by what is installed."""
    if name == PROJECT["name"]:
        return [Requirement(line) for line in PROJECT["optional-dependencies"].get(extra, PROJECT["dependencies"])]
    requirements = [Requirement(line) for line in requires(name) or []]
    return [more for more in requirements if more.marker is None or more.marker.evaluate({"extra": extra})]


def needed(requirement: Requirement, seen: set[tuple[str, str]]) -> set[str]:
    """The names of all that pip installs for a requirement."""
    name = canonicalize_name(requirement.name)
    names = {name}
    for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
        seen.add((name, extra))
        for more in direct(name, extra):
            names |= needed(more, seen)
    return names


def test_every_package_that_binder_installs_is_locked():
    constraint, project, *more = requirement_lines()
    assert (BINDER / constraint.removeprefix("-c ")).resolve() == ROOT / "requirements.lock"
    # pip reads "." from the folder it is run in, which is the clone.
    assert project == ".[demo]"
    names: set[str] = set()
    for line in [f"{PROJECT['name']}[demo]", *more]:
        names |= needed(Requirement(line), set())
    assert {"jupyterlab", "notebook", "pyspark", "delta-spark", "geopandas", "rasterio", "spatialbench-cli"} <= names
    assert names - {PROJECT["name"]} <= locked()


def test_its_python_is_one_that_the_package_runs_on():
    name, _, version = (BINDER / "runtime.txt").read_text().strip().partition("-")
    assert name == "python"
    assert version in SpecifierSet(PROJECT["requires-python"])
    assert (BINDER / "apt.txt").read_text().split() == ["openjdk-17-jre-headless"]


def test_the_script_is_one_that_bash_can_run():
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    help_text = subprocess.run(
        [sys.executable, "-c", "from geolake_nb.cli import main; main(['demo', '--help'])"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    [command] = re.findall(r"^geolake demo (.*)$", script.read_text(), re.MULTILINE)
    assert [word for word in command.split() if word.startswith("-") and word not in help_text] == []


def test_the_start_page_is_the_first_notebook():
    page = json.loads((BINDER / "jupyter_lab_config.json").read_text())["LabApp"]["default_url"]
    first = min((ROOT / "notebooks").glob("*.ipynb"))
    assert page == f"/lab/tree/{first.relative_to(ROOT)}"
