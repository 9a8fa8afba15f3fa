"""Files that a table knows are changed through that table alone, and no table is laid over another."""

from __future__ import annotations

import os
import shutil

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import GeolakeError, RefusedError
from tests.oracle.wkb_write import point, write

ROWS = pa.table({"id": [1, 2], "g": [write(point(1.0, 2.0)), write(point(3.0, 4.0))], "p": ["x", "y"]})
GEO = {"g": gl.geometry()}


@pytest.fixture
def delta(tmp_path):
    folder = tmp_path / "delta"
    deltalake.write_deltalake(str(folder), ROWS, partition_by=["p"])
    return folder


def contents(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("kind", ["p=x", "p=x/*.parquet", "*/*.parquet", "file", "link"])
def test_files_of_a_delta_table_are_not_changed_behind_its_log(delta, tmp_path, kind):
    if kind == "file":
        path = str(next(delta.rglob("*.parquet")))
    elif kind == "link":
        os.symlink(delta / "p=x", tmp_path / "elsewhere")
        path = str(tmp_path / "elsewhere")
    else:
        path = str(delta / kind)
    before = contents(delta)
    table = gl.open(path)
    with pytest.raises(RefusedError, match=rf"the files belong to the table {delta}; open the table itself"):
        table.plan_repair(columns=GEO)
    with pytest.raises(RefusedError, match="the files belong to the table"):
        table.plan_rewrite(cluster_by="id")
    with pytest.raises(RefusedError, match="the files belong to the table"):
        plan_write(ROWS, path, format="parquet", mode="append")
    assert contents(delta) == before
    assert len(deltalake.DeltaTable(str(delta)).to_pyarrow_table()) == 2


def test_files_of_an_iceberg_table_are_not_changed_behind_its_manifests(tmp_path):
    folder = tmp_path / "t"
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "v1.metadata.json").write_text("{}")
    (folder / "data").mkdir()
    pq.write_table(ROWS, folder / "data" / "a.parquet")
    with pytest.raises(RefusedError, match="the files belong to the table"):
        gl.open(str(folder / "data")).plan_repair(columns=GEO)


@pytest.mark.parametrize("form", ["delta", "havasu", "iceberg", "parquet"])
def test_no_table_is_laid_over_another_or_into_one(delta, tmp_path, form):
    files = tmp_path / "files"
    files.mkdir()
    pq.write_table(ROWS, files / "a.parquet")
    for path, what in (
        (delta, "a Delta table already exists here; give another location"),
        (files, "a Parquet table already exists here; give another location"),
        (delta / "inside", "the files belong to the table"),
    ):
        with pytest.raises(RefusedError, match=what):
            plan_write(ROWS, str(path), format=form, columns=GEO)
        if path != files:
            with pytest.raises(RefusedError, match=what):
                gl.open(str(files)).plan_convert(str(path), format=form, columns=GEO)
    plan_write(ROWS, str(tmp_path / "free"), format=form, columns=GEO)


def test_rows_are_added_in_the_format_of_the_table(delta, tmp_path):
    with pytest.raises(RefusedError, match="the files belong to the table"):
        plan_write(ROWS, str(delta), format="parquet", mode="append")
    shutil.rmtree(delta / "_delta_log")
    with pytest.raises(GeolakeError):
        plan_write(ROWS, str(delta), format="delta", mode="append")
