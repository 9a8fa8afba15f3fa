"""Whether a change of a Delta table conflicts with commits that were made after it was planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import StorageError
from geolake_nb.formats.delta.commit_reading import file_actions, scan_commit
from geolake_nb.formats.delta.data_paths import decoded_paths
from geolake_nb.storage.location import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.storage.storage import Storage

__all__ = ["Touched", "conflict"]

_KNOWN = {"add", "cdc", "commitInfo", "domainMetadata", "metaData", "protocol", "remove", "txn"}


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """What the actions of a commit touch."""

    paths: pa.Array
    """The decoded paths of all files that are added or removed."""
    adds: bool
    """Whether a file is added."""
    metadata: Mapping[str, Any] | None
    """The newest `metaData` action."""
    protocol: bool
    domains: frozenset[str]
    applications: frozenset[str]
    """The applications of `txn` actions."""
    unknown: frozenset[str]
    """Actions that this package does not know."""
    info: Mapping[str, Any]
    """The `commitInfo`, empty where there is none."""

    @classmethod
    def by(cls, storage: Storage, path: str, data: bytes) -> Touched:
        """What the JSON actions of a commit touch; `path` names them in errors.

        >>> from geolake_nb.storage.storage import Storage
        >>> storage = Storage.at("/data/t")
        >>> touched = Touched.by(storage, "0.json", b'{"add":{"path":"a%20b"}}\\n{"txn":{"appId":"etl","version":3}}')
        >>> touched.paths.to_pylist(), sorted(touched.applications), Touched.by(storage, "1.json", b"").adds
        (['a b'], ['etl'], False)
        """
        commit = scan_commit(path, data)
        files = file_actions([commit], [])
        metadata: Mapping[str, Any] | None = None
        info: Mapping[str, Any] = {}
        kinds: set[str] = set()
        domains: set[str] = set()
        applications: set[str] = set()
        for action in commit.actions:
            for kind, value in action.items():
                kinds.add(kind)
                fields = value if isinstance(value, dict) else {}
                if kind == "metaData":
                    metadata = fields
                elif kind == "commitInfo":
                    info = info or fields
                elif kind == "domainMetadata":
                    domains.add(str(fields.get("domain")))
                elif kind == "txn":
                    applications.add(str(fields.get("appId")))
        return cls(
            paths=_normal_paths(storage, files["path"]),
            adds=bool(pc.any(files["added"]).as_py()),
            metadata=metadata,
            protocol="protocol" in kinds,
            domains=frozenset(domains),
            applications=frozenset(applications),
            unknown=frozenset(kinds - _KNOWN),
            info=info,
        )


def conflict(ours: Touched, theirs: Touched, *, tolerates_appends: bool) -> str | None:
    """What in another commit conflicts with ours, `None` if ours is still valid after it.

    >>> from geolake_nb.storage.storage import Storage
    >>> storage = Storage.at("/data/t")
    >>> ours, append, delete = (
    ...     Touched.by(storage, "x", text)
    ...     for text in (b'{"add":{"path":"a"}}', b'{"add":{"path":"b"}}', b'{"remove":{"path":"a"}}')
    ... )
    >>> conflict(ours, append, tolerates_appends=True) is None
    True
    >>> conflict(ours, append, tolerates_appends=False), conflict(ours, delete, tolerates_appends=True)
    ('added files', "removed or replaced the file 'a'")
    """
    if theirs.unknown:
        return f"contains an unknown action: {', '.join(sorted(theirs.unknown))[:80]}"
    if theirs.protocol:
        return "changed the protocol"
    if theirs.metadata is not None:
        return "changed the schema or the properties"
    if len(ours.paths) and len(theirs.paths):
        both = theirs.paths.filter(pc.is_in(theirs.paths, value_set=ours.paths))
        if len(both):
            count = len(both.unique())
            more = f" and {count - 1} more" if count > 1 else ""
            return f"removed or replaced the file {both[0].as_py()!r}{more}"
    if theirs.adds and not tolerates_appends:
        return "added files"
    if domains := ours.domains & theirs.domains:
        return f"changed the metadata domain {min(domains)!r}"
    if applications := ours.applications & theirs.applications:
        return f"updated the transaction of the application {min(applications)!r}"
    return None


def _normal_paths(storage: Storage, stored: pa.ChunkedArray) -> pa.Array:
    """The paths in normal form, so that one file does not count as two."""
    paths = decoded_paths(stored)
    absolute = pc.or_(pc.starts_with(paths, "/"), pc.match_substring(paths, ":/"))
    if not pc.any(absolute).as_py():
        return paths
    return pa.array([_normal_path(storage, path) for path in paths.to_pylist()], pa.string())


def _normal_path(storage: Storage, path: str) -> str:
    if not (path.startswith("/") or is_url(path)):
        return path
    try:
        return storage.resolve(path)
    except StorageError:
        return path  # at a location that this storage cannot access; only the same spelling matches it
