"""Raster values as Havasu defines them: pixel types, bands, georeference, and what is valid."""

from __future__ import annotations

import contextlib
import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import RasterError
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Band", "GeoReference", "PixelType", "Raster", "RasterMetadata"]

_INT32_MAX = 2**31 - 1


class PixelType(enum.Enum):
    """The type of a pixel; the value is the code in the data file."""

    PT_8BSI = 3
    """Signed 8-bit integer."""
    PT_8BUI = 4
    """Unsigned 8-bit integer."""
    PT_16BSI = 5
    """Signed 16-bit integer."""
    PT_16BUI = 6
    """Unsigned 16-bit integer."""
    PT_32BSI = 7
    """Signed 32-bit integer."""
    PT_32BUI = 8
    """Unsigned 32-bit integer."""
    # Havasu, Raster: the codes are those of PostGIS, where 9 has never been given out.
    PT_32BF = 10
    """32-bit floating point."""
    PT_64BF = 11
    """64-bit floating point."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of one pixel as stored in the file.

        >>> PixelType.PT_16BSI.dtype.str
        '<i2'
        """
        # Havasu, Raster: pixel data are the little-endian bit pattern of the values.
        return np.dtype(_DTYPES[self])

    @property
    def size(self) -> int:
        """The number of bytes of one pixel.

        >>> PixelType.PT_64BF.size
        8
        """
        return self.dtype.itemsize

    @classmethod
    def parse(cls, code: int) -> PixelType:
        """The pixel type with that code.

        >>> PixelType.parse(10)
        <PixelType.PT_32BF: 10>
        >>> PixelType.parse(9)
        Traceback (most recent call last):
        geolake_nb.errors.RasterError: unknown pixel type 9; use one of: 3, 4, 5, 6, 7, 8, 10, 11
        """
        try:
            return cls(code)
        except ValueError:
            known = ", ".join(str(member.value) for member in cls)
            raise RasterError(f"unknown pixel type {code}", remedy=f"use one of: {known}") from None

    @classmethod
    def from_dtype(cls, dtype: npt.DTypeLike) -> PixelType:
        """The pixel type that holds values of a numpy type without loss, in either byte order.

        >>> PixelType.from_dtype("uint8")
        <PixelType.PT_8BUI: 4>
        """
        with contextlib.suppress(TypeError):  # GDAL has names of types that numpy does not know
            wanted = np.dtype(dtype).newbyteorder("<")
            for member in cls:
                if member.dtype == wanted:
                    return member
        known = ", ".join(sorted(member.dtype.name for member in cls))
        raise RasterError(f"no pixel type holds {dtype}", remedy=f"use one of: {known}")


_DTYPES = {
    PixelType.PT_8BSI: "|i1",
    PixelType.PT_8BUI: "|u1",
    PixelType.PT_16BSI: "<i2",
    PixelType.PT_16BUI: "<u2",
    PixelType.PT_32BSI: "<i4",
    PixelType.PT_32BUI: "<u4",
    PixelType.PT_32BF: "<f4",
    PixelType.PT_64BF: "<f8",
}


