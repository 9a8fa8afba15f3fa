"""`geolake help`, and the messages that name it."""

from __future__ import annotations

import sys

import pytest

from geolake_nb.cli import demo, main, parsers_of_commands
from geolake_nb.errors import CrsError
from geolake_nb.reference import PAGES, section
from tests import small_tables


def run(capsys, *words):
    code = main(list(words))
    return code, *capsys.readouterr()


def test_help_alone_lists_every_command_and_the_topics(capsys):
    code, out, err = run(capsys, "help")
    assert (code, err) == (0, "")
    assert all(f"\n    {name}" in out for name in sorted(parsers_of_commands()))
    assert ", ".join(sorted(page.removesuffix(".md") for page in PAGES)) in out


@pytest.mark.parametrize("name", sorted(parsers_of_commands()))
def test_help_of_a_command_is_what_its_own_flag_prints(name, capsys):
    _, out, _ = run(capsys, "help", name)
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert out == capsys.readouterr().out + "\n"
    assert f"example:\n  geolake {name}" in out


@pytest.mark.parametrize("topic", ["findings", "bounds.missing", "ConflictError", "conflicterror", "protocol"])
def test_help_of_a_topic_is_its_section(topic, capsys):
    assert run(capsys, "help", topic) == (0, section(topic) + "\n", "")


def test_an_unknown_topic_is_one_sentence(capsys):
    code, out, err = run(capsys, "help", "chek")
    assert (code, out) == (3, "")
    assert err.startswith("geolake: no help about 'chek'; did you mean check")


def test_findings_end_with_the_hint_once(tmp_path, capsys):
    folder = str(small_tables.make_delta(tmp_path / "t", bounds=False))
    _, out, _ = run(capsys, "check", folder)
    assert out.splitlines()[-1] == "why it matters: geolake help bounds.missing"
    assert out.count("geolake help") == 1


def test_a_good_table_has_no_hint(tmp_path, capsys):
    assert "geolake help" not in run(capsys, "check", str(small_tables.make_delta(tmp_path / "t")))[1]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("remedy", [None, "write EPSG:3857"])
def test_an_error_without_a_remedy_names_its_section_on_a_terminal(terminal, remedy, capsys, monkeypatch):
    def fail(options):
        raise CrsError("no such CRS", remedy=remedy)

    monkeypatch.setattr(demo, "run", fail)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    code, _, err = run(capsys, "demo")
    assert code == 3
    assert ("geolake help CrsError" in err) is (terminal and remedy is None)
