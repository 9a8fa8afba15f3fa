"""The notebooks as they are in the repository: clean, short, and leading on to each other."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

from tests.notebooks.running import NOTEBOOKS

MADE = sorted(NOTEBOOKS.glob("*.ipynb"))
LONGEST = 15
"""Lines with text in a cell: more is no longer one thought."""
WIDEST = 107
"""Letters in a line of code that are seen beside the list of files, on a screen of 1280 pixels."""

LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(params=MADE, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    read = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(read)
    return read


def test_they_are_numbered_without_a_gap():
    assert [path.name[:3] for path in MADE] == [f"{number:02}-" for number in range(1, len(MADE) + 1)]


def test_nothing_of_a_run_is_left(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [], cell.id
            assert cell.execution_count is None, cell.id
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}, "no state of widgets"


def test_any_python_runs_it(notebook):
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata.get("language_info", {"name": "python"})) == {"name"}, "no version of one machine"


def test_cells_have_names_and_one_is_the_main_one(notebook):
    for cell in notebook.cells:
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", cell.id), cell.id
        assert not re.fullmatch(r"[0-9a-f]{6,}(-[0-9a-f]+)*", cell.id), f"{cell.id} is not for people"
    main = [cell for cell in notebook.cells if "main" in cell.metadata.get("tags", ())]
    assert [cell.cell_type for cell in main] == ["code"]
    assert next(cell.id for cell in notebook.cells if cell.cell_type == "code") == "start"
    assert notebook.cells[0].source.startswith("# "), "a title"


def test_cells_are_short(notebook):
    for cell in notebook.cells:
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert 0 < len(lines) <= LONGEST, cell.id
        assert cell.cell_type == "markdown" or max(map(len, lines)) <= WIDEST, cell.id


def test_links_lead_somewhere_and_code_to_no_host(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not re.search(r"\b(https?|ftp|s3|gs)://", cell.source), cell.id
            continue
        for target in LINK.findall(cell.source):
            if not urlsplit(target).scheme:
                assert (NOTEBOOKS / target.partition("#")[0]).is_file(), f"{cell.id}: {target}"
        assert not re.search(r"!\[[^]]*\]\(https?:|<img[^>]+https?:", cell.source), f"{cell.id} fetches a picture"


def test_its_end_leads_to_the_others(notebook, path):
    ends = [urlsplit(target).path for target in LINK.findall(notebook.cells[-1].source)]
    assert any(target.endswith(".ipynb") and target != path.name for target in ends)


def test_it_is_run_and_looked_at_by_tests(path):
    tests = sorted(Path(__file__).parent.glob(f"test_{path.name[:2]}_*.py"))
    assert len(tests) == 1, "each notebook has a module of tests named by its number"
    assert "looks_good(ran)" in tests[0].read_text(), "its pictures are taken"
