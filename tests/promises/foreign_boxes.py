"""Another tool's commit to a Havasu table: the same rows and files with other boxes, written with fastavro alone."""

from __future__ import annotations

import json
import os
import struct
import time
import uuid
from pathlib import Path
from typing import Any

from tests.formats.havasu_rows import metadata_of
from tests.formats.havasu_tables import point
from tests.promises.test_what_we_do_not_own_is_unchanged import read_avro, write_avro

__all__ = ["give_boxes"]

_LOWER, _UPPER = "geom_lower_bounds", "geom_upper_bounds"


def give_boxes(folder: Path, how: str) -> None:
    """A snapshot with the live files of the current one, whose boxes it strips, loosens or tightens."""
    old = metadata_of(folder)
    current = next(snapshot for snapshot in old["snapshots"] if snapshot["snapshot-id"] == old["current-snapshot-id"])
    schema, header, listed = read_avro(Path(current["manifest-list"]))
    made, order, name = uuid.uuid4().int >> 65, old.get("last-sequence-number", 0) + 1, uuid.uuid4().hex
    manifests = []
    for index, manifest in enumerate(listed):
        own, about, entries = read_avro(Path(manifest["manifest_path"]))
        live = [_existing(entry, manifest, how) for entry in entries if entry["status"] < 2]
        if live:
            path = folder / "metadata" / f"{name}-m{index}.avro"
            write_avro(path, own, live, about)
            rows = sum(entry["data_file"]["record_count"] for entry in live)
            manifests.append(_listed(manifest, path, made, order) | {_count(manifest, "existing", "files"): len(live)})
            manifests[-1] |= {"existing_rows_count": rows}
    path = folder / "metadata" / f"snap-{made}-{name}.avro"
    write_avro(path, schema, manifests, header)
    _commit(folder, old, {
        **current, "snapshot-id": made, "parent-snapshot-id": current["snapshot-id"], "manifest-list": str(path),
        "summary": {"operation": "replace", "engine-name": "another"},
        **({"sequence-number": order} if "sequence-number" in current else {}),
    })  # fmt: skip


def _existing(entry: dict[str, Any], listed: dict[str, Any], how: str) -> dict[str, Any]:
    """The entry as a later manifest has it: what it inherited is written out."""
    inherited = {"snapshot_id": "added_snapshot_id", "sequence_number": "sequence_number"}
    inherited["file_sequence_number"] = "sequence_number"
    values = {key: listed[source] for key, source in inherited.items() if key in entry and entry[key] is None}
    return {**entry, **values, "status": 0, "data_file": _boxed(entry["data_file"], how)}


def _boxed(file: dict[str, Any], how: str) -> dict[str, Any]:
    if how == "strip" or not file[_LOWER]:
        return {**file, _LOWER: None, _UPPER: None}
    lower, upper = ({pair["key"]: _point_of(pair["value"]) for pair in file[name]} for name in (_LOWER, _UPPER))
    for key, (x, y) in lower.items():
        if how == "loosen":
            lower[key], upper[key] = (x - 1, y - 1), (upper[key][0] + 1, upper[key][1] + 1)
        else:
            upper[key] = x, y
    boxes = {_LOWER: lower, _UPPER: upper}
    return {
        **file,
        **{name: [{"key": key, "value": point(*at)} for key, at in points.items()] for name, points in boxes.items()},
    }


def _point_of(value: bytes) -> tuple[float, float]:
    x, y = struct.unpack("<dd", value[-16:])
    return x, y


def _count(listed: dict[str, Any], state: str, what: str) -> str:
    """The name of a count, which has two spellings in use."""
    return next(name for name in (f"{state}_{what}_count", f"{state}_data_{what}_count") if name in listed)


def _listed(old: dict[str, Any], path: Path, made: int, order: int) -> dict[str, Any]:
    """The manifest as the list has it, without files that are new or gone."""
    none = {_count(old, state, what): 0 for state in ("added", "deleted") for what in ("files", "rows")}
    numbers = {"sequence_number": order} if "sequence_number" in old else {}
    stored = {"manifest_path": str(path), "manifest_length": path.stat().st_size, "added_snapshot_id": made}
    return {**old, **none, **numbers, **stored}


def _commit(folder: Path, old: dict[str, Any], snapshot: dict[str, Any]) -> None:
    """The next metadata file, which must not be there."""
    moment = max(time.time_ns() // 1_000_000, old["last-updated-ms"])
    made = snapshot["snapshot-id"]
    number = max(int(path.name[1:].split(".")[0]) for path in (folder / "metadata").glob("v*.metadata.json")) + 1
    new = {
        **old,
        "last-updated-ms": moment,
        "current-snapshot-id": made,
        "snapshots": [*old["snapshots"], {**snapshot, "timestamp-ms": moment}],
        "snapshot-log": [*old["snapshot-log"], {"timestamp-ms": moment, "snapshot-id": made}],
        "refs": {**old.get("refs", {}), "main": {"snapshot-id": made, "type": "branch"}},
        **({"last-sequence-number": snapshot["sequence-number"]} if "last-sequence-number" in old else {}),
    }
    with (folder / "metadata" / f"v{number}.metadata.json").open("x") as file:
        json.dump(new, file)
    hint = folder / "metadata" / f"hint-{made}"
    hint.write_text(str(number))
    os.replace(hint, folder / "metadata" / "version-hint.text")
