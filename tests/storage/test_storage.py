from __future__ import annotations

import http.server
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geolake_nb.errors import CorruptTableError, MissingFileError, StorageError
from geolake_nb.parquet.footer import read_metadata
from geolake_nb.storage.storage import Storage
from tests.http_proxy import proxy_to
from tests.storage.s3_endpoint import KEY, SECRET

FILES = {
    "a.txt": b"hello",
    "empty": b"",
    "x=1/b.txt": b"bee",
    "k=a%20b/ü y.txt": b"odd",
    "sub/deep/c": b"sea",
}


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "table"
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (tmp_path / "table2").mkdir()
    (tmp_path / "table2" / "secret.txt").write_bytes(b"secret")
    return root


@pytest.fixture(params=["local", "s3"])
def storage(request, folder):
    if request.param == "local":
        return Storage.at(str(folder))
    s3 = request.getfixturevalue("s3")
    return Storage.at(s3.upload(folder, "lake", f"storage/{folder.parent.name}"), options=s3.options)


def test_every_store_reads_the_same(storage):
    for name, data in FILES.items():
        assert storage.read(name) == data
        assert storage.size(name) == len(data)
        assert storage.exists(name)
        assert storage.open(name).read() == data
    assert list(storage.read_many(list(FILES))) == list(FILES.values())


def test_a_special_file_is_refused_and_does_not_block(folder):
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    storage = Storage.at(str(folder))
    ways = [
        storage.read,
        storage.size,
        storage.open,
        lambda key: storage.tail(key, 8),
        lambda key: storage.read_range(key, 0, 1),
        lambda key: list(storage.iter_chunks(key, 1)),
    ]

    def waited(*_):
        raise AssertionError("the pipe is waited for")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(20)
    try:
        for key in ("pipe", "link"):
            for way in ways:
                with pytest.raises(StorageError, match=f"{key}: this is a pipe, a socket or a device, not a file$"):
                    way(key)
        for way in ways:
            with pytest.raises(StorageError, match="this is a folder, not a file"):
                way("sub")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_ranges_end_where_the_file_ends(storage):
    assert storage.read_range("a.txt", 1, 3) == b"ell"
    assert storage.read_range("a.txt", 3, 100) == b"lo"
    assert storage.read_range("a.txt", 5, 10) == b""
    assert storage.read_range("a.txt", 99, 10) == b""
    assert storage.read_range("a.txt", 0, 0) == b""


def test_listings_have_files_only_and_are_sorted(storage):
    entries = storage.list(recursive=True)
    assert [entry.path for entry in entries] == sorted(FILES)
    assert [entry.bytes for entry in entries] == [len(FILES[entry.path]) for entry in entries]
    assert all(timedelta(0) <= datetime.now(UTC) - entry.modified < timedelta(hours=1) for entry in entries)
    assert [entry.path for entry in storage.list()] == ["a.txt", "empty"]
    assert [entry.path for entry in storage.list("sub", recursive=True)] == ["sub/deep/c"]
    assert storage.folders() == ["k=a%20b", "sub", "x=1"]
    assert storage.folders("sub") == ["sub/deep"]


def test_a_missing_folder_lists_as_empty(storage):
    assert storage.list("nothing") == storage.folders("nothing") == []
    # The prefix is a folder, not the start of a name.
    assert storage.list("su", recursive=True) == []
    assert storage.is_folder("sub")
    assert not storage.is_folder("su")
    assert not storage.exists("sub")


@pytest.mark.parametrize("path", ["none.txt", "sub/none/deeper", "a.txt/below"])
def test_a_missing_file_is_named(storage, path):
    assert not storage.exists(path)
    for ask in (storage.read, storage.size, lambda name: storage.read_range(name, 0, 4)):
        with pytest.raises(MissingFileError) as caught:
            ask(path)
        assert str(caught.value) == f"{storage.location}/{path}: there is no such file"
        assert isinstance(caught.value, FileNotFoundError)


def test_missing_files_are_none_only_with_missing_ok(storage):
    assert list(storage.read_many(["a.txt", "none"], missing_ok=True)) == [b"hello", None]
    with pytest.raises(MissingFileError):
        list(storage.read_many(["a.txt", "none"]))


def test_many_files_come_in_order(tmp_path):
    names = [f"{number:04}" for number in range(500)]
    for name in names:
        (tmp_path / name).write_text(name)
    storage = Storage.at(str(tmp_path))
    assert [data.decode() for data in storage.read_many(names, workers=4)] == names
    first = storage.read_many(names)
    assert next(first) == b"0000"
    first.close()


