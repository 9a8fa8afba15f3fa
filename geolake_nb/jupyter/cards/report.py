"""The card of a report: what a plan did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, facts, title
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from geolake_nb.api.plan import Report
    from geolake_nb.jupyter.html import Markup

__all__ = ["show"]


def show(report: Report) -> Markup:
    """The card."""
    head = title("Report", report.location, f" {report.verb}")
    if report.version is None:
        return card("Report", head, tag("p", "There was nothing to do."))
    over = ", ".join(map(str, report.rebased_over[:20]))
    metrics = [(key.replace("_", " "), value) for key, value in report.metrics.items() if value]
    about = [
        ("version", str(report.version)),
        ("rebased over", over or None),
        ("seconds", f"{report.seconds:.1f}"),
        ("transaction", tag("code", report.transaction)),
        *metrics,
    ]
    later = "A table that was opened before keeps its version: open it again to see this one."
    done = "The table already has this change: nothing was done." if report.already_applied else "Done."
    return card("Report", head, tag("p", done, class_="good"), facts(about), tag("p", later, class_="faint"))
