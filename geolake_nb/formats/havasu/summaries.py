"""What the summary of a snapshot counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.iceberg.manifests import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.havasu.manifest_writing import ListedManifest

__all__ = ["snapshot_summary"]

_KEPT = ("total-delete-files", "total-position-deletes", "total-equality-deletes")


def snapshot_summary(
    manifests: Sequence[ListedManifest],
    before: Mapping[str, str],
    *,
    first: bool,
    outlived: Sequence[ListedManifest] = (),
) -> dict[str, str]:
    """The counts of a snapshot that writes these manifests; totals go on from those of the snapshot before.

    `outlived` are those of delete files that are deleted themselves.

    >>> snapshot_summary([], {}, first=True)["total-records"], snapshot_summary([], {}, first=False)
    ('0', {})
    """
    counts: dict[str, int] = {}
    for status, (files, rows, size) in {
        Status.ADDED: ("added-data-files", "added-records", "added-files-size"),
        Status.DELETED: ("deleted-data-files", "deleted-records", "removed-files-size"),
    }.items():
        counts[files] = sum(one.files.get(status, 0) for one in manifests)
        counts[rows] = sum(one.rows.get(status, 0) for one in manifests)
        counts[size] = sum(one.bytes.get(status, 0) for one in manifests)
    told = {name: str(count) for name, count in counts.items() if count}
    for total, plus, minus in (
        ("total-data-files", "added-data-files", "deleted-data-files"),
        ("total-records", "added-records", "deleted-records"),
        ("total-files-size", "added-files-size", "removed-files-size"),
    ):
        held = 0 if first else _number(before.get(total))
        if held is not None:
            told[total] = str(held + counts[plus] - counts[minus])
    gone = sum(one.files.get(Status.DELETED, 0) for one in outlived)
    if gone:
        told["removed-delete-files"] = str(gone)
    left = _number(before.get(_KEPT[0])) if not first else 0
    if left is not None and left - gone <= 0:
        return told | dict.fromkeys(_KEPT, "0")
    if not gone:
        return told | {total: before[total] for total in _KEPT if total in before}
    return told if left is None else told | {_KEPT[0]: str(left - gone)}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
