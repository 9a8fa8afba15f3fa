"""No secret in any output: keys, tokens, passwords and signatures are looked for in all that prints, shows or stores.

They are made up, and are given in every way in which a user gives them: options of a store, properties of a catalog,
signed URLs, the environment. The servers are real ones, and one that says back whatever it is sent.
"""

from __future__ import annotations

import base64
import contextlib
import html
import json
import logging
import socket
import traceback
import zlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import nbformat
import obstore
import pyarrow.parquet as pq
import pytest
import requests
from nbclient import NotebookClient
from obstore.store import S3Store

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.delta import commit as delta_commit
from geolake_nb.formats.havasu import commit as havasu_commit
from geolake_nb.raster_data.out_db import OutDbRoots
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from geolake_nb.storage.storage import Storage
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.heavy.folder_store import FolderStore
from tests.http_proxy import running
from tests.jupyter.shell import notebook
from tests.promises.canaries import CANARIES, leaks
from tests.promises.echo_server import echo_server
from tests.promises.jvm_output import jvm_output
from tests.promises.secret_urls import SAS, SECRET_URLS, SIGNED, make_secret_rasters
from tests.promises.vending_catalog import VendingCatalog
from tests.small_tables import PLACES, data, make_delta, make_iceberg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.promises.echo_server import EchoServer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("promises")]

KEYS = {
    "aws_access_key_id": CANARIES["accessKeyId"],
    "aws_secret_access_key": CANARIES["secretKey"],
    "aws_session_token": CANARIES["sessionToken"],
}
CATALOG = {
    "token": CANARIES["bearerToken"],
    "credential": f"me:{CANARIES['clientSecret']}",
    "header.X-Secret": CANARIES["headerSecret"],
    "s3.access-key-id": CANARIES["accessKeyId"],
    "s3.secret-access-key": CANARIES["secretKey"],
    "s3.session-token": CANARIES["sessionToken"],
    "adls.account-key": CANARIES["accountKey"],
}
WHERE = "ST_Intersects(geom, 'POINT(10 50)')"


@pytest.fixture(autouse=True)
def secrets_all_around(monkeypatch, tmp_path, caplog) -> Iterator[None]:
    """The environment has secrets too, and no logger prints any."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MY_PASSWORD", CANARIES["environment"])
    for name, value in KEYS.items():
        monkeypatch.setenv(name.upper(), value)
    caplog.set_level(logging.DEBUG)
    yield
    # These write down each call to the JVM and each address for those who debug them, and for nobody else.
    own = ("py4j", "urllib3")
    messages = [
        record.getMessage()
        for record in caplog.records
        if record.levelno > logging.DEBUG or not record.name.startswith(own)
    ]
    assert leaks("\n".join(messages)) == []


@pytest.fixture
def options(s3) -> dict[str, str]:
    return {**s3.options, **KEYS}


def password_in(url: str) -> str:
    """A URL with a user and a password."""
    return url.replace("://", f"://me:{quote_plus(CANARIES['uriPassword'])}@", 1)


def catalog(monkeypatch, name: str, properties: dict[str, str]) -> None:
    """Configure a catalog as PyIceberg's users do in the environment."""
    for key, value in properties.items():
        word = key.upper().replace("-", "_").replace(".", "__")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{word}", value)


# ---- What a table shows


def shown(value: Any) -> Iterator[Any]:
    """A value in every way in which it shows itself."""
    yield repr(value)
    yield str(value)
    for way in ("_repr_html_", "_repr_mimebundle_", "to_dict", "to_pylist", "get_state"):
        if callable(getattr(value, way, None)):
            yield getattr(value, way)()


def error_texts(error: BaseException) -> Iterator[Any]:
    """An error in every way in which it is told, with those that it came from."""
    yield repr(error)
    yield str(error)
    yield error.args
    yield vars(error)
    yield "".join(traceback.format_exception(error))


