"""What a picture of an output must hold: nothing cut off, nothing in the way of another part, and all text readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.jupyter.browser import contrast

if TYPE_CHECKING:
    from playwright.sync_api import Locator

TEXTS = [
    ".geolake-card",
    ".geolake-card .error",
    ".geolake-card .faint",
    ".geolake-card .good",
    ".geolake-card .info",
    ".geolake-card .warning",
    ".geolake-card code",
    ".geolake-card summary",
    ".geolake-card th",
    ".geolake-diff .gone",
    ".geolake-diff .new",
    ".geolake-editor .geolake-faint",
    ".glm-action",
    ".glm-counts",
    ".glm-label span",
    ".glm-legend-count",
    ".glm-legend-text",
    ".glm-loaded .glm-hint",
    ".glm-loaded td",
    ".glm-note",
    ".glm-rows-problem",
    ".glm-rows-text",
    ".glm-verdict-text",
    ".glm-tick",
    ".glm-title",
]

# Leaflet's scale is not ours, but it lies on the map with them.
CUT_OFF = """map => {
  const frame = map.querySelector('.glm-map').getBoundingClientRect();
  const name = part => part.className.split(' ')[0];
  const within = (one, other) => one.left >= other.left - 1 && one.right <= other.right + 1
    && one.top >= other.top - 1 && one.bottom <= other.bottom + 1;
  const apart = (one, other) => one.right <= other.left || other.right <= one.left
    || one.bottom <= other.top || other.bottom <= one.top;
  const shown = [...map.querySelectorAll('.glm-map .glm-control, .leaflet-control-scale')]
    .filter(part => part.getClientRects().length)
    .map(part => [part, part.getBoundingClientRect()]);
  const outside = shown.filter(([, box]) => !within(box, frame)).map(([part]) => `${name(part)} leaves the map`);
  const hidden = shown.flatMap(([part, box], at) => shown.slice(at + 1).filter(([, other]) => !apart(box, other))
    .map(([other]) => `${name(part)} and ${name(other)} overlap`));
  const cut = [...map.querySelectorAll('.glm-title, .glm-verdict-text, .glm-legend, .glm-layers, .glm-note')]
    .filter(part => part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1)
    .filter(part => getComputedStyle(part).overflow !== 'visible')
    .map(part => `${name(part)} is cut off: ${part.textContent}`);
  const over = shown.flatMap(([part, box]) => [...part.querySelectorAll('span')]
    .filter(text => text.getClientRects().length && !within(text.getBoundingClientRect(), box))
    .map(text => `${text.textContent} leaves ${name(part)}`));
  return [...outside, ...hidden, ...cut, ...over];
}"""
WIDER = """area => [area, ...area.querySelectorAll('.jp-OutputArea-output')]
  .filter(part => part.scrollWidth > part.clientWidth + 1)
  .map(part => `${part.scrollWidth} pixels in ${part.clientWidth}: ${part.textContent.slice(0, 80)}`)"""


def faults(output: Locator) -> list[str]:
    """What is wrong with the output of a cell, as it is shown now."""
    result: list[str] = output.evaluate(WIDER)
    for shown in output.locator(".glm").all():
        result += shown.evaluate(CUT_OFF)
    for part in TEXTS:
        for text in output.locator(part).all()[:3]:
            # WCAG 2.2, 1.4.3
            if (seen := contrast(text)) < 4.5:
                result.append(f"{part} has a contrast of {seen:.1f}")
    return result
