"""Which version added each file of a Delta table, from the commits that are still in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.delta.commit_reading import file_actions, scan_commit
from geolake_nb.formats.delta.log_segment import list_log

if TYPE_CHECKING:
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

__all__ = ["MOST_COMMITS", "added_versions"]

MOST_COMMITS = 1000
"""How many commits are read at most: the newest ones, each of them whole."""


def added_versions(storage: Storage, snapshot: Snapshot, *, most: int = MOST_COMMITS) -> pa.Array:
    """The version that added each file, in the order of the file table; null for those older than what is read.

    A file whose statistics were mended was added again by the version that did so.
    """
    paths = snapshot.files.table["path"]
    listing = list_log(storage)
    versions = [one for one in sorted(listing.commits) if snapshot.version is None or one <= snapshot.version][-most:]
    found = pa.nulls(len(paths), pa.int64())
    blobs = storage.read_many([listing.commits[one].path for one in versions], missing_ok=True)
    for version, blob in zip(versions, blobs, strict=True):
        actions = file_actions([scan_commit(listing.commits[version].path, blob or b"")], [])
        added = pc.is_in(paths.combine_chunks(), value_set=actions["path"].filter(actions["added"]).combine_chunks())
        found = pc.if_else(added, pa.scalar(version, pa.int64()), found)
    return found