def answers_of(table: gl.Table) -> dict[str, Callable[[], Any]]:
    """Calls on a table."""
    return {
        "table": lambda: table,
        "location": lambda: table.location,
        "files": lambda: table.files,
        "file table": lambda: table.files.table,
        "schema": lambda: table.schema,
        "protocol": lambda: table.protocol,
        "properties": lambda: table.properties,
        "snapshot": lambda: table.snapshot,
        "source": lambda: table._source,
        "catalog": lambda: table._source.catalog,
        "storage": lambda: table._source.storage,
        "history": table.history,
        "row groups": table.row_groups,
        "findings": table.check,
        "explanation": lambda: table.explain(WHERE, row_groups=True),
        "plan": table.plan_repair,
        "thorough plan": lambda: table.plan_repair(verify=True),
        "rewrite": lambda: table.plan_rewrite(cluster_by="geom"),
        "undo": table.plan_undo,
        "dialog": table.edit_rewrite,
        "map": lambda: table.map(where=WHERE),
        "folium": lambda: table.to_folium().get_root().render(),
        "geojson": table.to_geojson,
    }


def outputs(table: gl.Table, folder: Path) -> Iterator[tuple[str, Any]]:
    """All that an open table prints and shows and writes to share."""
    for name, ask in answers_of(table).items():
        try:
            value = ask()
        except GeolakeError as error:  # a web server is not written to, and says so
            yield from ((name, text) for text in error_texts(error))
            continue
        yield from ((name, text) for text in shown(value))
        for widget in _widgets(value):
            yield "widget", widget.get_state()
    for name in ("a.html", "a.geojson", "a.parquet"):
        table.export(folder / name)
    table.report(folder / "report.html", where=WHERE, footers=True)
    for path in folder.iterdir():
        yield path.name, path.read_bytes()
    boxes = pq.read_table(folder / "a.parquet")
    yield "a.parquet", [boxes.to_pylist(), str(boxes.schema.metadata)]


def _widgets(*values: Any) -> list[Any]:
    """The widgets among these, and all that they hold."""
    from ipywidgets import Widget

    widgets = [value for value in values if isinstance(value, Widget)]
    for value in widgets:
        for trait in vars(value).get("_trait_values", {}).values():
            inner = trait if isinstance(trait, list | tuple) else [trait]
            widgets += [widget for widget in inner if isinstance(widget, Widget) and widget not in widgets]
    return widgets


def check_outputs(table: gl.Table, folder: Path) -> None:
    folder.mkdir()
    names = set()
    for name, output in outputs(table, folder):
        names.add(name)
        assert leaks(output) == [], name
    assert {*answers_of(table), "widget", "a.parquet", "report.html"} <= names


def test_of_a_table_in_a_bucket(s3, options, tmp_path):
    url = s3.upload(make_delta(tmp_path / "t", bounds=False), "lake", f"secrets/{tmp_path.name}")
    check_outputs(gl.open(url, storage_options=options), tmp_path / "out")


def test_of_what_others_wrote_into_a_table(tmp_path, capsys):
    values = {
        "fs.s3a.secret.key": CANARIES["secretKey"],
        "my.api_key": CANARIES["accessKeyId"],
        "connection": f"AccountName=x;AccountKey={quote_plus(CANARIES['accountKey'])}",
        "source": password_in("https://host.org/a") + f"?X-Amz-Signature={quote_plus(CANARIES['signature'])}",
        "auth": CANARIES["bearerToken"],
    }
    made = LogMaker(tmp_path / "t")
    fields = (field("id", "long", comment=values["source"]), field("geom", "geometry(OGC:CRS84)"))
    made.commit(0, protocol("geospatial"), metadata(*fields, **values))
    info = {"operationParameters": {"properties": json.dumps(values)}, "userMetadata": json.dumps(values)}
    made.commit(1, {"commitInfo": {"operation": "SET TBLPROPERTIES", **info}}, metadata(*fields, **values, more="1"))
    table = gl.open(str(tmp_path / "t"))
    # What is shown of a value is checked, not `repr`: that of a schema or of a finding is all that it holds.
    for value in (table, table.schema, table.history(), table.check(), table.diff(0, 1)):
        for way in (str, lambda value_of: value_of._repr_html_()):
            assert leaks(way(value)) == [], value
    table.report(tmp_path / "report.html")
    assert leaks((tmp_path / "report.html").read_text()) == []
    for words_ in (["open"], ["history"], ["history", "--json"], ["schema"], ["diff", "0", "1"]):
        command, *more = words_
        main([command, str(tmp_path / "t"), *more])
        assert leaks(capsys.readouterr()) == [], words_


