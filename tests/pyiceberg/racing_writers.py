"""A writer that appends one row after the other.

`python -m tests.pyiceberg.racing_writers URI WAREHOUSE KIND START COUNT` tries again what the catalog has refused, and prints each id that it has been told is in the table.
"""

from __future__ import annotations

import sys

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

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
            print(number, flush=True)
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