@dataclass(frozen=True, slots=True)
class Band:
    """One grid of pixels: its bytes (in-db), or the band of an external file that has them (out-db).

    `no_data` is the pixel value that means "no data" in the bytes of the pixel type, `None` when every
    value counts. `out_db_band_no` starts at 0, where GDAL starts at 1.

    >>> Band(PixelType.PT_8BUI, data=bytes([1, 2])).in_db
    True
    >>> Band(PixelType.PT_8BUI, out_db_band_no=0, out_db_url="s3://bucket/a.tif").in_db
    False
    >>> Band(PixelType.PT_8BUI, out_db_band_no=0)
    Traceback (most recent call last):
    geolake_nb.errors.RasterError: a band has no data, no out_db_url; give data or both others
    """

    pixel_type: PixelType
    no_data: bytes | None = None
    data: bytes | None = field(default=None, repr=False)
    out_db_band_no: int | None = None
    out_db_url: str | None = None

    def __repr__(self) -> str:
        """The band without its pixels, and without secrets in its URL."""
        url = None if self.out_db_url is None else url_without_secrets(self.out_db_url)
        shown = f"pixel_type={self.pixel_type!r}, no_data={self.no_data!r}, out_db_band_no={self.out_db_band_no!r}"
        return f"Band({shown}, out_db_url={url!r})"

    def __post_init__(self) -> None:
        # Havasu, Raster: with data the band is in-db; else out_db_band_no and out_db_url must be non-null.
        if self.data is None:
            missing = [name for name in ("out_db_band_no", "out_db_url") if getattr(self, name) is None]
            if missing:
                listed = ", ".join(f"no {name}" for name in ("data", *missing))
                raise RasterError(f"a band has {listed}", remedy="give data or both others")
        if self.out_db_band_no is not None and not 0 <= self.out_db_band_no <= _INT32_MAX:
            raise RasterError(f"a band has out_db_band_no {self.out_db_band_no}", remedy="count from 0")
        pixel = self.pixel_type
        if self.no_data is not None and len(self.no_data) != pixel.size:
            raise RasterError(
                f"no_data has {len(self.no_data)} bytes where {pixel.name} has {pixel.size}",
                remedy="store one value of the pixel type",
            )

    @property
    def in_db(self) -> bool:
        """Whether the pixels are in the table itself."""
        return self.data is not None

    @property
    def no_data_value(self) -> int | float | None:
        """The no-data value as a number, `None` when there is none.

        >>> Band(PixelType.PT_16BSI, no_data=bytes([1, 0x80]), data=b"").no_data_value
        -32767
        >>> Band(PixelType.PT_16BSI, data=b"").no_data_value is None
        True
        """
        if self.no_data is None:
            return None
        value: int | float = np.frombuffer(self.no_data, self.pixel_type.dtype)[0].item()
        return value


@dataclass(frozen=True, slots=True)
class GeoReference:
    """The centres of the pixels: x = upperleft_x + column * scale_x + row * skew_x, y alike.

    The anchor is the *centre* of the upper-left pixel; GDAL and rasterio anchor at its outer corner.

    >>> north_up = GeoReference.from_affine((10.0, 0.0, 500000.0, 0.0, -10.0, 4500000.0))
    >>> north_up.upperleft_x, north_up.upperleft_y
    (500005.0, 4499995.0)
    >>> north_up.to_affine()
    (10.0, 0.0, 500000.0, 0.0, -10.0, 4500000.0)
    """

    scale_x: float
    scale_y: float
    skew_x: float
    skew_y: float
    upperleft_x: float
    upperleft_y: float

    @classmethod
    def from_affine(cls, affine: tuple[float, float, float, float, float, float]) -> GeoReference:
        """From the first six numbers of a rasterio transform: a, b, c, d, e, f.

        >>> GeoReference.from_affine((0.0, 2.0, 0.0, 4.0, 0.0, 0.0)).upperleft_y
        2.0
        """
        a, b, c, d, e, f = (float(value) for value in affine)
        # Havasu, Raster data model: grid coordinates are anchored at the centre of the cells, so the
        # anchor moves by half a cell along both axes of the grid, skew included.
        return cls(a, e, b, d, _sum(c, a / 2, b / 2), _sum(f, d / 2, e / 2))

    def to_affine(self) -> tuple[float, float, float, float, float, float]:
        """The first six numbers of a rasterio transform; c and f come back to within a rounding.

        >>> GeoReference(1.0, -1.0, 0.0, 0.0, 0.5, -0.5).to_affine()
        (1.0, 0.0, 0.0, 0.0, -1.0, 0.0)
        """
        a, b, d, e = self.scale_x, self.skew_x, self.skew_y, self.scale_y
        corner_x = _sum(self.upperleft_x, -a / 2, -b / 2)
        corner_y = _sum(self.upperleft_y, -d / 2, -e / 2)
        return (a, b, corner_x, d, e, corner_y)

    @classmethod
    def from_gdal(cls, geotransform: tuple[float, float, float, float, float, float]) -> GeoReference:
        """From a GDAL geotransform, which has the numbers in the order c, a, b, f, d, e.

        >>> GeoReference.from_gdal((0.0, 1.0, 0.0, 0.0, 0.0, -1.0))
        GeoReference(scale_x=1.0, scale_y=-1.0, skew_x=0.0, skew_y=0.0, upperleft_x=0.5, upperleft_y=-0.5)
        """
        c, a, b, f, d, e = geotransform
        return cls.from_affine((a, b, c, d, e, f))

    def to_gdal(self) -> tuple[float, float, float, float, float, float]:
        """As a GDAL geotransform.

        >>> GeoReference(1.0, -1.0, 0.0, 0.0, 0.5, -0.5).to_gdal()
        (0.0, 1.0, 0.0, 0.0, 0.0, -1.0)
        """
        a, b, c, d, e, f = self.to_affine()
        return (c, a, b, f, d, e)

    @property
    def is_finite(self) -> bool:
        """Whether all six numbers are; a table can have NaN here, and then the raster cannot be located."""
        sides = (self.scale_x, self.scale_y, self.skew_x, self.skew_y, self.upperleft_x, self.upperleft_y)
        return all(math.isfinite(side) for side in sides)