def test_of_a_file_at_a_signed_url(tmp_path):
    make_delta(tmp_path / "t")
    with running(FolderStore(tmp_path)) as server:
        table = gl.open(password_in(f"{server.url}/t/part-0.parquet?{SIGNED}&{SAS}"))
        assert len(table.files) == 1
        check_outputs(table, tmp_path / "out")


def test_of_a_table_in_a_rest_catalog(rest_server, tmp_path, monkeypatch):
    uri, _ = rest_server
    name = registered(uri, make_iceberg(tmp_path / "t"), tmp_path)
    catalog(monkeypatch, "rest", {**CATALOG, "uri": password_in(uri)})
    check_outputs(gl.open(f"rest.secrets.{name}"), tmp_path / "out")


def test_of_a_table_whose_catalog_hands_out_credentials(tmp_path, monkeypatch):
    make_iceberg(tmp_path / "t")
    with running(VendingCatalog(tmp_path / "t" / "metadata" / "v1.metadata.json")) as server:
        catalog(monkeypatch, "vending", {"uri": server.url})
        table = gl.open("vending.a.b")
        # The secret is in use: the store of the table is opened with it.
        assert {"accessKeyId", "sessionToken"} <= set(leaks(dict(table._source.catalog.options)))
        check_outputs(table, tmp_path / "out")


def registered(uri: str, table: Path, folder: Path) -> str:
    """The name of a table that is put into a REST catalog."""
    name = folder.name.replace("-", "_")
    requests.post(f"{uri}/v1/namespaces", json={"namespace": ["secrets"], "properties": {}}, timeout=30)
    registration = {"name": name, "metadata-location": str(table / "metadata" / "v1.metadata.json")}
    requests.post(f"{uri}/v1/namespaces/secrets/register", json=registration, timeout=30).raise_for_status()
    return name


# ---- What errors contain


def check_error(act: Callable[[], Any]) -> GeolakeError:
    with pytest.raises(GeolakeError) as raised:
        act()
    for text in error_texts(raised.value):
        assert leaks(text) == [], str(raised.value)
    return raised.value


@pytest.fixture(scope="module")
def echo() -> Iterator[EchoServer]:
    """Refuses all, and says back what it was sent."""
    with echo_server(403) as server:
        yield server


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412])
@pytest.mark.parametrize("location", ["s3://lake/t", "az://lake/t", "abfss://lake@me.dfs.core.windows.net/t"])
def test_of_a_store_that_refuses(echo, location, status):
    echo.status = status
    options = {
        "s3": {**KEYS, "aws_endpoint": echo.url, "aws_region": "us-east-1"},
        "az": {"azure_storage_account_name": "me", "azure_storage_sas_token": SAS, "azure_storage_endpoint": echo.url},
        "abfss": {
            "azure_storage_account_key": base64.b64encode(CANARIES["accountKey"].encode()).decode(),
            "azure_storage_endpoint": echo.url,
        },
    }[location.partition(":")[0]]
    store_options = {**options, "allow_http": "true"}
    check_error(lambda: gl.open(location, storage_options=store_options).check())
    check_error(lambda: Storage.at(location, options=store_options).put_if_absent("a", b"abc"))
    check_error(lambda: Storage.at(location, options=store_options).read("a"))


def test_of_a_bucket_that_is_not_there(options):
    check_error(lambda: gl.open("s3://no-such-bucket/t", storage_options=options))
    check_error(lambda: Storage.at("s3://no-such-bucket/t", options=options).put_if_absent("a", b""))


def test_of_a_store_that_is_not_there(options, monkeypatch):
    store_options = {**options, "aws_endpoint": password_in("http://127.0.0.1:1")}
    check_error(lambda: Storage.at("s3://lake/t", options=store_options).put_if_absent("a", b""))
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{quote(CANARIES['proxyPassword'], safe='')}@127.0.0.1:1")
    store_options = {**options, "aws_endpoint": "http://localhost.localdomain:1"}
    check_error(lambda: Storage.at("s3://lake/t", options=store_options).put_if_absent("a", b""))


