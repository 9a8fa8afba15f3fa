"""What Iceberg's Java API forgets of a table when it commits: all that Iceberg does not define."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.core.message_text import printable
from geolake_nb.formats.iceberg.foreign_fields import foreign_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["forgetting_sentences"]

_SHOWN = 8


def forgetting_sentences(snapshot: Snapshot, *, new_list: bool = True, entries: bool = False) -> Iterator[str]:
    """One sentence if there is anything to forget; with `entries`, manifests of files that stay may be written again.

    Without `new_list` the commit goes back to a manifest list that is there.
    """
    details: IcebergDetails = snapshot.details
    parts = [
        *_named(foreign_keys(details.raw), "in the table metadata"),
        *(_named(details.foreign_list_fields, "in the manifest list") if new_list else ()),
        *(_named(details.foreign_entry_fields, "in manifests that it writes again") if entries else ()),
    ]
    if parts:
        yield f"Iceberg's Java API commits, and forgets what Iceberg does not define: {'; '.join(parts)}."


def _named(names: Sequence[str], where: str) -> Iterator[str]:
    if names:
        shown = ", ".join(printable(name, 60) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        yield f"{shown}{more} {where}"
