"""A tag of an `add` that declares which bounds of geographies also cover the edges between the vertices.

A log does not specify how its writer bounds a geography, and many use the box of the vertices. The tag repeats the
bounds that this package wrote: if a writer copies the tag and states other bounds, the two differ and it is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.delta.stats_json import Leaf, load_stats, read_leaves
from geolake_nb.model.schema import type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from geolake_nb.model.types import GeographyType

__all__ = ["BOUNDS_TAG", "TAGS", "marked_bounds", "retagged", "stats_tag"]

BOUNDS_TAG = "geolake_nb.bounds"
"""The tag; its value is a JSON object, nested as the columns are in the statistics."""

TAGS = pa.struct([(BOUNDS_TAG, pa.string())])
"""The tag that is read from an `add`."""

_Path = tuple[str, ...]


def stats_tag(stats: str, geographies: Mapping[_Path, GeographyType]) -> str | None:
    """The value of the tag for statistics in which this package wrote all bounds of these columns; `None` if empty.

    >>> from geolake_nb.model.types import GeographyType
    >>> text = '{"minValues":{"g":"POINT(0 60)"},"maxValues":{"g":"POINT(90 68)"}}'
    >>> stats_tag(text, {("g",): GeographyType()})
    '{"g":"geography(OGC:CRS84, spherical) POINT(0 60) POINT(90 68)"}'
    """
    return retagged(None, stats, geographies)


def retagged(tag: str | None, stats: str, geographies: Mapping[_Path, GeographyType]) -> str | None:
    """The value of the tag after this package wrote or removed the bounds of these columns; `None` if empty.

    >>> from geolake_nb.model.types import GeographyType
    >>> retagged('{"a":"x","g":"y"}', "{}", {("g",): GeographyType()})
    '{"a":"x"}'
    """
    tree = dict(load_stats(tag) or {})
    stated = load_stats(stats) or {}
    for path, type_ in geographies.items():
        low, high = (_at(stated.get(end), path) for end in ("minValues", "maxValues"))
        both = isinstance(low, str) and isinstance(high, str)
        _put(tree, path, f"{type_name(type_)} {low} {high}" if both else None)
    return orjson.dumps(tree).decode() if tree else None


def marked_bounds(
    tags: pa.Array, path: _Path, type_: GeographyType, lows: pa.Array, highs: pa.Array
) -> NDArray[np.bool_]:
    """For which files the tag declares that these bounds cover the edges; `tags` are the values of the tag.

    >>> from geolake_nb.model.types import GeographyType
    >>> ends = pa.array(["POINT(0 60)"] * 2), pa.array(["POINT(90 68)", "POINT(90 60)"])
    >>> tag = '{"g":"geography(OGC:CRS84, spherical) POINT(0 60) POINT(90 68)"}'
    >>> marked_bounds(pa.array([tag, tag]), ("g",), GeographyType(), *ends).tolist()
    [True, False]
    """
    if tags.null_count == len(tags):
        return np.zeros(len(tags), np.bool_)
    leaf: Leaf = (path, pa.string())
    (marks,) = read_leaves(tags, [leaf])
    stated = pc.binary_join_element_wise(pa.scalar(type_name(type_)), lows, highs, " ")
    return np.asarray(pc.fill_null(pc.equal(marks, stated), False).to_numpy(zero_copy_only=False), np.bool_)


def _at(tree: Any, path: _Path) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _put(tree: dict[str, Any], path: _Path, mark: str | None) -> None:
    if len(path) == 1:
        if mark is None:
            tree.pop(path[0], None)
        else:
            tree[path[0]] = mark
        return
    child = tree.get(path[0])
    inner = dict(child) if isinstance(child, dict) else {}
    _put(inner, path[1:], mark)
    if inner:
        tree[path[0]] = inner
    else:
        tree.pop(path[0], None)
