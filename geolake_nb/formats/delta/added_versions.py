"""Which version added each file of a Delta table, from the commits that are still in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.delta.commit_reading import file_actions, scan_commit
from geolake_nb.formats.delta.log_segment import list_log

if TYPE_CHECKING:
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["MAX_COMMITS", "added_versions"]

MAX_COMMITS = 1000
"""How many commits are read at most, newest first, each in full."""


def added_versions(storage: Storage, snapshot: Snapshot, *, most: int = MAX_COMMITS) -> pa.Array:
    """The version that added each file, in the order of the file table; null for files added by older commits.

    A file whose statistics were repaired counts as added by the version that repaired them.
    """
    paths = snapshot.files.table["path"]
    listing = list_log(storage)
    versions = [
        version_ for version_ in sorted(listing.commits) if snapshot.version is None or version_ <= snapshot.version
    ][-most:]
    result = pa.nulls(len(paths), pa.int64())
    blobs = storage.read_many([listing.commits[version_].path for version_ in versions], missing_ok=True)
    for version, blob in zip(versions, blobs, strict=True):
        actions = file_actions([scan_commit(listing.commits[version].path, blob or b"")], [])
        added = pc.is_in(paths.combine_chunks(), value_set=actions["path"].filter(actions["added"]).combine_chunks())
        result = pc.if_else(added, pa.scalar(version, pa.int64()), result)
    return result
