"""What Tab offers after `%geolake`: subcommands, flags, variables, paths, columns, collations."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.magic_commands import SUBCOMMANDS, parser_of
from geolake_nb.model.collation import collation_names
from geolake_nb.model.types import GeographyType, GeometryType, StringType
from geolake_nb.reference import topics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

    from geolake_nb.api.table import Table
    from geolake_nb.model.types import DataType

__all__ = ["add_completion", "offers", "remove_completion"]

_MAGIC = re.compile(r"^\s*(?:[^=%'\"]*=\s*)?(%{1,2})geolake(?=\s)")
_PART = re.compile(r"[\w.]*$")
_SAFE = re.compile(r"[\w.]+")
_QUOTES = "'\""
_IDENTIFIER = "geolake_nb"
_MAX_OFFERS = 200
_GEO = (GeometryType, GeographyType)
_GEO_TYPES = ["geography(OGC:CRS84, spherical)", "geometry(OGC:CRS84)", "geometry(EPSG:3857)"]


def offers(text: str, cell_line: int, names: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The completions at the end of the text, and the part of the text that they replace.

    `text` is the cell up to the cursor, `cell_line` the line of the cursor, `names` the variables of the notebook.

    >>> offers("%geolake sch", 0, {}), offers("x = %geolake ch", 0, {})
    (('sch', ['schema']), ('ch', ['check']))
    >>> offers("print(1)", 0, {})
    ('', [])
    """
    lines = text.split("\n")
    head = lines[0] if cell_line else lines[-1]
    match = _MAGIC.match(head)
    if match is None:
        return "", []
    if cell_line:
        return _in_body(head[match.end() :], lines[-1], names) if match.group(1) == "%%" else ("", [])
    return _in_line(head[match.end() :], names)


def add_completion(shell: InteractiveShell) -> None:
    """Register the completions in the shell, before those of Python."""
    from IPython.core.completer import context_matcher

    remove_completion(shell)

    @context_matcher(identifier=_IDENTIFIER, priority=10)  # type: ignore[untyped-decorator]
    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        from IPython.core.completer import SimpleCompletion

        lines = context.full_text.split("\n")
        before = "\n".join([*lines[: context.cursor_line], context.text_until_cursor])
        fragment, texts = offers(before, context.cursor_line, shell.user_ns)
        completions = [SimpleCompletion(text=text, type="magic") for text in texts]
        return {"completions": completions, "matched_fragment": fragment, "suppress": bool(texts), "ordered": True}

    shell.Completer.custom_matchers.append(matcher)


def remove_completion(shell: InteractiveShell) -> None:
    """Unregister the completions."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [other for other in matchers if getattr(other, "matcher_identifier", None) != _IDENTIFIER]


def _in_line(line: str, names: Mapping[str, Any]) -> tuple[str, list[str]]:
    words, word = _cut(line)
    if not words:
        return word, _starting(word, SUBCOMMANDS)
    name, rest = words[0], words[1:]
    if name == "help":
        return word, _starting(word, [*SUBCOMMANDS, *topics()])
    if name not in SUBCOMMANDS:
        return "", []
    parser = parser_of(name)
    flag, equals, value = word.partition("=")
    if word.startswith("-"):
        if equals:
            return _value(parser, flag, value, _named(rest, names))
        return word, _starting(
            word, (known for known in _flags(parser) if known.startswith("--") and known not in rest)
        )
    option = _flags(parser).get(rest[-1]) if rest else None
    if option is not None and option.nargs is None and option.type is None:
        return _value(parser, rest[-1], word, _named(rest, names))
    if _positionals(parser, rest) == 0:
        return word, _starting(word, [*_tables(names), *_catalogs()]) + _paths(word)
    return _after_table(name, word, _named(rest, names))


def _in_body(line: str, last: str, names: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Columns, in the filter under `%%geolake explain t`."""
    words, word = _cut(line)
    return _columns(last, _named([*words, word][1:], names))


