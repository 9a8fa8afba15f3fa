"""The rasters of a table one by one: which one, how large, in which CRS, and what its bands are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CrsError, RasterError
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.display import Displayable
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.raster_data.raster import Band, PixelType
from geolake_nb.text.messages import printable, url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.jupyter.map_layers import PlacedBoxes

__all__ = ["BandFacts", "RasterDetails", "RasterEntries", "RasterEntry"]

_WIDTH = 400
_LONG_NAME = 40
_SIDES = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True)
class RasterEntry:
    """One raster of the table, by its file and index; the argument of a thumbnail function."""

    number: int
    """Its row in `t.rasters()`."""
    path: str
    """The data file, as `t.files` has it."""
    column: str
    index_in_file: int
    """Which raster of the file it is, counted from 0 over those that are not null."""
    width: int
    height: int
    bands: int
    crs_wkt: str | None
    reason: str | None = None
    """Why it is not on the map; `None` if it is."""

    @property
    def crs_name(self) -> str:
        """The name of its CRS.

        >>> RasterEntry(0, "f", "r", 0, 1, 1, 1, None).crs_name
        'none'
        """
        if self.crs_wkt is None:
            return "none"
        try:
            return printable(Crs(self.crs_wkt).name, _WIDTH)
        except CrsError as problem:
            return f"unreadable: {printable(problem.what, _WIDTH)}"

    def __str__(self) -> str:
        bands = "1 band" if self.bands == 1 else f"{self.bands:,} bands"
        name = printable(_short_name(self.path), _WIDTH)
        return f"{self.number}  {name} #{self.index_in_file}  {self.width:,} x {self.height:,}, {bands}"


def _short_name(path: str) -> str:
    """The partition and the name of a data file, whose middle is left out where it is long.

    >>> _short_name("/t/data/day=1/part-00000-786758ea-e434-4543-a532-c46c13490047-c001.zstd.parquet")
    'day=1/part-00000-786...c001.zstd.parquet'
    """
    *folders, name = path.split("/")
    if len(name) > _LONG_NAME:
        name = f"{name[:14]}...{name[-17:]}"
    return "/".join([*(folder for folder in folders if "=" in folder), name])


@dataclass(frozen=True, slots=True)
class BandFacts:
    """The description of a band.

    >>> row = {"pixel_type": 4, "no_data": bytes([7]), "in_db": True, "out_db_band_no": None, "out_db_url": None}
    >>> BandFacts.of(row)
    BandFacts(pixel_type='PT_8BUI (uint8)', no_data='7', stored='in-db', url=None)
    >>> BandFacts.of(row | {"pixel_type": 9}).pixel_type
    'unknown pixel type 9'
    """

    pixel_type: str
    no_data: str
    stored: str
    """Where its pixels are."""
    url: str | None = None
    """The file outside of the table, without what may be secret in it; it is text, and never opened here."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> BandFacts:
        """The facts of a row of `t.raster_bands`."""
        try:
            pixel = PixelType.parse(row["pixel_type"])
        except RasterError as problem:
            kind, no_data = problem.what, "none" if row["no_data"] is None else f"bytes {row['no_data'][:16].hex()}"
        else:
            kind, no_data = f"{pixel.name} ({pixel.dtype.name})", _no_data(pixel, row["no_data"])
        if row["in_db"]:
            return cls(kind, no_data, "in-db")
        url = row["out_db_url"]
        number = "no band" if row["out_db_band_no"] is None else f"band {row['out_db_band_no']}"
        return cls(kind, no_data, f"out-db, {number}", None if url is None else url_without_secrets(url))


def _no_data(pixel: PixelType, stored: bytes | None) -> str:
    try:
        value = Band(pixel, stored, b"").no_data_value
    except RasterError as problem:
        return f"unreadable: {problem.what}"
    return "none" if value is None else f"{value}"


@dataclass(frozen=True, slots=True)
class RasterDetails(Displayable):
    """All that is shown of one raster."""

    entry: RasterEntry
    bands: tuple[BandFacts, ...]
    problem: str | None = None
    """Why the bands cannot be read; `None` if they can."""

    def __str__(self) -> str:
        entry = self.entry
        head = f"{printable(entry.path, _WIDTH)} #{entry.index_in_file}: {entry.width:,} x {entry.height:,}"
        lines = [head, f"  CRS {entry.crs_name}"]
        for number, band in enumerate(self.bands):
            url = "" if band.url is None else f" of {printable(band.url, _WIDTH)}"
            lines.append(f"  band {number}: {band.pixel_type}, no-data {band.no_data}, {band.stored}{url}")
        return "\n".join([*lines, *(f"  {printable(text, _WIDTH)}" for text in (entry.reason, self.problem) if text)])


class RasterEntries:
    """The rows of `t.rasters()`, a page of them at a time, and their boxes.

    >>> RasterEntries(pa.table({"path": pa.array([], pa.string()), "column": pa.array([], pa.string())})).pages(10)
    1
    """

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        count = rows.num_rows
        # The rasters of one file and column follow each other.
        keys = [rows[name].combine_chunks() for name in ("column", "path")]
        new = np.zeros(count, np.bool_)
        for key in keys if count else ():
            new[1:] |= pc.not_equal(key.slice(1), key.slice(0, count - 1)).to_numpy(zero_copy_only=False)
        starts = np.maximum.accumulate(np.where(new, np.arange(count), 0)) if count else np.empty(0, np.int64)
        self._indices_in_file = np.arange(count) - starts

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def pages(self, size: int) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-len(self) // size))

    def page(self, number: int, size: int) -> list[RasterEntry]:
        """The rasters of a page, the first of which is 0."""
        first = number * size
        rows = self.rows.slice(first, size).drop_columns([*_SIDES, "footprint"]).to_pylist()
        return [
            RasterEntry(first + row, index_in_file=int(self._indices_in_file[first + row]), **facts)
            for row, facts in enumerate(rows)
        ]

    def placed(self) -> PlacedBoxes:
        """Their boxes on the map."""
        from geolake_nb.jupyter.map_layers import place_boxes

        sides = (self.rows[side].fill_null(np.nan).to_numpy() for side in _SIDES)
        return place_boxes(BoxColumn.from_sides(*sides), CRS84)

    def outlines(self) -> list[tuple[int, Any]]:
        """The rings of the true outlines, each with the row that it is of."""
        import shapely

        known = np.flatnonzero(self.rows["footprint"].is_valid().to_numpy())
        shapes = shapely.from_wkb(self.rows["footprint"].take(pa.array(known)).to_numpy(zero_copy_only=False))
        parts, owners = shapely.get_parts(shapes, return_index=True)
        return [
            (int(known[owner]), shapely.get_coordinates(part))
            for part, owner in zip(parts, owners.tolist(), strict=True)
            if part.geom_type == "Polygon"
        ]
