"""The files of out-db bands: opened below the allowed roots, and nowhere else."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

import geolake_nb as gl
from geolake_nb.errors import MissingFileError, RasterError, RefusedError, StorageError
from geolake_nb.raster_data.geotiff import in_db_from_dataset, out_db_from_dataset
from geolake_nb.raster_data.out_db import OutDbRoots, in_db, out_db_picture
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from tests.formats.havasu_tables import make_havasu_table, raster_entry
from tests.storage.watched_storage import serving, watch

__all__ = ["watch"]

rasterio = pytest.importorskip("rasterio")

AFFINE = (0.5, 0.0, 10.0, 0.0, -0.5, 50.0)


def write_tif(path, *, width=8, height=6, bands=2, dtype="int16", affine=AFFINE, crs="EPSG:4326", **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = np.arange(bands * width * height).reshape(bands, height, width).astype(dtype)
    shape = {"width": width, "height": height, "count": bands, "dtype": dtype, **more}
    with rasterio.open(path, "w", driver="GTiff", crs=crs, transform=rasterio.Affine(*affine), **shape) as dataset:
        dataset.write(cells)
    return path


def outside(path, *, url=None):
    with rasterio.open(path) as dataset:
        return out_db_from_dataset(dataset, url=url or path.as_uri())


def pointing(url):
    here = GeoReference.from_affine(AFFINE)
    return Raster(8, 6, (Band(PixelType.PT_16BSI, out_db_band_no=0, out_db_url=url),), None, here)


def table_of(folder, rasters):
    make_havasu_table(folder, [raster_entry("a", rasters, None)], encoding=None, rasters=True)
    return gl.open(str(folder))


@pytest.fixture
def lake(tmp_path):
    """An allowed folder with a file, beside it a secret one with a canary, and a file that watches its reads."""
    write_tif(tmp_path / "cogs" / "a.tif")
    write_tif(tmp_path / "secret" / "canary.tif")
    return tmp_path


def never(lake, web):
    """URLs that must not be opened, whatever they lead to."""
    secret, cogs = lake / "secret" / "canary.tif", lake / "cogs"
    (cogs / "link.tif").symlink_to(secret)
    (cogs / "folder").symlink_to(secret.parent)
    vrt = (
        f'<VRTDataset rasterXSize="8" rasterYSize="6"><VRTRasterBand dataType="Int16" band="1"><SimpleSource>'
        f"<SourceFilename>{secret}</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    (cogs / "a.vrt").write_text(vrt)
    (cogs / "disguised.tif").write_text(vrt)
    remote = vrt.replace(str(secret), f"/vsicurl/{web.url}/canary.tif")
    (cogs / "remote.tif").write_text(remote)
    return [
        "file:///etc/passwd",
        "/etc/passwd",
        secret.as_uri(),
        str(secret),
        f"{cogs.as_uri()}/../secret/canary.tif",
        f"{cogs.as_uri()}/%2e%2e/secret/canary.tif",
        f"{cogs.as_uri()}/..%2fsecret%2fcanary.tif",
        f"{cogs}/../secret/canary.tif",
        "../secret/canary.tif",
        "secret/canary.tif",
        (cogs / "link.tif").as_uri(),
        (cogs / "folder" / "canary.tif").as_uri(),
        (cogs / "a.vrt").as_uri(),
        (cogs / "disguised.tif").as_uri(),
        (cogs / "remote.tif").as_uri(),
        vrt,
        remote,
        f"vrt://{secret}",
        f"vrt:///vsicurl/{web.url}/canary.tif",
        f"/vsicurl/{web.url}/canary.tif",
        f"/vsisubfile/0_999,{secret}",
        f"/vsizip/{secret}",
        f"GTIFF_DIR:1:{secret}",
        f"GTIFF_RAW:{secret}",
        f"{web.url}/canary.tif",
        f"{web.url}/cogs/a.tif",
        f"{cogs}@{web.url}/canary.tif",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/a.tif",
        "ftp://127.0.0.1/a.tif",
        f"file://127.0.0.1{secret}",
        f"{cogs.as_uri()}\0.tif",
        cogs.as_uri(),
        "",
    ]


def test_no_url_outside_the_roots_is_ever_opened(lake, watch):
    canary = watch(lake / "secret")
    assert (lake / "secret" / "canary.tif").read_bytes()
    assert canary.opened() == {"canary.tif"}  # it would sing
    with serving(lake) as web:
        urls = never(lake, web)
        table = table_of(lake / "table", [pointing(url) for url in urls])
        result = gl.rasters.check(table, roots=[lake / "cogs"])
        assert result["out_db_url"].to_pylist() == urls
        assert set(result["state"].to_pylist()) == {"refused", "unreadable"}
        unreadable = {url for url, state in zip(urls, result["state"].to_pylist(), strict=True) if state != "refused"}
        assert unreadable == {(lake / "cogs" / name).as_uri() for name in ("a.vrt", "disguised.tif", "remote.tif")}
        for url in urls:
            raster = pointing(url)
            for read in (gl.rasters.thumbnail, gl.rasters.statistics):
                with pytest.raises((RefusedError, RasterError)):
                    read(raster, roots=[lake / "cogs"])
            with pytest.raises((RefusedError, RasterError)):
                gl.rasters.to_geotiff(raster, lake / "out.tif", roots=[lake / "cogs"])
        assert web.requests == []
    assert canary.opened() == set()
    assert not (lake / "out.tif").exists()


def test_without_roots_nothing_is_opened(lake, watch):
    path = lake / "cogs" / "a.tif"
    table = table_of(lake / "table", [pointing(path.as_uri())])
    canary = watch(path.parent)
    assert gl.rasters.check(table)["state"].to_pylist() == ["refused"]
    with pytest.raises(RefusedError, match="is not below an allowed root; add its folder as a root"):
        gl.rasters.thumbnail(pointing(path.as_uri()))
    assert canary.opened() == set()


def test_a_crs_text_that_names_a_place_opens_nothing(lake, watch):
    path = lake / "cogs" / "a.tif"
    canary = watch(lake / "secret")
    with serving() as web:
        for text in (f"{web.url}/crs.wkt", str(lake / "secret" / "canary.tif"), f"+init={lake}/secret/canary.tif:1"):
            raster = replace(outside(path), crs_wkt=text)
            with pytest.raises(RasterError, match="the CRS of the file is not that of the raster"):
                in_db(raster, OutDbRoots.of(lake / "cogs"))
            with pytest.raises(RasterError, match="crs_wkt cannot be read"):
                gl.rasters.to_geotiff(replace(in_db(outside(path), OutDbRoots.of(lake)), crs_wkt=text), lake / "o.tif")
        assert web.requests == []
    assert canary.opened() == set()


def test_files_beside_the_raster_are_not_read(lake, watch):
    path = lake / "cogs" / "a.tif"
    for name in ("a.tfw", "a.tif.aux.xml", "a.tif.ovr", "a.tif.msk", "a.prj"):
        (path.parent / name).write_text("1\n0\n0\n-1\n0\n0\n")
    canary = watch(path.parent)
    with OutDbRoots.of(path.parent).open(path.as_uri()) as dataset:
        assert tuple(dataset.transform)[:6] == AFFINE
    assert canary.opened() == {"a.tif"}


def test_a_web_server_is_read_below_an_allowed_root_and_redirects_are_refused(lake):
    with serving(lake) as web, serving(sends_to=web.url) as sender:
        url = f"{web.url}/cogs/a.tif"
        raster = outside(lake / "cogs" / "a.tif", url=url)
        loaded = in_db(raster, OutDbRoots.of(f"{web.url}/cogs"))
        assert loaded.array(1).tolist() == np.arange(48, 96).reshape(6, 8).tolist()
        assert set(web.requests) == {"/cogs/a.tif"}
        web.requests.clear()
        with pytest.raises(MissingFileError, match="no such file"):
            in_db(outside(lake / "cogs" / "a.tif", url=f"{web.url}/cogs/b.tif"), OutDbRoots.of(web.url))
        web.requests.clear()
        with pytest.raises(StorageError, match="redirect refused"):
            in_db(outside(lake / "cogs" / "a.tif", url=f"{sender.url}/cogs/a.tif"), OutDbRoots.of(sender.url))
        for url in (f"{web.url}/cogs/../secret/canary.tif", f"{web.url}/cogs/%2e%2e/secret/canary.tif"):
            with pytest.raises(RefusedError):
                in_db(outside(lake / "cogs" / "a.tif", url=url), OutDbRoots.of(f"{web.url}/cogs"))
        assert web.requests == []


def test_a_bucket_is_a_root_too_and_goes_to_other_processes(lake, s3):
    url = s3.upload(lake / "cogs", "lake", "outdb")
    roots = pickle.loads(pickle.dumps(OutDbRoots.of(url, s3.options)))
    raster = outside(lake / "cogs" / "a.tif", url=f"{url}/a.tif")
    assert in_db(raster, roots).array(0).tolist() == np.arange(48).reshape(6, 8).tolist()
    assert "secret" not in repr(OutDbRoots.of("https://me:secret@host.org/cogs?sig=secret"))


def test_names_with_escapes_are_found(tmp_path):
    for name in ("a b.tif", "50%.tif", "ä#?.tif", "%20.tif"):
        path = write_tif(tmp_path / name)
        assert in_db(outside(path), OutDbRoots.of(tmp_path)).array(0)[0, 1] == 1


def test_a_pipe_is_not_a_file(tmp_path):
    os.mkfifo(tmp_path / "a.tif")
    with pytest.raises(MissingFileError):
        in_db(pointing((tmp_path / "a.tif").as_uri()), OutDbRoots.of(tmp_path))


# What the check says


def test_the_check_says_of_each_band_whether_its_file_holds_it(tmp_path):
    """Havasu, Raster data model: band, pixel type, CRS, scale and skew; the file may be larger than the raster."""
    cogs = tmp_path / "cogs"
    good = outside(write_tif(cogs / "good.tif"))
    inner = GeoReference.from_affine((0.5, 0.0, 11.0, 0.0, -0.5, 49.0))  # two columns and two rows further in

    def changed(**options):
        return replace(good, **options)

    def file(name, **options):
        path = write_tif(cogs / name, **options)
        bands = tuple(replace(band, out_db_url=path.as_uri()) for band in good.bands)
        return replace(good, bands=bands)

    first, second = good.bands
    cells = bytes(8 * 6 * 2)
    cases = [
        (good, [None, None]),
        (changed(width=6, height=4, geo_reference=inner), [None, None]),
        (changed(width=7, height=4, geo_reference=inner), ["extends beyond the file"] * 2),
        (
            changed(geo_reference=replace(inner, upperleft_x=11.4), width=2, height=2),
            ["are not aligned with those"] * 2,
        ),
        (changed(bands=(replace(first, out_db_band_no=2),)), [r"has no band 2 (counted from 0): it has 2"]),
        (
            changed(bands=(replace(first, pixel_type=PixelType.PT_16BUI), second)),
            ["PT_16BUI, and the band of the file", None],
        ),
        (file("utm.tif", crs="EPSG:32633"), ["the CRS of the file is not"] * 2),
        (file("none.tif", crs=None), ["the CRS of the file is not"] * 2),
        (file("coarse.tif", affine=(1.0, 0.0, 10.0, 0.0, -1.0, 50.0)), ["scale or skew of the file is not"] * 2),
        (file("skewed.tif", affine=(0.5, 0.1, 10.0, 0.0, -0.5, 50.0)), ["scale or skew of the file is not"] * 2),
        (changed(bands=(replace(first, out_db_url=(cogs / "gone.tif").as_uri()),)), ["there is no such file"]),
        (changed(bands=(replace(first, data=cells), second)), [None]),  # in-db, though it has a URL
        (changed(bands=(Band(PixelType.PT_16BSI, data=cells),)), []),
    ]
    table = table_of(tmp_path / "table", [None, *(raster for raster, _ in cases)])
    result = gl.rasters.check(table, roots=cogs)
    for number, (_, expected) in enumerate(cases):
        rows = [row for row in result.to_pylist() if row["raster"] == number]
        assert len(rows) == len(expected), number
        for row, part in zip(rows, expected, strict=True):
            assert (row["problem"] is None) == (part is None) == (row["state"] == "ok"), row
            assert part is None or part in row["problem"], row


def test_a_crs_is_the_same_however_it_is_written(tmp_path):
    from pyproj import CRS

    raster = replace(outside(write_tif(tmp_path / "a.tif")), crs_wkt=CRS("EPSG:4326").to_wkt("WKT2_2019"))
    assert in_db(raster, OutDbRoots.of(tmp_path)).array(0)[0, 0] == 0


def test_rasters_with_bands_here_and_there_are_read_whole(tmp_path):
    path = write_tif(tmp_path / "a.tif", bands=7)
    with rasterio.open(path) as dataset:
        inside, out = in_db_from_dataset(dataset), outside(path)
        mixed = replace(out, bands=tuple((inside if index % 2 else out).bands[index] for index in range(7)))
    assert in_db(mixed, OutDbRoots.of(tmp_path)) == inside
    pictures = {out_db_picture(raster, OutDbRoots.of(tmp_path), size=8) for raster in (mixed, inside, out)}
    assert len(pictures) == 1


def test_a_header_is_read_and_no_cell(tmp_path, monkeypatch):
    import pyarrow as pa

    from geolake_nb.raster_data import geotiff as raster_files

    path = write_tif(tmp_path / "a.tif", width=2000, height=1000, bands=1, dtype="float64")
    seen = []

    class Counting(pa.OSFile):
        def read(self, nbytes=None):
            data = super().read(nbytes)
            seen.append(len(data))
            return data

    monkeypatch.setattr(raster_files, "open_ranges", lambda storage, key: Counting(str(path)))
    table = table_of(tmp_path / "table", [outside(path)])
    assert gl.rasters.check(table, roots=tmp_path)["state"].to_pylist() == ["ok"]
    assert 0 < sum(seen) < 20_000
    assert path.stat().st_size > 16_000_000
