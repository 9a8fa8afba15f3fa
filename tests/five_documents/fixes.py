"""Line 9: for every rule of the check, whether the command that its finding prints makes the finding go away.

`python -m tests.five_documents.fixes` prints the table: rule, command, and what became of the finding.
"""

from __future__ import annotations

import io
import json
import shlex
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geolake_nb.cli import main
from geolake_nb.formats.rules import RULES
from geolake_nb.geo.bounds import BadValueWarning
from tests.five_documents.broken_tables import BROKEN

__all__ = ["Outcome", "try_fix"]


@dataclass(frozen=True)
class Outcome:
    """What became of a finding."""

    case: str
    """A key of `BROKEN`."""
    reported: bool
    command: str | None = None
    no_command: str | None = None
    """Why there is no command."""
    gone: bool = False
    output: str = ""
    """What the command printed, where the finding did not go."""

    @property
    def is_good(self) -> bool:
        """Whether the finding is gone, or says why no command can do that."""
        return self.reported and (self.gone if self.command is not None else bool(self.no_command))

    def __str__(self) -> str:
        if self.command is None:
            why = f"no command: {self.no_command}" if self.no_command else "NO COMMAND AND NO REASON"
            return f"{self.case:36} {why if self.reported else 'NOT FOUND'}"
        return f"{self.case:36} {'gone' if self.gone else 'STILL THERE'}: {self.command}"


def try_fix(case: str, folder: Path) -> Outcome:
    """Make a table with the finding in a new folder, run its command, and check again."""
    broken, rule = BROKEN[case], case.partition(" ")[0]
    broken.make(folder)
    findings = findings_of(rule, folder, broken.options)
    if not findings:
        return Outcome(case, reported=False)
    finding = findings[0]
    command = finding["fix"]
    if command is None:
        return Outcome(case, reported=True, no_command=finding["no_command"])
    words = shlex.split(command)
    assert words[0] == "geolake", command
    code, plan, error = run(*words[1:], "--json")
    if code:
        return Outcome(case, reported=True, command=command, output=error)
    # What the plan asks consent for, a user gives after reading it.
    consent = [word for step in json.loads(plan)["irreversible_steps"] for word in ("--consent", step["name"])]
    code, out, error = run(*words[1:], "--apply", *consent)
    shown = command.replace(str(folder), "TABLE")
    left = findings_of(rule, folder, broken.options)
    return Outcome(case, reported=True, command=shown, gone=code == 0 and not left, output=f"{out}{error}")


def findings_of(rule: str, folder: Path, options: tuple[str, ...]) -> list[dict[str, Any]]:
    """The findings of a rule, as the shell prints them."""
    code, out, error = run("check", str(folder), "--json", *options)
    assert code in (0, 1, 2), error
    return [finding for finding in json.loads(out)["findings"] if finding["rule"] == rule]


def run(*words: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        warnings.simplefilter("ignore", BadValueWarning)  # what cannot be read is what some tables are about
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def print_table() -> int:
    """Try every rule, and print what became of its finding; returns how many did not go as they should."""
    from tests.spark_session import delta_session

    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        session = delta_session("local[2]", Path(folder))
        missing = [rule.id for rule in RULES if rule.id not in BROKEN]
        for number, case in enumerate([*missing, *BROKEN]):
            outcome = try_fix(case, Path(folder) / f"t{number}") if case in BROKEN else Outcome(case, reported=False)
            bad += not outcome.is_good
            print(outcome, flush=True)
        session.stop()
    total = len(missing) + len(BROKEN)
    print(f"{total - bad} of {total} tables: the finding is gone, or says why no command can do it")
    return bad


if __name__ == "__main__":
    raise SystemExit(min(print_table(), 1))
