"""The cards of changes: plan, preview, report of what was done, and difference between two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.api.plan import base_text
from geolake_nb.jupyter.card_parts import (
    bar,
    card,
    engines,
    facts,
    folded,
    grid,
    left_out,
    locked_out,
    name,
    plural,
    title,
)
from geolake_nb.jupyter.html import join, tag
from geolake_nb.scan.diff import LABELS, coverage_text
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.text.messages import shortened

if TYPE_CHECKING:
    import pyarrow as pa

    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.changes.rewrite import Preview, PreviewSide
    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.model.change import Change
    from geolake_nb.scan.diff import Diff

__all__ = ["show_diff", "show_plan", "show_preview", "show_report"]

_SHOWN = 20


def show_diff(diff: Diff) -> Markup:
    """The card."""
    versions = f" from version {_version(diff.old_version)} to {_version(diff.new_version)}"
    summary = diff.to_dict()
    rows: list[list[Child]] = [
        [
            LABELS[kind],
            summary[kind]["files"],
            "not known" if summary[kind]["rows"] is None else summary[kind]["rows"],
            bytes_text(summary[kind]["bytes"]),
        ]
        for kind in ("added", "removed", "rewritten")
    ]
    rows.append(["unchanged", diff.unchanged, "", ""])
    return card(
        "Difference",
        title("Difference", diff.location, versions),
        tag("p", "Nothing changed.") if diff.is_empty else None,
        None if diff.rewrite_sentence is None else tag("p", f"{diff.rewrite_sentence}."),
        grid(["files", "number", "rows", "size"], rows, numbers=[1, 2, 3]),
        _schema(diff),
        [
            tag("p", f"Bounds of {coverage.column}: {coverage_text(coverage.old, coverage.new)}")
            for coverage in diff.coverage[:_SHOWN]
        ],
        _files("Files added", diff.added, "diff.added"),
        _files("Files removed", diff.removed, "diff.removed"),
        _files("Files with other statistics", diff.rewritten, "diff.rewritten"),
    )


def _schema(diff: Diff) -> Markup | None:
    changes = diff.schema_changes
    if not changes:
        return None
    items = tag("ul", [tag("li", str(change)) for change in changes[:_SHOWN]])
    more = left_out(_SHOWN, len(changes), "diff.schema_changes")
    return folded(f"Schema: {plural(len(changes), 'change')}", items, more, unfolded=True)


def _files(heading: str, table: pa.Table, how: str) -> Markup | None:
    if not table.num_rows:
        return None
    changed = "changed" in table.column_names
    shown = table.select(["path", "bytes", *(["changed"] if changed else [])]).slice(0, _SHOWN).to_pylist()
    rows = [[name(file["path"]), bytes_text(file["bytes"] or 0), file.get("changed")] for file in shown]
    listed = grid(["path", "size", "what changed" if changed else ""], rows, numbers=[1])
    return folded(f"{heading}: {table.num_rows:,}", listed, left_out(_SHOWN, table.num_rows, how))


def _version(number: int | None) -> str:
    return "?" if number is None else str(number)


_SHOWN_ACTIONS = 100
_MAX_ACTION = 20_000


def show_plan(plan: Plan) -> Markup:
    """The card."""
    change = plan.change
    head = title("Plan", change.location, f" {change.verb.value}")
    notes = tag("ul", [tag("li", sentence) for sentence in change.notes or ("There is nothing to do.",)])
    if plan.is_empty:
        return card("Plan", head, notes)
    reads = change.reads
    about = [
        ("plan", tag("code", plan.hash)),
        ("base", base_text(change)),
        ("reads", f"{plural(reads.files, 'file')}, {bytes_text(reads.bytes)}" if reads.files else "no data file"),
        ("undo", change.undo),
    ]
    return card(
        "Plan",
        head,
        notes,
        facts(about),
        [_step(step.name, step.why) for step in change.irreversible_steps],
        [tag("p", sentence) for sentence in locked_out(change.engines)],
        engines(change.engines),
        _actions(change),
        tag("p", "Nothing changes until the plan is applied. In code: ", tag("code", _call(plan), class_="command")),
    )


def _step(step: str, why: str) -> Markup:
    named = [" Step ", tag("code", step), "."]
    return tag("p", tag("strong", "Cannot be undone: "), why, named, class_="step", role="note")


def _actions(change: Change) -> Markup | None:
    if not change.actions:
        return None
    shown = [shortened(action, _MAX_ACTION) for action in change.actions[:_SHOWN_ACTIONS]]
    items = tag("ol", [tag("li", tag("code", action)) for action in shown], class_="actions")
    summary = f"Log entries: {len(change.actions):,}"
    return folded(summary, items, left_out(_SHOWN_ACTIONS, len(change.actions), "plan.change.actions"))


def _call(plan: Plan) -> str:
    irreversible_steps = [step.name for step in plan.change.irreversible_steps]
    consent = f", consent={irreversible_steps!r}" if irreversible_steps else ""
    return f"plan.apply(expect={plan.hash!r}{consent})"


def show_preview(preview: Preview) -> Markup:
    """The card."""
    sample = f"from a sample of {plural(preview.sampled_rows, 'row')}"
    about = (
        "The table has no geo column to query."
        if preview.column is None
        else join(plural(len(preview.windows), "window"), " on ", name(preview.column), ", ", sample)
    )
    sides = (("before", preview.before), ("after", preview.after))
    rows = [[label, *_row(side)] for label, side in sides]
    headers = ["", "files", "size", "average overlap", "files read", "bytes read"]
    return card(
        "Preview",
        tag("p", tag("strong", "Preview of a rewrite")),
        tag("p", about),
        grid(headers, rows, numbers=range(1, 6)),
        [
            bar(side.bytes_read, f"{label}: a window reads {side.bytes_read:.1%} of the bytes")
            for label, side in sides
            if side.bytes_read is not None
        ],
    )


def _row(side: PreviewSide) -> list[str | int]:
    summary = side.to_dict()
    depth = "not known" if summary["overlap_depth"] is None else f"{summary['overlap_depth']:.1f}"
    read = ["not known" if summary[key] is None else f"{summary[key]:.1%}" for key in ("files_read", "bytes_read")]
    return [summary["files"], bytes_text(summary["bytes"]), depth, *read]


def show_report(report: Report) -> Markup:
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
    if report.reads is not None:
        about.insert(1, ("a query reads", f"{report.reads[1]:.1%} of the bytes, {report.reads[0]:.1%} before"))
    done = "The table already has this change: nothing was done." if report.already_applied else "Done."
    return card("Report", head, tag("p", done, class_="good"), facts(about), _later(report))


def _later(report: Report) -> Markup | None:
    """How to see the new version, where a table was opened before."""
    if report.origin is None:
        return None
    code = tag("code", "t.refresh()", class_="command")
    return tag("p", "A table that was opened before keeps its version until ", code, ".", class_="faint")
