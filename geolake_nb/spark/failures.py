"""Why something that Spark was asked for failed."""

from __future__ import annotations

import re

from geolake_nb.core.message_text import without_secrets

__all__ = ["cause"]

_OURS = re.compile(r"geolake_nb\.errors\.\w+: (.+)")
_RAISED = re.compile(
    r"(?:Caused by: |: )?((?:[A-Za-z_$][\w$]*\.)*)([A-Za-z_$][\w$]*(?:Error|Exception|Interrupt)(?:: .+)?)"
)
_TRACEBACK = "Traceback (most recent call last):"
_LONGEST = 300
_LONGEST_OF_OURS = 2000


def cause(problem: BaseException) -> str:
    """The deepest cause in one line: what a task of ours said, else the last error that Java or Python names.

    >>> cause(ValueError("An exception was thrown from the Python worker:\\nTraceback ...\\nKeyError: 'a'"))
    "KeyError: 'a'"
    >>> java = ": a.b.SparkException: aborted\\n\\tat a.b\\nCaused by: java.io.IOException: no disk\\n\\tat c.d"
    >>> cause(ValueError(f"An error occurred while calling o7.load.\\n{java}"))
    'IOException: no disk'
    >>> cause(ValueError())
    'ValueError'
    """
    text = without_secrets(str(problem))
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1])[:_LONGEST_OF_OURS]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [found.group(2) for line in lines if (found := _RAISED.fullmatch(line)) and not line.endswith(_TRACEBACK)]
    return ((raised[-1:] or lines[:1] or [type(problem).__name__])[0])[:_LONGEST]
