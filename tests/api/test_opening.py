from __future__ import annotations

import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import (
    CorruptTableError,
    GeolakeError,
    MissingFileError,
    NotATableError,
    PredicateError,
    StorageError,
    VersionError,
)
from geolake_nb.storage.storage import Storage
from tests import small_tables
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.small_tables import PLACES

MAKERS = {"parquet": small_tables.make_parquet, "delta": small_tables.make_delta, "havasu": small_tables.make_havasu}


@pytest.fixture(params=MAKERS)
def table(request, tmp_path):
    return gl.open(MAKERS[request.param](tmp_path / "t"))


def test_every_format_gives_the_same_files_and_boxes(table):
    files = table.files.to_pandas().sort_values("geom.xmin")
    assert files["rows"].tolist() == [4, 4, 4]
    assert files["geom.xmin"].tolist() == pytest.approx([-70, 10, 175], abs=1e-9)
    assert files["geom.ymax"].tolist() == pytest.approx([-27, 53, -15], abs=1e-9)
    assert pa.table(table.files).num_rows == 3
    assert table.files.box_array("geom").type.extension_name == "geoarrow.box"


def test_a_window_reads_the_one_file_that_it_meets(table):
    explanation = table.explain(gl.Box(11, 51, 12, 52))
    assert explanation.read.files == 1
    assert explanation.total.files == 3
    with_groups = table.explain("ST_Intersects(geom, ST_MakeEnvelope(11, 51, 12, 52))", row_groups=True)
    assert with_groups.read.files == 1


def test_a_good_table_has_no_errors(table):
    findings = table.check(deep=True)
    assert [finding.rule for finding in findings if finding.severity.name == "ERROR"] == []


@pytest.mark.parametrize("make", [small_tables.make_delta, small_tables.make_havasu, small_tables.make_iceberg])
@pytest.mark.parametrize("deep", [False, True, 1])
def test_files_that_are_not_there_are_findings_and_the_others_are_checked(tmp_path, make, deep):
    table = gl.open(make(tmp_path / "t"))
    gone = table.files.table["path"].to_pylist()[1]
    (path,) = tmp_path.rglob(gone.rpartition("/")[2])
    path.unlink()
    findings = table.check(deep=deep)
    (finding,) = findings.of("files.missing")
    assert (finding.scope.paths, finding.scope.count) == ((gone,), 1)
    assert findings.exit_code() == 2
    assert {error.rule for error in findings if error.severity.name == "ERROR"} == {"files.missing"}
    assert not [finding for finding in findings.skipped_checks if "not read" in finding.why]
    assert not table.check(footers=False).of("files.missing")
    for other in tmp_path.rglob("*.parquet"):
        other.unlink()
    assert table.check(deep=deep).of("files.missing")[0].scope.count == 3


def test_row_groups_name_files_as_the_file_table_does(table):
    groups = table.row_groups()
    assert set(groups["path"].to_pylist()) == set(table.files.table["path"].to_pylist())
    assert pc.sum(groups["rows"]).as_py() == 12


def test_a_delta_table_without_bounds_reads_everything_and_says_so(tmp_path):
    table = gl.open(small_tables.make_delta(tmp_path / "t", bounds=False))
    explanation = table.explain(gl.Box(11, 51, 12, 52))
    assert explanation.read.files == 3
    assert "bounds.missing" in {finding.rule for finding in table.check()}


def test_versions_histories_and_differences(tmp_path):
    table = gl.open(small_tables.make_delta(tmp_path / "t"))
    assert [entry.version for entry in table.history()] == [1, 0]
    assert len(table.at(0).files) == 1
    assert table.diff(0).added.num_rows == 2
    assert gl.open(tmp_path / "t", version=0).version == 0
    with pytest.raises(GeolakeError, match="snapshot_id does not apply to a delta table"):
        gl.open(tmp_path / "t", snapshot_id=3)


def test_branches_and_tags_of_an_iceberg_table(tmp_path):
    entries = [geometry_entry(f"f{number}", small_tables.shapes(position)) for number, position in enumerate(PLACES)]
    refs = {"audit": {"snapshot-id": 1001, "type": "tag"}, "main": {"snapshot-id": 1001, "type": "branch"}}
    make_havasu_table(tmp_path / "t", entries, refs=refs)
    for choice in ({"branch": "main"}, {"tag": "audit"}, {"snapshot_id": 1001}):
        assert len(gl.open(tmp_path / "t", **choice).files) == 3
    with pytest.raises(VersionError, match="nowhere"):
        gl.open(tmp_path / "t", branch="nowhere")


def test_a_parquet_file_a_glob_and_a_deltalake_object(tmp_path):
    folder = small_tables.make_parquet(tmp_path / "p")
    assert len(gl.open(folder / "part-1.parquet").files) == 1
    assert len(gl.open(f"{folder}/part-[01].parquet").files) == 2
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "d", pa.table({"id": [1, 2]}))
    assert gl.open(deltalake.DeltaTable(tmp_path / "d")).files.table["rows"].to_pylist() == [2]


def test_rasters_show_their_outlines_and_read_no_pixel(tmp_path):
    rasters = gl.open(small_tables.make_rasters(tmp_path / "r")).rasters()
    outlines = shapely.from_wkb(rasters["footprint"].to_pylist())
    for (x, y), outline in zip(small_tables.PLACES, outlines, strict=True):  # four half-degree pixels each way
        assert outline.bounds == pytest.approx((x, y - 2, x + 2, y), abs=1e-9)


