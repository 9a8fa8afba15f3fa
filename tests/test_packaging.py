"""What is installed: the wheel holds the bundle, and the source archive is enough to build it without npm."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from geolake_nb.jupyter.map_widget import BUNDLE
from geolake_nb.reference import PAGES
from tests.jupyter.test_bundle import banner_hash, hash_of_sources

ROOT = Path(__file__).parents[1]
STATIC = "geolake_nb/jupyter/static"


def build(folder: Path, target: Path, *kinds: str, **environment: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "-o", str(target), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment or None, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the sources, which nobody edits between two builds, with packages of npm beside them."""
    copy = tmp_path_factory.mktemp("tree") / "copy"
    copy.mkdir()
    made = shutil.ignore_patterns("node_modules", "__pycache__", ".*")
    for folder in ("binder", "geolake_nb", "notebooks", "tests", "widgets"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=made)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
    written = copy / "notebooks" / "tables"  # by a notebook that was run where it stands
    written.mkdir()
    (written / "01.ipynb").write_text("{}")
    package = copy / "widgets" / "node_modules" / "leaflet"
    package.mkdir(parents=True)
    (package / "index.js").write_text("export {}")
    return copy


@pytest.fixture(scope="module")
def built(tree, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("built")
    build(tree, target, "--sdist", "--wheel")
    return target


@pytest.fixture(scope="module")
def unpacked(built) -> Path:
    """The source archive as somebody gets it."""
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters.
        packed.extractall(built / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    [folder] = (built / "unpacked").iterdir()
    return folder


def test_the_wheel_holds_the_bundle_and_what_the_pages_need(tree, built):
    [wheel] = built.glob("*.whl")
    files = contents(wheel)
    for path in (tree / STATIC).iterdir():
        assert files[f"{STATIC}/{path.name}"] == path.read_bytes()
    assert f"{STATIC}/{BUNDLE.name}" in files
    assert {"geolake_nb/py.typed", "geolake_nb/demo/storms.parquet", "geolake_nb/spark/log4j2.properties"} <= set(files)
    notebooks = {f"geolake_nb/notebooks/{path.name}": path.read_bytes() for path in tree.glob("notebooks/*.ipynb")}
    assert notebooks
    assert {name: data for name, data in files.items() if name.endswith(".ipynb")} == notebooks
    assert {f"geolake_nb/reference/{page}" for page in PAGES} <= set(files)
    assert {name.split("/")[0].split("-")[0] for name in files} == {"geolake_nb"}


def test_the_source_archive_holds_the_sources_of_the_bundle_and_nothing_that_is_made(tree, unpacked):
    names = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    wanted = {path.relative_to(tree).as_posix() for path in (tree / "widgets" / "src").rglob("*") if path.is_file()}
    wanted |= {f"widgets/{name}" for name in ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")}
    wanted |= {"LICENSE", "README.md", "binder/postBuild", "conftest.py", "requirements.lock"}
    wanted |= {"tests/conftest.py"}
    assert wanted <= names
    for made in ("node_modules", "__pycache__", ".pytest_cache", ".ipynb_checkpoints", "tables"):
        assert not any(f"{made}/" in name for name in names), made
    assert banner_hash(unpacked / STATIC / "map.js") == hash_of_sources(unpacked / "widgets")


def test_a_wheel_from_the_source_archive_needs_no_npm_and_is_the_same(built, unpacked, tmp_path):
    assert shutil.which("npm", path=str(tmp_path)) is None
    build(unpacked, tmp_path / "again", "--wheel", PATH=str(tmp_path))
    [wheel] = built.glob("*.whl")
    [again] = (tmp_path / "again").glob("*.whl")
    assert again.name == wheel.name
    assert contents(again) == contents(wheel)