OPTIONS = {
    "an unknown name": {"aws_secret_acess_key": CANARIES["secretKey"]},
    "no Boolean": {**KEYS, "allow_http": CANARIES["secretKey"]},
    "no duration": {**KEYS, "timeout": CANARIES["secretKey"]},
    "no URL": {**KEYS, "aws_endpoint": f"ht tp://{CANARIES['uriPassword']}@host"},
    "no proxy": {**KEYS, "proxy_url": f"ht tp://me:{CANARIES['proxyPassword']}@host"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_of_options_that_do_not_fit(name):
    check_error(lambda: Storage.at("s3://lake/t", options=OPTIONS[name]).put_if_absent("a", b""))


def test_of_keys_that_do_not_fit():
    key = {"azure_storage_account_name": "me", "azure_storage_account_key": f"%{CANARIES['accountKey']}"}
    check_error(lambda: Storage.at("az://lake/t", options=key).read("a"))
    account = {"google_service_account_key": json.dumps({"private_key": CANARIES["accountKey"], "client_email": "a"})}
    check_error(lambda: Storage.at("gs://lake/t", options=account).read("a"))


@pytest.mark.parametrize("status", [400, 401, 403, 404])
@pytest.mark.parametrize("path", ["a.parquet", "t", "t/*.parquet", "metadata/v1.metadata.json", "a%20b.parquet"])
def test_of_a_signed_url_that_is_refused(echo, path, status):
    echo.status = status
    check_error(lambda: gl.open(password_in(f"{echo.url}/{path}?{SIGNED}")))


def test_of_urls_that_cannot_be_read(s3):
    for url in (
        f"http://me:{CANARIES['uriPassword']}@host:port/a.parquet?{SIGNED}",
        f"http://me:{quote_plus(CANARIES['uriPassword'])}@host:port/a.parquet?{SIGNED}",
        f"ftp://me:{quote_plus(CANARIES['uriPassword'])}@host/a.parquet?{SIGNED}",
        f"http://[::1/a.parquet?{SIGNED}",
        f"file://{quote_plus(CANARIES['uriPassword'])}@host/a?{SIGNED}",
        f"{s3.url}/lake/none/a.parquet?{SIGNED}",
        f"{s3.url}/lake/none/[a].parquet?{SAS}",
        f"{s3.url}?{SIGNED}",
    ):
        check_error(lambda url=url: gl.open(url))


def test_of_objects_whose_names_hold_secrets(s3, options, tmp_path):
    for url in (f"s3://lake/none?{SIGNED}", f"s3://lake/none/a.parquet?{SIGNED}", f"{tmp_path}/none?{SAS}"):
        check_error(lambda url=url: gl.open(url, storage_options=options))
        check_error(lambda url=url: Storage.at("s3://lake/t", options=options).read(url))
    make_delta(tmp_path / "t")
    for number, path in enumerate((f"a.parquet?{SAS}", f"../a.parquet?{SAS}", f"https://h.example/a.parquet?{SIGNED}")):
        made = LogMaker(tmp_path / f"t{number}")
        made.commit(0, protocol(), metadata(field("id", "long")), add(path, {"numRecords": 1}))
        check_error(lambda number=number: gl.open(tmp_path / f"t{number}").row_groups())


# ---- Rasters outside of the table


@pytest.fixture(scope="module")
def secret_rasters(tmp_path_factory) -> gl.Table:
    return gl.open(make_secret_rasters(tmp_path_factory.mktemp("rasters") / "t"))


def test_of_the_rasters_of_a_table(secret_rasters, tmp_path):
    browser = secret_rasters.browse_rasters(thumbnail=gl.rasters.thumbnails(secret_rasters))
    shown_urls = set()
    for number in range(len(SECRET_URLS)):
        browser.list.value = number
        (band,) = browser.details.bands
        shown_urls.add(band.url)
        check_shown(browser.details, browser.card, browser.card.value)
        widgets = _widgets(*vars(browser).values())
        assert browser.card in widgets
        for widget in widgets:
            assert leaks(widget.get_state()) == [], type(widget)
    # What is left distinguishes files.
    assert {"https://h.example/a.tif?...", "az://c/a.tif?...", "/vsicurl/https://h.example/a.tif?..."} <= shown_urls
    check_shown(secret_rasters.rasters(), secret_rasters.check(deep=True))


@pytest.mark.parametrize("roots", [(), ("/data", "https://h.example")], ids=["no root", "roots"])
def test_of_rasters_that_are_not_opened(secret_rasters, tmp_path, monkeypatch, roots):
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    checked = gl.rasters.check(secret_rasters, roots=roots)
    assert len(checked) == len(SECRET_URLS)
    assert set(checked["state"].to_pylist()) == ({"refused", "missing", "unreadable"} if roots else {"refused"})
    check_shown(checked)
    (path,) = secret_rasters.files.table["path"].to_pylist()
    for number, url in enumerate(SECRET_URLS):
        raster = gl.rasters.read(secret_rasters, path, number)
        assert raster.bands[0].out_db_url == url  # for those who read it
        check_shown(raster, raster.bands)
        for act in (
            gl.rasters.thumbnail,
            gl.rasters.statistics,
            lambda *a, **k: gl.rasters.to_geotiff(*a, "a.tif", **k),
        ):
            check_error(lambda act=act, raster=raster: act(raster, roots=roots))


def test_of_rasters_that_cannot_be_read(s3, options, tmp_path):
    """Files of those names are there, and hold no raster."""
    here = Raster(3, 2, (), None, GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0)))
    for name in (f"a.tif?{SAS}"[:200], f"none.tif?{SAS}"[:200]):
        if name.startswith("a."):
            (tmp_path / name).write_bytes(b"none")
            s3.put("lake", f"cogs/{name}", b"none")
        for root in (str(tmp_path), "s3://lake/cogs"):
            band = Band(PixelType.PT_8BUI, out_db_band_no=0, out_db_url=f"{root}/{name}")
            raster = replace(here, bands=(band,))
            ask = partial(gl.rasters.thumbnail, raster, roots=root, storage_options=options)
            error = check_error(ask)
            assert not isinstance(error, RefusedError)