def test_a_table_without_rasters_says_so(table):
    with pytest.raises(GeolakeError, match="no raster column"):
        table.rasters()


def test_a_table_on_s3(s3, tmp_path):
    folder = small_tables.make_delta(tmp_path / "t")
    s3.upload(folder, "lake", "tables/t")
    table = gl.open("s3://lake/tables/t", storage_options=s3.options)
    assert table.explain(gl.Box(11, 51, 12, 52)).read.files == 1
    secret = s3.options["aws_secret_access_key"]
    assert secret not in f"{table!r} {table} {table.snapshot!r}"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda folder: folder / "nothing", MissingFileError),
        (lambda folder: folder, NotATableError),
        (lambda folder: 7, GeolakeError),
    ],
)
def test_an_invalid_table_name_is_refused_in_one_sentence(tmp_path, make, error):
    with pytest.raises(error) as caught:
        gl.open(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_broken_log_is_named(tmp_path):
    folder = small_tables.make_delta(tmp_path / "t")
    (folder / "_delta_log" / f"{0:020}.json").write_text('{"add": {"path"')
    with pytest.raises(CorruptTableError):
        gl.open(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_without_permission_is_an_error_of_storage(tmp_path):
    folder = small_tables.make_parquet(tmp_path / "p")
    os.chmod(folder, 0)
    storage = Storage.at(str(folder))
    os.seteuid(65534)
    try:
        with pytest.raises(StorageError):
            storage.list()
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("make", [small_tables.make_delta, small_tables.make_havasu])
@pytest.mark.parametrize("number", ["0", "x", 1.5, True])
def test_a_version_is_a_whole_number(tmp_path, make, number):
    path = make(tmp_path / "t")
    table = gl.open(path)
    argument = "version" if make is small_tables.make_delta else "snapshot_id"
    for ask in (
        lambda: gl.open(path, **{argument: number}),
        lambda: table.at(number),
        lambda: table.diff(number),
        lambda: table.diff(table.version, number),
        lambda: table.plan_undo(number),
    ):
        with pytest.raises(
            GeolakeError, match=r"expected a whole number for .*; give one that the history of the table lists"
        ):
            ask()
    assert table.at(np.int64(table.version)).version == table.version


@pytest.mark.parametrize("time", [3, dt.date(2026, 11, 1), "soon", b"2026-11-01"])
def test_a_time_is_a_text_or_a_datetime(tmp_path, time):
    with pytest.raises(GeolakeError, match=r"expected a timestamp, got .*; write 2026-11-01T12:00:00Z"):
        gl.open(small_tables.make_delta(tmp_path / "t"), timestamp=time)


@pytest.mark.parametrize("files", [[99], [-1], [0, 3]])
def test_row_groups_of_files_that_are_not_there(table, files):
    with pytest.raises(GeolakeError, match=f"no file {files[-1]}; files= takes rows of t.files, from 0 to 2"):
        table.row_groups(files=files)
    assert table.row_groups(files=np.array([0, 2])).num_rows == 2


def test_row_groups_of_an_invalid_row_of_the_file_table_are_refused(table):
    with pytest.raises(
        GeolakeError, match=r"expected a whole number for file, got 'part-0\.parquet'; files= takes rows of t\.files"
    ):
        table.row_groups(files=["part-0.parquet"])


def test_a_truncated_parquet_file_is_reported_as_in_a_folder(tmp_path):
    file = small_tables.make_parquet(tmp_path / "t") / "part-0.parquet"
    whole = file.read_bytes()
    for data, message in (
        (whole[:-30], "not Parquet, or it is truncated"),
        (b"", "the file is empty, not a Parquet file"),
    ):
        file.write_bytes(data)
        with pytest.raises(CorruptTableError, match=rf"part-0\.parquet: .*{message}"):
            gl.open(file)
    other = tmp_path / "notes.txt"
    other.write_text("no table")
    with pytest.raises(NotATableError, match="no table here"):
        gl.open(other)


def test_what_is_there_is_opened_before_its_name_is_a_pattern(tmp_path):
    assert gl.open(small_tables.make_delta(tmp_path / "a[1]*")).version == 1
    file = small_tables.make_parquet(tmp_path / "p") / "part-0.parquet"
    starred = file.rename(file.with_name("part*.parquet"))
    assert len(gl.open(starred).files) == 1
    assert len(gl.open(tmp_path / "p" / "par*.parquet").files) == 3


def test_parquet_files_have_no_versions_to_compare(tmp_path):
    table = gl.open(small_tables.make_parquet(tmp_path / "t"))
    for ask in (lambda: table.at(0), lambda: table.diff(0, 1)):
        with pytest.raises(GeolakeError, match="Parquet files have no versions to open or to compare; geolake history"):
            ask()


def test_nulls_in_a_list_of_values_keep_what_the_others_keep(table):
    explanation = table.explain("id IN (1, NULL)")
    assert explanation.read == table.explain("id = 1").read
    with pytest.raises(PredicateError, match="leave the NULL out"):
        table.explain("id NOT IN (0, NULL)")  # true for no row
