"""One HTML file that holds a map, its data and the code that draws it."""

from __future__ import annotations

import base64
import html
import json
import zlib
from typing import TYPE_CHECKING, Any

from geolake_nb.jupyter.map_widget import BUNDLE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["map_page", "map_script"]

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 16px; font-family: system-ui, sans-serif; }}
</style>
<div id="map"></div>
{script}
</html>
"""

# A module from a data: address needs no server, runs from a file, and no text in it can end the script element.
_SCRIPT = """<script type="application/json" id="{element}-data">{data}</script>
<script type="module">
import {{ renderStatic }} from "data:text/javascript;base64,{code}";
const data = JSON.parse(document.getElementById("{element}-data").textContent);
window.geolakeMap = await renderStatic(document.getElementById("{element}"), data);
</script>"""


def map_page(traits: Mapping[str, Any], *, title: str = "") -> str:
    """A page that shows the traits of a `MapWidget` without a kernel and without a request to any host.

    >>> page = map_page({"boxes": b"", "names": ["</script>"]}, title="a < b")
    >>> "<title>a &lt; b</title>" in page, page.count("</script>")
    (True, 2)
    """
    return _PAGE.format(title=html.escape(title or "Map"), script=map_script(traits, element="map"))


def map_script(traits: Mapping[str, Any], *, element: str) -> str:
    """The two script elements that draw a map into the element whose id is `element`."""
    # `<` is the one character that could end the element or open a comment.
    data = json.dumps({key: _in_json(value) for key, value in traits.items()}, allow_nan=False).replace("<", "\\u003c")
    code = base64.b64encode(BUNDLE.read_bytes()).decode()
    return _SCRIPT.format(element=element, data=data, code=code)


def _in_json(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {"base64": base64.b64encode(zlib.compress(value, 6)).decode(), "deflate": True}
    if isinstance(value, list | tuple):
        return [_in_json(item) for item in value]
    return value
