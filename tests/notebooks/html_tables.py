"""The tables that pandas shows in a notebook, read back from their HTML."""

from __future__ import annotations

import html
import re

_ROW = re.compile(r"<tr[^>]*>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)


def rows_of(markup: str) -> list[list[str]]:
    """The cells of each row of the first table, those of its head among them.

    >>> rows_of("<table><tr><th></th><th>a</th></tr><tr><th>0</th><td>1 &lt; 2</td></tr></table>")
    [['', 'a'], ['0', '1 < 2']]
    """
    return [[html.unescape(cell).strip() for cell in _CELL.findall(row)] for row in _ROW.findall(markup)]
