"""The files of a version as its log states them, to be stated anew or put back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.raw_adds import raw_adds

if TYPE_CHECKING:
    from collections.abc import Collection

    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.formats.storage import Storage

__all__ = ["plain", "pre_images", "same_file", "same_key", "vector_of"]


def pre_images(storage: Storage, segment: LogSegment, paths: Collection[str]) -> dict[str, str]:
    """The JSON of the object inside the `add` of each of these files that is live, by its path as stored."""
    if not paths:
        return {}
    found = raw_adds(storage, segment, paths)
    texts = dict(zip(found["path"].to_pylist(), found["add"].to_pylist(), strict=True))
    if len(texts) < found.num_rows:
        # Delta, Add file: no two of them in a version have one path, whatever their deletion vectors.
        raise CorruptTableError(
            "a data file is in the table twice, with two deletion vectors", where=f"{storage.location}"
        )
    return texts


def same_file(one: str | None, other: str | None) -> bool:
    """Whether two `add`s state the same file in the same way; a checkpoint spells them anew.

    >>> same_file('{"path":"a","dataChange":true}', '{"dataChange": false, "path": "a", "tags": null}')
    True
    >>> same_file(None, '{"path":"a"}'), same_file(None, None)
    (False, True)
    """
    if one is None or other is None or one == other:
        return one == other
    return bool(_meaning(one) == _meaning(other))


def _meaning(add: str) -> Any:
    held = plain(orjson.loads(add))
    held.pop("dataChange", None)
    stats = held.get("stats")
    if isinstance(stats, str):
        try:
            held["stats"] = orjson.loads(stats)
        except orjson.JSONDecodeError:
            held["stats"] = stats
    return held


def same_key(one: str | None, other: str | None) -> bool:
    """Whether one `add` takes the place of the other: Delta knows a file by its path and its deletion vector."""
    if one is None or other is None:
        return False
    return bool(_key(vector_of(one)) == _key(vector_of(other)))


def vector_of(add: str) -> Mapping[str, Any] | None:
    """The descriptor of the deletion vector in an `add`.

    >>> vector_of('{"path":"a"}') is None
    True
    """
    held = orjson.loads(add).get("deletionVector")
    return held if isinstance(held, dict) else None


def _key(vector: Mapping[str, Any] | None) -> Any:
    return None if vector is None else tuple(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))


def plain(action: Any) -> Any:
    """What an action says, without members that say nothing.

    >>> plain({"name": None, "configuration": {}, "id": "1"})
    {'id': '1'}
    """
    if isinstance(action, Mapping):
        return {key: plain(value) for key, value in action.items() if value is not None and value != {}}
    return action
