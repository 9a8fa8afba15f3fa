"""PyIceberg's own unit tests, with the bridge and without it: `python -m tests.heavy.pyiceberg_own_tests FOLDER`.

FOLDER holds the sources of the release that is installed, such as its unpacked sdist, of which `tests` is run twice,
the second time with `geo.enable()` before the first test. What passes and what fails has to be the same, but for three
tests which hold that PyIceberg lacks what the bridge adds. Words after the folder go to pytest instead of the folders
that need no Docker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("avro", "catalog", "expressions", "io", "table", "utils", "test_*.py")
LACKING = {
    "tests.table.test_metadata::test_serialize_v3",  # metadata of version 3 cannot be written
    "tests.test_types::test_geography_type_deserialization_failure",  # Java's form of a type is not read
    "tests.test_types::test_geometry_type_deserialization_failure",
}
PLUGIN = "def pytest_sessionstart(session):\n    import geolake_nb.pyiceberg as geo\n\n    geo.enable()\n"


def outcomes(folder: Path, words: list[str], *, bridged: bool) -> dict[str, str]:
    """How each test ends."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.xml"
        (Path(name) / "geolake_enable.py").write_text(PLUGIN)
        plugin = ["-p", "geolake_enable"] if bridged else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
        command += ["-m", "not integration and not s3 and not adls and not gcs and not benchmark"]
        command += ["--continue-on-collection-errors", "-o", "filterwarnings=", f"--junitxml={report}", *words]
        known = os.environ.get("PYTHONPATH", "")
        # Not the root of this repository: its tests have the name of theirs.
        (Path(name) / "geolake_nb").symlink_to(ROOT / "geolake_nb")
        paths = {"PYTHONPATH": f"{name}:{folder}:{known}", "PATH": "/usr/bin:/bin", "HOME": name}
        subprocess.run(command, cwd=folder, env=paths, stdout=subprocess.DEVNULL, check=False)
        if not report.exists():
            raise SystemExit(f"pytest wrote no report; is {folder} a checkout of iceberg-python?")
        return dict(map(outcome, ElementTree.parse(report).iter("testcase")))


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    # Some names hold the address of an object.
    name = re.sub(r"0x[0-9a-f]+", "0x", f"{case.get('classname')}::{case.get('name')}")
    return name, kinds[0] if kinds else "passed"


def counts(ended: dict[str, str]) -> str:
    return ", ".join(f"{sum(value == kind for value in ended.values())} {kind}" for kind in sorted(set(ended.values())))


def main(folder: Path, words: list[str]) -> int:
    """Run them twice, and compare."""
    chosen = words or [
        str(path.relative_to(folder)) for name in FOLDERS for path in sorted((folder / "tests").glob(name))
    ]
    alone = outcomes(folder, chosen, bridged=False)
    bridged = outcomes(folder, chosen, bridged=True)
    print(f"alone:           {counts(alone)}")
    print(f"with the bridge: {counts(bridged)}")
    differing = {name: (alone.get(name), bridged.get(name)) for name in alone | bridged}
    differing = {name: pair for name, pair in differing.items() if pair[0] != pair[1]}
    for name, (before, after) in sorted(differing.items()):
        print(f"{name}: {before} alone, {after} with the bridge")
    return 1 if differing.keys() - LACKING else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
