"""Two writers that race for one table through PyIceberg: `python -m tests.heavy.pyiceberg_races [COMMITS]`.

Each commits 200 times, once for a table in SQLite and once for one in Iceberg's REST server. None of their commits may
be lost or doubled.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import geolake_nb.pyiceberg as geo
from tests.iceberg_rest import serve_rest
from tests.pyiceberg.test_commits import assert_none_is_lost_or_doubled, race

COMMITS = 200


def main(commits: int = COMMITS) -> None:
    """Let them race, and count."""
    geo.enable()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report("SQLite", f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", "sql", commits)
        with serve_rest(folder) as uri:
            report("REST", uri, "", "rest", commits)


def report(title: str, uri: str, warehouse: str, kind: str, commits: int) -> None:
    """One race."""
    start = time.perf_counter()
    told, table = race(uri, warehouse, kind, commits, patience=3600)
    assert len(told) == 2 * commits
    assert_none_is_lost_or_doubled(told, table)
    seconds = time.perf_counter() - start
    print(f"{title}: {len(told)} commits of two writers, none lost, none doubled, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
