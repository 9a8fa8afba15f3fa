"""The card of a plan: what will happen, exactly; who is locked out; what cannot be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.core.message_text import shortened
from geolake_nb.jupyter.card_parts import card, facts, folded, left_out, plural, title
from geolake_nb.jupyter.cards.engines import engines, locked_out
from geolake_nb.jupyter.html import tag
from geolake_nb.planning.change_text import base_text
from geolake_nb.planning.scan.explanation_text import bytes_text

if TYPE_CHECKING:
    from geolake_nb.api.plan import Plan
    from geolake_nb.jupyter.html import Markup
    from geolake_nb.planning.change import Change

__all__ = ["show"]

_SHOWN_ACTIONS = 100
_LONGEST_ACTION = 20_000


def show(plan: Plan) -> Markup:
    """The card."""
    change = plan.change
    head = title("Plan", change.location, f" {change.verb.value}")
    says = tag("ul", [tag("li", sentence) for sentence in change.says or ("There is nothing to do.",)])
    if plan.is_empty:
        return card("Plan", head, says)
    reads = change.reads
    about = [
        ("plan", tag("code", plan.hash)),
        ("on", base_text(change)),
        ("reads", f"{plural(reads.files, 'file')}, {bytes_text(reads.bytes)}" if reads.files else "no data file"),
        ("undo", change.undo),
    ]
    return card(
        "Plan",
        head,
        says,
        facts(about),
        [_door(door.name, door.why) for door in change.doors],
        [tag("p", sentence) for sentence in locked_out(change.engines)],
        engines(change.engines),
        _actions(change),
        tag("p", "Nothing is changed until it is applied. In code: ", tag("code", _call(plan), class_="command")),
    )


def _door(door: str, why: str) -> Markup:
    named = [" Its name is ", tag("code", door), "."]
    return tag("p", tag("strong", "One way: "), why, named, class_="door", role="note")


def _actions(change: Change) -> Markup | None:
    if not change.actions:
        return None
    shown = [shortened(action, _LONGEST_ACTION) for action in change.actions[:_SHOWN_ACTIONS]]
    items = tag("ol", [tag("li", tag("code", action)) for action in shown], class_="actions")
    summary = f"Actions as they will stand in the log: {len(change.actions):,}"
    return folded(summary, items, left_out(_SHOWN_ACTIONS, len(change.actions), "plan.change.actions"))


def _call(plan: Plan) -> str:
    doors = [door.name for door in plan.change.doors]
    consent = f", consent={doors!r}" if doors else ""
    return f"plan.apply(expect={plan.hash!r}{consent})"