# paths


@pytest.mark.parametrize(
    "path", ["../table2/secret.txt", "sub/../../table2/secret.txt", "..", "/etc/passwd", "file:///etc/passwd", "a\0b"]
)
def test_a_path_out_of_the_table_is_refused(folder, path):
    storage = Storage.at(str(folder))
    for ask in (storage.resolve, storage.read, storage.list, storage.exists):
        with pytest.raises(StorageError):
            ask(path)


@pytest.mark.parametrize(
    "path", ["s3://lake/t2/a", "s3://other/t/a", "https://lake/t/a", "/t/a", "s3://lake/t/../t2/a", "gs://lake/t/a"]
)
def test_a_url_of_another_place_is_refused(path):
    storage = Storage.at("s3://lake/t", options={"aws_region": "us-east-1"})
    with pytest.raises(StorageError, match="outside the table"):
        storage.resolve(path)


def test_an_unknown_scheme_names_the_known_ones():
    with pytest.raises(StorageError, match="unsupported URL scheme hdfs:; use a path or one of: abfs, abfss, az"):
        Storage.at("hdfs://name/t")


def test_stored_paths_resolve_to_keys(folder):
    storage = Storage.at(str(folder))
    for path in (f"{folder}/a.txt", f"file:{folder}/a.txt", f"file://{folder}/a.txt", "./a.txt", "sub/../a.txt"):
        assert storage.resolve(path) == "a.txt"
        assert storage.read(path) == b"hello"
    assert storage.resolve("k=a%20b/ü y.txt") == "k=a%20b/ü y.txt"
    remote = Storage.at("s3a://lake/t/", options={"aws_region": "us-east-1"})
    assert remote.location == "s3://lake/t"
    assert remote.resolve("s3://lake/t/k=a%20b/x") == remote.resolve("s3n://lake/t/k=a%20b/x") == "k=a%20b/x"


def test_a_root_behind_a_link_takes_both_of_its_names(folder, tmp_path):
    link = tmp_path / "alias"
    link.symlink_to(folder)
    for root, other in ((link, folder), (folder, link)):
        storage = Storage.at(str(root))
        assert storage.location == str(root)
        assert storage.resolve(f"{other}/sub/deep/c") == "sub/deep/c"
        assert storage.read(f"{other}/sub/deep/c") == b"sea"


def test_links_out_of_the_table_are_not_followed(folder, tmp_path):
    (folder / "leak.txt").symlink_to(tmp_path / "table2" / "secret.txt")
    (folder / "leak").symlink_to(tmp_path / "table2")
    (folder / "inside.txt").symlink_to(folder / "a.txt")
    storage = Storage.at(str(folder))
    assert storage.read("inside.txt") == b"hello"
    for path in ("leak.txt", "leak/secret.txt"):
        for ask in (storage.read, storage.resolve, storage.size, storage.open):
            with pytest.raises(StorageError, match="is outside the table"):
                ask(path)
    with pytest.raises(StorageError, match="is outside the table"):
        storage.list("leak")
    assert "leak/secret.txt" not in [entry.path for entry in storage.list(recursive=True)]


def test_a_link_that_goes_in_circles_does_not_hang_a_listing(folder):
    (folder / "sub" / "again").symlink_to(folder)
    (folder / "dangling").symlink_to(folder / "nowhere")
    assert [entry.path for entry in Storage.at(str(folder)).list(recursive=True)] == sorted(FILES)


def test_an_allowed_root_can_be_read(folder, tmp_path):
    (folder / "leak.txt").symlink_to(tmp_path / "table2" / "secret.txt")
    other = str(tmp_path / "table2")
    for storage in (Storage.at(str(folder), allowed_roots=[other]), Storage.at(str(folder)).allowing(other)):
        key = storage.resolve(f"file://{other}/secret.txt")
        assert key == f"{other}/secret.txt"
        assert storage.read(key) == storage.read("leak.txt") == b"secret"
        assert [entry.path for entry in storage.list(other)] == [key]
        with pytest.raises(StorageError):
            storage.read(f"{other}/../table3/x")
        with pytest.raises(StorageError):
            storage.read("../table2/secret.txt")


