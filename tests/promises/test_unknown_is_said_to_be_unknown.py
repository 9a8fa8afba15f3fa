"""Unknown is said to be unknown: a commit whose answer is lost is neither failed nor tried again, and a look tells.

The stores and the catalog are real servers on loopback; a proxy before them lets the commit through and hangs up
instead of passing the answer back, or hangs up before the server has seen it.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

import geolake_nb as gl
from geolake_nb.api.plan import Plan
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import GeolakeError, OutcomeUnknownError, StorageError
from geolake_nb.formats.base import CommitContext, TableSource
from geolake_nb.formats.delta.commit import log_path
from geolake_nb.formats.havasu.commit import commit_change
from geolake_nb.formats.parquet_folder.commit import action
from geolake_nb.formats.parquet_folder.file_changes import FileState
from geolake_nb.formats.parquet_folder.journal import STAGED
from geolake_nb.formats.registry import DELTA, ICEBERG, PARQUET
from geolake_nb.model.change import Change, Verb
from geolake_nb.storage.object_store import ObjectPrefix
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_rows import EWKB, planned_append, planned_table, points
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet_sets import make_set
from tests.formats.parquet_sets import points as set_points
from tests.http_proxy import Fate, proxy_to
from tests.promises.dropping_proxy import dropping_proxy
from tests.promises.foreign_fields import entries_in, local
from tests.small_tables import PLACES, data, make_delta, shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.promises.dropping_proxy import DroppingProxy

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("promises")]

LOST = [Fate.ANSWER_LOST, Fate.REQUEST_LOST]


@dataclass
class Changed:
    """A table behind the proxy, and a plan for it."""

    plan: Plan
    proxy: DroppingProxy
    open: Callable[[], gl.Table]
    stored: Callable[[], set[str]]
    """All files below the table, seen past the proxy."""
    options: dict[str, Any] = field(default_factory=dict)

    def apply(self) -> gl.api.plan.Report:
        return self.plan.apply(**self.options)

    def landed(self) -> int:
        """How many versions the history has that are of our transaction."""
        counts = Counter(
            entry.details.get("txnId")
            or entry.details.get("transaction")
            or entry.details.get("summary", {}).get("geolake.transaction")
            for entry in self.open().history()
        )
        return counts[self.plan.transaction]


@pytest.fixture(scope="module")
def s3_proxy(s3) -> Iterator[DroppingProxy]:
    with dropping_proxy(s3.url) as proxy:
        yield proxy


def in_bucket(s3, proxy: DroppingProxy, prefix: str) -> dict[str, Any]:
    url, options = f"s3://lake/{prefix}", s3.options | {"aws_endpoint": proxy.url}
    return {
        "proxy": proxy,
        "open": lambda: gl.open(url, storage_options=options),
        "stored": lambda: set(s3.objects("lake", prefix)),
    }


@pytest.fixture
def delta(s3, s3_proxy, tmp_path) -> Changed:
    """A repair of a Delta table in a bucket, by Parquet footers and without a session."""
    s3.upload(make_delta(tmp_path / "t", bounds=False), "lake", f"unknown/{tmp_path.name}")
    options = in_bucket(s3, s3_proxy, f"unknown/{tmp_path.name}")
    return Changed(options["open"]().plan_repair(), **options)


@pytest.fixture
def delta_undo(delta) -> Changed:
    """The way back from such a repair, which is a version of its own."""
    delta.apply()
    delta.plan = delta.open().plan_undo()
    return delta


@pytest.fixture
def delta_rewrite(s3, s3_proxy, tmp_path) -> Changed:
    """A file with the rows of another and one with new rows, for a Delta table in a bucket; both are written."""
    folder = make_delta(tmp_path / "t")
    add = next(
        json.loads(line) for line in (folder / log_path(0)).read_text().splitlines() if line.startswith('{"add"')
    )
    for name in ("same.parquet", "more.parquet"):
        shutil.copy(folder / add["add"]["path"], folder / name)
    adds = [{"add": {**add["add"], "path": name}} for name in ("same.parquet", "more.parquet")]
    gone = {"remove": {"path": add["add"]["path"], "deletionTimestamp": 1, "dataChange": True}}
    url = s3.upload(folder, "lake", f"unknown/{tmp_path.name}")
    storage = Storage.at(url, options=s3.options | {"aws_endpoint": s3_proxy.url})
    change = Change(Verb.REWRITE, DELTA, url, 1, actions=[json.dumps(action) for action in (gone, *adds)])
    plan = Plan(change, TableSource(DELTA, storage, url))
    return Changed(plan, **in_bucket(s3, s3_proxy, f"unknown/{tmp_path.name}"))


@pytest.fixture
def havasu(s3, s3_proxy, tmp_path) -> Changed:
    """Rows for a Havasu table in a bucket: the files are written, and only the commit is left to do."""
    url = f"s3://lake/unknown/{tmp_path.name}"
    storage = Storage.at(url, options=s3.options | {"aws_endpoint": s3_proxy.url})
    commit_change(planned_table(storage, points(3), columns=EWKB), CommitContext(storage, "first"))
    change = planned_append(storage, points(2, first=10))
    plan = Plan(change, TableSource(ICEBERG, storage, url))
    return Changed(plan, **in_bucket(s3, s3_proxy, f"unknown/{tmp_path.name}"))


@pytest.fixture
def iceberg(rest_server, spark, tmp_path, monkeypatch) -> Iterator[Changed]:
    """A repair of an Iceberg table in a REST catalog."""
    entries = [FileEntry(f"{n}.parquet", rows=4, nulls={1: 0, 2: 0}, table=data(at)) for n, at in enumerate(PLACES)]
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    path = make_iceberg_table(tmp_path, columns, entries, version=3)
    uri, _ = rest_server
    name = tmp_path.name.replace("-", "_")
    requests.post(f"{uri}/v1/namespaces", json={"namespace": ["unknown"], "properties": {}}, timeout=30)
    registration = {"name": name, "metadata-location": str(path)}
    requests.post(f"{uri}/v1/namespaces/unknown/register", json=registration, timeout=30).raise_for_status()
    with dropping_proxy(uri) as proxy:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PYICEBERG_CATALOG__REST__URI", proxy.url)

        def opened() -> gl.Table:
            return gl.open(f"rest.unknown.{name}")

        def stored() -> set[str]:
            return {str(path) for path in tmp_path.rglob("*") if path.is_file()}

        yield Changed(opened().plan_repair(), proxy, opened, stored, {"spark": spark})


@pytest.mark.parametrize("fate", LOST, ids=lambda fate: fate.value)
@pytest.mark.parametrize("kind", ["delta", "delta_rewrite", "delta_undo", "havasu", "iceberg"])
def test_a_lost_commit_is_unknown_until_the_table_is_read(request, kind, fate):
    table: Changed = request.getfixturevalue(kind)
    commit_count, removed, before = len(table.proxy.commits), len(table.proxy.removals), table.stored()

    with table.proxy.losing(fate), pytest.raises(OutcomeUnknownError, match="may or may not be in the table") as raised:
        table.apply()
    # It names what to check for, and neither we nor the library below us retried.
    assert table.plan.transaction in str(raised.value)
    assert len(table.proxy.commits) == commit_count + 1

    # Whatever the commit would refer to is still there.
    left = table.stored()
    assert len(table.proxy.removals) == removed
    assert before <= left
    if not kind.startswith("delta") or fate is Fate.ANSWER_LOST:
        assert before < left

    assert table.landed() == (1 if fate is Fate.ANSWER_LOST else 0)
    report = table.apply()
    assert len(table.proxy.commits) == commit_count + (1 if fate is Fate.ANSWER_LOST else 2)
    assert table.landed() == 1
    assert table.apply().version == report.version == table.open().version
    assert table.landed() == 1
    assert left <= table.stored()
    if kind == "havasu":
        assert table.open().files.table["rows"].to_pylist() == [3, 2]
    elif kind == "delta_rewrite":
        paths = {"more.parquet", "same.parquet", *(f"part-{number}.parquet" for number in range(1, len(PLACES)))}
        assert set(table.open().files.table["path"].to_pylist()) == paths
    elif kind == "delta_undo":
        assert not table.open().files.boxes("geom").known.any()
    else:
        assert table.open().files.boxes("geom").known.all()
        assert table.open().plan_repair().is_empty


@pytest.mark.parametrize("fate", LOST, ids=lambda fate: fate.value)
@pytest.mark.parametrize("kind", ["havasu", "iceberg"])
def test_a_lost_rollback_is_unknown_until_the_table_is_read(request, kind, fate):
    """It makes no new snapshot that could hold our transaction."""
    table: Changed = request.getfixturevalue(kind)
    before = table.open().version
    after = table.apply().version
    table.plan = table.open().plan_undo()
    commit_count = len(table.proxy.commits)
    with table.proxy.losing(fate), pytest.raises(OutcomeUnknownError, match=f"{before} is the current snapshot"):
        table.apply()
    assert table.open().version == (before if fate is Fate.ANSWER_LOST else after)
    assert table.apply().version == before
    assert table.apply().version == before == table.open().version
    assert len(table.proxy.commits) == commit_count + (1 if fate is Fate.ANSWER_LOST else 2)


# ---- Sets of Parquet files, which have no commit: each request of a change is one that can be lost.


def set_in_bucket(s3, proxy: DroppingProxy, folder: Path, kind: str, name: str) -> Changed:
    """A set of two files, of which one is to be replaced, by its own name or another, or a single file to repair."""
    prefix = f"unknown/{name}"
    url = s3.upload(folder, "lake", prefix)
    bucket = in_bucket(s3, proxy, prefix)
    if kind == "repair":
        return Changed(bucket["open"]().plan_repair(), **bucket)
    storage = Storage.at(url, options=s3.options | {"aws_endpoint": proxy.url})
    size = (folder / STAGED / "x.parquet.new").stat().st_size
    path = "0.parquet" if kind == "rewrite in place" else "x.parquet"
    put = {"path": path, "from": f"{STAGED}/x.parquet.new", "bytes": size, "rows": 10}
    actions = [action("take", FileState.now(storage, "0.parquet").to_dict()), action("put", put)]
    change = Change(Verb.REWRITE, PARQUET, url, None, actions=actions)
    return Changed(Plan(change, TableSource(PARQUET, storage, url)), **bucket)


def ids_in_bucket(s3, name: str) -> list[int]:
    """The ids that a reader sees who skips hidden names."""
    prefix = f"unknown/{name}/"
    files = [data for path, data in s3.objects("lake", prefix).items() if path.removeprefix(prefix)[0] != "_"]
    return sorted(id_ for data in files for id_ in pq.read_table(pa.BufferReader(data))["id"].to_pylist())


# How many requests change something before the entry in the journal is written, and from then on. A repair first
# removes and writes the footers to keep. Between the entry and its end there is a new file, or there are two copies
# and two removals; a copy over the old file needs no removal of that one.
REQUESTS = {"repair": (2, 3), "rewrite": (0, 6), "rewrite in place": (0, 5)}


@pytest.fixture
def asking_once(monkeypatch) -> None:
    """What is lost is lost for as long as the library below us would ask again."""
    opened, once = ObjectPrefix._open, {"retry_config": {"max_retries": 0}}
    monkeypatch.setattr(ObjectPrefix, "_open", lambda *words, **options: opened(*words, **once | options))


@pytest.mark.usefixtures("asking_once")
@pytest.mark.parametrize("fate", LOST, ids=lambda fate: fate.value)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_lost_request_of_a_parquet_set_is_unknown_until_it_is_read(s3, s3_proxy, tmp_path, kind, fate):
    before, after = REQUESTS[kind]
    folder = make_set(tmp_path / "t", files=1 if kind == "repair" else 2)
    ids = list(range(10 if kind == "repair" else 20))
    if kind != "repair":
        (folder / STAGED).mkdir(parents=True)
        pq.write_table(set_points(0, 10), folder / STAGED / "x.parquet.new")
    for number in range(1, before + after + 1):
        name = f"{tmp_path.name}-{number}"
        table = set_in_bucket(s3, s3_proxy, folder, kind, name)
        count = len(s3_proxy.changes)
        problem = StorageError if number <= before else OutcomeUnknownError
        words = "unchanged|does not respond" if number <= before else "may or may not be in the table"
        with s3_proxy.losing_change(number, fate), pytest.raises(problem, match=words) as raised:
            table.apply()
        assert number <= before or table.plan.transaction in str(raised.value)
        # Nothing was retried, and nothing is cleaned up.
        assert len(s3_proxy.changes) == count + number

        now, begun = ids_in_bucket(s3, name), table.landed()
        assert len(set(now)) == len(now)
        assert begun == (number > before + (fate is Fate.REQUEST_LOST))
        is_moving = kind == "rewrite" and number > before + 1
        assert now == ids or (is_moving and set(now) < set(ids))
        if begun and not (number == before + after and fate is Fate.ANSWER_LOST):
            assert "(incomplete)" in str(table.open().history())

        report = table.apply()
        assert (ids_in_bucket(s3, name), table.landed(), report.version) == (ids, 1, 1)
    table = set_in_bucket(s3, s3_proxy, folder, kind, f"{tmp_path.name}-whole")
    count = len(s3_proxy.changes)
    table.apply()
    assert len(s3_proxy.changes) == count + before + after
    assert table.apply().already_applied
    assert len(s3_proxy.changes) == count + before + after


@pytest.mark.parametrize("number", [2, 3], ids=["footers to keep", "journal"])
def test_a_parquet_set_meets_what_it_has_written_itself(s3, s3_proxy, tmp_path, number):
    """Once more with a store that has written and calls itself too busy."""
    table = set_in_bucket(s3, s3_proxy, make_set(tmp_path / "t", files=1), "repair", tmp_path.name)
    count = len(s3_proxy.changes)
    with s3_proxy.losing_change(number, Fate.CALLED_REFUSED):
        assert table.apply().version == 1
    assert [change.status for change in s3_proxy.changes[count:]] == [*[200] * number, 412, *[200] * (5 - number)]
    assert (table.landed(), ids_in_bucket(s3, tmp_path.name)) == (1, list(range(10)))
    assert table.open().plan_repair().is_empty


# ---- Iceberg: rows that are written, for a table that is there or for a new one


def kept_ids(uri: str, name: str) -> list[int]:
    """The ids in the live files of a table, by what the catalog says past the proxy, fastavro and pyarrow."""
    metadata = requests.get(f"{uri}/v1/namespaces/unknown/tables/{name}", timeout=30).json()["metadata"]
    current = next(entry for entry in metadata["snapshots"] if entry["snapshot-id"] == metadata["current-snapshot-id"])
    files = [entry["data_file"]["file_path"] for entry in entries_in(current["manifest-list"]) if entry["status"] != 2]
    return sorted(id_ for path in files for id_ in pq.read_table(local(path), columns=["id"])["id"].to_pylist())


@pytest.mark.parametrize(
    ("verb", "fate"),
    [("append", LOST[0]), ("rewrite", LOST[0]), ("create", LOST[0]), ("create", LOST[1])],
    ids=lambda parameter: getattr(parameter, "value", parameter),
)
def test_files_of_a_lost_commit_are_kept_and_rows_come_once(iceberg, rest_server, tmp_path, verb, fate):
    (uri, warehouse), name = rest_server, tmp_path.name.replace("-", "_")
    rows = pa.table({"id": [70, 71], "geom": [shape.wkb for shape in shapes((1, 2))[:2]]})
    ids = sorted([*range(4)] * len(PLACES))
    if verb == "rewrite":
        iceberg.plan = iceberg.open().plan_rewrite(cluster_by="geom")
    else:
        ids = [70, 71] if verb == "create" else [*ids, 70, 71]
        name = f"new_{name}" if verb == "create" else name
        options = {"columns": {"geom": gl.geometry()}} if verb == "create" else {}
        iceberg.plan = plan_write(rows, f"rest.unknown.{name}", format="iceberg", mode=verb, **options)
        iceberg.open = lambda: gl.open(f"rest.unknown.{name}")

    def data_files() -> set[str]:
        return {str(path) for root in (tmp_path, warehouse / "unknown") for path in root.rglob("*.parquet")}

    commit_count, before = len(iceberg.proxy.commits), data_files()
    with (
        iceberg.proxy.losing(fate),
        pytest.raises(OutcomeUnknownError, match="may or may not be in the table") as raised,
    ):
        iceberg.apply()
    assert iceberg.plan.transaction in str(raised.value)
    assert len(iceberg.proxy.commits) == commit_count + 1
    left = data_files()
    assert before < left
    if fate is Fate.ANSWER_LOST:
        assert (iceberg.landed(), kept_ids(uri, name)) == (1, ids)
    else:
        assert requests.get(f"{uri}/v1/namespaces/unknown/tables/{name}", timeout=30).status_code == 404
    # A table whose creation failed is created now; else nothing is sent and nothing written.
    version = iceberg.apply().version
    assert iceberg.apply().version == version == iceberg.open().version
    assert len(iceberg.proxy.commits) == commit_count + (1 if fate is Fate.ANSWER_LOST else 2)
    assert left == data_files() if fate is Fate.ANSWER_LOST else left < data_files()
    assert (iceberg.landed(), kept_ids(uri, name)) == (1, ids)


def test_a_table_whose_location_is_unknown_is_not_created(rest_server, spark, tmp_path, monkeypatch):
    """Before the rows are written the catalog says where they will lie; without its answer nothing is there."""
    (uri, warehouse), name = rest_server, f"placeless_{tmp_path.name}".replace("-", "_")
    requests.post(f"{uri}/v1/namespaces", json={"namespace": ["unknown"], "properties": {}}, timeout=30)
    with proxy_to(uri) as proxy:
        proxy.rule = lambda method, path: (
            Fate.ANSWER_LOST if (method, path[-7:]) == ("POST", "/tables") else Fate.PASSES
        )
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PYICEBERG_CATALOG__REST__URI", proxy.url)
        rows = pa.table({"id": [70], "geom": [shapes((1, 2))[0].wkb]})
        plan = plan_write(rows, f"rest.unknown.{name}", format="iceberg", columns={"geom": gl.geometry()})
        with pytest.raises(GeolakeError) as raised:
            plan.apply(spark=spark)
        assert not isinstance(raised.value, OutcomeUnknownError)
        assert [exchange.method for exchange in proxy.seen].count("POST") == 1
    assert requests.get(f"{uri}/v1/namespaces/unknown/tables/{name}", timeout=30).status_code == 404
    assert not list(warehouse.glob(f"**/{name}/**/*"))


@pytest.mark.parametrize("kind", ["delta", "havasu"])
def test_a_request_to_a_busy_store_is_retried(request, kind):
    table: Changed = request.getfixturevalue(kind)
    commit_count = len(table.proxy.commits)
    with table.proxy.losing(Fate.REFUSED, count=2):
        report = table.apply()
    assert len(table.proxy.commits) == commit_count + 3
    assert report.rebased_over == ()
    assert (table.landed(), table.open().version) == (1, report.version)


@pytest.mark.parametrize("kind", ["delta", "havasu"])
def test_meeting_our_own_commit_is_not_a_lost_race(request, kind):
    """A request to a store that has written but reports that it is busy is retried: the file already exists."""
    table: Changed = request.getfixturevalue(kind)
    with table.proxy.losing(Fate.CALLED_REFUSED, count=1):
        report = table.apply()
    assert [commit.status for commit in table.proxy.commits[-2:]] == [200, 412]
    assert report.rebased_over == ()
    assert (table.landed(), table.open().version) == (1, report.version)


def test_what_tries_the_store_is_not_taken_for_the_commit(s3, delta, tmp_path):
    """Before the commit the store shows, with a file of no meaning, that it excludes writers."""
    with proxy_to(s3.url) as proxy:
        proxy.rule = lambda method, path: Fate.ANSWER_LOST if path.endswith(".probe") else Fate.PASSES
        options = s3.options | {"aws_endpoint": proxy.url}
        plan = gl.open(f"s3://lake/unknown/{tmp_path.name}", storage_options=options).plan_repair()
        before = delta.stored()
        with pytest.raises(StorageError, match="no changes were made"):
            plan.apply()
        assert delta.stored() == before


def test_other_requests_are_still_repeated(s3, tmp_path):
    """Reads and writes without a condition do no harm twice."""
    s3.put("lake", f"unknown/{tmp_path.name}/a", b"abc")
    with proxy_to(s3.url) as proxy:
        fates = [Fate.PASSES, Fate.ANSWER_LOST, Fate.REQUEST_LOST]
        proxy.rule = lambda method, path: fates.pop() if fates else Fate.PASSES
        storage = Storage.at(f"s3://lake/unknown/{tmp_path.name}", options=s3.options | {"aws_endpoint": proxy.url})
        assert storage.read("a") == b"abc"
        assert len(proxy.seen) == 3