@dataclass(frozen=True, slots=True)
class RasterMetadata:
    """All of a raster but its bands: what a footprint needs, read without touching a pixel.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> RasterMetadata(4, 3, 1, None, here).crs_wkt is None
    True
    """

    width: int
    height: int
    num_bands: int
    crs_wkt: str | None
    geo_reference: GeoReference

    def __post_init__(self) -> None:
        for name in ("width", "height", "num_bands"):
            value = getattr(self, name)
            if not 0 <= value <= _INT32_MAX:
                raise RasterError(f"a raster has {name} {value}", remedy=f"use 0 to {_INT32_MAX}")


@dataclass(frozen=True, slots=True)
class Raster:
    """Bands over one grid of `height` rows and `width` columns, and where that grid lies.

    Bands may mix pixel types, and in-db with out-db; pixels of an in-db band are in row-major order.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=bytes([7, 8])),), None, here)
    >>> raster.array(0).tolist()
    [[7, 8]]
    >>> Raster(2, 1, (), None, here).num_bands
    0
    >>> Raster(2, 2, raster.bands, None, here)
    Traceback (most recent call last):
    geolake_nb.errors.RasterError: band 0: data has 2 bytes, 2 x 2 pixels of PT_8BUI need 4; store all pixels
    """

    width: int
    height: int
    bands: tuple[Band, ...]
    crs_wkt: str | None
    geo_reference: GeoReference

    def __post_init__(self) -> None:
        _ = self.metadata  # its checks of width and height are ours
        for index, band in enumerate(self.bands):
            # Havasu, In-db band: the size of data is width * height * pixel_size.
            needed = self.width * self.height * band.pixel_type.size
            if band.data is not None and len(band.data) != needed:
                grid = f"{self.width} x {self.height} pixels of {band.pixel_type.name}"
                raise RasterError(
                    f"data has {len(band.data)} bytes, {grid} need {needed}",
                    where=f"band {index}",
                    remedy="store all pixels",
                )

    @property
    def num_bands(self) -> int:
        """How many bands there are."""
        return len(self.bands)

    @property
    def metadata(self) -> RasterMetadata:
        """The raster without its bands."""
        return RasterMetadata(self.width, self.height, len(self.bands), self.crs_wkt, self.geo_reference)

    def array(self, band: int) -> npt.NDArray[Any]:
        """The pixels of an in-db band, as `height` rows of `width` columns that share the band's memory."""
        cells = self.bands[band]
        if cells.data is None:
            raise RasterError(
                "its pixels are in an external file",
                where=f"band {band}",
                remedy=f"open band {cells.out_db_band_no} (counted from 0) of out_db_url",
            )
        # Havasu defines "width rows and height columns"; width is columns, as everywhere else.
        return np.frombuffer(cells.data, cells.pixel_type.dtype).reshape(self.height, self.width)


def _sum(*terms: float) -> float:
    """The correctly rounded sum; plain where a term is not finite, which `math.fsum` refuses."""
    return math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
