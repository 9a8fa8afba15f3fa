"""Rules about Havasu's raster values, over the columns of the raster group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.checks.check import flags
from geolake_nb.checks.finding import Severity
from geolake_nb.checks.rule import HAVASU_RASTER, HAVASU_RASTER_BOUNDS, HAVASU_RASTER_MODEL, Fault, Needs, Rule, Skip
from geolake_nb.errors import CrsError
from geolake_nb.model.crs import Crs
from geolake_nb.model.file_table import has_column
from geolake_nb.model.types import RasterType
from geolake_nb.raster_data.raster import PixelType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from geolake_nb.checks.check import Evidence

__all__ = ["RASTER_RULES"]

_GEO_FIELDS = ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
_NUMBERED = ("band_1", "band_2", "band_3", "band_4")
_SIZES = {member.value: member.size for member in PixelType}


@dataclass(frozen=True, slots=True, eq=False)
class _Rasters:
    """The rasters of one column that are not null."""

    table: pa.Table
    column: pa.StructArray
    name: str

    def numbers(self, field: str) -> NDArray[np.float64]:
        """An integer field as numbers, NaN where it is null."""
        return _numbers(pc.struct_field(self.column, field))

    @property
    def has_bands(self) -> bool:
        return bool(self.column.type.get_field_index(_NUMBERED[0]) >= 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Bands:
    """The bands of all rasters in one long column, each with the position of its raster.

    Bytes and URLs are replaced by their lengths.
    """

    groups: pa.StructArray
    raster: NDArray[np.intp]

    def field(self, name: str) -> pa.Array:
        return pc.struct_field(self.groups, name)


def _columns(evidence: Evidence) -> Iterator[_Rasters]:
    table = evidence.rasters
    if table is None:
        return
    for path, field in evidence.snapshot.schema.geo_columns():
        if isinstance(field.type, RasterType) and has_column(table, path):
            there = table.filter(pc.is_valid(table[path]))
            chunks = there[path].chunks
            if chunks:
                yield _Rasters(there, pa.concat_arrays(chunks), path)


def _rule_over_rasters(
    wrong: Callable[[_Rasters], NDArray[np.bool_]], what: str
) -> Callable[[Evidence], Iterator[Fault | Skip]]:
    def find(evidence: Evidence) -> Iterator[Fault | Skip]:
        for rasters in _columns(evidence):
            mask = wrong(rasters)
            if mask.any():
                yield Fault(what, evidence.scope_of_rows(rasters.table, mask, rasters.name, unit="rasters"))

    return find


def _rule_over_bands(
    wrong: Callable[[_Rasters, _Bands], NDArray[np.bool_]], what: str
) -> Callable[[Evidence], Iterator[Fault | Skip]]:
    """The rule that marks a raster when one of its bands is wrong."""

    def find(evidence: Evidence) -> Iterator[Fault | Skip]:
        for rasters in _columns(evidence):
            if not rasters.has_bands:
                yield Skip("the bands of the rasters were not read")
                return
            bands = _bands(rasters)
            mask = np.zeros(len(rasters.column), np.bool_)
            mask[bands.raster[wrong(rasters, bands)]] = True
            if mask.any():
                yield Fault(what, evidence.scope_of_rows(rasters.table, mask, rasters.name, unit="rasters"))

    return find


def _bands(rasters: _Rasters) -> _Bands:
    column = rasters.column
    parts, owners = [], []
    for name in _NUMBERED:
        band = pc.struct_field(column, name)
        there = flags(pc.is_valid(band))
        parts.append(band.filter(pa.array(there)))
        owners.append(np.flatnonzero(there))
    rest = _rest(column)
    if rest is not None:
        parts.append(pc.list_flatten(rest).cast(parts[0].type))
        owners.append(np.asarray(pc.list_parent_indices(rest).to_numpy(zero_copy_only=False), np.intp))
    return _Bands(pa.concat_arrays(parts), np.concatenate(owners).astype(np.intp))


def _rest(column: pa.StructArray) -> pa.LargeListArray | None:
    return pc.struct_field(column, "bands") if column.type.get_field_index("bands") >= 0 else None


def _no_extent(rasters: _Rasters) -> NDArray[np.bool_]:
    geo = pc.struct_field(rasters.column, "geo_reference")
    sides = {name: _numbers(pc.struct_field(geo, name)) for name in _GEO_FIELDS}
    finite = np.all([np.isfinite(side) for side in sides.values()], axis=0)
    # A raster turned by a right angle has scales of zero; what it cannot have is an area of zero.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        straight, turned = sides["scale_x"] * sides["scale_y"], sides["skew_x"] * sides["skew_y"]
    result: NDArray[np.bool_] = ~finite | (np.isfinite(straight) & (straight == turned))
    return result


def _no_size(rasters: _Rasters) -> NDArray[np.bool_]:
    counts = [rasters.numbers(name) for name in ("width", "height", "num_bands")]
    # NaN means null, which is not a size either.
    wrong: NDArray[np.bool_] = np.any([~(count >= 0) for count in counts], axis=0)
    return wrong


def _no_crs(rasters: _Rasters) -> NDArray[np.bool_]:
    return flags(pc.is_null(pc.struct_field(rasters.column, "crs_wkt")))


def _unresolved_crs(rasters: _Rasters) -> NDArray[np.bool_]:
    texts = pc.struct_field(rasters.column, "crs_wkt")
    wrong = np.zeros(len(texts), np.bool_)
    for code in texts.indices.drop_null().unique():
        try:
            Crs(texts.dictionary[code.as_py()].as_py()).to_pyproj()
        except CrsError:
            wrong |= flags(pc.equal(texts.indices, code))
    return wrong


def _pixel_type(_: _Rasters, bands: _Bands) -> NDArray[np.bool_]:
    return ~np.isin(_numbers(bands.field("pixel_type")), list(_SIZES))


def _data_size(rasters: _Rasters, bands: _Bands) -> NDArray[np.bool_]:
    cells = (rasters.numbers("width") * rasters.numbers("height"))[bands.raster]
    stored = _numbers(bands.field("data"))
    # Havasu, In-db band: the size of `data` is width * height * pixel_size.
    with np.errstate(invalid="ignore"):
        wrong: NDArray[np.bool_] = stored != cells * _pixel_sizes(bands)
    return wrong & ~np.isnan(stored) & ~_pixel_type(rasters, bands)


def _no_data_size(rasters: _Rasters, bands: _Bands) -> NDArray[np.bool_]:
    stored = _numbers(bands.field("no_data"))
    wrong: NDArray[np.bool_] = stored != _pixel_sizes(bands)
    return wrong & ~np.isnan(stored) & ~_pixel_type(rasters, bands)


def _pixel_sizes(bands: _Bands) -> NDArray[np.float64]:
    codes = _numbers(bands.field("pixel_type"))
    sizes = np.full(len(codes), np.nan)
    for code, size in _SIZES.items():
        sizes[codes == code] = size
    return sizes


def _out_db(_: _Rasters, bands: _Bands) -> NDArray[np.bool_]:
    # Havasu, Raster: without data the band is out-db, and then band number and URL must be non-null.
    outside = flags(pc.is_null(bands.field("data")))
    number = _numbers(bands.field("out_db_band_no"))
    wrong: NDArray[np.bool_] = outside & ~((_numbers(bands.field("out_db_url")) > 0) & (number >= 0))
    return wrong


def _mixed_pixel_types(rasters: _Rasters, bands: _Bands) -> NDArray[np.bool_]:
    codes = _numbers(bands.field("pixel_type"))
    low, high = (np.full(len(rasters.column), np.nan) for _ in range(2))
    np.fmin.at(low, bands.raster, codes)
    np.fmax.at(high, bands.raster, codes)
    mixed: NDArray[np.bool_] = (low != high)[bands.raster]
    return mixed & ~np.isnan(codes)


def _band_count(evidence: Evidence) -> Iterator[Fault | Skip]:
    for rasters in _columns(evidence):
        if not rasters.has_bands:
            yield Skip("the bands of the rasters were not read")
            return
        column = rasters.column
        filled = np.stack([flags(pc.is_valid(pc.struct_field(column, name))) for name in _NUMBERED])
        rest = _rest(column)
        more = np.zeros(len(column)) if rest is None else np.nan_to_num(_numbers(pc.list_value_length(rest)))
        # Havasu, Raster: the first four bands fill band_1 to band_4 in order, the others follow in `bands`.
        gap = (~filled[:-1] & filled[1:]).any(axis=0) | ((more > 0) & ~filled.all(axis=0))
        wrong = gap | (filled.sum(axis=0) + more != rasters.numbers("num_bands"))
        if wrong.any():
            what = "bands that do not fill band_1 to band_4 and then bands in order, or are not num_bands in all"
            yield Fault(what, evidence.scope_of_rows(rasters.table, wrong, rasters.name, unit="rasters"))


def _numbers(values: pa.Array) -> NDArray[np.float64]:
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


_HAVASU = frozenset({"havasu"})
_FROM_ITS_SOURCE = "no command changes a raster: recreate it from its source with gl.rasters, and overwrite its row"

RASTER_RULES = (
    Rule(
        "raster.georeference",
        Severity.ERROR,
        "rasters whose georeference is not finite, or spans no area",
        "A raster without a location is found by no query and cannot be drawn.",
        HAVASU_RASTER_MODEL,
        _rule_over_rasters(
            _no_extent, "rasters whose georeference is not finite or spans no area: they have no location"
        ),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.size",
        Severity.ERROR,
        "rasters whose width, height or number of bands is null or negative",
        "The length of a row of pixels is unknown, so neither pixels nor outline can be read.",
        HAVASU_RASTER_MODEL,
        _rule_over_rasters(_no_size, "rasters whose width, height or num_bands is null or negative"),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.crs_missing",
        Severity.WARNING,
        "rasters without a CRS, which can have no bounds in WGS84",
        "Its corners have no longitude and latitude, so its file has no bounds and every query reads it.",
        HAVASU_RASTER_BOUNDS,
        _rule_over_rasters(
            _no_crs, "rasters without crs_wkt: they cannot be placed in WGS84, so their files get no bounds"
        ),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.crs_unresolved",
        Severity.WARNING,
        "rasters with a CRS that cannot be resolved, which can have no bounds in WGS84",
        "Its corners have no longitude and latitude, so its file has no bounds and every query reads it.",
        HAVASU_RASTER_BOUNDS,
        _rule_over_rasters(_unresolved_crs, "rasters whose crs_wkt cannot be resolved: their files get no bounds"),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.pixel_type",
        Severity.ERROR,
        "bands with a pixel type that Havasu does not have, such as 9",
        "A reader does not know how many bytes a pixel takes, and cannot decode the band.",
        HAVASU_RASTER,
        _rule_over_bands(_pixel_type, "rasters with a pixel type other than 3 to 8, 10 and 11"),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.data_size",
        Severity.ERROR,
        "in-db bands whose data does not have width x height pixels",
        "A reader runs past the end of the band, or shows pixels at the wrong position.",
        HAVASU_RASTER,
        _rule_over_bands(_data_size, "rasters with a band whose data is not width x height x pixel size bytes"),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.no_data_size",
        Severity.ERROR,
        "bands whose no-data value does not have the size of a pixel",
        "No-data pixels are read as values, and distort sums and averages.",
        HAVASU_RASTER,
        _rule_over_bands(_no_data_size, "rasters with a band whose no_data is not one value of its pixel type"),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.band_count",
        Severity.ERROR,
        "bands that leave gaps in band_1 to band_4 and bands, or are not num_bands in all",
        "A reader that asks for a band by its number gets another one, or none.",
        HAVASU_RASTER,
        _band_count,
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.out_db",
        Severity.ERROR,
        "out-db bands without a URL or a band number from 0",
        "The pixels are missing: neither in the table nor in a file that it references.",
        HAVASU_RASTER,
        _rule_over_bands(_out_db, "rasters with a band that has neither data nor both out_db_url and out_db_band_no"),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
    Rule(
        "raster.mixed_pixel_types",
        Severity.WARNING,
        "rasters whose bands have different pixel types",
        "Most tools support one pixel type for all bands: on export, values are widened or truncated.",
        HAVASU_RASTER_MODEL,
        _rule_over_bands(_mixed_pixel_types, "rasters whose bands have different pixel types: all should have one"),
        formats=_HAVASU,
        needs=Needs.RASTERS,
        no_command=_FROM_ITS_SOURCE,
    ),
)
