"""The table metadata after a change: what it was with a snapshot more, or with another one current."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FIRST_METADATA", "following_path", "packed_metadata", "with_current", "with_snapshot"]

FIRST_METADATA = "metadata/v1.metadata.json"

_NAME = re.compile(r"(metadata/v)(\d{1,18})((?:\.gz)?\.metadata\.json(?:\.gz)?)")
_KEPT_LOG = "write.metadata.previous-versions-max"
_MAIN = "main"


def following_path(path: str, *, where: str) -> str:
    """The metadata file that comes after another one; of several writers one can make it.

    >>> following_path("metadata/v9.gz.metadata.json", where="t")
    'metadata/v10.gz.metadata.json'
    >>> following_path("metadata/00003-a.metadata.json", where="t")
    Traceback (most recent call last):
    geolake_nb.errors.RefusedError: t: a catalog keeps the table: its metadata files are not named v1, v2 and so on; ...
    """
    match = _NAME.fullmatch(path)
    if match is None:
        raise RefusedError(
            "a catalog keeps the table: its metadata files are not named v1, v2 and so on",
            where=where,
            remedy="Havasu tables are changed here where the file system keeps them",
        )
    return f"{match[1]}{int(match[2]) + 1}{match[3]}"


def packed_metadata(raw: Mapping[str, Any], path: str) -> bytes:
    """The bytes of a metadata file of that name.

    >>> packed_metadata({"a": 1}, "metadata/v1.metadata.json")
    b'{"a":1}'
    """
    text = json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()
    return gzip.compress(text, mtime=0) if ".gz" in path else text


def with_snapshot(raw: Mapping[str, Any], snapshot: Mapping[str, Any], *, before: str | None) -> dict[str, Any]:
    """The metadata with a snapshot more, which is the current one; `before` is the file that it comes after.

    >>> new = with_snapshot({"format-version": 1, "x": 1}, {"snapshot-id": 7, "timestamp-ms": 5}, before=None)
    >>> new["current-snapshot-id"], new["x"], new["refs"]
    (7, 1, {'main': {'snapshot-id': 7, 'type': 'branch'}})
    """
    after = with_current(raw, snapshot["snapshot-id"], moment=snapshot["timestamp-ms"], before=before)
    after["snapshots"] = [*(raw.get("snapshots") or ()), dict(snapshot)]
    if "sequence-number" in snapshot:
        after["last-sequence-number"] = snapshot["sequence-number"]
    return after


def with_current(raw: Mapping[str, Any], snapshot_id: int, *, moment: int, before: str | None) -> dict[str, Any]:
    """The metadata with that snapshot as the current one."""
    after = dict(raw)
    after["last-updated-ms"] = moment
    after["current-snapshot-id"] = snapshot_id
    refs = dict(raw.get("refs") or {})
    # A branch may have rules of its own, which stay.
    refs[_MAIN] = {**(refs.get(_MAIN) or {"type": "branch"}), "snapshot-id": snapshot_id}
    after["refs"] = {name: dict(sorted(ref.items())) if name == _MAIN else ref for name, ref in refs.items()}
    after["snapshot-log"] = [
        *(raw.get("snapshot-log") or ()),
        {"timestamp-ms": moment, "snapshot-id": snapshot_id},
    ]
    if before is not None:
        log = [*(raw.get("metadata-log") or ()), {"timestamp-ms": raw["last-updated-ms"], "metadata-file": before}]
        after["metadata-log"] = log[-_kept(raw) :]
    return after


def _kept(raw: Mapping[str, Any]) -> int:
    text = str((raw.get("properties") or {}).get(_KEPT_LOG, ""))
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 9 else 100
