"""How cards look: one style sheet that touches nothing else, on light and on dark pages."""

from __future__ import annotations

from geolake_nb.jupyter.html import Markup, tag

__all__ = ["card_style"]

# The class twice, where a notebook has rules of its own for cells of tables, which it sets to the right.
# The notebook's own colours where it has them, those of words mixed with that of the text to be readable.
_CSS = """
.geolake-card {
  --geolake-line: var(--jp-border-color2, rgba(128, 128, 128, 0.4));
  --geolake-soft: var(--jp-layout-color2, rgba(128, 128, 128, 0.12));
  --geolake-faint: color-mix(in srgb, currentColor 72%, transparent);
  --geolake-good: color-mix(in srgb, var(--jp-success-color1, #3a8f40) 65%, currentColor);
  --geolake-warn: color-mix(in srgb, var(--jp-warn-color1, #b8730a) 65%, currentColor);
  --geolake-bad: color-mix(in srgb, var(--jp-error-color1, #d9483b) 65%, currentColor);
  --geolake-main: var(--jp-brand-color1, #1976d2);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px);
  line-height: 1.5;
  color: var(--jp-content-font-color1, inherit);
  border: 1px solid var(--geolake-line);
  border-radius: 6px;
  padding: 10px 14px;
  margin: 4px 0;
  max-width: 72em;
  overflow-wrap: break-word;
}
.geolake-card p { margin: 4px 0; }
.geolake-card .title { font-size: 1.1em; }
.geolake-card .faint { color: var(--geolake-faint); }
.geolake-card .scroll { overflow-x: auto; }
.geolake-card table { border-collapse: collapse; margin: 4px 0; font-size: inherit; color: inherit; }
.geolake-card caption { text-align: left; font-weight: 600; padding: 4px 0; color: inherit; }
.geolake-card.geolake-card th, .geolake-card.geolake-card td { text-align: left; vertical-align: top; }
.geolake-card.geolake-card th, .geolake-card.geolake-card td { padding: 2px 14px 2px 0; }
.geolake-card th { font-weight: 600; }
.geolake-card thead th { border-bottom: 1px solid var(--geolake-line); }
.geolake-card.geolake-card td.number, .geolake-card.geolake-card th.number { text-align: right; }
.geolake-card td.number { font-variant-numeric: tabular-nums; }
.geolake-card code { font-family: var(--jp-code-font-family, ui-monospace, monospace); font-size: 0.95em; }
.geolake-card code.command { user-select: all; background: var(--geolake-soft); padding: 1px 6px; border-radius: 4px; }
.geolake-card details { margin: 4px 0; }
.geolake-card summary { cursor: pointer; font-weight: 600; }
.geolake-card summary:focus-visible { outline: 2px solid var(--geolake-main); outline-offset: 2px; }
.geolake-card ul.tree, .geolake-card ul.tree ul { list-style: none; margin: 0; padding-left: 16px; }
.geolake-card ul.tree summary { font-weight: inherit; }
.geolake-card ul.findings { list-style: none; margin: 0; padding-left: 16px; }
.geolake-card li.finding { margin: 8px 0; }
.geolake-card td details { margin: 0; }
.geolake-card ol.actions code { display: block; white-space: pre-wrap; max-height: 12em; overflow: auto; }
.geolake-card .bar { display: flex; height: 10px; border: 1px solid var(--geolake-line); border-radius: 5px; }
.geolake-card .bar { overflow: hidden; max-width: 40em; background: var(--geolake-soft); }
.geolake-card .bar span { display: block; height: 100%; background: var(--geolake-main); }
.geolake-card .error { color: var(--geolake-bad); font-weight: 600; }
.geolake-card .warning { color: var(--geolake-warn); font-weight: 600; }
.geolake-card .info { color: color-mix(in srgb, var(--geolake-main) 65%, currentColor); font-weight: 600; }
.geolake-card .good { color: var(--geolake-good); font-weight: 600; }
.geolake-card .step { border-left: 4px solid var(--geolake-warn); padding-left: 10px; }
@media print { .geolake-card { border-color: #999999; } }
"""


def card_style() -> Markup:
    """The style element that every card brings along: a cell may be copied, cleared or printed alone.

    >>> card_style().startswith("<style>")
    True
    """
    return tag("style", _CSS)
