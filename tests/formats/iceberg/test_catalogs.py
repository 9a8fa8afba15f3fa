"""REST and SQL catalogs: Iceberg's own REST server where it can be started, and a small one that asks for tokens."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import urllib.parse
from typing import ClassVar

import pyarrow as pa
import pytest
import requests

from geolake_nb.errors import NotATableError, OpenError, StorageError, UnsupportedTableError
from geolake_nb.formats.iceberg.catalogs import (
    CatalogTable,
    configured_catalogs,
    from_pyiceberg,
    load_from_catalog,
    split_table_name,
    storage_options,
)
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.storage.storage import Storage
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table

SECRET = "open-sesame"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def opened(table: CatalogTable):
    return open_iceberg(Storage.at(table.root, options=table.options), metadata=table.metadata)


# ---- SQL ----


@pytest.fixture
def sql_catalog(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("prod", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    catalog.create_table("db.t", schema=ROWS.schema).append(ROWS)
    yield catalog, {"name": "prod", "type": "sql", "uri": uri}
    catalog.engine.dispose()


def test_a_table_of_a_sql_catalog_opens(sql_catalog):
    catalog, properties = sql_catalog
    snapshot = opened(load_from_catalog(properties, "db.t"))
    theirs = catalog.load_table("db.t").inspect.files()
    assert snapshot.files.table["path"].to_pylist() == theirs["file_path"].to_pylist()
    assert snapshot.files.table["rows"].to_pylist() == [3]


def test_a_pyiceberg_table_opens(sql_catalog):
    catalog, _ = sql_catalog
    table = from_pyiceberg(catalog.load_table("db.t"))
    assert table.name == "db.t"
    assert len(opened(table).files) == 1


def test_a_name_leads_through_the_configuration_to_the_table(sql_catalog, monkeypatch, tmp_path):
    _, properties = sql_catalog
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", properties["uri"])
    assert split_table_name("prod.db.t") == ("prod", ("db", "t"))
    assert split_table_name("other.db.t") is None
    assert split_table_name("prod.t") is None
    assert len(opened(load_from_catalog("prod", "db.t")).files) == 1


def test_the_sql_catalogs_of_the_corpus_name_their_tables(corpus):
    base = corpus / "iceberg" / "duckdb-iceberg"
    uri = f"sqlite:///file:{base}/null_stats/pyiceberg_catalog.db?mode=ro&uri=true"
    table = load_from_catalog({"name": "local", "uri": uri}, "default.test_nulls")
    assert table.metadata == "metadata/00003-9d6a621e-8a72-4190-a880-f6ca02e32b86.metadata.json"


@pytest.mark.parametrize(
    ("properties", "identifier", "error", "reason"),
    [
        ({}, "db.none", NotATableError, "the SQL catalog 'prod' has no table db.none"),
        ({"name": "other"}, "db.t", NotATableError, "the SQL catalog 'other' has no table"),
        ({"uri": "sqlite:////none/catalog.db"}, "db.t", StorageError, "the database does not exist"),
        ({"uri": "no url"}, "db.t", OpenError, "not a valid database URL"),
        ({"uri": f"nonsense://me:{SECRET}@h/db"}, "db.t", OpenError, "no dialect 'nonsense'"),
        ({}, "t", NotATableError, "expected namespace.table, got 't'"),
    ],
)
def test_sql_catalogs_say_what_is_wrong(sql_catalog, properties, identifier, error, reason):
    with pytest.raises(error, match=reason) as raised:
        load_from_catalog({**sql_catalog[1], **properties}, identifier)
    assert SECRET not in str(raised.value)


def test_a_database_without_the_table_of_tables_is_not_a_catalog(tmp_path):
    (tmp_path / "x.db").touch()
    with pytest.raises(StorageError, match="the SQL catalog cannot be read: OperationalError"):
        load_from_catalog({"uri": f"sqlite:///{tmp_path}/x.db"}, "db.t")


# ---- configuration ----


def test_the_file_and_the_environment_are_read_as_pyiceberg_reads_them(tmp_path, monkeypatch):
    from pyiceberg.utils.config import Config

    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  Prod:\n    uri: http://file\n    token: abc\n    s3.anonymous: true\n  other:\n    type: sql\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "http://environment")
    monkeypatch.setenv("PYICEBERG_CATALOG__MY_OWN__S3__ACCESS_KEY_ID", "me")
    ours = configured_catalogs()
    assert ours["my-own"] == {"s3.access-key-id": "me"}
    for name in ("prod", "other", "my-own"):
        assert ours[name] == Config().get_catalog_config(name)


def test_a_broken_file_is_named_and_not_quoted(tmp_path, monkeypatch):
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog: [\n  token: {SECRET}: x\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(OpenError, match="not valid YAML") as raised:
        configured_catalogs()
    assert SECRET not in str(raised.value)


def test_a_catalog_that_is_not_configured_is_named_with_those_that_are(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "http://x")
    with pytest.raises(OpenError, match="no catalog 'dev' is configured; configured: prod"):
        load_from_catalog("dev", "db.t")


@pytest.mark.parametrize("properties", [{"type": "hive"}, {"type": "glue"}, {"uri": "thrift://h:9083"}, {}])
def test_catalogs_that_need_a_jvm_are_left_to_spark(properties):
    with pytest.raises(UnsupportedTableError, match="through a Spark session"):
        load_from_catalog(properties, "db.t")


def test_vended_credentials_become_storage_options():
    config = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": "c", "client.region": "eu"}
    assert storage_options(config) == {
        "aws_region": "eu",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_session_token": "c",
    }
    assert storage_options({"adls.sas-token.acc.dfs.core.windows.net": "s"}) == {"azure_storage_sas_token": "s"}
    assert SECRET not in repr(CatalogTable("t", "s3://b/t/metadata/v1.metadata.json", {"aws_session_token": SECRET}))


# ---- REST, a small server that asks for a token ----


class Handler(http.server.BaseHTTPRequestHandler):
    """Speaks the three calls that loading a table makes; `state` is set by the test."""

    state: ClassVar[dict] = {}

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.state["form"] = form
        good = form.get("client_secret") == [SECRET] and form.get("grant_type") == ["client_credentials"]
        self.answer(200 if good else 401, {"access_token": "t-1", "token_type": "bearer"} if good else {})

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.state.setdefault("paths", []).append(url.path)
        if self.headers.get("Authorization") != "Bearer t-1":
            self.answer(401, {"error": {"message": f"no {SECRET}", "type": "NotAuthorizedException", "code": 401}})
        elif url.path == "/v1/config":
            self.state["warehouse"] = urllib.parse.parse_qs(url.query).get("warehouse")
            self.answer(200, {"defaults": {"client.region": "eu"}, "overrides": {"prefix": "w/1"}})
        elif url.path == "/v1/w/1/namespaces/a%1Fb/tables/t%2Fx":
            self.state["delegation"] = self.headers.get("X-Iceberg-Access-Delegation")
            self.answer(200, self.state["table"])
        elif "broken" in url.path:
            self.answer(*self.state["broken"])
        else:
            self.answer(404, {"error": {"message": "no", "type": "NoSuchTableException", "code": 404}})


@pytest.fixture
def rest():
    Handler.state = {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield {"type": "rest", "uri": f"http://127.0.0.1:{server.server_port}/"}, Handler.state
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_rest_catalog_gives_prefix_location_and_credentials(rest, tmp_path):
    properties, state = rest
    path = make_iceberg_table(tmp_path, [column(1, "id", "long")], [FileEntry("a")])
    state["table"] = {
        "metadata-location": f"file://{path}",
        "metadata": {},
        "config": {"s3.access-key-id": "plain"},
        "storage-credentials": [
            {"prefix": "file:///", "config": {"s3.access-key-id": "wide"}},
            {"prefix": f"file://{tmp_path}", "config": {"s3.access-key-id": "vended"}},
            {"prefix": "s3://other", "config": {"s3.access-key-id": "no"}},
        ],
    }
    table = load_from_catalog({**properties, "credential": f"me:{SECRET}", "warehouse": "w"}, ["a", "b", "t/x"])
    assert state["form"]["scope"] == ["catalog"]
    assert state["warehouse"] == ["w"]
    assert state["delegation"] == "vended-credentials"
    assert table.options == {"aws_region": "eu", "aws_access_key_id": "vended"}
    assert open_iceberg(Storage.at(table.root), metadata=table.metadata).version == 1001


@pytest.mark.parametrize(
    ("credentials", "identifier", "error", "reason"),
    [
        ({"token": "t-1"}, "a.none", NotATableError, "the REST catalog has no table a.none"),
        ({"token": "wrong"}, "a.t", StorageError, "does not permit the configuration"),
        ({"credential": "me:wrong"}, "a.t", StorageError, "does not permit a token"),
        ({}, "a.t", StorageError, "does not permit"),
        ({"rest.sigv4-enabled": "true"}, "a.t", UnsupportedTableError, "rest.sigv4-enabled"),
    ],
)
def test_rest_catalogs_say_what_is_wrong(rest, credentials, identifier, error, reason):
    with pytest.raises(error, match=reason) as raised:
        load_from_catalog({**rest[0], **credentials}, identifier)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((200, b"<html>"), OpenError),
        ((200, b"[]"), OpenError),
        ((200, {}), OpenError),
        ((200, b"[" * 100_000), OpenError),
        ((500, b"oops"), StorageError),
        ((503, {"error": {"type": "ServiceUnavailable"}}), StorageError),
    ],
)
def test_answers_that_make_no_sense_are_typed_errors(rest, answer, error):
    rest[1]["broken"] = answer
    with pytest.raises(error):
        load_from_catalog({**rest[0], "token": "t-1"}, "broken.t")


def test_a_catalog_that_is_not_there_is_named_without_its_password():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StorageError, match=f"http://127.0.0.1:{port}: the REST catalog does not respond") as raised:
        load_from_catalog({"uri": f"http://me:{SECRET}@127.0.0.1:{port}"}, "a.t")
    assert SECRET not in str(raised.value)


# ---- REST, Iceberg's own server ----


def test_a_table_of_icebergs_own_rest_server_opens(rest_server):
    from pyiceberg.catalog.rest import RestCatalog

    uri, folder = rest_server
    catalog = RestCatalog("rest", uri=uri, warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    snapshot = opened(load_from_catalog({"uri": uri, "warehouse": str(folder)}, "db.t"))
    theirs = catalog.load_table("db.t")
    assert snapshot.version == theirs.current_snapshot().snapshot_id
    assert sorted(snapshot.files.table["path"].to_pylist()) == sorted(theirs.inspect.files()["file_path"].to_pylist())
    assert len(opened(from_pyiceberg(theirs)).files) == 2
    with pytest.raises(NotATableError, match=r"the REST catalog has no table db\.none"):
        load_from_catalog({"uri": uri}, "db.none")


def test_a_geo_table_registered_in_icebergs_own_rest_server_opens(rest_server, tmp_path):
    uri, _ = rest_server
    columns = [column(1, "id", "long"), column(2, "geom", "geometry(OGC:CRS84)")]
    path = make_iceberg_table(tmp_path, columns, [FileEntry("a")], version=3)
    requests.post(f"{uri}/v1/namespaces", json={"namespace": ["geo", "deep"], "properties": {}}, timeout=30)
    # Its web server refuses the usual separator of levels, so it states another one.
    config = requests.get(f"{uri}/v1/config", timeout=30).json()
    separator = {**config["defaults"], **config["overrides"]}["namespace-separator"]
    registered = requests.post(
        f"{uri}/v1/namespaces/geo{separator}deep/register",
        json={"name": "g", "metadata-location": str(path)},
        timeout=30,
    )
    assert registered.ok, registered.text
    snapshot = opened(load_from_catalog({"uri": uri}, "geo.deep.g"))
    assert snapshot.files.geo_columns == ("geom",)
    assert snapshot.protocol.summary == "format version 3"