def test_of_rasters_at_signed_urls(echo):
    for echo.status in (302, 403, 404):
        roots = OutDbRoots.of([password_in(f"{echo.url}/cogs?{SAS}")])
        for url in (f"{echo.url}/cogs/a.tif?{SIGNED}", f"{echo.url}/elsewhere/a.tif?{SIGNED}"):
            with pytest.raises(GeolakeError) as raised, roots.open(url):
                pass
            assert [leaks(text) for text in error_texts(raised.value)] == [[]] * 5
        assert leaks(repr(roots)) == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_of_a_rest_catalog_that_refuses(echo, monkeypatch, status):
    echo.status = status
    for name in ("token", "credential", "header.X-Secret"):
        catalog(monkeypatch, name[:6], {name: CATALOG[name], "uri": password_in(echo.url)})
        check_error(lambda name=name: gl.open(f"{name[:6]}.a.b"))


def test_of_catalogs_that_are_not_there(monkeypatch, tmp_path):
    for name, uri in {
        "rest": "http://127.0.0.1:1",
        "odd": "http://127.0.0.1:port",
        "sql": "postgresql://127.0.0.1:1/db",
        "lite": f"sqlite:////{tmp_path}/none.db",
        "hive": "thrift://127.0.0.1:1",
        "what": "nodialect+driver://127.0.0.1:1/db",
    }.items():
        secret = f"{password_in(uri)}?password={quote_plus(CANARIES['sqlPassword'])}"
        catalog(monkeypatch, name, {**CATALOG, "uri": secret, "type": {"what": "sql"}.get(name, "")})
        check_error(lambda name=name: gl.open(f"{name}.a.b"))


