"""Whether an Iceberg table can be changed, or why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from geolake_nb.errors import RefusedError

if TYPE_CHECKING:
    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["require_writable"]

_FORMATS = {"AVRO", "ORC", "PARQUET"}


def require_writable(snapshot: Snapshot) -> None:
    """Raise unless this is the current snapshot of a table that Iceberg's own classes can commit to."""
    details: IcebergDetails = snapshot.details
    current = details.metadata.current_snapshot_id
    if snapshot.version != current:
        raise RefusedError(
            f"the table is open at the snapshot {snapshot.version}, and its newest is {current}",
            where=snapshot.location,
            remedy="open it without a version, a branch or a tag",
        )
    if details.quoted_types:
        raise RefusedError(
            "a geo type of the schema is in PyIceberg's quoted form, which Iceberg for Java cannot read",
            where=snapshot.location,
            remedy="write the types without quotes first",
        )
    if _is_encrypted(snapshot):
        raise RefusedError("the table is encrypted", where=snapshot.location)
    formats = {str(name) for name in pc.unique(snapshot.files.table["format"]).to_pylist()} - _FORMATS
    if formats:
        what = f"data files in {', '.join(sorted(formats))[:60]}, which is not supported"
        raise RefusedError(what, where=snapshot.location)


def _is_encrypted(snapshot: Snapshot) -> bool:
    """Whether new files would need keys, or existing files have them."""
    details: IcebergDetails = snapshot.details
    if details.raw.get("encryption-keys") or snapshot.properties.get("encryption.key-id"):
        return True
    tables = (snapshot.files.table, details.delete_files)
    return any(pc.any(table["encrypted"], min_count=0).as_py() for table in tables)
