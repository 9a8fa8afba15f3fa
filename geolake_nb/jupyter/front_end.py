"""What a notebook shows of the values that users hold: cards, and widgets in a live notebook."""

from __future__ import annotations

from geolake_nb.jupyter.cards import render

__all__ = ["display", "render"]


def display(value: object) -> None:
    """Display a value with its widgets in the running cell."""
    from geolake_nb.api.catalog import Catalog
    from geolake_nb.api.plan import Plan
    from geolake_nb.changes.rewrite import Preview
    from geolake_nb.jupyter.catalog_view import display_catalog
    from geolake_nb.jupyter.rewrite_dialog import display_preview
    from geolake_nb.jupyter.step_view import display_card
    from geolake_nb.jupyter.views import display_explanation, display_plan
    from geolake_nb.scan.explanation import Explanation

    if isinstance(value, Explanation):
        display_explanation(value)
    elif isinstance(value, Preview):
        display_preview(value)
    elif isinstance(value, Plan):
        display_plan(value)
    elif isinstance(value, Catalog):
        display_catalog(value)
    else:
        display_card(value)
