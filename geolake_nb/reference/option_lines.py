"""The words and options that an argparse parser takes, as Markdown; the width of a terminal plays no part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.reference.markdown import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Container

__all__ = ["option_table", "options_of", "usage"]


def usage(parser: argparse.ArgumentParser) -> str:
    """The command with its words in their order; what may be left out stands in brackets.

    >>> from geolake_nb.cli import parsers_of_commands
    >>> usage(parsers_of_commands()["diff"])
    'geolake diff TABLE OLD [NEW] [options]'
    >>> usage(parsers_of_commands()["explain"])
    'geolake explain TABLE (--where SQL | --box XMIN,YMIN,XMAX,YMAX) [options]'
    """
    words = [_word(action) for action in parser._actions if not action.option_strings]
    words += [_called(action) for action in parser._actions if action.option_strings and action.required]
    for group in parser._mutually_exclusive_groups:
        if group.required:
            words.append(f"({' | '.join(map(_called, group._group_actions))})")
    more = any(action.option_strings and action.dest not in ("help", "debug") for action in parser._actions)
    return " ".join([parser.prog, *words, *(["[options]"] if more else [])])


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """The names of all its options and words."""
    return {action.dest for action in parser._actions}


def option_table(parser: argparse.ArgumentParser, *, besides: Container[str] = ()) -> str:
    """What each of its words and options means; the names in `besides` are left out."""
    rows = [
        (f"`{_called(action) if action.option_strings else _name(action)}`", _escaped(action.help or ""))
        for action in parser._actions
        if action.dest not in besides
    ]
    return table(["option", "what it does"], rows)


def _called(action: argparse.Action) -> str:
    """The longest name of an option, with its value."""
    flag = max(action.option_strings, key=len)
    if action.nargs == 0:
        return flag
    return f"{flag} [{_name(action)}]" if action.nargs == "?" else f"{flag} {_name(action)}"


def _word(action: argparse.Action) -> str:
    name = _name(action)
    return {"?": f"[{name}]", "*": f"[{name} ...]"}.get(str(action.nargs), name)


def _name(action: argparse.Action) -> str:
    if action.choices is not None:
        return ",".join(map(str, action.choices))
    return str(action.metavar or action.dest.replace("_", "-").upper())


def _escaped(text: str) -> str:
    # Only what a table of Markdown would take for its own; argparse writes %% for a per cent.
    return text.replace("%%", "%").replace("|", "\\|")
