"""The bounds of a table, read from the bytes that were written.

Delta's log is read as JSON, manifests with fastavro, footers and values with pyarrow, points with shapely.
"""

from __future__ import annotations

import itertools
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import fastavro
import numpy as np
import pyarrow.parquet as pq
import shapely

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

__all__ = ["NOTHING", "Bound", "bounds_of_files", "delta_bounds", "delta_names", "live_files", "manifest_bounds"]

SIDES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")
NOTHING = (np.nan,) * 8


@dataclass(frozen=True, slots=True)
class Bound:
    """The box of some rows, by their ids; its sides are NaN where it is unknown."""

    level: str
    column: str
    ids: np.ndarray
    sides: tuple[float, ...]


# ---- Delta


def delta_adds(folder: Path) -> dict[str, dict[str, Any]]:
    """The live files of a log without checkpoints: their add actions by path."""
    live: dict[str, dict[str, Any]] = {}
    for log in sorted((folder / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        # A file that gets a deletion vector is removed and added in one commit, in any order.
        for action in actions:
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
        live |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    return live


def delta_names(folder: Path) -> dict[str, tuple[str, ...]]:
    """The names of columns in statistics and files, by their path: with column mapping they are others."""
    texts = [line for log in sorted((folder / "_delta_log").glob("*.json")) for line in log.read_text().splitlines()]
    *_, newest = (action["metaData"] for action in map(json.loads, texts) if "metaData" in action)
    mapped = newest["configuration"].get("delta.columnMapping.mode", "none") != "none"
    columns: dict[str, tuple[str, ...]] = {}

    def walk(type_: Any, path: tuple[str, ...], names: tuple[str, ...]) -> None:
        columns[".".join(path)] = names
        for field in type_["fields"] if isinstance(type_, dict) and type_["type"] == "struct" else ():
            name = field["metadata"]["delta.columnMapping.physicalName"] if mapped else field["name"]
            walk(field["type"], (*path, field["name"]), (*names, name))

    walk(json.loads(newest["schemaString"]), (), ())
    return columns


def delta_bounds(folder: Path, columns: tuple[str, ...]) -> Iterator[Bound]:
    """The boxes in the statistics of the log."""
    names = delta_names(folder)
    for path, add in delta_adds(folder).items():
        ids = ids_of(folder / unquote(path), names["id"][0])
        stats = json.loads(add.get("stats") or "{}")
        for column in columns:
            ends = [_inner(stats.get(side), names[column]) for side in ("minValues", "maxValues")]
            if None in ends:
                yield Bound("Delta log", column, ids, NOTHING)
                continue
            low, high = shapely.get_coordinates(shapely.from_wkt(ends), include_z=True, include_m=True)
            yield Bound("Delta log", column, ids, _woven(low, high))


def _inner(values: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        values = None if values is None else values.get(name)
    return values


# ---- Iceberg and Havasu


def manifest_entries(folder: Path) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """The ids of columns by path, and the live data files of the newest snapshot."""
    newest = max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    metadata = json.loads(newest.read_text())
    schema = next(
        candidate for candidate in metadata["schemas"] if candidate["schema-id"] == metadata["current-schema-id"]
    )
    current = next(
        candidate for candidate in metadata["snapshots"] if candidate["snapshot-id"] == metadata["current-snapshot-id"]
    )
    entries = [
        entry for manifest in _records(current["manifest-list"]) for entry in _records(manifest["manifest_path"])
    ]
    files = [
        record["data_file"]
        for record in entries
        if record["status"] != 2 and record["data_file"].get("content", 0) == 0
    ]
    return dict(_numbers(schema["fields"])), files


def _numbers(fields: list[dict[str, Any]], above: str = "") -> Iterator[tuple[str, int]]:
    for field in fields:
        kind = field["type"] if isinstance(field["type"], dict) else {}
        # A list or a map is replaced by its elements or values: those are geometries, if any are.
        yield above + field["name"], kind.get("element-id", kind.get("value-id", field["id"]))
        yield from _numbers(kind.get("fields", []), f"{above}{field['name']}.")


def manifest_bounds(folder: Path, columns: tuple[str, ...], *, havasu: bool = False) -> Iterator[Bound]:
    """The boxes in the manifests: raw doubles of Iceberg, or WKB points of Havasu."""
    names = [f"geom_{end}_bounds" if havasu else f"{end}_bounds" for end in ("lower", "upper")]
    numbers, files = manifest_entries(folder)
    for file in files:
        ids = ids_of(_local(file["file_path"]))
        maps = [{pair["key"]: pair["value"] for pair in file.get(name) or ()} for name in names]
        for column in columns:
            ends = [side.get(numbers[column]) for side in maps]
            if None in ends:
                assert ends == [None, None], f"one end of a bound alone: {file}"
                yield Bound("Havasu manifest" if havasu else "Iceberg manifest", column, ids, NOTHING)
            elif havasu:
                low, high = shapely.get_coordinates(shapely.from_wkb(ends), include_z=True, include_m=True)
                yield Bound("Havasu manifest", column, ids, _woven(low, high))
            else:
                low, high = (np.resize(struct.unpack(f"<{len(end) // 8}d", end) + (np.nan,) * 4, 4) for end in ends)
                yield Bound("Iceberg manifest", column, ids, _woven(low, high))


def _records(path: str) -> list[Any]:
    with _local(path).open("rb") as file:
        return list(fastavro.reader(file))


def _local(path: str) -> Path:
    return Path(path.removeprefix("file://").removeprefix("file:"))


def _woven(low: np.ndarray, high: np.ndarray) -> tuple[float, ...]:
    return (low[0], low[1], high[0], high[1], low[2], high[2], low[3], high[3])


# ---- Parquet


def live_files(folder: Path, form: str) -> list[Path]:
    """The data files of the newest version of a table."""
    if form == "delta":
        return [folder / unquote(path) for path in delta_adds(folder)]
    if form in ("iceberg", "havasu"):
        return [_local(file["file_path"]) for file in manifest_entries(folder)[1]]
    return sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith(("_", ".")))


def ids_of(path: Path, name: str = "id") -> np.ndarray:
    return pq.read_table(path, columns=[name], partitioning=None)[name].to_numpy()


def bounds_of_files(
    paths: list[Path], columns: tuple[str, ...], *, by_row: bool = False, leaves: Mapping[str, str] | None = None
) -> Iterator[Bound]:
    """What the files say of themselves: boxes of row groups, the `geo` property, coverings and their statistics.

    Rows go by their column `id`, or by their number in the file. `leaves` are the paths of columns in the files, where
    those are others.
    """
    leaves = leaves or {}
    for path in paths:
        with pq.ParquetFile(path, arrow_extensions_enabled=False) as file:
            ids = np.arange(file.metadata.num_rows) if by_row else ids_of(path, leaves.get("id", "id"))
            places = {file.metadata.schema.column(leaf).path: leaf for leaf in range(file.metadata.num_columns)}
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            ends = np.cumsum([0, *[group.num_rows for group in groups]])
            parts = [ids[start:end] for start, end in itertools.pairwise(ends)]
            for column in columns:
                for group, some in zip(groups, parts, strict=True):
                    yield Bound(
                        "row group", column, some, _group_sides(group.column(places[leaves.get(column, column)]))
                    )
            stated = json.loads((file.metadata.metadata or {}).get(b"geo", b"{}")).get("columns", {})
            for column, column_metadata in (
                (name, column_metadata) for name, column_metadata in stated.items() if name in columns
            ):
                if "bbox" not in column_metadata:
                    yield Bound("geo property", column, ids, NOTHING)
                else:
                    half = len(column_metadata["bbox"]) // 2
                    low, high = (
                        np.resize([*some, *[np.nan] * 4], 4)
                        for some in (column_metadata["bbox"][:half], column_metadata["bbox"][half:])
                    )
                    yield Bound("geo property", column, ids, _woven(low, high))
                if "bbox" in column_metadata.get("covering", {}):
                    name = column_metadata["covering"]["bbox"]["xmin"][0]
                    yield from _covering(column, file.read(columns=[name])[name].combine_chunks(), ids)
                    sides = [places[f"{name}.{side}"] for side in SIDES[:4]]
                    for group, some in zip(groups, parts, strict=True):
                        yield from _covering_statistics(column, [group.column(leaf) for leaf in sides], some)


def _group_sides(chunk: Any) -> tuple[float, ...]:
    if not chunk.is_geo_stats_set:
        return NOTHING
    sides = chunk.geo_statistics.to_dict()
    if None in [sides[side] for side in SIDES[:4]]:  # pyarrow hides a range that is infinite
        return NOTHING
    return tuple(np.nan if sides[side] is None else sides[side] for side in SIDES)


def _covering(column: str, boxes: pa.StructArray, ids: np.ndarray) -> Iterator[Bound]:
    sides = [boxes.field(side).to_numpy(zero_copy_only=False).astype(float) for side in SIDES[:4]]
    for row in np.flatnonzero(np.asarray(boxes.is_valid())):
        yield Bound("covering", column, ids[row : row + 1], (*[float(side[row]) for side in sides], *NOTHING[4:]))


def _covering_statistics(column: str, chunks: list[Any], ids: np.ndarray) -> Iterator[Bound]:
    """What a reader that knows nothing of shapes skips row groups by."""
    chunk_stats = [chunk.statistics for chunk in chunks]
    known = all(stats is not None and stats.has_min_max for stats in chunk_stats)
    ends = [
        stats.min if side.endswith("min") else stats.max for stats, side in zip(chunk_stats, SIDES[:4], strict=True)
    ]
    yield Bound("covering statistics", column, ids, (*ends, *NOTHING[4:]) if known else NOTHING)
