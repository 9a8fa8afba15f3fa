"""The words of the field: no text and no name uses an expression of our own where data engineers have a word."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import geolake_nb

ROOT = Path(geolake_nb.__file__).parents[1]
FOLDERS = ("geolake_nb", "notebooks", "tests", "widgets/src", "widgets/test")
FILES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".ipynb", ".md", ".py", ".ts"} and path != Path(__file__)
    ),
]

INSTEAD = {
    # Names.
    r"(?<![a-z])mend(s|ed|ing)?(?![a-z])|Mending": "repair, fix",
    r"\bjudg|[Uu]njudged|Judg[em]": "check, prune",
    r"KnownParts": "PruneInput",
    r"\brestat(e|es|ed|ing)\b": "update the statistics",
    r"\bstamped\b": "with_table_id",
    r"\bill[_-]sized\b": "files_to_compact",
    r"row_moving|row_fitting|box_moving|table_places": "shuffle, coerce, box_transform, detect",
    r"\bMOST_": "MAX_",
    r"OneWayDoor|\bone[_-]way\b|\bdoors?\b": "irreversible step",
    r"was_there|find_landed|require_store": "already_applied, find_transaction, require_atomic_put",
    r"class (Place|Found|Shown)\b|\b(Place|Found|Shown)\(": "Location, DetectedTable, Displayable",
    r"GivenRows|\bunplaced\b|said_types|\b_HOMES\b": "InputRows, pending, parse_column_types, _LAZY_EXPORTS",
    r"\.ahead\b|replaced_file": "prefetch, atomic_replace",
    # Sentences.
    r"(?<!here )\b(is|are) no (?!longer|more|less)[a-z]": "expected Y, got X; is not a",
    r"\bow(e|es|ed|ing)\b": "require",
    r"\btells? of\b|\btold of\b": "report",
    r"\bdoses?\b": "stress run",
    r"asked tables|wild rows|rows? without a place": "query fixtures, non-finite values, null or empty geometry",
    r"[Tt]ake it back|[Tt]aken back": "undo",
    r"files? over each other|[Ff]iles over its|\blies? over\b": "overlap",
    r"taken away|added back": "removed, restored",
    r"file is there already|ends before its end|which is not followed": "file already exists, truncated, refused",
    r"meets the window|is outside the window|leaves? room for a match": "bounds overlap the query, may match (min/max)",
    r"rows may lie anywhere|[Ww]ith complete bounds: the same": "no bounds",
    r"Health: |NOT JUDGED|looks for what is wrong": "Not checked",
    r"One way: |To agree, type": "Cannot be undone, type to confirm",
    r"\bIt runs\.|table is as it was|[Tt]he rows stay about": "Running, no changes were made, row order is kept",
    r"will stand in the log|written again as about": "log entries, rewritten into about",
    r"What an engine must speak|which is \(CRS": "Required reader and writer features, CRS name",
    r"Ask Spark for|files that lag behind": "Load collations from Spark, outdated files",
    r"a list is no filter|rasters are Havasu's|asks no host": "expected, only Havasu tables store, works offline",
    r"\d+ x \d+ cells": "pixels",
    r"By Delta geospatial": "Reference:",
}
VAGUE = {"found", "held", "one", "said", "thing"}
"""Names that say nothing about a value: it gets its noun."""


@pytest.mark.parametrize("pattern", INSTEAD)
def test_no_text_has_an_expression_of_our_own(pattern):
    banned = re.compile(pattern)
    hits = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:150]}"
        for path, lines in LINES.items()
        for number, line in enumerate(lines, start=1)
        if banned.search(line)
    ]
    assert hits == [], f"write: {INSTEAD[pattern]}"


LINES = {path: path.read_text(encoding="utf-8").splitlines() for path in FILES}


@pytest.mark.parametrize("folder", ["geolake_nb", "tests"])
def test_every_variable_has_a_noun(folder):
    vague = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (name := assigned_name(node)) in VAGUE
    ]
    examples = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, lines in LINES.items()
        if path.suffix == ".py"
        for number, line in enumerate(lines, start=1)
        if re.search(rf"^\s*>>> (.* for )?({'|'.join(VAGUE)}) (=|in) ", line)
    ]
    assert vague + examples == []


def assigned_name(node: ast.AST) -> str | None:
    """The name that a node gives to a value, if it does."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None


def test_the_old_words_are_noticed():
    old = [
        "Mend it: geolake mend t",
        "a list is no filter",
        "MOST_FILES = 3",
        "it owes no bound",
        "The file is no table",
    ]
    assert [any(re.search(pattern, line) for pattern in INSTEAD) for line in old] == [True] * len(old)
    good = ["there is no Delta log", "it is no longer kept", "appendMode: recommended", "the footer owns its box"]
    assert [any(re.search(pattern, line) for pattern in INSTEAD) for line in good] == [False] * len(good)