def test_the_working_directory_and_home_are_understood(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert Storage.at("table").location == Storage.at("~/table").location == str(folder)
    assert Storage.with_file("table/a.txt")[1] == "a.txt"


# permissions, servers and secrets


@contextmanager
def as_nobody():
    """Another user, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def public_copy(folder):
    """A copy where every user can go; pytest keeps the folders that it makes to itself."""
    with tempfile.TemporaryDirectory() as folder_:
        os.chmod(folder_, 0o755)
        copy = shutil.copytree(folder, Path(folder_) / "table")
        yield copy


def test_a_file_that_may_not_be_read_is_not_called_missing(folder):
    with public_copy(folder) as copy:
        (copy / "a.txt").chmod(0)
        (copy / "sub").chmod(0)
        storage = Storage.at(str(copy))
        try:
            with as_nobody():
                for ask, path in ((storage.read, "a.txt"), (storage.list, "sub"), (storage.exists, "sub/deep/c")):
                    with pytest.raises(StorageError) as caught:
                        ask(path)
                    expected = f"{copy}/{path}: reading is not permitted; check its permissions"
                    assert str(caught.value) == expected
                    assert not isinstance(caught.value, MissingFileError)
        finally:
            (copy / "sub").chmod(0o700)


def test_a_folder_is_not_a_file(folder):
    with pytest.raises(StorageError, match="this is a folder, not a file"):
        Storage.at(str(folder)).read("sub")


def test_a_missing_bucket_is_named(s3):
    storage = Storage.at("s3://no-such-bucket/t", options=s3.options)
    for ask in (storage.list, storage.folders):
        with pytest.raises(MissingFileError, match="s3://no-such-bucket/t: there is no such bucket or folder"):
            ask()
    with pytest.raises(MissingFileError, match="no such file"):
        storage.read("a")


@pytest.mark.parametrize("known", [0, -1, 1, 5_000_000, None])
def test_a_large_file_comes_in_parts_whatever_the_given_size(s3, known):
    data = random.Random(7).randbytes(11_000_000)
    s3.put("lake", "parts/a", data)
    with proxy_to(s3.url) as proxy:
        storage = Storage.at("s3://lake/parts", options=s3.options | {"aws_endpoint": proxy.url})
        assert storage.open("a", None if known is None else len(data) + known).read() == data
        whole = [request for request in proxy.seen if request.status == 200]
        parts = [request for request in proxy.seen if request.status == 206]
    if known == 0:
        assert (len(whole), len(parts)) == (0, 3)
    else:
        assert len(whole) == 1


def test_parts_of_a_file_that_is_replaced_meanwhile_are_not_mixed(s3, monkeypatch):
    old, new = b"o" * 9_000_000, b"n" * 9_000_000
    s3.put("lake", "replaced/a", old)
    storage = Storage.at("s3://lake/replaced", options=s3.options)
    get, calls, one_by_one = obstore.get, [], threading.Lock()

    def replacing(*words, **more):
        with one_by_one:
            calls.append(more)
            if len(calls) == 2:
                s3.put("lake", "replaced/a", new)
            return get(*words, **more)

    monkeypatch.setattr(obstore, "get", replacing)
    assert storage.open("a", 9_000_000).read() == new
    assert len(calls) == 4  # three parts, and then the whole


def test_another_location_in_a_bucket_must_be_allowed(s3):
    s3.put("lake", "clone/a", b"1")
    s3.put("lake", "source/b", b"2")
    storage = Storage.at("s3://lake/clone", options=s3.options)
    with pytest.raises(StorageError, match="outside the table"):
        storage.read("s3://lake/source/b")
    assert storage.allowing("s3://lake/source").read("s3a://lake/source/b") == b"2"


def test_an_unknown_option_is_named_and_a_writer_option_ignored(s3):
    with pytest.raises(StorageError, match="unknown storage option aws_regoin"):
        Storage.at("s3://lake/t", options={"aws_regoin": "x"})
    options = {**s3.options, "AWS_S3_ALLOW_UNSAFE_RENAME": "true", "aws_timeout": "30s"}
    assert Storage.at("s3://lake/no", options=options).list() == []


def test_secrets_never_show(s3):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
    options = {**s3.options, "aws_endpoint": dead, "aws_session_token": "TOKENTOKEN"}
    storage = Storage.at("s3://user:hush@lake/t", options=options)
    with pytest.raises(StorageError, match="the store does not respond") as caught:
        storage.read("a")
    cause = caught.value.__cause__
    shown = f"{storage!r} {storage.location} {caught.value!r} {caught.value} {cause!r} {storage._backend!r}"
    for secret in (KEY, SECRET, "TOKENTOKEN", "hush"):
        assert secret not in shown
    assert caught.value.__suppress_context__


class _Files(http.server.SimpleHTTPRequestHandler):
    requests: list[str]

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.requests.append(self.path)
        if "forbidden" in self.path:
            self.send_error(403)
            return
        with open(self.translate_path(self.path), "rb") as file:
            data = file.read()
        first, last = 0, len(data) - 1
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if wanted:
            low, high = wanted.split("-")
            first = int(low) if low else max(0, len(data) - int(high))
            last = min(int(high), last) if low and high else last
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Last-Modified", self.date_time_string())
        self.end_headers()
        self.wfile.write(data[first : last + 1])


@pytest.fixture
def web(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Files)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_signed_url_reads_its_file_and_hides_the_signature(web, folder):
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "f g.parquet")
    url = f"http://127.0.0.1:{web.server_port}/table/f%20g.parquet?X-Amz-Signature=abcdef"
    storage, name = Storage.with_file(url)
    assert storage.location == f"http://127.0.0.1:{web.server_port}/table"
    assert next(read_metadata(storage, [name])).num_rows == 3
    assert web.requests == ["/table/f%20g.parquet?X-Amz-Signature=abcdef"]
    (folder / "forbidden").write_bytes(b"")
    for ask in (lambda: storage.read("forbidden"), storage.list):
        with pytest.raises(StorageError) as caught:
            ask()
        assert "abcdef" not in str(caught.value)
    assert "the web server does not list folders; give the URL of a file" in str(caught.value)


def test_a_local_table_needs_no_obstore_and_a_bucket_says_what_to_install(folder):
    code = f"""
import sys
import tempfile
sys.modules["obstore"] = None
from geolake_nb.errors import MissingDependencyError
from geolake_nb.storage.storage import Storage
assert Storage.at({str(folder)!r}).read("a.txt") == b"hello"
for scheme, extra in (("s3", "s3"), ("gs", "gs"), ("abfss", "azure"), ("https", "http")):
    try:
        Storage.at(scheme + "://place/t")
    except MissingDependencyError as error:
        assert str(error).endswith("run pip install 'geolake-nb[" + extra + "]'"), error
    else:
        raise AssertionError(scheme)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=os.getcwd())


