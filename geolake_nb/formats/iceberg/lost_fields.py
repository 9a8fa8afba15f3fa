"""What Iceberg's Java API drops from a table when it commits: all fields that Iceberg does not define."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.iceberg.foreign_fields import foreign_keys
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["forgetting_sentences"]

_SHOWN = 8


def forgetting_sentences(snapshot: Snapshot, *, new_list: bool = True, entries: bool = False) -> Iterator[str]:
    """One sentence if something is dropped; with `entries`, manifests of files that stay may be rewritten.

    Without `new_list` the commit goes back to an existing manifest list.
    """
    details: IcebergDetails = snapshot.details
    parts = [
        *_named(foreign_keys(details.raw), "in the table metadata"),
        *(_named(details.foreign_list_fields, "in the manifest list") if new_list else ()),
        *(_named(details.foreign_entry_fields, "in manifests that it rewrites") if entries else ()),
    ]
    if parts:
        yield f"Iceberg's Java API commits, and drops fields that Iceberg does not define: {'; '.join(parts)}."


def _named(names: Sequence[str], where: str) -> Iterator[str]:
    if names:
        shown = ", ".join(printable(name, 60) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        yield f"{shown}{more} {where}"
