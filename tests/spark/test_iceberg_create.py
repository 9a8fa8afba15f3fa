"""Iceberg tables are made by their names in catalogs of the session and of PyIceberg, where the catalogs place them."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.cli import main
from geolake_nb.errors import ConflictError, OpenError, RefusedError
from geolake_nb.formats.iceberg import commit as iceberg_commit
from tests.spark.named_iceberg import doubles, named

__all__ = ["named"]

pytestmark = pytest.mark.spark

KINDS = ("session-ice", "session-jdbc", "session-rest", "pyiceberg-jdbc", "pyiceberg-rest")


@pytest.fixture
def catalogs(named, iceberg_spark, spark, monkeypatch):
    """Sets up the catalogs of the other Spark in this session, or for PyIceberg; the name of one of them."""
    set_up = []

    def choose(kind):
        where, _, name = kind.partition("-")
        if where == "session":
            monkeypatch.delenv(f"PYICEBERG_CATALOG__{name.upper()}__URI", raising=False)
            for key, value in iceberg_spark.catalog_settings(name).items():
                spark.conf.set(key, value)
                set_up.append(key)
        else:
            monkeypatch.setenv("PYICEBERG_CATALOG__JDBC__WAREHOUSE", str(named.warehouse / "jdbc"))
        named.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.made")
        return name

    yield choose
    for key in set_up:
        spark.conf.unset(key)


def rows(*ids):
    points = [shapely.to_wkb(shapely.Point(id_, -id_), output_dimension=4, flavor="iso") for id_ in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "k": [f"k{id_ % 2}" for id_ in ids], "g": points})


def location(named, table):
    return next(
        row["data_type"] for row in named.sql(f"DESCRIBE TABLE EXTENDED {table}") if row["col_name"] == "Location"
    )


def below(path, folder):
    return os.path.realpath(path.removeprefix("file:")).startswith(os.path.realpath(folder.removeprefix("file:")) + "/")


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_made_where_its_catalog_places_it_and_grows_by_its_name(named, spark, catalogs, kind):
    table = f"{catalogs(kind)}.made.{kind.partition('-')[0]}_grown"
    plan = plan_write(
        rows(1, 2), table, format="iceberg", columns={"g": gl.geometry()}, partition_by="k", properties={"note": "mine"}
    )
    assert f"The catalog {kind.partition('-')[2]} chooses the location of the files." in str(plan)
    report = plan.apply(spark=spark)
    assert (report.location, report.metrics["rows_written"]) == (table, 2)
    assert plan.apply(spark=spark).version == report.version
    with pytest.raises(RefusedError, match="is the first of the table: there is nothing to go back to"):
        report.undo(spark=spark)
    assert len(named.sql(f"SELECT * FROM {table}.snapshots")) == 1

    gl.write(rows(3), table, format="iceberg", mode="append", spark=spark)
    assert named.sql(f"SELECT id, k, hex(st_asbinary(g)) AS g FROM {table} ORDER BY id") == [
        {"id": value["id"], "k": value["k"], "g": value["g"].hex().upper()} for value in rows(1, 2, 3).to_pylist()
    ]
    files = named.sql(f"SELECT file_path, lower_bounds, partition FROM {table}.files ORDER BY record_count, file_path")
    assert {file["partition"][0] for file in files} == {"k0", "k1"}
    assert doubles(1, -1) in [file["lower_bounds"]["3"] for file in files]
    home = location(named, table)
    assert all(below(file["file_path"], home) for file in files)
    assert {"key": "note", "value": "mine"} in named.sql(f"SHOW TBLPROPERTIES {table}")

    opened = gl.open(table)
    assert opened.version != report.version
    assert opened.files.table["rows"].to_pylist() == [1, 1, 1]
    with pytest.raises(RefusedError, match=r"made\.\w+: the table already exists; give another name, or add rows with"):
        gl.write(rows(4), table, format="iceberg", spark=spark)


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_that_create_a_table_one_wins_and_the_other_gets_an_error(named, spark, catalogs, monkeypatch, kind):
    table = f"{catalogs(kind)}.made.{kind.partition('-')[0]}_raced"
    first, second = (plan_write(rows(id_), table, format="iceberg") for id_ in (1, 2))
    stage, won = iceberg_commit.stage_table, []

    def stage_and_lose(*arguments):
        staged = stage(*arguments)
        if not won:
            won.append(None)
            won[0] = first.apply(spark=spark)
        return staged

    monkeypatch.setattr(iceberg_commit, "stage_table", stage_and_lose)
    with pytest.raises(ConflictError, match="the table was created in the meantime; inspect it"):
        second.apply(spark=spark)
    assert [row["id"] for row in named.sql(f"SELECT id FROM {table}")] == [1]
    with pytest.raises(ConflictError, match="the table was created in the meantime"):
        second.apply(spark=spark)
    assert first.apply(spark=spark).version == won[0].version
    assert [row["id"] for row in named.sql(f"SELECT id FROM {table}")] == [1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith("ice")])
def test_a_missing_namespace_is_reported_before_a_row_is_read(spark, catalogs, kind):
    table = f"{catalogs(kind)}.nowhere.t"
    plan = plan_write(rows(1), table, format="iceberg")
    with pytest.raises(RefusedError) as output:
        plan.apply(spark=spark, on_progress=lambda *_: pytest.fail("a job runs"))
    catalog = kind.partition("-")[2]
    assert str(output.value) == (
        f"{table}: the catalog '{catalog}' has no namespace 'nowhere'; create the namespace first, or name another"
    )


def test_a_catalog_of_folders_makes_the_namespace(named, spark, catalogs):
    gl.write(rows(1), f"{catalogs('session-ice')}.fresh.deep.t", format="iceberg", spark=spark)
    assert named.sql("SELECT count(*) AS n FROM ice.fresh.deep.t") == [{"n": 1}]


def test_a_name_without_a_catalog_is_not_a_folder(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OpenError, match=r"no catalog 'a' is configured; .* or write \./a\.b\.c for a folder"):
        gl.write(rows(1), "a.b.c", format="iceberg", spark=spark)
    gl.write(rows(1), "./a.b.c", format="iceberg", spark=spark)
    assert gl.open("a.b.c").files.table["rows"].to_pylist() == [1]
    assert len(list(tmp_path.glob("a.b.c/data/*.parquet"))) == 1, "the tasks of Spark are in another folder"


def test_a_sql_catalog_without_a_warehouse_cannot_place_a_table(named, spark):
    named.sql("CREATE NAMESPACE IF NOT EXISTS jdbc.made")
    with pytest.raises(RefusedError, match="the catalog 'jdbc' has no warehouse to create a table in"):
        gl.write(rows(1), "jdbc.made.nowhere", format="iceberg", spark=spark)


def test_parquet_files_become_a_table_of_a_catalog_in_python_and_in_a_shell(named, spark, catalogs, tmp_path, capsys):
    catalog = catalogs("pyiceberg-rest")
    pq.write_table(rows(*range(50)), tmp_path / "a.parquet")
    plan = gl.open(tmp_path).plan_convert(
        f"{catalog}.made.converted", format="iceberg", columns={"g": gl.geometry()}, cluster_by="g"
    )
    assert plan.apply(spark=spark).metrics["rows_written"] == 50
    words = [
        "convert",
        str(tmp_path),
        f"{catalog}.made.shelled",
        "--format",
        "iceberg",
        "--column",
        "g=geometry(OGC:CRS84)",
    ]
    assert main(words) == 0
    assert "The catalog rest chooses the location of the files." in capsys.readouterr().out
    assert main([*words, "--apply"]) == 0
    for name in ("converted", "shelled"):
        assert named.sql(f"SELECT count(*) AS n, sum(id) AS s FROM rest.made.{name}") == [{"n": 50, "s": 1225}]


def test_the_files_that_a_table_is_made_of_do_not_lie_in_it(named, spark, catalogs):
    catalog = catalogs("session-ice")
    folder = named.warehouse / "made" / "inside"
    folder.mkdir(parents=True)
    pq.write_table(rows(1), folder / "a.parquet")
    plan = gl.open(folder).plan_convert(f"{catalog}.made.inside", format="iceberg")
    with pytest.raises(RefusedError, match="the new table and its source files would be in the same folder"):
        plan.apply(spark=spark)
    assert sorted(os.listdir(folder)) == ["a.parquet"]
