"""The cause of a failed Spark job."""

from __future__ import annotations

import re

from geolake_nb.text.messages import without_secrets

__all__ = ["cause"]

_OURS = re.compile(r"geolake_nb\.errors\.\w+: (.+)")
_RAISED = re.compile(
    r"(?:Caused by: |: )?((?:[A-Za-z_$][\w$]*\.)*)([A-Za-z_$][\w$]*(?:Error|Exception|Interrupt)(?:: .+)?)"
)
_TRACEBACK = "Traceback (most recent call last):"
_MAX_LENGTH = 300
_MAX_OUR_LENGTH = 2000


def cause(problem: BaseException) -> str:
    """The deepest cause in one line: the error of our own task, else the last error that Java or Python names.

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
        return str(ours[-1])[:_MAX_OUR_LENGTH]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [match.group(2) for line in lines if (match := _RAISED.fullmatch(line)) and not line.endswith(_TRACEBACK)]
    return ((raised[-1:] or lines[:1] or [type(problem).__name__])[0])[:_MAX_LENGTH]
