"""The counts in the summary of a snapshot."""

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
    obsolete: Sequence[ListedManifest] = (),
) -> dict[str, str]:
    """The counts of a snapshot that writes these manifests; totals continue those of the previous snapshot.

    `obsolete` are manifests of delete files that are deleted themselves.

    >>> snapshot_summary([], {}, first=True)["total-records"], snapshot_summary([], {}, first=False)
    ('0', {})
    """
    counts: dict[str, int] = {}
    for status, (files, rows, size) in {
        Status.ADDED: ("added-data-files", "added-records", "added-files-size"),
        Status.DELETED: ("deleted-data-files", "deleted-records", "removed-files-size"),
    }.items():
        counts[files] = sum(manifest.files.get(status, 0) for manifest in manifests)
        counts[rows] = sum(manifest.rows.get(status, 0) for manifest in manifests)
        counts[size] = sum(manifest.bytes.get(status, 0) for manifest in manifests)
    summary = {name: str(count) for name, count in counts.items() if count}
    for total, plus, minus in (
        ("total-data-files", "added-data-files", "deleted-data-files"),
        ("total-records", "added-records", "deleted-records"),
        ("total-files-size", "added-files-size", "removed-files-size"),
    ):
        previous = 0 if first else _number(before.get(total))
        if previous is not None:
            summary[total] = str(previous + counts[plus] - counts[minus])
    removed = sum(manifest.files.get(Status.DELETED, 0) for manifest in obsolete)
    if removed:
        summary["removed-delete-files"] = str(removed)
    left = _number(before.get(_KEPT[0])) if not first else 0
    if left is not None and left - removed <= 0:
        return summary | dict.fromkeys(_KEPT, "0")
    if not removed:
        return summary | {total: before[total] for total in _KEPT if total in before}
    return summary if left is None else summary | {_KEPT[0]: str(left - removed)}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