# footers


def test_footers_longer_than_the_first_read_are_read_too(storage, folder, request):
    wide = pa.table({f"a_column_with_a_long_name_{number}": [1] for number in range(1500)})
    buffer = pa.BufferOutputStream()
    pq.write_table(wide, buffer)
    data = buffer.getvalue().to_pybytes()
    assert int.from_bytes(data[-8:-4], "little") > 64 * 1024
    if storage.is_local:
        (folder / "wide.parquet").write_bytes(data)
    else:
        key = storage.location.removeprefix("s3://lake/")
        request.getfixturevalue("s3").put("lake", f"{key}/wide.parquet", data)
    seen = []
    footers = list(read_metadata(storage, ["wide.parquet"], on_progress=lambda *step: seen.append(step)))
    assert footers[0].num_columns == 1500
    assert footers[0].equals(pq.read_metadata(pa.BufferReader(data)))
    assert seen == [(1, 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-5], "the file is not Parquet, or it is truncated"),
        (lambda data: b"", "the file is empty, not a Parquet file"),
        (lambda data: b"id,name\n1,a\n", "the file is not Parquet, or it is truncated"),
        (lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1", "the Parquet footer claims 2147483647 bytes"),
        (lambda data: data[:-40] + b"\xff" * 32 + data[-8:], "the Parquet footer "),
        (lambda data: b"PAR1", "the file is not Parquet, or it is truncated"),
    ],
)
def test_a_broken_footer_is_one_clear_error(tmp_path, change, message):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes(change((tmp_path / "a.parquet").read_bytes()))
    with pytest.raises(CorruptTableError, match=message) as caught:
        list(read_metadata(Storage.at(str(tmp_path)), ["a.parquet"]))
    assert str(caught.value).startswith(f"{tmp_path}/a.parquet: ")


def test_a_relative_place_is_the_same_in_a_process_of_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = pickle.dumps(Storage.at("t"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    pickle.loads(text).put_if_absent("a", b"1")
    assert (tmp_path / "t" / "a").read_bytes() == b"1"
