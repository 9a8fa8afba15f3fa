"""The bounds of a table, read from the bytes that were written, and whether one of them leaves out a row.

Delta's log is read as JSON, manifests with fastavro, footers and values with pyarrow, points with shapely.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import fastavro
import numpy as np
import pyarrow.parquet as pq
import shapely

from tests.promises.row_extents import SPHERICAL, Geographies, Geometries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

__all__ = ["Bound", "Verdict", "bounds_of_files", "delta_bounds", "live_files", "manifest_bounds"]

SIDES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")
NOTHING = (np.nan,) * 8
_LOWS, _HIGHS = [0, 1, 4, 6], [2, 3, 5, 7]


@dataclass(frozen=True, slots=True)
class Bound:
    """The box that stands for some rows, by their ids; its sides are NaN where it says nothing."""

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


def delta_bounds(folder: Path, columns: tuple[str, ...]) -> Iterator[Bound]:
    """The boxes in the statistics of the log."""
    for path, add in delta_adds(folder).items():
        ids = ids_of(folder / unquote(path))
        stats = json.loads(add.get("stats") or "{}")
        for column in columns:
            ends = [stats.get(side, {}).get(column) for side in ("minValues", "maxValues")]
            if None in ends:
                yield Bound("Delta log", column, ids, NOTHING)
                continue
            low, high = shapely.get_coordinates(shapely.from_wkt(ends), include_z=True, include_m=True)
            yield Bound("Delta log", column, ids, _woven(low, high))


# ---- Iceberg and Havasu


def manifest_entries(folder: Path) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """The ids of columns by name, and the live data files of the newest snapshot."""
    newest = max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    held = json.loads(newest.read_text())
    schema = next(one for one in held["schemas"] if one["schema-id"] == held["current-schema-id"])
    current = next(one for one in held["snapshots"] if one["snapshot-id"] == held["current-snapshot-id"])
    entries = [entry for one in _records(current["manifest-list"]) for entry in _records(one["manifest_path"])]
    files = [one["data_file"] for one in entries if one["status"] != 2 and one["data_file"].get("content", 0) == 0]
    return {one["name"]: one["id"] for one in schema["fields"]}, files


def manifest_bounds(folder: Path, columns: tuple[str, ...], *, havasu: bool = False) -> Iterator[Bound]:
    """The boxes in the manifests: raw doubles of Iceberg, or WKB points of Havasu."""
    names = [f"geom_{end}_bounds" if havasu else f"{end}_bounds" for end in ("lower", "upper")]
    numbers, files = manifest_entries(folder)
    for file in files:
        ids = ids_of(_local(file["file_path"]))
        maps = [{pair["key"]: pair["value"] for pair in file.get(name) or ()} for name in names]
        for column in columns:
            ends = [held.get(numbers[column]) for held in maps]
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
        return [_local(one["file_path"]) for one in manifest_entries(folder)[1]]
    return sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith(("_", ".")))


def ids_of(path: Path) -> np.ndarray:
    return pq.read_table(path, columns=["id"], partitioning=None)["id"].to_numpy()


def bounds_of_files(paths: list[Path], columns: tuple[str, ...], *, by_row: bool = False) -> Iterator[Bound]:
    """What the files say of themselves: boxes of row groups, the `geo` property, coverings and their statistics.

    Rows go by their column `id`, or by their number in the file.
    """
    for path in paths:
        with pq.ParquetFile(path, arrow_extensions_enabled=False) as file:
            ids = np.arange(file.metadata.num_rows) if by_row else file.read(columns=["id"])["id"].to_numpy()
            places = {file.metadata.schema.column(one).path: one for one in range(file.metadata.num_columns)}
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            ends = np.cumsum([0, *[group.num_rows for group in groups]])
            parts = [ids[start:end] for start, end in itertools.pairwise(ends)]
            for column in columns:
                for group, some in zip(groups, parts, strict=True):
                    yield Bound("row group", column, some, _group_sides(group.column(places[column])))
            stated = json.loads((file.metadata.metadata or {}).get(b"geo", b"{}")).get("columns", {})
            for column, told in ((name, told) for name, told in stated.items() if name in columns):
                if "bbox" not in told:
                    yield Bound("geo property", column, ids, NOTHING)
                else:
                    half = len(told["bbox"]) // 2
                    low, high = (
                        np.resize([*some, *[np.nan] * 4], 4) for some in (told["bbox"][:half], told["bbox"][half:])
                    )
                    yield Bound("geo property", column, ids, _woven(low, high))
                if "bbox" in told.get("covering", {}):
                    name = told["covering"]["bbox"]["xmin"][0]
                    yield from _covering(column, file.read(columns=[name])[name].combine_chunks(), ids)
                    sides = [places[f"{name}.{side}"] for side in SIDES[:4]]
                    for group, some in zip(groups, parts, strict=True):
                        yield from _covering_statistics(column, [group.column(one) for one in sides], some)


def _group_sides(chunk: Any) -> tuple[float, ...]:
    if not chunk.is_geo_stats_set:
        return NOTHING
    found = chunk.geo_statistics.to_dict()
    if None in [found[side] for side in SIDES[:4]]:  # pyarrow hides a range that is infinite
        return NOTHING
    return tuple(np.nan if found[side] is None else found[side] for side in SIDES)


def _covering(column: str, boxes: pa.StructArray, ids: np.ndarray) -> Iterator[Bound]:
    sides = [boxes.field(side).to_numpy(zero_copy_only=False).astype(float) for side in SIDES[:4]]
    for row in np.flatnonzero(np.asarray(boxes.is_valid())):
        yield Bound("covering", column, ids[row : row + 1], (*[float(side[row]) for side in sides], *NOTHING[4:]))


def _covering_statistics(column: str, chunks: list[Any], ids: np.ndarray) -> Iterator[Bound]:
    """What a reader that knows nothing of shapes skips row groups by."""
    held = [chunk.statistics for chunk in chunks]
    known = all(one is not None and one.has_min_max for one in held)
    ends = [one.min if side.endswith("min") else one.max for one, side in zip(held, SIDES[:4], strict=True)]
    yield Bound("covering statistics", column, ids, (*ends, *NOTHING[4:]) if known else NOTHING)


# ---- the judgement


@dataclass
class Verdict:
    """What was compared, by the writer, level and column, and what is wrong."""

    compared: Counter[str] = field(default_factory=Counter)
    """Rows that lie inside a bound."""
    unbounded: Counter[str] = field(default_factory=Counter)
    """Rows that have a place and no bound."""
    problems: list[str] = field(default_factory=list)

    def judge(self, writer: str, bounds: list[Bound], truth: Mapping[str, Geometries | Geographies]) -> None:
        """Add what these bounds of one table show; every level that is there must speak of every row."""
        grouped: dict[tuple[str, str], list[Bound]] = {}
        for one in bounds:
            grouped.setdefault((one.level, one.column), []).append(one)
        for (level, column), some in grouped.items():
            held = truth[column]
            sides = np.full((len(held.values), 8), np.nan)
            for one in some:
                sides[one.ids] = one.sides
            if level != "covering":  # which a row without a place has not
                ids = np.sort(np.concatenate([one.ids for one in some]))
                if not np.array_equal(ids, np.arange(len(held.values))):
                    self.problems.append(f"{writer}, {level}: the rows are not those that were written")
            placed = _has_place(held)
            wrong = _leaves_out(held, sides)
            if level.startswith("covering"):  # a row without x or without y has none, and meets no window
                wrong = [one for one in wrong if placed[one[0]]]
            bounded = ~np.isnan(sides[:, :4]).any(axis=1)
            half = np.isnan(sides[:, :4]).any(axis=1) & ~np.isnan(sides[:, :4]).all(axis=1)
            # A filter on a covering drops what has none.
            lost = half | (placed & ~bounded) if level == "covering" else half
            where = f"{writer}, {level}, {column}"
            self.problems += [
                f"{where}: row {row}: {_text(sides[row])} leaves out {what} of {held.shapes[row]}"
                for row, what in [*wrong, *[(row, "a side") for row in np.flatnonzero(lost)]][:5]
            ]
            self.compared[where] += int((placed & bounded).sum())
            self.unbounded[where] += int((placed & ~bounded).sum())


def _text(sides: np.ndarray) -> str:
    return str([None if np.isnan(one) else float(one) for one in sides])


def _has_place(held: Geometries | Geographies) -> np.ndarray:
    if isinstance(held, Geometries):
        return ~np.isnan(held.low[:, :2]).any(axis=1)
    return np.isfinite(held.low)


def _leaves_out(held: Geometries | Geographies, sides: np.ndarray) -> list[tuple[int, str]]:
    """The rows of which something lies outside of the box that stands for them."""
    if isinstance(held, Geometries):
        low, high = sides[:, _LOWS], sides[:, _HIGHS]
        wrong = ((held.low < low) | (held.high > high)).any(axis=1)
        # A geometry's x never wraps: its readers would find nothing.
        wrong |= sides[:, 0] > sides[:, 2]
        return [(int(row), f"{held.low[row]} to {held.high[row]}") for row in np.flatnonzero(wrong)]
    return _leaves_out_on_earth(held, sides)


def _leaves_out_on_earth(held: Geographies, sides: np.ndarray) -> list[tuple[int, str]]:
    wide = sides.astype(np.longdouble)
    xmin, ymin, xmax, ymax = wide[:, 0], wide[:, 1], wide[:, 2], wide[:, 3]
    found: list[tuple[int, str]] = []

    def report(rows: np.ndarray, what: str) -> None:
        found.extend((int(row), what) for row in np.unique(rows))

    # NaN, where there is no box, is never left out.
    lon, lat, owner = held.vertices[:, 0], held.vertices[:, 1], held.vertex_owner
    out = np.where(
        xmin[owner] <= xmax[owner], (lon < xmin[owner]) | (lon > xmax[owner]), (lon < xmin[owner]) & (lon > xmax[owner])
    )
    report(owner[out | (lat < ymin[owner]) | (lat > ymax[owner])], "a vertex")
    report(np.flatnonzero((held.low < ymin) | (held.high > ymax)), "a latitude")
    report(np.flatnonzero(held.full & ((xmin > -180) | (xmax < 180))), "a longitude of a pole")
    owner, start, end = held.owner, held.starts, held.ends
    way = (end[:, 0] - start[:, 0] + 540) % 360 - 180
    west = np.where(way >= 0, start[:, 0], end[:, 0])
    width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)[owner]
    ahead = (west - xmin[owner]) % 360
    on_pole = (np.abs(start[:, 1]) == 90) | (np.abs(end[:, 1]) == 90)
    out = (ahead + np.abs(way) > width + 1e-12) & (width < 360) & ~held.over & ~on_pole
    # A start at the western side may be a full turn ahead by its last bit.
    out &= ~((ahead > 360 - 1e-12) & (np.abs(way) <= width + 1e-12))
    report(owner[out], "an edge")
    if held.edges == SPHERICAL:
        owner, lat = held.inner_owner, held.inner[:, 1]
        ahead = (held.inner[:, 0] - xmin[owner]) % 360
        width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)[owner]
        room = 1e-9 / np.maximum(np.cos(np.radians(lat)), 1e-9)
        out = (ahead > width + room) & (ahead < 360 - room) & (np.abs(lat) < 90)
        report(owner[out | (lat < ymin[owner] - 1e-9) | (lat > ymax[owner] + 1e-9)], "a point inside")
    return found
