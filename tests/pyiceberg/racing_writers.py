"""A writer that appends one row after the other, in a process of its own.

It tries again what the catalog has refused, and prints each id that it has been told is in the table.
"""

from __future__ import annotations

import sys

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, RESTError

import geolake_nb.pyiceberg as geo
from tests.pyiceberg.geo_rows import rows

__all__ = ["load", "main"]


def load(uri: str, warehouse: str, kind: str):
    """The catalog for which writers race."""
    return load_catalog("race", type=kind, uri=uri, **({"warehouse": warehouse} if warehouse else {}))


def main(uri: str, warehouse: str, kind: str, start: str, count: str) -> None:
    """Append the rows."""
    geo.enable()
    table = load(uri, warehouse, kind).load_table("ns.raced")
    for number in range(int(start), int(start) + int(count)):
        while True:
            try:
                table.append(rows(number, count=1))
            except CommitFailedException:
                table.refresh()
                continue
            except CommitStateUnknownException:
                # The server of the tests may fail on its own database: whether the commit is there has to be looked up.
                if not has_row(table, number):
                    continue
            print(number, flush=True)
            break


def has_row(table, number: int) -> bool:
    """Whether an append is in the table, as soon as the catalog answers."""
    while True:
        try:
            rows_there = table.refresh().scan(selected_fields=("id",)).to_arrow()
        except RESTError:
            continue
        return number in rows_there["id"].to_pylist()


if __name__ == "__main__":
    main(*sys.argv[1:])
