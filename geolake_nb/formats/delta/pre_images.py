"""The `add` actions of a version as in its log, to be updated or restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.raw_adds import raw_adds

if TYPE_CHECKING:
    from collections.abc import Collection

    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.storage.storage import Storage

__all__ = ["plain", "pre_images", "same_file", "same_key", "vector_of"]


def pre_images(storage: Storage, segment: LogSegment, paths: Collection[str]) -> dict[str, str]:
    """The JSON of the object inside the `add` of each of these files that is live, by its path as stored."""
    if not paths:
        return {}
    adds = raw_adds(storage, segment, paths)
    texts = dict(zip(adds["path"].to_pylist(), adds["add"].to_pylist(), strict=True))
    if len(texts) < adds.num_rows:
        # Delta, Add file: a path is unique in a version, whatever the deletion vectors.
        raise CorruptTableError(
            "a data file is in the table twice, with two deletion vectors", where=f"{storage.location}"
        )
    return texts


def same_file(left: str | None, right: str | None) -> bool:
    """Whether two `add`s describe the same file with the same statistics; a checkpoint may format them differently.

    >>> same_file('{"path":"a","dataChange":true}', '{"dataChange": false, "path": "a", "tags": null}')
    True
    >>> same_file(None, '{"path":"a"}'), same_file(None, None)
    (False, True)
    """
    if left is None or right is None or left == right:
        return left == right
    return bool(_meaning(left) == _meaning(right))


def _meaning(add: str) -> Any:
    fields = plain(orjson.loads(add))
    fields.pop("dataChange", None)
    stats = fields.get("stats")
    if isinstance(stats, str):
        try:
            fields["stats"] = orjson.loads(stats)
        except orjson.JSONDecodeError:
            fields["stats"] = stats
    return fields


def same_key(left: str | None, right: str | None) -> bool:
    """Whether one `add` replaces the other: Delta identifies a file by its path and its deletion vector."""
    if left is None or right is None:
        return False
    return bool(_key(vector_of(left)) == _key(vector_of(right)))


def vector_of(add: str) -> Mapping[str, Any] | None:
    """The descriptor of the deletion vector in an `add`.

    >>> vector_of('{"path":"a"}') is None
    True
    """
    vector = orjson.loads(add).get("deletionVector")
    return vector if isinstance(vector, dict) else None


def _key(vector: Mapping[str, Any] | None) -> Any:
    return None if vector is None else tuple(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))


def plain(action: Any) -> Any:
    """An action without empty members.

    >>> plain({"name": None, "configuration": {}, "id": "1"})
    {'id': '1'}
    """
    if isinstance(action, Mapping):
        return {key: plain(value) for key, value in action.items() if value is not None and value != {}}
    return action
