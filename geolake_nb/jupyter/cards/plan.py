"""The card of a plan: what will change, which engines are locked out, and what cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.changes.change_text import base_text
from geolake_nb.jupyter.card_parts import card, facts, folded, left_out, plural, title
from geolake_nb.jupyter.cards.engines import engines, locked_out
from geolake_nb.jupyter.html import tag
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.text.messages import shortened

if TYPE_CHECKING:
    from geolake_nb.api.plan import Plan
    from geolake_nb.jupyter.html import Markup
    from geolake_nb.model.change import Change

__all__ = ["show"]

_SHOWN_ACTIONS = 100
_MAX_ACTION = 20_000


def show(plan: Plan) -> Markup:
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
