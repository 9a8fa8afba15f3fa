"""The reference pages: they are what the code says, and everything is in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

import geolake_nb
from geolake_nb import errors
from geolake_nb.cli import parsers_of_commands
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.rules import RULES
from geolake_nb.jupyter.magic_commands import SUBCOMMANDS
from geolake_nb.reference import FOLDER, PAGES, section, topics
from geolake_nb.reference.pages import pages
from geolake_nb.reference.public_api import public_classes, public_functions
from tests.no_row_lost.feature_page import PAGE, feature_page
from tests.reference.markdown_reading import read_page

ROOT = Path(geolake_nb.__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(FOLDER / page for page in PAGES)]
BADGE, BINDER = "https://mybinder.org/badge_logo.svg", "https://mybinder.org/v2/"
READ = {path: read_page(path) for path in DOCUMENTS}
# By hand, or by the command that measures: the code does not know what they have to hold.
WRITTEN = (
    "json.md",
    "changes.md",
    "guarantees.md",
    "benchmarks.md",
    "comparison.md",
    "pyiceberg.md",
    "architecture.md",
)


def test_the_pages_on_disk_are_those_of_the_code(monkeypatch):
    # Nor does the width of a terminal play a part.
    monkeypatch.setenv("COLUMNS", "40")
    made = {**pages(), PAGE.name: feature_page()}
    assert list(made) == [page for page in PAGES if page not in WRITTEN]
    for name, text in made.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, (
            "python -m geolake_nb.reference or, for the features of Delta, tests.heavy.feature_matrix --page writes it"
        )


def kinds_of_error() -> dict[str, ast.ClassDef]:
    """Every class of the package that is a `GeolakeError`, as its source has it."""
    classes = [
        node
        for path in (ROOT / "geolake_nb").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    collected: dict[str, ast.ClassDef] = {}
    names = {"GeolakeError"}
    while names - collected.keys():
        collected |= {node.name: node for node in classes if node.name in names}
        names |= {node.name for node in classes if any(getattr(base, "id", None) in names for base in node.bases)}
    return collected


def headings_wanted():
    return {
        "commands.md": {f"geolake {name}" for name in parsers_of_commands()},
        "magics.md": {f"%geolake {name}" for name in SUBCOMMANDS},
        "findings.md": {rule.id for rule in RULES},
        "errors.md": set(kinds_of_error()),
        "delta-features.md": set(),
        "api.md": {function.name for function in public_functions()}
        | {name for kind in public_classes() for name in (kind.name, *(method.name for method in kind.methods))},
    }


@pytest.mark.parametrize("page", headings_wanted())
def test_everything_has_a_section(page):
    result = READ[FOLDER / page].headings
    assert headings_wanted()[page] == {heading for heading in result[1:] if not heading.startswith("Options of ")}


def test_every_option_of_a_command_is_on_its_page():
    text = (FOLDER / "commands.md").read_text()
    flags = {flag for parser in parsers_of_commands().values() for flag in parser._option_string_actions}
    assert [flag for flag in sorted(flags - {"-h", "--help", "-o"}) if f"`{flag}" not in text] == []


def test_tables_are_tables_and_every_sentence_is_there():
    assert [READ[FOLDER / page].tables for page in ("findings.md", "errors.md")] == [2, 1]
    for rule in RULES:
        assert rule.why[0].isupper()
        assert rule.why.endswith(".")
        assert rule.why in (FOLDER / "findings.md").read_text()
    assert len(kinds_of_error()) > len(errors.__all__)
    for name, node in kinds_of_error().items():
        own = {statement.target.id for statement in node.body if isinstance(statement, ast.AnnAssign)}
        assert "advice" in own, f"{name} does not say what to do"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere_in_the_repository(path):
    for address in set(READ[path].links) - {BADGE}:
        # Binder opens a file of this repository by its path.
        link = unquote(address).partition("lab/tree/")[2] if address.startswith(BINDER) else address
        name, _, anchor = link.partition("#")
        assert "://" not in name, link
        target = (path.parent / name).resolve() if name else path
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            page = READ.get(target) or read_page(target)
            assert anchor in page.anchors, link


def test_every_topic_has_a_text_of_a_hundred_columns_without_marks():
    assert {rule.id for rule in RULES} | set(errors.__all__) | set(parsers_of_commands()) <= set(topics())
    for topic in topics():
        text = section(topic)
        assert section(topic.upper()) == text
        assert not any(mark in text for mark in ("](", "`", "|--")), topic
        assert not re.search(r"\*\*[^*]+\*\*", text), topic
        assert max(map(len, text.splitlines())) <= 100, topic


def test_the_section_of_a_rule_says_why_and_what_to_type():
    output = " ".join(section("bounds.missing").split())
    assert "A query about one town reads the whole table" in output
    assert "geolake repair TABLE" in output
    assert "Parquet geospatial, Bounding Box" in output


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("bounds.mising", "no help about 'bounds.mising'; did you mean bounds.missing?"),
        ("ConflitError", "did you mean ConflictError"),
        ("layouts", "did you mean layout?"),
        ("../errors", "errors"),
        (
            "zzzzzz",
            "use a command, or one of: api, architecture, benchmarks, changes, commands, comparison, delta-features",
        ),
    ],
)
def test_an_unknown_topic_is_a_sentence(topic, message):
    with pytest.raises(GeolakeError, match="no help about") as caught:
        section(topic)
    assert message in str(caught.value)


@pytest.mark.parametrize("path", [ROOT / "CONTRIBUTING.md", FOLDER / "architecture.md"], ids=lambda path: path.name)
def test_every_file_that_is_named_exists(path):
    names = [code.text for code in READ[path].of("") if "/" in code.text and code.text.endswith((".py", ".ts", ".md"))]
    assert len(names) > 20
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_readme_is_short_and_shows_python_early():
    text = README.read_text(encoding="utf-8")
    assert len(text.replace("|", " ").split()) < 750
    assert text[: text.index("```python")].count("\n") < 40
