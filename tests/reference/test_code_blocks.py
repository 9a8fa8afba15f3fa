"""The code of the README and of the reference pages: commands can be typed, examples run, Python compiles or runs."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

import pytest

from geolake_nb.cli import command_parser, main, parsers_of_commands
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.magic_commands import parser_of
from geolake_nb.jupyter.magic_words import split_words
from tests.reference.example_tables import make_example_tables
from tests.reference.test_pages import DOCUMENTS, READ

TOOLS = {"pip", "jupyter"}
EXIT_CODES = {"check": 1}
"""Of the examples that do not exit with 0: the table that they check has findings."""
documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_example_tables(tmp_path)
    (tmp_path / "queries.txt").write_text("ST_Intersects(geom, 'POLYGON ((5 45, 12 45, 12 52, 5 52, 5 45))')\n")
    return tmp_path


def commands(line: str) -> list[list[str]]:
    """The commands of a line, as a shell takes it apart."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    result: list[list[str]] = [[]]
    for word in lexer:
        if word in ("&&", "|", ";"):
            result.append([])
        else:
            result[-1].append(word)
    return [words for words in result if words]


def check_command(words: list[str]) -> None:
    tool = Path(words[0]).name
    if tool == "geolake":
        try:
            command_parser().parse_args(words[1:])
        except GeolakeError:
            pytest.fail(shlex.join(words))
    elif tool in ("python", "python3"):
        assert words[1] == "-m", words
        assert importlib.util.find_spec(words[2]) is not None, words
    else:
        assert tool in TOOLS, words


@documents
def test_every_line_of_a_shell_can_be_typed(path):
    for code in READ[path].of("sh"):
        for line in code.text.replace("\\\n", "").splitlines():
            for words in commands(line):
                check_command(words)


@documents
def test_commands_inside_a_text_can_be_typed(path):
    for code in READ[path].of(""):
        words = code.text.split()
        if len(words) > 2 and Path(words[0]).name in ("geolake", "python", "python3"):
            check_command(shlex.split(code.text))
        elif words[:1] == ["geolake"] and len(words) == 2:
            assert words[1] in parsers_of_commands()


@documents
def test_every_language_is_one_that_is_checked(path):
    assert {code.language for code in READ[path].codes} <= {"", "sh", "python", "ipython", "pycon", "text"}


@documents
def test_python_compiles_and_what_is_marked_runs(path, tables, capsys):
    names: dict = {}
    for number, code in enumerate(READ[path].of("python")):
        compiled = compile(code.text, f"{path.name}, block {number}", "exec")
        if code.runs:
            exec(compiled, names)
    out = capsys.readouterr().out
    if path.name == "findings.md":
        assert out.startswith("bounds.missing warning geolake repair ")
    if path.name == "README.md":
        assert [out] == [code.text for code in READ[path].of("text")]
    if path.name == "errors.md":
        assert "there is nothing at this path" in out


@documents
def test_magics_are_understood(path):
    for code in READ[path].of("ipython"):
        head, _, body = code.text.partition("\n")
        _, percent, line = head.partition("%geolake ")
        assert percent
        name, *words = split_words(line)
        assert parser_of(name).parse_args([*words, *([f"--where={body.strip()}"] if body.strip() else [])]) is not None


def test_the_example_of_every_command_runs(tables, capsys):
    # In the order of the page: what is undone is the repair before it.
    for name, parser in parsers_of_commands().items():
        _, _, example = (parser.epilog or "").partition("example:\n")
        program, *words = shlex.split(example)
        assert (program, words[0]) == ("geolake", name)
        code = main(words)
        out, err = capsys.readouterr()
        assert (code, err) == (EXIT_CODES.get(name, 0), ""), example
        assert out
    assert (tables / "roads.html").stat().st_size > 1000
