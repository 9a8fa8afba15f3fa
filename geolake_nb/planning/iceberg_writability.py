"""Whether an Iceberg table can be changed here, or why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import RefusedError

if TYPE_CHECKING:
    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["require_writable"]


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
            "a geo type of the schema stands in PyIceberg's quoted form, which Iceberg for Java cannot read",
            where=snapshot.location,
            remedy="write the types without quotes first",
        )
    if details.raw.get("encryption-keys"):
        raise RefusedError("the table is encrypted", where=snapshot.location)
