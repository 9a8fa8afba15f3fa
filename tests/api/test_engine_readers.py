from __future__ import annotations

import struct

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api import engine_runs
from geolake_nb.api.engine_question import Question
from geolake_nb.parquet.schema import to_arrow_type
from tests.api.lying_tables import IN_WINDOW, WINDOW, points, shrink_log, write_covered, write_numbers, write_points
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table


def runs(folder, where, engine):
    table = folder if isinstance(folder, gl.Table) else gl.open(str(folder))
    return list(table.compare_engines(where, engines=[engine]))


def numbers(start):
    """Ten ids with the field id 1."""
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    return pa.table([pa.array(range(start, start + 10), pa.int64())], schema=schema)


@pytest.fixture
def delta(tmp_path):
    return write_numbers(tmp_path / "t")


def test_deltalake_skips_files_and_is_asked_for_the_version_of_the_table(delta):
    on, off = runs(delta, "id >= 103 AND id IS NOT NULL", "deltalake")
    assert (on.rows, on.files, off.rows, off.files) == (7, 1, 7, 2)
    [older] = {run.rows for run in runs(gl.open(str(delta)).at(0), "id >= 3", "deltalake")}
    assert older == 7


def test_deltalake_is_named_where_the_log_states_a_maximum_that_is_too_small(delta):
    shrink_log(delta, 104)
    answer = gl.open(str(delta)).compare_engines("id > 105", engines=["deltalake", "geolake"])
    assert [(run.engine.split()[0], run.skipping, run.lost) for run in answer] == [
        ("deltalake", True, 4),
        ("deltalake", False, 0),
        ("geolake", True, 4),
        ("geolake", False, 0),
    ]
    names = [run.engine for run in answer]
    assert answer.verdicts == tuple(
        f"{name} loses 4 of 4 rows when it skips by statistics." for name in dict.fromkeys(names)
    )


def test_pyiceberg_skips_files_and_is_named_where_a_manifest_lies(tmp_path):
    low, high = (struct.pack("<q", number) for number in (100, 104))
    entries = [
        FileEntry("a.parquet", table=numbers(0)),
        FileEntry("b.parquet", table=numbers(100), lower={1: low}, upper={1: high}),
    ]
    make_iceberg_table(tmp_path / "t", [column(1, "id", "long")], entries)
    on, off = runs(tmp_path / "t", "id IN (3, 103)", "pyiceberg")
    assert (on.rows, on.lost, off.rows) == (2, 0, 2)
    on, off = runs(tmp_path / "t", "id > 105", "pyiceberg")
    assert (on.lost, on.files, off.lost, off.files) == (4, 1, 0, 2)


def test_what_cannot_be_switched_runs_once(delta, tmp_path):
    [run] = runs(delta, None, "deltalake")
    assert (run.skipping, run.rows) == (None, 20)
    [run] = runs(delta, "id > 5", "sedonadb")
    assert run.engine.endswith("(gl.sql)")
    assert (run.skipping, run.lost, run.files) == (None, 0, 2)
    [run] = runs(write_covered(tmp_path / "g", files=1), "id > 5", "geopandas")
    assert (run.skipping, run.rows) == (None, 34)


@pytest.mark.parametrize("engine", ["sedonadb", "duckdb", "geopandas"])
def test_characters_of_a_path_stand_for_themselves(tmp_path, engine):
    folder = tmp_path / "100% [a] o'k"
    write_covered(folder, files=2)
    (folder / "part-1.parquet").rename(folder / "b*?#.parquet")
    assert [run.agrees for run in runs(folder, WINDOW, engine)] == [True, True]


@pytest.mark.parametrize("engine", ["sedonadb", "duckdb"])
def test_a_folder_of_partitions(tmp_path, engine):
    for name in ("part=1", "part=b"):
        write_points(tmp_path / name, files=1)
    answer = gl.open(str(tmp_path)).compare_engines("id < 3", engines=[engine])
    assert (answer.rows, answer.agree) == (6, True)
    answer = gl.open(str(tmp_path)).compare_engines("part = 'b' AND id < 3", engines=[engine])
    run = next(iter(answer))
    assert run.agrees or run.problem is not None


@pytest.mark.parametrize("type_", [gl.geometry("EPSG:3857"), gl.geometry("SRID:0"), gl.geometry("EPSG:32633")])
def test_every_crs_is_that_of_the_column(tmp_path, type_):
    wkb = pa.array(shapely.to_wkb(points(1)), pa.binary())
    table = pa.table({"geom": to_arrow_type(type_).wrap_array(wkb)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    answer = gl.open(str(tmp_path)).compare_engines(WINDOW, engines=["sedonadb", "duckdb"])
    assert [(run.rows, run.problem) for run in answer] == [(IN_WINDOW, None)] * 4


def test_geopandas_writes_a_crs_that_sedonadb_does_not_know_by_its_name(tmp_path):
    geopandas.GeoDataFrame(geometry=points(1), crs=None).to_parquet(tmp_path / "a.parquet")
    answer = gl.open(str(tmp_path)).compare_engines(WINDOW, engines=["sedonadb", "geopandas"])
    assert {run.rows for run in answer if run.problem is None} == {IN_WINDOW}


def test_columns_that_an_engine_returns_otherwise_are_not_compared(tmp_path):
    [run, _] = runs(write_covered(tmp_path / "t", files=1), (0, 0, 1, 10), "geopandas")
    assert run.not_compared == ("bbox",)
    assert run.agrees


def test_a_table_in_a_store_is_read_by_engines_that_take_its_options(s3, tmp_path):
    url = s3.upload(write_numbers(tmp_path / "t"), "lake", f"engines/{tmp_path.name}/delta")
    table = gl.open(url, storage_options=s3.options)
    on, off = runs(table, "id > 103", "deltalake")
    assert (on.rows, on.files, off.rows) == (6, 1, 6)
    url = s3.upload(write_points(tmp_path / "p", files=1), "lake", f"engines/{tmp_path.name}/parquet")
    answer = gl.open(url, storage_options=s3.options).compare_engines("id > 3", engines=["geolake", "duckdb"])
    assert [run.rows for run in answer] == [36, 36, None]
    assert [why for _, why, _ in answer.unanswered] == ["only tables on the local disk are read by this engine here"]


def test_no_secret_of_a_store_is_in_the_reason_of_an_engine(delta):
    table = gl.open(str(delta), storage_options={"aws_secret_access_key": "hush-hush"})
    question = Question(table, None, None, table.scan().schema)

    def fail():
        raise OSError("cannot sign with 'hush-hush' at s3://lake/t?X-Amz-Signature=hush")

    assert engine_runs._attempt(fail, question) == (None, "cannot sign with '***' at s3://lake/t?...")
