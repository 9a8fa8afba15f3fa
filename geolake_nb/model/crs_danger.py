"""What the definition of a CRS must not hold when PROJ gets it: paths of files, and ensembles that take very long."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["MAX_MEMBERS", "ensemble_members", "names_a_file"]

MAX_MEMBERS = 100
"""Datums in the ensembles of a definition, which PROJ compares each with each; its registries have a dozen in one."""

_GRID_FILE = re.compile(
    r'(?:(?:catalog|file|grids|init|model)\s*=\s*"*|PROJ4_GRIDS"\s*,\s*"|PARAMETERFILE\s*\[\s*"[^"]*"\s*,\s*")'
    r'([^"]*?)(?=\s\+|"|$)',
    re.IGNORECASE,
)
_MEMBER = re.compile(r"\bMEMBER\s*[\[(]", re.IGNORECASE)


def ensemble_members(text: str) -> int:
    """How many datums the ensembles of a PROJJSON or WKT definition have together.

    >>> ensemble_members('{"datum_ensemble": {"members": [{"name": "a"}, {"name": "b"}]}}')
    2
    >>> ensemble_members('GEOGCRS["x", ENSEMBLE["y", MEMBER["a"], member ("b")]]'), ensemble_members("GEOGCRS[]")
    (2, 0)
    """
    if not text.lstrip().startswith("{"):
        return len(_MEMBER.findall(text))
    count = 0
    left = [json.loads(text)]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            members = node.get("members")
            count += len(members) if isinstance(members, list) else 0
            left += node.values()
        elif isinstance(node, list):
            left += node
    return count


def names_a_file(definition: Any) -> bool:
    """Whether PROJ would open a file outside its own folders to transform coordinates of a system with this PROJJSON.

    >>> names_a_file({"parameters": [{"value": "conus"}]}), names_a_file({"parameters": [{"value": "/etc/passwd"}]})
    (False, True)
    """
    if isinstance(definition, list):
        return any(names_a_file(part) for part in definition)
    if not isinstance(definition, dict):
        return False
    # PROJJSON: a parameter whose value is a text is a grid; a method may be a whole PROJ string.
    texts = [text for key in ("name", "value") if isinstance(text := definition.get(key), str)]
    grids = [texts[-1]] if isinstance(definition.get("value"), str) else []
    grids += [match.group(1) for text in texts for match in _GRID_FILE.finditer(text)]
    if any(mark in grid for grid in grids for mark in ("/", "\\", ":", "..")):
        return True
    return any(names_a_file(part) for part in definition.values())