def _after_table(name: str, word: str, table: Table | None) -> tuple[str, list[str]]:
    column, equals, value = word.lstrip(_QUOTES).partition("=")
    if name == "collations":
        if equals:
            return value, _starting(value, [*collation_names(), "none"])
        return column, _starting(column, (f"{path}=" for path in _paths_of(table, (StringType,))))
    if name == "enable":
        if equals:
            return value, _starting(value, _GEO_TYPES)
        features = ("collations", "geospatial")
        return column, _starting(column, [*(f"{path}=" for path in _paths_of(table)), *features])
    if name in ("convert", "export"):
        return word, _paths(word)
    return "", []


def _value(parser: argparse.ArgumentParser, flag: str, word: str, table: Table | None) -> tuple[str, list[str]]:
    """The completions after a flag."""
    known = _flags(parser).get(flag)
    if known is None:
        return "", []
    if known.choices is not None:
        return word, _starting(word, map(str, known.choices))
    if known.dest == "output":
        return word, _paths(word)
    if flag == "--color":
        return word, _starting(word, ["bytes", "overlap", "rows"])
    if flag in ("--cluster", "--partition-by", "--where"):
        return _columns(word, table)
    if flag == "--column":
        if known.metavar == "COLUMN=TYPE":
            return _after_table("enable", word, table)
        return _columns(word, table, _GEO)
    return "", []


def _columns(text: str, table: Table | None, kinds: tuple[type, ...] | None = None) -> tuple[str, list[str]]:
    match = _PART.search(text)
    part = match.group() if match else ""
    return part, _starting(part, _paths_of(table, kinds))


def _cut(line: str) -> tuple[list[str], str]:
    """The words that are complete, and the one that is being typed, with its opening quote.

    >>> _cut(" explain t --where 'a b"), _cut(" check ")
    ((['explain', 't', '--where'], "'a b"), (['check'], ''))
    """
    words: list[str] = []
    word, quote = "", ""
    for character in line:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character.isspace():
            words += [word] if word else []
            word = ""
            continue
        word += character
    return words, word


def _flags(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {flag: action for action in parser._actions for flag in action.option_strings}


def _positionals(parser: argparse.ArgumentParser, words: list[str]) -> int:
    """How many words are neither flags nor their values."""
    flags = _flags(parser)
    count, skip = 0, False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in flags and flags[word].nargs is None
        else:
            count += 1
    return count


def _starting(start: str, words: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(word for word in words if word.startswith(start)))[:_MAX_OFFERS]


def _tables(names: Mapping[str, Any]) -> list[str]:
    from geolake_nb.api.table import Table

    return [name for name, value in names.items() if isinstance(value, Table) and not name.startswith("_")]


def _named(words: list[str], names: Mapping[str, Any]) -> Table | None:
    """The table that one of the words is the variable of; a path is not opened for a Tab."""
    known = set(_tables(names))
    return next((names[word] for word in words if word in known), None)


def _paths_of(table: Table | None, kinds: tuple[type, ...] | None = None) -> list[str]:
    """The columns by their paths; a name that is more than a name would not stay in its place in the cell."""
    if table is None:
        return []

    def fits(data_type: DataType) -> bool:
        return kinds is None or isinstance(data_type, kinds)

    return [path for path, field in table.schema.walk() if fits(field.type) and _SAFE.fullmatch(path)]


def _catalogs() -> list[str]:
    from geolake_nb.formats.iceberg.catalogs import configured_catalogs

    try:
        return [f"{name}." for name in configured_catalogs() if _SAFE.fullmatch(name)]
    except GeolakeError:
        return []


def _paths(word: str) -> list[str]:
    """The folders and files that the word may become, quoted where they have to be."""
    typed = word.lstrip(_QUOTES)
    folder, part = os.path.split(typed)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            paths = [
                os.path.join(folder, entry.name) + (os.sep if entry.is_dir() else "")
                for entry in entries
                if entry.name.startswith(part) and entry.name.isprintable() and not entry.name.startswith(".")
            ]
    except OSError:
        return []
    quoted = word[:1] if word[:1] in _QUOTES else ""
    return sorted(f"{quoted}{path}" if quoted else shlex.quote(path) for path in paths)[:_MAX_OFFERS]