def test_of_a_configuration_that_cannot_be_read(tmp_path):
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  broken:\n token: [{CANARIES['bearerToken']}\n")
    check_error(lambda: gl.open("broken.b.c"))


# ---- What commands and cells print


def words(options: dict[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]


def test_of_commands(s3, options, tmp_path, capsys):
    url = s3.upload(make_delta(tmp_path / "t", bounds=False), "lake", f"secrets/{tmp_path.name}")
    commands = {
        "open": [], "schema": [], "files": [], "row-groups": [], "explain": ["--where", WHERE], "check": [],
        "report": ["-o", str(tmp_path / "report.html")], "repair": [], "rewrite": ["--cluster", "geom"],
        "history": [], "diff": ["0", "1"], "collations": [], "undo": [],
    }  # fmt: skip
    applied = {"repair": ["--apply"], "undo": ["--apply"], "history": []}
    for command, more in [*commands.items(), *applied.items()]:
        for form in ([], ["--json"]):
            code = main([command, url, *more, *form, *words(options)])
            out, err = capsys.readouterr()
            assert code in (0, 1, 2) or command in ("undo", "report"), err
            assert leaks(out + err) == [], command
    assert main(["open", "s3://no-such-bucket/t", *words(options)]) == 3
    assert leaks("".join(capsys.readouterr())) == []


@pytest.mark.parametrize(
    "wrong",
    [
        ["--storage-options", f"aws_secret_access_key={CANARIES['secretKey']}"],
        ["--storage-option", CANARIES["secretKey"]],
        ["--token", f"token={CANARIES['bearerToken']}"],
        [f"https://me:{quote_plus(CANARIES['uriPassword'])}@host/t?{SIGNED}"],
        [f"--storage-opt=azure_storage_sas_token={SAS}", "--no-such-option"],
    ],
    ids=["misspelled", "no value", "unknown", "one word too many", "both"],
)
def test_of_words_that_a_command_does_not_know(capsys, tmp_path, wrong):
    with contextlib.suppress(SystemExit):
        main(["open", str(tmp_path), *wrong])
    assert leaks("".join(capsys.readouterr())) == []
    with notebook(capsys) as cells:
        cells.shell.user_ns["t"] = str(tmp_path)
        line = " ".join(f'"{word}"' for word in ["open", str(tmp_path), *wrong])
        ran = cells.run(f"%geolake {line}", fails=True)
        assert leaks(ran.out) == []


def test_of_an_executed_notebook(s3, options, tmp_path, monkeypatch):
    """What a notebook keeps when it is saved: texts, cards, errors, and the state of widgets."""
    url = s3.upload(make_delta(tmp_path / "t", bounds=False), "lake", f"secrets/{tmp_path.name}")
    monkeypatch.setenv("GEOLAKE_OPTIONS", json.dumps(options))
    # The secrets come from the environment: a cell in which one is written has it in its source.
    cells = [
        "import json, os\nimport geolake_nb as gl\n%load_ext geolake_nb\n"
        f"t = gl.open({url!r}, storage_options=json.loads(os.environ['GEOLAKE_OPTIONS']))\nt",
        "t.plan_repair()",
        "%geolake map t",
        f'%geolake explain t --where "{WHERE}"',
        "%geolake check t",
        "%geolake history t",
        "t._source, t._source.storage, vars(t)",
        "r = %geolake repair t --apply\nr",
        "%geolake open s3://no-such-bucket/t",
        "%geolake --debug open s3://no-such-bucket/t",
        "gl.open('s3://no-such-bucket/t', storage_options=json.loads(os.environ['GEOLAKE_OPTIONS']))",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(book, timeout=120, kernel_name="python3", allow_errors=True, store_widget_state=True).execute()
    saved = nbformat.writes(book)
    assert leaks(saved) == []
    assert "application/vnd.jupyter.widget-state+json" in book.metadata["widgets"]
    kinds = [[output.output_type for output in cell.outputs] for cell in book.cells]
    assert all(kinds), kinds
    assert sum("error" in kinds_of_cell for kinds_of_cell in kinds) == 3


# ---- What is stored


def check_stored(contents: dict[str, bytes]) -> None:
    assert contents
    for name, content in contents.items():
        assert leaks(content) == [], name


def check_shown(*values: Any) -> None:
    for value in values:
        for text in shown(value):
            assert leaks(text) == [], repr(value)[:100]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_of_changes_in_a_bucket(s3, options, tmp_path, spark):
    prefix = f"secrets/{tmp_path.name}"
    url = s3.upload(make_delta(tmp_path / "t", bounds=False), "lake", prefix)
    table = gl.open(url, storage_options=options)
    repair = table.plan_repair()
    repaired = repair.apply()
    check_shown(repair, repaired, repaired.undo(), table.newest().history())
    assert leaks(repair.change.actions) == []
    check_stored(s3.objects("lake", prefix))

    # Jobs that fail report it, one from its workers on and one from the JVM, which knows nothing of the store.
    jvm = tmp_path / "jvm.log"
    thorough, rewrite = table.newest().plan_repair(verify=True), table.newest().plan_rewrite(cluster_by="geom")
    obstore.delete(S3Store("lake", config=direct(s3), client_options={"allow_http": True}), f"{prefix}/part-0.parquet")
    with jvm_output(spark, jvm):
        check_error(lambda: thorough.apply(spark=spark))
        check_error(lambda: rewrite.apply(spark=spark))
    assert leaks(jvm.read_text()) == []


def direct(s3) -> dict[str, str]:
    return {"endpoint": s3.url, "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}


@pytest.mark.parametrize("form", ["delta", "havasu"])
def test_of_a_table_made_from_a_signed_url(tmp_path, form):
    """The history of the new table says where its rows came from; the rows themselves are left out here."""
    make_delta(tmp_path / "t")
    with running(FolderStore(tmp_path)) as server:
        table = gl.open(password_in(f"{server.url}/t/part-0.parquet?{SIGNED}&{SAS}"))
        plan = table.plan_convert(tmp_path / "new", columns={"geom": gl.geometry()}, format=form)
    commit = {"delta": delta_commit, "havasu": havasu_commit}[form].commit_change
    commit(replace(plan.change, job=None), CommitContext(Storage.at(str(tmp_path / "new")), plan.transaction))
    check_shown(plan, gl.open(tmp_path / "new").history())
    stored = files_in(tmp_path / "new")
    assert any(b"part-0.parquet" in content for name, content in stored.items() if name.endswith(".json"))
    check_stored(stored)


def test_of_a_change_through_a_catalog(rest_server, tmp_path, monkeypatch, spark):
    uri, _ = rest_server
    entries = [FileEntry(f"{n}.parquet", rows=4, nulls={1: 0, 2: 0}, table=data(at)) for n, at in enumerate(PLACES)]
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    make_iceberg_table(tmp_path / "t", columns, entries, version=3)
    name = registered(uri, tmp_path / "t", tmp_path)
    with echo_server(target=uri) as server:
        # With a credential Iceberg requests a token of its own.
        settings = {key: value for key, value in CATALOG.items() if key != "credential"}
        catalog(monkeypatch, "rest", {**settings, "uri": server.url})
        table = gl.open(f"rest.secrets.{name}")
        plan = table.plan_repair()
        with jvm_output(spark, tmp_path / "jvm.log"):
            for server.status in (400, 401, 403):
                error = check_error(lambda: plan.apply(spark=spark))
                # What the server said has come through, but for the secrets in it.
                assert "Authorization: ***" in str(error.__cause__)
            server.status = None
            check_shown(plan, plan.apply(spark=spark), table.history())
    check_stored(files_in(tmp_path))


def test_that_the_search_finds_a_secret_in_any_writing():
    for name, canary in CANARIES.items():
        packed = base64.b64encode(zlib.compress(canary.encode())).decode()
        for output in (
            canary, f"the first line is {canary[:20]}", quote(canary), quote_plus(canary), html.escape(canary),
            base64.b64encode(f"me:{canary}".encode()), base64.urlsafe_b64encode(f"x{canary}y".encode()).decode(),
            {"state": [{"buffer": memoryview(canary.encode())}]}, json.dumps({"base64": packed, "deflate": True}),
            canary.encode().hex(),
        ):  # fmt: skip
            assert leaks(output) == [name]
