"""The cards of a layout and of maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import (
    bar,
    card,
    facts,
    folded,
    grid,
    name,
    next_line,
    plural,
    stale_line,
    title,
)
from geolake_nb.jupyter.html import join, tag
from geolake_nb.scan.explanation import bytes_text

if TYPE_CHECKING:
    from geolake_nb.api.advice import Advice
    from geolake_nb.api.maintenance import MaintenanceReport
    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.scan.layout import Layout, LayoutVersion

__all__ = ["show_advice", "show_layout", "show_maintenance"]


def show_layout(layout: Layout) -> Markup:
    """The score, by groups of queries, and a plot over the versions."""
    about: list[tuple[str, Child]] = [
        ("version", None if layout.version is None else str(layout.version)),
        ("column", name(layout.column)),
        ("files", join(plural(layout.files, "file"), ", ", bytes_text(layout.bytes))),
        ("new files", bytes_text(layout.target_bytes)),
    ]
    rows: list[list[Child]] = [
        [group.name, group.queries, f"{group.share:.1%}", f"{group.best:.1%}", "100%"] for group in layout.queries
    ]
    return card(
        "Layout",
        stale_line(layout.origin),
        title("Layout", layout.location),
        tag("p", layout.summary),
        tag("p", "Decayed: queries read more than twice the best.", class_="warning") if layout.decayed else None,
        facts(about),
        None if layout.share is None else bar(layout.share, f"now: {layout.share:.1%} of the bytes"),
        None if layout.best is None else bar(layout.best, f"clustered anew: {layout.best:.1%}"),
        grid(["queries", "how many", "read", "best", "no skipping"], rows, numbers=range(1, 5)) if rows else None,
        folded("Versions", [_version(entry) for entry in layout.versions], unfolded=True) if layout.versions else None,
        next_line(layout.next_step),
    )


def show_advice(advice: Advice) -> Markup:
    """The layouts, the best first."""
    about: list[tuple[str, Child]] = [
        ("version", None if advice.version is None else str(advice.version)),
        ("files", join(plural(advice.files, "file"), ", ", bytes_text(advice.bytes))),
        ("queries", advice.queries),
        ("sample", plural(advice.sampled_rows, "row")),
    ]
    rows: list[list[Child]] = [["as it is", f"{advice.files:,}", f"{advice.now:.1%}", "", "", ""]]
    for entry in advice.layouts:
        pays = "never" if entry.pays_after is None else f"{entry.pays_after:,} queries"
        shares = [f"{share:.1%}" for share in (entry.result.share, entry.result.group_share)]
        rows.append([name(entry.name), f"{entry.result.files:,}", *shares, bytes_text(entry.rewritten), pays])
    columns = ["layout", "files", "reads", "reads of row groups", "rewrites", "pays after"]
    return card(
        "Advice",
        title("Advice", advice.location),
        tag("p", advice.summary),
        facts(about),
        grid(columns, rows, numbers=range(1, 6)),
        tag("p", "The first one: ", tag("code", advice.layouts[0].code)),
    )


def _version(entry: LayoutVersion) -> Markup:
    files = plural(entry.files, "file")
    if entry.share is None or entry.best is None:
        return bar(None, f"{entry.version}: {files}, no bounds")
    return bar(entry.share, f"{entry.version}: {files}, {entry.share:.1%}, at best {entry.best:.1%}")


def show_maintenance(report: MaintenanceReport) -> Markup:
    """What was done, and why."""
    shares = [None if share is None else f"{share:.1%} of the bytes" for share in (report.before, report.after)]
    about: list[tuple[str, Child]] = [
        ("version", None if report.version is None else str(report.version)),
        ("a query read", shares[0]),
        ("it reads now", shares[1]),
        ("plans", report.attempts if report.attempts > 1 else None),
    ]
    for step in report.steps:
        done = ", ".join(f"{metric.replace('_', ' ')} {value:,}" for metric, value in step.metrics.items() if value)
        about.append((step.verb, done))
    return card(
        "Maintenance",
        title("Maintenance", report.location),
        tag("p", "Done." if report.steps else "There was nothing to do.", class_="good"),
        facts(about),
        tag("ul", [tag("li", note) for note in report.notes]),
    )
