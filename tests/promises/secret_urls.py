"""URLs with secrets in them, in every scheme and in every place of a URL, and a table of rasters that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from tests.formats.havasu_tables import make_havasu_table, raster_entry
from tests.promises.canaries import CANARIES

if TYPE_CHECKING:
    from pathlib import Path

SIGNED = (
    f"X-Amz-Credential={quote(CANARIES['accessKeyId'], safe='')}"
    f"&X-Amz-Security-Token={quote(CANARIES['securityToken'], safe='')}"
    f"&X-Amz-Signature={quote(CANARIES['signature'], safe='')}"
)
SAS = f"sv=2024-01-01&sr=c&sig={quote(CANARIES['sasToken'], safe='')}"
_PASSWORD = quote_plus(CANARIES["uriPassword"])
_INNER = quote(f"https://me:{_PASSWORD}@h.example/a.tif?{SIGNED}", safe="")

SECRET_URLS = (
    f"https://h.example/a.tif?{SIGNED}",
    f"https://me:{_PASSWORD}@h.example/a.tif?{SIGNED}",
    f"https://me:{CANARIES['uriPassword']}@h.example/a.tif?{SIGNED}",
    f"HTTPS://{_PASSWORD}@h.example/a.tif#access_token={CANARIES['bearerToken']}",
    f"ftp://me:{_PASSWORD}@h.example/a.tif",
    f"s3://{quote(CANARIES['accessKeyId'], safe='')}:{_PASSWORD}@bucket/a.tif?{SIGNED}",
    f"az://c/a.tif?{SAS}",
    f"az://c/../../a.tif?{SAS}",
    f"abfss://c@me.dfs.core.windows.net/a.tif?{SAS}",
    f"file:///data/a.tif?{SAS}",
    f"/data/a.tif?{SAS}",
    f"data/a.tif?{SAS}",
    f"https://h.example/a\0.tif?{SAS}",
    f"/vsicurl/https://h.example/a.tif?{SIGNED}",
    f"/vsicurl/https://me:{_PASSWORD}@h.example/a.tif",
    f"/vsicurl?url={_INNER}",
    f"/vsicurl/{_INNER}",
    f"/vsicurl/{quote(_INNER, safe='')}",
    f"/vsizip/{{/vsicurl/https://h.example/a.zip?{SIGNED}}}/a.tif",
    f"/vsiaz_streaming/c/a.tif?{SAS}",
)


def make_secret_rasters(folder: Path) -> Path:
    """A table with one raster for each URL, whose cells are said to be there."""
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    bands = [Band(PixelType.PT_16BSI, out_db_band_no=0, out_db_url=url) for url in SECRET_URLS]
    rasters = [Raster(3, 2, (band,), None, here) for band in bands]
    return make_havasu_table(folder, [raster_entry("a", rasters, None)], encoding=None, rasters=True)
