"""Catalogs: what is listed is what other clients list, and details are those of each table when it is opened."""

from __future__ import annotations

import json
import threading

import pyarrow as pa
import pytest

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import CorruptTableError, MissingFileError, NotATableError, OpenError, StorageError
from geolake_nb.formats.catalog_server import IN_FLIGHT, CatalogServer
from geolake_nb.formats.unity_catalog import UnityCatalog
from geolake_nb.scan.coverage import coverage
from geolake_nb.storage.object_store import requests_in_flight
from geolake_nb.storage.storage import Storage
from tests import small_tables
from tests.api.unity_server import TOKEN, serve_unity

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Tables of all formats in nested folders, beside folders that hold none."""
    folder = tmp_path_factory.mktemp("lake")
    for name in ("europe/north", "asia"):
        (folder / name).mkdir(parents=True)
    small_tables.make_delta(folder / "europe" / "roads", bounds=False)
    small_tables.make_delta(folder / "europe" / "north" / "rivers")
    small_tables.make_iceberg(folder / "quakes")
    small_tables.make_havasu(folder / "asia" / "scenes")
    small_tables.make_parquet(folder / "asia" / "parcels")
    (folder / "empty" / "deeper").mkdir(parents=True)
    (folder / "_staging").mkdir()
    broken = folder / "broken" / "_delta_log"
    broken.mkdir(parents=True)
    (broken / "00000000000000000000.json").write_text("{")
    return folder


NAMES = ["asia/parcels", "asia/scenes", "broken", "europe/north/rivers", "europe/roads", "quakes"]


def test_a_folder_lists_the_tables_below_it(lake):
    catalog = gl.catalog(lake)
    assert catalog.tables() == NAMES
    assert catalog.tables("europe/*") == ["europe/north/rivers", "europe/roads"]
    assert [entry.path[-1] for entry in catalog.children()] == ["asia", "broken", "empty", "europe", "quakes"]
    assert [entry.path[-1] for entry in catalog.children("europe")] == ["north", "roads"]


def test_details_are_those_of_each_table_when_it_is_opened(lake):
    rows = {row["table"]: row for row in gl.catalog(lake).details().to_pylist()}
    assert list(rows) == NAMES
    assert "broken" in rows["broken"]["problem"]
    assert rows["broken"]["files"] is None
    for name in set(NAMES) - {"broken"}:
        table = gl.open(lake / name)
        card = table.snapshot
        assert rows[name]["format"] == card.format.name
        assert rows[name]["files"] == len(table.files)
        assert rows[name]["rows"] == sum(table.files.table["rows"].to_pylist())
        assert rows[name]["bytes"] == sum(table.files.table["bytes"].to_pylist())
        assert rows[name]["geo_columns"] == list(table.files.geo_columns)
        assert rows[name]["last_change"] == card.timestamp
        bounded = coverage(card)
        assert rows[name]["coverage"] == min(entry.covered.files / entry.total.files for entry in bounded)
        levels = [finding.severity.value for finding in table.check(footers=False)]
        assert (rows[name]["errors"], rows[name]["warnings"]) == (levels.count("error"), levels.count("warning"))


def test_a_window_lists_the_tables_with_data_there(lake):
    catalog = gl.catalog(lake)
    (west, south), *_ = small_tables.PLACES
    near = catalog.tables_in([west, south, west + 0.1, south + 0.1])
    assert "europe/north/rivers" in near
    assert "europe/roads" not in near  # it has no bounds
    assert catalog.tables_in([0, -89, 1, -88]) == []


def test_details_that_are_cancelled_are_those_read_so_far(lake):
    stop = threading.Event()
    seen = gl.catalog(lake).details(on_progress=lambda done, total: stop.set(), cancelled=stop)
    assert len(seen) < len(NAMES)


def test_what_is_asked_of_all_tables_is_not_answered_from_a_part(lake):
    stop = threading.Event()
    whole = gl.catalog(lake).details().column("table").to_pylist()
    for read_a_part in (
        lambda catalog: catalog.details("asia"),
        lambda catalog: catalog.details(on_progress=lambda done, total: stop.set(), cancelled=stop),
    ):
        catalog = gl.catalog(lake)
        read_a_part(catalog)
        assert catalog.to_pandas()["table"].tolist() == whole
        assert catalog.map().item_count == len(whole)


def test_what_is_not_a_catalog_is_named(lake):
    with pytest.raises(MissingFileError, match="the folder does not exist"):
        gl.catalog(lake / "none").children()
    with pytest.raises(OpenError, match="this is a table, not a folder of tables"):
        gl.catalog(lake / "quakes").children()
    with pytest.raises(OpenError, match="the REST catalog has no 'uri'"):
        gl.catalog("rest")
    with pytest.raises(gl.GeolakeError, match="use one of: rest, sql, unity"):
        gl.catalog("nessi", uri="http://localhost")
    with pytest.raises(gl.GeolakeError, match="expected a catalog, got a int"):
        gl.catalog(3)
    with pytest.raises(gl.GeolakeError, match="expected a window of four numbers"):
        gl.catalog(lake).tables_in("Alps")


def test_the_check_of_a_catalog_puts_the_worst_first(lake, capsys):
    report = gl.catalog(lake).check()
    assert report.tables[0].path == ("broken",)
    assert report.exit_code() == 2
    ranks = [2 if table.problem or table.errors else 1 if table.warnings else 0 for table in report.tables]
    assert ranks == sorted(ranks, reverse=True)
    assert main(["check", str(lake), "--catalog", "--json"]) == 2
    tables = {table["table"]: table for table in json.loads(capsys.readouterr().out)["tables"]}
    assert [finding["rule"] for finding in tables["europe/roads"]["findings"]] == ["bounds.missing"]
    assert main(["check", str(lake / "europe"), "--catalog"]) == 1
    assert "warning  roads: bounds.missing" in capsys.readouterr().out


def test_the_command_lists_tables_and_their_details(lake, capsys):
    assert main(["catalog", str(lake)]) == 0
    assert capsys.readouterr().out.splitlines() == NAMES
    assert main(["catalog", str(lake), "asia/*", "--details", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert [(table["table"], table["files"]) for table in tables] == [("asia/parcels", 3), ("asia/scenes", 3)]
    assert main(["catalog", "rest", "--property", f"token:{TOKEN}"]) == 3
    assert TOKEN not in capsys.readouterr().err


# ---- Iceberg ----


@pytest.fixture
def sql_catalog(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("prod", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    for name in ("db.b", "db.a", "geo.deep.c"):
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        catalog.create_table(name, schema=ROWS.schema).append(ROWS)
    yield catalog, uri
    catalog.engine.dispose()


def listed_by_pyiceberg(catalog, namespaces) -> list[str]:
    return sorted(".".join(table) for namespace in namespaces for table in catalog.list_tables(namespace))


def test_a_sql_catalog_lists_what_pyiceberg_lists(sql_catalog):
    theirs, uri = sql_catalog
    wanted = listed_by_pyiceberg(theirs, [("db",), ("geo", "deep")])
    assert wanted == ["db.a", "db.b", "geo.deep.c"]
    for ours in (gl.catalog("sql", uri=uri, name="prod"), gl.catalog(theirs)):
        assert ours.tables() == wanted
        assert ours.details().column("rows").to_pylist() == [3, 3, 3]
        assert (
            ours.open("geo.deep.c").snapshot.version == theirs.load_table("geo.deep.c").current_snapshot().snapshot_id
        )
        with pytest.raises(NotATableError):
            ours.open("db.none")


def test_a_configured_catalog_is_opened_by_its_name(sql_catalog, monkeypatch):
    _, uri = sql_catalog
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", uri)
    assert gl.catalog("prod").tables() == ["db.a", "db.b", "geo.deep.c"]


def test_icebergs_own_rest_server_is_listed(rest_server):
    from pyiceberg.catalog.rest import RestCatalog

    uri, folder = rest_server
    theirs = RestCatalog("rest", uri=uri, warehouse=str(folder))
    for name in ("listing.b", "listing.a", "listing.deeper.c"):
        theirs.create_namespace_if_not_exists(name.rpartition(".")[0])
        if not theirs.table_exists(name):
            theirs.create_table(name, schema=ROWS.schema).append(ROWS)
    ours = gl.catalog("rest", uri=uri)
    assert [entry.name for entry in ours.walk("listing")] == ["listing.deeper.c", "listing.a", "listing.b"]
    assert listed_by_pyiceberg(theirs, [("listing",), ("listing", "deeper")]) == ours.tables("listing.*")
    details = ours.details("listing")
    assert details.column("table").to_pylist() == ["listing.a", "listing.b", "listing.deeper.c"]
    assert details.column("rows").to_pylist() == [3, 3, 3]
    ours.close()


# ---- Unity Catalog ----


def test_a_unity_catalog_lists_tables_page_by_page_and_opens_them(tmp_path):
    roads = small_tables.make_delta(tmp_path / "roads")
    tables = {
        "roads": {"data_source_format": "DELTA", "table_type": "EXTERNAL", "storage_location": f"file://{roads}"},
        "view": {"table_type": "VIEW"},
        "far": {"data_source_format": "DELTA", "table_type": "MANAGED", "storage_location": "s3://lake/far"},
    }
    with serve_unity(tables) as uri:
        catalog = gl.catalog("unity", uri=uri, token=TOKEN)
        assert [entry.path for entry in catalog.children()] == [("main",), ("system",), ("test",)]
        assert [(entry.name, entry.format) for entry in catalog.walk("main")] == [
            ("main.geo.roads", "delta"),
            ("main.geo.far", "delta"),
        ]
        assert len(catalog.open("main.geo.roads").files) == 3
        far = UnityCatalog({"uri": uri, "token": TOKEN}).load_table(("main", "geo", "far"))
        assert far[0] == "s3://lake/far"
        assert far[1]["aws_access_key_id"] == "id-of-far"
        with pytest.raises(NotATableError, match=r"the Unity Catalog has no table main\.geo\.none"):
            catalog.open("main.geo.none")
        refused = gl.catalog("unity", uri=uri, token="wrong-token")
        with pytest.raises(StorageError, match=r"does not permit the catalogs \(401\)") as error:
            refused.children()
        shown = f"{catalog!r} {catalog} {refused!r} {error.value}"
        assert all(secret not in shown for secret in (TOKEN, "wrong-token"))
        catalog.close()
        refused.close()


def test_a_server_that_repeats_a_page_is_refused(monkeypatch):
    with CatalogServer("REST catalog", "http://localhost") as server:
        monkeypatch.setattr(server, "get", lambda *_: {"next": "again"})
        with pytest.raises(CorruptTableError, match="repeats a page of the tables"):
            list(server.pages("/tables", {}, "the tables", ask="token", next_page="next"))


# ---- Spark ----


def test_the_tables_of_a_spark_session_are_listed(spark, tmp_path):
    roads = small_tables.make_delta(tmp_path / "roads")
    spark.sql("CREATE DATABASE IF NOT EXISTS catalog_listing")
    spark.sql(f"CREATE TABLE IF NOT EXISTS catalog_listing.roads USING delta LOCATION '{roads}'")
    try:
        catalog = gl.catalog(spark)
        wanted = [row["tableName"] for row in spark.sql("SHOW TABLES IN catalog_listing").collect()]
        assert [entry.name for entry in catalog.walk("spark_catalog.catalog_listing")] == [
            f"spark_catalog.catalog_listing.{name}" for name in wanted
        ]
        assert len(catalog.open("spark_catalog.catalog_listing.roads").files) == 3
    finally:
        spark.sql("DROP TABLE catalog_listing.roads")
        spark.sql("DROP DATABASE catalog_listing")


# ---- Stores ----


def test_a_bucket_is_listed(lake, s3):
    url = s3.upload(lake, "lake", "catalog")
    catalog = gl.catalog(url, storage_options=s3.options)
    assert catalog.tables() == NAMES
    here = gl.catalog(lake).details().drop_columns(["location", "last_change", "problem"])
    assert catalog.details().drop_columns(["location", "last_change", "problem"]) == here


def test_only_so_many_requests_are_under_way_at_once(s3):
    storage, lock = Storage.at("s3://lake/none", options=s3.options), threading.Lock()
    under_way = most = 0

    def read() -> None:
        nonlocal under_way, most
        with storage._backend._errors("x"):
            with lock:
                under_way += 1
                most = max(most, under_way)
            threading.Event().wait(0.01)
            with lock:
                under_way -= 1

    with requests_in_flight(IN_FLIGHT):
        threads = [threading.Thread(target=read) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 1 < most <= IN_FLIGHT
