"""Catalogs of a thousand tables: `python -m tests.heavy.catalog_scale [--tables 1000] [--delay 0.05]`.

The same tables are listed by Iceberg's REST server and by a database, and as folders on a disk and in a store; the
server and the store answer 50 ms late. The tree has to be there within a second, the details of all tables within two
minutes, and they have to be those of each table when it is opened alone; at most 16 requests are under way at once.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import requests

import geolake_nb as gl
from geolake_nb.api.catalog_details import TableDetails, details_of
from geolake_nb.formats.catalog_server import IN_FLIGHT
from tests import small_tables
from tests.heavy.folder_store import folder_store
from tests.http_proxy import most_in_flight, proxy_to
from tests.iceberg_rest import serve_rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.api.catalog import Catalog
    from tests.http_proxy import Exchange

TREE_SECONDS = 1.0
DETAILS_SECONDS = 120.0
_PER_NAMESPACE = 50
_COMPARED = ("format", "geo_columns", "files", "rows", "bytes", "coverage", "errors", "warnings", "box")


def make_iceberg_tables(folder: Path, count: int) -> dict[tuple[str, str], Path]:
    """The metadata files of tables, by namespace and name."""
    first = small_tables.make_iceberg(folder / "first")
    newest = sorted((first / "metadata").glob("*.metadata.json"))[-1]
    return {(f"ns{number // _PER_NAMESPACE:02}", f"t{number:04}"): newest for number in range(count)}


def make_folders(folder: Path, count: int) -> None:
    """Delta tables with and without bounds, and Parquet files, in folders of fifty."""
    folder.mkdir(parents=True)
    made = [
        small_tables.make_delta(folder.parent / "plain", bounds=False),
        small_tables.make_delta(folder.parent / "bounded"),
        small_tables.make_parquet(folder.parent / "files"),
    ]
    for number in range(count):
        target = folder / f"ns{number // _PER_NAMESPACE:02}" / f"t{number:04}"
        shutil.copytree(made[number % len(made)], target)


def make_database(path: Path, tables: dict[tuple[str, str], Path]) -> str:
    """A SQL catalog as PyIceberg lays it out."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{path}"
    catalog = SqlCatalog("scale", uri=uri, warehouse=str(path.parent))
    catalog.engine.dispose()
    with sqlite3.connect(path) as connection:
        rows = [("scale", namespace, name, f"file://{file}") for (namespace, name), file in tables.items()]
        columns = "catalog_name, table_namespace, table_name, metadata_location"
        connection.executemany(f"INSERT INTO iceberg_tables ({columns}) VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return uri


def register(uri: str, tables: dict[tuple[str, str], Path]) -> None:
    """Register the tables with a REST server."""
    for namespace in dict.fromkeys(namespace for namespace, _ in tables):
        answer = requests.post(f"{uri}/v1/namespaces", json={"namespace": [namespace], "properties": {}}, timeout=60)
        answer.raise_for_status()
    with requests.Session() as session:
        for (namespace, name), file in tables.items():
            body = {"name": name, "metadata-location": str(file)}
            session.post(f"{uri}/v1/namespaces/{namespace}/register", json=body, timeout=60).raise_for_status()


def measure(
    title: str, catalog: Catalog, count: int, seen: Callable[[], list[Exchange]] | None, opened: Catalog
) -> bool:
    """List, read the details, compare with each table opened alone, and print a line."""
    began = time.perf_counter()
    top = catalog.children()
    tree = time.perf_counter() - began
    if seen is not None:
        seen()
    began = time.perf_counter()
    details = {entry.path: entry for entry in catalog.iter_details()}
    seconds = time.perf_counter() - began
    most = most_in_flight(seen()) if seen is not None else None
    problems = [entry.problem for entry in details.values() if entry.problem is not None]
    known = {path: entry for path, entry in details.items() if entry.problem is None}
    wrong = sum(facts(entry) != facts(details_of(path, opened.open(path))[0]) for path, entry in known.items())
    good = (
        tree <= TREE_SECONDS
        and seconds <= DETAILS_SECONDS
        and len(known) == count
        and not problems
        and not wrong
        and (most is None or most <= IN_FLIGHT)
    )
    under_way = "" if most is None else f", {most} requests at once at most"
    print(
        f"{title:22} tree of {len(top)} entries {tree:.2f} s, details of {len(details):,} tables {seconds:.1f} s"
        f"{under_way}, {wrong} differ{'' if good else '  MISSED'}",
        flush=True,
    )
    for problem in problems[:3]:
        print(f"  {problem}")
    return good


def facts(entry: TableDetails) -> list[object]:
    """What has to be equal; where a table is and when a copy was made is not."""
    return [getattr(entry, name) for name in _COMPARED]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds before each answer")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lake = folder / "bucket" / "lake"
        make_folders(lake, options.tables)
        tables = make_iceberg_tables(folder, options.tables)
        uri = stack.enter_context(serve_rest(folder))
        register(uri, tables)
        slow = stack.enter_context(proxy_to(uri, delay=options.delay))
        store = stack.enter_context(folder_store(folder, delay=options.delay))
        local = gl.catalog(lake)
        near = gl.catalog("rest", uri=uri)

        def seen_by_proxy() -> list[Exchange]:
            exchanges, slow.seen[:] = list(slow.seen), []
            return exchanges

        database = make_database(folder / "catalog.db", tables)
        bucket = gl.catalog("s3://bucket/lake", storage_options=store.options)
        good = [
            measure("folder", local, options.tables, None, local),
            measure("SQLite", gl.catalog("sql", uri=database, name="scale"), options.tables, None, near),
            measure("REST, late", gl.catalog("rest", uri=slow.url), options.tables, seen_by_proxy, near),
            measure("S3, late", bucket, options.tables, store.seen, local),
        ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
