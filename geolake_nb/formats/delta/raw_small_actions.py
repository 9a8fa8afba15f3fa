"""The metadata and the domains of a version byte for byte as in its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from geolake_nb.errors import CorruptTableError, JsonError
from geolake_nb.formats.delta.log_replay import read_deltas, small_actions
from geolake_nb.text.json_splice import member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.delta.log_segment import LogSegment
    from geolake_nb.storage.storage import Storage

__all__ = ["RawSmallActions", "raw_small_actions"]

_FILES = (b'{"add":', b'{"remove":', b'{"cdc":')


@dataclass(frozen=True, slots=True, eq=False)
class RawSmallActions:
    """The JSON of the objects inside the newest of these actions; what only a checkpoint has is serialized again."""

    metadata: str | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    """By domain, without those that were removed."""


def raw_small_actions(storage: Storage, segment: LogSegment) -> RawSmallActions:
    """The metadata and the domains of the version of the segment."""
    known = small_actions(storage, segment)
    metadata = None if known.metadata is None else orjson.dumps(known.metadata).decode()
    domains: dict[str, str] = {}
    for domain, configuration in known.domains.items():
        spelled = {"domain": domain, "configuration": configuration, "removed": False}
        domains[domain] = orjson.dumps(spelled).decode()
    for commit in read_deltas(storage, segment):
        for line in commit.data.split(b"\n"):
            if line.startswith(_FILES) or not line.strip():
                continue
            action = orjson.loads(line)
            if "metaData" in action:
                metadata = _inside(line, "metaData", commit.path) or metadata
            fields: Any = action.get("domainMetadata")
            named = fields.get("domain") if isinstance(fields, dict) else None
            if isinstance(named, str) and named in known.domains:
                domains[named] = _inside(line, "domainMetadata", commit.path) or domains[named]
    return RawSmallActions(metadata, domains)


def _inside(line: bytes, kind: str, where: str) -> str | None:
    try:
        return member(line.decode(), (kind,))
    except JsonError as problem:
        raise CorruptTableError(str(problem), where=where) from None
