"""Object stores at real latency: opening needs few sequential requests, and footers are read concurrently.

An S3 endpoint stands behind a proxy that adds 50 ms to each answer. What is asserted is counted there; the seconds of
100,000 files and 10,000 footers are told by `python -m tests.heavy.store_latency`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import geolake_nb as gl
from tests.heavy.bench_open_delta import make_checkpoint, make_json
from tests.heavy.folder_store import folder_store
from tests.http_proxy import longest_chain, most_in_flight, proxy_to
from tests.promises.stored_tables import in_parts, many_files, many_manifests, with_long_log, with_sidecars
from tests.small_tables import make_delta, make_havasu, make_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.http_proxy import Exchange
    from tests.storage.s3_endpoint import S3Endpoint

pytestmark = pytest.mark.xdist_group("promises")

DELAY = 0.05
FILES = 2000
FOOTERS = 300
LONGEST_CHAIN = 20
FEWEST_IN_FLIGHT = 64

TABLES = {
    "delta, small": make_delta,
    "delta, one checkpoint": lambda folder: make_checkpoint(folder, "geo", FILES),
    "delta, 30 parts": lambda folder: in_parts(folder, FILES, 30),
    "delta, 30 sidecar files": lambda folder: with_sidecars(folder, FILES, 30),
    "delta, commits": lambda folder: make_json(folder, "geo", FILES),
    "iceberg, 30 manifests": lambda folder: many_manifests(folder, FILES, 30),
    "havasu": make_havasu,
    "parquet": make_parquet,
}


class SlowStore:
    """The endpoint, seen through the proxy."""

    def __init__(self, s3: S3Endpoint, url: str, seen: list[Exchange]) -> None:
        self.upload = s3.upload  # past the proxy
        self._options = s3.options | {"aws_endpoint": url}
        self.seen = seen

    def open(self, url: str) -> gl.Table:
        """Open a table through the proxy, which remembers only this."""
        self.seen.clear()
        return gl.open(url, storage_options=self._options)


@pytest.fixture(scope="module")
def store(s3) -> Iterator[SlowStore]:
    with proxy_to(s3.url, delay=DELAY) as proxy:
        yield SlowStore(s3, proxy.url, proxy.seen)


@pytest.mark.parametrize("name", TABLES)
def test_opening_needs_few_sequential_requests(store, tmp_path, name):
    TABLES[name](tmp_path / "t")
    table = store.open(store.upload(tmp_path / "t", "lake", f"latency/{tmp_path.name}"))
    assert len(table.files) == len(gl.open(str(tmp_path / "t")).files)
    assert all(exchange.ended - exchange.began >= DELAY for exchange in store.seen)
    assert longest_chain(store.seen) <= LONGEST_CHAIN
    if "30" in name:
        assert len(store.seen) > 30
        assert most_in_flight(store.seen) >= 8  # parts of one thing are not waited for one by one
    # What needs no more than the metadata sends no request.
    store.seen.clear()
    table.explain("ST_Intersects(geom, ST_MakeEnvelope(5, 45, 11, 60))")
    str(table)
    assert store.seen == []


def test_a_long_log_is_not_listed_from_its_start(tmp_path):
    folder = with_long_log(tmp_path / "lake" / "t", FILES, 2_500)
    with folder_store(tmp_path, delay=DELAY) as store:
        store.seen()
        table = gl.open("s3://lake/t", storage_options=store.options)
        seen = store.seen()
        # Its history is that of the whole log.
        assert [entry.version for entry in table.history()] == [*range(2_502, -1, -1)]
    assert (table.version, len(table.files)) == (2_502, FILES)
    assert table.files.table.equals(gl.open(folder).files.table)
    # What is there first, and what comes after the checkpoint: the whole takes three.
    assert sum("list-type" in exchange.path and "_delta_log" in exchange.path for exchange in seen) == 2
    assert longest_chain(seen) <= LONGEST_CHAIN


def test_a_set_of_parquet_files_is_listed_once(tmp_path):
    folder = tmp_path / "lake" / "t"
    folder.parent.mkdir()
    make_parquet(folder)
    first = next(folder.rglob("*.parquet"))
    for number in range(1_500):
        (folder / f"linked-{number:05}.parquet").hardlink_to(first)
    with folder_store(tmp_path, delay=0) as store:
        store.seen()
        table = gl.open("s3://lake/t", storage_options=store.options)
        listings = [
            exchange.path
            for exchange in store.seen()
            if "prefix=t" in exchange.path and "metadata" not in exchange.path
        ]
    assert len(table.files) == len(gl.open(folder).files) > 1_500
    # Two answers for all the names; before, one each to see that there is no log, that there are files, and a folder.
    assert len(listings) == 5


def test_many_footers_are_requested_concurrently(store, tmp_path):
    table = store.open(store.upload(many_files(tmp_path / "t", FOOTERS), "lake", f"latency/{tmp_path.name}"))
    for act in (table.row_groups, table.plan_repair):
        store.seen.clear()
        act()
        footers = [exchange for exchange in store.seen if exchange.path.endswith(".parquet")]
        assert len(footers) == FOOTERS  # one request for each
        assert most_in_flight(footers) >= FEWEST_IN_FLIGHT
